# A Redis Cluster: three primaries on ports of 127.0.0.1, made by redis-cli.
#
#     my $cluster = Stockade::Cluster->start;
#     Stockade->start(redis => $cluster->url);
#     $cluster->move('lock:{40:0}');
package Stockade::Cluster;

use strict;
use warnings;

use Stockade        ();
use Stockade::Redis ();

sub start {
    my ($class) = @_;
    my $self = bless {}, $class;
    $self->{nodes} = [map { _node() } 1 .. 3];
    my @places = map { "127.0.0.1:$_->{port}" } $self->nodes;
    my $said = `redis-cli --cluster create @places --cluster-yes 2>&1`;
    die "redis-cli makes no cluster:\n$said" if $? != 0;
    $_->{id} = $_->command('CLUSTER', 'MYID') for $self->nodes;
    for my $node ($self->nodes) {
        Stockade::eventually(30, sub { $node->command('CLUSTER', 'INFO') =~ /^cluster_state:ok/m }) or die "the cluster is not up\n";
    }
    return $self;
}

# The bus has a port of its own: the usual one, of the port and 10000, may be too high.
sub _node {
    return Stockade::Redis->start(
        port => 1,
        args => ['--cluster-enabled', 'yes', '--cluster-port', Stockade::free_port(), '--cluster-node-timeout', 60_000],
    );
}

sub nodes { return @{ $_[0]{nodes} } }

sub url { return 'cluster://' . join ',', map { "127.0.0.1:$_->{port}" } $_[0]->nodes }

sub _epoch { return $_[0]->command('CLUSTER', 'INFO') =~ /^cluster_current_epoch:(\d+)/m ? $1 : -1 }

# The node that has KEY's slot now.
sub owner {
    my ($self, $key) = @_;
    my ($owner) = grep { defined eval { $_->command('EXISTS', $key) } } $self->nodes;
    return $owner // die "nobody has $key\n";
}

# KEY's slot moves to the next node, with all that is in it, as by redis-cli
# --cluster reshard.
sub move {
    my ($self, $key) = @_;
    my $from  = $self->owner($key);
    my @nodes = $self->nodes;
    my ($at)  = grep { $nodes[$_] == $from } 0 .. $#nodes;
    my $to    = $nodes[($at + 1) % @nodes];
    my $slot  = $from->command('CLUSTER', 'KEYSLOT', $key);
    $to->command('CLUSTER', 'SETSLOT', $slot, 'IMPORTING', $from->{id});
    $from->command('CLUSTER', 'SETSLOT', $slot, 'MIGRATING', $to->{id});
    while (my @keys = @{ $from->command('CLUSTER', 'GETKEYSINSLOT', $slot, 10) }) {
        $from->command('MIGRATE', '127.0.0.1', $to->{port}, '', 0, 10_000, 'KEYS', @keys);
    }
    $_->command('CLUSTER', 'SETSLOT', $slot, 'NODE', $to->{id}) for $to, $from, grep { $_ != $to && $_ != $from } @nodes;
    # Two moves with the same epoch would be two opinions of who has a slot.
    my $epoch = _epoch($to);
    Stockade::eventually(30, sub { !grep { _epoch($_) != $epoch } @nodes }) or die "the nodes do not agree\n";
    return;
}

sub stop {
    my ($self) = @_;
    $_->stop for $self->nodes;
    return;
}

1;
