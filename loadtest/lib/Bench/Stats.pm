# Medians and spreads over the rounds of cases that measured the same, and their
# ratios to another case of the same round: the two were measured within moments,
# so that a machine which gets slower in an hour does not matter.
package Bench::Stats;

use strict;
use warnings;

use List::Util qw(min sum);

my @LOAD   = qw(section load connections idle rate share products rows instances kind segments think_ms sold_out);
my @SAME   = (@LOAD, 'who');
my @BESIDE = qw(section round load connections idle rate instances);
my @FIGURES = qw(per_s p50_ms p90_ms p99_ms p999_ms max_ms send_delay_p99_ms refused broken batch locks commit_ms
    per_commit asked retried conflicts);

# [median, min, max], or undef of nothing: a value, where a list is asked for.
sub spread {
    my @sorted = sort { $a <=> $b } grep { defined } @_;
    return undef if !@sorted;
    my $mid = int(@sorted / 2);
    my $median = @sorted % 2 ? $sorted[$mid] : ($sorted[$mid - 1] + $sorted[$mid]) / 2;
    return [$median, $sorted[0], $sorted[-1]];
}

# What it has in common with its yardstick: `beside`, if it says so.
sub beside { my ($case) = @_; return key_of($case, defined $case->{beside} ? qw(section round beside) : @BESIDE) }

sub key_of { my ($case, @names) = @_; return join '|', map { defined $case->{$_} ? $case->{$_} : '' } @names }

# Rows, one for each group of cases, in the order of their first cases. A case that
# is wrong is in `wrong` and in no figure.
sub rows {
    my (@cases) = @_;
    my (%group, @order);
    for my $case (@cases) {
        my $key = key_of($case, @SAME);
        push @order, $key if !$group{$key};
        push @{ $group{$key} }, $case;
    }
    my @good      = grep { !$_->{wrong} } @cases;
    my %yardstick = map { beside($_) => $_ } grep { $_->{yardstick} } @good;
    my @rows      = map { row(\%yardstick, @{ $group{$_} }) } @order;
    for my $row (grep { $_->{who} eq 'batched' } @rows) {
        my @both = map { same_load($row, $_) } qw(batched before);
        my %to   = map { $_ => ratio_of(\@cases, @both, $_) } qw(per_s p99_ms);
        $row->{to_before} = \%to if $to{per_s};
    }
    return @rows;
}

# Cases of that load, by WHO.
sub same_load {
    my ($row, $who) = @_;
    return { who => $who, map { defined $row->{$_} ? ($_ => $row->{$_}) : () } @LOAD };
}

# Whether B is what A's ratio is to.
sub is_yardstick_of {
    my ($b, $a) = @_;
    return $b->{yardstick} && beside($b) eq beside($a);
}

sub row {
    my ($yardstick, @cases) = @_;
    my %row  = map { defined $cases[0]{$_} ? ($_ => $cases[0]{$_}) : () } @SAME;
    my @good = grep { !$_->{wrong} } @cases;
    @row{qw(rounds of)} = (scalar @good, scalar @cases);
    $row{wrong}  = [map { @{ $_->{wrong} || [] } } @cases];
    $row{$_} = spread_of($_, @good) for @FIGURES;
    $row{refused_share} = spread(map { $_->{requests} ? $_->{refused} / $_->{requests} : 0 } @good);
    $row{cpu} = {
        map { my $part = $_; ($part => spread(map { $_->{cpu}{$part} } @good)) } qw(wrk server redis database others all)
    };
    $row{server_us} = spread(map { $_->{requests} ? 1e6 * $_->{cpu}{server} * $_->{seconds} / $_->{requests} : undef } @good);
    $row{share_min} = spread(map { min(@{ $_->{shares} }) / (sum(@{ $_->{shares} }) || 1) } grep { $_->{shares} } @good);
    for my $case (@good) {
        my $other = $yardstick->{ beside($case) } or next;
        push @{ $row{ratio} },     $case->{per_s} / $other->{per_s} if $other->{per_s};
        push @{ $row{p99_ratio} }, $case->{p99_ms} / $other->{p99_ms} if $other->{p99_ms};
    }
    $row{$_} = spread(@{ $row{$_} || [] }) for qw(ratio p99_ratio);
    delete $row{$_} for grep { !defined $row{$_} } keys %row;
    return \%row;
}

sub spread_of { my ($name, @cases) = @_; return spread(map { $_->{$name} } @cases) }

# Spread over the rounds of A's rate, or another figure, by B's.
sub ratio_of {
    my ($cases, $wanted_a, $wanted_b, $figure) = @_;
    $figure = 'per_s' if !defined $figure;
    my %b = map { $_->{round} => $_->{$figure} } grep { matches($_, $wanted_b) } @$cases;
    return spread(map { $_->{$figure} / $b{ $_->{round} } } grep { $b{ $_->{round} } && matches($_, $wanted_a) } @$cases);
}

sub matches {
    my ($case, $wanted) = @_;
    return !$case->{wrong} && fits($case, $wanted);
}

# Whether it is such a case or row; it may be a wrong one.
sub fits {
    my ($case, $wanted) = @_;
    for my $name (keys %$wanted) {
        return 0 if !defined $case->{$name} || $case->{$name} ne $wanted->{$name};
    }
    return 1;
}

1;
