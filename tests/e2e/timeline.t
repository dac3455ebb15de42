# Goal of this test: what was played, and what a live instance does, is kept as a
# timeline, which `stockade replay FILE` draws; each line is as schema.json says; a
# timeline that is cut, or is none, is told with its line; and who only checks settings
# writes none.
use utf8;
use lib 'tests/e2e';
use JSON::PP ();
use POSIX qw(mkfifo);
use Stockade;

my $dir = Stockade::tempdir();

sub run { return Stockade::told([@_], seconds => 60) }

sub write_file { return Stockade::write_file("$dir/$_[0]", $_[1]) }

sub lines_of {
    my ($path) = @_;
    return map { JSON::PP::decode_json($_) } split /\n/, Stockade::slurp($path);
}

# ---- the schema ----------------------------------------------------------------

my $schema = JSON::PP::decode_json(Stockade::slurp("$Stockade::ROOT/server/lab/timeline/schema.json"))->{'$defs'};

sub kind_of {
    my ($line) = @_;
    return exists $line->{timeline} ? 'head' : exists $line->{verdict} ? 'verdict' : $line->{phase} eq 'dropped' ? 'dropped' : 'event';
}

# What the line has that its schema has not, and the other way round.
sub differs {
    my ($line)     = @_;
    my $expected   = $schema->{ kind_of($line) };
    my $properties = $expected->{properties};
    return map({ "no $_" } grep { !exists $line->{$_} } @{ $expected->{required} }), map({ "unknown $_" } grep { !$properties->{$_} } keys %$line),
        map({ "$_ is $line->{$_}" } grep { my $words = $properties->{$_}{enum}; my $got = $line->{$_}; $words && !grep { $_ eq $got } @$words } keys %$line);
}

# ---- what was played -------------------------------------------------------------

