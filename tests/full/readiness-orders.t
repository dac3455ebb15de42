# Goal of this test: /readyz goes by orders. From the moment that one failed for a
# reason of ours it says 503 until one would succeed, though a page can be written
# meanwhile: beside a trigger that raises. The log has one line of it. On a full disk:
# readiness.t, and at each size of it test_store_probe.c.
# Whoever asks hears what is known, and takes no reader away from anybody.
use lib 'tests/e2e';
use HttpRaw;
use Stockade;
use Time::HiRes qw(time);

my $redis = Stockade::Redis->start;

sub start {
    my ($flags, %with) = @_;
    my $server = Stockade->start(redis => $redis, args => ['--lock-wait-ms', 5000, @$flags], %with);
    $server->product(40, 1_000_000, limit_per_user => 9);
    is $server->order(40)->{status}, 201, 'sells before';
    return $server;
}

# With a key, which takes most room.
my $keys = 0;
sub order { my ($server) = @_; return $server->order(40, undef, 1, 'key-' . ++$keys) }

# No order succeeds. Then nobody who looks hears that one would, for as long as three
# tries take; and the log has a line at most.
sub stays_unready {
    my ($server, $what, $why) = @_;
    my $before = $server->log;
    my $end    = time + 3 * $Stockade::SLOW;
    my @ready;
    while (time < $end) {
        push @ready, grep { $_->{status} != 503 } map { $server->get('/readyz') } 1 .. 8;
        is order($server)->{status}, 503, "$what: no order succeeds";
        select undef, undef, undef, 0.3;
    }
    is scalar @ready, 0, "$what: nobody hears that one would" or diag $ready[0]{raw};
    like $server->get('/readyz')->{body}{detail}, $why, "$what: but why";
    my $after = substr $server->log, length $before;
    unlike $after, qr/state=works/, "$what: nor does the log say so";
    cmp_ok scalar(() = $after =~ /state=fails/g), '<=', 1, "$what: it has a line at most" or diag $after;
    return;
}

sub is_over {
    my ($server, $what) = @_;
    ok Stockade::eventually(8, sub { $server->get('/readyz')->{status} == 200 }), "$what, over: ready" or diag $server->log;
    is $server->order(40)->{status}, 201, "$what, over: sells again";
    return $server->ends("$what, over");
}

# ---- a trigger that raises -----------------------------------------------------------

for my $flags ([], ['--shared'], ['--orders', 'one-by-one']) {
    my $what   = "a trigger that raises @$flags";
    my $server = start($flags);
    my $sql = sub { is system('sqlite3', '-cmd', '.timeout 60000', $server->db, $_[0]), 0, "$what: $_[0]" };
    $sql->(q(CREATE TRIGGER no BEFORE INSERT ON orders BEGIN SELECT RAISE(ABORT, 'not today'); END));
    is order($server)->{status}, 503, "$what: an order fails";
    is $server->get('/readyz')->{status}, 503, "$what: not ready from that moment";
    stays_unready($server, $what, qr/the database fails since 20.*not today/);
    $sql->('DROP TRIGGER no');
    is_over($server, $what);
}

# ---- who asks takes no reader away ---------------------------------------------------

# An order that waits for the database's lock is the clock: pages are read before it is
# answered, however many ask whether we are ready.
my $server = start([]);
my $host   = 'Host: 127.0.0.1:' . $server->port;
my $body   = '{"product_id":40,"user_id":9,"quantity":1}';
my $free   = $server->hold_database;
my ($clock, @askers) = map { HttpRaw::connect_to($server->port) } 0 .. 3;
select undef, undef, undef, 1.2;    # what orders have said is old by then
HttpRaw::put($clock, "POST /api/orders HTTP/1.1\r\n$host\r\nContent-Type: application/json\r\nContent-Length: "
        . length($body) . "\r\n\r\n$body");
HttpRaw::put($_, "GET /readyz HTTP/1.1\r\n$host\r\n\r\n" x 20) for @askers;
# A try finds out after three seconds: until then nothing is known to have failed.
is HttpRaw::status_of($_), 200, 'three ask: each hears what is known, and waits for no try' for @askers;
is $server->get('/api/products')->{status}, 200, "three ask: a page is read, $_" for 1 .. 10;
is HttpRaw::get($clock, 0), undef, 'before an order hears that the database is locked';
like HttpRaw::get($clock, 20), qr{^HTTP/1.1 503 }, 'as it does then';
$free->();
is_over($server, 'locked');
done_testing;
