# Goal of this test: while Redis is silent, dead, full or away, nothing is sold and
# everybody is told so within the wait time, but repeated keys hear of their orders;
# when it is back, we sell again.
use lib 'tests/e2e';
use Stockade;
use Time::HiRes qw(time);

my $WAIT_MS    = 3000;
my $redis      = Stockade::Redis->start;
my $server     = Stockade->start(
    redis => $redis,
    args  => ['--lock', 'fenced', '--lock-wait-ms', $WAIT_MS],
);
$server->product(40, 1000);
is $server->order(40, 7, 1, 'known')->{status}, 201, 'sells while all is well';
my $sold = 1;

# Orders while Redis is away: refused as SAYS, soon, with Retry-After.
sub refused {
    my ($what, $says) = @_;
    my $begin = time;
    my $reply = $server->order(40);
    my $took  = time - $begin;
    is $reply->{status}, 503, "$what: 503" or diag $reply->{raw}, $server->log;
    like Stockade::slug($reply), $says, "$what: says why";
    unlike $reply->{raw}, qr/OOM|memory|script|acquire/i, "$what: what Redis says is not for customers";
    like $reply->{headers}{'retry-after'}, qr/^[1-9]\d*$/, "$what: Retry-After";
    cmp_ok $took, '<', 1.7 * $WAIT_MS / 1000 * $Stockade::SLOW, "$what: within the wait time";
    is $server->order(40, 7, 1, 'known')->{status}, 201, "$what: a repeated key hears of its order";
    is $server->get('/livez')->{status}, 200, "$what: the server lives";
    return;
}

sub recovers {
    my ($what, $seconds) = @_;
    my $begin = time;
    my $reply;
    my $ok = Stockade::eventually($seconds, sub { ($reply = $server->order(40))->{status} == 201 });
    ok $ok, "$what: sells again by itself" or diag "$reply->{status} $reply->{raw}\n", $server->log;
    note sprintf '%s: sold again after %.2f s', $what, time - $begin;
    $sold++ if $ok;
    is $server->get('/api/products/40')->{body}{stock}, 1000 - $sold, "$what: nothing was sold meanwhile";
    return;
}

# A lock is kept for a moment, in which orders are placed without Redis.
sub nothing_held { return ok Stockade::eventually(5, sub { !$redis->locks }), 'the lock is given back' }

nothing_held();
$redis->pause;
refused("silent ($_)", qr/^lock-(?:unreachable|timeout)$/) for 1 .. 3;
$redis->resume;
# What was sent during the silence is carried out now: a lock that nobody waits for
# any more may stay until its lease ends.
recovers('silent', 15);

nothing_held();
$redis->kill9;
refused("dead ($_)", qr/^lock-unreachable$/) for 1 .. 3;
is $server->get('/readyz')->{status}, 503, 'dead: not ready';
$redis->again;
recovers('dead', 10);
is $server->get('/readyz')->{status}, 200, 'ready again';

nothing_held();
$redis->command(qw(CONFIG SET maxmemory 1));
refused('full', qr/^lock-unreachable$/);
$redis->command(qw(CONFIG SET maxmemory 0));
recovers('full', 5);

$redis->stop;
$redis->again;
recovers('restarted, between two orders', 5);

$redis->command('FLUSHALL');
$redis->command('SCRIPT', 'FLUSH');
recovers('forgot its scripts and its keys', 5);

my $verdict = $server->ends('in the end');
is $verdict->{sold}, $sold, 'and has what was acknowledged';

# The lock cannot be given back: Redis turns read-only while it is held, as in a
# failover. The buyer has an answer; and the product is free as soon as Redis can
# write, not when the lease ends.
$server = Stockade->start(redis => $redis, args => ['--lock', 'fenced', '--think-ms', 1500, '--lock-lease-ms', 60_000]);
$server->product(41, 10);
my $buyer = Stockade::Load::ask($server, 41, 1);
ok Stockade::eventually(5, sub { $redis->command('EXISTS', 'lock:{41:0}') }), 'the lock is held';
$redis->command('REPLICAOF', '127.0.0.1', 1);
is $buyer->()->[0], 201, 'read-only: the order under the lock is answered';
$redis->command('REPLICAOF', 'NO', 'ONE');
ok Stockade::eventually(20, sub { $server->order(41)->{status} == 201 }), 'read-only: sells again as soon as Redis can write';
$server->ends('read-only');

