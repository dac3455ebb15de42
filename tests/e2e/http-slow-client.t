# Goal of this test: a client that is slow on purpose is cut off at the
# deadline for whole requests, however busy it looks; and a proper client
# beside it does not notice.
use lib 'tests/e2e';
use HttpRaw;
use Errno ();
use Socket ();
use Stockade;
use Time::HiRes qw(time);

# Several times what a busy machine may stall a process.
my $LIMIT_S = 3;
# What a cut may take beyond the limit: scheduling, not waiting.
my $GRACE_S = 5 * $HttpRaw::SLOW;

my $server = Stockade->start(args => ['--request-deadline-ms', $LIMIT_S * 1000]);
my $port   = $server->port;
$server->product(3, 1_000_000);
my $HOST = "Host: localhost\r\n";
my $POST = "POST /api/orders HTTP/1.1\r\n${HOST}Content-Type: application/json\r\n";

# A client that asks for little and often, in the background: its slowest
# request, in seconds, comes back through a pipe.
sub healthy {
    my ($seconds) = @_;
    pipe my $from, my $to or die "pipe: $!";
    my $client = Stockade::Child->copy(sub {
        my ($worst, $bad, $end, $n) = (0, 0, time + $seconds, 0);
        my $socket = HttpRaw::connect_to($port);
        while (time < $end) {
            my $start = time;
            HttpRaw::put($socket, "GET /api/products/3 HTTP/1.1\r\n$HOST\r\n");
            my $reply = HttpRaw::read_replies($socket, 1)->{replies}[0];
            $bad++ if !$reply || $reply->{status} != 200;
            $worst = time - $start if time - $start > $worst;
            $n++;
            select undef, undef, undef, 0.01;
        }
        syswrite $to, "$worst $bad $n";
    });
    close $to;
    return sub {
        my $line = <$from>;
        $client->wait;
        return split / /, $line;
    };
}

my $join = healthy(2 * $LIMIT_S + 1);

