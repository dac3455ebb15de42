# Goal of this test: `stockade lab list`, `show` and `run`: each experiment that is
# played in steps goes as it is told, with the bug and with the fix; people and
# programs can read it, in English and Chinese, within 80 columns; what is wrong on
# the command line is named; and Ctrl-C leaves nothing behind.
use utf8;
use lib 'tests/e2e';
use IPC::Open3 qw(open3);
use JSON::PP ();
use Stockade;

binmode $_, ':encoding(UTF-8)' for Test::More->builder->output, Test::More->builder->failure_output;

Stockade::call_as_typed();

# Exit status, standard output, standard error.
sub lab { return Stockade::told(['lab', @_], seconds => 120) }

sub json_lines {
    return map { JSON::PP->new->decode($_) } split /\n/, $_[0];
}

sub fits {
    my ($out, $what) = @_;
    my @wide = grep { Stockade::columns($_) > 80 } split /\n/, $out;
    is_deeply \@wide, [], "$what: 80 columns";
    return;
}

# ---- list, show -------------------------------------------------------------

my ($status, $listed) = lab('list', '--json');
is $status, 0, 'list --json';
my @experiments = json_lines($listed);
my %seen;
$seen{ $_->{id} }++, $seen{ $_->{name} }++ for @experiments;
is_deeply [grep { $seen{$_} > 1 } keys %seen], [], 'no id and no name is there twice';
for my $one (@experiments) {
    my @empty = grep { my $text = $one->{text}{$_}; grep { !length $text->{$_} } qw(title symptom see why fix) } qw(en zh);
    is_deeply \@empty, [], "$one->{id}: all parts of the text, in both languages";
    my @long = grep { Stockade::columns($one->{text}{$_}{symptom}) > 44 } qw(en zh);
    is_deeply \@long, [], "$one->{id}: the symptom fits into the list";
    like $one->{text}{zh}{$_}, qr/\p{Han}/, "$one->{id}: $_ is Chinese" for qw(title symptom see why fix);
}

for my $language ([], ['--zh']) {
    my (undef, $list) = lab('list', @$language);
    fits($list, "list @$language");
    is scalar(grep { my $name = $_->{name}; $list !~ /^\S+ +\Q$name\E /m } @experiments), 0, 'the list has all';
    my ($exit, $shown) = lab('show', @$language, 'the-crash');
    is $exit, 0, "show @$language";
    fits($shown, "show @$language");
    like $shown, qr/^  a a! b b\+ b$/m, 'the schedule is shown';
    like $shown, qr/stockade replay --help/, 'and where its signs are explained';
    like $shown, qr/[:：]\s*left-for-ever[:：]\s*\S/, 'what is expected is told in words';
    (undef, $shown) = lab('show', @$language, '30');
    is scalar(() = $shown =~ /[(（](?:Idempotency-Key|幂等键)\s+k[)）]$/mg), 1, 'what an actor has that the other run has not';
    (undef, $shown) = lab('show', @$language, '12');
    like $shown, qr/^  (?:expected remark|预期备注)[:：]\s*two-inside-late/m, 'a remark is no fault';
    (undef, $shown) = lab('show', @$language, '14w');
    like $shown, qr/--lock-max-hold-ms/, 'no line ends within a flag';
}

for my $one (@experiments) {
    my (undef, $shown) = lab('show', '--zh', $one->{id});
    is_deeply [grep { /^  [a-d]: \P{Han}*$/ } split /\n/, $shown], [], "$one->{id}: what its actors do is told in Chinese";
}

# Whoever adds an experiment begins with the example of the manual.
my $manual = Stockade::slurp("$Stockade::ROOT/server/lab/README.md");
my ($example) = $manual =~ /^`(\S+\.txt)` ends like this:\n/m;
my ($plays)   = $manual =~ /^(    \[bug\]\n.*?\n)(?=\n\S)/ms;
$plays =~ s/^ {4}//mg;
my $file = Stockade::slurp("$Stockade::ROOT/server/lab/experiments/$example");
is substr($file, -length $plays), $plays, 'which is how a file ends';

