# Goal of this test: what the service tells a service manager is true, on a real
# NOTIFY_SOCKET. READY=1 comes when an order would succeed, and not before;
# WATCHDOG=1 comes while orders are looked for, also when Redis hangs, and not while
# the thread that decides orders is stuck in an fsync; STATUS= says each outage, and
# its end, in a line; SIGHUP takes over the admin token and the log level, or keeps
# both; STOPPING=1 comes at the end.
use lib 'tests/e2e';
use IO::Socket::UNIX ();
use POSIX qw(mkfifo O_NONBLOCK O_WRONLY);
use Socket qw(SOCK_DGRAM);
use Stockade;
use Time::HiRes qw(time);

# The binary says by itself whether it was built with libsystemd.
my $linked = `ldd @{[Stockade::binary()]}`;
plan skip_all => 'built without libsystemd' if $linked !~ /libsystemd/;

my $WATCHDOG_S = 0.4 * $Stockade::SLOW;

my $dir = Stockade::tempdir();
my $manager = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Local => "$dir/notify") or die "notify: $!";
my @heard;

# The next notice, or undef after SECONDS.
sub hear {
    my ($seconds) = @_;
    my $bits = '';
    vec($bits, fileno $manager, 1) = 1;
    return if !select $bits, undef, undef, $seconds;
    $manager->recv(my $text, 4096) // die "recv: $!";
    push @heard, $text;
    return $text;
}

