# What a bench consists of: for each section, the cases of one round, in the
# order in which they are measured. Cases that are compared to each other are
# measured within moments.
package Bench::Sections;

use strict;
use warnings;

# name => [title, settings -> cases of one round]
my @SECTIONS = (
    [connections => 'one product',                            \&connections],
    [limits      => 'purchase limit and idempotency key',      \&limits],
    [idle        => 'one product, 200 idle connections besides', \&idle],
    [products    => 'many products, 64 connections',           \&products],
    [table       => 'orders already in the table, 64 connections', \&table],
    [refusals    => 'refusals of a sold-out product',          \&refusals],
    [batches     => 'batch size and latency',                  \&batches],
    [choices     => 'what the dispatcher chooses, overruled',  \&choices],
    [instances   => 'two instances, one database',             \&instances],
    [viewers     => 'ten customers watch the page',           \&viewers],
    [timeline    => 'with a timeline of every step',           \&timeline],
);

# Where an earlier version is measured as well: not in tables of this version's
# schema, nor in what the linker does to this version.
my %WITH_BEFORE = map { $_ => 1 } qw(connections limits idle products refusals instances);

# What the dispatcher chooses, overruled one at a time; tests/bench/overrule.c
# does it.
my @CHOICES = (
    ['batches of 1',  BENCH_BATCH_MAX => 1],
    ['batches of 8',  BENCH_BATCH_MAX => 8],
    ['batches of 64', BENCH_BATCH_MAX => 64],
    ['linger 1 ms',   BENCH_LINGER_US => 1000],
);
my @KEEPING = (
    ['keep nothing', BENCH_GAP_US => 1_000_000],
    ['keep 100 ms',  BENCH_GAP_US => 100_000],
);
my $SELDOM = 50; # orders a second: a lock is kept between two, or not

sub names { return map { $_->[0] } @SECTIONS }

sub title { my ($name) = @_; return (map { $_->[1] } grep { $_->[0] eq $name } @SECTIONS)[0] }

# settings: connections, curve, choices, products, rows and who, each [..];
# preloaded {rows => path}; before. Others of the same load and round are compared
# to the case that has `yardstick`.
sub cases {
    my ($name, $settings) = @_;
    my ($section) = grep { $_->[0] eq $name } @SECTIONS;
    my %who   = map { $_ => 1 } @{ $settings->{who} };
    my @cases = grep { $who{ $_->{who} } } $section->[2]->($settings);
    @cases = map { $_->{who} eq 'batched' ? ($_, { %$_, who => 'before' }) : $_ } @cases
        if $settings->{before} && $WITH_BEFORE{$name};
    return map { { section => $name, $_->{who} eq 'nginx' ? (yardstick => 1) : (), %$_ } } @cases;
}

sub connections {
    my ($settings) = @_;
    return map { same($_, qw(nginx null one-by-one-lua one-by-one-fenced batched)) } @{ $settings->{connections} };
}

sub same {
    my ($connections, @who) = @_;
    return map { { who => $_, load => 'same', connections => $connections } } @who;
}

sub limits {
    my ($settings) = @_;
    return map { my $who = $_; map { { who => $who, load => 'keys', connections => $_ } } @{ $settings->{connections} } }
        qw(nginx lua-on-redis batched);
}

sub idle {
    return map { { %$_, idle => 200 } } map { same($_, qw(nginx batched)) } 16, 64;
}

sub products {
    my ($settings) = @_;
    my @products = @{ $settings->{products} };
    my @ours     = map { { who => 'batched', load => 'spread', connections => 64, products => $_ } } @products;
    return ({ who => 'nginx', load => 'spread', connections => 64, products => $products[-1] }, @ours);
}

sub table {
    my ($settings) = @_;
    my @cases;
    for my $load (qw(same keys)) {
        push @cases, { who => 'nginx', load => $load, connections => 64 };
        push @cases, map {
            { who => 'batched', load => $load, connections => 64, products => 0, rows => $_, db => $settings->{preloaded}{$_} }
        } @{ $settings->{rows} };
    }
    return @cases;
}

sub refusals {
    my ($settings) = @_;
    return map { (same($_, 'nginx'), { %{ (same($_, 'batched'))[0] }, sold_out => 1 }) } @{ $settings->{connections} };
}

sub batches {
    my ($settings) = @_;
    return map { same($_, qw(nginx batched)) } @{ $settings->{curve} };
}

sub choices {
    my ($settings) = @_;
    my @crowds = map { overruled({ connections => $_, instances => 1 }, @CHOICES, @KEEPING) } @{ $settings->{choices} };
    my $seldom = { connections => 16, rate => $SELDOM, instances => 1 };
    return (@crowds, overruled($seldom, @KEEPING));
}

# As it is, and with each of these choices made differently.
sub overruled {
    my ($load, @choices) = @_;
    return ({ who => 'batched', yardstick => 1, load => 'same', %$load },
        map { my ($choice, %env) = @$_; { who => 'overruled', choice => $choice, env => \%env, load => 'same', %$load } } @choices);
}

sub instances {
    return { who => 'batched', load => 'same', connections => 64, instances => 2 };
}

sub viewers {
    return (same(64, 'batched'), { %{ (same(64, 'with-viewers'))[0] }, viewers => 10 });
}

sub timeline { return same(64, qw(batched with-timeline)) }

1;
