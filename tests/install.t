# Goal of this test: libdlock stands alone. What `make install-dlock` puts down is
# enough to build and run a program, shared and static; the library shows what
# its headers promise and nothing else; locks on several servers, over SQL and
# ZooKeeper come by name only, and those of the textbooks not at all; the manual
# page is one; and `make uninstall-dlock` leaves nothing behind.
use strict;
use warnings;
use File::Find ();
use FindBin;
use lib "$FindBin::Bin/e2e";
use Test::More;

use Stockade        ();
use Stockade::Redis ();

plan skip_all => 'built without sanitizers' if $ENV{SAN};

my $ROOT   = "$FindBin::Bin/..";
my $PREFIX = '/opt/dlock';
my $DEST   = Stockade::tempdir();
my $OPT    = "$DEST$PREFIX";

# Output and errors of a shell command, and whether it went well.
sub run {
    my ($command) = @_;
    my $output = `$command 2>&1`;
    return ($? == 0, $output);
}

sub works {
    my ($command, $what) = @_;
    my ($good, $output) = run($command);
    ok $good, $what or diag "$command\n$output";
    return $output;
}

sub files_in {
    my ($folder) = @_;
    my @files;
    File::Find::find(sub { push @files, $File::Find::name =~ s{^\Q$folder\E/}{}r if !-d }, $folder);
    return sort @files;
}

sub text_of {
    my ($path) = @_;
    open my $file, '<', $path or die "$path: $!";
    local $/ = undef;
    return scalar <$file>;
}

# A build of its own, so that nobody's binaries change under him.
sub make {
    my ($goal) = @_;
    return works("make -s -C $ROOT -j2 SAN= B=build/install PREFIX=$PREFIX DESTDIR=$DEST WERROR=-Werror $goal",
        "make $goal");
}

