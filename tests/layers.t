# Goal of this test: the arrows of the design hold. lock/ and db/ know nothing
# of each other nor of server/; server/ knows them by their public headers; each
# outside library is known only to the one or two files that @OUTSIDE names.
# Headers include each other in no circle, nor do folders. What is private to two
# or three files stays among them, and no test looks at it. And nothing grows too
# large to be understood: files up to 600 lines, those of tests as well, functions
# up to 70, folders up to 22 sources.
use strict;
use warnings;
use File::Basename qw(dirname);
use File::Find qw(find);
use File::Path qw(make_path);
use File::Temp ();
use FindBin;
use Test::More;

my $FILE_LINES_MAX     = 600;
my $FUNCTION_LINES_MAX = 70;
my $SOURCES_MAX        = 22;
my $DEPTH_MAX          = 2; # server/lab/stage

# folder => what its files may include of ours ("lock/redis/scripts.inc" and others are generated).
# The root of lock/ has its public headers. On it stand core, dial, redis and the others, in
# this order: core knows the folders above it by the tables of struct dlock_strategy only.
my $CORE = qr{^lock/(?:dlock\w*|core/\w+)\.h$};
# The floors of the service: base, order, http, and on top what wires them up; the
# laboratory knows no http.
my $LOCK  = qr{^lock/(?:dlock(?:_url)?|textbook/textbook)\.h$};
my $STORE = qr{^db/(?:store(?:_async)?\.h|audit\.inc)$};
# The floors of the store: its database, the ledger in it, and the store itself.
my $SQL    = qr{^db/(?:base|sql|store)\.h$};
my $LEDGER = qr{^db/(?:(?:base|sql|soldout|store|store_async)\.h|audit\.inc)$};
# The floors of the laboratory, the lowest first: each knows those before it.
my @LAB    = (qr{^server/(?:base|order)/}, $LOCK, $STORE, qr{^loadtest/orders\.lua\.inc$}, qr{^static/(?:lab|browser|colours|chart\.js)});
my @FLOORS = qw(base servers scene timeline live world turns programs lessons stage picture search replay explore load experiments conform path serve);
my %MAY = (
    lock             => [qr{^lock/dlock\w*\.h$}],
    'lock/core'      => [$CORE, qr{^lock/core/strategies\.inc$}],
    'lock/async'     => [$CORE, qr{^lock/async/}],
    'lock/dial'      => [$CORE, qr{^lock/dial/}],
    'lock/redis'     => [$CORE, qr{^lock/(?:redis|dial)/}],
    'lock/deadlock'  => [$CORE, qr{^lock/(?:deadlock|redis|dial)/}],
    'lock/quorum'    => [$CORE, qr{^lock/(?:quorum|redis|dial)/}],
    'lock/tls'       => [$CORE, qr{^lock/tls/}],
    'lock/sql'       => [$CORE, qr{^lock/(?:sql|dial)/}],
    'lock/zookeeper' => [$CORE, qr{^lock/(?:zookeeper|dial)/}],
    'lock/textbook'  => [$CORE, qr{^lock/backends\.h$}, qr{^lock/(?:textbook|redis|sql)/}],
    db          => [$LEDGER, qr{^db/lockfile\.h$}],
    'db/store'  => [qr{^db/}],
    'db/ledger' => [$LEDGER, qr{^db/ledger/}],
    'db/sqlite' => [$SQL, qr{^db/sqlite/}],
    'db/mysql'  => [$SQL, qr{^db/mysql/}],
    (map { ("db/$_.c" => [$SQL], "db/$_.h" => [$SQL]) } qw(base sql)),
    'server/base'      => [qr{^server/base/}, $LOCK, $STORE],
    'server/base/values.c' => [qr{^server/base/}, qr{^lock/(?:core/session\.h|redis/(?:call\.h|ask\.lua\.inc))$}],
    'server/order'     => [qr{^server/(?:base|order)/}, $LOCK, $STORE],
    'server/inventory' => [qr{^server/(?:base|inventory)/}, $STORE],
    'server/http'      => [qr{^server/(?:base|order|inventory|http)/}, $LOCK, $STORE, qr{^static/}],
    'server/lab'       => [@LAB, qr{^server/lab/}],
    (map { my $below = join '|', 'help', @FLOORS[0 .. $_]; ("server/lab/$FLOORS[$_]" => [@LAB, qr{^server/lab/(?:$below)/}]) } 0 .. $#FLOORS),
    server             => [qr{^server/}, $LOCK, $STORE],
);

# outside header => the only files that may include it
my @OUTSIDE = (
    [qr{^(?:hiredis/)?(?:hiredis|async|sds|read)\.h$}, 'lock/redis/wire.c', 'lock/dial/question.h', 'server/lab/servers/peek.c'],
    [qr{^(?:mysql|mariadb(?:/.*)?)\.h$|^(?:mysqld_error|errmsg)\.h$}, 'lock/sql/sql.c', 'db/mysql/mysql_private.h', 'db/mysql/connection.c', 'db/mysql/mysql.c'],
    [qr{^openssl/.*\.h$},     'lock/tls/tls.c'],
    [qr{^zookeeper/.*\.h$},   'lock/zookeeper/zk.c'],
    [qr{^sqlite3(?:ext)?\.h$}, 'db/sqlite/sqlite.c', 'server/lab/programs/programs.c', 'server/lab/turns/watch_store.c',
     'server/lab/world/disk.c'],
    [qr{^microhttpd\.h$},     'server/http/mhd.c', 'server/lab/serve/lab_serve.c'],
    [qr{^jansson\.h$},        'server/http/parse.c', 'server/http/render.c', 'server/lab/timeline/timeline.c', 'server/lab/picture/draw.h',
     'server/lab/serve/api.c', 'server/lab/conform/lab_locks.c'],
    [qr{^systemd/.*\.h$},     'server/main_loop.c'],
    [qr{^curl/.*\.h$},        'server/base/fetch.c'],
);

# It was there before this was a rule. None may be added: a circle is known by all
# headers, or folders, that are in it.
my @CIRCLES_KNOWN = ('lock/dlock.h lock/dlock_async.h lock/dlock_inspect.h');

# The folders that are read with all that is in them.
my @TOP = sort grep { !m{/} } keys %MAY;

sub lines_of {
    my ($path) = @_;
    open my $file, '<', $path or die "$path: $!";
    my @lines = <$file>;
    return @lines;
}

# Headers and sources of a folder and of those in it; and its Perl.
sub files_of {
    my ($root, $folder) = @_;
    my @files;
    find({ no_chdir => 1, wanted => sub { push @files, $_ if /\.(?:[ch]|pm|t)$/ } }, "$root/$folder") if -d "$root/$folder";
    s{^\Q$root\E/}{} for @files;
    @files = sort @files;
    return @files;
}

# [header, by quotes?] for each #include of a file
sub includes_of {
    my ($path) = @_;
    return map { /^\s*#\s*include\s*([<"])([^>"]+)[>"]/ ? [$2, $1 eq '"'] : () } lines_of($path);
}

# The rule of the file, or of the innermost folder that has one; undef where none has.
sub rule_for {
    my ($file) = @_;
    my ($folder) = sort { length $b <=> length $a } grep { $file eq $_ || index($file, "$_/") == 0 } keys %MAY;
    return $folder && $MAY{$folder};
}

sub wrong_includes {
    my ($root, $folder) = @_;
    my @wrong;
    for my $file (files_of($root, $folder)) {
        my $may = rule_for($file);
        for my $include (includes_of("$root/$file")) {
            my ($header, $ours) = @$include;
            push @wrong, "$file includes $header"
                if $may && ($ours || -e "$root/$header") && !grep { $header =~ $_ } @$may;
            for my $rule (@OUTSIDE) {
                my ($pattern, @only) = @$rule;
                next if $header !~ $pattern;
                push @wrong, "$file includes $header" if !grep { $_ eq $file } @only;
            }
            push @wrong, "$file includes $header, which is private"
                if $header =~ m{^(.*/)\w+_private\.h$} && index($file, $1) != 0;
        }
    }
    return @wrong;
}

# A folder's sources, and how deep it lies.
sub too_full {
    my ($root, $folder) = @_;
    my (%sources, @wrong);
    $sources{ dirname($_) }++ for grep { /\.c$/ } files_of($root, $folder);
    for my $inner (sort keys %sources) {
        push @wrong, "$inner/ has $sources{$inner} sources" if $sources{$inner} > $SOURCES_MAX;
        push @wrong, "$inner/ lies too deep" if ($inner =~ tr{/}{}) > $DEPTH_MAX;
    }
    return @wrong;
}

# header => [headers of ours that it includes]
sub header_graph {
    my ($root, @folders) = @_;
    my %graph;
    for my $file (grep { /\.h$/ } map { files_of($root, $_) } @folders) {
        my @found = map { my $header = $_->[0]; grep { -e "$root/$_" } $header, dirname($file) . "/$header" } includes_of("$root/$file");
        $graph{$file} = \@found;
    }
    return \%graph;
}

# folder => [folders that its files include something of]
sub folder_graph {
    my ($root, @folders) = @_;
    my %graph;
    for my $file (map { files_of($root, $_) } @folders) {
        my $folder = dirname($file);
        push @{ $graph{$folder} }, grep { $_ ne $folder && -d "$root/$_" } map { $_->[0] =~ m{^(.+)/} } includes_of("$root/$file");
    }
    return \%graph;
}

# The same of a folder's units, NAME.c with NAME.h: headers alone do not show what their
# sources need.
sub unit_graph {
    my ($root, $folder) = @_;
    my %graph;
    for my $file (files_of($root, $folder)) {
        (my $unit = $file) =~ s/\.[ch]$//;
        for my $include (includes_of("$root/$file")) {
            (my $other = $include->[0]) =~ s/\.h$//;
            push @{ $graph{$unit} }, $other if $other ne $unit && -e "$root/$include->[0]";
        }
    }
    return \%graph;
}

sub reach {
    my ($graph, $from) = @_;
    my @todo = @{ $graph->{$from} // [] };
    my %reached;
    while (defined(my $next = shift @todo)) {
        push @todo, @{ $graph->{$next} // [] } if !$reached{$next}++;
    }
    return \%reached;
}

# Each by the names of all headers that are in it.
sub circles {
    my ($graph) = @_;
    my %reached = map { $_ => reach($graph, $_) } keys %$graph;
    my %circles;
    for my $header (grep { $reached{$_}{$_} } keys %reached) {
        my @members = grep { $reached{$header}{$_} && $reached{$_}{$header} } sort keys %{ $reached{$header} };
        $circles{"@members"} = 1;
    }
    return sort keys %circles;
}

# A function's braces stand in the first column: .clang-format sees to that.
sub too_long {
    my ($root, $folder) = @_;
    my @wrong;
    for my $file (files_of($root, $folder)) {
        my @lines = lines_of("$root/$file");
        push @wrong, "$file has " . @lines . ' lines' if @lines > $FILE_LINES_MAX;
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
for my $folder (@TOP) {
    cmp_ok scalar files_of($root, $folder), '>', 0, "$folder/ has files";
    my @wrong = wrong_includes($root, $folder);
    is_deeply \@wrong, [], "$folder/ includes what it may" or diag join "\n", @wrong;
}
for my $folder (@TOP) {
    my @wrong = too_full($root, $folder);
    is_deeply \@wrong, [], "the folders of $folder/ are not too large" or diag join "\n", @wrong;
}
is_deeply [circles(header_graph($root, @TOP))], \@CIRCLES_KNOWN, 'headers include each other in no circle';
is_deeply [circles(folder_graph($root, @TOP))], [], 'nor do folders';
is_deeply [circles(unit_graph($root, 'lock/core'))], [], 'nor do files of the core of lock/';
my @private = map { my $file = $_; map { "$file includes $_->[0]" } grep { $_->[0] =~ /_private\.h$/ } includes_of("$root/$file") }
    files_of($root, 'tests');
is_deeply \@private, [], 'no test looks at what is private';
for my $folder (@TOP, 'tests') {
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

# One of each kind: each rule is a row of the tables above.
my %wrong = (
    'lock/a.c'             => '"db/store.h"',
    'lock/b.c'             => '"../db/store.h"',
    'db/a.c'               => '"lock/dlock.h"',
    'lock/core/session.c'  => '"lock/async/async.h"',
    'db/ledger/place.c'    => '"db/store/committer.h"',
    'db/soldout.h'         => '"db/ledger/place.h"',
    'server/http/a.c'      => '"db/sqlite/sqlite.h"',
    'server/lab/stage/a.c' => '"server/http/http.h"',
    'server/lab/world/a.c' => '"server/lab/stage/stage.h"',
    'server/a.c'           => '"server/order/locks_private.h"',
    'server/b.c'           => '<hiredis/hiredis.h>',
    'server/http/reply.c'  => '<jansson.h>',
    'server/c.c'           => '<db/sqlite.h>',
);
my %right = ('db/sqlite.h' => '', 'server/d.c' => "#include <db/store.h>\n", 'db/store.h' => '');
my $bad   = plant(%right, map { ($_ => "#  include $wrong{$_}\n") } keys %wrong);
my @found = map { s/,.*//r } map { wrong_includes($bad, $_) } @TOP;
is_deeply [sort @found], [sort map { "$_ includes " . $wrong{$_} =~ tr/"<>//dr } keys %wrong],
    'found: each include that may not be';

# Folders.
my %full = map { ("server/order/f$_.c" => '', "server/order/f$_.h" => '', "server/http/f$_.c" => '') } 1 .. 22;
is_deeply [too_full(plant(%full, 'server/order/one_more.c' => '', 'server/lab/stage/json/a.c' => ''), 'server')],
    ['server/lab/stage/json/ lies too deep', 'server/order/ has 23 sources'], 'found: 23 sources; headers do not count, and each folder by itself';

# Circles.
sub includes {
    return join '', map { qq{#include "$_"\n} } @_;
}
my $round = plant(
    'db/a.h'           => includes('db/a.h'),
    'db/a.c'           => includes('db/x/b.h'),
    'db/x/d.c'         => includes('db/a.h'),
    'db/x/b.h'         => includes('c.h'),
    'db/x/c.h'         => includes('db/x/b.h'),
    'server/a.h'       => includes('server/order/b.h'),
    'server/order/b.h' => includes('stdio.h', 'server/http/c.h'),
    'server/http/c.h'  => "#include <server/a.h>\n",
    'server/d.h'       => includes('server/a.h', 'server/order/b.h'),
);
is_deeply [circles(header_graph($round, @TOP))], ['db/a.h', 'db/x/b.h db/x/c.h', 'server/a.h server/http/c.h server/order/b.h'],
    'found: circles of one, two and three, and not who only includes one of them';
is_deeply [circles(folder_graph($round, @TOP))], ['db db/x', 'server server/http server/order'], 'found: those of folders, by their sources as well';
my %pair = ('lock/core/a.h' => '', 'lock/core/a.c' => includes('lock/core/a.h', 'lock/core/b.h'), 'lock/core/b.h' => '');
is_deeply [circles(unit_graph(plant(%pair), 'lock/core'))], [], 'a source that needs a header is no circle';
is_deeply [circles(unit_graph(plant(%pair, 'lock/core/b.c' => includes('lock/core/a.h')), 'lock/core'))],
    ['lock/core/a lock/core/b'], 'found: two files that need each other';

# Sizes.
my $long = "int f(void)\n{\n" . "    x();\n" x 69 . "}\n";
my $large = plant('tests/a.c' => "\n" x 601, 'tests/e2e/A.pm' => "\n" x 600, 'tests/b.c' => $long, 'tests/c.c' => $long =~ s/    x\(\);\n//r);
is_deeply [too_long($large, 'tests')], ['tests/a.c has 601 lines', 'tests/b.c:2 a function of 71 lines'], 'found: 601 and 71 lines, and not 600 and 70';
done_testing;
