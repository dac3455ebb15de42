# Customers outside of the hosts. Each orders one unit after the other, with a key,
# and asks another host with the same key when one refuses, breaks off or is silent,
# until it has an answer. What each try came to is written down, with the time.
#
#     my $buyers = Hosts::Buyers->start(hosts => \@hosts, product => 1, scarce => 2);
#     $buyers->await($host);       # until that host has sold something from now on
#     my $told = $buyers->finish;  # Hosts::Told
#
# One process with one thread, which waits for sockets only. Every fourth order is
# for the product that is scarce, as long as that is not sold out.
package Hosts::Buyers;

use strict;
use warnings;

use IO::Select ();
use IO::Socket::INET ();
use POSIX qw(EINPROGRESS);
use Socket qw(SOL_SOCKET SO_ERROR);
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

use Hosts::Told ();
use Stockade    ();

my $CUSTOMERS = 12;
my $APART_S   = 0.1;     # two orders of a customer; two tries when all have refused
my $CONNECT_S = 0.5;     # then another host is asked
my $SILENT_S  = 2;
my $PATIENT_S = 12;      # every fourth: nobody else hears a yes that comes late, and is wrong
my $AVOID_S   = 0.5;     # a host that was silent or not there
my $END_S     = 30;      # for the orders that are under way in the end

sub now { return clock_gettime(CLOCK_MONOTONIC) }

sub start {
    my ($class, %with) = @_;
    my $dir  = Stockade::tempdir();
    my $self = bless { %with, dir => $dir, notes => "$dir/tries", at => 0 }, $class;
    my $pid  = fork // die "fork: $!";
    if (!$pid) {
        eval { $self->_buy } or print STDERR "the buyers: $@";
        POSIX::_exit(0);
    }
    $self->{pid} = $pid;
    return $self;
}

# Waits until HOST has sold something from now on; false: it has not in SECONDS.
sub await {
    my ($self, $host, $seconds) = @_;
    my $from = now();
    my $name = $host->name;
    return Stockade::eventually(
        $seconds,
        sub {
            open my $file, '<', $self->{notes} or return 0;
            seek $file, -20_000, 2;
            return scalar grep { /^(\S+) $name \S+ 201 / && $1 > $from } <$file>;
        }
    );
}

sub finish {
    my ($self) = @_;
    kill 'TERM', $self->{pid};
    waitpid $self->{pid}, 0;
    return Hosts::Told->new($self->{notes});
}

# ---- the customers' process ------------------------------------------------------

sub _buy {
    my ($self) = @_;
    my $over = 0;
    local $SIG{TERM} = sub { $over ||= now() + $END_S * $Stockade::SLOW };
    local $SIG{PIPE} = 'IGNORE';
    open $self->{out}, '>>', $self->{notes} or die "$self->{notes}: $!";
    $self->{out}->autoflush(1);
    my @customers = map { { number => $_, n => 0, not_before => 0, tries => 0 } } 1 .. $CUSTOMERS;
    while (1) {
        my $now = now();
        for my $customer (grep { !$_->{socket} && $_->{not_before} <= $now } @customers) {
            $self->_try($customer, $now) if $customer->{key} || (!$over && $self->_wish($customer));
        }
        my @waiting = grep { $_->{socket} } @customers;
        last if $over && (now() > $over || (!@waiting && !grep { $_->{key} } @customers));
        $self->_hear(@waiting);
        $now = now();
        $self->_failed($_, 'silent', $now) for grep { $_->{socket} && $_->{until} < $now } @customers;
    }
    return 1;
}

sub _wish {
    my ($self, $customer) = @_;
    my $n = ++$customer->{n};
    $customer->{product} = $n % 4 || $self->{sold_out} ? $self->{product} : $self->{scarce};
    $customer->{key}     = "$self->{name}-$customer->{number}-$n";
    $customer->{tries}   = 0;
    return 1;
}

# Asks the host whose turn it is, of those that are not avoided.
sub _try {
    my ($self, $customer, $now) = @_;
    my @hosts = @{ $self->{hosts} };
    @hosts = map { $hosts[($_ + $customer->{number} + $customer->{tries}) % @hosts] } 0 .. $#hosts;
    my ($host) = grep { ($self->{avoid}{ $_->name } // 0) <= $now } @hosts;
    $customer->{host} = $host ||= $hosts[0];
    $customer->{tries}++;
    my $user = 1000 * $customer->{n} + $customer->{number};
    my $body = qq({"product_id":$customer->{product},"user_id":$user,"quantity":1});
    my $address = $host->address;
    @$customer{qw(reply until)} = ('', $now + $CONNECT_S * $Stockade::SLOW);
    $customer->{request} = "POST /api/orders HTTP/1.1\r\nHost: $address\r\nConnection: close\r\nIdempotency-Key: $customer->{key}\r\n"
        . "Content-Type: application/json\r\nContent-Length: " . length($body) . "\r\n\r\n$body";
    $customer->{socket} = IO::Socket::INET->new(PeerAddr => $address, PeerPort => 8080, Blocking => 0);
    $self->_failed($customer, 'refused', $now) if !$customer->{socket};
    return;
}

sub _hear {
    my ($self, @waiting) = @_;
    my %of    = map { $_->{socket} => $_ } @waiting;
    my $read  = IO::Select->new(map { $_->{socket} } grep { !$_->{request} } @waiting);
    my $write = IO::Select->new(map { $_->{socket} } grep { $_->{request} } @waiting);
    my ($readable, $writable) = IO::Select->select($read, $write, undef, 0.01);
    my $now = now();
    for my $customer (map { $of{$_} } @{ $writable // [] }) {
        $customer->{until} = $now + ($customer->{number} % 4 ? $SILENT_S : $PATIENT_S) * $Stockade::SLOW;
        my $failed = $customer->{socket}->getsockopt(SOL_SOCKET, SO_ERROR);
        if ($failed || !defined syswrite $customer->{socket}, delete $customer->{request}) {
            $self->_failed($customer, 'refused', $now);
        }
    }
    for my $customer (map { $of{$_} } @{ $readable // [] }) {
        my $got = sysread $customer->{socket}, $customer->{reply}, 65536, length $customer->{reply};
        $self->_ended($customer, $now) if !$got;
    }
    return;
}

sub _ended {
    my ($self, $customer, $now) = @_;
    my ($status) = $customer->{reply} =~ m{^HTTP/1\.1 (\d+) };
    return $self->_failed($customer, 'broken', $now) if !$status;
    my ($id)   = $customer->{reply} =~ /"id": *"([^"]+)"/;
    my ($slug) = $customer->{reply} =~ /"type": *"[^"]*?([a-z0-9-]+)"/;
    $self->_note($customer, $status, $status == 201 ? $id : $slug, $now);
    delete $customer->{socket};
    $customer->{not_before} = $now + $APART_S if $status < 500 || $customer->{tries} % 3 == 0;
    $self->{sold_out} ||= $status == 409;
    delete $customer->{key} if $status < 500;
    return;
}

sub _failed {
    my ($self, $customer, $how, $now) = @_;
    $self->_note($customer, $how, '-', $now);
    delete $customer->{socket};
    $customer->{not_before} = $now + $APART_S if $customer->{tries} % 3 == 0;
    $self->{avoid}{ $customer->{host}->name } = $now + $AVOID_S;
    return;
}

sub _note {
    my ($self, $customer, $status, $what, $now) = @_;
    printf { $self->{out} } "%.6f %s %s %s %s\n", $now, $customer->{host}->name, $customer->{key}, $status, $what;
    return;
}

1;