my $schedule = 'a a L b b a a b b';
my ($exit, $live_picture) = run('replay', '--save', "$dir/played.jsonl", 'set-nx-px', $schedule);
is $exit, 1, 'a schedule that breaks the lock';
my @lines = lines_of("$dir/played.jsonl");
is_deeply [map { differs($_) } @lines], [], 'each line is as the schema says';
is $lines[0]{schedule}, $schedule, 'the head has the schedule';
is_deeply [@{ $lines[-1] }{qw(verdict sold)}], [['oversold'], 2], 'the verdict what broke, and the ledger';
is_deeply [map { $_->{key} // '' } @lines[1, 3]], ['lock:{1:0}', 'product 1'], 'steps have their lock, or product';
run('replay', '--save', "$dir/lost.jsonl", 'set-nx-px', 'a~ b');
is_deeply [map { $_->{outcome} } grep { $_->{step} } lines_of("$dir/lost.jsonl")], ['unknown', 'ok'], 'a reply that was lost is no answer';
run('replay', '--save', "$dir/again.jsonl", 'set-nx-px', $schedule);
is Stockade::slurp("$dir/again.jsonl"), Stockade::slurp("$dir/played.jsonl"), 'the same bytes every time';

my ($code, $picture) = run('replay', "$dir/played.jsonl");
is $code, 1, 'a timeline of what broke: exit 1';
my @steps = grep { /^\S* +\d+ \S| {12,}\S/ } split /\n/, $live_picture;
is_deeply [grep { index($picture, $_) < 0 } @steps], [], 'it is drawn as it was when it was played';
cmp_ok scalar @steps, '>', 10, 'all of it';
like $picture, qr/^verdict: oversold: more units were sold than there were$/m, 'with the verdict';
($code, $picture) = run('replay', '--until', 2, "$dir/played.jsonl");
like $picture, qr/SELECT the stock/, '--until: the first moves';
unlike $picture, qr/lease ends/, 'and no others';
like +(run('replay', "$dir/lost.jsonl"))[1], qr/^verdict: nothing broke so far$/m, 'not all were done';

my $eight = "$dir/" . './' x 600 . 'eight.jsonl'; # a long path
($code) = run('lab', 'run', '--save', $eight, '08');
is $code, 0, 'an experiment is kept as well';
is_deeply [map { (lines_of("$eight$_"))[0]{scene} } '', '.fix'], [('longer-than-the-lease') x 2], 'its bug and its fix, by name';
is_deeply [map { (lines_of("$eight$_"))[-1]{verdict} } '', '.fix'], [['oversold'], []], 'and what came of each';

# ---- what is wrong ---------------------------------------------------------------

my $text = Stockade::slurp("$dir/played.jsonl");
my $half = write_file('half.jsonl', substr $text, 0, length($text) / 2);
my $n    = 1 + (Stockade::slurp($half) =~ tr/\n//);
mkfifo("$dir/fifo", oct 600) or die "fifo: $!";
my @wrong = (
    [[$half],                                            qr/half\.jsonl:$n: the line is cut/],
    [['--until', 1, $half],                              qr/half\.jsonl:$n: the line is cut/],
    [['--until', 1, write_file('less', $text =~ s/\n.*//r)], qr/less:\d+: "events" of the verdict is wrong/],
    [[write_file('no-end', $text =~ s/.*\n\z//r)],       qr/no-end:@{[scalar @lines]}: the timeline is cut: there is no line with its verdict/],
    [[write_file('notes.txt', "not a timeline\n")],      qr/notes\.txt:1: no JSON at byte/],
    [["$dir/nothing.jsonl"],                             qr/nothing\.jsonl: No such file/],
    [["$dir"],                                           qr/: not a regular file/],
    [["$dir/fifo"],                                      qr/fifo: not a regular file: save/],
    [[write_file('control.jsonl', "\e[2J\n")],           qr/no JSON at byte 1: [ -~]*\n\z/],
    [['--json', "$dir/played.jsonl"],                    qr/--json, --save and --svg go with a schedule/],
    [['--save', "$dir/no/where", 'none', 'a'],           qr{--save: .*/no/where: No such file}],
);
is +(run('replay', $half, "$dir/played.jsonl"))[0], 2, 'what broke in another hides none of it';
for my $case (@wrong) {
    my ($args, $why) = @$case;
    my $out = Stockade::refuses(['replay', @$args], $why);
    like $out, qr/inside/, 'what is there is drawn' if $args->[0] eq $half;
}

my $head = qq({"timeline":1,"source":"stage","actors":[],"started":"2026-01-01T00:00:00.000000Z"}\n);
for my $case (
    ["[]\n",                                                            1, 'no head of a timeline'],
    [qq({"listen": 1}\n),                                               1, 'no head of a timeline'],
    map({ [qq({"timeline":$_}\n),                                       1, "version $_; this program reads version 1"] } 0, 2),
    [qq({"timeline":1,"actors":[]}\n),                                  1, 'Object item not found: source'],
    [$head =~ s/2026.*Z/yesterday/r,                                    1, '"started"'],
    [qq($head\{"at_us":1}\n),                                           2, 'Object item not found: phase'],
    [qq($head\{"at_us":-1,"phase":"step"}\n),                           2, 'below 0'],
    [qq($head\{"at_us":1,"phase":"note","outcome":"ok","actor":1}\n),   2, 'Expected string, got integer'],
    [qq($head\{"verdict":null,"events":1,"dropped":0}\n),               2, '"events" of the verdict'],
    [qq($head\{"verdict":[],"events":0,"dropped":0}\n),                 2, 'Object item not found: stock'],
    [qq($head\{"verdict":null,"events":0,"dropped":0}\n$head),          2, 'lines behind it'],
) {
    my ($broken, $line, $what) = @$case;
    Stockade::refuses(['replay', write_file('broken.jsonl', $broken)], qr/broken\.jsonl:$line: .*\Q$what\E/);
}

# Cut anywhere, be it in the middle of a line or behind one.
for my $size (map { int length($text) * $_ / 20 } 1 .. 19) {
    my $cut  = write_file('cut.jsonl', substr $text, 0, $size);
    my $line = 1 + (Stockade::slurp($cut) =~ tr/\n//);
    Stockade::refuses(['replay', $cut], qr/cut\.jsonl:$line: the (?:line|timeline) is cut/);
}

for (['replay', "$dir/played.jsonl"], ['help'], ['--version']) {
    my $full = Stockade::run($_, wrap => ['sh', '-c', 'exec "$@" >/dev/full', 'sh']);
    is_deeply [@$full{qw(exit err)}], [2, "stockade: not all of the output could be written\n"], "$_->[0]: what is cut is none";
}

# What others have written may hold anything: it reaches no terminal as a command.
my ($first, @others) = lines_of("$dir/played.jsonl");
my $odd = write_file('odd.jsonl', join '', map { JSON::PP->new->ascii->encode($_) . "\n" }
        { %$first, map({ $_ => "\e[2J" } qw(source scene lock settings)), actors => ["\x{9b}2J", 'b'] },
        map({ exists $_->{verdict} ? { %$_, verdict => ["\e[2J"] } : { %$_, map { $_ => "\e[1A\x{9b}2J\r" } qw(actor part step sent reply) } } @others));
my ($odd_status, $odd_picture) = run('replay', $odd);
is $odd_status, 1, 'control characters in a timeline';
like $odd_picture, qr/verdict: \?\[2J/, 'the whole of it is drawn';
unlike $odd_picture, qr/[^ -~\n]/, 'and none of them is printed';

# Nobody does anything in it, but the world: there is no column to be as wide as.
my $nobody = write_file('nobody.jsonl', join '', map { JSON::PP::encode_json($_) . "\n" } { %$first, actors => [] },
    { at_us => 5, phase => 'note', outcome => 'ok', reply => 'the lease ends' },
    { verdict => [], over => JSON::PP::true, stock => 1, sold => 0, orders => 0, events => 1, dropped => 0 });
($code, $picture) = run('replay', $nobody);
is $code, 0, 'a timeline without actors';
like $picture, qr/the lease ends/, 'is drawn as well';

# A place where some are missing is no event, and is told.
my $gap = write_file('gap.jsonl', Stockade::slurp($nobody) =~ s/^(?=.*"verdict")/{"at_us":6,"phase":"dropped","dropped":7}\n/mr =~ s/"dropped":0/"dropped":7/r);
my $told = Stockade::run(['replay', $gap]);
like $told->{out}, qr/7 events are missing here/, 'a timeline with a gap is drawn';
is $told->{err}, '', 'and not called wrong';

# ---- live ------------------------------------------------------------------------

my $redis = Stockade::Redis->start;
my @args = qw(--shared --lab-timeline);
my @servers = map { Stockade->start(redis => $redis, dir => $dir, args => [@args, "$dir/live$_.jsonl"]) } 1, 2;
$servers[0]->product(7, 100);
is $servers[$_ % 2]->order(7, 1 + $_)->{status}, 201, "order $_" for 1 .. 6;
# What is not written yet goes with a process that is killed.
ok Stockade::eventually(10, sub { Stockade::slurp("$dir/live2.jsonl") =~ /"actor":"committer"/ }), 'both have written something';
$servers[1]->kill9;
is $servers[0]->stop, 0, 'one instance is stopped, and one killed';

my @live = lines_of("$dir/live1.jsonl");
is_deeply [map { differs($_) } @live], [], 'each line is as the schema says';
is_deeply [@{ $live[-1] }{qw(verdict events dropped)}], [undef, @live - 2, 0], 'nobody has looked, and nothing is missing';
my %seen = map { ($_->{step} // '') => $_ } @live;
like $seen{'eval-acquire'}{sent}, qr/^script \d+ lock:\{7:0\} /, 'what was sent, without the text of the script';
like $seen{'eval-acquire'}{actor}, qr/^async$/, 'by whom';
is $seen{place}{reply}, 'ok', 'what came of an order';
is $seen{commit}{actor}, 'committer', 'and that it was written';

($code, $picture) = run('replay', "$dir/live1.jsonl");
is $code, 2, 'it is drawn, and nobody knows: exit 2';
like $picture, qr/^verdict: nobody has looked/m, 'with no verdict';
is +(run('replay', '--until', 1, "$dir/live1.jsonl"))[0], 2, 'nor does anybody if it is drawn in part';
like +(run('replay', '--zh', "$dir/live1.jsonl"))[1], qr/^结论：还没有人查过/m, 'in Chinese as well';
($first, my @rest) = Stockade::slurp("$dir/played.jsonl") =~ /^.*\n/mg;
Stockade::write_file("$dir/later.jsonl", join '', $first =~ s/(?<=T)00(?=:00:00)/01/r, @rest);
my ($both) = (run('replay', map { "$dir/$_.jsonl" } qw(later played)))[1];
run('replay', '--save', "$dir/fine.jsonl", 'token-lua', 'a');
is +(run('replay', map { "$dir/$_.jsonl" } @$_))[0], 1, "@$_: what broke in one of two broke" for [qw(fine played)], [qw(played fine)];
my @ms = $both =~ /^\S* +(\d+) /mg;
is_deeply \@ms, [sort { $a <=> $b } @ms], 'of two timelines that which begins later comes later';
cmp_ok $ms[-1], '>=', 3_600_000, 'by as much';
my $error;
($code, $picture, $error) = run('replay', map { "$dir/live$_.jsonl" } 1, 2);
is $code, 2, 'two as one, of which one was killed';
like $picture, qr/1:committer.*2:committer|2:committer.*1:committer/s, 'have the actors of both';
like $error, qr/live2\.jsonl:\d+: the (?:line|timeline) is cut/, 'and where it ends';

my @serve = ('serve', '--listen', '127.0.0.1:0', '--db', "sqlite:$dir/y.db", '--lab-timeline');
($code) = run(@serve, "$dir/x.jsonl", '--check-config');
is $code, 0, 'whose settings are looked at only';
ok !-e "$dir/x.jsonl", 'writes nothing';
for my $case (["$dir/no/where", qr{no/where: No such file}], ["$dir/fifo", qr{fifo: not a regular file}]) {
    my $refused = Stockade::run([@serve, $case->[0]]);
    is $refused->{exit}, 1, 'a timeline that cannot be written';
    like $refused->{err}, $case->[1], 'is told';
}
done_testing;
