# A primary with two replicas, and three sentinels that watch them: on ports of
# 127.0.0.1, since sentinels know no Unix sockets.
#
#     my $set = Stockade::Sentinels->start(args => ['--min-replicas-to-write', 1]);
#     Stockade->start(redis => $set->url);
#     $set->primary->kill9;
#     $set->await_switch;
package Stockade::Sentinels;

use strict;
use warnings;

use Time::HiRes qw(time);

use Stockade        ();
use Stockade::Redis ();

# A machine that is busy for a moment is not dead.
my $DOWN_AFTER_MS = 2000;

# args  further settings of the redis-servers
sub start {
    my ($class, %with) = @_;
    my $self = bless { %with, servers => [] }, $class;
    push @{ $self->{servers} }, $self->_server for 1 .. 3;
    $self->{primary} = $self->{servers}[0];
    # Sentinels that start before the replicas are in line take long to agree.
    $self->{sentinels} = [map { $self->_sentinel } 1 .. 3];
    Stockade::eventually(30, sub { !grep { !_knows_all($_) } @{ $self->{sentinels} } }) or die "the sentinels do not agree\n";
    return $self;
}

sub _server {
    my ($self) = @_;
    my $first  = $self->{servers}[0];
    my $server = Stockade::Redis->start(
        port => 1,
        args => [
            '--repl-diskless-sync-delay', 0, $first ? ('--replicaof', "127.0.0.1 $first->{port}") : (),
            @{ $self->{args} || [] },
        ],
    );
    Stockade::eventually(30, sub { $server->command('INFO', 'replication') =~ /^master_link_status:up/m }) or die "no replica\n" if $first;
    return $server;
}

sub _sentinel {
    my ($self) = @_;
    my $dir  = Stockade::tempdir();
    my $down = int $DOWN_AFTER_MS * $Stockade::SLOW;
    Stockade::write_file("$dir/sentinel.conf", "sentinel monitor main 127.0.0.1 $self->{primary}{port} 2\n"
            . "sentinel down-after-milliseconds main $down\nsentinel failover-timeout main 2000\n");
    return Stockade::Redis->start(port => 1, dir => $dir, sentinel => 1);
}

sub _fields { return @{ $_[0]->command('SENTINEL', 'MASTER', 'main') } }

sub _knows_all {
    my ($sentinel) = @_;
    my %knows = _fields($sentinel);
    return $knows{'num-slaves'} == 2 && $knows{'num-other-sentinels'} == 2;
}

sub sentinels { return @{ $_[0]{sentinels} } }
sub servers   { return @{ $_[0]{servers} } }
sub primary   { return $_[0]{primary} }

sub url { return 'sentinel://' . join(',', map { "127.0.0.1:$_->{port}" } $_[0]->sentinels) . '/main' }

# Waits until one of the sentinels names another primary. Returns when that was.
sub await_switch {
    my ($self) = @_;
    my $was = $self->{primary}{port};
    my $now;
    Stockade::eventually(60, sub { ($now) = grep { $_ != $was } map { +{ _fields($_) }->{port} } $self->sentinels })
        or die "no other primary\n";
    my $at = time;
    ($self->{primary}) = grep { $_->{port} == $now } @{ $self->{servers} };
    return $at;
}

# Waits until the primary takes writes: it has a replica, and all sentinels know it.
sub await_steady {
    my ($self) = @_;
    my $port = $self->{primary}{port};
    return Stockade::eventually(
        60,
        sub {
            $self->{primary}->command('INFO', 'replication') =~ /^slave\d+:.*state=online/m
                && !grep { +{ _fields($_) }->{port} != $port } $self->sentinels;
        }
    );
}

1;
