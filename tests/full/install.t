# Goal of this test: libdlock stands alone. What `make install-dlock` puts down is
# enough to build and run a program, shared and static; the library shows what
# its headers promise and nothing else; locks on several servers, over SQL and
# ZooKeeper come by name only, and those of the textbooks not at all; with whatever
# parts, shared or static, a program has one copy of libdlock, of one version; the
# manual page is one; and `make uninstall-dlock` leaves nothing behind.
use File::Find ();
use lib 'tests/e2e';

use Stockade;
use Stockade::Redis ();

plan skip_all => 'built without sanitizers' if $ENV{SAN};

my $ROOT   = $Stockade::ROOT;
my $PREFIX = '/opt/dlock';
our $DEST  = Stockade::tempdir();
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

sub fails {
    my ($command, $says, $what) = @_;
    my ($good, $output) = run($command);
    ok !$good && $output =~ $says, $what or diag "$command\n$output";
    return;
}

sub files_in {
    my ($folder) = @_;
    my @files;
    File::Find::find(sub { push @files, $File::Find::name =~ s{^\Q$folder\E/}{}r if !-d }, $folder);
    return sort @files;
}

our $BUILD = 'build/install';
ok Stockade::copy_build("$ROOT/$BUILD"), 'a build of its own';

sub make {
    my ($goal, $more) = @_;
    return works("make -s -C $ROOT -j2 SAN= B=$BUILD PREFIX=$PREFIX DESTDIR=$DEST WERROR=-Werror $more $goal",
        "make $goal $more");
}

for my $path ('/opt/a b', '/opt/a&b') {
    fails("make -s -C $ROOT SAN= B=$BUILD PREFIX='$path' DESTDIR=$DEST $_", qr/^a path to install to has a blank/, "$_ to $path is refused")
        for qw(install-dlock uninstall-dlock);
}
ok !-e "$DEST/opt", 'and nothing is made';

