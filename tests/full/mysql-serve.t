# Goal of this test: the service on MariaDB loses and doubles nothing that was
# acknowledged, whatever happens to the server and the way to it: COMMITs whose
# answer is lost, kill -9, SIGSTOP, two instances on one hot row without a lock. It
# says what is wrong at the start, answers 503 with Retry-After later, and recovers
# by itself.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../e2e";
use Stockade;
use Stockade::Mariadb;
use Test::More;

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
refuses('not a URL', 'mysql:shop',                         qr{mysql://USER\@HOST:PORT/DB});
refuses('a password in the URL', 'mysql://u:s3cret@h:1/d', qr{mysql://USER\@HOST:PORT/DB});
refuses('nobody there', 'mysql://u@127.0.0.1:' . Stockade::free_port() . '/d', qr/Can't connect/);
refuses('no such database', "$socket?db=none&user=root",  qr/Unknown database.*CREATE DATABASE/);
refuses('wrong password',   "$socket?db=newer&user=shop", qr/Access denied.*STOCKADE_DB_PASSWORD/);
refuses('no TLS there',     "$socket?db=newer&user=root&tls=yes", qr/TLS/);
refuses("another program's", "$socket?db=other&user=root", qr/another program/);
{
    my $dir = Stockade::tempdir();
    open my $file, '>', "$dir/password" or die $!;
    print {$file} "s3cret\n";
    close $file or die $!;
    my $url = "$socket?db=newer&user=shop";
    my @serve = ('serve', '--check-config', '--redis', $redis->url, '--db');
    is Stockade::run([@serve, $url], env => { STOCKADE_DB_PASSWORD => 's3cret' })->{exit}, 0, 'password from the environment';
    is Stockade::run([@serve, "$url&password-file=$dir/password"])->{exit}, 0, 'password from a file';
    my $server = Stockade->start(redis => $redis, db_url => "$url&password-file=$dir/password");
    $server->ends('with a password');
    $mariadb->sql('UPDATE newer.stockade SET version = 99');
    refuses('a newer schema', "$socket?db=newer&user=root", qr/version 99.*newer/);
    $mariadb->sql('UPDATE newer.stockade SET version = 1');
    $server->restart;
    is $mariadb->sql('SELECT version FROM newer.stockade'), "3\n", 'a schema that was half made is finished';
    $server->ends('after that');
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
{
    my $url = $mariadb->database;
    my @servers = map { Stockade->start(redis => $redis, db_url => $url, args => ['--shared', '--lock', 'none']) } 1 .. 2;
    $servers[0]->product(40, 300);
    my $load = Stockade::Load->start(servers => \@servers, product => 40, name => 'two');
    ok Stockade::eventually(60, sub { $servers[1]->get('/api/products/40')->{body}{stock} == 0 }), 'two without a lock: sold out';
    my $told = exact('two without a lock', $load, @servers);
    is scalar @{ $told->{acked} }, 300, 'two without a lock: each unit once';
}
done_testing;
