# Pictures: bars with their spread. Plain SVG 1.1, for a browser and for a README; one
# shape does not need a drawing package.
package Bench::Svg;

use strict;
use warnings;

use List::Util qw(max);

my @COLOURS = ('#8896a5', '#4c8dae', '#d9a441', '#c96a4b', '#3f7d58', '#7a5c99', '#b3a58a', '#2f4b66', '#c58fb0', '#8aa636');
my ($PLOT_X, $PLOT_Y) = (70, 40);
my ($PLOT_W, $PLOT_H) = (560, 190);
my $PANEL_H = $PLOT_H + 110;

sub text_of {
    my ($text) = @_;
    my %entity = ('&' => '&amp;', '<' => '&lt;', '>' => '&gt;', '"' => '&quot;');
    $text =~ s/([&<>"])/$entity{$1}/g;
    return $text;
}

sub element {
    my ($name, $attributes, $content) = @_;
    my $head = join ' ', $name, map { sprintf '%s="%s"', $_, text_of($attributes->{$_}) } sort keys %$attributes;
    return defined $content ? "<$head>$content</$name>\n" : "<$head/>\n";
}

sub text {
    my ($x, $y, $text, %more) = @_;
    return element('text', { x => round($x), y => round($y), %more }, text_of($text));
}

sub round { return sprintf '%.1f', $_[0] }

sub line {
    my ($x1, $y1, $x2, $y2, %more) = @_;
    return element('line', { x1 => round($x1), y1 => round($y1), x2 => round($x2), y2 => round($y2), stroke => '#555', %more });
}

sub rect {
    my ($x, $y, $w, $h, %more) = @_;
    return element('rect', { x => round($x), y => round($y), width => round($w), height => round($h), %more });
}

sub document {
    my ($width, $height, $content) = @_;
    my $frame = { xmlns => 'http://www.w3.org/2000/svg', width => $width, height => $height,
        viewBox => "0 0 $width $height", 'font-family' => 'sans-serif', 'font-size' => 11 };
    return qq{<?xml version="1.0" encoding="UTF-8"?>\n}
        . element('svg', $frame, "\n" . rect(0, 0, $width, $height, fill => '#fff') . $content);
}

# Panels under each other.
sub page {
    my (@panels) = @_;
    my $content = '';
    for my $i (0 .. $#panels) {
        $content .= element('g', { transform => 'translate(0,' . $i * $PANEL_H . ')' }, "\n$panels[$i]");
    }
    return document($PLOT_X + $PLOT_W + 40, @panels * $PANEL_H, $content);
}

# ---- axes -------------------------------------------------------------------

# A step of 1, 2 or 5 times a power of ten that divides 0..MAX into about five.
sub step {
    my ($max) = @_;
    my $power = 10**int(log($max / 5) / log(10) - ($max / 5 < 1 ? 1 : 0));
    for my $factor (1, 2, 5, 10) {
        return $factor * $power if $factor * $power * 5 >= $max;
    }
    return 10 * $power;
}

sub y_axis {
    my ($max, $title) = @_;
    my $step = step($max);
    my $drawn = text($PLOT_X, 18, $title, 'font-size' => 13, 'font-weight' => 'bold');
    for (my $value = 0; $value <= $max; $value += $step) {
        my $y = y_of($value, $max);
        $drawn .= line($PLOT_X, $y, $PLOT_X + $PLOT_W, $y, stroke => '#ddd');
        $drawn .= text($PLOT_X - 6, $y + 4, sprintf('%g', $value), 'text-anchor' => 'end');
    }
    return $drawn;
}

sub colour { return $COLOURS[$_[0] % @COLOURS] }

sub y_of { my ($value, $max) = @_; return $PLOT_Y + $PLOT_H * (1 - $value / $max) }

sub legend {
    my (@names) = @_;
    my ($drawn, $x, $y) = ('', $PLOT_X, $PLOT_Y + $PLOT_H + 42);
    for my $i (0 .. $#names) {
        my $width = 30 + 7 * length $names[$i];
        ($x, $y) = ($PLOT_X, $y + 16) if $x + $width > $PLOT_X + $PLOT_W;
        $drawn .= rect($x, $y, 10, 10, fill => colour($i));
        $drawn .= text($x + 14, $y + 9, $names[$i]);
        $x += $width;
    }
    return $drawn;
}

# The greatest of [median, min, max] in it, with some air above.
sub top_of { return 1.08 * max(0, map { $_->[2] } grep { defined } @_) || 1 }

# ---- charts -----------------------------------------------------------------

# groups  [label, {series name => [median, min, max]}] ...
sub bars {
    my ($title, $series, $groups) = @_;
    my $max   = top_of(map { values %{ $_->[1] } } @$groups);
    my $drawn = y_axis($max, $title);
    my $group_w = $PLOT_W / (@$groups || 1);
    my $bar_w   = $group_w * 0.8 / (@$series || 1);
    for my $g (0 .. $#$groups) {
        my ($label, $values) = @{ $groups->[$g] };
        my $x = $PLOT_X + ($g + 0.1) * $group_w;
        $drawn .= text($x + 0.4 * $group_w, $PLOT_Y + $PLOT_H + 16, $label, 'text-anchor' => 'middle');
        for my $s (0 .. $#$series) {
            my $value = $values->{ $series->[$s] } or next;
            $drawn .= bar($x + $s * $bar_w, $bar_w, $max, $value, colour($s));
        }
    }
    return $drawn . legend(@$series);
}

sub bar {
    my ($x, $w, $max, $value, $colour) = @_;
    my ($median, $least, $most) = @$value;
    my $y = y_of($median, $max);
    return rect($x, $y, $w * 0.92, $PLOT_Y + $PLOT_H - $y, fill => $colour)
        . line($x + $w * 0.46, y_of($least, $max), $x + $w * 0.46, y_of($most, $max));
}

1;
