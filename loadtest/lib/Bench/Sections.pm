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
    [choices     => 'what the lane chooses, and what if not',  \&choices],
    [instances   => 'two instances, one database',             \&instances],
);

my @PRODUCTS    = (1, 10, 100, 1000);

# What the lane chooses by itself, overruled one at a time; tests/bench/overrule.c
# does it. Those of a second instance matter only where there is one.
my @CHOICES = (
    ['one by one',    BENCH_BATCH_MAX => 1],
    ['batches of 8',  BENCH_BATCH_MAX => 8],
    ['batches of 64', BENCH_BATCH_MAX => 64],
    ['linger 1 ms',   BENCH_LINGER_US => 1000],
);
my @KEEPING = (
    ['keep nothing', BENCH_GAP_US => 1_000_000],
    ['keep 100 ms',  BENCH_GAP_US => 100_000],
);
my @GIVING_UP = (
    ['deaf',  BENCH_DEAF  => 1],
    ['pushy', BENCH_PUSHY => 1],
);
my $SELDOM = 50; # orders a second: a lock is kept between two, or not

sub names { return map { $_->[0] } @SECTIONS }

sub title { my ($name) = @_; return (map { $_->[1] } grep { $_->[0] eq $name } @SECTIONS)[0] }

# settings: connections [..], curve [..], choices [..], who [..], orders [..],
# preloaded {orders => path}. Others of the same load and round are compared to
# the cell that has `yardstick`.
sub cells {
    my ($name, $settings) = @_;
    my ($section) = grep { $_->[0] eq $name } @SECTIONS;
    my %who = map { $_ => 1 } @{ $settings->{who} };
    return map { { section => $name, $_->{who} eq 'nginx' ? (yardstick => 1) : (), %$_ } } grep { $who{ $_->{who} } } $section->[2]->($settings);
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

sub batches {
    my ($settings) = @_;
    return map { same($_, qw(nginx combine)) } @{ $settings->{curve} };
}

sub choices {
    my ($settings) = @_;
    my @crowds = map { overruled({ connections => $_, instances => 1 }, @CHOICES, @KEEPING) } @{ $settings->{choices} };
    my $seldom = { connections => 16, rate => $SELDOM, instances => 1 };
    return (@crowds, overruled($seldom, @KEEPING), overruled({ connections => 64, instances => 2 }, @GIVING_UP));
}

# As it sells, and with each of these choices made differently.
sub overruled {
    my ($load, @choices) = @_;
    return ({ who => 'combine', yardstick => 1, load => 'same', %$load },
        map { my ($choice, %env) = @$_; { who => 'overruled', choice => $choice, env => \%env, load => 'same', %$load } } @choices);
}

sub instances {
    return { who => 'combine', load => 'same', connections => 64, instances => 2 };
}

1;
