# The machine, as the report says it.
package Bench::Machine;

use strict;
use warnings;

use POSIX qw(uname);

use Stockade;

my $IN_MEMORY = 'The databases are in memory (tmpfs): commits cost nothing, and these figures are not to be believed.';

# PLACE: where the databases are. {text} says all of it in a line or two.
sub describe {
    my ($place) = @_;
    my ($model) = Stockade::slurp('/proc/cpuinfo') =~ /^model name\s*:\s*(.*)$/m;
    my ($system, undef, $release) = uname();
    chomp(my $commit = qx{git -C "$Stockade::ROOT" describe --always --dirty 2>/dev/null} || 'unknown');
    my $disk = filesystem($place);
    my %machine = (cores => cores(), cpu => $model || 'unknown', kernel => "$system $release", commit => $commit, filesystem => $disk);
    $machine{text} = "stockade $commit on $machine{cores} cores ($machine{cpu}), $machine{kernel}, $disk";
    $machine{text} .= "\n$IN_MEMORY" if $disk eq 'tmpfs';
    return \%machine;
}

sub filesystem {
    my ($place) = @_;
    chomp(my $type = qx{stat -f -c %T "$place" 2>/dev/null} || 'unknown');
    return $type;
}

# The same of MARIADB's data.
sub of_mariadb {
    my ($mariadb) = @_;
    chomp(my $version = $mariadb->sql('SELECT VERSION()'));
    my $disk = filesystem($mariadb->{dir});
    return "; MariaDB $version, $disk" . ($disk eq 'tmpfs' ? "\n$IN_MEMORY" : '');
}

sub cores {
    my $n = () = Stockade::slurp('/proc/cpuinfo') =~ /^processor\s/mg;
    return $n || 1;
}

1;