make('install-dlock');
my @files = files_in($OPT);
my ($shared) = grep { /^lib\/libdlock\.so\.\d+\.\d+\.\d+$/ } @files;
ok $shared, 'a shared library with its whole version in the name';
(my $soname = $shared // 'none') =~ s{^lib/(libdlock\.so\.\d+).*}{$1};
# What is built where the headers of its client library are.
my @more = ('quorum', 'sentinel', 'cluster', (run('pkg-config --exists libssl'))[0] ? 'tls' : (), (run('pkg-config --exists libmariadb'))[0] ? 'sql' : (),
    (run("echo '#include <zookeeper/zookeeper.h>' | cc -E -x c -"))[0] ? 'zk' : ());
is_deeply \@files,
    [sort 'include/dlock.h', 'include/dlock_async.h', 'include/dlock_deadlock.h', 'include/dlock_inspect.h', 'include/dlock_step.h',
    'include/dlock_url.h', 'include/dlock_values.h', 'lib/libdlock.a', 'lib/libdlock.so', "lib/$soname", $shared, 'lib/pkgconfig/dlock.pc', 'share/man/man3/dlock.3',
    map { ("include/dlock_$_.h", "lib/libdlock-$_.a", "lib/pkgconfig/dlock-$_.pc") } @more],
    'installed is what was promised';
like works("readelf -d $OPT/$shared", 'readelf'), qr/SONAME.*\[\Q$soname\E\]/, "its soname is $soname";

# ---- a program ------------------------------------------------------------

$ENV{PKG_CONFIG_PATH}        = "$OPT/lib/pkgconfig";
$ENV{PKG_CONFIG_SYSROOT_DIR} = $DEST;
my $redis   = Stockade::Redis->start;
$redis->command('SET', '{stock:42}:dlock-fence', 0);    # else tokens begin with the time
my $example = "$FindBin::Bin/example/example.c";
my $cc      = 'cc -std=c11 -Wall -Wextra -Werror -pedantic';

works("$cc -o $DEST/shared $example \$(pkg-config --cflags --libs dlock)", 'the example builds with pkg-config');
is works("LD_LIBRARY_PATH=$OPT/lib $DEST/shared " . $redis->url . ' stock:42', 'and runs'),
    "stock:42 is mine, token 1\n", 'and holds a lock';
works("$cc -o $DEST/static $example \$(pkg-config --cflags dlock) $OPT/lib/libdlock.a "
        . q{$(pkg-config --static --libs dlock | sed 's/-ldlock//')},
    'it builds with the static library');
is works("$DEST/static " . $redis->url . ' stock:42', 'and runs'), "stock:42 is mine, token 2\n", 'and holds a lock';
my ($good, $said) = run("$DEST/static unix:/nowhere/redis.sock");
ok !$good, 'without a server it fails';
like $said, qr/^example: acquire: /, 'and says why';

works("c++ -std=c++20 -Wall -Werror -pedantic -o $DEST/cxx -xc++ $example \$(pkg-config --cflags --libs dlock)", 'a C++ program builds');
is works("LD_LIBRARY_PATH=$OPT/lib $DEST/cxx " . $redis->url . ' stock:42', 'and runs'),
    "stock:42 is mine, token 3\n", 'and holds a lock';

# ---- locks that come by name, and those that do not -----------------------

my $table = "$FindBin::Bin/example/strategies.c";
my %HAS = (quorum => [qw(multi redlock)], sql => [qw(sql-table sql-row)], zk => [qw(zk zk-fair)], sentinel => [], cluster => [], tls => []);
my $CORE = 'none process redisson fair';

works("$cc -o $DEST/core $table -I$OPT/include -L$OPT/lib -l:libdlock.a -lhiredis", 'a program with libdlock and hiredis alone');
my ($has, @says) = split /\n/, works("$DEST/core unix:/nowhere setnx token-lua recorded zk sql-row redlock setn", 'and runs');
is $has, "$CORE fenced", 'it has the locks that keep what they promise';
my $textbook = "in this program: a textbook's, and in stockade only";
is_deeply \@says,
    ["open: no strategy 'setnx' $textbook", "open: no strategy 'token-lua' $textbook", "open: no strategy 'recorded' $textbook",
    "open: no strategy 'zk' in this program: link libdlock-zk, register dlock_zk_strategies",
    "open: no strategy 'sql-row' in this program: link libdlock-sql, register dlock_sql_strategies",
    "open: no strategy 'redlock' in this program: link libdlock-quorum, register dlock_quorum_strategies",
    "open: no strategy 'setn' in this program: there is none of that name"], 'and says of others where they are';
unlike works("ldd $DEST/core", 'ldd'), qr/mariadb|mysql|zookeeper/, 'no client library but that of Redis';

# It was 191 KB when all locks were in one library, and each script had a copy of
# the parts that it shares with others; 93 KB before there were seams for Sentinel,
# Cluster, TLS and the detection of deadlocks.
my ($text) = works("size $DEST/static", 'size') =~ /^\s*(\d+)/m;
diag "text of the example, with libdlock: $text bytes, of 191415 with all locks";
cmp_ok $text, '<', 102_400, 'and it is small';

# Each alone, then all together.
for my $set (map({ [$_] } @more), @more > 1 ? [@more] : ()) {
    my $flags = join ' ', map { '-DWITH_' . uc } @$set;
    my $names = join ' ', map { "dlock-$_" } @$set;
    works("$cc -o $DEST/more $flags $table \$(pkg-config --cflags --libs $names)", "a program with $names");
    is works("$DEST/more", 'runs'), join(' ', $CORE, (map { @{ $HAS{$_} } } @$set), 'fenced') . "\n", 'and has its locks';
}
# ---- programs to learn from -----------------------------------------------

for my $name (qw(only_one workers event_loop)) {
    works("$cc -o $DEST/$name $FindBin::Bin/example/$name.c \$(pkg-config --cflags --libs dlock) -pthread", "$name builds");
}
$ENV{LD_LIBRARY_PATH} = "$OPT/lib";
my $url = $redis->url;
is works("$DEST/workers $url", 'workers runs'), "12 of 12 items done\na late write is refused\n", 'each item is done';
my $said_by_loop = works("$DEST/event_loop $url", 'event_loop runs');
my @tokens = $said_by_loop =~ /^task \d has it, token (\d+)$/mg;
is_deeply [@tokens, scalar @tokens], [(sort { $a <=> $b } @tokens), 5], 'all tasks have the lock, one after the other' or diag $said_by_loop;
like $said_by_loop, qr/^0 tasks left$/m, 'and it ends';

# A long run, that would take minutes; meanwhile another, which leaves.
is works("$DEST/only_one $url job 3", 'only_one runs'), "working\ndone\n", 'to its end';
my $pid = open my $leader, '-|', "exec $DEST/only_one $url job 30000" or die $!;
is scalar <$leader>, "working\n", 'one works';
is works("$DEST/only_one $url job 3", 'another one is started'), "it runs elsewhere\n", 'and leaves';
$redis->command('DEL', 'job');
is scalar <$leader>, "lost: gone from the server before its lease ended\n", 'one that lost the lock is told';
ok !close $leader, 'and stops';
is works("$DEST/only_one $url job 3", 'the next one runs'), "working\ndone\n", 'to its end';
delete $ENV{LD_LIBRARY_PATH};

for my $header (map { m{^include/(.*)} ? $1 : () } @files) {
    works("echo '#include <$header>' | $cc -fsyntax-only -I$OPT/include -xc -", "$header can stand alone");
    works("echo '#include <$header>' | c++ -Wall -Wextra -Werror -pedantic -fsyntax-only -I$OPT/include -xc++ -",
        "$header is C++ as well");
}

# ---- what it shows --------------------------------------------------------

my $headers = join '', map { text_of("$OPT/$_") } grep { /^include/ } @files;
my $code = $headers =~ s{/\*.*?\*/}{}gsr;
my %declared = map { $_ => 1 } $code =~ /^(?!typedef)[a-z].*?\b(dlock_\w+)\(/gm;
my %exported = map { /^\S+ [A-Z] (\w+)/ && $1 !~ /^DLOCK_/ ? ($1 => 1) : () }
    split /\n/, works("nm -D --defined-only $OPT/$shared | sed 's/@.*//'", 'nm');
cmp_ok scalar keys %declared, '>', 20, 'the headers declare functions';
is_deeply [sort keys %exported], [sort keys %declared], 'exported is what the headers declare';
my @strangers = grep { !/^dlock_/ } map { /^\S+ [TDBRVW] (\w+)/ ? $1 : () }
    split /\n/, works("nm --defined-only $OPT/lib/libdlock.a", 'nm of the archive');
is_deeply \@strangers, [], 'the archive defines no name outside of dlock_';

# ---- the manual page ------------------------------------------------------

my $page = text_of("$OPT/share/man/man3/dlock.3");
is_deeply [grep { $page !~ /\b$_\b/ } sort keys %declared], [], 'the manual page names every function';
SKIP: {
    skip 'no man', 2 if !`sh -c 'command -v man'`;
    my $shown = works("MANWIDTH=80 man --warnings -l $OPT/share/man/man3/dlock.3", 'man shows it');
    unlike $shown, qr/warning|error:/, 'and has nothing to complain about';
}

make('uninstall-dlock');
is_deeply [files_in($OPT)], [], 'uninstalled, nothing is left';
$redis->stop;
done_testing;
