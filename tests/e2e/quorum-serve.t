# Goal of this test: serve with its lock on three Redis servers: it sells on while one of
# them is dead, and says so when two are. The ledger is exact then. Other locks of
# several servers: test_dlock_multi.c.
use lib 'tests/e2e';
use Stockade;

my $WAIT_MS = 3000;
my @nodes   = map { Stockade::Redis->start } 1 .. 3;
my $urls    = join ',', map { $_->url } @nodes;

sub serve {
    my ($lock, %with) = @_;
    return Stockade->start(redis => $urls, args => ['--lock', $lock, '--lock-wait-ms', $WAIT_MS], %with);
}

# On how many nodes there are locks.
sub locked { return scalar grep { $_->locks } @_ }

sub is_exact {
    my ($server, $product, $sold, $what) = @_;
    my ($verdict, $exit) = $server->audit;
    is $exit, 0, "$what: the ledger balances" or diag explain $verdict;
    my ($line) = grep { $_->{product_id} == $product } @{ $verdict->{lines} };
    is $line->{sold}, $sold, "$what: and has what was acknowledged";
    return;
}

# redlock ---------------------------------------------------------------------

# A Redis server does not count before it has been up for the longest lease: until
# then the service is not ready.
my $server = serve('redlock', unready => 1);
$server->product(50, 100_000);
my $young = $server->order(50);
is $young->{status}, 503, 'redlock: servers that have just started have no vote';
is Stockade::slug($young), 'lock-unreachable', 'redlock: and it says why';
my $reply;
ok Stockade::eventually(30, sub { ($reply = $server->order(50))->{status} == 201 }), 'redlock: of age they have one'
    or diag "$reply->{status} $reply->{raw}\n", $server->log;
my $sold = 1;

my $load = Stockade::Load->start(servers => [$server], product => 50, clients => 4);
ok $load->wait_for(20, 20), 'redlock: sells while all is well';
$nodes[1]->kill9;
my $before = $server->metric('stockade_orders_total', outcome => 'placed');
ok Stockade::eventually(20, sub { $server->metric('stockade_orders_total', outcome => 'placed') >= $before + 20 }),
    'redlock: sells on with one of three dead';
my $told = $load->finish;
$sold += $told->{status}{201};
is $told->{status}{599}, undef, 'redlock: everybody was answered' or diag explain $told->{status};
# One vote that comes late is one too few: not now.
ok Stockade::eventually(20, sub { ($reply = $server->order(50))->{status} == 201 }), 'redlock: and so it goes on'
    or diag $reply->{raw}, $server->log;
$sold++;
# A lock is kept for a moment after the last order.
ok Stockade::eventually(5, sub { !locked(@nodes[0, 2]) }), 'redlock: nothing stays locked';

# Two of three: no majority, and no sale.
$nodes[2]->kill9;
$reply = $server->order(50);
is $reply->{status}, 503, 'redlock: one of three is not enough' or diag $reply->{raw};
like Stockade::slug($reply), qr/^lock-/, 'redlock: and it says why';
is $server->stop, 0, 'redlock: ends';
is_exact($server, 50, $sold, 'redlock');
done_testing;
