# One stockade server under test, and what tests do with it. They run in the top folder.
#
#     use lib 'tests/e2e';
#     use Stockade;
#
#     my $redis  = Stockade::Redis->start;              # private, Unix socket
#     my $server = Stockade->start(redis => $redis, args => ['--lock', 'fenced']);
#     my $reply  = $server->order(1, 42, 1, 'key-1');   # product user qty key
#     is $reply->{status}, 201;
#     is $server->stop, 0;
#     my ($verdict, $exit) = $server->audit;
#
# Core Perl only. Nothing here waits for a fixed time: it waits for a line, an
# exit or an answer, and gives up at a deadline. However a test ends, all that it
# started is killed by process id.
package Stockade;

use strict;
use warnings;

use Cwd qw(abs_path);
use Encode qw(decode_utf8);
use File::Basename qw(dirname);
use File::Spec ();
use File::Temp ();
use HTTP::Tiny ();
use IO::Socket::INET ();
use IPC::Open2 qw(open2);
use JSON::PP ();
use Socket qw(IPPROTO_TCP TCP_NODELAY);
use Test::Builder ();
use Test::More ();
use Time::HiRes qw(time);

use Stockade::Child ();
use Stockade::Load ();
use Stockade::Redis ();

# A test says `use Stockade`, and is strict, warns, and has Test::More by that.
sub import {
    strict->import;
    warnings->import;
    Test::More->export_to_level(1, 'Test::More');
    return;
}

our $ROOT = abs_path(dirname(__FILE__) . '/../..');

# How much slower a sanitizer build is; every deadline grows with it.
our $SLOW = $ENV{STOCKADE_SLOW} || 1;

# A busy machine may stall a process for a second. An order's patience with its lock
# bears that, where a test does not set it. Nothing ends before $PATIENCE_S because it
# takes long: where "soon" is tested, too late is later than that, or it is an event.
our $LOCK_WAIT_MS = 8000;
our $PATIENCE_S   = 30;

# No proxy between us and loopback; and settings in the tester's environment are
# not for the server under test.
delete @ENV{qw(http_proxy HTTP_PROXY all_proxy ALL_PROXY)};
delete $ENV{$_} for grep { /^STOCKADE_/ && !/^STOCKADE_(?:BIN|SLOW)$/ } keys %ENV;

# Those two are no settings: a server would warn of them.
my %NOT_SETTINGS = (STOCKADE_BIN => undef, STOCKADE_SLOW => undef);

my $JSON = JSON::PP->new->utf8->allow_nonref;

sub binary {
    return $ENV{STOCKADE_BIN} || "$ROOT/build/stockade";
}

# What is built already, once more in PLACE: what a test makes there changes no binary
# under another, and is soon made.
sub copy_build {
    my ($place) = @_;
    my $build = dirname(binary());
    return 0 == system "mkdir -p '$place' && cd '$build' && cp -a db gen lock server *.a stockade stockade-lab '$place'";
}

# From now on it is called as a person types it, from the top folder: commands that it
# prints begin with that, and are as long wherever the folder is.
sub call_as_typed {
    my $typed = './' . File::Spec->abs2rel(binary(), $ROOT);
    chdir $ROOT or die "$ROOT: $!";
    $ENV{STOCKADE_BIN} = $typed;
    return;
}

# A directory that is removed with the last reference to it.
sub tempdir {
    return File::Temp->newdir('stockade-XXXXXX', TMPDIR => 1);
}

# Runs a stockade command to its end: {out, err, exit}. {stdin}, a file, or {keys}, a
# text that it reads there, {env}, {cwd}, {seconds}, {wrap} and {binary} are optional; a
# run that does not end is killed and has exit 'timeout'.
sub run {
    my ($args, %with) = @_;
    my $dir   = tempdir();
    my $child = Stockade::Child->spawn(
        command => [@{ $with{wrap} || [] }, $with{binary} || binary(), @$args],
        env     => { $args->[0] && $args->[0] eq 'serve' ? %NOT_SETTINGS : (), %{ $with{env} || {} } },
        cwd     => $with{cwd},
        stdin   => defined $with{keys} ? write_file("$dir/keys", $with{keys}) : $with{stdin},
        stdout  => "$dir/out",
        stderr  => "$dir/err",
    );
    my $exit = $child->wait(($with{seconds} || 2 * $PATIENCE_S) * $SLOW);
    $child->end if !defined $exit;
    return {
        out  => slurp("$dir/out"),
        err  => slurp("$dir/err"),
        exit => defined $exit ? $exit : 'timeout',
    };
}

