# The result as text: a table for each section, then the goals.
package Bench::Report;

use strict;
use warnings;

use Bench::Sections;

my $FORMAT = "  %-18s %8s %22s %18s %7s %7s %7s %15s %6s %7s\n";

sub text {
    my ($result) = @_;
    my $text = "$result->{machine}{text}\n";
    my %rows;
    push @{ $rows{ $_->{section} } }, $_ for @{ $result->{rows} };
    for my $name (grep { $rows{$_} } Bench::Sections::names()) {
        $text .= "\n" . table($name, @{ $rows{$name} });
    }
    $text .= "\nMedians of $result->{settings}{rounds} rounds of $result->{settings}{seconds} s, [least-most].\n";
    $text .= disturbance(@{ $result->{rows} });
    return $text . to_before(@{ $result->{rows} }) . goals(@{ $result->{goals} }) . wrongs(@{ $result->{rows} });
}

# This version compared to the one before, in the same rounds.
sub to_before {
    my $text = '';
    for my $row (grep { $_->{to_before} } @_) {
        $text .= sprintf "  %-12s %8s %20s %20s\n", $row->{section}, what($row->{section}, $row),
            map { figure($row->{to_before}{$_}, fixed(2)) } qw(per_s p99_ms);
    }
    return $text ? sprintf "\n  %-12s %8s %20s %20s\n%s", 'to before', '', 'rate', 'p99', $text : '';
}

sub table {
    my ($name, @rows) = @_;
    my $head = sprintf "%s: %s\n", $name, Bench::Sections::title($name);
    $head .= sprintf $FORMAT, '', '', $name eq 'refusals' ? 'answers/s' : 'orders/s', yardstick($name), 'p50 ms', 'p99', 'p99.9',
        'wrk/server/redis', 'refus.', extra_title($name);
    $head =~ s/ +$//mg;
    return $head . join '', map { line($name, $_) } @rows;
}

sub yardstick { return $_[0] eq 'choices' ? 'to none of these' : 'to nginx' }

# Who it is, or which choice was overruled.
sub who { my ($row) = @_; return defined $row->{choice} ? $row->{choice} : $row->{who} }

sub extra_title { return $_[0] eq 'instances' ? 'share' : 'batch' }

sub line {
    my ($name, $row) = @_;
    return sprintf "  %-18s %8s  no round counts\n", who($row), what($name, $row) if !$row->{per_s};
    my $line = sprintf $FORMAT, who($row), what($name, $row),
        figure($row->{per_s}, \&rate), figure($row->{ratio}, fixed(2)),
        (map { sprintf '%.2f', $_->[0] } @$row{qw(p50_ms p99_ms p999_ms)}),
        join('/', map { sprintf '%.2f', $_ ? $_->[0] : 0 } @{ $row->{cpu} }{qw(wrk server redis)}),
        percent($row->{refused_share}[0]), extra($row);
    $line =~ s/ +$//mg;
    return $line . short_of($row);
}

# Where not all rounds count.
sub short_of {
    my ($row) = @_;
    return $row->{rounds} < $row->{of} ? "    of $row->{rounds} good rounds of $row->{of}\n" : '';
}

# What differs within the section.
sub what {
    my ($name, $row) = @_;
    return defined $row->{products} ? $row->{products} : '' if $name eq 'products';
    return defined $row->{rows} ? short($row->{rows}) . ($row->{load} eq 'keys' ? ' keys' : '')
        : $row->{load} eq 'keys' ? 'keys' : '' if $name eq 'table';
    return "$row->{rate}/s" if $row->{rate};
    return "c=$row->{connections}" . (($row->{instances} || 1) > 1 && $name ne 'instances' ? " x$row->{instances}" : '');
}

sub extra {
    my ($row) = @_;
    return sprintf '%s%.2f', $row->{section} eq 'instances' ? '' : 'share ', $row->{share_min}[0] if $row->{share_min};
    return $row->{batch} && $row->{batch}[0] ? sprintf '%.1f', $row->{batch}[0] : '';
}

sub figure {
    my ($spread, $format) = @_;
    return '' if !$spread;
    return sprintf '%s [%s-%s]', map { $format->($_) } @$spread;
}

sub fixed { my ($decimals) = @_; return sub { sprintf '%.*f', $decimals, $_[0] } }

sub rate { my ($n) = @_; return $n < 9950 ? sprintf '%.0f', $n : sprintf '%.1fk', $n / 1000 }

sub short { my ($n) = @_; return $n >= 1e6 ? $n / 1e6 . 'M' : $n }

sub percent { my ($share) = @_; return !$share ? '0' : $share < 0.01 ? '<1%' : sprintf '%.0f%%', 100 * $share }

# A little is the kernel's own work for our connections.
sub disturbance {
    my ($worst) = sort { $b <=> $a } map { $_->{cpu}{others} ? $_->{cpu}{others}[2] : 0 } @_;
    return '' if !$worst || $worst < 0.3;
    return sprintf "Others used up to %.2f cores meanwhile: measure again on a quiet machine.\n", $worst;
}

sub goals {
    my (@goals) = @_;
    my $text = @goals ? "\nGoals:\n" : '';
    for my $goal (@goals) {
        my $bound = defined $goal->{least} ? sprintf '>= %.2f', $goal->{least} : sprintf '<= %.2f', $goal->{most};
        $text .= sprintf "  %-46s %8s  %-20s %s\n", $goal->{goal}, $bound, verdict($goal);
        $text .= "      in the way: $goal->{in_the_way}\n" if $goal->{in_the_way};
    }
    $text =~ s/ +$//mg;
    return $text;
}

# What was measured, and what that means for the goal.
sub verdict {
    my ($goal) = @_;
    my $mark = !defined $goal->{reached} ? '' : $goal->{reached} ? 'reached' : 'NOT REACHED';
    $mark .= sprintf ' (%d of %d measurements count)', @{ $goal->{good} } if $goal->{good};
    return ($goal->{measured} ? figure($goal->{measured}, fixed(2)) : 'not measured', $mark);
}

sub wrongs {
    my (@rows) = @_;
    my $text = '';
    for my $row (@rows) {
        $text .= "WRONG: $row->{section}, " . who($row) . ', ' . what($row->{section}, $row) . ": $_\n" for @{ $row->{wrong} };
    }
    return $text ? "\n$text" : '';
}

1;
