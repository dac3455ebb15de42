# Goal of this test: many connections at once are all served, kept alive, and
# counted: neither 127 nor 256 is a magic number here. What is beyond a limit
# waits, and when the server goes, nobody is left hanging.
use lib 'tests/e2e';
use HttpRaw;
use Stockade;
use Time::HiRes qw(time);

my $N    = 256;
my $HOST = "Host: localhost\r\n";

# ---- with one thread and with four ------------------------------------------
for my $threads (1, 4) {
    my $server = Stockade->start(args => ['--http-threads', $threads]);
    $server->product(9, 100_000);
    my @sockets = map { HttpRaw::connect_to($server->port) } 1 .. $N;
    for my $round (1 .. 3) {
        is HttpRaw::round_of(\@sockets, 200, sub { "GET /livez HTTP/1.1\r\n$HOST\r\n" }), $N,
            "$threads threads: $N connections are served, round $round";
        is HttpRaw::round_of(\@sockets, 201, sub { HttpRaw::order_bytes(1 + $_[0]) }), $N,
            "$threads threads: $N orders at once, round $round";
        is HttpRaw::round_of(\@sockets, 200, sub { "GET /api/products/9 HTTP/1.1\r\n$HOST\r\n" }), $N,
            "$threads threads: $N tasks at once, round $round";
    }
    my @exact = @sockets[0 .. 127];
    is HttpRaw::round_of(\@exact, 200, sub { "GET /livez HTTP/1.1\r\n$HOST\r\n" }), 128, 'exactly 128 at once';
    is $server->get('/api/products/9')->{body}{sold}, 3 * $N, 'every order is there';
    is $server->stop, 0, "$threads threads: stops with $N connections open";
    is scalar(grep { my $end = HttpRaw::get($_, $HttpRaw::PATIENCE_S); defined $end && $end eq '' } @sockets), $N,
        'and closes them all';
}

# ---- limits ------------------------------------------------------------------
{
    my $server  = Stockade->start(args => [
        '--connections-max', 32, '--client-connections-max', 1000, '--http-threads', 2, '--request-deadline-ms', 60_000,
    ]);
    my ($begun, $rest) = HttpRaw::order_bytes(1) =~ /(.*)(\})/s;
    my @sockets = map { my $one = HttpRaw::connect_to($server->port); HttpRaw::put($one, $begun); $one } 1 .. 100;
    HttpRaw::put($_, $rest) for @sockets[50 .. 99];
    my $early = grep { HttpRaw::read_replies($_, 1, 0.02)->{replies}[0] } @sockets[50 .. 99];
    is $early, 0, 'no more connections than allowed are served';
    HttpRaw::put($_, $rest) for @sockets[0 .. 49];
    my ($turns, $end) = (0, time + $HttpRaw::PATIENCE_S * $HttpRaw::SLOW);
    while (@sockets && time < $end) {
        for my $one (splice @sockets) {
            my $reply = HttpRaw::read_replies($one, 1, 0.02)->{replies}[0];
            $turns++ if $reply && $reply->{status} == 404;
            push @sockets, $one if !$reply; # who was answered leaves, and makes room
        }
    }
    is $turns, 100, 'then each has its turn';
    ok Stockade::eventually(5, sub { $server->get('/livez')->{status} == 200 }), 'when they go, others come';
    is $server->stop, 0, 'stops';
}

done_testing;
