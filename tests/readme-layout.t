# Goal of this test: the README's code layout names every folder and every source
# file, and none that is not there; its list of locks is the program's; and it is
# short enough for an evening.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/e2e";
use Stockade;
use Test::More;

my $LINES_MAX = 375;
my $BYTES_MAX = 22_500;

chdir $Stockade::ROOT or die;
my $readme = Stockade::slurp('README.md');

# folder => patterns that stand for files in it:
#     server/order/            what the folder is for
#       queue.c hint*.c        what these files are for
sub layout_of {
    my ($text) = @_;
    my ($chapter) = $text =~ /^## Code layout\n(.*?)^## /msg;
    my (%patterns, $folder);
    for my $line (split /\n/, $chapter) {
        if ($line =~ m{^ {4}(\S+)/ {2,}\S}) {
            $folder = $1;
            $patterns{$folder} = [];
        }
        elsif ($line =~ /^ {6}(\S+(?: \S+)*) {2,}\S/) {
            push @{ $patterns{$folder} }, split / /, $1;
        }
    }
    return \%patterns;
}

sub folders_below {
    my @folders = map { my @inside = grep { -d } glob "$_/*"; ($_, folders_below(@inside)) } @_;
    return grep { my @sources = glob "$_/*.c"; @sources } @folders;
}

my $patterns = layout_of($readme);
for my $folder (folders_below(qw(server lock db))) {
    ok $patterns->{$folder}, "$folder/ has its lines" or next;
    my %named = map { $_ => 1 } map { glob "$folder/$_" } @{ $patterns->{$folder} };
    my @unnamed = grep { !$named{$_} } glob "$folder/*.c";
    is_deeply \@unnamed, [], "$folder/: every source file is named";
}
for my $folder (sort keys %$patterns) {
    ok -d $folder, "$folder/ is there";
    my @gone = grep { !grep { -e } glob "$folder/$_" } @{ $patterns->{$folder} };
    is_deeply \@gone, [], "$folder/: nothing is named that is not there";
}

# Paths in the text: `order/queue.c` is below server/, `../db/committer.c` is not.
my @lost = grep { !-e && !-e "server/$_" } $readme =~ m{`((?:\.\./)?[a-z_]+(?:/[a-z_]+)*/[a-z_]+\.[a-z]+)`}g;
is_deeply \@lost, [], 'every path in the text leads to a file';

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

# The code layout grows with the code.
my $text = $readme =~ s/^## Code layout\n.*?(?=^## )//msr;
my $lines = () = $text =~ /\n/g;
cmp_ok $lines, '<', $LINES_MAX, 'not too many lines';
cmp_ok length $text, '<', $BYTES_MAX, 'nor bytes: reference material is for the manual';
done_testing;
