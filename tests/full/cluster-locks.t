# Goal of this test: over a Redis Cluster each lock holds and fails what it does on
# one server, measured by `stockade lab locks`.
use lib 'tests/e2e';
use Stockade;
use Stockade::Cluster;

my $cluster = Stockade::Cluster->start;
my $dir     = Stockade::tempdir();
my %runs    = map {
    my $lock = $_;
    $lock => Stockade::Child->spawn(
        command => [Stockade::binary(), qw(lab locks --lock), $lock, '--redis', $cluster->url],
        env     => { STOCKADE_SLOW => 3 * $Stockade::SLOW },    # a busy machine must not decide
        stdout  => "$dir/$lock",
        stderr  => "$dir/$lock.err",
    );
} qw(token-lua watchdog reentrant redisson fair fenced);
for my $lock (sort keys %runs) {
    is $runs{$lock}->wait(200 * $Stockade::SLOW), 0, "$lock: as expected" or diag Stockade::slurp("$dir/$lock.err");
    my $found = Stockade::slurp("$dir/$lock");
    like $found, qr/^$_ +✔/m, "$lock: $_" for qw(X X2 C A P R);
}
my @used = grep { $_->command('INFO', 'commandstats') =~ /cmdstat_evalsha/ } $cluster->nodes;
is scalar @used, 3, 'on all nodes';
$cluster->stop;
done_testing;
