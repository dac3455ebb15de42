# Which pictures a bench's rows make.
package Bench::Charts;

use strict;
use warnings;

use Bench::Report;
use Bench::Sections;
use Bench::Svg;

sub page {
    my (@rows) = @_;
    my %rows;
    push @{ $rows{ $_->{section} } }, $_ for grep { $_->{per_s} } @rows;
    my @panels = map { panel($_, @{ $rows{$_} }) } grep { $rows{$_} } Bench::Sections::names();
    return Bench::Svg::page(@panels);
}

sub panel {
    my ($name, @rows) = @_;
    my $title = Bench::Sections::title($name);
    return latency_by_batch($title, @rows) if $name eq 'batches';
    return rates("$title: answers a second", $name, @rows);
}

# A group for each thing that differs within the section, a bar for each who.
sub rates {
    my ($title, $name, @rows) = @_;
    my (@series, %seen, @groups, %group);
    for my $row (@rows) {
        my $label = Bench::Report::what($name, $row);
        $label = $row->{who} if !length $label;
        push @series, $row->{who} if !$seen{ $row->{who} }++;
        push @groups, $group{$label} = [$label, {}] if !$group{$label};
        $group{$label}[1]{ $row->{who} } = $row->{per_s};
    }
    return Bench::Svg::bars($title, \@series, \@groups);
}

sub latency_by_batch {
    my ($title, @rows) = @_;
    my @sorted = sort { $a->{batch}[0] <=> $b->{batch}[0] } grep { $_->{batch} } @rows;
    return Bench::Svg::curves(
        "$title, ms", 'orders in a batch',
        map { my ($label, $name) = @$_; [$label, map { [$_->{batch}[0], $_->{$name}] } @sorted] }
            (['p50', 'p50_ms'], ['p99', 'p99_ms']),
    );
}

1;
