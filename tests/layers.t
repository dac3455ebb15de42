# Goal of this test: the arrows of the design hold. lock/ and db/ know nothing
# of each other nor of server/; server/ knows them by their public headers; each
# outside library is known only to the one or two files that @OUTSIDE names. And
# nothing grows out of one's head: files up to 400 lines, functions up to 70;
# tests may be longer files.
use strict;
use warnings;
use File::Basename qw(dirname);
use File::Path qw(make_path);
use File::Temp ();
use FindBin;
use Test::More;

my $FILE_LINES_MAX     = 400;
my $FUNCTION_LINES_MAX = 70;

# folder => what its files may include of ours ("lock/x.lua.inc" is generated)
my %MAY = (
    lock   => [qr{^lock/}],
    db     => [qr{^db/}],
    server => [qr{^server/}, qr{^lock/dlock(?:_failpoint)?\.h$}, qr{^db/store(?:_stream|_segments)?\.h$}, qr{^static/}],
);

# outside header => the only files that may include it
my @OUTSIDE = (
    [qr{^(?:hiredis/)?(?:hiredis|async|sds|read)\.h$}, 'lock/wire.c', 'server/warm/keys.c'],
    [qr{^(?:mysql|mariadb(?:/.*)?)\.h$|^(?:mysqld_error|errmsg)\.h$}, 'lock/sql.c'],
    [qr{^zookeeper/.*\.h$},                            'lock/zk_handle.c'],
    [qr{^sqlite3(?:ext)?\.h$},                         'db/sqlite_private.h'],
    [qr{^db/sqlite_private\.h$},                       'db/sqlite.c',        'db/wal.c'],
    [qr{^microhttpd\.h$},       'server/http/mhd.c',   'server/http/response.c'],
    [qr{^jansson\.h$},          'server/http/parse.c', 'server/http/render.c'],
    [qr{^ini\.h$},              'server/config.c',     'server/config_file.c'],
);

# Outside headers that only one of their files may include at a time.
my @ALONE = (qr{^ini\.h$});

sub lines_of {
    my ($path) = @_;
    open my $file, '<', $path or die "$path: $!";
    my @lines = <$file>;
    return @lines;
}

sub files_of {
    my ($root, $folder) = @_;
    my @files = map { glob "$root/$folder$_" } '/*.[ch]', '/*/*.[ch]';
    s{^\Q$root\E/}{} for @files;
    @files = sort @files;
    return @files;
}

