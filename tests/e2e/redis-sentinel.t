# Goal of this test: serve follows its Redis to another primary, when that dies and
# when it hangs, by what sentinels say. A busy product sells again within a second
# of their switch; the stale primary that wakes up changes nothing; nothing is
# oversold, and nothing that was acknowledged is missing.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Stockade;
use Stockade::Sentinels;
use Test::More;
use Time::HiRes qw(time);

my $WAIT_MS = 1000;
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
    cmp_ok $after, '<', 1 * $Stockade::SLOW, "$what: within a second of the switch";
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
done_testing;
