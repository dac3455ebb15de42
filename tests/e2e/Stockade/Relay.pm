# A relay in front of a server, that can be told to misbehave:
#
#     my $relay = Stockade::Relay->start($server);
#     $relay->does('cut');     # an order gets through, its reply does not
#     $relay->does('busy');    # an order is answered 503, and does not get through
#     $relay->does("HTTP/1.1 200 OK\r\n...");   # an order gets through, and this is its reply
#     $relay->does("once HTTP/1.1 ...");        # so does the next one only
#     $relay->does('pass');    # as at first
#     $relay->url
#
# Orders only: /readyz and all else get through. A process for each connection, which
# ends with it.
package Stockade::Relay;

use strict;
use warnings;

use IO::Socket::INET ();
use POSIX ();

use Stockade::Child ();

sub start {
    my ($class, $server) = @_;
    my $socket = IO::Socket::INET->new(Listen => 64, LocalAddr => '127.0.0.1') or die "no port: $!";
    my $self = bless { dir => Stockade::tempdir(), port => $socket->sockport }, $class;
    Stockade::Child->copy(sub {
        @SIG{qw(PIPE CHLD)} = ('IGNORE', 'IGNORE');
        while (1) {
            my $client = $socket->accept or next;
            next if fork;
            $self->_serve($client, $server->port);
            POSIX::_exit(0);
        }
    });
    return $self;
}

sub url { return "http://127.0.0.1:$_[0]{port}" }

sub does {
    my ($self, $what) = @_;
    Stockade::write_file("$self->{dir}/new", $what);
    rename "$self->{dir}/new", "$self->{dir}/does" or die "relay: $!";
    return $self;
}

# One connection, until either side closes it.
sub _serve {
    my ($self, $client, $port) = @_;
    my $server = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) or return;
    while (defined(my $request = _message($client))) {
        my $does = $request =~ /^POST/ ? Stockade::slurp("$self->{dir}/does") : '';
        $self->does('pass') if $does =~ s/^once //;
        $request =~ s/^Host: [^\r]*/Host: localhost/mi;
        my $reply = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
        if ($does ne 'busy') {
            syswrite $server, $request;
            $reply = _message($server);
        }
        return if !defined $reply || $does eq 'cut';
        syswrite $client, $does =~ /^HTTP/ ? $does : $reply;
        return if $does =~ /^HTTP/;
    }
    return;
}

# A head and its body.
sub _message {
    my ($socket) = @_;
    my $text = '';
    while (sysread $socket, $text, 65536, length $text) {
        my $head = index $text, "\r\n\r\n";
        next if $head < 0;
        my ($length) = $text =~ /^content-length: *(\d+)/mi;
        return $text if length $text >= $head + 4 + ($length || 0);
    }
    return;
}

1;
