# What a bench consists of: for each section, the cases of one round, in the
# order in which they are measured. Cases that are compared to each other are
# measured within moments.
package Bench::Sections;

use strict;
use warnings;

# name => [title, settings -> cases of one round, settings of its own if it is the only one]
my @SECTIONS = (
    [connections => 'one product',                            \&connections],
    [limits      => 'purchase limit and idempotency key',      \&limits],
    [idle        => 'one product, 200 idle connections besides', \&idle],
    [products    => 'many products, 64 connections',           \&products],
    [table       => 'orders already in the table, 64 connections', \&table],
    [refusals    => 'refusals of a sold-out product',          \&refusals],
    [batches     => 'batch size and latency',                  \&batches],
    [instances   => 'two instances, one database',             \&instances],
    [viewers     => 'ten customers watch the page',           \&viewers],
    [timeline    => 'with a timeline of every step',           \&timeline],
    # Those that are not measured unless they are asked for.
    [open     => 'orders at a constant rate, shares of the most', \&open_load,
        { ROUNDS => 3, SECONDS => 5, CONNECTIONS => 256, WHO => 'batched' }],
    [segments => 'the stock split over segments, so many orders at a time', \&segments, { ROUNDS => 3, CONNECTIONS => 128 }],
    [mysql    => 'MariaDB, next to SQLite',                    \&mysql, { ROUNDS => 3, SECONDS => 4, CONNECTIONS => 64 }],
    [cluster  => 'a Galera cluster, whose nodes share this machine', \&cluster,
        { ROUNDS => 3, SECONDS => 3, CONNECTIONS => 64, PRODUCTS => 1000, SEGMENTS => '1,4,16', WHO => 'batched,unlocked' }],
);

# Where an earlier version is measured as well: not in tables of this version's schema.
my %WITH_BEFORE = map { $_ => 1 } qw(connections limits idle products refusals instances);

sub names { return map { $_->[0] } @SECTIONS }

# Those that are measured unless others are asked for.
sub usual { return map { $_->[3] ? () : $_->[0] } @SECTIONS }

# By default, where only NAME is measured.
sub preset { my ($name) = @_; return map { $_->[0] eq $name ? %{ $_->[3] || {} } : () } @SECTIONS }

sub title { my ($name) = @_; return (map { $_->[1] } grep { $_->[0] eq $name } @SECTIONS)[0] }

# settings: connections, curve, products, rows, segments, think, shares,
# instances and who, each [..]; rate; preloaded {rows => path}; before. Others of the
# same load and round are compared to the case that has `yardstick`.
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

sub instances {
    return { who => 'batched', load => 'same', connections => 64, instances => 2 };
}

sub viewers {
    return (same(64, 'batched'), { %{ (same(64, 'with-viewers'))[0] }, viewers => 10 });
}

sub timeline { return same(64, qw(batched with-timeline)) }

sub open_load {
    my ($settings) = @_;
    my ($who, $connections) = map { $settings->{$_}[0] } qw(who connections);
    return map { { who => $who, load => 'same', connections => $connections, share => $_, rate => int($settings->{rate} * $_ / 100) || 1 } }
        @{ $settings->{shares} };
}

# As many workers as connections. Nobody gives up: with one segment, the last order
# waits for all the others.
sub segments {
    my ($settings) = @_;
    my $workers = $settings->{connections}[0];
    my @cases;
    for my $who (qw(one-by-one-fenced batched)) {
        for my $think (@{ $settings->{think} }) {
            my $patience = 10_000 + 4 * $workers * ($think + 5);
            my @flags = (
                '--workers', $workers, '--think-ms', $think,
                '--lock-wait-ms', $patience < 60_000 ? $patience : 60_000, '--request-deadline-ms', 120_000,
            );
            push @cases, map {
                {
                    who => $who, load => 'same', connections => $workers, think_ms => 0 + $think, segments => 0 + $_, flags => \@flags,
                    beside => "$who $think", yardstick => $_ == 1,
                }
            } @{ $settings->{segments} };
        }
    }
    return @cases;
}

sub mysql {
    my ($settings) = @_;
    my %load = (load => 'keys', connections => $settings->{connections}[0], beside => 'mysql');
    return (
        (map { { %load, who => $_, kind => 'mariadb', nodes => 1 } } qw(batched one-by-one-fenced)),
        { %load, who => 'batched', kind => 'sqlite', yardstick => 1 },
    );
}

# One hot product, its stock split over segments, and many products; of several
# instances under the lock these once more, each instance sent products of its own; and
# what is sold out. The first is what the others are compared to.
sub cluster {
    my ($settings) = @_;
    my @stocks = map { { kind => '', load => 'same', products => 1, segments => 0 + $_ } } @{ $settings->{segments} };
    push @stocks, map { { kind => '', load => 'spread', products => $_, segments => 1 } } grep { $_ } @{ $settings->{products} };
    my @all = map { { %$_, who => 'batched' } } @stocks, { kind => 'sold out', load => 'same', products => 1, segments => 1, sold_out => 1 };
    push @all, map { { %$_, who => 'unlocked' } } @stocks;
    my @cases = map {
        my $stock = $_;
        map {
            my %case = (%$stock, nodes => 3, beside => 'cluster', instances => 0 + $_, connections => $settings->{connections}[0]);
            $_ > 1 && $case{who} eq 'batched' && $case{load} eq 'spread' ? (\%case, { %case, kind => 'apart', apart => 1 }) : \%case
        } @{ $settings->{instances} }
    } @all;
    $cases[0]{yardstick} = 1;
    return @cases;
}

1;
