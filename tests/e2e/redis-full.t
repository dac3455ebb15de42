# Goal of this test: a Redis that is full means a clear "not now", for those who have
# not ordered yet; as soon as it has room all is well. And nobody fills it: an order
# for a product that does not exist leaves nothing there.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Stockade;
use Test::More;
use Time::HiRes qw(time);

my $WAIT_MS = 3000;
my $redis   = Stockade::Redis->start;

sub keys_of { my ($of) = @_; return sort @{ $of->command('KEYS', '*') } }

# FULL: whether it takes no more.
sub memory {
    my ($full) = @_;
    $redis->command(qw(CONFIG SET maxmemory), $full ? 1 : 0);
    return;
}

for my $orders (qw(batched one-by-one)) {
    my $server = Stockade->start(redis => $redis, args => ['--lock', 'fenced', '--orders', $orders, '--lock-wait-ms', $WAIT_MS]);
    $redis->command('FLUSHALL');
    my @status = map { $server->order(900_000 + $_, undef, 1, $_ % 2 ? "$orders-none-$_" : undef)->{status} } 1 .. 10;
    is_deeply \@status, [(404) x 10], "$orders: no such products";
    is_deeply [keys_of($redis)], [], "$orders: Redis has not heard of them";

    $server->product($_, 1000, segments => $_ - 39) for 40, 41;
    my %bought = map { $_ => $server->order($_, 7, 1, "$orders-$_") } 40, 41;
    is $_->{status}, 201, "$orders: sells" for values %bought;
    ok Stockade::eventually(5, sub { !$redis->locks }), "$orders: the locks are given back";

    memory(1);
    for my $product (40, 41) {
        my $begin = time;
        my $reply = $server->order($product);
        is $reply->{status}, 503, "$orders, full: 503" or diag $reply->{raw};
        is Stockade::slug($reply), 'lock-unreachable', "$orders, full: no lock to be had";
        like $reply->{body}{detail}, qr/^the lock server cannot be reached; nothing was ordered$/, "$orders, full: in plain words";
        unlike $reply->{raw}, qr/OOM|memory|script|acquire/i, "$orders, full: what Redis says is not for customers";
        like $reply->{headers}{'retry-after'}, qr/^[1-9]\d*$/, "$orders, full: Retry-After";
        cmp_ok time - $begin, '<', 1.7 * $WAIT_MS / 1000 * $Stockade::SLOW, "$orders, full: says so within the wait time";
        my $again = $server->order($product, 7, 1, "$orders-$product");
        is $again->{raw}, $bought{$product}{raw}, "$orders, full: a repeated key hears of its order";
    }
    is $server->post('/api/products/41/warmup', {})->{body}{in_redis}, JSON::PP::false(), "$orders, full: no hint is written";
    memory(0);
    is $server->order($_)->{status}, 201, "$orders, room: sells again at once" for 40, 41;
    my $verdict = $server->ends($orders);
    is $verdict->{orders}, 4, "$orders: with what was acknowledged" or diag explain $verdict;
}

# Its own redis-server refuses writes when it is full; it does not throw locks away.
my $server = Stockade->start;
my $own    = bless { socket => $server->db . '.redis' }, 'Stockade::Redis';
my %config = map { @{ $own->command('CONFIG', 'GET', $_) } } qw(maxmemory maxmemory-policy);
cmp_ok $config{maxmemory}, '>', 0, 'spawned: with a limit';
is $config{'maxmemory-policy'}, 'noeviction', 'spawned: and it forgets nothing';
is $server->stop, 0, 'spawned: ends';
done_testing;