# The same as text: (exit status, output, errors).
sub told {
    my $run = run(@_);
    return ($run->{exit}, map { decode_utf8($_) } @{$run}{qw(out err)});
}

# Tests that a command is refused: exit 2, and on standard error WHY. Its output.
sub refuses {
    my ($args, $why, %with) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my ($exit, $out, $err) = told($args, %with);
    Test::More::is($exit, 2, "@$args: exit 2");
    Test::More::like($err, $why, 'and why');
    return $out;
}

# How many columns of a terminal a text takes: Chinese characters and their punctuation
# take two each.
sub columns {
    my ($text) = @_;
    my $wide = () = $text =~ /[\x{3000}-\x{303f}\x{3400}-\x{9fff}\x{ff00}-\x{ff60}]/g;
    return length($text) + $wide;
}

sub slurp {
    my ($path) = @_;
    open my $file, '<', $path or return '';
    local $/;
    my $text = <$file>;
    return defined $text ? $text : '';
}

# Makes a file of that text; its path.
sub write_file {
    my ($path, $text) = @_;
    open my $file, '>', $path or die "$path: $!";
    print {$file} $text;
    close $file or die "$path: $!";
    return $path;
}

# Calls CHECK until it is true or SECONDS are over, and $PATIENCE_S; returns its last
# value. Where there is no better way to wait.
sub eventually {
    my ($seconds, $check) = @_;
    my $end = time + ($seconds > $PATIENCE_S ? $seconds : $PATIENCE_S) * $SLOW;
    while (1) {
        my $value = $check->();
        return $value if $value || time > $end;
        select undef, undef, undef, 0.02;
    }
}

# ---- starting and stopping ----------------------------------------------

# args   further flags
# token  the admin token, by a file
# redis  a Stockade::Redis, 'spawn' (the default), or a value for --redis
# dir    where the database lives; default: a directory of its own
# db_url another database than a file there
# env    further environment variables
# binary another one than binary()
# wrap   a command to run it under, such as ['prlimit', '--fsize=100000']
# inventory  servers, or URLs: it is an order service, and these deduct
# port   where it listens; default: any
# dies   true: do not die when it fails to start, return undef
# unready  true: it is not to become ready, but to log what fails
sub start {
    my ($class, %with) = @_;
    my $dir  = $with{dir} || tempdir();
    my $self = bless {
        dir   => $dir,
        db    => $with{db} || "$dir/stockade.db",
        db_url => $with{db_url},
        with  => {%with},
        log   => '',
        user  => 0,
        http  => undef,
    }, $class;
    return $self->_launch;
}

# Nobody listens there now. Not one of those that the kernel gives to clients: one of
# them may have it by the time that a slow server listens.
sub free_port {
    for (1 .. 100) {
        my $port = 12000 + int rand 20000;
        return $port if IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1', LocalPort => $port);
    }
    die "no port: $!";
}

