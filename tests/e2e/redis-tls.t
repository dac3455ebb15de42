# Goal of this test: serve talks to its Redis by TLS, for locks and for stock hints,
# and to nobody whose certificate is not good.
use lib 'tests/e2e';
use Stockade;

plan skip_all => 'built without TLS' if Stockade::run([qw(serve --redis rediss://127.0.0.1:1 --check-config)])->{exit} != 0;

my $dir = Stockade::tempdir();
for my $command (
    'req -x509 -newkey rsa:2048 -nodes -subj /CN=ca -days 2 -keyout ca.key -out ca.pem',
    'req -x509 -newkey rsa:2048 -nodes -subj /CN=other -days 2 -keyout other.key -out other.pem',
    'req -newkey rsa:2048 -nodes -subj /CN=redis -keyout redis.key -out redis.csr',
    'x509 -req -in redis.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out redis.pem',
    )
{
    my $said = `cd $dir && echo subjectAltName=IP:127.0.0.1 >ext && openssl $command 2>&1`;
    is $?, 0, 'a certificate' or BAIL_OUT($said);
}

# The Unix socket is for the test.
sub start {
    my (@more) = @_;
    for (1 .. 10) {
        my $at    = Stockade::free_port();
        my $redis = eval {
            Stockade::Redis->start(
                args => [
                    '--tls-port', $at, '--bind', '127.0.0.1', '--tls-auth-clients', 'yes', '--requirepass', 'sesame',
                    '--tls-cert-file', "$dir/redis.pem", '--tls-key-file', "$dir/redis.key", '--tls-ca-cert-file', "$dir/ca.pem",
                    @more
                ]
            );
        };
        return ($redis, $at) if $redis;
    }
    return BAIL_OUT('no redis-server with TLS');
}

my ($redis, $port) = start();
# A cluster of one, which does not even know its address.
my ($node, $node_port) = start(qw(--cluster-enabled yes --tls-cluster yes --cluster-port), Stockade::free_port());

sub ask {
    my ($server, @words) = @_;
    my $socket = IO::Socket::UNIX->new(Type => Socket::SOCK_STREAM, Peer => $server->{socket}) or die "$server->{socket}: $!";
    print {$socket} "AUTH sesame\r\n@words\r\n";
    $socket->flush;
    return scalar(<$socket>) . <$socket>;
}
like ask($node, qw(CLUSTER ADDSLOTSRANGE 0 16383)), qr/\+OK\r\n\+OK/, 'a cluster with TLS';

sub url { return "rediss://:sesame\@127.0.0.1:$port/3?ca=$dir/$_[0].pem&cert=$dir/redis.pem&key=$dir/redis.key" }

my $server = Stockade->start(redis => url('ca'), args => ['--no-seed']);
unlike $server->log, qr/sesame/, 'the password is not in the log';
$server->product(40, 100_000, segments => 4);
# Where the machine is busy a handshake may take longer than a first try waits.
sub sells { my ($product) = @_; Stockade::eventually(30, sub { $server->order($product)->{status} == 201 }) }
# One of hints as well: they are back with a later order.
sub hints_get_through {
    my ($product) = @_;
    return Stockade::eventually(30, sub {
        $server->order($product);
        my @told = $server->log =~ /msg=hints redis=(\w+)/g;
        return !@told || $told[-1] eq 'back';
    });
}
ok sells(40), 'it sells' for 1 .. 8;
is $server->get('/readyz')->{status}, 200, 'and is ready';
my $load = Stockade::Load->start(servers => [$server], product => 40, clients => 4);
ok $load->wait_for(20, 20), 'to several at once';
$load->finish;
ok hints_get_through(40), 'the hints get through as well';
$redis->kill9;
# A lock is kept for a moment, in which orders are placed without Redis.
ok Stockade::eventually(10, sub { ($server->order(40)->{raw} // '') =~ /lock-unreachable/ }), 'away: it says so';
$redis->again;
ok Stockade::eventually(10, sub { $server->order(40)->{status} == 201 }), 'back: it goes on';
$server->ends('in the end');

$server = Stockade->start(redis => url('other'), unready => 1, args => ['--no-seed']);
like $server->log, qr/msg=health part=lock-server.*TLS: the server's certificate: /, 'a certificate that nobody vouches for is no good';
is $server->stop, 0, 'it ends';

(my $url = url('ca')) =~ s{rediss://(.*):$port/3}{clusters://$1:$node_port};
$server = Stockade->start(redis => $url, args => ['--no-seed', '--lock-wait-ms', 10_000]);
$server->product(41, 100, segments => 4);
ok sells(41), 'it sells over the cluster' for 1 .. 8;
ok hints_get_through(41), 'with the hints';
$server->ends('in the end');
$_->stop for $redis, $node;
done_testing;
