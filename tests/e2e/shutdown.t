# Goal of this test: SIGTERM in the middle of a sale. All acknowledged orders are in
# the ledger, the server is gone within 5 s with exit 0, and leaves nothing behind:
# no redis-server, no socket, no lock.
use lib 'tests/e2e';
use HttpRaw;
use Stockade;
use Time::HiRes qw(time);

# Sells to 8 clients, and gets SIGTERM meanwhile.
sub stopped_under_load {
    my ($what, %with) = @_;
    my $server = Stockade->start(%with);
    $server->product(40, 1_000_000);
    my @children = $server->children;
    my $load = Stockade::Load->start(servers => [$server], product => 40, name => $what);
    ok $load->wait_for($with{sold} || 100, 20), "$what: a sale is going on" or diag $server->log;
    my $begin = time;
    my $exit  = $server->stop;
    my $took  = time - $begin;
    my $told  = $load->finish;
    is $exit, 0, "$what: exit 0" or diag $server->log;
    cmp_ok $took, '<', 5 * $Stockade::SLOW, sprintf '%s: within 5 s (%.2f)', $what, $took;
    my $verdict = $server->balances($what, acked => $told->{file});
    is $verdict->{lost}, 0, "$what: no acknowledged order is missing";
    cmp_ok $verdict->{orders}, '>=', scalar @{ $told->{acked} }, "$what: $verdict->{orders} orders";
    is_deeply [grep { !/^(?:201|503|599)$/ } keys %{ $told->{status} }], [], "$what: answers are yes, not now, or none"
        or diag explain $told->{status};
    return ($server, @children);
}

my ($server, @children) = stopped_under_load('spawned');
cmp_ok scalar @children, '>', 0, 'it had a redis-server';
is_deeply [grep { Stockade::Child::name_of($_) } @children], [], 'it is gone';
is_deeply [glob $server->dir . '/*.redis'], [], 'and so is its socket';

my $redis = Stockade::Redis->start;
for my $lock (qw(fenced redisson token-lua)) {
    stopped_under_load($lock, redis => $redis, args => ['--lock', $lock]);
    is_deeply [$redis->locks], [], "$lock: no lock is left";
}
stopped_under_load('naive', redis => $redis,
    args => [qw(--lock token-lua --deduct naive --orders one-by-one --think-ms 1)]);
is_deeply [$redis->locks], [], 'naive: no lock is left';

# Orders that wait for a lock at the end: the wait time is a minute
stopped_under_load('queue', sold => 1, redis => $redis,
    args => [qw(--lock fenced --deduct guarded --orders one-by-one --workers 2 --think-ms 300 --lock-wait-ms 60000)]);
is_deeply [$redis->locks], [], 'queue: no lock is left';

# A request whose body does not come keeps the server draining, up to a limit. It
# still answers requests that need no other thread; a sanitizer would see it use what
# is closed already.
$server = Stockade->start(redis => $redis, args => [qw(--http-threads 1)]);
$server->product(41, 1);
$server->order(41);
is Stockade::slug($server->order(41)), 'sold-out', 'drain: known to be sold out';
my $order = '{"product_id":41,"user_id":1,"quantity":1}';
my $head  = "POST /api/orders HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
    . length($order) . "\r\n\r\n";
my @asks = ("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "$head$order", "GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "$head$order" =~ s/\r\n/\r\nIdempotency-Key: k\r\n/r);
my ($silent, @kept) = map { HttpRaw::connect_to($server->port) } 0 .. 200;
my $ask = sub {
    my ($socket, $what) = @_;
    HttpRaw::put($socket, $what);
    return HttpRaw::read_replies($socket, 1)->{replies}[0] || { status => 'none' };
};
HttpRaw::put($silent, $head);
is $ask->($kept[-1], $asks[1])->{status}, 409, 'drain: all are connected';
kill TERM => $server->pid;
# Each gets one reply more. They are spread over the whole time.
my (%seen, $ends, $watching, $counted);
for my $i (0 .. $#kept - 1) {
    my $reply = $ask->($kept[$i], $asks[$i % 4]);
    $seen{ $reply->{status} }++;
    last if $reply->{status} eq 'none';
    $ends = $reply->{headers}{connection};
    $watching = $reply->{status} if $i % 4 == 2;
    ($counted) = $reply->{body} =~ /outcome="shutting-down"\} (\d+)/ if $i == 4;
    select undef, undef, undef, 0.02;
}
is $server->stop, 0, 'drain: exit 0' or diag $server->log;
cmp_ok $seen{$_} || 0, '>', 0, "drain: others still hear $_" or diag explain \%seen for 200, 409;
is $seen{none}, 1, 'drain: until it is over';
is $ends, 'close', 'drain: and that their connection ends';
is $counted, 1, 'drain: an order that comes too late is counted';
is $watching, 503, 'drain: who wants to watch is to go elsewhere';

# No load at all; and an idle connection
$server = Stockade->start;
$server->get('/livez');
kill INT => $server->pid;
is $server->stop, 0, 'idle: exit 0, also by Ctrl-C';
done_testing;
