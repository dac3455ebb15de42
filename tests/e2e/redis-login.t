# Goal of this test: the service logs in to its Redis, for locks and for stock
# hints, on the database that is meant; where it cannot, customers are told within
# the wait time. The password gets nowhere: not into the log, a reply, or /metrics.
use lib 'tests/e2e';
use Stockade;
use Time::HiRes qw(time);

my $WAIT_MS = 3000;
my $SECRET  = 'p@ss/w0rd%1';
my $ENCODED = 'p@ss/w0rd%251';

# Who does not log in can neither lock nor read or write hints.
my $redis = Stockade::Redis->start(
    args => [
        '--user', 'shop', 'on', ">$SECRET", '~*', '&*', '+@all',
        '--user', 'default', 'on', 'nopass', '~*', '&*', '+@all', '-@scripting', '-@string', '-@pubsub',
    ],
);
my $url = $redis->url . "?user=shop&password=$ENCODED&db=5";

# All that a server has said: its log, and what it answers.
sub kept {
    my ($what, $server, @replies) = @_;
    my $said = join "\n", $server->log, map { $server->get($_)->{raw} } qw(/metrics /livez /readyz /api/products /nowhere);
    $said .= join "\n", map { $_->{raw} } @replies;
    unlike $said, qr/\Q$SECRET\E|\Q$ENCODED\E/, "$what: the password is nowhere";
    return;
}

my $server = Stockade->start(redis => $url, args => ['--no-seed', '--lock', 'fenced']);
like $server->log, qr/msg=ready.*redis=\S*user=shop&password=\*\*\*/, 'the ready line has the url without it';
$server->product(1, 40, segments => 4);
is $server->order(1)->{status}, 201, 'it sells';
ok Stockade::eventually(10, sub { $redis->command('INFO', 'keyspace') =~ /^db5:keys=/m }), 'on its database';
unlike $redis->command('INFO', 'keyspace'), qr/^db0:/m, 'and on no other';
ok Stockade::eventually(10, sub { $server->order(1); $redis->command('CLIENT', 'LIST') =~ /user=shop.* cmd=(?:set|get)\b|cmd=(?:set|get)\b.*user=shop/ }),
    'the hints log in as well';
unlike $server->log, qr/msg=hints redis=/, 'and are not refused';
kept('it sells', $server);
is $server->stop, 0, 'it ends';

# By environment, where it is not in the list of processes.
my $ran = Stockade::run(['serve', '--check-config'], env => { STOCKADE_REDIS => $url });
is $ran->{exit}, 0, 'the url by environment';

# ---- a wrong one -------------------------------------------------------------

$redis->command('ACL', 'SETUSER', 'shop', 'resetpass', '>another');
$server = Stockade->start(redis => $url, unready => 1, args => ['--no-seed', '--lock', 'fenced', '--lock-wait-ms', $WAIT_MS]);
$server->product(1, 40, segments => 4);
my $begin = time;
my $reply = $server->order(1);
is $reply->{status}, 503, 'a wrong password: 503' or diag $reply->{raw};
is Stockade::slug($reply), 'lock-unreachable', 'says why';
cmp_ok time - $begin, '<', 1.7 * $WAIT_MS / 1000 * $Stockade::SLOW, 'within the wait time';
kept('a wrong password', $server, $reply);
$redis->command('ACL', 'SETUSER', 'shop', ">$SECRET");
ok Stockade::eventually(10, sub { $server->order(1)->{status} == 201 }), 'it sells once the password is right';
kept('and right again', $server);
is $server->stop, 0, 'it ends';

$redis->stop;
done_testing;
