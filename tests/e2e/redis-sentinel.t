# Goal of this test: serve follows its Redis to another primary, when that dies and
# when it hangs, by what sentinels say. A busy product sells again within a second
# of their switch; the stale primary that wakes up changes nothing; nothing is
# oversold, and nothing that was acknowledged is missing.
use lib 'tests/e2e';
use Stockade;
use Stockade::Sentinels;
use Time::HiRes qw(time);

my $WAIT_MS = 4000;
my $set     = Stockade::Sentinels->start(args => ['--min-replicas-to-write', 1, '--min-replicas-max-lag', 2]);
my $server  = Stockade->start(redis => $set->url, args => ['--lock', 'fenced', '--lock-wait-ms', $WAIT_MS]);
my $STOCK   = 100_000;
my $sold    = 0;
$server->product(40, $STOCK);

sub sells {
    my ($what) = @_;
    my $reply = $server->order(40);
    is $reply->{status}, 201, $what or diag $reply->{raw}, $server->log;
    $sold += $reply->{status} == 201;
    return;
}

# Buys without a pause while FAULT happens, until two seconds after the switch.
sub goes_on {
    my ($what, $fault) = @_;
    my $load = Stockade::Load->start(servers => [$server], product => 40, name => $what, clients => 4);
    ok $load->wait_for(20, 20), "$what: a busy product";
    my $old = $set->primary;
    my $began = time;
    $fault->($old);
    my $switched = $set->await_switch;
    my $placed   = $server->metric('stockade_orders_total', outcome => 'placed');
    ok Stockade::eventually(20, sub { $server->metric('stockade_orders_total', outcome => 'placed') > $placed }),
        "$what: it sells again";
    my $after = time - $switched;
    # A second, and what a busy machine may stall us.
    cmp_ok $after, '<', 5 * $Stockade::SLOW, "$what: soon after the switch";
    diag sprintf '%s: switched after %.2f s, sold again %.2f s later', $what, $switched - $began, $after;
    my $told = $load->finish;
    $sold += $told->{status}{201};
    is $told->{status}{599}, undef, "$what: everybody was answered" or diag explain $told->{status};
    return $old;
}

sells('it sells');
goes_on('killed', sub { $_[0]->kill9 })->again;
ok $set->await_steady, 'killed: the old primary is a replica' or diag $set->primary->command('INFO', 'replication');
sells('killed: it sells on');

my $old = goes_on('hangs', sub { $_[0]->pause });
$old->resume;
sells('woken up: it sells on') for 1 .. 20;
ok $set->await_steady, 'woken up: it is a replica';
sells('woken up: it sells on');

my $verdict = $server->ends('in the end');
is $verdict->{sold}, $sold, 'what was acknowledged is sold';
unlike $server->log, qr/min_replicas_to_write/, 'nothing to warn of';

# ---- a holder that does not know ----------------------------------------------

# One instance works on an order when its lock is lost with the primary: no replica
# has it. The other gets the lock, with a higher token, so the first one's write is
# refused by the store, and comes again under a lock of its own.
my @replicas = grep { $_ != $set->primary } $set->servers;
$_->command(qw(CONFIG SET min-replicas-to-write 0)) for $set->servers;
my @pair = map {
    Stockade->start(
        redis => $set->url,
        db    => $server->db,
        args  => ['--shared', '--lock', 'fenced', '--orders', 'one-by-one', '--think-ms', 5000 * $Stockade::SLOW, '--lock-wait-ms', 20_000]
    )
} 1 .. 2;
like $pair[0]->log, qr/level=warn msg=redis min_replicas_to_write=0/, 'a primary that writes without replicas is warned of';
$pair[0]->product(41, 10);
$_->command(qw(CONFIG SET masterauth nobody)) for @replicas;
$set->primary->command(qw(CLIENT KILL TYPE replica));
my $buyer = Stockade::Load::ask($pair[0], 41, 1);
ok Stockade::eventually(5, sub { $set->primary->command('EXISTS', 'lock:{41:0}') }), 'the first has the lock';
$set->primary->kill9;
is $pair[1]->order(41)->{status}, 201, 'the second sells';
is $buyer->()->[0], 201, 'and so does the first' or diag $pair[0]->log;
cmp_ok $pair[0]->metric('stockade_locks_lost_total'), '>=', 1, 'at its second try: what came too late was refused';
is $pair[0]->get('/api/products/41')->{body}{stock}, 8, 'two were sold';
$_->ends('after a lost lock') for @pair;
done_testing;
