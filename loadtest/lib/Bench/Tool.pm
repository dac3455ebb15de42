# What the benches have in common: settings, rounds, and where the results go.
package Bench::Tool;

use strict;
use warnings;

use File::Basename qw(basename);
use JSON::PP ();

use Bench::Case;
use Bench::Machine;
use Bench::Rig;
use Bench::Settings;
use Bench::Stats;

my $begin = time;

# A whole bench; its exit code.
#
#   preset   settings and their defaults; BUILD, ARGS and OUT are there always
#   numbers  names of those that are numbers above 0
#   lists    NAME => [qr/what each element is/, what it takes, for a person]
#   usage    its help
#   check    settings: refuses others that make no sense
#   place    where the databases are; default: in the rig's folder
#   cases    rig, settings -> lists of cases: all of one are measured before the next
#   measure  rig, settings, case -> the case, measured
#   what     case or row -> words
#   rows     settings, cases -> rows
#   tell     result -> text, and {svg, md} of what is to be drawn
sub run {
    my (%tool) = @_;
    my $settings = settings(\%tool);
    my $rig      = Bench::Rig->new(map { $_ => $settings->{$_} } qw(build before args));
    my %result   = (machine => Bench::Machine::describe($tool{place} ? $tool{place}->() : $rig->work), settings => $settings);
    $result{cases} = [map { rounds(\%tool, $rig, $settings, @$_) } $tool{cases}->($rig, $settings)];
    $result{rows}  = [$tool{rows} ? $tool{rows}->($settings, @{ $result{cases} }) : Bench::Stats::rows(@{ $result{cases} })];
    my ($text, %page) = $tool{tell}->(\%result);
    $page{json} = JSON::PP->new->utf8->canonical->pretty->encode(\%result);
    my @made = grep { defined $page{$_} } qw(json svg md);
    Stockade::write_file("$settings->{out}.$_", $page{$_}) for @made;
    print "$text\n", join(', ', map { "$settings->{out}.$_" } @made), "\n";
    return !@{ $result{cases} } || grep({ $_->{wrong} } @{ $result{cases} }) ? 1 : 0;
}

# By their names in lower case.
sub settings {
    my ($tool) = @_;
    my %given = Bench::Settings::read({ BUILD => 'build', ARGS => '', OUT => '', %{ $tool->{preset} } }, $tool->{usage}, @ARGV);
    my %settings = map { lc $_ => $given{$_} } keys %given;
    $settings{ lc $_ } = Bench::Settings::number(\%given, $_) for @{ $tool->{numbers} };
    for my $name (sort keys %{ $tool->{lists} }) {
        my ($fits, $takes) = @{ $tool->{lists}{$name} };
        $settings{ lc $name } = [split /,/, $given{$name}];
        Bench::Settings::refuse("$name is empty") if !@{ $settings{ lc $name } };
        Bench::Settings::refuse("$name takes $takes, not '$_'") for grep { !/^(?:$fits)$/ } @{ $settings{ lc $name } };
    }
    $settings{args} = [split ' ', $given{ARGS}];
    $settings{out} ||= "$given{BUILD}/" . basename($0);
    $tool->{check}->(\%settings) if $tool->{check};
    return \%settings;
}

sub progress {
    my ($text) = @_;
    printf STDERR "%5d s  %s\n", time - $begin, $text;
    return;
}

# Every other round goes backwards, so that nobody is always the first.
sub rounds {
    my ($tool, $rig, $settings, @cases) = @_;
    my $measure = $tool->{measure} || sub { Bench::Case::measure($rig, $settings->{seconds}, $_[2]) };
    my @measured;
    progress("$settings->{rounds} rounds of " . @cases . ' measurements');
    for my $round (1 .. $settings->{rounds}) {
        for my $case ($round % 2 ? @cases : reverse @cases) {
            my $found = $measure->($rig, $settings, { %$case, round => $round });
            push @measured, $found;
            progress("round $round, " . $tool->{what}->($found) . ': ' . ($found->{wrong} ? 'WRONG: ' . join '; ', @{ $found->{wrong} }
                : sprintf '%.0f/s, p99 %.2f ms', @$found{qw(per_s p99_ms)}));
        }
    }
    return @measured;
}

1;
