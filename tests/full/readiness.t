# Goal of this test: /readyz says whether an order would succeed, without anybody
# ordering: 503 with the part that fails, since when and why, soon after it failed,
# and 200 soon after it works again. The log has each outage, from its beginning to
# its end, and not each order. What only a restart mends fails /livez as well. On a
# full disk at each size of it: test_store_probe.c.
use lib 'tests/e2e';
use HttpRaw;
use Stockade;
use File::Copy qw(copy);

my $redis = Stockade::Redis->start;

# /readyz is STATUS soon, and its detail is like TEXT; nobody orders meanwhile.
sub ready_is {
    my ($server, $status, $what, $text) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $reply;
    my $ok = Stockade::eventually(8, sub { ($reply = $server->get('/readyz'))->{status} == $status });
    ok $ok, "$what: /readyz is $status" or diag $reply->{raw}, $server->log;
    return if !$text;
    like $reply->{body}{detail}, $text, "$what: says what is wrong";
    like $reply->{body}{detail}, qr/ since 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ: /, "$what: and since when";
    is Stockade::slug($reply), 'not-ready', "$what: the problem";
    is_deeply [@{ $server->get('/healthz') }{qw(status)}], [503], "$what: /healthz says the same";
    return;
}

sub log_says {
    my ($server, $what, $pattern) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $ok = ok Stockade::eventually(30, sub { $server->log =~ $pattern }), "$what: the log says so";
    diag $server->log if !$ok;
    return;
}

# The lines that say that PART works again.
sub ends_of {
    my ($server, $part) = @_;
    return grep { /msg=health part=$part state=works/ } split /\n/, $server->log;
}

# FAULT returns what ends it.
sub outage {
    my ($server, $what, $part, $text, $fault) = @_;
    my $before = ends_of($server, $part);
    ready_is($server, 200, "$what, before");
    my $mend = $fault->();
    ready_is($server, 503, $what, $text);
    is $server->get('/livez')->{status}, 200, "$what: alive";
    is $_->[0], 503, "$what: no order succeeds" for Stockade::Load::volley(map { [$server, 40, 100 + $_] } 1 .. 10);
    is $server->get('/readyz')->{status}, 503, "$what: nor would one";
    $mend->();
    ready_is($server, 200, "$what, over");
    ok Stockade::eventually(30, sub { ends_of($server, $part) > $before }), "$what: the log says that it is over"
        or diag $server->log;
    is $server->order(40)->{status}, 201, "$what, over: sells again";
    return;
}

sub fsize { my ($server, $bytes) = @_; return system('prlimit', '--pid', $server->pid, "--fsize=$bytes:unlimited") }

sub memory { my ($bytes) = @_; return $redis->command(qw(CONFIG SET maxmemory), $bytes) }

# ---- what ends by itself --------------------------------------------------------

# A quarter of it for a command: a busy machine may stall Redis.
my @wait = ('--lock-wait-ms', 2400);
my $server = Stockade->start(redis => $redis, args => [@wait]);
$server->product(40, 1000);
my $busy = qr/the database fails .*locked by another process/;
outage($server, 'another process writes', 'store', $busy, sub { return $server->hold_database });
outage(
    $server, 'full disk', 'store',
    qr/the database fails .*the disk is full/,
    sub { fsize($server, 4096); return sub { fsize($server, 'unlimited') } }
);
outage(
    $server, 'Redis is full', 'lock-server',
    qr/the lock server fails .*OOM/,
    sub { memory(1); return sub { memory(0) } }
);
outage(
    $server, 'Redis is read-only', 'lock-server',
    qr/the lock server fails .*READONLY/,
    sub { $redis->command('REPLICAOF', '127.0.0.1', 1); return sub { $redis->command('REPLICAOF', 'NO', 'ONE') } }
);
outage(
    $server, 'Redis is dead', 'lock-server',
    qr/the lock server fails .*connect/,
    sub { $redis->kill9; return sub { $redis->again } }
);
my %refused;
for my $part ('store', 'lock-server') {
    $refused{$part} += /refused=(\d+)/ ? $1 : 0 for ends_of($server, $part);
}
is_deeply \%refused, { 'store' => 20, 'lock-server' => 30 }, 'the lines have all refusals' or diag $server->log;
# What else it finds is no answer in time.
outage(
    $server, 'Redis hangs', 'lock-server',
    qr/the lock server fails .*timed out/,
    sub { $redis->pause; return sub { $redis->resume } }
);
like $server->log, qr/part=store state=fails .*error="the database is locked by another process: database is locked/, 'SQLite is quoted';
like $server->log, qr/part=lock-server state=fails .*error=".*READONLY You can't write/, 'Redis is quoted';

# An outage that lasts is told of again, with what it has cost. The first line may have
# one of the three.
my $free = $server->hold_database;
$server->order(40) for 1 .. 3;
log_says($server, 'it lasts', qr/part=store state=fails for_s=1[0-9.]+ refused=[23] /);
$free->();
$server->ends('in the end');

# A page can be written meanwhile: it is an order that would not succeed.
for my $flag ('--shared', '--orders=one-by-one') {
    $server = Stockade->start(redis => $redis, args => [@wait, $flag]);
    $server->product(40, 1000);
    outage($server, "$flag, another process writes", 'store', $busy, sub { return $server->hold_database });
    my $sql = sub { system('sqlite3', '-cmd', '.timeout 60000', $server->db, $_[0]) == 0 or die $_[0] };
    outage(
        $server, "$flag, a trigger raises", 'store',
        qr/the database fails .*not today/,
        sub {
            $sql->(q(CREATE TRIGGER no BEFORE INSERT ON orders BEGIN SELECT RAISE(ABORT, 'not today'); END));
            return sub { $sql->('DROP TRIGGER no') };
        }
    );
    $server->ends($flag);
}

