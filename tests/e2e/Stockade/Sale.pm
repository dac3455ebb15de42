# A sale to many customers at once. It checks each answer that they get.
#
#     my $sale = Stockade::Sale->new(servers => [$one, $two], product => 40, units => 100_000);
#     $sale->plan(at => 30_000, request => $sale->resize(5));
#     $sale->plan(at => 50_000, do => sub { $redis->command('FLUSHALL') });
#     $sale->run(seconds => 120) or diag $sale->state;  # until everybody hears "sold out"
#     is_deeply $sale->complaints, [];
#
# One process with one thread sends and reads everything, so all requests and
# answers have an order in time. When a customer hears "sold out", so much must
# have been left at every moment between the request and the answer:
#
#     what was supplied and returned before the request,
#     less all that others may have bought before the answer
#
# If that is enough for the order, the refusal was wrong. Each order is of another
# user, so that Stockade::Ledger can compare the ledger with the answers, order by
# order.
package Stockade::Sale;

use strict;
use warnings;

use HttpRaw ();
use JSON::PP ();
use Time::HiRes qw(time);

use Stockade ();

my $JSON         = JSON::PP->new;
my $COMPLAINTS   = 20;
my $CLIENTS      = 64;      # connections
my $MOST         = 7;       # units in an order
my $KEYS         = 0.25;    # share of orders with an idempotency key
my $CANCELS      = 0.1;     # share of orders that are cancelled, some of them twice
my $ORDERS_APART = 200;     # from an order to its cancel, at the most

# servers  clients are spread over them
# product, units   what is sold, and how many there are of it
# seed     the same one makes the customers want the same again
sub new {
    my ($class, %with) = @_;
    my $self = bless {
        %with,
        name      => sprintf('%x-%x', $$, 1000 * time),
        supplied  => $with{units},    # acknowledged
        returned  => 0,               # by cancels, acknowledged
        possible  => 0,               # bought, or on the way, or not known
        bought    => 0,               # acknowledged
        orders    => [undef],         # by user
        cancelled => [],              # users who want to cancel: [user, not before that user]
        plan      => [],
        complaints => [],
        statuses   => {},
    }, $class;
    srand $with{seed};
    $self->{agents} = [map { $self->_agent($_) } 0 .. $CLIENTS - 1];
    $self->{admin}  = $self->_agent(0);
    return $self;
}

# One connection, and the request ("deed") that is under way on it.
sub _agent {
    my ($self, $i) = @_;
    return { most => $MOST, server => $self->{servers}[$i % @{ $self->{servers} }] };
}

# What happens {at} so many units bought: a {request}, [method, path, body, key],
# whose answer has to be a 2xx; or something to {do} at once. Later steps wait for
# earlier ones.
sub plan {
    my ($self, %step) = @_;
    push @{ $self->{plan} }, {%step};
    return $self;
}

# The {request} that splits the product into so many segments.
sub resize {
    my ($self, $segments) = @_;
    return ['PATCH', "/api/products/$self->{product}", { segments => $segments }];
}

sub complaints { return $_[0]{complaints} }
sub statuses   { return $_[0]{statuses} }
sub supplied   { return $_[0]{supplied} }
sub bought     { return $_[0]{bought} }

# Who heard "not now", or nothing: the sale ends there.
sub not_now { return $_[0]{not_now} }

# The orders by user, from 1: {quantity, key, told, id, cancel}. told is 'yes' or 'no';
# cancel 'asked' or 'done'.
sub orders { return $_[0]{orders} }

sub acked {
    my ($self) = @_;
    return grep { defined && $_->{told} eq 'yes' } @{ $self->{orders} };
}

sub _complain {
    my ($self, $what) = @_;
    push @{ $self->{complaints} }, $what if @{ $self->{complaints} } < $COMPLAINTS;
    return;
}

