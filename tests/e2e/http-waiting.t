# Goal of this test: while orders wait, their connections may break, others come
# and go, and the server may be told to stop; nothing is lost, kept or forgotten
# over it, and nobody else has to wait.
use lib 'tests/e2e';
use HttpRaw;
use Socket qw(SOL_SOCKET SO_LINGER);
use Stockade;
use Time::HiRes qw(time);

my $HOST = "Host: localhost\r\n";
my $LIVE = "GET /livez HTTP/1.1\r\n$HOST\r\n";

# One order at a time, each this long.
sub slow_server {
    my ($think_ms, @args) = @_;
    my $server = Stockade->start(args => [
        '--orders', 'one-by-one', '--workers', 1, '--think-ms', $think_ms, '--lock-wait-ms', 60_000, '--no-seed', @args,
    ]);
    $server->product(9, 1_000_000);
    return $server;
}

# Closed so that the other side hears of an error, not of an end.
sub reset_it {
    my ($socket) = @_;
    setsockopt $socket, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0) or die "setsockopt: $!";
    close $socket;
    return;
}

sub depth_of {
    my ($server) = @_;
    my $text = $server->get('/metrics')->{raw};
    return $text =~ /^stockade_orders_waiting (\d+)$/m ? $1 : die "no stockade_orders_waiting in:\n$text";
}

# ---- connections break while their orders wait ---------------------------------
for my $threads (1, 2) {
    my $server = slow_server(2, '--http-threads', $threads, '--client-inflight-max', 150, '--request-deadline-ms', 120_000);
    my $sent   = 50;
    # Once while all of them are known to wait, then as it comes: some may be
    # reset before they were read.
    my $release = $server->hold_database;
    my @waiting = map { HttpRaw::connect_to($server->port) } 1 .. $sent;
    HttpRaw::put($waiting[$_], HttpRaw::order_bytes(1 + $_)) for 0 .. $#waiting;
    ok Stockade::eventually(20, sub { depth_of($server) == $sent }), "$threads threads: $sent orders wait";
    reset_it($_) for @waiting;
    $release->();
    for my $round (1 .. 5) {
        my @sockets = map { HttpRaw::connect_to($server->port) } 1 .. 50;
        HttpRaw::put($_, HttpRaw::order_bytes(++$sent)) for @sockets;
        reset_it($_) for @sockets;
    }
    ok Stockade::eventually(20, sub { depth_of($server) == 0 }), "$threads threads: $sent connections were reset, the orders run out";
    my $sold = $server->get('/api/products/9')->{body}{sold};
    cmp_ok $sold, '>',  0,     "$threads threads: orders that were under way are placed ($sold)";
    cmp_ok $sold, '<=', $sent, "$threads threads: and none twice";
    my @sockets = map { HttpRaw::connect_to($server->port) } 1 .. 150;
    is HttpRaw::round_of(\@sockets, 201, sub { HttpRaw::order_bytes(++$sent) }), 150, "$threads threads: all of the client's places are free again";
    $server->ends("$threads threads");
    like $server->log, qr/msg=stopped clean=yes/, "$threads threads: without waiting for those who left";
}

# ---- connections break while their writes and tasks wait ------------------------
# What the library has of a request is freed with its connection: the thread that
# answers later must not look at it. A sanitizer sees if it does.
{
    my $server = Stockade->start(args => ['--http-threads', 1, '--no-seed']);
    $server->product(9, 1000);
    my @orders  = map { $server->order(9)->{body}{id} } 1 .. 12;
    my $release = $server->hold_database;
    my $ask     = sub {
        my ($what) = @_;
        my $socket = HttpRaw::connect_to($server->port);
        HttpRaw::put($socket, "$what HTTP/1.1\r\n$HOST\r\n");
        return $socket;
    };
    my @stay  = map { $ask->("DELETE /api/orders/$_") } @orders[0 .. 3];
    my @leave = map { $ask->("DELETE /api/orders/$_"), $ask->('GET /api/products/9') } @orders[4 .. 11];
    is HttpRaw::status_of($ask->('GET /livez')), 200, 'cancels wait for the database';
    reset_it($_) for @leave;
    is HttpRaw::status_of($ask->('GET /livez')), 200, "others were reset, pass $_" for 1 .. 2;
    $release->();
    is scalar(grep { HttpRaw::status_of($_) =~ /^(?:200|503)$/ } @stay), 4, 'those who stayed get their answer';
    is HttpRaw::status_of($ask->('GET /api/products/9')), 200, 'and so does who comes later';
    $server->ends('cancels');
}

