# Goal of this test: the store promises the same on MariaDB. Its unit tests run
# there, all but those that are about SQLite's own files, journals and locks.
use lib 'tests/e2e';
use Stockade;
use Stockade::Mariadb;

# Why not. Those in full/ are about a process that is killed, and a disk that lies.
my %SQLITE_ONLY = (
    test_store_keys    => 'the buckets, which a server has no need of',
    test_store_schema  => 'versions that MariaDB never had; mysql-serve.t',
    test_store_shared  => 'the lock file; mysql-serve.t has two instances',
    test_store_trouble => 'a full disk and a busy file; mysql-serve.t has what MariaDB suffers',
);

my ($build) = Stockade::binary() =~ m{(.*)/[^/]+$};
my $mariadb = Stockade::Mariadb->start;
local $ENV{STORE_RIG_MYSQL} = 'mysql:unix:' . $mariadb->socket_path;

my @tests = grep { !$SQLITE_ONLY{$_} } map { m{([^/]+)\.c$} } sort glob "$Stockade::ROOT/tests/test_store_*.c";
cmp_ok scalar @tests, '>=', 9, scalar @tests . ' test programs';
for my $name (@tests) {
    my $said = `timeout 400 $build/tests/$name 2>&1`;
    is $? >> 8, 0, $name or diag $said;
    my $passed = () = $said =~ /^ok /mg;
    cmp_ok $passed, '>=', 1, "$name: $passed points";
}
is $mariadb->sql("SHOW DATABASES LIKE 'stockade-%'"), '', 'nothing is left behind';
done_testing;
