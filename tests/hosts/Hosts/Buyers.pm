# Customers outside of the hosts. Each orders one unit after the other, with a key,
# and asks another host with the same key when one refuses, breaks off or is silent,
# until it has an answer. What each try came to is written down, with the time.
#
#     my $buyers = Hosts::Buyers->start(hosts => \@hosts, product => 1, scarce => 2);
#     $buyers->await($host);       # until that host has sold something from now on
#     $buyers->finish;             # then it says what they were told
#
# A process for each customer. Every fourth order is for the product that is scarce, as
# long as that is not sold out.
package Hosts::Buyers;

use strict;
use warnings;

use HttpRaw ();
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC sleep);

use Stockade ();

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
    my $self = bless { %with, dir => $dir, notes => "$dir/tries" }, $class;
    for my $number (1 .. $CUSTOMERS) {
        push @{ $self->{copies} }, Stockade::Child->copy(sub { $self->_buy($number) });
    }
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

# From then on {tries} are [time, host, key, status, id or reason]. A status that is no
# number says that there was no answer.
sub finish {
    my ($self) = @_;
    $_->signal('TERM') for @{ $self->{copies} };
    $_->wait for @{ $self->{copies} };
    $self->{tries} = [map { [split / /] } split /\n/, Stockade::slurp($self->{notes})];
    return $self;
}

# ---- what they were told ---------------------------------------------------------

sub count {
    my ($self, $status) = @_;
    return scalar grep { $_->[3] =~ $status } @{ $self->{tries} };
}

sub acked {
    my ($self) = @_;
    return grep { $_->[3] eq '201' } @{ $self->{tries} };
}

# Keys of orders whose customers never heard yes or no.
sub unknown {
    my ($self) = @_;
    my %last = map { $_->[2] => $_->[3] } @{ $self->{tries} };
    return grep { $last{$_} !~ /^[24]/ } sort keys %last;
}

# The longest time without a sale by one of HOSTS, between two points of time.
sub gap {
    my ($self, $from, $to, @hosts) = @_;
    my %is   = map { $_->name => 1 } @hosts;
    my @at   = sort { $a <=> $b } grep { $_ > $from && $_ < $to } map { $_->[3] eq '201' && $is{ $_->[1] } ? $_->[0] : () } @{ $self->{tries} };
    my $last = $from;
    my $gap  = 0;
    for my $at (@at, $to) {
        $gap  = $at - $last if $at - $last > $gap;
        $last = $at;
    }
    return $gap;
}

# As a file, for a person.
sub keep {
    my ($self, $path) = @_;
    return Stockade::write_file($path, join '', map { "@$_\n" } @{ $self->{tries} });
}

# Statuses by how often, for a person.
sub summary {
    my ($self) = @_;
    my %n;
    $n{ $_->[3] =~ /^[45]/ ? "$_->[3] $_->[4]" : $_->[3] }++ for @{ $self->{tries} };
    return join ', ', map { "$n{$_} $_" } sort keys %n;
}

# ---- a customer's process --------------------------------------------------------

sub _buy {
    my ($self, $number) = @_;
    my ($over, $sold_out, %avoid) = (0, 0);
    local $SIG{TERM} = sub { $over ||= now() + $END_S * $Stockade::SLOW };
    local $SIG{PIPE} = 'IGNORE';
    open my $notes, '>>', $self->{notes} or die "$self->{notes}: $!";
    for (my $n = 1; !$over; $n++) {
        my $product = $n % 4 || $sold_out ? $self->{product} : $self->{scarce};
        my $key     = "$self->{name}-$number-$n";
        for (my $tries = 1; !$over || now() < $over; $tries++) {
            my $host = $self->_turn($number + $tries, \%avoid);
            my ($status, $what) = _ask($host, $number % 4 ? $SILENT_S : $PATIENT_S, 1000 * $n + $number, $key, $product);
            syswrite $notes, sprintf "%.6f %s %s %s %s\n", now(), $host->name, $key, $status, $what;
            $avoid{ $host->name } = now() + $AVOID_S if $status =~ /\D/;
            $sold_out ||= $status eq '409';
            my $is_answer = $status =~ /^[1-4]/;
            sleep $APART_S if $is_answer || $tries % 3 == 0;
            last if $is_answer;
        }
    }
    return;
}

# The host whose turn it is, of those that are not avoided.
sub _turn {
    my ($self, $turn, $avoid) = @_;
    my @hosts = @{ $self->{hosts} };
    @hosts = map { $hosts[($_ + $turn) % @hosts] } 0 .. $#hosts;
    return (grep { ($avoid->{ $_->name } // 0) <= now() } @hosts)[0] // $hosts[0];
}

# An order's status, with its id or why not; or why there is no answer.
sub _ask {
    my ($host, $seconds, @order) = @_;
    my $socket = eval { HttpRaw::connect_to(8080, PeerAddr => $host->address, Timeout => $CONNECT_S * $Stockade::SLOW) }
        or return ('refused', '-');
    HttpRaw::put($socket, HttpRaw::order_bytes(@order) =~ s/localhost/$host->address/er);
    my $talk  = HttpRaw::read_replies($socket, 1, $seconds);
    my $reply = $talk->{replies}[0] or return ($talk->{closed} ? 'broken' : 'silent', '-');
    my ($what) = $reply->{body} =~ ($reply->{status} == 201 ? qr/"id": *"([^"]+)"/ : qr/"type": *"[^"]*?([a-z0-9-]+)"/);
    return ($reply->{status}, $what);
}

1;
