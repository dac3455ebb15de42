# Goal of this test: the bench of a cluster measures what it says. Each ledger is right, the
# yardstick is 1, one instance is in nobody's way, and conflicts are counted: of two
# instances without a lock there are some. Nothing here depends on how fast this
# machine is.
use File::Basename qw(dirname);
use lib 'tests/e2e';
use JSON::PP ();
use Stockade;
use Stockade::Mariadb;

plan skip_all => 'needs galera-4, and wsrep_sst_rsync of mariadb-server' if !Stockade::Mariadb::has_galera();

my $build = dirname(Stockade::binary());
my $dir   = Stockade::tempdir();

sub bench {
    my (@settings) = @_;
    my $child = Stockade::Child->spawn(
        command => ["$Stockade::ROOT/loadtest/bench", "ONLY=cluster", "BUILD=$build", "OUT=$dir/result", @settings],
        stdout  => "$dir/out",
        stderr  => "$dir/err",
    );
    my $exit = $child->wait(150 * $Stockade::SLOW);
    return { exit => $exit, out => Stockade::slurp("$dir/out"), err => Stockade::slurp("$dir/err") };
}

is bench($_)->{exit}, 2, "$_: refused" for 'INSTANCES=4', 'SEGMENTS=0', 'WHO=token', 'PRODUCTS=x', 'ROUNDS=0';

my $ran = bench(qw(ROUNDS=1 SECONDS=1 SEGMENTS=1 PRODUCTS=3 CONNECTIONS=16), 'INSTANCES=1,2');
is $ran->{exit}, 0, 'it ends well' or diag $ran->{err}, $ran->{out};
my $result = JSON::PP::decode_json(Stockade::slurp("$dir/result.json"));
is scalar @{ $result->{cases} }, 11, 'two locks, one product and three, one instance and two; the products apart; sold out';
ok $_->{ledger}{balanced}, "$_->{who} $_->{products} x$_->{instances}: the ledger was audited" for @{ $result->{cases} };

my %row = map { ("$_->{who} $_->{products} x$_->{instances}" . ($_->{kind} && " $_->{kind}") => $_) } @{ $result->{rows} };
is $row{'batched 1 x1'}{ratio}[0], 1, 'the yardstick is 1';
for my $what (sort keys %row) {
    my $row = $row{$what};
    cmp_ok abs($row->{ratio}[0] * $row{'batched 1 x1'}{per_s}[0] / $row->{per_s}[0] - 1), '<', 0.01, "$what: its ratio is that of the rates";
    is "$row->{retried}[0] $row->{conflicts}[0]", '0 0', "$what: in nobody's way" if $what =~ /x1$/;
}
cmp_ok $row{'unlocked 1 x2'}{retried}[0], '>', 0, 'two without a lock: transactions were run once more';
cmp_ok $row{'unlocked 1 x2'}{conflicts}[0], '>', 0, 'and the nodes saw conflicts';
like $ran->{out}, qr/^\s+unlocked\s+products=1 segments=1 instances=2\s.*\s[\d.]+\s%\s+[1-9]\d*$/m, 'the table has them';
cmp_ok $row{'batched 3 x2 apart'}{retried}[0], '<', 0.05, q(products apart: in nobody's way, but for the probes of health);
like $ran->{out}, qr{whose nodes share this machine}, 'and says what it does not show';
done_testing;
