# Goal of this test: an instance that is started before its database, or before its
# lock server, waits for it and says so; it is not ready, it ends when it is told to,
# and it sells once both are there. Only for what a person has to change it ends by
# itself, with exit status 2. A command that is to tell something does not wait.
use lib 'tests/e2e';
use IO::Socket::UNIX ();
use Socket qw(SOCK_STREAM);
use Stockade;

my $redis = Stockade::Redis->start;
my $top   = Stockade::tempdir();

# It is looked at in the end.
my $patient = Stockade->start(redis => $redis, db => "$top/never/x.db", unready => 1);

# ---- a database that is not there yet -----------------------------------------

my @calls = (
    [POST => '/api/orders', '{"product_id":1,"user_id":1,"quantity":1}'], [GET => '/api/orders?key=k'],
    [GET => '/api/orders/1-0000000000000000'],  [DELETE => '/api/orders/1-0000000000000000'],
    [GET => '/api/products'],                   [GET    => '/api/products/1'],
    [PUT => '/api/products/1', '{"name":"x","stock":1,"price_cents":1}'], [PATCH => '/api/products/1', '{"segments":2}'],
    [POST => '/api/products/1/restock', '{"units":1}'], [POST => '/api/products/1/warmup', '{}'],
    [GET => '/api/audit'],
);

# It serves, sells nothing, and says why.
sub waits {
    my ($what, $server, $why) = @_;
    is $server->get('/livez')->{status}, 200, "$what: it lives";
    my $ready = $server->get('/readyz');
    is $ready->{status}, 503, "$what: it is not ready";
    like $ready->{body}{detail}, qr/^the database fails since 20\S+Z: .*$why/, "$what: and says why";
    like $server->log, qr/^level=error msg=health part=store state=fails .*$why/m, "$what: the log says so, too";
    return;
}

# What it waited for is there now.
sub sells {
    my ($what, $server) = @_;
    ok Stockade::eventually(20, sub { $server->get('/readyz')->{status} == 200 }), "$what: then it is ready" or diag $server->log;
    is $server->order(1)->{status}, 201, "$what: and sells" or diag $server->log;
    ok Stockade::eventually(20, sub { $server->log =~ /msg=health part=store state=works/ }), "$what: the log says that it is over"
        or diag $server->log;
    $server->ends($what);
    return;
}

{
    my $what   = 'no folder';
    my $server = Stockade->start(redis => $redis, db => "$top/mount/x.db", unready => 1);
    waits($what, $server, qr{cannot make it in \S+/mount: No such file});
    for my $call (@calls) {
        my ($method, $path, $body) = @$call;
        my $reply = $server->request($method, $path, $body);
        is $reply->{status}, 503, "$what: $method $path";
        is Stockade::slug($reply), 'store-unavailable', "$what: $method $path: says why";
        like $reply->{headers}{'retry-after'}, qr/^[1-9]/, "$what: $method $path: Retry-After";
    }
    is $server->get($_)->{status}, 200, "$what: $_" for '/', '/openapi.json', '/metrics';
    is $server->metric('stockade_ready'), 0, "$what: the metrics say so";
    is $server->metric('stockade_orders_total', outcome => 'store-unavailable'), 1, "$what: the order is counted";
    is $server->metric('stockade_changes_failed_total'), 4, "$what: and so are the changes";
    mkdir "$top/mount" or die $!;
    sells($what, $server);
}
{
    my $server = Stockade->start(redis => $redis, db => "$top/none/x.db", unready => 1);
    is $server->stop, 0, 'SIGTERM ends the wait';
    like $server->log, qr/msg=stopped clean=yes/, 'cleanly';
}
{
    my $what   = 'locked';
    my $server = Stockade->start(redis => $redis);
    $server->stop;
    my $free = $server->hold_database;
    $server->restart(unready => 1);
    waits($what, $server, qr/locked/);
    $free->();
    sells($what, $server);
}
{
    # In place of a full disk: a limit on the size of files.
    my $what   = 'disk full';
    my $server = Stockade->start(redis => $redis, unready => 1, wrap => ['prlimit', '--fsize=8192:unlimited']);
    waits($what, $server, qr/full|brought to disk/);
    is system('prlimit', '--pid', $server->pid, '--fsize=unlimited:unlimited'), 0, "$what: there is room";
    sells($what, $server);
}
{
    my $what   = 'in use';
    my $first  = Stockade->start(redis => $redis, args => ['--lock', 'none']);
    my $second = Stockade->start(redis => $redis, args => ['--lock', 'none'], dir => $first->dir, unready => 1);
    waits($what, $second, qr/start both with --shared/);
    is $first->order(1)->{status}, 201, "$what: the first one sells";
    is $first->stop, 0, "$what: and ends";
    sells($what, $second);
}

