# HTTP by hand: bytes out, bytes in, on a socket. For requests that no proper
# client would send, and for clients that behave as none should.
#
#     my $talk = HttpRaw::talk($server->port, "GET / HTTP/1.1\r\n...");
#     $talk->{replies}[0]{status}; $talk->{closed};
package HttpRaw;

use strict;
use warnings;

use IO::Select ();
use IO::Socket::INET ();
use Test::More ();
use Time::HiRes qw(time);

our $SLOW = $ENV{STOCKADE_SLOW} || 1;

# How long a reply is waited for, however busy the machine is.
our $PATIENCE_S = 30;

# How long a connection has to stay quiet to count as left open.
our $QUIET_S = 0.3 * $SLOW;

sub connect_to {
    my ($port, %with) = @_;
    my $socket = IO::Socket::INET->new(
        PeerAddr => '127.0.0.1', PeerPort => $port, Proto => 'tcp', Timeout => $PATIENCE_S, %with,
    ) or die "connect: $@";
    $socket->autoflush(1);
    binmode $socket;
    return $socket;
}

# Sends all of it. false if the other side has had enough.
sub put {
    my ($socket, $bytes) = @_;
    local $SIG{PIPE} = 'IGNORE';
    while (length $bytes) {
        my $n = syswrite $socket, $bytes;
        return 0 if !defined $n;
        substr($bytes, 0, $n, '');
    }
    return 1;
}

# What comes within SECONDS: undef = nothing, '' = the end.
sub get {
    my ($socket, $seconds) = @_;
    return undef if !IO::Select->new($socket)->can_read($seconds);
    my $n = sysread $socket, my $bytes, 65536;
    return $n ? $bytes : '';
}

# Takes one whole reply off the front of $$TEXT: {status, headers, body}, or
# undef if it is not all there. Headers by lower-case name.
sub take_reply {
    my ($text) = @_;
    $$text =~ /\A(HTTP\/1\.[01] (\d{3})[^\r\n]*\r\n((?:[^\r\n]+\r\n)*)\r\n)/ or return undef;
    my ($head, $status, $lines) = ($1, $2, $3);
    my %headers;
    for my $line (split /\r\n/, $lines) {
        my ($name, $value) = $line =~ /^([^:]+):\s*(.*)$/ or next;
        $headers{ lc $name } = $value;
    }
    my $size = $status =~ /^1|^204|^304/ ? 0 : $headers{'content-length'} || 0;
    return undef if length($$text) < length($head) + $size;
    my $body = substr $$text, length $head, $size;
    substr($$text, 0, length($head) + $size, '');
    return { status => $status, headers => \%headers, body => $body };
}

# Reads until there are N replies, the end, or SECONDS ($PATIENCE_S) are over. Returns
# {replies, rest, closed}; 100-continue does not count as a reply.
sub read_replies {
    my ($socket, $n, $seconds) = @_;
    my ($text, $closed, @replies) = ('', 0);
    my $end = time + ($seconds // $PATIENCE_S) * $SLOW;
    while (@replies < $n && time < $end) {
        my $more = get($socket, $end - time) // ($!{EINTR} ? next : last);
        $text .= $more;
        while (my $reply = take_reply(\$text)) {
            push @replies, $reply if $reply->{status} != 100;
        }
        if ($more eq '') {
            $closed = 1;
            last;
        }
    }
    return { replies => \@replies, rest => $text, closed => $closed };
}

# The first reply to BYTES on a new connection.
sub ask {
    my ($port, @bytes) = @_;
    my $socket = connect_to($port);
    put($socket, join '', @bytes);
    return read_replies($socket, 1)->{replies}[0] || { status => 'none', headers => {}, body => '' };
}

# The status of the next reply, or 'none'.
sub status_of {
    my ($socket, $seconds) = @_;
    my $reply = read_replies($socket, 1, $seconds)->{replies}[0];
    return $reply ? $reply->{status} : 'none';
}

# Sends BYTES(i) on all sockets before any reply is read; how many had STATUS. What the
# others had is said.
sub round_of {
    my ($sockets, $status, $bytes) = @_;
    put($sockets->[$_], $bytes->($_)) for 0 .. $#$sockets;
    my %seen;
    for my $socket (@$sockets) {
        my $reply = read_replies($socket, 1)->{replies}[0] || { status => 'none', body => '' };
        $seen{"$reply->{status} " . ($reply->{status} eq $status ? '' : $reply->{body})}++;
    }
    my $n = delete $seen{"$status "} || 0;
    Test::More::diag("$seen{$_} times: $_") for sort keys %seen;
    return $n;
}

# An order of one unit of product 9, if nothing else is said.
sub order_bytes {
    my ($user, $key, $product, $quantity) = @_;
    my $body = sprintf '{"product_id":%d,"user_id":%d,"quantity":%d}', $product || 9, $user, $quantity || 1;
    my $more = defined $key ? "Idempotency-Key: $key\r\n" : '';
    return "POST /api/orders HTTP/1.1\r\nHost: localhost\r\n${more}Content-Type: application/json\r\nContent-Length: "
        . length($body) . "\r\n\r\n$body";
}

# Sends BYTES on a new connection and finds out how that ends: with which
# replies, and whether the connection is closed. One that stays open is asked
# for a page that does not exist, to see what is answered before that: so a
# request smuggled inside BYTES shows as one reply more.
sub talk {
    my ($port, $bytes, %with) = @_;
    my $socket = connect_to($port);
    put($socket, $bytes);
    my $talk = read_replies($socket, 1, $with{seconds});
    my $more = $talk->{closed} ? '' : get($socket, $QUIET_S);
    if (defined $more && $more eq '') {
        $talk->{closed} = 1;
        return $talk;
    }
    $talk->{rest} .= $more if defined $more;
    put($socket, "GET /the-end HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    my $text = $talk->{rest};
    my $end  = time + $PATIENCE_S * $SLOW;
    while (time < $end) {
        $more = get($socket, $end - time);
        last if !defined $more || $more eq '';
        $text .= $more;
    }
    while (my $reply = take_reply(\$text)) {
        push @{ $talk->{replies} }, $reply;
    }
    my $last = $talk->{replies}[-1];
    pop @{ $talk->{replies} }
        if @{ $talk->{replies} } > 1 && $last->{status} == 404 && $last->{body} =~ /not-found/;
    $talk->{rest} = $text;
    return $talk;
}

1;