# ---- the end, while they wait and break ----------------------------------------
{
    my $server  = slow_server(50);
    my @sockets = map { HttpRaw::connect_to($server->port) } 1 .. 64;
    HttpRaw::put($sockets[$_], HttpRaw::order_bytes(1 + $_)) for 0 .. $#sockets;
    is HttpRaw::status_of($sockets[0]), 201, 'one is placed, the others wait';
    reset_it($_) for splice @sockets, 32;
    is $server->stop, 0, 'SIGTERM while some wait and some have left: exit 0';
    my %status;
    $status{ HttpRaw::status_of($_) }++ for @sockets[1 .. $#sockets];
    is +($status{201} || 0) + ($status{503} || 0), 31, 'those who stayed get their answer' or diag explain \%status;
    is +($server->audit)[1], 0, 'the ledger balances';
}

# ---- a client that closes its sending side ---------------------------------------
{
    my $server = slow_server(100);
    my $socket = HttpRaw::connect_to($server->port);
    HttpRaw::put($socket, HttpRaw::order_bytes(1));
    shutdown $socket, 1;
    is HttpRaw::status_of($socket), 201, 'gets its reply, though it has nothing more to say';
    is $server->stop, 0, 'stops';
}

# ---- others are served meanwhile -------------------------------------------------
{
    my $server  = slow_server(0, '--http-threads', 1, '--request-deadline-ms', 60_000);
    my $release = $server->hold_database;
    my $waiting = HttpRaw::connect_to($server->port);
    HttpRaw::put($waiting, HttpRaw::order_bytes(1));
    ok Stockade::eventually(5, sub { depth_of($server) == 1 }), 'an order waits';

    my $head   = "GET /livez HTTP/1.1\r\n$HOST" . join('', map { "X-$_: " . 'a' x 1000 . "\r\n" } 1 .. 7);
    my $socket = HttpRaw::connect_to($server->port);
    HttpRaw::put($socket, "$head\r\n");
    is HttpRaw::status_of($socket), 200, 'a long head in one piece';
    HttpRaw::put($socket, $_), select undef, undef, undef, 0.01 for "$head\r\n" =~ /(.{1,700})/gs;
    is HttpRaw::status_of($socket), 200, 'a long head in pieces';
    HttpRaw::put($socket, $LIVE x 20);
    is scalar @{ HttpRaw::read_replies($socket, 20)->{replies} }, 20, 'twenty requests in one piece';
    HttpRaw::put($socket, "PUT /api/products/9 HTTP/1.1\r\n${HOST}Content-Type: application/json\r\nContent-Length: 200000\r\n\r\n");
    HttpRaw::put($socket, ' ' x 50_000) for 1 .. 4;
    is HttpRaw::status_of($socket), 413, 'a body that is too long';
    HttpRaw::put($socket, "POST /api/orders HTTP/1.1\r\n${HOST}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    like HttpRaw::get($socket, $HttpRaw::PATIENCE_S), qr/^HTTP\/1.1 100 /, '100-continue';
    HttpRaw::put($socket, '{}');
    is HttpRaw::status_of($socket), 415, 'and what comes after it';
    my $bad = HttpRaw::connect_to($server->port);
    HttpRaw::put($bad, "GET /livez HTTP/9.9\r\n$HOST\r\n");
    like HttpRaw::get($bad, $HttpRaw::PATIENCE_S), qr/^HTTP\/1.1 505 /, 'what libmicrohttpd refuses by itself';
    is HttpRaw::get($waiting, 0), undef, 'none of them had to wait as well';
    $release->();
    is HttpRaw::status_of($waiting), 201, 'then the order is placed';
    is $server->stop, 0, 'stops';
}

# ---- what a connection sends while its order waits -------------------------------
{
    my $server = slow_server(200);
    my $socket = HttpRaw::connect_to($server->port);
    HttpRaw::put($socket, HttpRaw::order_bytes(1, 'a'));
    select undef, undef, undef, 0.05;
    HttpRaw::put($socket, $LIVE . HttpRaw::order_bytes(1, 'a') . $LIVE);
    my $seen = HttpRaw::read_replies($socket, 4);
    is_deeply [map { $_->{status} } @{ $seen->{replies} }], [201, 200, 201, 200], 'is answered afterwards, in order';
    is $server->stop, 0, 'stops';
}

# ---- a task that does not begin in time ------------------------------------------
{
    my $redis  = Stockade::Redis->start;
    my $server = Stockade->start(redis => $redis, args => ['--shared', '--no-seed', '--request-deadline-ms', 1000]);
    $server->product(9, 10);
    my $release = $server->hold_database;
    my @sockets = map { HttpRaw::connect_to($server->port) } 1 .. 12;
    HttpRaw::put($_, "GET /api/products/9 HTTP/1.1\r\n$HOST\r\n") for @sockets;
    my @replies = grep { $_ } map { HttpRaw::read_replies($_, 1)->{replies}[0] } @sockets;
    $release->();
    is scalar @replies, 12, 'tasks while the database is locked: each is answered';
    my @late = grep { $_->{status} == 503 && $_->{body} =~ /did not get to this request in time/ } @replies;
    cmp_ok scalar @late, '>=', 8, 'those that no reader has begun hear so';
    ok Stockade::eventually(10, sub { $server->get('/api/products/9')->{status} == 200 }), 'later ones are served';
    is $server->stop, 0, 'stops';
}

# ---- orders are gathered, but wait for nobody who is silent ------------------------
{
    my $server = Stockade->start(args => ['--http-threads', 1, '--no-seed']);
    $server->product(9, 1_000_000);
    my $one     = HttpRaw::connect_to($server->port);
    my $seconds = sub {
        my ($n, @others) = @_;
        my @took;
        for my $i (1 .. $n) {
            my $begin = time;
            HttpRaw::put($one, HttpRaw::order_bytes($i));
            HttpRaw::status_of($one) == 201 or die 'no order';
            push @took, time - $begin;
        }
        # The quick ones: what else the machine does at a time slows down some.
        return (sort { $a <=> $b } @took)[ $n / 10 ];
    };
    my $alone = $seconds->(200);
    # Each has ordered once, as if it would go on; or dribbles a request.
    my @idle = map { HttpRaw::connect_to($server->port) } 1 .. 200;
    is HttpRaw::round_of(\@idle, 201, sub { HttpRaw::order_bytes(1000 + $_[0]) }), 200, '200 customers have ordered, and are silent from then on';
    my @slow = map { HttpRaw::connect_to($server->port) } 1 .. 20;
    HttpRaw::put($_, substr HttpRaw::order_bytes(1), 0, 90) for @slow;
    my $most  = 2 * $alone + 0.001 * $Stockade::SLOW;
    my $among;
    for (1 .. 10) {
        last if ($among = $seconds->(200)) < $most;
    }
    cmp_ok $among, '<', $most,
        sprintf 'an order takes %.2f ms alone, %.2f ms among 220 who are idle or slow', 1000 * $alone, 1000 * $among;
    is $server->stop, 0, 'stops';
}

done_testing;
