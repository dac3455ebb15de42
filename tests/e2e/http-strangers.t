# Goal of this test: strangers who only keep connections open keep nobody out. A
# newcomer takes the place of the connection that has been idle for longest, and
# /livez answers within a second; a client gives way to itself first. Nobody loses a
# request that is on its way.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use HttpRaw;
use IO::Select;
use POSIX ();
use Stockade;
use Test::More;
use Time::HiRes qw(time);

my $LIVEZ = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
my $ORDER = "POST /api/orders HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 41\r\n\r\n";
my $BODY  = '{"product_id":3,"user_id":5,"quantity":1}';

# Whether the server has closed it. What is on its way may take a moment.
sub is_closed {
    my ($socket) = @_;
    my $got = HttpRaw::get($socket, $HttpRaw::PATIENCE_S);
    return defined $got && $got eq '';
}

sub is_open {
    my ($socket) = @_;
    HttpRaw::put($socket, $LIVEZ);
    return HttpRaw::status_of($socket) eq '200';
}

sub from {
    my ($server, $address) = @_;
    return HttpRaw::connect_to($server->port, LocalAddr => $address);
}

# A process that opens N connections from ADDRESS and keeps them for as long as
# this one lives, or until it is killed.
my @lives;
sub crowd {
    my ($server, $address, $n) = @_;
    pipe my $from, my $to   or die "pipe: $!";
    pipe my $life, my $mine or die "pipe: $!";
    my $pid = fork;
    die "fork: $!" if !defined $pid;
    if (!$pid) {
        close $_ for $mine, @lives;
        my @sockets = map { from($server, $address) } 1 .. $n;
        syswrite $to, scalar @sockets;
        sysread $life, my $byte, 1;
        POSIX::_exit(0);
    }
    close $to;
    push @lives, $mine;
    sysread $from, my $got, 16;
    is $got, $n, "$n connections from $address";
    return sub { kill KILL => $pid; waitpid $pid, 0 };
}

# ---- the longest idle one gives way ------------------------------------------------
{
    my $server = Stockade->start(args => [qw(--connections-max 16 --client-connections-max 16 --http-threads 1 --request-deadline-ms 60000)]);
    $server->product(3, 100);
    # Its head is there before any other can be too many.
    my $busy = from($server, '127.0.0.1');
    HttpRaw::put($busy, $ORDER);
    my @idle = map { from($server, '127.0.0.1') } 1 .. 15;
    ok is_open($_), 'all that may be there are' for @idle, $idle[0];
    my $newcomer = from($server, '127.0.0.1');
    ok is_open($newcomer), 'one more is served';
    ok is_closed($idle[1]), 'for the one that was idle for longest';
    ok is_open($_), 'and for no other' for @idle[2, 0, 14];
    HttpRaw::put($busy, $BODY);
    is HttpRaw::status_of($busy), 201, 'nor for one that has begun a request';
    is $server->stop, 0, 'stops';
}

# ---- who has just come, and whose request is on its way -------------------------------
{
    my $server = Stockade->start(args => [qw(--connections-max 8 --client-connections-max 100 --http-threads 1 --request-deadline-ms 60000)]);
    $server->product(3, 100);
    my @busy = map { my $one = from($server, '127.0.0.1'); HttpRaw::put($one, $ORDER); $one } 1 .. 8;
    my $newcomer = from($server, '127.0.0.1');
    is HttpRaw::get($newcomer, 0.1), undef, 'while all are busy, a newcomer waits';
    HttpRaw::put($busy[0], $BODY);
    is HttpRaw::status_of($busy[0]), 201, 'one of them is answered';
    select undef, undef, undef, 0.05;
    ok is_open($newcomer), 'the newcomer may send its request a little later';
    ok is_closed($busy[0]), 'for the one that was answered';
    is $server->stop, 0, 'stops';
}
{
    my $server = Stockade->start(args => [qw(--connections-max 8 --client-connections-max 100 --http-threads 1 --request-deadline-ms 60000)]);
    $server->product(3, 100);
    my @busy = map { my $one = from($server, '127.0.0.1'); HttpRaw::put($one, $ORDER); $one } 1 .. 9;
    is HttpRaw::get($busy[8], 0.1), undef, 'all are busy, with one too many';
    # All of it is sent at once: libmicrohttpd reads the second with the first.
    HttpRaw::put($busy[0], "$BODY$ORDER$BODY");
    my $talk = HttpRaw::read_replies($busy[0], 2);
    is join(' ', map { $_->{status} } @{ $talk->{replies} }), '201 201', 'a pipelined request is answered';
    HttpRaw::put($_, $BODY) for @busy[1 .. 8];
    is HttpRaw::status_of($_), 201, 'and all others are' for @busy[1 .. 8];
    is $server->stop, 0, 'stops';
}

# ---- a request line is no request ----------------------------------------------------
for my $threads (1, 4) {
    my $server = Stockade->start(args => [qw(--connections-max 8 --client-connections-max 100 --http-threads), $threads]);
    my $n      = 8 + $threads;
    my @lines  = map { my $one = from($server, '127.0.0.1'); HttpRaw::put($one, "GET / HTTP/1.1\r\n"); $one } 1 .. $n;
    ok is_open(from($server, '127.0.0.1')), "with $n that have sent a line: /livez answers";
    is $server->stop, 0, 'stops';
}

