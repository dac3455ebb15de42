# A private redis-server on a Unix socket, for tests that need to be rough with
# it or to share it between instances; with a port of 127.0.0.1 if that is asked for.
package Stockade::Redis;

use strict;
use warnings;

use IO::Socket::UNIX ();
use Socket qw(SOCK_STREAM);

use Stockade::Child ();

# dir   where its socket is
# args  further settings of redis-server, such as ['--user', 'shop', 'on', ...]
# port  true: {port} is one that was free
# sentinel  true: it is one, with DIR/sentinel.conf
sub start {
    my ($class, %with) = @_;
    my $dir = $with{dir} || Stockade::tempdir();
    my $self = bless { %with, dir => $dir, socket => "$dir/redis.sock", args => $with{args} || [], port => 0 }, $class;
    return $self->again if !$with{port};
    for (1 .. 10) {
        $self->{port} = Stockade::free_port();
        return $self if eval { $self->again };
    }
    die $@;    # somebody else took each of them in between
}

# Starts it (again) on the same socket, empty.
sub again {
    my ($self) = @_;
    unlink $self->{socket};
    $self->{child} = Stockade::Child->spawn(
        command => [
            'redis-server',
            $self->{sentinel} ? ("$self->{dir}/sentinel.conf", '--sentinel') : (),
            '--port',       $self->{port},
            $self->{port} ? ('--bind', '127.0.0.1') : (),
            '--unixsocket', $self->{socket},
            '--dir',        "$self->{dir}",
            $self->{sentinel} ? () : ('--save', '', '--appendonly', 'no'),
            @{ $self->{args} },
        ],
        log => "$self->{dir}/redis.log",
    );
    defined $self->{child}->wait_for_line(qr/(ready to accept connections|Sentinel ID is)/i, 60 * $Stockade::SLOW)
        or die "redis-server did not come up:\n" . $self->{child}->log;
    return $self;
}

sub url    { return "unix:$_[0]{socket}" }
sub pid    { return $_[0]{child}->pid }
sub stop   { return $_[0]{child}->stop(10 * $Stockade::SLOW) }
sub kill9  { return $_[0]{child}->end }
sub pause  { return Stockade::Child::freeze($_[0]->pid) }
sub resume { return $_[0]{child}->signal('CONT') }

# Sends one command, returns its reply: a string, a number, undef for nil, a
# reference to a list; dies on an error reply.
sub command {
    my ($self, @words) = @_;
    my $socket = IO::Socket::UNIX->new(Type => SOCK_STREAM, Peer => $self->{socket})
        or die "$self->{socket}: $!";
    print {$socket} '*' . @words . "\r\n", map { '$' . length($_) . "\r\n$_\r\n" } @words;
    $socket->flush;
    return _reply($socket);
}

sub _reply {
    my ($socket) = @_;
    my $line = <$socket>;
    die 'redis closed the connection' if !defined $line;
    my ($kind, $rest) = $line =~ /^(.)(.*?)\r\n/s or die "what is '$line'?";
    return $rest if $kind eq '+' || $kind eq ':';
    die "redis: $rest\n" if $kind eq '-';
    return if $rest < 0;
    return [map { _reply($socket) } 1 .. $rest] if $kind eq '*';
    read $socket, my $text, $rest + 2;
    return substr $text, 0, $rest;
}

# Names of locks that are held, and of notes about attempts (":dlock-done:")
# that would stay for ever. The counter of fencing tokens is there to stay.
sub locks {
    my ($self) = @_;
    my @keys = grep { !/:dlock-fence$/ } @{ $self->command('KEYS', '*lock*') };
    return grep { !/:dlock-done:/ || $self->command('PTTL', $_) == -1 } @keys;
}

1;
