# What the customers were told, try by try: [time, host, key, status, id or reason].
# A status that is no number says that there was no answer.
package Hosts::Told;

use strict;
use warnings;

use Stockade ();

sub new {
    my ($class, $path) = @_;
    return bless { tries => [map { [split / /] } split /\n/, Stockade::slurp($path)] }, $class;
}

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

1;
