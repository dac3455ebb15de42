# Tables as they stand in the README, so that nobody types figures.
package Bench::Markdown;

use strict;
use warnings;

use Bench::Report;

# What the README shows; empty, if nothing of that was measured.
sub text {
    my (@rows) = @_;
    my @batches = grep { $_->{section} eq 'batches' && $_->{batch} } @rows;
    my @choices = grep { $_->{section} eq 'choices' } @rows;
    return join "\n", @batches ? batches(@batches) : (), @choices ? choices(@choices) : ();
}

# HEADS, and rows of as many columns; the first one is text, the others are figures.
sub table {
    my ($heads, @rows) = @_;
    my $text = '| ' . join(' | ', @$heads) . " |\n|---|" . '--:|' x $#$heads . "\n";
    $text .= '| ' . join(' | ', @$_) . " |\n" for @rows;
    return $text;
}

# 12,345: thousands by commas.
sub grouped {
    my $n = sprintf '%.0f', $_[0];
    1 while $n =~ s/^(\d+)(\d{3})/$1,$2/;
    return $n;
}

sub batches {
    my (@rows) = @_;
    my @heads = ('connections', 'orders in a batch', 'orders a second', 'to nginx', 'p50', 'p99', 'p99.9', 'CPU of the server');
    return table(\@heads, map { batch($_) } @rows);
}

sub batch {
    my ($row) = @_;
    return [
        $row->{connections}, one('%.1f', $row->{batch}), grouped($row->{per_s}[0]), one('%.2f', $row->{ratio}),
        (map { one('%.2f ms', $row->{$_}) } qw(p50_ms p99_ms p999_ms)), one('%.2f cores', $row->{cpu}{server}),
    ];
}

sub one { my ($format, $spread) = @_; return $spread ? sprintf $format, $spread->[0] : '?' }

# A line for each choice, a column for each load.
sub choices {
    my (@rows) = @_;
    my (@loads, @choices, %row);
    for my $row (@rows) {
        my ($load, $choice) = (Bench::Report::what('choices', $row), $row->{choice} || 'as it chooses');
        push @loads,   $load   if !grep { $_ eq $load } @loads;
        push @choices, $choice if !grep { $_ eq $choice } @choices;
        $row{$choice}{$load} = $row;
    }
    return table(
        ['orders a second, p99', @loads],
        map { my $choice = $_; [$choice, map { choice($row{$choice}{$_}) } @loads] } @choices,
    );
}

# A choice that was overruled is compared to the server's own.
sub choice {
    my ($row) = @_;
    return '' if !$row;
    return '?' if !$row->{per_s};
    my $rate = $row->{choice} ? 'x ' . one('%.2f', $row->{ratio}) : grouped($row->{per_s}[0]);
    return join ', ', $rate, one('%.1f ms', $row->{p99_ms});
}

1;