sub _launch {
    my ($self) = @_;
    my %with  = %{ $self->{with} };
    my $redis = $with{redis} || 'spawn';
    $redis = $redis->url if ref $redis;
    my $port  = $with{port} || ($with{unready} ? free_port() : 0);
    my @stock = ('--db', $self->db_url, '--redis', $redis);
    @stock = ('--inventory', join ',', map { ref $_ ? $_->url : $_ } @{ $with{inventory} }) if $with{inventory};
    push @stock, '--admin-token-file', write_file("$self->{dir}/admin-token", "$with{token}\n") if defined $with{token};
    my %env = (%NOT_SETTINGS, $with{inventory} ? () : (STOCKADE_LOCK_WAIT_MS => $LOCK_WAIT_MS), %{ $with{env} || {} });
    my $child = Stockade::Child->spawn(
        command => [
            @{ $with{wrap} || [] },
            $with{binary} || binary(), 'serve',
            '--listen', "127.0.0.1:$port",
            @stock,
            @{ $with{args} || [] },
        ],
        env => \%env,
        log => "$self->{dir}/stderr.$$." . int(time * 1e6),
    );
    $self->{child} = $child;
    $self->{http}  = undef;
    my $line  = $with{unready} ? qr/\bmsg=health (part=.*state=fails)/ : qr/\bmsg\W+ready\b.*?\blisten\W+([^\s"]+)/;
    my $ready = $child->wait_for_line($line, $PATIENCE_S * $SLOW);
    if (!defined $ready) {
        my $log = $child->log;
        $child->end;
        return if $with{dies};
        die "the server did not come up; it said:\n$log\n";
    }
    ($self->{port}) = $port || $ready =~ /:(\d+)$/ or die "no port in '$ready'";
    return $self;
}

sub pid  { return $_[0]{child}->pid }
sub port { return $_[0]{port} }
sub url  { return "http://127.0.0.1:$_[0]{port}" }
sub dir  { return $_[0]{dir} }
sub db   { return $_[0]{db} }
sub db_url { return $_[0]{db_url} || "sqlite:$_[0]{db}" }

# What it wrote to standard error so far, all its lives together.
sub log {
    my ($self) = @_;
    return $self->{log} . $self->{child}->log;
}

# SIGTERM; its exit code, or undef if it had to be killed.
sub stop {
    my ($self, $seconds) = @_;
    return $self->_over($self->{child}->stop($seconds || $PATIENCE_S * $SLOW));
}

sub kill9 {
    my ($self) = @_;
    return $self->_over($self->{child}->end);
}

# The process has ended. A sanitizer's complaint in its log fails the test, also
# where the exit code is not checked.
sub _over {
    my ($self, $exit) = @_;
    $self->{http} = undef;
    my $log = $self->{child}->log;
    if ($log =~ /(?:Sanitizer:|runtime error:)/) {
        my $test = Test::Builder->new;
        $test->ok(0, 'no sanitizer complains');
        $test->diag($log);
    }
    return $exit;
}

# The same server once more, on a new port. Stops it first if it runs.
sub restart {
    my ($self, %change) = @_;
    $self->stop if $self->{child}->alive;
    $self->{log} .= $self->{child}->log;
    $self->{with} = { %{ $self->{with} }, %change };
    return $self->_launch;
}

sub alive { return $_[0]{child}->alive }

# Process ids of the server's children: its own redis-server, when it has one.
sub children {
    my ($self) = @_;
    return Stockade::Child::children_of($self->pid);
}

# ---- talking to it --------------------------------------------------------

# HTTP::Tiny sends a request's head and body apart. Without TCP_NODELAY the body
# waits some 40 ms until the kernel has acknowledged the head.
{
    no warnings 'redefine';
    my $connect = \&HTTP::Tiny::Handle::connect;
    *HTTP::Tiny::Handle::connect = sub {
        my $handle = $connect->(@_);
        setsockopt $handle->{fh}, IPPROTO_TCP, TCP_NODELAY, 1;
        return $handle;
    };
}

# A reply: {status, headers, raw, body}; body is the decoded JSON, or undef.
# A request that got no reply has status 599, as HTTP::Tiny says it.
sub request {
    my ($self, $method, $path, $body, $headers) = @_;
    $self->{http} ||= HTTP::Tiny->new(keep_alive => 1, timeout => $PATIENCE_S * $SLOW);
    my %options = (headers => { %{ $headers || {} } });
    $options{content} = ref $body ? $JSON->encode($body) : $body if defined $body;
    $options{headers}{'Content-Type'} ||= 'application/json' if $method =~ /^P/;
    my $got  = $self->{http}->request($method, $self->url . $path, \%options);
    my $type = $got->{headers}{'content-type'} || '';
    return {
        status  => $got->{status},
        headers => $got->{headers},
        raw     => $got->{content},
        body    => $type =~ /json/ ? eval { $JSON->decode($got->{content}) } : undef,
    };
}

sub get    { my ($self, $path, $headers) = @_; return $self->request('GET',    $path, undef, $headers) }
sub delete { my ($self, $path, $headers) = @_; return $self->request('DELETE', $path, undef, $headers) }
sub put    { my ($self, $path, $body, $headers) = @_; return $self->request('PUT',  $path, $body, $headers) }
sub patch  { my ($self, $path, $body, $headers) = @_; return $self->request('PATCH', $path, $body, $headers) }
sub post   { my ($self, $path, $body, $headers) = @_; return $self->request('POST', $path, $body, $headers) }

# Places an order; without a user, each call is another one's.
sub order {
    my ($self, $product, $user, $quantity, $key) = @_;
    return $self->post(
        '/api/orders',
        {
            product_id => 0 + $product,
            user_id    => 0 + ($user || 1_000_000 + ++$self->{user}),
            quantity   => 0 + ($quantity || 1),
        },
        defined $key ? { 'Idempotency-Key' => $key } : undef,
    );
}

# Creates a product, or dies.
sub product {
    my ($self, $id, $stock, %more) = @_;
    my $reply = $self->put("/api/products/$id",
        { name => "product $id", stock => 0 + $stock, price_cents => 100, limit_per_user => 0, %more });
    die "PUT product: $reply->{status} $reply->{raw}" if $reply->{status} !~ /^20[01]$/;
    return $reply;
}

# The last part of a problem's type: "sold-out". '' if it is no problem.
sub slug {
    my ($reply) = @_;
    my $type = ref $reply->{body} eq 'HASH' ? $reply->{body}{type} : undef;
    return defined $type && $type =~ /([a-z0-9-]+)$/ ? $1 : '';
}

# A number from /metrics: metric('stockade_orders_total', outcome => 'placed').
# Without labels: the sum over all of them. undef if there is none.
sub metric {
    my ($self, $name, %labels) = @_;
    my $sum;
    for my $line (split /\n/, $self->get('/metrics')->{raw}) {
        my ($has, $value) = $line =~ /^\Q$name\E(?:\{([^}]*)\})?\s+(\S+)/ or next;
        my %has = defined $has ? $has =~ /([a-zA-Z_]+)="([^"]*)"/g : ();
        next if grep { !defined $has{$_} || $has{$_} ne $labels{$_} } keys %labels;
        $sum = ($sum || 0) + $value;
    }
    return $sum;
}

