# The machine, as the report says it.
package Bench::Machine;

use strict;
use warnings;

use POSIX qw(uname);

use Stockade;

# PLACE: where the databases are. {text} says all of it in a line or two.
sub describe {
    my ($place) = @_;
    my ($model) = Stockade::slurp('/proc/cpuinfo') =~ /^model name\s*:\s*(.*)$/m;
    my ($system, undef, $release) = uname();
    chomp(my $commit = qx{git -C "$Stockade::ROOT" describe --always --dirty 2>/dev/null} || 'unknown');
    chomp(my $disk = qx{stat -f -c %T "$place" 2>/dev/null} || 'unknown');
    my %machine = (cores => cores(), cpu => $model || 'unknown', kernel => "$system $release", commit => $commit, filesystem => $disk);
    $machine{text} = "stockade $commit on $machine{cores} cores ($machine{cpu}), $machine{kernel}, $disk";
    $machine{text} .= "\nThe databases are in memory (tmpfs): commits cost nothing, and these figures are not to be believed."
        if $disk eq 'tmpfs';
    return \%machine;
}

sub cores {
    my $n = () = Stockade::slurp('/proc/cpuinfo') =~ /^processor\s/mg;
    return $n || 1;
}

1;
