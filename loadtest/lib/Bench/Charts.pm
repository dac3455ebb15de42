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
    return by_batch(@rows) if $name eq 'batches';
    return over($title . ': latency, ms', 'orders a second', 'rate', [map { ["p$_", \@rows, "p${_}_ms"] } qw(50 99 999)]) if $name eq 'open';
    return by_segments(@rows) if $name eq 'segments';
    # At a constant rate all are as fast.
    return bars('orders a second, to those as it chooses', 'ratio', $name, grep { !$_->{rate} } @rows) if $name eq 'choices';
    return bars("$title: answers a second", 'per_s', $name, @rows);
}

# Lines of [name, rows, figure] over X.
sub over {
    my ($title, $x_title, $x, $lines) = @_;
    return Bench::Svg::curves($title, $x_title, map {
        my ($name, $rows, $figure) = @$_;
        [$name, map { [$_->{$x}, $_->{$figure}] } sort { $a->{$x} <=> $b->{$x} } grep { $_->{$figure} } @$rows]
    } @$lines);
}

# A line for each think time.
sub by_segments {
    my %rows;
    push @{ $rows{ $_->{who} }{"$_->{think_ms} ms"} }, $_ for @_;
    return map {
        my $who = $_;
        map {
            my ($what, $figure) = @$_;
            over("$who: $what", 'segments', 'segments', [map { [$_, $rows{$who}{$_}, $figure] } sort keys %{ $rows{$who} }])
        } ['orders a second, by think time', 'per_s'], ['times the rate of one segment', 'ratio']
    } sort keys %rows;
}

# A group for each load of the section, a bar for each who.
sub bars {
    my ($title, $figure, $name, @rows) = @_;
    my (@series, %seen, @groups, %group);
    for my $row (@rows) {
        my $label = Bench::Report::what($name, $row);
        my $who   = Bench::Report::who($row);
        $label = $who if !length $label;
        push @series, $who if !$seen{$who}++;
        push @groups, $group{$label} = [$label, {}] if !$group{$label};
        $group{$label}[1]{$who} = $row->{$figure};
    }
    return Bench::Svg::bars($title, \@series, \@groups);
}

# Latency and rate by batch size. Each point is a number of connections; the curve
# goes from few to many.
sub by_batch {
    my @rows = sort { $a->{connections} <=> $b->{connections} } grep { $_->{batch} } @_;
    return () if !@rows;
    my $x_title = 'orders in a batch, on average; the small numbers are connections';
    my @p50     = map { [$_->{batch}[0], $_->{p50_ms}] } @rows;
    my @p99     = map { [$_->{batch}[0], $_->{p99_ms}, $_->{connections}] } @rows;
    my @per_s   = map { [$_->{batch}[0], $_->{per_s}, $_->{connections}] } @rows;
    return (
        Bench::Svg::doublings('latency, ms, by batch size', $x_title, ['p50', @p50], ['p99', @p99]),
        Bench::Svg::doublings('orders a second, by batch size', $x_title, ['orders a second', @per_s]),
    );
}

1;
