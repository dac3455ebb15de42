# NAME=VALUE on the command line, as loadtest/run takes them.
package Bench::Settings;

use strict;
use warnings;

# The presets, changed by the words. Asks for help end here.
sub read {
    my ($preset, $usage, @words) = @_;
    my %given = %$preset;
    for my $word (@words) {
        if ($word eq '--help' || $word eq '-h') {
            print $usage->();
            exit 0;
        }
        my ($name, $value) = $word =~ /^([A-Z_]+)=(.*)$/s or refuse("'$word' is not NAME=VALUE; see --help");
        refuse("there is no setting '$name'; see --help") if !exists $preset->{$name};
        $given{$name} = $value;
    }
    return %given;
}

sub number {
    my ($given, $name) = @_;
    refuse("$name takes a number above 0, not '$given->{$name}'") if $given->{$name} !~ /^[1-9]\d*$/;
    return 0 + $given->{$name};
}

sub refuse {
    print STDERR "$0: $_[0]\n";
    exit 2;
}

1;