# The build has all files, and no others.
my @files = map { m{/([^/]+)\.txt$} } glob "$Stockade::ROOT/server/lab/experiments/*.txt";
is_deeply [map { "$_->{id}-$_->{name}" } @experiments], [sort @files], 'each experiment is a file';

# ---- run --------------------------------------------------------------------

my ($exit, $ran) = lab('run', '--json', 'steps');
is $exit, 0, 'all of the steps go as told: exit 0';
my %ran = map { $_->{id} => $_ } json_lines($ran);
for my $one (grep { $_->{kind} eq 'steps' } @experiments) {
    my $run = $ran{ $one->{id} };
    my @ways = grep { $one->{$_} } qw(bug fix rest);
    ok @{ $one->{bug}{faults} } || $one->{bug}{says}, "$one->{id}: something breaks";
    my %worse = map { $_ => 1 } @{ $one->{bug}{faults} };
    is_deeply [grep { $_ ne 'two-inside' || !$worse{oversold} } @{ $one->{fix}{faults} }], [],
        "$one->{id}: with its fix nothing breaks, or what does is harmless by now" if $one->{fix};
    is !!$one->{rest}, !!$one->{text}{$_}{rest}, "$one->{id}: what the fix leaves open is shown, and told" for qw(en zh);
    ok !$one->{rest} || @{ $one->{rest}{faults} }, 'and something breaks by it';
    for my $way (@ways) {
        is_deeply $run->{$way}{faults}, $one->{$way}{faults}, "$one->{id}, $way: what breaks is what was told";
        my $timeline = $run->{$way}{timeline};
        is_deeply $run->{$way}{remarks}, $one->{$way}{remarks}, 'and what is remarked';
        is_deeply $timeline->{faults}, $run->{$way}{faults}, 'the stage says the same';
        my $oversold = grep { $_ eq 'oversold' } @{ $run->{$way}{faults} };
        my ($stock) = $one->{$way}{scene} =~ /stock (\d+)/;
        is $timeline->{sold} > $stock ? 1 : 0, $oversold, 'and so does the ledger';
        my $says = $one->{$way}{says};
        ok scalar(grep { index($_->{reply}, $says) >= 0 } @{ $timeline->{steps} }), qq{somebody is told "$says"} if defined $says;
    }
    is_deeply [grep { !$_->{dead} && !$_->{done} } @{ $run->{fix}{timeline}{actors} }], [], "$one->{id}, fix: all are done"
        if $one->{fix};
}

