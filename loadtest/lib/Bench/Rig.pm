# The servers that are measured: started for one measurement and ended after it.
# Our databases are on a real disk below build/. Ports are below 32768, since the
# kernel gives those above to wrk's own connections.
#
#     my $rig   = Bench::Rig->new(build => 'build', args => []);
#     my $nginx = $rig->nginx;
#     my $redis = $rig->redis;
#     my $other = $rig->lua_on_redis($redis);
#     my $server = $rig->stockade($kind, redis => $redis, products => 1);
#     $server->{pid}, $server->{port}, $server->{stockade}
#     $rig->clear;        # ends all, removes their files
package Bench::Rig;

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Copy qw(copy);
use File::Path qw(make_path remove_tree);
use File::Temp ();
use IO::Handle ();
use IO::Socket::INET ();

use Stockade;

my $STOCK    = 1_000_000_000;
my $PRELOAD_S = 1800; # at most

# The ways to sell that are compared: binary and flags of `serve`. DIR is a folder of
# the server's own.
my %KINDS = (
    null                => ['stockade-null', '--lock', 'none'],
    'one-by-one-lua'    => ['stockade', '--orders', 'one-by-one', '--lock', 'token-lua'],
    'one-by-one-fenced' => ['stockade', '--orders', 'one-by-one', '--lock', 'fenced'],
    batched             => ['stockade', '--orders', 'batched', '--lock', 'fenced'],
    'with-viewers'      => ['stockade', '--orders', 'batched', '--lock', 'fenced'],
    unlocked            => ['stockade', '--orders', 'batched', '--lock', 'none'],
    'with-timeline'     => ['stockade', '--orders', 'batched', '--lock', 'fenced', '--lab-timeline', 'DIR/timeline.jsonl'],
);

# How an earlier version calls these settings: [flag, value] of today => of then.
my %EARLIER = (
    '--orders batched'    => ['--desk', 'combine'],
    '--orders one-by-one' => ['--desk', 'direct'],
);

# Ctrl-C ends all that was started; a second Ctrl-C does not interrupt that.
$SIG{INT} = $SIG{TERM} = $SIG{HUP} = sub {
    $SIG{$_} = 'IGNORE' for qw(INT TERM HUP);
    exit 130;
};

# build   where the binaries are, and below it what is made on the way
# before  an earlier stockade, to compare with; default: none
# args    further flags for every server of ours but the null one
sub new {
    my ($class, %with) = @_;
    my $build = abs_path($with{build});
    -x "$build/$_" or die "$build/$_ is not there: make bench makes it\n" for qw(stockade stockade-null);
    make_path("$build/bench");
    # Not in /tmp, which may be memory: a commit has to reach a disk.
    my $work = File::Temp->newdir("$build/bench/run.XXXXXX");
    $ENV{STOCKADE_BIN} = "$build/stockade";
    return bless {
        build   => $build,
        before  => $with{before} ? abs_path($with{before}) : undef,
        args    => $with{args} || [],
        work    => $work,
        count   => 0,
        running => [],
    }, $class;
}

sub kinds { return sort keys %KINDS, 'lua-on-redis' }

# Path of the binary and flags of a kind. `before` is `batched` of an earlier
# version.
sub _command {
    my ($self, $kind) = @_;
    if ($kind eq 'before') {
        my (undef, @flags) = @{ $KINDS{batched} };
        return ($self->{before}, $self->_flags_before(@flags, @{ $self->{args} }));
    }
    my ($binary, @flags) = @{ $KINDS{$kind} || die "there is no kind '$kind'" };
    return ("$self->{build}/$binary", @flags, $kind eq 'null' ? () : @{ $self->{args} });
}

# Flags of today, as the earlier version calls them.
sub _flags_before {
    my ($self, @flags) = @_;
    $self->{help} ||= Stockade::run(['serve', '--help'], binary => $self->{before})->{out};
    return @flags if $self->{help} =~ /--orders\b/;
    for my $i (1 .. $#flags) {
        my $then = $EARLIER{"$flags[$i - 1] $flags[$i]"} or next;
        @flags[$i - 1, $i] = @$then;
    }
    return @flags;
}

# A folder of its own for one server.
sub folder {
    my ($self) = @_;
    my $folder = "$self->{work}/" . ++$self->{count};
    mkdir $folder or die "$folder: $!";
    return $folder;
}

# ---- the yardstick ----------------------------------------------------------

# One process: a master that is killed would leave its worker behind.
my $NGINX_CONF = <<'END';
MODULES
master_process off;
daemon off;
pid nginx.pid;
error_log nginx.err;
events { worker_connections 4096; }
http {
    INIT
    access_log off;
    keepalive_requests 1000000000;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    server {
        listen 127.0.0.1:PORT backlog=4096;
        location / { ANSWER }
    }
}
END

sub nginx {
    my ($self) = @_;
    return $self->_nginx(MODULES => '', INIT => '', ANSWER => 'return 200 "{\"ok\":true}";');
}

# The same nginx, which sells by a script on REDIS: a yardstick that keeps nothing.
sub lua_on_redis {
    my ($self, $redis) = @_;
    my $scripts = "$Stockade::ROOT/loadtest/lua-on-redis";
    my $sha     = $redis->command('SCRIPT', 'LOAD', Stockade::slurp("$scripts/redis.lua"));
    $redis->command('SET', 'units', $STOCK);
    return $self->_nginx(
        MODULES => join(' ', map { "load_module /usr/lib/nginx/modules/${_}_module.so;" } qw(ndk_http ngx_http_lua)),
        INIT    => sprintf('init_by_lua_block { SHA = "%s" SOCKET = "%s" }', $sha, $redis->url),
        ANSWER  => "content_by_lua_file $scripts/nginx.lua;",
    );
}