# [header, by quotes?] for each #include of a file
sub includes_of {
    my ($path) = @_;
    return map { /^\s*#\s*include\s*([<"])([^>"]+)[>"]/ ? [$2, $1 eq '"'] : () } lines_of($path);
}

sub wrong_includes {
    my ($root, $folder) = @_;
    my (@wrong, %users);
    for my $file (files_of($root, $folder)) {
        for my $include (includes_of("$root/$file")) {
            my ($header, $ours) = @$include;
            push @wrong, "$file includes $header"
                if $MAY{$folder} && ($ours || -e "$root/$header") && !grep { $header =~ $_ } @{ $MAY{$folder} };
            for my $rule (@OUTSIDE) {
                my ($pattern, @only) = @$rule;
                next if $header !~ $pattern;
                push @wrong, "$file includes $header" if !grep { $_ eq $file } @only;
                push @{ $users{$header} }, $file if grep { $_ eq $pattern } @ALONE;
            }
        }
    }
    push @wrong, map { "more than one file includes $_" } grep { @{ $users{$_} } > 1 } sort keys %users;
    return @wrong;
}

# A function's braces stand in the first column: .clang-format sees to that.
sub too_long {
    my ($root, $folder) = @_;
    my @wrong;
    for my $file (files_of($root, $folder)) {
        my @lines = lines_of("$root/$file");
        push @wrong, "$file has " . @lines . ' lines' if @lines > $FILE_LINES_MAX && $folder ne 'tests';
        my $begin;
        for my $i (0 .. $#lines) {
            $begin = $i if $lines[$i] =~ /^\{/;
            next if $lines[$i] !~ /^\}/ || !defined $begin;
            my $length = $i - $begin + 1;
            push @wrong, "$file:" . ($begin + 1) . " a function of $length lines" if $length > $FUNCTION_LINES_MAX;
            undef $begin;
        }
    }
    return @wrong;
}

my $root = "$FindBin::Bin/..";
for my $folder (sort keys %MAY) {
    cmp_ok scalar files_of($root, $folder), '>', 0, "$folder/ has files";
    my @wrong = wrong_includes($root, $folder);
    is_deeply \@wrong, [], "$folder/ includes what it may" or diag join "\n", @wrong;
}
for my $folder (sort(keys %MAY), 'tests') {
    my @wrong = too_long($root, $folder);
    is_deeply \@wrong, [], "$folder/ is made of small pieces" or diag join "\n", @wrong;
}

# ---- the test of the test: what is planted has to be found ----------------

# A tree in a temporary folder from (path => text).
sub plant {
    my %files = @_;
    my $tree  = File::Temp->newdir('stockade-layers-XXXXXX', TMPDIR => 1);
    for my $path (keys %files) {
        make_path(dirname("$tree/$path"));
        open my $file, '>', "$tree/$path" or die "$path: $!";
        print {$file} $files{$path};
    }
    return $tree;
}

my @planted = (
    ['lock/a.c',        qq{#include "db/store.h"\n}],
    ['lock/a.c',        qq{#include "server/log.h"\n}],
    ['lock/a.c',        qq{#include "../db/store.h"\n}],
    ['db/a.c',          qq{#  include "lock/dlock.h"\n}],
    ['server/a.c',      qq{#include "lock/strategy.h"\n}],
    ['server/http/a.c', qq{#include "db/sqlite.h"\n}],
    ['lock/a.c',        qq{#include <hiredis/hiredis.h>\n}],
    ['server/a.c',      qq{#include <hiredis/hiredis.h>\n}],
    ['server/warm/a.c', qq{#include <hiredis/hiredis.h>\n}],
    ['lock/lock_sql.c', qq{#include <mysql.h>\n}],
    ['lock/zk.c',       qq{#include <zookeeper/zookeeper.h>\n}],
    ['db/store.c',      qq{#include <sqlite3.h>\n}],
    ['server/main.c',   qq{#include <microhttpd.h>\n}],
    ['server/http/http.c', qq{#include <jansson.h>\n}],
    ['server/log.c',    qq{#include <ini.h>\n}],
);
for my $case (@planted) {
    my ($path, $text) = @$case;
    my ($folder) = $path =~ m{^(\w+)/};
    (my $what = $text) =~ s/\n//;
    is scalar wrong_includes(plant($path => $text), $folder), 1, "found: $what in $path";
}
my $two = plant('server/config.c' => "#include <ini.h>\n", 'server/config_file.c' => "#include <ini.h>\n");
is scalar wrong_includes($two, 'server'), 1, 'found: two files that include <ini.h>';
my $db = plant('db/store.h' => '', 'server/a.c' => "#include <db/store.h>\n#include <db/sqlite.h>\n", 'db/sqlite.h' => '');
is_deeply [wrong_includes($db, 'server')], ['server/a.c includes db/sqlite.h'], 'found: ours in angle brackets';
my $fine = plant(
    'lock/wire.c'   => qq{#include "lock/wire.h"\n#include <hiredis/hiredis.h>\n#include "lock/x.lua.inc"\n},
    'server/main.c' => qq{#include "lock/dlock.h"\n#include "db/store.h"\n#include <stdio.h>\n},
);
is scalar wrong_includes($fine, $_), 0, "nothing found where nothing is: $_" for qw(lock server);
is scalar too_long(plant('db/a.c' => "\n" x 401), 'db'), 1, 'found: a file of 401 lines';
is scalar too_long(plant('db/a.c' => "\n" x 400), 'db'), 0, 'and 400 are fine';
my $long = "int f(void)\n{\n" . "    x();\n" x 69 . "}\n";
is scalar too_long(plant('db/a.c' => $long), 'db'), 1, 'found: a function of 71 lines';
(my $short = $long) =~ s/    x\(\);\n//;
is scalar too_long(plant('db/a.c' => $short), 'db'), 0, 'and 70 are fine';
done_testing;
