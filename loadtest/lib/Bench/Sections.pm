# What a bench consists of: for each section, the cells of one round, in the
# order in which they are measured. Rounds of a section follow each other, so
# that what is compared was measured within moments.
package Bench::Sections;

use strict;
use warnings;

# name => [title, settings -> cells of one round]
my @SECTIONS = (
    [connections => 'one product',                            \&connections],
    [limits      => 'purchase limit and idempotency key',      \&limits],
    [products    => 'many products, 64 connections',           \&products],
    [table       => 'orders already in the table, 64 connections', \&table],
    [refusals    => 'refusals of a sold-out product',          \&refusals],
    [batches     => 'batch size and latency',                  \&batches],
    [instances   => 'two instances, one database',             \&instances],
);

my @PRODUCTS    = (1, 10, 100, 1000);
my @BATCH_CURVE = (1, 4, 16, 64, 128, 256, 512);

sub names { return map { $_->[0] } @SECTIONS }

sub title { my ($name) = @_; return (map { $_->[1] } grep { $_->[0] eq $name } @SECTIONS)[0] }

# settings: connections [..], who [..], orders [..], preloaded {orders => path}
sub cells {
    my ($name, $settings) = @_;
    my ($section) = grep { $_->[0] eq $name } @SECTIONS;
    my %who = map { $_ => 1 } @{ $settings->{who} };
    return map { { section => $name, %$_ } } grep { $who{ $_->{who} } } $section->[2]->($settings);
}

sub connections {
    my ($settings) = @_;
    return map { same($_, qw(nginx null direct-lua direct-fenced combine)) } @{ $settings->{connections} };
}

sub same {
    my ($connections, @who) = @_;
    return map { { who => $_, load => 'same', connections => $connections } } @who;
}

sub limits {
    my ($settings) = @_;
    return map { my $who = $_; map { { who => $who, load => 'keys', connections => $_ } } @{ $settings->{connections} } }
        qw(nginx combine);
}

sub products {
    my @ours = map { { who => 'combine', load => 'spread', connections => 64, products => $_ } } @PRODUCTS;
    return ({ who => 'nginx', load => 'spread', connections => 64, products => $PRODUCTS[-1] }, @ours);
}

sub table {
    my ($settings) = @_;
    my @cells;
    for my $load (qw(same keys)) {
        push @cells, { who => 'nginx', load => $load, connections => 64 };
        push @cells, map {
            { who => 'combine', load => $load, connections => 64, products => 0, rows => $_, db => $settings->{preloaded}{$_} }
        } @{ $settings->{orders} };
    }
    return @cells;
}

sub refusals {
    my ($settings) = @_;
    return map { (same($_, 'nginx'), { %{ (same($_, 'combine'))[0] }, sold_out => 1 }) } @{ $settings->{connections} };
}

sub batches { return map { same($_, 'combine') } @BATCH_CURVE }

sub instances {
    return { who => 'combine', load => 'same', connections => 64, instances => 2 };
}

1;
