# Goal of this test: kill -9 at any moment. After the restart the ledger balances,
# every acknowledged order is there, and the redis-server of before is gone. 20
# times, or five under a sanitizer, at random moments from a seed that is printed:
# STOCKADE_SEED=N makes it the same moments again. STOCKADE_KILLS=N makes it N times:
# `make test-long` has 80.
use lib 'tests/e2e';
my ($seed, $ROUNDS);
BEGIN {
    $seed   = $ENV{STOCKADE_SEED} || time ^ $$ << 8;
    $ROUNDS = $ENV{STOCKADE_KILLS} || ($ENV{SAN} ? 5 : 20);
}
use Stockade;

srand $seed;
diag "seed $seed";

my $server = Stockade->start;
$server->product(40, 10_000_000);
my $dir   = Stockade::tempdir();
my $total = 0;
open my $acked, '>', "$dir/acked" or die "acked: $!";
$acked->autoflush(1);

for my $round (1 .. $ROUNDS) {
    my @children = $server->children;
    my $load = Stockade::Load->start(servers => [$server], product => 40, name => "round$round");
    $load->wait_for(1, 20) or diag $server->log;
    select undef, undef, undef, rand 0.25;
    $server->kill9;
    my $told = $load->finish;
    print {$acked} "$_ \r\n" for @{ $told->{acked} };
    $total += @{ $told->{acked} };
    my $gone = Stockade::eventually(5, sub { !grep { Stockade::Child::name_of($_) } @children });
    ok $gone, "round $round: its redis-server is gone too";
    $server->restart;
    my $verdict = $server->balances("round $round", acked => "$dir/acked");
    is $verdict->{lost}, 0, "round $round: none of $total acknowledged orders is lost";
    is $server->order(40)->{status}, 201, "round $round: sells again";
}
note "$total orders were acknowledged";
cmp_ok $total, '>=', $ROUNDS, 'there was load';
is $server->stop, 0, 'ends';

# Else the kernel would give the pid of a redis-server that has ended to another
# process, which we would kill.
my $orphan = Stockade->start(wrap => [$^X, '-e', '$SIG{CHLD} = "IGNORE"; exec @ARGV', '--']);
my ($ignored) = Stockade::slurp('/proc/' . $orphan->pid . '/status') =~ /^SigIgn:\s*(\w+)/m;
is hex($ignored) & 1 << 16, 0, 'a parent that ignores SIGCHLD does not pass that on';
is $orphan->stop, 0, 'ends';

system 'sqlite3', $server->db, 'UPDATE segments SET stock = stock + 1';
is +($server->audit)[1], 1, 'a unit from nowhere: the audit says so';

# An audit says nothing of what it has not looked at.
print {$acked} "\0\n1-0123456789abcdef\n";
like +($server->audit(acked => "$dir/acked"))[0]{error}, qr/NUL byte/, 'a torn list';
my $one = Stockade::write_file("$dir/one", '77-0123456789abcdef');
is +($server->audit(acked => $one))[0]{lost}, 1, 'a list of one, without an end of its line';
system 'sqlite3', $server->db, 'ALTER TABLE orders RENAME COLUMN secret TO gone';
like +($server->audit(acked => $one))[0]{error}, qr/no such column/, 'one that cannot be looked up';
system 'sqlite3', $server->db, 'ALTER TABLE orders RENAME COLUMN gone TO secret';
system 'sqlite3', $server->db, 'PRAGMA writable_schema = ON; UPDATE sqlite_schema SET rootpage = '
    . q{(SELECT rootpage FROM sqlite_schema WHERE name = 'restocks_key') WHERE name = 'orders_key_of_64'};
my ($verdict, $exit) = $server->audit;
is $exit, 2, 'an index without its entries: it cannot tell';
like $verdict->{error}, qr/the file is damaged: ./, 'and says so';
done_testing;
