# Goal of this test: the README's code layout names every source file, and no
# file that is not there; and its list of locks is the program's.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/e2e";
use Stockade;
use Test::More;

chdir $Stockade::ROOT or die;
my $readme = Stockade::slurp('README.md');
my ($layout) = $readme =~ /^## Code layout\n(.*?)^## /msg;
my %named;
$named{$_}++ for $layout =~ /^\s+([a-z_]+\.(?:c|h|sql))\s/mg;

for my $folder (qw(server lock db)) {
    for my $path (glob "$folder/*.c $folder/*/*.c") {
        my ($name) = $path =~ m{([^/]+)$};
        ok $named{$name}, "$path has its line";
        delete $named{$name} if $named{$name} && !--$named{$name};
    }
}
# In a list: a glob in scalar context would go on with the name before.
my @gone = grep { !grep { -e } glob "{server,lock,db}/$_ server/*/$_" } sort keys %named;
is_deeply \@gone, [], 'nothing is named that is not there';

my $help = Stockade::run(['serve', '--help'])->{out};
my ($locks) = $help =~ /^Locks:\n(.*)/ms;
my @told  = map { /^\s+(\S+)\s+(\S.*)$/ ? "$1: $2" : () } split /\n/, $locks;
my ($table) = $readme =~ /^\| `--lock` [^\n]*\n\|---[^\n]*\n(.*?)\n\n/ms;
my @shown = map { /^\| `(\S+)` \| (.*) \|$/ ? "$1: $2" : () } split /\n/, $table;
# A build without MariaDB's or ZooKeeper's headers has all but these.
my %left_out = map { $_ => 1 } qw(recorded sql-table sql-row zk zk-fair);
my %told = map { $_ => 1 } @told;
@shown = grep { $told{$_} || !/^(\S+):/ || !$left_out{$1} } @shown;
is_deeply \@shown, \@told, 'the locks of the README are those of --help';
done_testing;