make('install-dlock', '');
my @files = files_in($OPT);
my ($shared) = grep { /^lib\/libdlock\.so\.\d+\.\d+\.\d+$/ } @files;
ok $shared, 'a shared library with its whole version in the name';
(my $soname = $shared // 'none') =~ s{^lib/(libdlock\.so\.\d+).*}{$1};
# What is built where the headers of its client library are.
my @more = ('quorum', (run('pkg-config --exists libssl'))[0] ? 'tls' : (), (run('pkg-config --exists libmariadb'))[0] ? 'sql' : (),
    (run("echo '#include <zookeeper/zookeeper.h>' | cc -E -x c -"))[0] ? 'zk' : ());
is_deeply \@files,
    [sort 'share/man/man3/dlock.3', map({ "include/dlock$_.h" } '', qw(_async _inspect _more _step _url)),
    map { my $part = $_; map { "lib/$_" } "libdlock$part.a", "pkgconfig/dlock$part.pc", map { s/libdlock/libdlock$part/r } 'libdlock.so', $soname, $shared =~ s{lib/}{}r } '', map { "-$_" } @more],
    'installed is what was promised';
for my $part ('', map { "-$_" } @more) {
    my $dynamic = works('readelf -d ' . "$OPT/$shared" =~ s/libdlock/libdlock$part/r, 'readelf');
    my $its     = $soname =~ s/libdlock/libdlock$part/r;
    like $dynamic, qr/FLAGS_1.*NODELETE/, 'threads that outlive a client keep their code';
    like $dynamic, qr/SONAME.*\[\Q$its\E\]/, "its soname is $its";
    like $dynamic, qr/NEEDED.*\[\Q$soname\E\]/, 'it brings libdlock' if $part ne '';
}

# ---- a program ------------------------------------------------------------

$ENV{PKG_CONFIG_PATH}        = "$OPT/lib/pkgconfig";
$ENV{PKG_CONFIG_SYSROOT_DIR} = $DEST;

# Libraries of ours as archives, the others shared.
sub archives {
    my ($flags) = @_;
    chomp $flags;
    return $flags =~ s/(-ldlock\S*)/-Wl,-Bstatic $1 -Wl,-Bdynamic/gr;
}

my $redis   = Stockade::Redis->start;
$redis->command('SET', '{stock:42}:dlock-fence', '3000000000000000');    # above the time
my $example = "$Stockade::ROOT/tests/example/example.c";
my $cc      = 'cc -std=c11 -Wall -Wextra -Werror -pedantic';

works("$cc -o $DEST/shared $example \$(pkg-config --cflags --libs dlock)", 'the example builds with pkg-config');
is works("LD_LIBRARY_PATH=$OPT/lib $DEST/shared " . $redis->url . ' stock:42', 'and runs'),
    "stock:42 is mine, token 3000000000000001\n", 'and holds a lock';
works("$cc -o $DEST/static $example " . archives(qx(pkg-config --static --cflags --libs dlock)), 'it builds with the static library');
is works("$DEST/static " . $redis->url . ' stock:42', 'and runs'), "stock:42 is mine, token 3000000000000002\n", 'and holds a lock';
my ($good, $said) = run("$DEST/static unix:/nowhere/redis.sock");
ok !$good, 'without a server it fails';
like $said, qr/^example: acquire: /, 'and says why';

works("c++ -std=c++20 -Wall -Werror -pedantic -o $DEST/cxx -xc++ $example \$(pkg-config --cflags --libs dlock)", 'a C++ program builds');
is works("LD_LIBRARY_PATH=$OPT/lib $DEST/cxx " . $redis->url . ' stock:42', 'and runs'),
    "stock:42 is mine, token 3000000000000003\n", 'and holds a lock';

# ---- locks that come by name, and those that do not -----------------------

my $table = "$Stockade::ROOT/tests/example/strategies.c";
my %HAS = (quorum => [qw(multi redlock)], sql => [qw(sql-table sql-row)], zk => [qw(zk zk-fair)], tls => []);
my $CORE = 'none process redisson fair';

works("$cc -o $DEST/core $table \$(pkg-config --cflags --libs dlock)", 'a program with libdlock alone');
my ($has, @says) = split /\n/, works("LD_LIBRARY_PATH=$OPT/lib $DEST/core unix:/nowhere setnx token-lua recorded zk sql-row redlock setn", 'and runs');
is $has, "$CORE fenced", 'it has the locks that keep what they promise';
my $textbook = "in this program: a textbook's, and in stockade only";
is_deeply \@says,
    ["open: no strategy 'setnx' $textbook", "open: no strategy 'token-lua' $textbook", "open: no strategy 'recorded' $textbook",
    "open: no strategy 'zk' in this program: link libdlock-zk, register dlock_zk_strategies",
    "open: no strategy 'sql-row' in this program: link libdlock-sql, register dlock_sql_strategies",
    "open: no strategy 'redlock' in this program: link libdlock-quorum, register dlock_quorum_strategies",
    "open: no strategy 'setn' in this program: there is none of that name"], 'and says of others where they are';
unlike works("LD_LIBRARY_PATH=$OPT/lib ldd $DEST/core", 'ldd'), qr/mariadb|mysql|zookeeper|ssl|crypto/, 'no client library but that of Redis';

# It was 191 KB when all locks were in one library, and each script had a copy of
# the parts that it shares with others; 107 before it had Sentinel and Cluster in it.
my ($text) = works("size $DEST/static", 'size') =~ /^\s*(\d+)/m;
diag "text of the example, with libdlock: $text bytes, of 191415 with all locks";
cmp_ok $text, '<', 131_072, 'and it is small';

# ---- one copy of libdlock ---------------------------------------------------

# Which functions of libdlock the program itself has.
sub own_copy {
    my ($program) = @_;
    return grep { /^\S+ [Tt] dlock_/ } split /\n/, works("nm $program", 'nm');
}

# Each part, and all of them.
for my $set ((map { [$_] } @more), \@more) {
    my @parts = @$set;
    my $flags = join ' ', map { '-DWITH_' . uc } @parts;
    my $names = join ' ', map { "dlock-$_" } @parts;
    my $locks = join(' ', $CORE, (map { @{ $HAS{$_} } } @parts), 'fenced') . "\n";
    works("$cc -c -o $DEST/more.o $flags $table \$(pkg-config --cflags $names)", "a program with $names");
    works("$cc -o $DEST/more $DEST/more.o \$(pkg-config --libs dlock $names)", 'links');
    is works("LD_LIBRARY_PATH=$OPT/lib $DEST/more", 'runs'), $locks, 'has its locks';
    is_deeply [own_copy("$DEST/more")], [], 'and no copy of its own of libdlock';
    works("$cc -o $DEST/more $DEST/more.o " . archives(qx(pkg-config --static --libs dlock $names)), 'links with archives');
    is works("$DEST/more", 'runs'), $locks, 'has its locks';
    unlike works("ldd $DEST/more", 'ldd'), qr/libdlock/, 'and that copy of libdlock only';
}
works("$cc -static -o $DEST/more -DWITH_QUORUM $table \$(pkg-config --static --cflags --libs dlock-quorum)", 'the example of a static program links');
is works("$DEST/more", 'runs'), "$CORE multi redlock fenced\n", 'and has its locks';
(undef, @says) = split /\n/, works("$DEST/more unix:/a,rediss://127.0.0.1:6379 multi redlock", 'runs');
is_deeply [grep { !/^open: url 2 of them: no TLS in this program/ } @says], [], 'none of which takes a url of TLS, which it lacks';

# A child of fork() is known for one in both halves of a program.
my $other = Stockade::Redis->start;
my $forks = "$Stockade::ROOT/tests/install/forks.c";
for my $how ('pkg-config --cflags --libs', 'pkg-config --static --cflags --libs') {
    my $flags = qx($how dlock dlock-quorum);
    works("$cc -o $DEST/forks $forks " . ($how =~ /static/ ? archives($flags) : $flags =~ s/\n//r), "a program that forks, by $how");
    is works("LD_LIBRARY_PATH=$OPT/lib $DEST/forks " . $redis->url . ',' . $other->url, 'runs'),
        "child: wrong use of the lock library\n", 'its child does nothing to what the parent holds';
}
$other->stop;

# Mixed by hand: a part that has another libdlock than its program.
works("$cc -o $DEST/mixed -DWITH_QUORUM $table -I$OPT/include -L$OPT/lib -ldlock-quorum -l:libdlock.a -lhiredis"
        . " -Wl,--exclude-libs,ALL -Wl,-rpath-link,$OPT/lib", 'a program with two copies of libdlock');
fails("LD_LIBRARY_PATH=$OPT/lib $DEST/mixed", qr/^register: this program has two copies of libdlock/, 'is told so');

# A part and a libdlock of different versions. Of the objects, few know theirs.
works("$cc -o $DEST/more -DWITH_QUORUM $table \$(pkg-config --cflags --libs dlock-quorum)", 'a program of this version');
my $NEXT = "$DEST/next$PREFIX/lib";
works("rm -rf $ROOT/$BUILD-next && cp -a $ROOT/$BUILD $ROOT/$BUILD-next"
        . " && grep -rlZ dlock_core_ --include='*.o' $ROOT/$BUILD-next | xargs -0 rm && rm $ROOT/$BUILD-next/lib*", 'what is built');
{
    local ($BUILD, $DEST) = ("$BUILD-next", "$DEST/next");
    make('install-dlock', 'DLOCK_VERSION=0.1.999');
}
my $wrong = qr/undefined (?:symbol: |reference to .)dlock_core_/;
for my $mix ([$NEXT, "$OPT/lib"], ["$OPT/lib", $NEXT]) {
    my ($part, $core) = @$mix;
    my $mixed = "$DEST/mixed-lib";
    works("rm -rf $mixed && mkdir $mixed && cp $part/libdlock-quorum.* $core/libdlock.* $mixed"
            . " && cp $part/pkgconfig/dlock-quorum.pc $core/pkgconfig/dlock.pc $mixed", "a part of $part, a core of $core");
    fails("LD_LIBRARY_PATH=$mixed $DEST/more", $wrong, 'are not loaded');
    fails("$cc -o $DEST/mixed -DWITH_QUORUM $table -I$OPT/include -L$mixed -ldlock-quorum -ldlock", $wrong, 'are not linked');
    fails("$cc -o $DEST/mixed -DWITH_QUORUM $table -I$OPT/include " . archives("-L$mixed -ldlock-quorum -ldlock") . ' -lhiredis',
        $wrong, 'nor as archives');
    fails("PKG_CONFIG_PATH=$mixed pkg-config --libs dlock-quorum", qr/dlock = 0\.1/, 'nor named by pkg-config');
}
works("rm -rf $ROOT/$BUILD-next", 'thrown away');

# ---- programs to learn from -----------------------------------------------

for my $name (qw(only_one workers event_loop)) {
    works("$cc -o $DEST/$name $Stockade::ROOT/tests/example/$name.c \$(pkg-config --cflags --libs dlock) -pthread", "$name builds");
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

my $headers = join '', map { Stockade::slurp("$OPT/$_") } grep { /^include/ } @files;
my $code = $headers =~ s{/\*.*?\*/}{}gsr;
my %declared = map { $_ => 1 } $code =~ /^(?!typedef)[a-z].*?\b(dlock_\w+)\(/gm;
cmp_ok scalar keys %declared, '>', 20, 'the headers declare functions';
my %exported;
my $shows = works("nm -D --defined-only $OPT/$shared", 'nm');
push @{ $exported{$2} }, $1 while $shows =~ /^\S+ [B-Z] (\w+)@+(\w+)$/mg;
is_deeply [sort @{ $exported{DLOCK_0} }], [sort keys %declared], 'exported is what the headers declare';
my (%wanted, @shown);
for my $part (@more) {
    my $symbols = works("nm -D $OPT/lib/libdlock-$part.so", 'nm');
    $wanted{$1} = 1 while $symbols =~ / U (\w+)\@DLOCK_PRIVATE$/mg;
    push @shown, $symbols =~ /^\S+ [B-TV-Z] (\w+)/mg;
}
SKIP: {
    skip 'not all parts are built', 2 if @more < 4;
    is_deeply [sort @shown], [sort $headers =~ /^extern const struct dlock_strategies (\w+)/mg], 'parts show what is to be registered';
    is_deeply [sort @{ $exported{DLOCK_PRIVATE} }], [sort keys %wanted], 'and what they need of libdlock is shown to them';
}
my @strangers = grep { !/^dlock_/ } map { /^\S+ [TDBRVW] (\w+)/ ? $1 : () }
    split /\n/, works("nm --defined-only $OPT/lib/libdlock.a", 'nm of the archive');
is_deeply \@strangers, [], 'the archive defines no name outside of dlock_';

# ---- the manual page ------------------------------------------------------

my $page = Stockade::slurp("$OPT/share/man/man3/dlock.3");
is_deeply [grep { $page !~ /\b$_\b/ } sort keys %declared], [], 'the manual page names every function';
SKIP: {
    skip 'no man', 2 if !`sh -c 'command -v man'`;
    my $shown = works("MANWIDTH=80 man --warnings -l $OPT/share/man/man3/dlock.3", 'man shows it');
    unlike $shown, qr/warning|error:/, 'and has nothing to complain about';
}

make('uninstall-dlock', '');
is_deeply [files_in($OPT)], [], 'uninstalled, nothing is left';
$redis->stop;
done_testing;