# ---- what only a person can change ----------------------------------------------

sub write_file { return Stockade::write_file("$top/$_[0]", $_[1]) }

sub refuses {
    my ($what, $db, $says) = @_;
    note $what;
    return Stockade::refuses(['serve', '--listen', '127.0.0.1:0', '--redis', $redis->url, '--db', "sqlite:$db"], $says);
}

refuses('a text', write_file('text', "not a database\n" x 100), qr/file is not a database/);
system 'sqlite3', "$top/other.db", 'CREATE TABLE t (i)';
refuses("another program's", "$top/other.db", qr/belongs to another program/);

# ---- a lock server that is not there yet --------------------------------------

my $gone   = Stockade::free_port();
my @places = map { "127.0.0.1:$_" } $gone, $gone - 1, $gone - 2;
my %urls   = (
    'one server'      => [['--redis', "redis://$places[0]"]],
    'a socket'        => [['--redis', "unix:$top/none.sock"]],
    'sentinels'       => [['--redis', 'sentinel://' . join(',', @places) . '/main']],
    'a cluster'       => [['--redis', 'cluster://' . join(',', @places)]],
    'several servers' => [['--redis', join(',', map { "redis://$_" } @places), '--lock', 'redlock']],
    'ZooKeeper'       => [['--lock', 'zk', '--lock-url', 'zk:' . join(',', @places)], 'zk'],
    'rows of SQL'     => [['--lock', 'sql-row', '--lock-url', "mysql://u:p\@$places[0]/d"], 'sql-row'],
);
my $locks = Stockade::run(['serve', '--help'])->{out};
for my $what (sort keys %urls) {
    my ($args, $lock) = @{ $urls{$what} };
SKIP: {
        skip "$lock was left out of this build", 3 if $lock && $locks !~ /^  \Q$lock\E /m;
        my $server = Stockade->start(redis => $redis, args => $args, unready => 1);
        is $server->get('/livez')->{status}, 200, "$what: it waits";
        like $server->get('/readyz')->{body}{detail}, qr/^the lock server fails since/, "$what: and says so";
        is $server->stop, 0, "$what: until SIGTERM";
    }
}

# ---- a database server that takes connections and says nothing -----------------

SKIP: {
    skip 'built without libmariadb', 1 if `ldd @{[Stockade::binary()]}` !~ /libmariadb/;
    my $door = IO::Socket::UNIX->new(Type => SOCK_STREAM, Local => "$top/deaf", Listen => 64) or die "deaf: $!";
    my $url  = "mysql:unix:$top/deaf?db=d&user=u";
    for my $command (['audit'], ['serve', '--check-config']) {
        my $ran = Stockade::run([@$command, '--db', $url]);
        is $ran->{exit}, 2, "@$command does not wait: exit 2";
        like $ran->{err}, qr/MariaDB: /, "@$command says why";
    }
    my $server = Stockade->start(redis => $redis, db_url => $url, unready => 1);
    waits('silent', $server, qr/MariaDB: /);
    is $server->stop, 0, 'silent: SIGTERM ends the wait' or diag $server->log;
}

# ---- it goes on to say so ------------------------------------------------------

my @said;
ok Stockade::eventually(40, sub { @said = $patient->log =~ /msg=health part=store state=fails for_s=([\d.]+)/g; @said >= 2 }),
    'it says again what it waits for';
cmp_ok $said[1], '>=', 9.9, 'after ten seconds' if @said >= 2;
is $patient->stop, 0, 'and ends when it is told to';

$redis->stop;
done_testing;