# ---- who asks takes no reader away -----------------------------------------------

# An order that waits for the database's lock is the clock: pages are read before it is
# answered, however many ask whether we are ready.
$server = Stockade->start(redis => $redis, args => ['--lock-wait-ms', 5000]);
$server->product(9, 1000);
is $server->order(9)->{status}, 201, 'three ask: it sells before';
$free = $server->hold_database;
my ($clock, @askers) = map { HttpRaw::connect_to($server->port) } 0 .. 3;
select undef, undef, undef, 1.2;    # what orders have said is old by then
HttpRaw::put($clock, HttpRaw::order_bytes(9));
HttpRaw::put($_, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n" x 20) for @askers;
# A try finds out after three seconds: until then nothing is known to have failed.
is HttpRaw::status_of($_), 200, 'three ask: each hears what is known, and waits for no try' for @askers;
is $server->get('/api/products')->{status}, 200, "three ask: a page is read, $_" for 1 .. 10;
is HttpRaw::get($clock, 0), undef, 'before an order hears that the database is locked';
like HttpRaw::get($clock, 20), qr{^HTTP/1.1 503 }, 'as it does then';
$free->();
ready_is($server, 200, 'three ask, over');
$server->ends('three ask');

# ---- what only a restart mends ---------------------------------------------------

my %fault = (
    removed  => sub { unlink $_[0] or die },
    replaced => sub { copy($_[0], "$_[0].copy") or die; rename "$_[0].copy", $_[0] or die },
);
# Without the lock file a second service could be started on this database.
for my $case (['database', 'removed'], ['database', 'replaced', '--shared'], ['lock', 'removed', '--shared'], ['lock', 'replaced']) {
    my ($file, $how, @flags) = @$case;
    fails_for_good("the $file file @flags $how", $file, $file eq 'lock' ? '.lock' : '', $fault{$how}, @flags);
}

sub fails_for_good {
    my ($what, $file, $suffix, $fault, @flags) = @_;
    my $lost = Stockade->start(redis => $redis, args => \@flags);
    ready_is($lost, 200, $what);
    is $lost->get('/livez')->{status}, 200, "$what: alive before";
    is $lost->order(1, 1, 1, 'before')->{status}, 201, "$what: sells before";
    $fault->($lost->db . $suffix);
    # Not what the worker that reads it, or SQLite, makes of it.
    my @after = map { $lost->order(1) } 1 .. 20;
    is_deeply [grep { $_->{status} != 503 || $_->{body}{detail} !~ /the $file file was moved, removed or replaced/ } @after], [], "$what: not after, and why"
        or diag explain \@after;
    ready_is($lost, 503, $what, qr/the database fails .*the $file file was moved, removed or replaced: see FILES/);
    my $alive = $lost->get('/livez');
    is $alive->{status}, 503, "$what: not alive, so that somebody restarts it";
    like $alive->{body}{detail}, qr/before a restart/, "$what: who is told what to do first";
    log_says($lost, $what, qr/level=error msg=health part=store state=fails .*error="the $file file was .* before a restart"/);
    $lost->stop;
    unlink glob $lost->db . '-*' if !$suffix; # what was sold there may be in them
    $lost->restart;
    ready_is($lost, 200, "$what, restarted");
    is $lost->get('/livez')->{status}, 200, "$what, restarted: alive";
    is $lost->order(1, 1, 1, 'before')->{headers}{'idempotent-replayed'}, 'true', "$what, restarted: nothing is lost" if $suffix;
    is $lost->stop, 0, "$what: ends";
    return;
}

# ---- a database that is not ours any more --------------------------------------------

# What a change by somebody else makes of it: orders fail, though a page can be written.
for my $case (['a newer program has been here', 'PRAGMA user_version = 99', 'PRAGMA user_version = 8', qr/schema version 99/],
    ['a table is gone', 'ALTER TABLE orders RENAME TO hidden', 'ALTER TABLE hidden RENAME TO orders', qr/no such table/]) {
    my ($what, $spoil, $mend, $text) = @$case;
    my $spoilt = Stockade->start(redis => $redis);
    ready_is($spoilt, 200, "$what, before");
    is system('sqlite3', '-cmd', '.timeout 60000', $spoilt->db, $spoil), 0, $what;
    ready_is($spoilt, 503, $what, $text);
    is system('sqlite3', '-cmd', '.timeout 60000', $spoilt->db, $mend), 0, "$what: undone";
    ready_is($spoilt, 200, "$what, over");
    is $spoilt->stop, 0, "$what: ends";
}

# ---- a scrape is enough to find out ---------------------------------------------------
{
    my $own  = Stockade::Redis->start;
    my $idle = Stockade->start(redis => $own);
    is $idle->metric('stockade_ready'), 1, 'nobody orders, nobody asks: ready';
    $own->kill9;
    ok Stockade::eventually(20, sub { $idle->metric('stockade_ready') == 0 }), 'a scrape has it tried';
    is $idle->stop, 0, 'ends';
}
done_testing;
