# What was promised, held against what was measured. Each goal is a ratio of
# two measurements of the same rounds, for an absolute figure belongs to one
# machine and one hour. Who was wrong in one of the rounds has reached nothing:
# what was left of a figure may be luck.
package Bench::Goals;

use strict;
use warnings;

use JSON::PP ();

use Bench::Machine;
use Bench::Stats;

# [what, section, how it is measured, 'least' or 'most', bound, cell [, other cell]]
my @GOALS = (
    nginx_ratio('orders, 16 connections',  connections => 0.25, 16),
    nginx_ratio('orders, 64 connections',  connections => 0.60, 64),
    nginx_ratio('orders, 256 connections', connections => 0.75, 256),
    nginx_ratio('with limit and key, 64 connections',  limits => 0.40, 64),
    nginx_ratio('with limit and key, 256 connections', limits => 0.50, 256),
    nginx_ratio('refusals, 64 connections',  refusals => 1.0, 64),
    nginx_ratio('refusals, 256 connections', refusals => 1.0, 256),
    ['p99, 64 connections', 'connections', 'p99_ratio', most => 12, { who => 'combine', connections => 64 }],
    against('direct-fenced', 64),
    against('direct-fenced', 256),
    many_orders('plain', 'same'),
    many_orders('limit and key', 'keys'),
    ['1000 products to 1', 'products', 'between', least => 0.8,
        { who => 'combine', products => 1000 }, { who => 'combine', products => 1 }],
    to_best(1),
    to_best(64),
    to_best(1000),
    ['the smaller share of two instances', 'instances', 'share_min', least => 1 / 3, { who => 'combine' }],
);

sub nginx_ratio {
    my ($what, $section, $bound, $connections) = @_;
    return ["$what, to nginx", $section, 'ratio', least => $bound, { who => 'combine', connections => $connections }];
}

sub against {
    my ($who, $connections) = @_;
    return ["combine to $who, $connections connections", 'connections', 'between', least => 25,
        { who => 'combine', connections => $connections }, { who => $who, connections => $connections }];
}

# What is chosen without being told holds its own against any that is told.
sub to_best {
    my ($connections) = @_;
    my %load = (connections => $connections, instances => 1);
    return ["its choices to the best others, c=$connections", 'choices', 'to_best', least => 0.9,
        { who => 'combine', %load }, { who => 'overruled', %load }];
}

sub many_orders {
    my ($what, $load) = @_;
    return ["10 million orders to none, $what", 'table', 'between', least => 0.7,
        { who => 'combine', load => $load, rows => 10_000_000 }, { who => 'combine', load => $load, rows => 0 }];
}

# How a goal is measured that compares two cells; others are figures of a row.
my %COMPARED = (between => \&Bench::Stats::ratio_of, to_best => \&ratio_to_best);

# And those whose other cell is the yardstick.
my %TO_YARDSTICK = map { $_ => 1 } qw(ratio p99_ratio);

# Of the ratios to all choices there are in place of OTHER, the least.
sub ratio_to_best {
    my ($cells, $cell, $other) = @_;
    my %choices = map { $_->{choice} => 1 } grep { Bench::Stats::matches($_, $other) } @$cells;
    my @ratios  = grep { defined } map { Bench::Stats::ratio_of($cells, $cell, { %$other, choice => $_ }) } keys %choices;
    return (sort { $a->[0] <=> $b->[0] } @ratios)[0];
}

# One hash a goal whose section was measured; see verdict().
sub judge {
    my ($cells, $rows) = @_;
    my %measured = map { $_->{section} => 1 } @$cells;
    return map { judge_one($_, $cells, $rows) } grep { $measured{ $_->[1] } } @GOALS;
}

sub judge_one {
    my ($goal, $cells, $rows) = @_;
    my ($what, $section, $how, $sense, $bound, $cell, $other) = @$goal;
    $_ = { %$_, section => $section } for grep { defined } $cell, $other;
    my ($row) = grep { Bench::Stats::fits($_, $cell) } @$rows;
    my $got = $COMPARED{$how} ? $COMPARED{$how}->($cells, $cell, $other) : $row && $row->{$how};
    my %judged = (goal => $what, verdict($sense, $bound, $got, used(@_)));
    $judged{in_the_way} = in_the_way($row) if $row && $got && !holds($sense, $bound, $got);
    return \%judged;
}

# All measurements that a goal is judged by, also the wrong ones.
sub used {
    my ($goal, $cells) = @_;
    my (undef, $section, $how, undef, undef, @wanted) = @$goal;
    my @used = grep { my $cell = $_; grep { Bench::Stats::fits($cell, { %$_, section => $section }) } @wanted } @$cells;
    return @used if !$TO_YARDSTICK{$how};
    return @used, grep { my $cell = $_; grep { Bench::Stats::is_yardstick_of($cell, $_) } @used } @$cells;
}

# For GOT, of the cells USED: SENSE => bound; measured; reached, unless nothing
# was measured; good => [how many, of how many], if some were wrong.
sub verdict {
    my ($sense, $bound, $got, @used) = @_;
    my $good    = grep { !$_->{wrong} } @used;
    my %verdict = ($sense => $bound, measured => $got);
    $verdict{good} = [$good, scalar @used] if $good < @used;
    $verdict{reached} = !$verdict{good} && holds($sense, $bound, $got) ? JSON::PP::true() : JSON::PP::false() if $got;
    return %verdict;
}

sub holds {
    my ($sense, $bound, $got) = @_;
    return $sense eq 'least' ? $got->[0] >= $bound : $got->[0] <= $bound;
}

# What its CPU tells: all cores busy, or somebody waits.
sub in_the_way {
    my ($row) = @_;
    my %cores = map { $_ => $row->{cpu}{$_} ? $row->{cpu}{$_}[0] : 0 } qw(wrk server redis others all);
    return sprintf '%s: %.2f of %d cores are busy (wrk %.2f, server %.2f, Redis %.2f, others %.2f); '
        . 'the server takes %.1f us of CPU an answer, in batches of %.0f',
        $cores{all} > 0.9 * Bench::Machine::cores() ? 'CPU' : 'waiting, for the disk or another thread',
        $cores{all}, Bench::Machine::cores(), @cores{qw(wrk server redis others)}, $row->{server_us}[0], $row->{batch} ? $row->{batch}[0] : 0;
}

1;
