# Goal of this test: behind nginx and behind haproxy, with the configurations of
# server/deploy, customers can order while one of two instances is away; nothing is
# sent twice that may not be; and nobody gets past a limit by a forged header.
use lib 'tests/e2e';
use HttpRaw;
use IO::Socket::INET ();
use POSIX ();
use Stockade;

$ENV{PATH} .= ':/usr/sbin';
my $TOKEN = 'hunter2';
my $dir   = Stockade::tempdir();
my $redis = Stockade::Redis->start;

# What each proxy is started by, with its part of server/deploy as "site".
my %STARTED = (
    nginx => {
        command => ['nginx', '-e', 'stderr', '-p', $dir, '-c', "$dir/nginx"],
        site    => 'nginx.conf',
        frame   => "daemon off;\nmaster_process off;\npid $dir/nginx.pid;\nevents {}\nhttp {\naccess_log off;\n"
            . join('', map { "${_}_temp_path $dir/$_;\n" } qw(client_body proxy fastcgi uwsgi scgi)) . "%s}\n",
    },
    haproxy => {
        command => ['haproxy', '-db', '-f', "$dir/haproxy"],
        site    => 'haproxy.cfg',
        frame   => "global\n    maxconn 100\n%s",
    },
);

# A proxy before BACKENDS, two ports: {child, port, tls}. Another process may take a
# free port before it does: then it is started once more.
sub proxy {
    my ($name, @backends) = @_;
    my $how = $STARTED{$name};
    for (1 .. 5) {
        my ($port, $tls) = (Stockade::free_port(), Stockade::free_port());
        my $site = Stockade::slurp("$Stockade::ROOT/server/deploy/$how->{site}");
        my $n    = () = $site =~ s/127\.0\.0\.1:808([01])\b/127.0.0.1:$backends[$1]/g;
        my $m    = $site =~ s/listen 443 ssl;/listen 127.0.0.1:$tls ssl; listen 127.0.0.1:$port;/
            || $site =~ s/bind :443 ssl crt .*/bind 127.0.0.1:$port/;
        $site =~ s{/etc/ssl/\S+(pem|key);}{$dir/$1;}g;
        # Each order is to meet the backend that fails.
        $site =~ s/max_fails=1/max_fails=0/ if @backends > 2;
        $site =~ s/(proxy_read_timeout|timeout server) +\K15s/1s/ or die if ($backends[3] // '') eq 'silent';
        Stockade::write_file("$dir/$name", sprintf $how->{frame}, $site);
        my $child = Stockade::Child->spawn(command => $how->{command}, stderr => "$dir/$name.log.$port");
        my $up = Stockade::eventually(10, sub {
            !$child->alive ? 'no' : IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) && 'yes';
        });
        return { child => $child, port => $port, tls => $tls } if $m && $up eq 'yes';
        $child->end;
    }
    die "$name does not start: " . join '', map { Stockade::slurp($_) } glob "$dir/$name.log.*";
}

# One request from an address of a stranger; its status.
sub ask {
    my ($port, $from, $bytes) = @_;
    my $socket = HttpRaw::connect_to($port, LocalAddr => $from);
    HttpRaw::put($socket, $bytes);
    return HttpRaw::status_of($socket);
}

sub with_field {
    my ($bytes, $field) = @_;
    return $bytes =~ s/\r\n/\r\n$field\r\n/r;
}

