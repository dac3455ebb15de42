# Goal of this test: a line of the log stays one, whatever the settings have in them; it
# has the journal's priority where standard error is the journal; and a line is never
# more than what --log-level lets through.
use lib 'tests/e2e';
use Stockade;

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

my @lines = lines_of(name => 'journal', wrap => \@journal);
my %priority = (error => 3, warn => 4, info => 6);
for my $line (@lines) {
    my ($priority, $level) = $line =~ /^<(\d)>level=(\w+) msg=\S/;
    is $priority, $priority{ $level // '' }, "journal: $line";
}
# It was the journal once, and is redirected now.
@lines = lines_of(name => 'logfmt', env => { JOURNAL_STREAM => '1:1' });
is_deeply [grep { !/^level=\w+ msg=\S/ } @lines], [], 'elsewhere there are none';
my ($ready) = grep { /msg=ready/ } @lines;
like $ready, qr{ db="sqlite:\Q$home\E/a \\"quoted\\" back\\\\slash = caf\xc3\xa9 \?/logfmt\.db" }, 'the values are there';
like $lines[-1], qr/ clean=yes$/, 'the last one';

# Else they would be written into a descriptor of the service's own.
my $mute = Stockade::Child->spawn(command => ['sh', '-c', 'exec "$0" serve --listen 127.0.0.1:0 --db "$1" <&- >&- 2>&-',
        Stockade::binary(), "sqlite:$home/mute.db"]);
ok Stockade::eventually(20, sub { -S "$home/mute.db.redis" }), 'without standard error it starts';
is readlink '/proc/' . $mute->pid . "/fd/$_", '/dev/null', "and has something in place of descriptor $_" for 0 .. 2;
kill TERM => $mute->pid;
is $mute->wait(20 * $Stockade::SLOW), 0, 'ends';
done_testing;
