# Goal of this test: the READMEs' code layouts name every folder, and none that is not
# there; the laboratory's list of locks is the program's; and the README is short enough
# for an evening.
use lib 'tests/e2e';
use Stockade;

my $LINES_MAX = 300;
my $BYTES_MAX = 17_500;

chdir $Stockade::ROOT or die;
my $readme = Stockade::slurp('README.md');

# Lines of the chapter: "    db/sqlite/ db/mysql/     SQLite; MariaDB"
my ($chapter) = $readme =~ /^## Code layout\n(.*?)^## /msg;
my ($of_lab) = Stockade::slurp('server/lab/README.md') =~ /^## Code layout\n(.*)/ms;
$chapter .= $of_lab;
my %named = map { $_ => 1 } map { s{/$}{}r } map { split / /, $_ } $chapter =~ /^ {4}(\S+(?: \S+)?) {2,}\S/mg;

# What belongs to one resource or stage of HTTP is told with it.
sub folders_below {
    my @folders = map { my @inside = grep { -d } glob "$_/*"; ($_, folders_below(@inside)) } @_;
    return grep { my @sources = glob "$_/*.c"; @sources } @folders;
}

ok $named{$_} || m{^server/http/}, "$_/ is named" for folders_below(qw(server lock db));
ok -d $_, "$_/ is there" for sort keys %named;

# Paths in the text: `order/queue.c` is below server/, `../db/store/committer.c` is not.
my @lost = grep { !-e && !-e "server/$_" } $readme =~ m{`((?:\.\./)?[a-z_]+(?:/[a-z_]+)*/[a-z_]+\.[a-z]+)`}g;
is_deeply \@lost, [], 'every path in the text leads to a file';

my $help = Stockade::run(['serve', '--help'])->{out};
my ($locks) = $help =~ /^Locks:\n(.*)/ms;
my @told  = map { /^\s+(\S+)\s+(\S.*)$/ ? "$1: $2" : () } split /\n/, $locks;
my $lab = Stockade::slurp('server/lab/README.md');
my ($table) = $lab =~ /^\| `--lock` [^\n]*\n\|---[^\n]*\n(.*?)\n\n/ms;
my @shown = map { /^\| `(\S+)` \| (.*) \|$/ ? "$1: $2" : () } split /\n/, $table;
# A build without MariaDB's or ZooKeeper's headers has all but these.
my %left_out = map { $_ => 1 } qw(recorded sql-table sql-row zk zk-fair);
my %told = map { $_ => 1 } @told;
@shown = grep { $told{$_} || !/^(\S+):/ || !$left_out{$1} } @shown;
is_deeply \@shown, \@told, "the locks of the laboratory's README are those of --help";

my @shown_here = $readme =~ /^(\| `\S+` \| .* \|)$/mg;
is_deeply [grep { index($lab, $_) < 0 } @shown_here], [], 'and those of the README are of that list';

my $lines = () = $readme =~ /\n/g;
cmp_ok $lines, '<=', $LINES_MAX, 'not too many lines';
cmp_ok length $readme, '<', $BYTES_MAX, 'nor bytes: reference material is for the manual';
done_testing;