for my $language ([], ['--zh']) {
    my ($code, $out) = lab('run', @$language, '9');
    is $code, 0, "run @$language 9, which is 09";
    fits($out, "run @$language");
    like $out, qr/^a    10001 +DEL lock:\{1:0\}(?:: |：)1\s+<-\s+(?:deletes b's\s+lock|删掉了 b 的锁)/m, 'what happens, and what is wrong about it';
    like $out, qr/(?:: |：)\S+ 1(?:, |，)\S+ 3(?:, |，)\S+ 3$/m, 'the ledger';
    like $out, qr/foreign-release/, 'the verdict';
    like $out, qr/^  (?:moves   now: |可选    )a a! b b~ b\^ c c~ c\^ L F$/m, 'after each move those that could follow';
}
# The command lines that are shown can be pasted, and do the same.
for my $id (qw(09 14 17 29 31 36 37 40)) {
    my (undef, $out) = lab('run', '--brief', $id);
    fits($out, "run --brief $id") if $id ne '36';
    unlike $out, qr/moves +now/, "$id: --brief draws the state at the end only";
    my @commands = $out =~ /^(\S+ replay (?:.*\\\n)*.*)\n/mg;
    my @ways = grep { $ran{$id}{$_} } qw(bug fix rest);
    is scalar @commands, scalar @ways, "$id: a command for each run";
    for my $way (@ways) {
        my $command = shift @commands;
        $command =~ s/ replay / replay --json /;
        my $json = qx{$command};
        is_deeply [@{ JSON::PP::decode_json($json) }{qw(faults sold)}], [@{ $ran{$id}{$way} }{qw(faults sold)}], "and it does the same: $way";
    }
}

# ---- names --------------------------------------------------------------------

my (undef, $list) = lab('list');
my @ids = $list =~ /^(\d\dw?) +[a-z-]+ {2,}/mg;
is_deeply \@ids, [sort @ids], 'list: by number';
is scalar @ids, scalar @experiments, 'all of them';
like $list, qr/^44 experiments; 12 of them once more with real instances \(w\)$/m, 'how many there are is told one way';
like $list, qr{^  \S*stockade lab run 08$}m, 'and what to type next';
fits($list, 'list');
my (undef, $longer) = lab('show', 'longer');
like $longer, qr/^08 Longer than the lease - two holders/, 'the beginning of one name is enough';

# What fixes it is on a line; or why a lock was lost.
my @lines = (
    ['09', qr/takes that for its own\n.*nothing to release: b\s+had deleted it\n/s],
    ['25', qr/as Redis has lost the\s+lock\n.*nothing to release: Redis had\s+forgotten it\n/s],
    ['26', qr/COMMIT: ok\n.*answer: placed\na +0 eval-release: the lock is free/],
    ['29', qr/INTO purchases\s.*1 row\n.*INTO purchases\s.*0 rows/s],
    ['33', qr/stock >= 1: 0\s+rows\n +0 +the answer: sold-out/],
    ['42', qr/no fsync: only the.* fsync: the disk has it/s],
    ['14', qr/the watchdog gives up: held for\s+15000 ms/],
    ['12', qr/granted, token #1\n.*granted, token #2\n/s],
);
for my $line (@lines) {
    my (undef, $out) = lab('run', '--brief', $line->[0]);
    like $out, $line->[1], "$line->[0]: its fix is drawn";
    unlike $out, qr/inside(?!,)|released it/, 'where there is no lock, nobody is inside' if $out =~ /lock none/;
}

my ($shown) = Stockade::slurp("$Stockade::ROOT/server/lab/README.md") =~ /^(    08 .*?\n)(?=\S)/ms;
$shown =~ s/^ {4}//mg;
my (undef, $eight) = lab('run', '--brief', '08');
$eight =~ s{^\S+ replay}{./build/stockade replay}mg;
$eight =~ s/ +$//mg;
# A long path has the schedule on a line of its own.
s{ \\\n +'}{ '}g for $eight, $shown;
is index($eight, $shown =~ s/\n+\z//r), 0, 'what the README of the lab shows is what is printed';

my (undef, $many) = lab('run', '06', '07');
like $many, qr{^\[ 1/2\] 06 .* as told\n\[ 2/2\] 07 .* as told\n2 of 2 as told$}m, 'of two there is a line each';

# ---- what is wrong ----------------------------------------------------------

my @wrong = (
    [['run'],                        qr/usage: stockade lab run/],
    [['run', 'the-crush'],           qr/no experiment 'the-crush'; is it the-crash\?/],
    [['show', 'padlocks'],           qr/no experiment 'padlocks'; stockade lab list has all/],
    [['show'],                       qr/usage: stockade lab show/],
    [['show', 'wild-l'],             qr/which one: wild-losers-finally, wild-long-work, wild-late-fencing\?/],
    [['show', '--brief', '08'],      qr/--save, --brief, -i, --fix and --lock are for lab run/],
    [['run', ('06') x 70, 'nothing-at-all'], qr/no experiment 'nothing-at-all'/],
    [['run', '--jsn', '06'],         qr/--jsn.*stockade lab run --help lists the flags/s],
    [['list', '06'],                 qr/lab list takes no name/],
    [['lst'],                        qr/lab has no command 'lst'/],
);
is Stockade::refuses(['lab', @{ $_->[0] }], $_->[1]), '', 'and nothing else' for @wrong;

# ---- Ctrl-C -----------------------------------------------------------------

my $pid = open3(my $in, my $said, undef, Stockade::binary(), 'lab', 'run', ('steps') x 20);
my $ours = sub { return scalar(() = glob "/dev/shm/stockade-stage-$pid-* /tmp/stockade-stage-$pid-*") };
ok Stockade::eventually(20, $ours), 'it plays, in a folder of its own';
kill 'INT', $pid;
my $text = do { local $/ = undef; <$said> };
waitpid $pid, 0;
is $? >> 8, 2, 'Ctrl-C: exit 2, since not all were run';
is $ours->(), 0, 'and nothing is left behind';
done_testing;
