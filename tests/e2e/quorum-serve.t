# Goal of this test: serve with its lock on three Redis servers: it sells on while one of
# them is dead, and says so when two are. The ledger is exact then. Other locks of
# several servers: test_dlock_multi.c.
use lib 'tests/e2e';
use Stockade;

my @nodes = map { Stockade::Redis->start } 1 .. 3;

# A Redis server does not count before it has been up for the longest lease: until
# then the service is not ready.
my $server = Stockade->start(redis => join(',', map { $_->url } @nodes), args => ['--lock', 'redlock', '--lock-wait-ms', 3000], unready => 1);
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
ok Stockade::eventually(5, sub { !grep { $_->locks } @nodes[0, 2] }), 'redlock: nothing stays locked';

# Two of three: no majority, and no sale.
$nodes[2]->kill9;
$reply = $server->order(50);
is $reply->{status}, 503, 'redlock: one of three is not enough' or diag $reply->{raw};
like Stockade::slug($reply), qr/^lock-/, 'redlock: and it says why';
my ($line) = grep { $_->{product_id} == 50 } @{ $server->ends('redlock')->{lines} };
is $line->{sold}, $sold, 'redlock: the ledger has what was acknowledged';
done_testing;
