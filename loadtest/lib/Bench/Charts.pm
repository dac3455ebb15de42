# Which pictures a bench's rows make.
package Bench::Charts;

use strict;
use warnings;

use Bench::Report;
use Bench::Sections;
use Bench::Svg;

my @LATENCIES = (['p50', 'p50_ms'], ['p99', 'p99_ms'], ['p99.9', 'p999_ms']);

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
    my $what  = sub { Bench::Report::what($name, $_[0]) };
    return by_batch(grep { $_->{batch} } @rows) if $name eq 'batches';
    return bars("$title: latency, ms", \@LATENCIES, $what, @rows) if $name eq 'open';
    return by_segments(@rows) if $name eq 'segments';
    return grouped("$title: answers a second", map { [$what->($_) || $_->{who}, $_->{who}, $_->{per_s}] } @rows);
}

# A group for each row, of which LABEL says what it is; a bar for each [name, figure].
sub bars {
    my ($title, $bars, $label, @rows) = @_;
    return grouped($title, map { my $row = $_; map { [$label->($row), $_->[0], $row->{ $_->[1] }] } @$bars } @rows);
}

# Of [group, bar, value].
sub grouped {
    my ($title, @bars) = @_;
    my (@names, %seen, @groups, %group);
    for (@bars) {
        my ($label, $name, $value) = @$_;
        push @names, $name if !$seen{$name}++;
        push @groups, $group{$label} = [$label, {}] if !$group{$label};
        $group{$label}[1]{$name} = $value;
    }
    return Bench::Svg::bars($title, \@names, \@groups);
}

# Latency and rate by batch size, for each number of connections.
sub by_batch {
    my $label = sub { sprintf '%d: %.3g', $_[0]{connections}, $_[0]{batch}[0] };
    return (
        bars('latency, ms, by connections: orders in a batch, on average', [@LATENCIES[0, 1]], $label, @_),
        bars('orders a second, by connections: orders in a batch, on average', [['orders a second', 'per_s']], $label, @_),
    );
}

# A group for each number of segments, a bar for each think time.
sub by_segments {
    my %rows;
    push @{ $rows{ $_->{who} } }, $_ for @_;
    return map {
        my $who = $_;
        map {
            my ($what, $figure) = @$_;
            grouped("$who: $what, by segments", map { [$_->{segments}, "$_->{think_ms} ms", $_->{$figure}] } @{ $rows{$who} })
        } ['orders a second', 'per_s'], ['times the rate of one segment', 'ratio']
    } sort keys %rows;
}

1;
