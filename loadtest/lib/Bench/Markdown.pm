# The table of the README, so that nobody types figures.
package Bench::Markdown;

use strict;
use warnings;

use Bench::Sections;

# Each next to nginx, by connections; empty, if nothing of that was measured.
sub text {
    my (@compared) = grep { $_->{section} =~ /^(?:connections|limits|refusals)$/ && $_->{who} ne 'nginx' && $_->{ratio} } @_;
    my %numbers     = map { $_->{connections} => 1 } @compared;
    my @connections = sort { $a <=> $b } keys %numbers;
    my (@lines, %row);
    for my $row (@compared) {
        my $line = "`$row->{who}`, " . Bench::Sections::title($row->{section});
        push @lines, $line if !$row{$line};
        $row{$line}{ $row->{connections} } = $row;
    }
    return '' if !@lines;
    return join '', map { '| ' . join(' | ', @$_) . " |\n" } ['to nginx', @connections, 'p99 at 64'], ['---', ('--:') x (1 + @connections)],
        map { my $of = $row{$_}; [$_, (map { one('%.2f', $of->{$_}{ratio}) } @connections), one('%.1f', $of->{64}{p99_ratio})] } @lines;
}

sub one { my ($format, $spread) = @_; return $spread ? sprintf $format, $spread->[0] : '' }

1;
