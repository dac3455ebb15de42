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
    my @segments = grep { $_->{section} eq 'segments' } @rows;
    return join "\n", @batches ? batches(@batches) : (),
        @choices ? matrix('orders a second, p99', \&choice, map { [$_->{choice} || 'as it chooses', Bench::Report::what('choices', $_), $_] } @choices) : (),
        @segments ? matrix('orders a second (to one segment)', \&of_segments,
        map { [sprintf('`%s`, %s ms', $_->{who} =~ s/-fenced//r, $_->{think_ms}), $_->{segments} == 1 ? '1 segment' : $_->{segments}, $_] } @segments) : ();
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

# Of [line, column, row]: what CELL says of each.
sub matrix {
    my ($title, $cell, @rows) = @_;
    my (@columns, @lines, %row);
    for (@rows) {
        my ($line, $column, $row) = @$_;
        push @columns, $column if !grep { $_ eq $column } @columns;
        push @lines,   $line   if !grep { $_ eq $line } @lines;
        $row{$line}{$column} = $row;
    }
    return table([$title, @columns], map { my $line = $_; [$line, map { $cell->($row{$line}{$_}) } @columns] } @lines);
}

sub of_segments {
    my ($row) = @_;
    return '?' if !$row || !$row->{per_s};
    my $rate = grouped($row->{per_s}[0]);
    return $row->{segments} == 1 || !$row->{ratio} ? $rate : sprintf '%s (%.1f)', $rate, $row->{ratio}[0];
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
