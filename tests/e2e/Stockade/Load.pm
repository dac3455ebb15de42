# Customers: forked clients that order as fast as they get answers, and write each
# answer down the moment they read it.
#
#     my $load = Stockade::Load->start(servers => [$server], product => 1);
#     $load->wait_for(100, 10);      # until 100 orders were acknowledged
#     $server->kill9;
#     my $told = $load->finish;
#     # {acked => [ids], file => PATH of these, status => {201 => 93}, last => [...]}
#
# last: of each client the last acknowledged order, [product, user, quantity, key,
# id]. ask() and volley() are for a handful of orders, without forking.
package Stockade::Load;

use strict;
use warnings;

use HttpRaw  ();
use JSON::PP ();

use Stockade::Child ();

# servers  clients are spread over them
# clients  how many processes; default 8
# product  what they buy, one unit at a time, each order another user's
# name     makes idempotency keys differ between loads; default: process id
# keyless  true: orders have no idempotency keys
# buy      all that a client does, till the load is {over}: called with it, the client's
#          number and its server
sub start {
    my ($class, %with) = @_;
    my $self = bless { dir => Stockade::tempdir(), name => $$, buy => \&_buy, %with }, $class;
    for my $i (1 .. $with{clients} || 8) {
        push @{ $self->{children} }, Stockade::Child->copy(sub {
            local $SIG{TERM} = sub { $self->{over} = 1 };
            open $self->{notes}, '>>', "$self->{dir}/client.$i" or die "client.$i: $!";
            my $server = $with{servers}[$i % @{ $with{servers} }];
            $server->{http} = undef;    # a connection of its own
            $self->{buy}->($self, $i, $server);
        });
    }
    return $self;
}

sub _buy {
    my ($self, $i, $server) = @_;
    for (my $n = 1; !$self->{over}; $n++) {
        my @order = ($self->{product}, $i * 1_000_000 + $n, 1, "$self->{name}-$i-$n");
        my $reply = $server->order(@order[0 .. ($self->{keyless} ? 2 : 3)]);
        my $told = ref $reply->{body} eq 'HASH' ? $reply->{body} : {};
        my $id   = $told->{may_have_ordered} ? '?' : $told->{id} || '-';
        $self->note($reply->{status}, @order, $id);
        last if $reply->{status} == 599;
    }
    return;
}

# A client writes down: status, product, user, quantity, key, id ("?" if it may have been
# ordered, "-" if it was not); and more if it likes.
sub note {
    my ($self, @fields) = @_;
    syswrite $self->{notes}, "@fields\n";
    return;
}

# A list for each client: what it has written down.
sub notes {
    my ($self) = @_;
    return map { [map { [split / /] } split /\n/, Stockade::slurp($_)] } glob "$self->{dir}/client.*";
}

# Until N orders were acknowledged, or SECONDS are over: then false.
sub wait_for {
    my ($self, $n, $seconds) = @_;
    return Stockade::eventually($seconds, sub { $n <= grep { $_->[0] eq '201' } map { @$_ } $self->notes });
}

# Lets each client finish the request it is in, and tells what they were told.
sub finish {
    my ($self) = @_;
    $_->signal('TERM') for @{ $self->{children} };
    $_->wait for @{ $self->{children} };
    my (%status, @acked, @last);
    for my $notes ($self->notes) {
        my @yes = grep { $_->[0] eq '201' } @$notes;
        $status{ $_->[0] }++ for @$notes;
        push @acked, map { $_->[5] } @yes;
        push @last, [@{ $yes[-1] }[1 .. 5]] if @yes;
    }
    my $path = Stockade::write_file("$self->{dir}/acked", join '', map { "$_\n" } @acked);
    return { acked => \@acked, file => $path, status => \%status, last => \@last };
}

# Sends an order on a connection of its own. What it returns waits for the reply, when
# it is called: [status, body].
sub ask {
    my ($server, $product, $user, $quantity, $key) = @_;
    my $socket = HttpRaw::connect_to($server->port);
    HttpRaw::put($socket, HttpRaw::order_bytes($user, $key, $product, $quantity));
    return sub {
        my $reply = HttpRaw::read_replies($socket, 1, 120)->{replies}[0] or return [599];
        return [$reply->{status}, eval { JSON::PP::decode_json($reply->{body}) }];
    };
}

# Sends all orders, each [server, product, user, quantity, key], before it reads the
# first reply.
sub volley {
    my @asked = map { ask(@$_) } @_;
    return map { $_->() } @asked;
}

1;