# ---- a client gives way to itself ---------------------------------------------------
{
    my $server = Stockade->start(args => [qw(--client-connections-max 4 --http-threads 1)]);
    my $other  = from($server, '127.0.0.2');
    my @own    = map { from($server, '127.0.0.1') } 1 .. 5;
    ok is_closed($own[0]), 'the fifth of four: the first is closed';
    ok is_open($_), 'and no other' for @own[1 .. 4], $other;
    HttpRaw::put($_, $ORDER) for @own[1 .. 4];
    HttpRaw::put($other, $LIVEZ);
    is HttpRaw::status_of($other), 200, 'another address is served';
    ok is_closed(from($server, '127.0.0.1')), 'while all of them are busy, a further one is closed';
    $server->restart(args => [qw(--client-connections-max 4 --trusted-proxy 127.0.0.1)], token => 't');
    my @proxied = map { from($server, '127.0.0.1') } 1 .. 20;
    ok is_open($proxied[0]), 'of a proxy that is trusted all are kept';
    is $server->stop, 0, 'stops';
}

# ---- whichever thread has accepted which ---------------------------------------------
{
    my $server = Stockade->start(args => [qw(--connections-max 64 --client-connections-max 128 --http-threads 4)]);
    my @idle   = map { from($server, '127.0.0.1') } 1 .. 64;
    is scalar(grep { is_open($_) } @idle, @idle), 128, 'four threads: all that may be there are';
    my ($served, $closed) = (0, 0);
    my @newcomers = map {
        my $newcomer = from($server, '127.0.0.1');
        $served += is_open($newcomer);
        $closed += is_closed($idle[$_]);
        $newcomer;
    } 0 .. 31;
    is $served, 32, 'each of half as many more is served';
    is $closed, 32, 'for the one of all that was idle for longest';
    is scalar(grep { is_open($_) } @idle[32 .. 63], @newcomers), 64, 'and for no other';
    is $server->stop, 0, 'stops';
}
{
    my $server = Stockade->start(args => [qw(--client-connections-max 3 --http-threads 4)]);
    my $other  = from($server, '127.0.0.2');
    ok is_open($other), 'four threads: another address has a connection';
    my @own = map { from($server, '127.0.0.1') } 1 .. 3;
    is scalar(grep { is_open($_) } @own), 3, 'one that may have three has three';
    my $n = 0;
    while ($n < 100) {
        my $newcomer = from($server, '127.0.0.1');
        last if !is_open($newcomer);
        my ($ended) = IO::Select->new(@own)->can_read(5 * $HttpRaw::SLOW) or last;
        @own = grep { $_ != $ended } @own;
        last if 2 != grep { is_open($_) } @own;
        push @own, $newcomer;
        $n++;
    }
    is $n, 100, 'a hundred more are served, each for one of its own';
    ok is_open($other), 'the other address has its own';
    my $busy = sub {
        my $one = from($server, '127.0.0.1');
        HttpRaw::put($one, $ORDER =~ s/Host/Expect: 100-continue\r\nHost/r);
        return (HttpRaw::get($one, $HttpRaw::PATIENCE_S) // 'nothing') =~ /^HTTP.1.1 100 / ? $one : ();
    };
    my @busy = map { $busy->() } 1 .. 3;
    is scalar(grep { is_closed($_) } @own), 3, 'those that are busy take the places of all';
    push @busy, map { $busy->() } 1 .. 20;
    is scalar @busy, 6, 'then there may be one more for each of the other threads';
    HttpRaw::put($_, $BODY) for @busy;
    is scalar(grep { HttpRaw::status_of($_) eq '404' } @busy), 6, 'which are served';
    is $server->stop, 0, 'stops';
}

# ---- thousands --------------------------------------------------------------------
SKIP: {
    my $hard = `bash -c 'ulimit -Hn'` || 0;
    skip "needs 6000 file descriptors a process, may have $hard", 15 if $hard =~ /^\d+$/ && $hard < 6000;
    my $server = Stockade->start(wrap => ['bash', '-c', 'ulimit -n 6000; exec "$@"', 'sh']);
    my $n      = 4200;
    my @leave;
    for my $address ('127.0.0.1', '127.0.0.2') {
        # So many for a process that need not raise its own limit.
        push @leave, map { crowd($server, $address, $n / 6) } 1 .. 6;
        # The best of some: a busy machine may be late, but not each time.
        my $best = 999;
        for (1 .. 5) {
            my $start = time;
            ok is_open(from($server, '127.0.0.1')), "with $n idle connections from $address: /livez answers";
            my $took = time - $start;
            $best = $took if $took < $best;
        }
        cmp_ok $best, '<', 1 * $HttpRaw::SLOW, sprintf 'within a second: %.3f', $best;
    }
    is $server->order(1)->{status}, 201, 'and orders are placed';
    $_->() for @leave;
    is $server->stop, 0, 'stops';
}
done_testing;