# As a text, for a sale that does not end.
sub state {
    my ($self) = @_;
    my %deeds;
    $deeds{ $_->{deed} ? $_->{deed}{kind} : $_->{content} ? 'content' : 'between' }++ for @{ $self->{agents} };
    return join ', ', "bought $self->{bought} of $self->{supplied}", "returned $self->{returned}",
        'plan left ' . @{ $self->{plan} }, 'to cancel ' . @{ $self->{cancelled} },
        (map { "$_ $deeds{$_}" } sort keys %deeds),
        map { "$_: $self->{statuses}{$_}" } sort keys %{ $self->{statuses} };
}

# ---- the loop ---------------------------------------------------------------

# Until everybody has heard that it is sold out and nothing is planned any more:
# true. Or until {seconds} are over, or somebody hears "not now": false.
sub run {
    my ($self, %with) = @_;
    my $end = time + $with{seconds} * $Stockade::SLOW;
    my @all = (@{ $self->{agents} }, $self->{admin});
    local $SIG{PIPE} = 'IGNORE';
    while (!$self->_over) {
        return 0 if $self->{not_now} || time > $end;
        $self->_next_step;
        $self->_begin($_) for grep { !$_->{waits} } @all;
        $self->_hear(grep { $_->{waits} } @all);
    }
    return 1;
}

sub _over {
    my ($self) = @_;
    return 0 if @{ $self->{plan} } || @{ $self->{cancelled} } || $self->{admin}{deed};
    return !grep { $_->{deed} || !$self->_is_content($_) } @{ $self->{agents} };
}

# The customer was told that not one unit was left, and none has come since.
sub _is_content {
    my ($self, $agent) = @_;
    return ($agent->{content} || '') eq "$self->{supplied} $self->{returned}";
}

sub _hear {
    my ($self, @waiting) = @_;
    my $bits = '';
    vec($bits, fileno $_->{socket}, 1) = 1 for @waiting;
    return if !select $bits, undef, undef, 0.01;
    for my $agent (@waiting) {
        my $socket = $agent->{socket};
        $self->_read($agent) if vec($bits, fileno $socket, 1);
    }
    return;
}

sub _read {
    my ($self, $agent) = @_;
    my $got = sysread $agent->{socket}, $agent->{text}, 65536, length $agent->{text};
    return $self->_not_now($agent, 'no answer') if !$got;
    my $text  = $agent->{text};
    my $reply = HttpRaw::take_reply(\$agent->{text}) or return;
    $agent->{waits} = 0;
    $self->_answered($agent, $reply->{status}, $text);
    return;
}

# ---- one deed ---------------------------------------------------------------

sub _begin {
    my ($self, $agent) = @_;
    my $deed = $agent->{deed} ||= $agent == $self->{admin} ? undef : $self->_wish($agent);
    return if !$deed;
    $agent->{socket} ||= HttpRaw::connect_to($agent->{server}->port);
    $agent->{text}  = '';
    $agent->{waits} = 1;
    @$deed{qw(supplied returned)} = @$self{qw(supplied returned)};
    defined syswrite $agent->{socket}, $deed->{text} or $self->_not_now($agent, 'no connection');
    return;
}

