# A private MariaDB for tests that need to be rough with it, and a relay before it
# that cuts connections. Loaded by the tests that use it: what it needs is there
# only after `make test-all`.
package Stockade::Mariadb;

use strict;
use warnings;

use IO::Select ();
use IO::Socket::INET ();
use IO::Socket::UNIX ();
use Socket qw(SOCK_STREAM);

use Stockade::Child ();

# mariadbd refuses to run as root unless it is told to; a node of a cluster is copied
# by rsync, which works as mysql only.
my $SST = '/usr/bin/wsrep_sst_rsync';
my ($PROVIDER) = grep { -e } qw(/usr/lib/galera/libgalera_smm.so /usr/lib/libgalera_smm.so);

sub provider   { return $PROVIDER }
sub has_galera { return $PROVIDER && -e $SST && ($> != 0 || defined getpwnam 'mysql') }

# args  further settings of mariadbd
# user  as whom it runs, when we are root
sub start {
    my ($class, %with) = @_;
    my $dir  = Stockade::tempdir();
    my $user = $with{user} || 'root';
    my $self = bless {
        dir => $dir, socket => "$dir/sql", args => [@{ $with{args} || [] }, $> == 0 ? ("--user=$user") : ()], dbs => 0, relays => 0,
    }, $class;
    chown +(getpwnam $user)[2, 3], "$dir" if $> == 0;
    my $made = Stockade::Child->spawn(
        command => [
            'mariadb-install-db', '--no-defaults', '--auth-root-authentication-method=normal', '--skip-name-resolve',
            '--innodb-log-file-size=16M', "--datadir=$dir/data", "--tmpdir=$dir", $> == 0 ? ("--user=$user") : (),
        ],
        log => "$dir/install.log",
    );
    my $code = $made->wait(180 * $Stockade::SLOW);
    die 'mariadb-install-db: ' . $made->log if !defined $code || $code != 0;
    return $self->again;
}

# Nodes of one cluster, synced. The first goes on when it is alone.
sub cluster {
    my ($class, $n) = @_;
    my (@nodes, $first);
    for my $i (1 .. $n) {
        my ($group, $ist, $sst) = map { Stockade::free_port() } 1 .. 3;
        $first ||= $group;
        push @nodes, $class->start(
            user => 'mysql',
            args => [
                '--binlog-format=ROW', '--innodb-autoinc-lock-mode=2', '--wsrep-on=ON', "--wsrep-provider=$PROVIDER",
                '--wsrep-cluster-address=gcomm://' . ($i == 1 ? '' : "127.0.0.1:$first"), '--wsrep-node-address=127.0.0.1',
                '--wsrep-sst-method=rsync', "--wsrep-sst-receive-address=127.0.0.1:$sst",
                "--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:$group;ist.recv_addr=127.0.0.1:$ist;gcache.size=32M;pc.weight="
                    . ($i == 1 ? 2 : 1) . ';evs.suspect_timeout=PT1S;evs.inactive_timeout=PT3S;evs.inactive_check_period=PT0.2S;evs.keepalive_period=PT0.3S',
            ],
        );
        Stockade::eventually(60 * $Stockade::SLOW, sub { $nodes[-1]->is_synced }) or die "node $i is not synced";
    }
    return @nodes;
}

sub is_synced {
    my ($self) = @_;
    return eval { $self->sql(q{SHOW STATUS LIKE 'wsrep_ready'}) } =~ /ON/;
}

# Starts it (again), with the data that it has.
sub again {
    my ($self) = @_;
    $self->{child} = Stockade::Child->spawn(
        command => [
            'mariadbd', '--no-defaults', '--skip-networking', '--skip-log-bin', '--innodb-buffer-pool-size=64M',
            '--innodb-log-file-size=16M', '--innodb-flush-log-at-trx-commit=1', "--datadir=$self->{dir}/data",
            "--tmpdir=$self->{dir}", "--socket=$self->{socket}", @{ $self->{args} },
        ],
        log => "$self->{dir}/mariadb." . int(Time::HiRes::time() * 1e6),
    );
    defined $self->{child}->wait_for_line(qr/(ready for connections)/, 180 * $Stockade::SLOW)
        or die "mariadbd did not come up:\n" . $self->{child}->log;
    return $self;
}

sub pid { return $_[0]{child}->pid }
sub socket_path { return $_[0]{socket} }
sub kill9  { return $_[0]{child}->end }
sub pause  { return Stockade::Child::freeze($_[0]->pid) }
sub resume { return $_[0]{child}->signal('CONT') }

# Runs statements as root; what they print.
sub sql {
    my ($self, $statements) = @_;
    open my $out, '-|', 'mariadb', '--no-defaults', '-N', '-S', $self->{socket}, '-uroot', '-e', $statements or die "mariadb: $!";
    my $text = do { local $/; <$out> };
    close $out or die "mariadb: $statements";
    return $text;
}

# A new, empty database; what --db takes for it, through SOCKET if that is given.
sub database {
    my ($self, $socket) = @_;
    my $name = 'shop' . ++$self->{dbs};
    $self->sql("CREATE DATABASE $name");
    return 'mysql:unix:' . ($socket || $self->{socket}) . "?db=$name&user=root";
}

# ---- the relay ---------------------------------------------------------------

# The path of a socket that leads to the server. Of the COMMITs that come through
# one in EVERY is not answered: the connection is cut, in turns before the COMMIT is
# passed on and after.
sub relay {
    my ($self, $every) = @_;
    my $path = "$self->{dir}/relay" . $self->{relays}++;
    my $door = IO::Socket::UNIX->new(Type => SOCK_STREAM, Local => $path, Listen => 64) or die "$path: $!";
    Stockade::Child->copy(sub { $SIG{PIPE} = 'IGNORE'; _relay($door, $self->{socket}, $every) });
    return $path;
}

sub _relay {
    my ($door, $server, $every) = @_;
    my $select  = IO::Select->new($door);
    my $commits = 0;
    my (%peer, %is_client);
    while (1) {
        for my $from ($select->can_read) {
            if ($from == $door) {
                my $client = $door->accept or next;
                my $to = IO::Socket::UNIX->new(Type => SOCK_STREAM, Peer => $server);
                next if !$to;    # as if it were not there
                @peer{ $client, $to } = ($to, $client);
                $is_client{$client} = 1;
                $select->add($client, $to);
                next;
            }
            my $to = $peer{$from} or next;
            my $n  = sysread $from, my $data, 65536;
            my $cut = !$n;
            if ($n && $is_client{$from} && $data =~ /\x03COMMIT\z/ && ++$commits % $every == 0) {
                syswrite $to, $data if $commits / $every % 2;
                $cut = 1;
            }
            if ($cut) {
                $select->remove($from, $to);
                delete @peer{ $from, $to };
                close $_ for $from, $to;
                next;
            }
            syswrite $to, $data;
        }
    }
    return;
}

sub DESTROY {
    my ($self) = @_;
    local ($?, $@, $!);
    $self->kill9 if $self->{child};
    return;
}

1;
