# What many rounds say: medians and spreads of the cells that measured the
# same, and their ratios to the yardstick of the same round. A ratio of two
# neighbours in time survives that the machine was slower an hour ago.
package Bench::Stats;

use strict;
use warnings;

my @SAME = qw(section who choice load connections rate products rows instances segments think_ms);
my @BESIDE = qw(section round load connections rate instances);

# [median, min, max], or undef of nothing: a value, where a list is asked for.
sub spread {
    my @sorted = sort { $a <=> $b } grep { defined } @_;
    return undef if !@sorted;
    my $mid = int(@sorted / 2);
    my $median = @sorted % 2 ? $sorted[$mid] : ($sorted[$mid - 1] + $sorted[$mid]) / 2;
    return [$median, $sorted[0], $sorted[-1]];
}

sub key_of { my ($cell, @names) = @_; return join '|', map { defined $cell->{$_} ? $cell->{$_} : '' } @names }

# Rows, one for each group of cells, in the order in which they came first. A
# cell that is wrong is in `wrong` and in no figure.
sub rows {
    my (@cells) = @_;
    my (%group, @order);
    for my $cell (@cells) {
        my $key = key_of($cell, @SAME);
        push @order, $key if !$group{$key};
        push @{ $group{$key} }, $cell;
    }
    my %yardstick = map { key_of($_, @BESIDE) => $_ } grep { $_->{yardstick} && !$_->{wrong} } @cells;
    return map { row(\%yardstick, @{ $group{$_} }) } @order;
}

# Whether B is what A's ratio is to.
sub is_yardstick_of {
    my ($b, $a) = @_;
    return $b->{yardstick} && key_of($b, @BESIDE) eq key_of($a, @BESIDE);
}

sub row {
    my ($yardstick, @cells) = @_;
    my %row  = map { defined $cells[0]{$_} ? ($_ => $cells[0]{$_}) : () } @SAME, 'sold_out';
    my @good = grep { !$_->{wrong} } @cells;
    @row{qw(rounds of)} = (scalar @good, scalar @cells);
    $row{wrong}  = [map { @{ $_->{wrong} || [] } } @cells];
    $row{$_} = spread_of($_, @good) for qw(per_s p50_ms p99_ms p999_ms batch locks);
    $row{refused_share} = spread(map { $_->{requests} ? $_->{refused} / $_->{requests} : 0 } @good);
    $row{cpu} = {
        map { my $part = $_; ($part => spread(map { $_->{cpu}{$part} } @good)) } qw(wrk server redis others all)
    };
    $row{server_us} = spread(map { $_->{requests} ? 1e6 * $_->{cpu}{server} * $_->{seconds} / $_->{requests} : undef } @good);
    $row{share_min} = spread(map { smallest_share(@{ $_->{shares} }) } grep { $_->{shares} } @good);
    for my $cell (@good) {
        my $other = $yardstick->{ key_of($cell, @BESIDE) } or next;
        push @{ $row{ratio} },     $cell->{per_s} / $other->{per_s} if $other->{per_s};
        push @{ $row{p99_ratio} }, $cell->{p99_ms} / $other->{p99_ms} if $other->{p99_ms};
    }
    $row{$_} = spread(@{ $row{$_} || [] }) for qw(ratio p99_ratio);
    delete $row{$_} for grep { !defined $row{$_} } keys %row;
    return \%row;
}

sub spread_of { my ($name, @cells) = @_; return spread(map { $_->{$name} } @cells) }

sub smallest_share {
    my ($least, $sum) = (undef, 0);
    for my $share (@_) {
        $sum += $share;
        $least = $share if !defined $least || $share < $least;
    }
    return $sum ? $least / $sum : 0;
}

# Median over the rounds of A's rate by B's, of two rows' cells.
sub ratio_of {
    my ($cells, $wanted_a, $wanted_b) = @_;
    my %b = map { $_->{round} => $_ } grep { matches($_, $wanted_b) } @$cells;
    return spread(map { $_->{per_s} / $b{ $_->{round} }{per_s} }
            grep { $b{ $_->{round} } && $b{ $_->{round} }{per_s} } grep { matches($_, $wanted_a) } @$cells);
}

sub matches {
    my ($cell, $wanted) = @_;
    return !$cell->{wrong} && fits($cell, $wanted);
}

# Whether it is such a cell or row, be it wrong or not.
sub fits {
    my ($cell, $wanted) = @_;
    for my $name (keys %$wanted) {
        return 0 if !defined $cell->{$name} || $cell->{$name} ne $wanted->{$name};
    }
    return 1;
}

1;