# What is wrong with what it sold, of which ACCEPTED were acknowledged.
sub lua_on_redis_wrong {
    my ($redis, $accepted) = @_;
    my ($left, $sold) = map { $redis->command('GET', $_) || 0 } qw(units last);
    return $left + $sold != $STOCK || $sold < $accepted ? "it sold $sold, acknowledged $accepted, and has $left of $STOCK left" : ();
}

sub _nginx {
    my ($self, %text) = @_;
    my $folder = $self->folder;
    my $port   = $text{PORT} = Stockade::free_port();
    (my $conf = $NGINX_CONF) =~ s/\b(PORT|MODULES|INIT|ANSWER)\b/$text{$1}/g;
    Stockade::write_file("$folder/nginx.conf", $conf);
    my $child = Stockade::Child->spawn(
        command => ['nginx', '-p', $folder, '-e', "$folder/nginx.err", '-c', "$folder/nginx.conf"],
        stderr  => "$folder/stderr",
    );
    push @{ $self->{running} }, $child;
    Stockade::eventually(10, sub { !$child->alive || IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Timeout => 1) });
    die 'nginx did not come up: ', Stockade::slurp("$folder/stderr") if !$child->alive;
    return { pid => $child->pid, port => $port };
}

# ---- ours -------------------------------------------------------------------

# Its socket is in /tmp: the path of one may not be longer than 107 bytes.
sub redis {
    my ($self) = @_;
    my $redis = Stockade::Redis->start;
    push @{ $self->{running} }, $redis->{child};
    return $redis;
}

# redis     a Stockade::Redis
# db        a database to copy; default: none is there
# url       the database, where it is no file
# dir       a folder that another instance uses, too; default: a new one
# shared    several instances
# products  how many are put on sale; 0: they are in the database
# sold_out  the one product is sold out
# segments  that their stock is split over; default: one
# flags     further flags for this one
sub stockade {
    my ($self, $kind, %with) = @_;
    my ($binary, @flags) = $self->_command($kind);
    my $dir = $with{dir} || $self->folder;
    copy_database($with{db}, "$dir/stockade.db") if $with{db};
    my $server = Stockade->start(
        binary => $binary,
        redis => $with{redis},
        dir   => $dir,
        db_url => $with{url},
        args  => [
            (map { s/^DIR/$dir/r } @flags), '--no-seed', $with{shared} ? '--shared' : (),
            @{ $with{flags} || [] },
            '--listen', '127.0.0.1:' . Stockade::free_port(),
        ],
    );
    push @{ $self->{running} }, $server->{child};
    put_products($server, %with);
    return { pid => $server->pid, port => $server->port, dir => $dir, stockade => $server };
}

sub put_products {
    my ($server, %with) = @_;
    my $n = defined $with{products} ? $with{products} : 1;
    my @split = (segments => $with{segments} || 1);
    $server->product($_, $with{sold_out} ? 1 : $STOCK, limit_per_user => 0, @split) for 1 .. $n;
    # Product 2 is the one with a limit, where there are not many.
    $server->product(2, $STOCK, limit_per_user => 1, @split) if $n == 1;
    $server->order(1) if $with{sold_out};
    return;
}

# Synced before anything is measured, or the kernel writes it back meanwhile.
sub copy_database {
    my ($from, $to) = @_;
    copy($from, $to) or die "copy to $to: $!";
    open my $file, '<', $to or die "$to: $!";
    $file->sync;
    return;
}

# A database with so many orders in it, made by a server and the sqlite3 shell.
# Ten million take minutes.
sub preload {
    my ($self, $orders) = @_;
    my $redis  = $self->redis;
    my $server = $self->stockade('batched', redis => $redis);
    $server->{stockade}->stop;
    my $path = "$self->{work}/preloaded-$orders.db";
    rename "$server->{dir}/stockade.db", $path or die "rename: $!";
    fill($path, $orders) if $orders > 0;
    $self->clear;
    return $path;
}

sub fill {
    my ($path, $orders) = @_;
    my $child = Stockade::Child->spawn(
        command => [
            'sqlite3', '-batch', '-cmd', ".parameter set :orders $orders",
            $path, ".read $Stockade::ROOT/loadtest/preload.sql",
        ],
        stderr => "$path.err",
    );
    my $exit = $child->wait($PRELOAD_S);
    die 'preload failed: ', defined $exit ? Stockade::slurp("$path.err") : "it took more than $PRELOAD_S s" if !defined $exit || $exit;
    return;
}

# ---- customers who look on --------------------------------------------------

# N who watch the shop's page, until clear().
sub viewers {
    my ($self, $port, $n) = @_;
    my $log = $self->folder . '/viewers';
    my $child = Stockade::Child->spawn(
        command => [qw(curl -sN -Z --parallel-immediate --parallel-max), $n, map { "http://127.0.0.1:$port/api/events?$_" } 1 .. $n],
        stdout  => $log,
    );
    push @{ $self->{running} }, $child;
    Stockade::eventually(10, sub { (() = Stockade::slurp($log) =~ /^event: products/mg) == $n }) or die "not all $n viewers were let in\n";
    return;
}

# ---- all --------------------------------------------------------------------

# Ends what still runs and removes what it wrote; preloaded databases stay.
sub clear {
    my ($self) = @_;
    $_->end for grep { $_->alive } @{ $self->{running} };
    $self->{running} = [];
    remove_tree(grep { -d } glob "$self->{work}/*");
    return;
}

# Seconds of CPU that a process has had, from the kernel's clock ticks.
sub cpu_s {
    my ($pid) = @_;
    my ($user, $system) = Stockade::slurp("/proc/$pid/stat") =~ /\) (?:\S+ ){11}(\d+) (\d+)/ or return 0;
    return ($user + $system) / 100;
}

1;