# Its own redis-server
$server = Stockade->start(args => ['--lock', 'fenced']);
$server->product(40, 1000);
is $server->order(40)->{status}, 201, 'spawned: sells';
my ($child) = grep { Stockade::Child::name_of($_) eq 'redis-server' } $server->children;
ok $child, 'spawned: has a redis-server of its own' or BAIL_OUT('no child found');
# It refuses writes when it is full; it does not throw locks away.
my $own    = bless { socket => $server->db . '.redis' }, 'Stockade::Redis';
my %config = map { @{ $own->command('CONFIG', 'GET', $_) } } qw(maxmemory maxmemory-policy);
cmp_ok $config{maxmemory}, '>', 0, 'spawned: with a limit';
is $config{'maxmemory-policy'}, 'noeviction', 'spawned: and it forgets nothing';
$sold = 1;
kill 'KILL', $child;
recovers('spawned and killed', 10);
my ($next) = grep { Stockade::Child::name_of($_) eq 'redis-server' } $server->children;
ok $next && $next != $child, 'spawned: another one has taken its place';
Stockade::Child::freeze($next);
is $server->stop, 0, 'spawned: ends';
is Stockade::Child::name_of($next), '', 'spawned: and takes its redis-server along, though that stood still';
ok !-e $server->db . '.redis', 'spawned: with its socket';
is +($server->audit)[1], 0, 'spawned: the ledger balances';

# A name that would end in the middle of an address is none for a socket, nor is that of
# a file which redis-server would remove.
my $folder = Stockade::tempdir();
mkdir "$folder/$_" or die "$folder/$_: $!" for my @strange = ('a,b?c', 'taken');
Stockade::write_file("$folder/taken/stockade.db.redis", 'precious');
for my $strange (@strange) {
    $server = Stockade->start(dir => "$folder/$strange", args => ['--lock', 'fenced']);
    $server->product(40, 1000);
    is $server->order(40)->{status}, 201, "spawned: sells beside $strange";
    $server->ends('spawned');
}
is Stockade::slurp($server->db . '.redis'), 'precious', 'spawned: and leaves alone what is not its own';

# Its redis-server dies, and SCRIPT takes its place.
my $bin = Stockade::tempdir();
my ($real) = grep { -x } map { "$_/redis-server" } split /:/, $ENV{PATH};
sub outlives {
    my ($script) = @_;
    unlink "$bin/redis-server";
    symlink $real, "$bin/redis-server" or die $!;
    $server = Stockade->start(args => ['--lock', 'fenced'], env => { PATH => "$bin:$ENV{PATH}" });
    unlink "$bin/redis-server";
    Stockade::write_file("$bin/redis-server", $script);
    chmod 0755, "$bin/redis-server";
    kill 'KILL', grep { Stockade::Child::name_of($_) eq 'redis-server' } $server->children;
    return;
}

# One that cannot start again is tried each second, and said each ten.
outlives("#!/bin/sh\necho >>'$bin/tries'\n");
ok Stockade::eventually(20, sub { -e "$bin/tries" && -s "$bin/tries" >= 4 }), 'spawned, cannot start: it is tried again and again';
is scalar(() = $server->log =~ /msg=redis error=/g), 1, 'spawned, cannot start: and said once' or diag $server->log;
is $server->stop, 0, 'spawned, cannot start: ends';

# One that is never ready would be waited for longer than it sleeps here.
outlives("#!$^X\nmkdir '$bin/begun'; sleep 8; mkdir '$bin/lasted'; sleep 60\n");
ok Stockade::eventually(20, sub { -e "$bin/begun" }), 'spawned, never ready: it is waited for';
is $server->stop, 0, 'spawned, never ready: ends';
ok !-e "$bin/lasted", 'spawned, never ready: and the wait with it';
done_testing;