# The verdict on the ledger: (decoded JSON, exit code). acked => FILE adds the
# check that every order in it, each acknowledged to a client, is there.
sub audit {
    my ($self, %with) = @_;
    my @acked = $with{acked} ? ('--acked', "$with{acked}") : ();
    my $ran = run(['audit', '--db', $self->db_url, '--json', @acked], %with, binary => $self->{with}{binary});
    my $verdict = eval { $JSON->decode($ran->{out}) } || { error => $ran->{err} };
    return wantarray ? ($verdict, $ran->{exit}) : $verdict;
}

# Tests that its ledger balances; the verdict. %WITH as for audit.
sub balances {
    my ($self, $what, %with) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $test = Test::Builder->new;
    my ($verdict, $exit) = $self->audit(%with);
    # No number where the audit took too long.
    $test->is_eq($exit, 0, "$what: the ledger balances") or $test->diag($test->explain($verdict));
    return $verdict;
}

# The same once it has ended as it should.
sub ends {
    my ($self, $what, %with) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $test = Test::Builder->new;
    $test->is_num($self->stop, 0, "$what: ends") or $test->diag($self->log);
    return $self->balances($what, %with);
}

# Another process holds the write lock of the database until the result is
# called; reading goes on.
sub hold_database {
    my ($self) = @_;
    my $pid = open2(my $out, my $in, 'sqlite3', $self->{db});
    print {$in} ".timeout 60000\nBEGIN EXCLUSIVE;\n.print held\n";
    $in->flush;
    my $line = <$out>;
    die "cannot lock the database\n" if !defined $line || $line ne "held\n";
    return sub { close $in; close $out; waitpid $pid, 0 };
}

# Whether another process reads or writes in it at this moment.
sub is_database_locked {
    my ($self) = @_;
    return system "sqlite3 '$self->{db}' 'BEGIN EXCLUSIVE; ROLLBACK' 2>/dev/null";
}

# ---- at the end -----------------------------------------------------------

# prove's timeout sends SIGTERM: turn it into an exit, so that END blocks run.
$SIG{TERM} = $SIG{INT} = $SIG{HUP} = sub { exit 1 };

1;