# What a customer does next: cancel an order, or order.
sub _wish {
    my ($self, $agent) = @_;
    my $regret = $self->{cancelled}[0];
    my $content = $self->_is_content($agent);
    if ($regret && ($regret->[1] <= $#{ $self->{orders} } || $content)) {
        shift @{ $self->{cancelled} };
        return $self->_cancel($regret->[0]);
    }
    return if $content;
    $agent->{most} = $MOST if delete $agent->{content};
    return $self->_order($agent->{most});
}

sub _order {
    my ($self, $most) = @_;
    my $user  = @{ $self->{orders} };
    my $order = { user => $user, quantity => 1 + int rand $most, told => 'no' };
    $order->{key} = "$self->{name}-$user" if rand() < $KEYS;
    push @{ $self->{orders} }, $order;
    $self->{possible} += $order->{quantity};
    return {
        kind  => 'order',
        order => $order,
        text  => _text(
            'POST', '/api/orders',
            qq({"product_id":$self->{product},"user_id":$user,"quantity":$order->{quantity}}),
            $order->{key}
        ),
    };
}

sub _cancel {
    my ($self, $user) = @_;
    my $order = $self->{orders}[$user];
    $order->{cancel} ||= 'asked';
    return { kind => 'cancel', order => $order, text => _text('DELETE', "/api/orders/$order->{id}") };
}

sub _text {
    my ($method, $path, $body, $key) = @_;
    return "$method $path HTTP/1.1\r\nHost: localhost\r\n"
        . (defined $key  ? "Idempotency-Key: $key\r\n" : '')
        . (defined $body ? "Content-Type: application/json\r\nContent-Length: " . length($body) . "\r\n\r\n$body" : "\r\n");
}

sub _next_step {
    my ($self) = @_;
    my $admin = $self->{admin};
    my $step  = $self->{plan}[0];
    return if !$step || $admin->{deed};
    # A step that is planned for more units than there are comes at the end.
    return if $self->{bought} < $step->{at} && grep { !$self->_is_content($_) } @{ $self->{agents} };
    shift @{ $self->{plan} };
    $step->{do}->() if $step->{do};
    return if !$step->{request};
    my ($method, $path, $body, $key) = @{ $step->{request} };
    $admin->{server} = $self->{servers}[int rand @{ $self->{servers} }];
    delete $admin->{socket};
    $admin->{deed} = { kind => 'step', step => $step, text => _text($method, $path, $JSON->encode($body || {}), $key) };
    return;
}

# ---- how it went ------------------------------------------------------------

sub _answered {
    my ($self, $agent, $status, $text) = @_;
    return $self->_not_now($agent, $text) if $status == 503;
    my $deed = delete $agent->{deed};
    my ($slug) = $text =~ /"type": *"[^"]*?([a-z0-9-]+)"/;
    $self->{statuses}{ $status < 300 ? "$deed->{kind} $status" : "$deed->{kind} $status $slug" }++;
    if ($deed->{kind} eq 'order' && $status == 201) {
        $self->_bought($deed->{order}, $text);
    }
    elsif ($deed->{kind} eq 'order' && ($slug // '') eq 'sold-out') {
        $self->_sold_out($agent, $deed);
    }
    elsif ($status >= 300) {
        $self->_complain("$deed->{kind}: $status: $text");
    }
    elsif ($deed->{kind} eq 'cancel') {
        $self->_told_of_cancel($deed->{order}, $text);
    }
    elsif ($deed->{step}{supplies}) {
        $self->{supplied} += $deed->{step}{supplies};
    }
    return;
}

sub _not_now {
    my ($self, $agent, $text) = @_;
    $self->{not_now} = "$agent->{deed}{kind}: $text";
    return;
}

sub _bought {
    my ($self, $order, $text) = @_;
    my ($id)   = $text =~ /"id": *"([^"]+)"/;
    my ($says) = $text =~ /"quantity": *(\d+)/;
    $self->_complain("201 for $order->{quantity}, which says $says") if $says != $order->{quantity};
    @$order{qw(told id)} = ('yes', $id);
    $self->{bought} += $order->{quantity};
    if (rand() < $CANCELS) {
        my $times = rand() < 0.3 ? 2 : 1;
        my $when  = $#{ $self->{orders} } + int rand $ORDERS_APART;
        push @{ $self->{cancelled} }, [$order->{user}, $when] for 1 .. $times;
    }
    return;
}

# LEFT was there at every moment since the request, whatever the others got.
sub _sold_out {
    my ($self, $agent, $deed) = @_;
    my $wanted = $deed->{order}{quantity};
    $self->{possible} -= $wanted;
    my $left = $deed->{supplied} + $deed->{returned} - $self->{possible};
    $self->_complain("sold out, says $agent->{server}{port} to an order of $wanted, with $left left or more") if $left >= $wanted;
    if ($wanted > 1) {
        $agent->{most} = $wanted - 1;
    }
    else {
        $agent->{content} = "$deed->{supplied} $deed->{returned}";
    }
    return;
}

sub _told_of_cancel {
    my ($self, $order, $text) = @_;
    $self->_complain("cancelled, and says $text") if $text !~ /"state": *"cancelled"/;
    $self->{returned} += $order->{quantity} if $order->{cancel} ne 'done';
    $order->{cancel} = 'done';
    return;
}

1;
