# Goal of this test: a Redis that is not what it should be is told in clear words, at
# the start and to customers; and when it is put right, the service sells without
# being started anew. (Wrong passwords: redis-login.t; wrong urls: test_config.c. Other
# texts of libdlock: test_dlock_cluster.c, test_dlock_sentinel.c.)
use lib 'tests/e2e';
use IO::Select ();
use IO::Socket::INET ();
use Stockade;

# ---- another Redis than is needed -------------------------------------------

# Answers each command with the same line.
sub fake {
    my ($port, $line) = @_;
    my $listener = IO::Socket::INET->new(Listen => 8, LocalAddr => '127.0.0.1', LocalPort => $port, ReuseAddr => 1) or die "port: $!";
    my $all = IO::Select->new($listener);
    return Stockade::Child->copy(sub {
        while (my @ready = $all->can_read) {
            for my $one (@ready) {
                if ($one == $listener) {
                    $all->add($listener->accept);
                } elsif (sysread $one, my $bytes, 65536) {
                    syswrite $one, "$line\r\n" x (() = $bytes =~ /^\*\d/mg);
                } else {
                    $all->remove($one);
                }
            }
        }
    });
}

sub is_told {
    my ($what, $server, $text) = @_;
    like $server->log, qr/msg=health part=lock-server state=fails.*$text/, "$what: the log says so";
    my $reply = $server->order(40);
    is $reply->{status}, 503, "$what: 503";
    is Stockade::slug($reply), 'lock-unreachable', "$what: the lock server";
    like $reply->{headers}{'retry-after'}, qr/^[1-9]\d*$/, "$what: Retry-After";
    like $server->get('/readyz')->{raw}, qr/$text/, "$what: and so does /readyz";
    return;
}

my $port = Stockade::free_port();
my $old  = fake($port, '-ERR Error running script (call to f_0): @user_script:29: @user_script: 29: Write commands not allowed '
        . 'after non deterministic commands. Call redis.replicate_commands() at the start of your script');
my $server = Stockade->start(redis => "redis://127.0.0.1:$port", unready => 1, args => ['--lock-wait-ms', 4000]);
$server->product(40, 10);
is_told('too old', $server, 'redis is too old: version 5 or newer is needed');
$old->end;
my $redis = Stockade::Redis->start(args => ['--port', $port, '--bind', '127.0.0.1']);
ok Stockade::eventually(10, sub { $server->order(40)->{status} == 201 }), 'a newer one: it sells';
is $server->get('/readyz')->{status}, 200, 'and is ready';
is $server->stop, 0, 'it ends';

# A list of two thousand million parts is refused, and no room is made for it. What
# was sent before it is not known to be done.
for my $scheme (qw(redis cluster)) {
    my $free = Stockade::free_port();
    my $liar = fake($free, '*2000000000');
    $server = Stockade->start(redis => "$scheme://127.0.0.1:$free", unready => 1, args => ['--lock-wait-ms', 4000]);
    $server->product(40, 10);
    is $server->order(40)->{status}, 503, "$scheme, a list without end: not now";
    my ($kb) = Stockade::slurp('/proc/' . $server->pid . '/status') =~ /^VmPeak:\s+(\d+)/m;
    cmp_ok $kb, '<', 8_000_000, 'without room for it' if $Stockade::SLOW == 1;
    is $server->stop, 0, 'it ends';
    $liar->end;
}
done_testing;
