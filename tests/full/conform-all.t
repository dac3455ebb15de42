# Goal of this test: the locks that need MariaDB or ZooKeeper hold and fail what
# is expected of them, measured; and the README's table says so.
use lib 'tests/e2e';
use Stockade;

my @locks    = qw(recorded sql-table sql-row zk zk-fair);
my $stockade = Stockade::binary();
my ($build)  = $stockade =~ m{(.*)/[^/]+$};
my $readme   = Stockade::slurp("$Stockade::ROOT/server/lab/README.md");

# The servers take longer to start than a lock to be measured: once for all.
my $each = "for lock in @locks; do $stockade lab locks --lock \$lock --markdown"
    . ' --sql $SQL --zk $ZK --zk-ensemble $ZK_ENSEMBLE --zk-node $ZK_NODE && echo "$lock: as expected"; done';
# One of the ensemble is away, as a check leaves it that ended too early.
my $first = 'at=${ZK_ENSEMBLE#zk:}; $ZK_NODE kill ${at%%,*}; ';
my $said  = `$build/tests/full/with_servers sh -c '$first$each' 2>&1`;
for my $lock (@locks) {
    like $said, qr/^\Q$lock\E: as expected$/m, "$lock is as expected" or diag $said;
    my $row = ($said =~ /^(\| `\Q$lock\E` \|.*)$/mg)[-1];
    ok $row, "$lock has a row" or next;
    cmp_ok index($readme, $row), '>=', 0, "$lock: the README says what was measured" or diag $row;
}
done_testing;
