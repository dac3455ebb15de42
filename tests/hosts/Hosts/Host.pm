# Hosts of a small network, each with a node of one Galera cluster, a Redis, a
# sentinel and an instance, by the files in etc/. What may happen to hosts:
#
#     my @hosts = Hosts::Host->cluster(3);
#     $hosts[0]->unplug;          # nothing gets in or out; plug_in
#     $hosts[0]->deafen;          # what it sends gets out; listen
#     $hosts[0]->freeze;          # as a virtual machine that is moved; thaw
#     $hosts[0]->power_off;       # boot, then up
#
# A host is a network namespace. The files are in /run, which is ours: Hosts::Apart.
package Hosts::Host;

use strict;
use warnings;

use Hosts::Apart    ();
use Stockade        ();
use Stockade::Child ();
use Stockade::Mariadb ();
use Stockade::Redis ();

our $TOKEN = 'for-administrators';

my $ETC     = "$Stockade::ROOT/tests/hosts/etc";
my $START_S = 60;    # the longest that a server may take to start

sub run {
    my (@command) = @_;
    system(@command) == 0 or die "failed: @command\n";
    return;
}

# ---- the cluster ---------------------------------------------------------------

# N hosts that sell, and the first has the primary. Their instances are there first.
sub cluster {
    my ($class, $n) = @_;
    run(qw(ip link set lo up));
    run(qw(ip link add lan type bridge));
    run(qw(ip addr add 10.77.0.254/24 dev lan));
    run(qw(ip link set lan up));
    my @hosts = map { $class->_new($_) } 1 .. $n;
    $_->_connect, $_->_start_instance for @hosts;
    my ($first, @others) = @hosts;
    $first->_install;
    run(qw(install -d -o mysql), "$_->{dir}/data") for @others;
    $first->_start_mariadb('--wsrep-new-cluster');
    $_->_start_mariadb for @others;
    $_->_await_mariadb for @hosts;
    $first->sql(q{CREATE DATABASE shop; CREATE USER shop@localhost IDENTIFIED BY 'secret'; GRANT ALL ON shop.* TO shop@localhost});
    $_->_start_redis for @hosts;
    $_->redis(qw(REPLICAOF 10.77.0.1 6379)) for @others;
    # Sentinels that start before the replicas are in line take long to agree.
    Stockade::eventually(30, sub { $first->replicas == $n - 1 }) or die "no replicas\n";
    $_->_start_sentinel for @hosts;
    $_->_await_instance for @hosts;
    Stockade::eventually(60, sub { is_whole(@hosts) }) or die "the hosts do not agree\n";
    return @hosts;
}

sub _new {
    my ($class, $n) = @_;
    my $self = bless { name => "host$n", address => "10.77.0.$n", dir => "/run/host$n", children => {}, starts => 0 }, $class;
    run('mkdir', $self->{dir});
    run('chown', 'mysql:mysql', $self->{dir});
    my %words = (%$self, provider => Stockade::Mariadb::provider());
    for my $path (glob "$ETC/*") {
        my ($name) = $path =~ m{([^/]+)$};
        $self->_write($name, Stockade::slurp($path) =~ s/\@(\w+)\@/$words{$1}/gr);
    }
    $self->_write('db-password', "secret\n");
    $self->_write('admin-token', "$TOKEN\n");
    return $self;
}

sub _write {
    my ($self, $name, $text) = @_;
    my $path = Stockade::write_file("$self->{dir}/$name", $text);
    chmod 0600, $path if $name =~ /token|password/;
    return;
}

sub name    { return $_[0]{name} }
sub address { return $_[0]{address} }
sub url     { return "http://$_[0]{address}:8080" }
sub db_url  { return "mysql:unix:$_[0]{dir}/mariadb.sock?db=shop&user=shop&password-file=$_[0]{dir}/db-password" }

# ---- its servers ---------------------------------------------------------------

sub _start {
    my ($self, $name, @command) = @_;
    my $child = Stockade::Child->spawn(
        command => [qw(ip netns exec), $self->{name}, @command],
        log     => "$self->{dir}/$name." . ++$self->{starts} . '.log',
    );
    push @{ $self->{logs}{$name} }, $child;
    return $self->{children}{$name} = $child;
}