# ---- requests that never end, at the same time ---------------------------------
my @drips = (
    ['a head',           "GET /livez HTTP/1.1\r\n${HOST}X: ",               'a' x 1000],
    ['a body',           "${POST}Content-Length: 1000\r\n\r\n",             ' ' x 1000],
    ['chunks',           "${POST}Transfer-Encoding: chunked\r\n\r\n",       "1\r\n \r\n" x 200],
    ['the request line', 'GET /',                                           'a' x 1000],
    ['nothing at all',   '',                                                ''],
);
my $start = time;
for my $drip (@drips) {
    my ($name, $begin, $bytes) = @$drip;
    my $socket = HttpRaw::connect_to($port);
    HttpRaw::put($socket, $begin);
    $drip = { name => $name, socket => $socket, bytes => $bytes };
}
while (time - $start < 4 * $LIMIT_S + $GRACE_S && grep { !defined $_->{took} } @drips) {
    for my $drip (grep { !defined $_->{took} } @drips) {
        my $got  = HttpRaw::get($drip->{socket}, 0);
        my $sent = HttpRaw::put($drip->{socket}, substr $drip->{bytes}, 0, 1, '');
        next if $sent && !defined $got;
        $drip->{took} = time - $start;
        $drip->{answer} = $got;
    }
    select undef, undef, undef, 0.05;
}
for my $drip (@drips) {
    my $reply = HttpRaw::take_reply(\(my $text = $drip->{answer} // ''));
    if ($drip->{name} =~ /body|chunks/) {
        is $reply && $reply->{status}, 408, "$drip->{name}: 408";
        is $reply && $reply->{headers}{connection}, 'close', "$drip->{name}: and the end of the connection";
        like $reply && $reply->{body}, qr/urn:stockade:problem:request-timeout.*\n\z/, "$drip->{name}: as a problem";
    } else {
        ok !length($drip->{answer} // ''), "$drip->{name}: got no answer" or diag $drip->{answer};
    }
    cmp_ok $drip->{took} // 0, '>=', $LIMIT_S * 0.9, "$drip->{name}: had its time";
    cmp_ok $drip->{took} // 999, '<=', 2 * $LIMIT_S + $GRACE_S, "$drip->{name}: was cut after it";
}

my ($worst, $bad, $n) = $join->();
is $server->metric('stockade_http_responses_total', class => '4xx'), 2, 'each 408 is counted';
ok Stockade::eventually(10, sub { $server->metric('stockade_connections') == 1 }), 'who was told 408 and does not leave is cut';
is $bad, 0, "all $n requests of a client beside them were answered";
cmp_ok $worst, '<', 0.7 * $LIMIT_S, 'and did not wait until those were cut: ' . sprintf('%.0f ms at worst', $worst * 1000);

# ---- the rest of a body, after the answer ----------------------------------------
{
    my $socket = HttpRaw::connect_to($port);
    HttpRaw::put($socket, "${POST}Content-Length: 41\r\n\r\n{");
    is HttpRaw::status_of($socket), 408, 'a body that stops: 408';
    HttpRaw::put($socket, '"product_id":3,"user_id":5,"quantity":1}');
    my $talk = HttpRaw::read_replies($socket, 1);
    is_deeply [$talk->{replies}, $talk->{closed}], [[], 1], 'the rest of it gets nothing but the end';
    is $server->get('/api/products/3')->{body}{sold}, 0, 'and orders nothing';
}

# ---- replies that are never read ---------------------------------------------
{
    # Asks for more than socket buffers hold, and reads nothing.
    my $socket = HttpRaw::connect_to($port);
    setsockopt $socket, Socket::SOL_SOCKET(), Socket::SO_RCVBUF(), pack('i', 4096);
    my ($asked, $start) = (0, time);
    $socket->blocking(0);
    my $ask = "GET /openapi.json HTTP/1.1\r\n$HOST\r\n" x 50;
    local $SIG{PIPE} = 'IGNORE';
    my $cut = Stockade::eventually(3 * $LIMIT_S + $GRACE_S, sub {
        my $n = syswrite $socket, $ask;
        $asked += $n || 0;
        return !defined $n && !$!{EAGAIN};
    });
    ok $cut, "one that never reads is cut (after $asked bytes of requests)";
    cmp_ok time - $start, '>=', $LIMIT_S * 0.9, 'in its time';
}

# ---- slow, but not too slow ---------------------------------------------------
{
    # Once more where the machine is so busy that a request takes too long.
    my $ok;
    for my $try (1 .. 4) {
        my $socket = HttpRaw::connect_to($port);
        $ok = 0;
        for (1 .. 3) {
            # Idle for most of the limit, then a request that takes most of it.
            select undef, undef, undef, 0.6 * $LIMIT_S;
            HttpRaw::put($socket, "GET /livez HTTP/1.1\r\n");
            select undef, undef, undef, 0.6 * $LIMIT_S;
            HttpRaw::put($socket, "$HOST\r\n");
            HttpRaw::read_replies($socket, 1)->{replies}[0] or last;
            $ok++;
        }
        last if $ok == 3;
    }
    is $ok, 3, 'a request that begins late has its full time, again and again';
}

# ---- whoever leaves -----------------------------------------------------------
for my $round (1 .. 50) {
    my $socket = HttpRaw::connect_to($port);
    HttpRaw::put($socket, $round % 2
        ? "${POST}Content-Length: 41\r\n\r\n" . '{"product_id":3,"user_id":5,"quantity":1}'
        : "${POST}Content-Length: 41\r\n\r\n{");
    close $socket;
}
ok Stockade::eventually(5, sub { $server->get('/livez')->{status} == 200 }), 'clients that leave do no harm';
ok Stockade::eventually(10, sub { $server->get('/api/products/3')->{body}{sold} == 25 }),
    'an order that came in whole is placed, even if nobody waits for it';
ok $server->get('/api/audit')->{body}{balanced}, 'the ledger balances';
is $server->stop, 0, 'the server stops as it should';
done_testing;
