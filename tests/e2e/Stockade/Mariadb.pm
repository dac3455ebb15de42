# A private MariaDB for tests that need to be rough with it, and a relay before it
# that cuts connections. Loaded by the tests that use it: what it needs is there
# only after `make test-all`.
package Stockade::Mariadb;

use strict;
use warnings;

use IO::Select ();
use IO::Socket::INET ();
use IO::Socket::UNIX ();
use POSIX ();
use Socket qw(SOCK_STREAM);

use Stockade::Child ();

# mariadbd refuses to run as root unless it is told to.
my @USER = $> == 0 ? ('--user=root') : ();

# args  further settings of mariadbd
sub start {
    my ($class, %with) = @_;
    my $dir  = Stockade::tempdir();
    my $self = bless { dir => $dir, socket => "$dir/sql", args => $with{args} || [], dbs => 0, relays => [] }, $class;
    my $made = Stockade::Child->spawn(
        command => [
            'mariadb-install-db', '--no-defaults', '--auth-root-authentication-method=normal', '--skip-name-resolve',
            '--innodb-log-file-size=16M', "--datadir=$dir/data", @USER,
        ],
        log => "$dir/install.log",
    );
    my $code = $made->wait(60 * $Stockade::SLOW);
    die 'mariadb-install-db: ' . $made->log if !defined $code || $code != 0;
    return $self->again;
}

# Starts it (again), with the data that it has.
sub again {
    my ($self) = @_;
    $self->{child} = Stockade::Child->spawn(
        command => [
            'mariadbd', '--no-defaults', '--skip-networking', '--skip-log-bin', '--innodb-buffer-pool-size=64M',
            '--innodb-log-file-size=16M', '--innodb-flush-log-at-trx-commit=1', "--datadir=$self->{dir}/data",
            "--socket=$self->{socket}", @USER, @{ $self->{args} },
        ],
        log => "$self->{dir}/mariadb." . int(Time::HiRes::time() * 1e6),
    );
    defined $self->{child}->wait_for_line(qr/(ready for connections)/, 60 * $Stockade::SLOW)
        or die "mariadbd did not come up:\n" . $self->{child}->log;
    return $self;
}

sub socket_path { return $_[0]{socket} }
sub kill9  { return $_[0]{child}->end }
sub pause  { return $_[0]{child}->signal('STOP') }
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
    my $path = "$self->{dir}/relay" . @{ $self->{relays} };
    my $door = IO::Socket::UNIX->new(Type => SOCK_STREAM, Local => $path, Listen => 64) or die "$path: $!";
    my $pid  = fork;
    die "fork: $!" if !defined $pid;
    if ($pid == 0) {
        eval { _relay($door, $self->{socket}, $every, getppid) };
        POSIX::_exit(0);
    }
    push @{ $self->{relays} }, $pid;
    return $path;
}

sub _relay {
    my ($door, $server, $every, $parent) = @_;
    my $select  = IO::Select->new($door);
    my $commits = 0;
    my (%peer, %is_client);
    while (getppid == $parent) {
        for my $from ($select->can_read(1)) {
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
    for my $pid (@{ $self->{relays} }) {
        kill 'KILL', $pid;
        waitpid $pid, 0;
    }
    $self->kill9 if $self->{child};
    return;
}

1;
