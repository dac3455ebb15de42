# Goal of this test: --log-format json makes each line a JSON object, whatever the
# settings have in them; logfmt has the journal's priorities where standard error is
# the journal; and a line is never more than what --log-level lets through.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Stockade;
use JSON::PP ();
use Test::More;

my $home = Stockade::tempdir();
my $nasty = qq{$home/a "quoted" back\\slash = caf\xc3\xa9 \xff};
mkdir $nasty or die $!;

sub lines_of {
    my (%with) = @_;
    my $server = Stockade->start(db => "$nasty/$with{name}.db", %with);
    # A reason to warn: the private Redis dies and comes back.
    my ($redis) = grep { Stockade::Child::name_of($_) eq 'redis-server' } $server->children;
    kill 'KILL', $redis;
    Stockade::eventually(10, sub { $server->order(1)->{status} == 503 || $server->log =~ /part\W+lock-server/ });
    Stockade::eventually(10, sub { $server->order(1)->{status} == 201 });
    is $server->stop, 0, "$with{name}: ends";
    return split /\n/, $server->log;
}

# Standard error is what JOURNAL_STREAM names, as systemd does it.
my @journal = ('perl', '-e', 'my @s = stat STDERR; $ENV{JOURNAL_STREAM} = "$s[0]:$s[1]"; exec @ARGV');

for my $case (['json'], ['json-journal', wrap => \@journal]) {
    my ($name, @with) = @$case;
    my @lines = lines_of(name => $name, args => ['--log-format', 'json'], @with);
    my @said  = map { eval { JSON::PP->new->utf8->decode($_) } } @lines;
    is scalar @said, scalar @lines, "$name: each line is JSON" or diag join "\n", @lines;
    is_deeply [grep { !/^(?:error|warn|info)$/ } map { $_->{level} } @said], [], "$name: with a level";
    my ($ready) = grep { $_->{msg} eq 'ready' } @said;
    is $ready->{db}, qq{sqlite:$home/a "quoted" back\\slash = caf\x{e9} ?/$name.db}, "$name: the values are there";
    is $said[-1]{clean}, 'yes', "$name: the last one";
}

my @lines = lines_of(name => 'journal', wrap => \@journal);
my %priority = (error => 3, warn => 4, info => 6);
for my $line (@lines) {
    my ($priority, $level) = $line =~ /^<(\d)>level=(\w+) msg=\S/;
    is $priority, $priority{ $level // '' }, "journal: $line";
}
is_deeply [grep { /^</ } lines_of(name => 'logfmt')], [], 'elsewhere there are none';
done_testing;