sub _await {
    my ($self, $name, $line) = @_;
    my $child = $self->{children}{$name};
    return if defined $child->wait_for_line($line, $START_S * $Stockade::SLOW);
    die "$self->{name}: $name did not come up:\n" . $child->log;
}

# All that a server wrote, in all its lives.
sub log {
    my ($self, $name) = @_;
    return join '', map { $_->log } @{ $self->{logs}{$name} };
}

sub keep_logs {
    my ($self, $dir) = @_;
    Stockade::write_file("$dir/$self->{name}.$_", $self->log($_)) for keys %{ $self->{logs} };
    return;
}

# A new data directory. The other nodes get theirs from the first one.
sub _install {
    my ($self) = @_;
    my $made = Stockade::run(
        [
            '--no-defaults', '--auth-root-authentication-method=normal', '--skip-name-resolve', '--innodb-log-file-size=16M',
            "--datadir=$self->{dir}/data", '--user=mysql'
        ],
        binary  => 'mariadb-install-db',
        seconds => $START_S
    );
    die "mariadb-install-db: $made->{err}" if $made->{exit} ne '0';
    return;
}

sub _start_mariadb {
    my ($self, @args) = @_;
    $self->_start('mariadbd', 'mariadbd', "--defaults-file=$self->{dir}/mariadb.cnf", @args);
    return;
}

sub _await_mariadb { return $_[0]->_await('mariadbd', qr/(Synchronized with group, ready for connections)/) }

sub _start_redis {
    my ($self) = @_;
    unlink "$self->{dir}/redis.sock";
    $self->_start('redis', 'redis-server', "$self->{dir}/redis.conf");
    $self->_await('redis', qr/(ready to accept connections)/i);
    return;
}

sub _start_sentinel {
    my ($self) = @_;
    $self->_start('sentinel', 'redis-server', "$self->{dir}/sentinel.conf", '--sentinel');
    $self->_await('sentinel', qr/(Sentinel ID is)/);
    return;
}

sub _start_instance {
    my ($self, @args) = @_;
    $self->_start('stockade', Stockade::binary(), 'serve', '--config', "$self->{dir}/stockade.conf", @args);
    return;
}

sub _await_instance { return $_[0]->_await('stockade', qr/\bmsg=(ready)\b/) }

# ---- asking them ---------------------------------------------------------------

sub sql   { return Stockade::Mariadb::sql({ socket => "$_[0]{dir}/mariadb.sock" }, $_[1]) }
sub redis { my ($self, @words) = @_; return Stockade::Redis::command({ socket => "$self->{dir}/redis.sock" }, @words) }

sub replicas {
    my ($self) = @_;
    my @online = $self->redis('INFO', 'replication') =~ /^slave\d+:.*state=online/mg;
    return scalar @online;
}

# What the owners of its instance's locks begin with.
sub instance { return ($_[0]->log('stockade') =~ /.*\binstance=(\w+)/s)[0] }

# What its sentinel says of the primary.
sub sentinel { return @{ Stockade::Redis::command({ socket => "$_[0]{dir}/sentinel.sock" }, qw(SENTINEL MASTER main)) } }

sub is_primary { return eval { $_[0]->redis('INFO', 'replication') =~ /^role:master/m } }

# Its node has all that the others have.
sub is_synced {
    my ($self, $n) = @_;
    my $says = eval { $self->sql(q{SHOW STATUS LIKE 'wsrep_%'}) } // '';
    return !grep { $says !~ /^wsrep_$_$/m } "local_state_comment\tSynced", "cluster_size\t$n", "ready\tON";
}

# Everything is as it should be: one cluster, a primary with its replicas, sentinels
# that know each other, instances that are ready.
sub is_whole {
    my @hosts = @_;
    my ($primary, $second) = grep { $_->is_primary } @hosts;
    return 0 if !$primary || $second || $primary->replicas != $#hosts;
    for my $host (@hosts) {
        my %says = $host->sentinel;
        return 0 if $says{ip} ne $primary->{address} || $says{flags} ne 'master';
        return 0 if $says{'num-slaves'} != $#hosts || $says{'num-other-sentinels'} != $#hosts;
        return 0 if !$host->is_synced(scalar @hosts) || Stockade::request($host, 'GET', '/readyz')->{status} != 200;
    }
    return 1;
}