# Hears until a notice matches, which is returned.
sub hear_of {
    my ($pattern, $seconds) = @_;
    my $end = time + ($seconds // 20) * $Stockade::SLOW;
    while ((my $left = $end - time) > 0) {
        my $text = hear($left) // last;
        return $text if $text =~ $pattern;
    }
    diag "heard only: @heard";
    return;
}

# What has come by now.
sub hear_all {
    my @all;
    while (defined(my $text = hear(0))) {
        push @all, $text;
    }
    return @all;
}

sub write_file { return Stockade::write_file("$dir/$_[0]", $_[1]) }

sub env {
    return { NOTIFY_SOCKET => "$dir/notify", WATCHDOG_USEC => int($WATCHDOG_S * 1e6), @_ };
}

# ---- not ready, ready -----------------------------------------------------------

my $redis = Stockade::Redis->start;
$redis->kill9;
my $token  = write_file('token', "first-token\n");
my $config = write_file('conf',  "admin-token-file = $token\nlog-level = info\n");
my $server = Stockade->start(redis => $redis, env => env(), args => ['--config', $config], unready => 1);
is $server->get('/livez')->{status}, 200, 'it serves, without a lock server';
is $server->get('/readyz')->{status}, 503, 'and is not ready';
like hear_of(qr/^STATUS=not ready/m), qr/lock server fails/, 'the manager is told why';
is scalar(grep { /READY=1/ } @heard, hear_all()), 0, 'and does not hear READY=1';
$redis->again;
my $ready = hear_of(qr/^READY=1/m);
like $ready, qr/^STATUS=selling on 127\.0\.0\.1:@{[$server->port]}$/m, 'READY=1 when the lock server is there, in words as well';
is $server->get('/readyz')->{status}, 200, 'and /readyz says the same';
is scalar(grep { /READY=1/ } @heard), 1, 'once';

# ---- before its database ----------------------------------------------------------

{
    my $late = Stockade->start(redis => $redis, env => env(), db => "$dir/mount/x.db", unready => 1);
    like hear_of(qr/^STATUS=not ready/m), qr/the database fails since .*No such file/, 'the manager is told that it waits for its database';
    ok hear_of(qr/^EXTEND_TIMEOUT_USEC=[1-9]\d{6,}$/m), "and asked for more time, $_" for 1 .. 3;
    is scalar(grep { /READY=1/ } @heard[-3 .. -1]), 0, 'and does not hear READY=1';
    mkdir "$dir/mount" or die $!;
    ok hear_of(qr/^READY=1\nSTATUS=selling/m), 'until it sells';
    hear_all();
    ok hear_of(qr/^WATCHDOG=1/), "then WATCHDOG=1, $_" for 1 .. 3;
    is scalar(grep { /EXTEND/ } @heard[-3 .. -1]), 0, 'and no more of that';
    is $late->stop, 0, 'it ends';
    hear_all();
}

# ---- the watchdog ---------------------------------------------------------------

ok hear_of(qr/^WATCHDOG=1/), "WATCHDOG=1, $_" for 1 .. 3;
$redis->pause;
hear_all();
ok hear_of(qr/^WATCHDOG=1/), "WATCHDOG=1 while Redis hangs, $_" for 1 .. 6;
$redis->resume;

# ---- outages --------------------------------------------------------------------

# FAULT returns what ends it.
sub outage {
    my ($what, $text, $fault) = @_;
    hear_all();
    @heard = ();
    my $mend = $fault->();
    my $said = hear_of(qr/^STATUS=/);
    like $said, qr/\ASTATUS=not ready: $text.*\z/, "$what: STATUS= says so, in one line";
    is $server->get('/readyz')->{status}, 503, "$what: as /readyz";
    $mend->();
    like hear_of(qr/^STATUS=selling/), qr/\ASTATUS=selling on 127\.0\.0\.1:@{[$server->port]}\z/, "$what, over: and so it does then";
    is $server->get('/readyz')->{status}, 200, "$what, over: as /readyz";
    hear_all();
    is scalar(grep { /READY=1/ } @heard), 0, "$what: nor READY=1";
    return;
}

outage('a dead Redis, and nobody asks', qr/the lock server fails since 20\S+Z: \S/, sub { $redis->kill9; return sub { $redis->again } });
outage(
    'a database that is locked',
    qr/the database fails since 20\S+Z: .*(?:locked by another process|busy for too long)/,
    sub {
        my $free = $server->hold_database;
        $server->order(1);
        return $free;
    }
);

# ---- SIGHUP ---------------------------------------------------------------------

sub may {
    my ($given) = @_;
    return $server->get('/api/audit', { Authorization => "Bearer $given" })->{status};
}

# Ends when READY=1 follows RELOADING=1.
sub reload {
    my $began = int(Time::HiRes::clock_gettime(Time::HiRes::CLOCK_MONOTONIC()) * 1e6);
    kill HUP => $server->pid;
    my ($us) = (hear_of(qr/^RELOADING=1/m) // '') =~ /^MONOTONIC_USEC=(\d+)$/m;
    cmp_ok $us // 0, '>=', $began, 'RELOADING=1, with the time';
    ok hear_of(qr/^READY=1/m), 'then READY=1';
    return;
}

sub logged {
    my ($pattern, $what) = @_;
    return ok Stockade::eventually(10, sub { $server->log =~ $pattern }), $what || diag $server->log;
}

is may('first-token'), 200, 'the token of the file';
write_file('token', 'second-token');
is may('second-token'), 403, 'a new one is not known yet';
reload();
is may('second-token'), 200, 'after SIGHUP it is';
is may('first-token'), 403, 'and the old one is not';
logged(qr/level=info msg=reload admin_token="as in its file"$/m, 'the log says so, and not what it is');
unlike $server->log, qr/second-token/, 'the token is not in the log';

write_file('token', "two words\n");
reload();
is may('second-token'), 200, 'a wrong file changes nothing';
logged(qr/level=warn msg=reload error="\Q$config\E:1: admin-token-file = \\"\S+\\": what is in it has to be one line .*settings="as before"$/m, 'and the log says what is wrong');
unlink $token;
reload();
is may('second-token'), 200, 'nor does one that is gone';
logged(qr/msg=reload error="\Q$config\E:1: admin-token-file = \\"\S+\\": cannot read it: No such file/, 'and the log says so');

mkfifo($token, oct 600) or die "mkfifo: $!";
reload();
logged(qr/cannot read it: nobody writes to it/, 'a FIFO that nobody writes to is not waited for for ever');
open my $writer, '+<', $token or die "$token: $!";
syswrite $writer, "third-token\n";
my $before = () = $server->log =~ /nobody writes/g;
reload();
ok Stockade::eventually(20, sub { $before < (() = $server->log =~ /nobody writes to it, or not to its end/g) }), 'nor one that its writer does not close';
close $writer;
unlink $token;

write_file('conf', "log-level = info\n");
reload();
is may('second-token'), 200, 'a token is not given up';
is may('no-token'),     403, 'and so nobody else may';
logged(qr/msg=reload admin_token="as before"$/m, 'which the log says');

write_file('token', "second-token\n");
write_file('conf',  "admin-token-file = $token\nlog-level = warn\n");
reload();
is $server->stop, 0, 'it ends';
like join("\n", hear_all()), qr/^STOPPING=1\nSTATUS=stopping: 0 orders wait$/m, 'STOPPING=1';
unlike $server->log, qr/msg=stopp/, 'now info lines are left out';

# ---- no manager -----------------------------------------------------------------

$server = Stockade->start(redis => $redis);
kill HUP => $server->pid;
logged(qr/msg=reload /, 'SIGHUP without a service manager');
is $server->stop, 0, 'it ends';
is scalar(hear_all()), 0, 'nobody was told';

# ---- a thread that hangs ----------------------------------------------------------

# Each fdatasync waits on a FIFO while there is one: a disk that hangs. Then there is
# a file FIFO.stuck.
my $STUCK = <<'C';
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int fdatasync(int fd)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    const char *fifo = getenv("STUCK_FIFO");
    char mark[4096];
    if (fifo && access(fifo, F_OK) == 0) {
        snprintf(mark, sizeof(mark), "%s.stuck", fifo);
        close(creat(mark, 0600));
        close(open(fifo, O_RDONLY));
    }
    return real(fd);
}
C

SKIP: {
    skip 'a sanitizer wants to be loaded first', 1 if $ENV{SAN};
    my $source = write_file('stuck.c', $STUCK);
    is system('cc', '-shared', '-fPIC', '-o', "$dir/stuck.so", $source, '-ldl'), 0, 'a disk that can hang';
    for my $way (qw(batched one-by-one)) {
        my $fifo = "$dir/$way";
        $server = Stockade->start(
            redis => $redis,
            args  => ['--orders', $way, '--request-deadline-ms', 600_000],
            env   => env(LD_PRELOAD => "$dir/stuck.so", STUCK_FIFO => $fifo),
        );
        hear_all();
        ok hear_of(qr/^WATCHDOG=1/), "$way: WATCHDOG=1";
        mkfifo($fifo, 0600) or die "$fifo: $!";
        my $order = Stockade::Load::ask($server, 1, 1, 1, 'one');
        ok Stockade::eventually(20, sub { -e "$fifo.stuck" }), "$way: its disk hangs";
        hear_all();
        # A last word may be on its way. A healthy service would say ten.
        my $end = time + 2.5 * $WATCHDOG_S;
        my $words = 0;
        while ((my $left = $end - time) > 0) {
            $words++ if defined hear($left);
        }
        cmp_ok $words, '<=', 1, "$way: then no word for twice the watchdog's time";
        is $server->get('/livez')->{status}, 200, "$way: while the rest of it lives";
        my $release;
        ok Stockade::eventually(20, sub { sysopen $release, $fifo, O_WRONLY | O_NONBLOCK }), "$way: the disk goes on";
        unlink $fifo;
        close $release;
        ok hear_of(qr/^WATCHDOG=1/), "$way: and so does WATCHDOG=1";
        like $order->()->[0], qr/^(?:201|503)$/, "$way: the order is answered";
        $server->ends($way);
        ok hear_of(qr/^STOPPING=1/m), "$way: STOPPING=1";
    }
}

$redis->stop;
done_testing;
