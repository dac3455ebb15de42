# Goal of this test: the service on MariaDB loses and doubles nothing that was
# acknowledged, whatever happens to the server and the way to it: COMMITs whose
# answer is lost, kill -9, SIGSTOP, two instances on one hot row without a lock. It
# says what is wrong at the start, answers 503 with Retry-After later, and recovers
# by itself. Its audit looks at each order a few times, however many there are.
use lib 'tests/e2e';
use Stockade;
use Stockade::Mariadb;
use List::Util qw(min);
use POSIX qw(mkfifo);

my $redis   = Stockade::Redis->start;
my $mariadb = Stockade::Mariadb->start;

# ---- at the start ---------------------------------------------------------

sub refuses {
    my ($what, $url, $says) = @_;
    my $ran = Stockade::run(['serve', '--check-config', '--db', $url, '--redis', $redis->url]);
    isnt $ran->{exit}, 0, "$what: refused";
    like $ran->{err}, $says, "$what: says why";
    unlike $ran->{err}, qr/s3cret/, "$what: without a password";
    return;
}

my $socket = 'mysql:unix:' . $mariadb->socket_path;
$mariadb->sql(q{CREATE DATABASE other; CREATE TABLE other.t (i INT); CREATE DATABASE newer;}
        . q{CREATE USER shop@localhost IDENTIFIED BY 's3cret'; GRANT ALL ON newer.* TO shop@localhost});