# An instance that drops what it is sent, though it is ready; or, SILENT, that keeps it
# and does not answer: {port, got}. Writes down each POST.
sub faithless {
    my ($silent) = @_;
    my $listener = IO::Socket::INET->new(Listen => 20, LocalAddr => '127.0.0.1') or die "socket: $!";
    pipe my $from, my $to or die "pipe: $!";
    my $owner = $$;
    my $pid   = fork;
    die "fork: $!" if !defined $pid;
    if (!$pid) {
        my @kept;
        while (my $socket = $listener->accept) {
            my $head = '';
            while ($head !~ /\r\n\r\n/ && sysread $socket, $head, 4096, length $head) { }
            syswrite $socket, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" if $head =~ /^GET/;
            syswrite $to, 'P' if $head =~ /^POST/;
            push @kept, $socket if $silent;
        }
        POSIX::_exit(0);
    }
    close $to;
    my $got = sub {
        kill KILL => $pid;
        waitpid $pid, 0;
        local $/;
        return length(<$from> // '');
    };
    return { port => $listener->sockport, got => $got };
}

is system(qw(openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=shop.example),
    '-addext', 'subjectAltName=DNS:shop.example', '-keyout', "$dir/key", '-out', "$dir/pem", '-batch'), 0, 'a certificate';

my @args = ('--shared', '--trusted-proxy', '127.0.0.1');
my @servers = map { Stockade->start(redis => $redis, dir => $dir, args => \@args, token => $TOKEN) } 1 .. 2;
my @ports   = map { $_->port } @servers;
my $admin   = { Authorization => "Bearer $TOKEN" };
is $servers[0]->put('/api/products/9', { name => 'nine', stock => 1000 }, $admin)->{status}, 201, 'a product';
my $sold = sub { $servers[1]->get('/api/products/9')->{body}{sold} };
my ($user, $orders) = (0, 0);

for my $name (sort keys %STARTED) {
    my $proxy = proxy($name, @ports);
    is ask($proxy->{port}, '127.0.0.2', "GET /livez HTTP/1.1\r\nHost: shop.example\r\n\r\n"), 200, "$name: passes on";
    is ask($proxy->{port}, '127.0.0.1', "GET $_ HTTP/1.1\r\nHost: shop.example\r\n\r\n"), m{^/api} ? 403 : 404,
        "$name: $_ is not for who comes through it" for '/metrics', '/readyz', '/api/audit';
    my $viewer = HttpRaw::connect_to($proxy->{port}, LocalAddr => '127.0.0.2');
    my $seen   = '';
    HttpRaw::put($viewer, "GET /api/events HTTP/1.1\r\nHost: shop.example\r\n\r\n");
    $seen .= HttpRaw::get($viewer, $HttpRaw::PATIENCE_S) // last until $seen =~ /event: beat/;
    my @status = map { ask($proxy->{port}, '127.0.0.2', HttpRaw::order_bytes(++$user)) } 1 .. 6;
    is_deeply \@status, [(201) x 6], "$name: orders";
    my $left = 1000 - $orders - 6;
    $seen .= HttpRaw::get($viewer, $HttpRaw::PATIENCE_S) || last until $seen =~ /event: product\n.*"stock":$left,/;
    like $seen, qr/event: product\n.*"stock":$left,/, "$name: events are passed on, whichever instance has sold";
    close $viewer;

    # ---- one is away -----------------------------------------------------------------
    $servers[0]->kill9;
    @status = map { ask($proxy->{port}, '127.0.0.2', HttpRaw::order_bytes(++$user, "$name-$user")) } 1 .. 6;
    is_deeply \@status, [(201) x 6], "$name: one of two has died: orders with a key go on";
    @status = map { ask($proxy->{port}, '127.0.0.2', HttpRaw::order_bytes(++$user)) } 1 .. 6;
    is_deeply \@status, [(201) x 6], "$name: and others, since nothing of them was sent";
    is $sold->(), $orders += 18, "$name: each once";
    $proxy->{child}->end;
    $servers[0]->restart;
    $ports[0] = $servers[0]->port;

    # ---- one takes orders and does not answer --------------------------------------------
    my $faithless = faithless();
    $proxy  = proxy($name, $faithless->{port}, $ports[1], 'each');
    @status = map { ask($proxy->{port}, '127.0.0.2', HttpRaw::order_bytes(++$user, "$name-$user")) } 1 .. 4;
    is_deeply \@status, [(201) x 4], "$name: without an answer an order with a key is sent to another";
    @status = map { ask($proxy->{port}, '127.0.0.2', HttpRaw::order_bytes(++$user)) } 1 .. 4;
    my $lost = grep { $_ eq '502' } @status;
    cmp_ok $lost, '>', 0, "$name: one without a key is not" or diag "@status";
    is $lost + grep({ $_ eq '201' } @status), 4, "$name: the others are placed";
    is $sold->(), $orders += 8 - $lost, "$name: each once";
    cmp_ok $faithless->{got}->(), '>', $lost, "$name: both kinds have met it";
    $proxy->{child}->end;

    # It may place the order yet: another's "no" would not be one.
    $faithless = faithless('silent');
    $proxy  = proxy($name, $faithless->{port}, $ports[1], 'each', 'silent');
    @status = map { ask($proxy->{port}, '127.0.0.2', HttpRaw::order_bytes(++$user, "$name-$user")) } 1 .. 4;
    my $got = $faithless->{got}->();
    cmp_ok $got, '>', 0, "$name: some meet one that does not answer";
    cmp_ok $got, '<=', grep({ $_ eq '504' } @status), "$name: time is up, and nobody else is asked" or diag "@status";
    $orders = $sold->();
    $proxy->{child}->end;
}

# ---- TLS -----------------------------------------------------------------------------------
my $proxy = proxy('nginx', @ports);
my $curl  = "curl -s -m 20 --cacert $dir/pem --resolve shop.example:$proxy->{tls}:127.0.0.1";
is `$curl https://shop.example:$proxy->{tls}/livez`, "{\"status\":\"ok\"}\n", 'TLS with a certificate of our own';
is `$curl -H 'Authorization: Bearer $TOKEN' -o /dev/null -w '%{http_code}' https://shop.example:$proxy->{tls}/api/audit`,
    200, 'and the administrator comes by it';
# 60: it is not among those that curl knows; 77: a bare Debian knows none.
like system("curl -s -m 20 -o /dev/null --resolve shop.example:$proxy->{tls}:127.0.0.1 https://shop.example:$proxy->{tls}/") >> 8, qr/^(?:60|77)$/,
    'who does not know the certificate is not served';
$proxy->{child}->end;

# ---- readiness -----------------------------------------------------------------------------
$proxy = proxy('haproxy', @ports);
my $home = sub { ask($proxy->{port}, '127.0.0.2', "GET / HTTP/1.1\r\nHost: shop.example\r\n\r\n") };
is $home->(), 200, 'haproxy: the page';
$redis->pause;
ok Stockade::eventually(20, sub { $home->() eq '503' }), 'not of instances whose lock server is away';
$redis->resume;
ok Stockade::eventually(20, sub { $home->() eq '200' }), 'and again when it is back';
$proxy->{child}->end;

# ---- limits ----------------------------------------------------------------------------------
is $_->stop, 0, 'stops' for @servers;
my $server = $servers[0]->restart(args => [@args, qw(--client-inflight-max 1 --lock-wait-ms 60000 --request-deadline-ms 600000)]);
my $refused = 0;
for my $way ('nginx', 'haproxy', 'directly') {
    $proxy = $way eq 'directly' ? undef : proxy($way, $server->port, $server->port);
    my $port    = $proxy ? $proxy->{port} : $server->port;
    my @sockets = map { HttpRaw::connect_to($port, LocalAddr => $_) } ('127.0.0.2') x 4, '127.0.0.3';
    my $release = $server->hold_database;
    HttpRaw::put($sockets[$_], with_field(HttpRaw::order_bytes(++$user), "X-Forwarded-For: 10.9.8.$_")) for 0 .. 4;
    $refused += 3;
    Stockade::eventually(10, sub { ($server->metric('stockade_orders_total', outcome => 'too-many-in-flight') || 0) >= $refused });
    $release->();
    my @replies = map { HttpRaw::read_replies($_, 1)->{replies}[0] } @sockets;
    is +(pop @replies)->{status}, 201, "$way: another customer orders";
    my ($placed, @busy) = sort { $a->{status} <=> $b->{status} } @replies;
    is_deeply [map { $_->{status} } $placed, @busy], [201, 429, 429, 429], "$way: who forges X-Forwarded-For has his limit";
    is $busy[0]{headers}{'retry-after'}, 1, "$way: and hears when to come back";
    like $busy[0]{body}, qr/urn:stockade:problem:too-many-in-flight/, "$way: as a problem";
    $proxy->{child}->end if $proxy;
}
is $server->stop, 0, 'stops';
done_testing;