# Of all rows, when the node has applied what the others have committed.
sub checksums {
    my ($self) = @_;
    my @tables = split /\n/, $self->sql('SHOW TABLES IN shop');
    return $self->sql('SET wsrep_sync_wait = 1; CHECKSUM TABLE ' . join ', ', map { "shop.$_" } @tables);
}

# ---- what may happen to it -----------------------------------------------------

# A cable from the bridge to the host's eth0.
sub _connect {
    my ($self) = @_;
    my $name = $self->{name};
    run(qw(ip netns add), $name);
    run(qw(ip link add), $name, qw(type veth peer name eth0 netns), $name);
    run(qw(ip -n), $name, qw(addr add), "$self->{address}/24", qw(dev eth0));
    run(qw(ip -n), $name, qw(link set), $_, 'up') for qw(lo eth0);
    run(qw(ip link set), $name, qw(master lan up));
    return;
}

sub unplug  { return run(qw(ip link set), $_[0]{name}, 'down') }
sub plug_in { return run(qw(ip link set), $_[0]{name}, 'up') }

# It hears nobody; or only not that other host.
sub deafen {
    my ($self, $other) = @_;
    my $whom = $other ? "ip saddr $other->{address}" : 'iif eth0';
    $self->_nft("table ip deaf { chain in { type filter hook input priority 0; $whom drop; }; }");
    return;
}

sub listen { return $_[0]->_nft('delete table ip deaf') }

sub _nft {
    my ($self, $rules) = @_;
    return run(qw(ip netns exec), $self->{name}, 'nft', $rules);
}

sub _pids {
    my ($self) = @_;
    open my $pids, '-|', qw(ip netns pids), $self->{name} or die "ip: $!";
    chomp(my @pids = <$pids>);
    return @pids;
}

sub freeze { return kill 'STOP', $_[0]->_pids }
sub thaw   { return kill 'CONT', $_[0]->_pids }

# Only its node of the cluster.
sub freeze_node { return $_[0]{children}{mariadbd}->signal('STOP') }
sub thaw_node   { return $_[0]{children}{mariadbd}->signal('CONT') }

# Nobody hears them die; and of several none outlives the others for long enough to go on
# without them, or each would have its own last view of the cluster.
sub power_off {
    my @hosts = @_;
    my @pids = map { $_->_pids } @hosts;
    run(qw(ip link del), $_->{name}) for @hosts;
    kill 'KILL', @pids;
    $_->wait(10) for map { values %{ $_->{children} } } @hosts;
    run(qw(ip netns del), $_->{name}) for @hosts;
    return;
}

# As its service manager starts them, the instance first. The node finds out how far it
# had got, or it would need a full copy.
sub boot {
    my ($self) = @_;
    $self->_connect;
    $self->_start_instance;
    $self->_start_redis;
    $self->_start_sentinel;
    $self->_start('recover', 'mariadbd', "--defaults-file=$self->{dir}/mariadb.cnf", '--wsrep-recover');
    my $at = $self->{children}{recover}->wait_for_line(qr/Recovered position: *(\S+)/, $START_S * $Stockade::SLOW)
        // die $self->log('recover');
    $self->{children}{recover}->wait($START_S * $Stockade::SLOW);
    $self->_start_mariadb("--wsrep-start-position=$at");
    return;
}

# Waits until it has booted: of a host alone its node does not come up.
sub up {
    my ($self) = @_;
    $self->_await_mariadb;
    $self->_await_instance;
    return;
}

sub stop_instance { return $_[0]{children}{stockade}->stop(20 * $Stockade::SLOW) }

# With other settings than those of its file; its exit code.
sub restart_instance {
    my ($self, @args) = @_;
    my $exit = $self->stop_instance;
    $self->_start_instance(@args);
    $self->_await_instance;
    return $exit;
}

# The head and the body of an instance's answer to somebody on its host.
sub ask_inside {
    my ($self, @curl) = @_;
    open my $out, '-|', qw(ip netns exec), $self->{name}, qw(curl -s -i -m 10), @curl or die "curl: $!";
    local $/;
    return scalar <$out>;
}

sub kill_redis  { return $_[0]{children}{redis}->end }
sub start_redis { return $_[0]->_start_redis }

1;