refuses('not a URL', 'mysql:shop',                         qr{mysql://USER\@HOST\[:PORT\]/DB});
refuses('a password in the URL', 'mysql://u:s3cret@h:1/d', qr{mysql://USER\@HOST\[:PORT\]/DB});
refuses('nobody there', 'mysql://u@127.0.0.1:' . Stockade::free_port() . '/d', qr/Can't connect/);
refuses('no port', 'mysql://u@127.0.0.1/d', qr/MariaDB: /);
refuses('no such database', "$socket?db=none&user=root",  qr/Unknown database.*CREATE DATABASE/);
refuses('wrong password',   "$socket?db=newer&user=shop", qr/Access denied.*STOCKADE_DB_PASSWORD/);
refuses('no TLS there',     "$socket?db=newer&user=root&tls=yes", qr/TLS/);
refuses("another program's", "$socket?db=other&user=root", qr/another program/);
{
    my $dir = Stockade::tempdir();
    Stockade::write_file("$dir/password", "s3cret\r\n");
    my $url = "$socket?db=newer&user=shop";
    my @serve = ('serve', '--check-config', '--redis', $redis->url, '--db');
    is Stockade::run([@serve, $url], env => { STOCKADE_DB_PASSWORD => 's3cret' })->{exit}, 0, 'password from the environment';
    is Stockade::run([@serve, "$url&password-file=$dir/password"])->{exit}, 0, 'password from a file';
    mkfifo("$dir/fifo", 0600) or die "fifo: $!";
    refuses('a FIFO that nobody writes to', "$url&password-file=$dir/fifo", qr/fifo: cannot read a password there/);
    $mariadb->sql(q{SET GLOBAL log_output = 'TABLE', general_log = 1, sql_safe_updates = 1});
    my $server = Stockade->start(redis => $redis, db_url => "$url&password-file=$dir/password");
    $server->product(60, 100);
    is $server->order(60)->{status}, 201, 'sells with a password' for 1 .. 5;
    $mariadb->sql('SET GLOBAL general_log = 0, sql_safe_updates = 0');
    # A fence that is new to the table has one more: the shortest counts.
    my $asked = $mariadb->sql(q{SELECT CASE WHEN argument = 'COMMIT' THEN 'C' WHEN argument LIKE 'INSERT INTO orders %' THEN 'O' ELSE '-' END}
            . q{ FROM mysql.general_log WHERE command_type IN ('Execute', 'Query') AND thread_id = (SELECT MAX(thread_id) FROM mysql.general_log}
            . q{ WHERE command_type = 'Execute' AND argument LIKE 'INSERT INTO orders %')}) =~ s/\n//gr;
    is min(map { length } $asked =~ /([^C]*O[^C]*C)/g), 5, 'a batch has five round trips' or diag $asked;
    is $mariadb->sql(q{SELECT COUNT(*) FROM mysql.general_log WHERE command_type = 'Execute' AND argument LIKE 'UPDATE stockade SET %'}),
        "1\n", 'a schema has its version when it is whole, and none before';
    $server->ends('with a password');
    $mariadb->sql('UPDATE newer.stockade SET version = 99');
    refuses('a newer schema', "$socket?db=newer&user=root", qr/version 99.*newer/);
    is Stockade::run(['serve', '--listen', '127.0.0.1:0', '--redis', $redis->url, '--db', "$socket?db=$_&user=root"])->{exit}, 2,
        "$_: a person has to change it: exit 2" for qw(newer other);
    $mariadb->sql('UPDATE newer.stockade SET version = 1');
    $server->restart;
    is $mariadb->sql('SELECT version FROM newer.stockade'), "6\n", 'a schema that was half made is finished';
    $server->ends('after that');
    $mariadb->sql('SET GLOBAL sql_select_limit = 1');
    my ($verdict) = $server->audit;
    is scalar @{ $verdict->{lines} }, 3, 'an audit looks at all, however little a server gives unasked';
    $mariadb->sql('SET GLOBAL sql_select_limit = DEFAULT');
}

# ---- what a loss of power may cost -------------------------------------------

{
    my $logs = Stockade::Mariadb->start(args => ['--log-bin=log']);
    my $url  = $logs->database;
    for my $case (['sync_binlog = 0', 1], ['sync_binlog = 1', 0], ['innodb_flush_log_at_trx_commit = 2', 1]) {
        $logs->sql("SET GLOBAL $case->[0]");
        my $server = Stockade->start(redis => $redis, db_url => $url);
        is scalar(() = $server->log =~ /may lose confirmed orders/g), $case->[1], "$case->[0]: is told, where it may";
        $server->ends($case->[0]);
    }
}

# ---- a password that changes ------------------------------------------------

# Whoever lost a connection reads the file again: readers, too, and nobody has to send
# a signal. And readers that get none are no readiness, though orders could be written.
{
    my $dir      = Stockade::tempdir();
    my $password = sub {
        Stockade::write_file("$dir/password.new", "$_[0]\n");
        rename "$dir/password.new", "$dir/password" or die $!;
    };
    my $ids  = sub { split /\n/, $mariadb->sql("SELECT id FROM information_schema.processlist WHERE user = 'clerk' AND $_[0]") };
    my $kill = sub { $mariadb->sql("KILL $_") for @_ };
    my $is = sub {
        my ($server, $status, $what, $text) = @_;
        my $reply;
        ok Stockade::eventually(20, sub { ($reply = $server->get('/readyz'))->{status} == $status }), "$what: /readyz is $status"
            or diag $server->log;
        like $reply->{body}{detail}, $text, "$what: says why" if $text;
        is $server->get('/api/products/40')->{status}, $status, "$what: and so is a page, $_" for 1 .. 4;
    };
    $mariadb->sql(q{CREATE DATABASE counter; CREATE USER clerk@localhost IDENTIFIED BY 'first'; GRANT ALL ON counter.* TO clerk@localhost});
    $password->('first');
    my $server = Stockade->start(redis => $redis, db_url => "$socket?db=counter&user=clerk&password-file=$dir/password");
    $server->product(40, 1000);
    $mariadb->sql(q{ALTER USER clerk@localhost IDENTIFIED BY 'second'});
    $password->('second');
    $kill->($ids->('TRUE'));
    ok Stockade::eventually(20, sub { $server->order(40)->{status} == 201 }), 'another password: orders are written';
    $is->($server, 200, 'another password');
    $mariadb->sql(q{ALTER USER clerk@localhost IDENTIFIED BY 'third'});
    $kill->($ids->('TRUE'));
    $is->($server, 503, 'a password that is not known yet', qr/the database fails since 20.*Access denied/);
    $password->('third');
    $is->($server, 200, 'and is known then');

    $server->stop;
    ok Stockade::eventually(20, sub { !$ids->('TRUE') }), 'nobody is connected';
    $server->restart;
    my ($writer, @readers) = sort { $a <=> $b } $ids->('TRUE');    # it is opened first
    $mariadb->sql(q{ALTER USER clerk@localhost WITH MAX_USER_CONNECTIONS 1});
    my $other = Stockade::Child->spawn(
        command => ['mariadb', '--no-defaults', '-S', $mariadb->socket_path, '-uclerk', '-pthird', '-e', 'DO SLEEP(100)'],
        log => "$dir/other.log",
    );
    ok Stockade::eventually(20, sub { $ids->(q(info LIKE '%SLEEP%')) }), 'another has the last place' or diag $other->log;
    $kill->(@readers);
    $is->($server, 503, 'readers are refused', qr/^reading the database fails since 20.*max_user_connections/);
    $mariadb->sql(q{ALTER USER clerk@localhost WITH MAX_USER_CONNECTIONS 0});
    $other->end;
    $is->($server, 200, 'readers are let in again');
    is $server->order(40)->{status}, 201, 'readers are let in again: sells';
    $server->ends('passwords');
}

# ---- before its database --------------------------------------------------

# Started when the database cannot be had, it says WHY; MEND, and it sells.
sub waits {
    my ($what, $url, $why, $mend) = @_;
    my $server = Stockade->start(redis => $redis, db_url => $url, unready => 1);
    is $server->get('/livez')->{status}, 200, "$what: it lives";
    my $ready = $server->get('/readyz');
    is $ready->{status}, 503, "$what: it is not ready";
    like $ready->{body}{detail}, $why, "$what: and says why";
    is Stockade::slug($server->order(1)), 'store-unavailable', "$what: it does not sell";
    my $told = Stockade::run(['audit', '--db', $url]);
    is $told->{exit}, 2, "$what: an audit does not wait";
    $mend->();
    ok Stockade::eventually(30, sub { $server->get('/readyz')->{status} == 200 }), "$what: then it is ready" or diag $server->log;
    is $server->order(1)->{status}, 201, "$what: and sells";
    $server->ends($what);
    return;
}

{
    my $url = $mariadb->database;
    $mariadb->kill9;
    waits('not started', $url, qr/Can't connect/, sub { $mariadb->again });
    $mariadb->pause;
    waits('stopped', $url, qr/MariaDB: /, sub { $mariadb->resume });
    waits('no such database yet', "$socket?db=late&user=root", qr/Unknown database/, sub { $mariadb->sql('CREATE DATABASE late') });
    $mariadb->sql('CREATE DATABASE granted');
    waits('no such user yet', "$socket?db=granted&user=later", qr/Access denied/,
        sub { $mariadb->sql('CREATE USER later@localhost; GRANT ALL ON granted.* TO later@localhost') });
    my $dir      = Stockade::tempdir();
    my $password = sub { Stockade::write_file("$dir/password", "$_[0]\n") };
    $password->('old');
    waits('another password', "$socket?db=newer&user=shop&password-file=$dir/password", qr/Access denied/, sub { $password->('s3cret') });
}

# ---- under load -----------------------------------------------------------

sub unavailable {
    my ($what, $server) = @_;
    my $reply;
    ok Stockade::eventually(20, sub { $reply = $server->order(40); $reply->{status} == 503 }), "$what: 503";
    # An order that waits behind others gives up by its own time limit.
    like Stockade::slug($reply), qr/^(?:store-unavailable|lock-timeout)$/, "$what: says why" or diag $reply->{raw};
    like $reply->{headers}{'retry-after'}, qr/^[1-9]\d*$/, "$what: Retry-After";
    ok Stockade::eventually(20, sub { $server->get('/readyz')->{status} == 503 }), "$what: not ready";
    return;
}

# All that was acknowledged is there, once, and as many units as orders are gone.
sub exact {
    my ($what, $load, @servers) = @_;
    my $told = $load->finish;
    is $_->stop, 0, "$what: ends" or diag $_->log for @servers[1 .. $#servers];
    my $verdict = $servers[0]->ends($what, acked => $told->{file});
    is $verdict->{lost}, 0, "$what: nothing is lost";
    cmp_ok $verdict->{orders}, '>=', @{ $told->{acked} }, "$what: " . @{ $told->{acked} } . ' acknowledged';
    is $verdict->{sold}, $verdict->{orders}, "$what: as many units as orders";
    return { %$told, verdict => $verdict };
}

# With keys a second try would find the first; without them it would sell twice.
for my $keyless (0, 1) {
    my $what   = 'COMMITs cut, ' . ($keyless ? 'no keys' : 'keys');
    my $server = Stockade->start(redis => $redis, db_url => $mariadb->database($mariadb->relay(7)));
    $server->product(40, 1_000_000);
    my $load = Stockade::Load->start(servers => [$server], product => 40, name => 'cut', keyless => $keyless);
    ok $load->wait_for(400, 60), "$what: sells on";
    my $told = exact($what, $load, $server);
    is_deeply [keys %{ $told->{status} }], [201], "$what: each was looked up, nobody heard of it" or diag explain $told->{status};
    is $told->{verdict}{orders}, @{ $told->{acked} }, "$what: nothing was sold twice";
}
{
    my $server = Stockade->start(redis => $redis, db_url => $mariadb->database);
    $server->product(40, 1_000_000);
    my $load = Stockade::Load->start(servers => [$server], product => 40, name => 'kill');
    ok $load->wait_for(200, 60), 'kill -9: sells before';
    $mariadb->kill9;
    unavailable('kill -9', $server);
    $mariadb->again;
    ok Stockade::eventually(20, sub { $server->order(40)->{status} == 201 }), 'kill -9: sells again by itself';
    ok Stockade::eventually(20, sub { $server->get('/readyz')->{status} == 200 }), 'kill -9: ready again';
    is $server->get('/api/products/40')->{status}, 200, 'kill -9: readers are back';

    $mariadb->pause;
    unavailable('SIGSTOP', $server);
    $mariadb->resume;
    ok Stockade::eventually(20, sub { $server->order(40)->{status} == 201 }), 'SIGSTOP: sells again by itself';
    exact('after both', $load, $server);
}

# The server shows what is committed before it is on disk; nobody hears so. Not in
# /dev/shm, where its log needs no fsync.
{
    my $dir = Stockade::tempdir();
    Stockade::write_file("$dir/hold.c", <<'C');
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
int fsync(int fd)
{
    while (access(getenv("HOLD"), F_OK) == 0)
        usleep(10000);
    return (int)syscall(SYS_fsync, fd);
}
int fdatasync(int fd) { return fsync(fd); }
C
    is system('cc', '-shared', '-fPIC', '-o', "$dir/hold.so", "$dir/hold.c"), 0, 'a disk that hangs';
    my $slow = do {
        local @ENV{qw(LD_PRELOAD HOLD TMPDIR)} = ("$dir/hold.so", "$dir/hold", '/var/tmp');
        Stockade::Mariadb->start;
    };
    my $url = $slow->database;
    my ($name) = $url =~ /db=(\w+)/;
    my @servers = map { Stockade->start(redis => $redis, db_url => $url, args => ['--shared', '--lock', 'none']) } 1 .. 2;
    $servers[0]->product(40, 10);
    Stockade::write_file("$dir/hold", '');
    my $first = Stockade::Load::ask($servers[0], 40, 1, 1, 'k');
    ok Stockade::eventually(10, sub { $slow->sql("SELECT COUNT(*) FROM $name.orders") > 0 }), 'what is not on disk is to be seen';
    is $servers[1]->order(40, 1, 1, 'k')->{status}, 503, 'and another instance does not confirm it';
    is $first->()->[0], 503, 'nor does the one that wrote it';
    unlink "$dir/hold";
    ok Stockade::eventually(20, sub { $servers[0]->order(40, 1, 1, 'k')->{status} == 201 }), 'before it is';
    is $servers[1]->stop, 0, 'a disk that hung: ends';
    is $servers[0]->ends('a disk that hung')->{orders}, 1, 'one order';
}
{
    my $url = $mariadb->database;
    my @servers = map { Stockade->start(redis => $redis, db_url => $url, args => ['--shared', '--lock', 'none']) } 1 .. 2;
    $servers[0]->product(40, 300);
    my $load = Stockade::Load->start(servers => \@servers, product => 40, name => 'two');
    ok Stockade::eventually(60, sub { $servers[1]->get('/api/products/40')->{body}{stock} == 0 }), 'two without a lock: sold out';
    my $told = exact('two without a lock', $load, @servers);
    is scalar @{ $told->{acked} }, 300, 'two without a lock: each unit once';
}
{
    my $url = $mariadb->database;
    my ($name) = $url =~ /db=(\w+)/;
    my $server = Stockade->start(redis => $redis, db_url => $url);
    $server->product(40, 1_000_000);
    my $rows = sub { return $mariadb->sql(q{SELECT SUM(variable_value) FROM information_schema.global_status WHERE variable_name LIKE 'HANDLER_READ%'}) };
    my @read;
    $mariadb->sql(qq{USE $name; INSERT INTO fences (name, token, owner) VALUES ('lock:{40:0}', 6000, 'somebody')});
    for my $n (2000, 4000) {
        $mariadb->sql(qq{USE $name; INSERT INTO orders (secret, product_id, segment, user_id, quantity, price_cents, limit_per_user, fence,}
                . qq{ state, created_ms, cancelled_ms) SELECT 1, 40, 0, seq % 100 + 1, 1, 0, 0, $n + seq, 0, 1, 0 FROM seq_1_to_2000});
        $mariadb->sql(qq{USE $name; UPDATE segments SET stock = stock - 2000 WHERE product_id = 40});
        my $before = $rows->();
        is Stockade::run(['audit', '--db', $url])->{exit}, 0, "audit of $n orders: balanced";
        push @read, $rows->() - $before;
    }
    cmp_ok $read[1] / $read[0], '<', 3, "twice the orders: $read[1] rows are read instead of $read[0]";
    is $server->stop, 0, 'audit: ends';
}
done_testing;
