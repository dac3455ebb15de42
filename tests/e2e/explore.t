# Goal of this test: `stockade explore` finds how a lock breaks, `stockade replay`
# shows it, and both say so to people and to programs; what is wrong on the command
# line is named; Ctrl-C tells what is known by then; and nothing is left behind, even
# after a kill -9.
use lib 'tests/e2e';
use IPC::Open3 qw(open3);
use JSON::PP ();
use Stockade;
use Stockade::Child;

# Exit status, standard output, standard error.
sub run {
    my (@args) = @_;
    return @{ Stockade::run(\@args, seconds => 100) }{qw(exit out err)};
}

sub json {
    my ($status, $out) = run(@_);
    return ($status, JSON::PP::decode_json($out));
}

# ---- explore ----------------------------------------------------------------

my ($status, $found) = json('explore', '--json', '--crashes', 0, 'set-nx-px');
is $status, 1, 'a lock that breaks: exit 1';
is $found->{faults}{oversold}, 'a a L b b a a b b', 'the shortest schedule that oversells';
is $found->{faults}{'foreign-release'}, 'a a a a L b a', 'and the one that frees another\'s lock';
ok $found->{whole}, 'nothing within the bounds was left out';

my ($code, $out) = run('explore', '--crashes', 0, '--expiries', 0, 'token-lua');
is $code, 0, 'a lock that holds: exit 0';
like $out, qr/\Anone in \d+ schedules: all within these bounds$/m, 'and says within what';
like $out, qr/wait-ms 30000, lease-ms 0;\nat most 64 moves, 3 times one who could go on has to wait \(preemptions\),\n2 waits that end by time, and no troubles;\nnever played: a\+ while a can step$/m, 'all of it';
my (undef, $held) = json(qw(explore --json --crashes 0 --expiries 0 --deduct guarded none));
like $held->{verdict}, qr/\Anone in $held->{schedules} schedules: all within/, 'JSON: the same';
is $held->{bounds}{waits}, 2, 'and within what';

for my $case (['redlock', q{a server's own L and F}], ['--replica redisson', q{the replica's R and P}]) {
    my @few = (qw(--moves 3 --late 1), split / /, $case->[0]);
    (undef, $out) = run('explore', @few);
    like $out, qr/^.*refusals 0;\nnever played: a\+ while a can step, $case->[1]$/m, "$case->[0]: what no bound lets it play";
    is +(json('explore', '--json', @few))[1]{never_played}, "a+ while a can step, $case->[1]", 'JSON: the same';
}

($code, $out) = run('explore', '--seconds', 1, '--late', 1, 'fenced');
is $code, 2, 'time is up and nothing was found: nobody knows, exit 2';
like $out, qr/\Anone in the \d+ that were played: all of up to \d+ moves(?:, with one trouble of up to \d+)?(?:, and \d+ at random)?$/m, 'and says what was played';
my $part;
for my $seconds (6, 12, 24, 48) {    # longer, on a busy machine
    (undef, $part) = json(qw(explore --json --stages 1 --late 1 --seconds), $seconds, 'fenced');
    last if $part->{at_random};
}
cmp_ok $part->{at_random}, '>', 0, 'part of the time goes to random schedules';
($code, $out) = run('explore', '--all', '--only', 'x', '--moves', 1, '--crashes', 0, '--expiries', 0);
like $out, qr/^set-nx-px\s+none in \d+ schedules: all within these bounds$/m, '--all: the same words';
for my $seconds (2, 8, 32) {    # as above
    ($code, $out) = run(qw(explore --all --late 1 --only setnx --seconds), $seconds);
    last if $out =~ /^setnx .*left-for-ever/m;
}
like $out, qr{^setnx .*left-for-ever.*^setnx-expire }ms, '--all: a row after one that broke';
($code, $out) = run('explore', '--all', '--only', 'set-nx-px', '--markdown', '--moves', 2, '--crashes', 0, '--expiries', 0);
like $out, qr/^\| `set-nx-px` \| none \| \d+: all within these bounds \|$/m, '--markdown: in a table';

is +(run(qw(explore --all --only =mkdir)))[0], 0, '--all: by itself it plays what can be expected';
my ($unsure, undef, $lacks) = run(qw(explore --all --only =mkdir --lost-replies 0));
is $unsure, 2, '--all: without one kind of trouble it cannot tell';
like $lacks, qr/^stockade: explore: mkdir: foreign-release is expected, and was not found with --lost-replies 0: 1 is enough to tell$/m, 'and says so';
my ($wrong_find, undef, $found_too) = run(qw(explore --all --only =setnx --forgets 1 --troubles 1 --crashes 0 --expiries 0 --late 0 --lost-replies 0 --renewals 0 --moves 9));
is $wrong_find, 1, '--all: what was found, and should not be, counts also where not all was played';
like $found_too, qr/^stockade: explore: setnx: oversold is not expected, and was found$/m, 'and is told';
(undef, my $narrow) = json(qw(explore --all --json --seconds 8 --only), '=fenced --deduct guarded --programs restock:key=k,restock:key=k:quantity=2');
cmp_ok $narrow->{at_random}, '>', 0, '--all: random schedules leave the narrow bounds of a row, also if all within these was played';
is Stockade::run([qw(explore --all --only =none)], env => { PATH => Stockade::tempdir() . '' })->{exit}, 2, '--all: a lock that could not be played';
my ($nothing, undef, $unknown) = run(qw(explore --all --only nosuch));
is_deeply [$nothing, $unknown], [2, "stockade: explore: no row is called 'nosuch'\n"], '--all: nothing was played';
($code, $out) = run(qw(explore --all --moves 1 --only), '--batched --stock 3 --programs');
like $out, qr/^fenced --batched --stock 3 --programs instance-same:user=1:key=k,\S+ none in/m, '--only: rows of that name, by which replay plays them';
unlike $out, qr/^(?:set-nx-px|redisson)/m, 'and no others';

($code, $out) = run(qw(explore --random 1 --seed 9 --deduct guarded fenced));
is $code, 2, 'at random nothing was found: exit 2';
like $out, qr/\Anone in the \d+ that were played: at random, of up to \d+ moves and \d+ on average, seed 9$/m, 'of how many moves, and of which seed';
like $out, qr/6 waits that end by time, and 6 troubles, of these at most:\nexpiries 3/, 'with more of all troubles';
my (undef, $drawn) = json(qw(explore --json --random 1 --seed 9 --deduct guarded fenced));
is $drawn->{seed}, 9, 'as JSON';
is +(run(qw(explore --random 1 --all)))[0], 2, 'of one lock at a time';

# What others have seen alive: a transaction that is open, and is not if its actor has
# died before.
($code, $out) = run('explore', '--programs', 'order-whole,order-busy-is-no', '--deduct', 'guarded', '--expiries', 0, '--moves', 3, 'none');
like $out, qr/refused\s+'a b a!'/, 'a death after the move of another one';

($code, $out) = run(qw(explore --moves 0 none));
is $code, 2, 'where nothing is within the bounds, nothing is known';
like $out, qr/\Anone in the 0 that were played: all of up to 0 moves$/m, 'and it says so';
($code, $out) = run('explore', '--crashes', 1, '--moves', 2, 'setnx');
like $out, qr/\Abreaks: left-for-ever$/m,     'the first line says that it breaks';
like $out, qr/left-for-ever\s+'a a!'/,        'a crash, as a schedule';
like $out, qr/^a!\s+0 the process dies$/m,    'and as a picture';
ok !(grep { length > 80 } split /\n/, $out), 'of 80 columns';

# A command is held up, its copy is told no, the customer waits no longer: what was
# sent first must not lock for nobody when it comes.
($code, $out) = run(qw(explore --wait-ms 1000 --expiries 0 --crashes 0 --late 1 --troubles 1 redisson));
is $code, 0, 'who has given up is not given the lock by a late command' or diag $out;
($code, $out) = run('replay', 'multi', 'a b b b L b b b+ a b b^ b a a b b ^');
is $code, 0, 'nor a part of it' or diag $out;

# ---- replay -----------------------------------------------------------------

my ($played, $story) = json('replay', '--json', 'set-nx-px', $found->{faults}{oversold});
is $played, 1, 'replay: what was found is shown';
is_deeply $story->{faults}, ['oversold'], 'and is what was found';
is $story->{sold}, 2, 'two of one are sold';
is $story->{steps}[0]{sent}, 'SET lock:{1:0} locked NX PX 10000', 'a step says what was sent';
my (undef, $again) = json('replay', '--json', 'set-nx-px', $found->{faults}{oversold});
is_deeply $again, $story, 'the same every time';

($code, $out) = run('replay', '--until', 1, 'set-nx-px', 'a a L');
is $code, 0, '--until: nothing broke so far';
like $out, qr/redis\s+lock:\{1:0\} = locked \(10000 ms left\)/, 'what is in Redis';
like $out, qr/^moves now: a a! b b~ b\^ L F$/m, 'and which moves there are';

like +(run('replay', 'watchdog', 'a' . ' aw' x 19))[1], qr/the watchdog gives up: held for\s+60000\s+ms/, 'the longest hold, if nobody says so';

my $where   = Stockade::tempdir();
my $picture = "$where/x.svg";
($code) = run('replay', '--svg', $picture, 'set-nx-px', $found->{faults}{oversold});
my $svg = Stockade::slurp($picture);
is $code, 1, '--svg: the same verdict';
is $svg, Stockade::slurp("$Stockade::ROOT/server/lab/oversold.svg"), "and the README's picture";
like $svg, qr{<title>set-nx-px, naive: a a L b b a a b b</title>}, 'of that schedule';
cmp_ok scalar(() = $svg =~ /class="clash"/g), '>', 4, 'two are inside, in red';
like $svg, qr{class="bad"[^>]*>verdict: oversold: }, 'and it says what broke';
run('replay', '--svg', $picture, 'reentrant-broken', 'a a');
unlike Stockade::slurp($picture), qr/verdict: nothing[^<]*<[^t]*bad/, 'nothing broke: not in red';
run('replay', '--svg', $picture, 'set-nx-px', 'a');
like Stockade::slurp($picture), qr/verdict: nothing broke so far</, 'of a schedule that is not over no more is said';
($code, undef, my $why) = run('replay', '--svg', '/no/x.svg', 'set-nx-px', 'a');
is $code, 2, 'a picture that cannot be written: exit 2';
like $why, qr{replay: --svg: /no/x\.svg: No such file}, 'and why';

# A hint has no room for all of its bounds behind 62 moves, and none at all behind 64.
for my $renewals (61, 63) {
    $out = Stockade::run([qw(replay -i --json --max-hold-ms 3600000 redisson), 'a' . ' aw' x $renewals], keys => "hint\n", seconds => 100)->{out};
    my ($hint) = map { $_->{hint} // () } map { JSON::PP::decode_json($_) } split /\n/, $out;
    ok !$hint->{whole}, "a hint behind $renewals renewals: $hint->{schedules} schedules are not all";
}

# ---- in Chinese -------------------------------------------------------------

# A game ends with the command that plays it again, as long as it is; a file has its flags.
my $keys = join ',', map { 'order-pay:key=' . $_ x 100 } 'a' .. 'd';
for my $flags ('--stock 0', '--wait-ms 0 --one-process', "--buyers 4 --programs $keys") {
    $out = Stockade::run([qw(replay -i), split(/ /, $flags), 'none'], keys => 'q')->{out};
    like $out =~ s/ \\\n +/ /gr =~ s/\\\n//gr, qr/ replay $flags none ''$/m, "replay -i: $flags";
    run('replay', '--save', "$where/flags.jsonl", split(/ /, $flags), 'none', 'a');
    like Stockade::slurp("$where/flags.jsonl"), qr/"settings":"$flags"/, 'and in a file';
}

for my $command (['replay', '--zh', 'set-nx-px', 'a a L b b a a b b'], [qw(explore --zh --crashes 0 set-nx-px)]) {
    ($code, $out) = run(@$command);
    is $code, 1, "@$command";
    like $out, qr/^结论：oversold：卖出的数量超过了库存（第 9 个动作）$/m, 'speaks Chinese';
    unlike $out, qr{(?<!-)\b(?:inside|schedules|moves now|next|verdict)\b(?!-)}, 'and no English';
}

# ---- what is wrong ----------------------------------------------------------

my @wrong = (
    [['explore'],                               qr/usage: stockade explore/],
    [['explore', '--lock', 'x'],                qr/a lock is named without a flag/],
    [['explore', 'padlock'],                    qr/no lock 'padlock'.*set-nx-px/],
    [['explore', 'zk'],                         qr/zk needs SQL or ZooKeeper|there is no lock 'zk'/],
    [['explore', '--buyers', 9, 'none'],        qr/--buyers takes 1 to 4/],
    [['explore', '--expiries', 'x', 'none'],    qr/--expiries takes 0 to/],
    [['explore', '--all', 'none'],              qr/usage: stockade explore/],
    [['explore', '--markdown', 'none'],         qr/go with --all$/],
    [[qw(explore --seed 5 none)],               qr/--seed goes with --random$/],
    [['explore', '--all', '--buyers', 1],       qr/each row of --all has a stage of its own$/],
    [['replay', 'none'],                        qr/usage: stockade replay/],
    [['replay', 'none', 'a q a'],               qr/'q' is not a move/],
    [['replay', 'none', 'a L'],                 qr/move 2: 'L' is no move now; there are: a a~ a- ax a! b/],
    [['replay', '--programs', 'order:colour=3', 'none', 'a'], qr/'colour' is no setting; they are product=N/],
    [['replay', '--programs', 'order:user=x', 'none', 'a'],   qr/--user takes 1 to 1000/],
    [['explore', '--programs', 'order,order,cancel:key=k', 'none'], qr/there are more programs than 2 buyers$/],
    [['explore', qw(--buyers 4 --programs), 'order,order,order,order,order', 'none'], qr/--programs: at most 4, one for each actor$/],
    [['replay', '--programs', 'order:key=' . 'k' x 129, 'none', 'a'], qr/--programs: a key has at most 128 bytes$/],
    [['replay', '--until', 'x', 'none', 'a'],   qr/--until takes/],
    [['replay', '--untl', 3, 'none', 'a'],      qr/--untl.*stockade replay --help lists the flags/s],
    [['explore', '--wait', 3, 'none'],          qr/ambiguous.*stockade explore --help lists the flags/s],
);
Stockade::refuses(@$_) for @wrong;

# ---- Ctrl-C -----------------------------------------------------------------

my $all = Stockade::Child->spawn(command => [Stockade::binary(), qw(explore --all)], stdout => '/dev/full');
is $all->wait(60 * $Stockade::SLOW), 2, '--all ends when its output goes nowhere';

my $pid = open3(my $in, my $said, undef, Stockade::binary(), 'explore', '--json', '--lost-replies', 2, '--troubles', 4, 'fenced');
# Of this process, and of those that play for it.
my %family;
my $ours = sub {
    $family{$pid} = 1;
    if (open my $file, '<', "/proc/$pid/task/$pid/children") {
        $family{$_} = 1 for split ' ', <$file> // '';
    }
    return scalar grep { -e } map { glob "/dev/shm/stockade-stage-$_-* /tmp/stockade-stage-$_-*" } keys %family;
};
ok Stockade::eventually(20, $ours), 'it plays, in a folder of its own';
kill 'INT', $pid;
my $text = do { local $/ = undef; <$said> };
waitpid $pid, 0;
my ($result) = $text =~ /^(\{.*\})/ms;
is $? >> 8, 2, 'Ctrl-C: nobody knows, exit 2';
ok !JSON::PP::decode_json($result)->{whole}, 'what is known by then, and that it is not all';
like JSON::PP::decode_json($result)->{verdict}, qr/\Anone in the \d+ that were played/, 'in words';
is $ours->(), 0, 'and nothing is left behind';

# A random search goes on behind what it finds, which is its verdict.
for my $seconds (1, 4, 16) {
    $pid = open3($in, $said, undef, Stockade::binary(), qw(explore --random 100 none));
    select undef, undef, undef, $seconds;
    kill 'INT', $pid;
    $text = do { local $/ = undef; <$said> };
    waitpid $pid, 0;
    last if $text =~ /\Abreaks/;
}
is $? >> 8, 1, 'Ctrl-C: it has found something, exit 1';
unlike $text, qr/interrupted|^move/m, 'and draws nothing that it has not played';

# Time is up in the middle of a length, which does not count.
my @wide = (qw(--lost-replies 2 --troubles 4), 'fenced');
$pid = open3($in, $said, undef, Stockade::binary(), qw(explore -i --json --seconds 1), @wide);
my $last = JSON::PP::decode_json(scalar <$said>);
while (!$last->{done}) {
    print {$in} "look\n";
    $last = JSON::PP::decode_json(scalar <$said>);
}
waitpid $pid, 0;
my (undef, $whole) = json(qw(explore --json --moves), $last->{moves}, @wide);
cmp_ok $last->{schedules}, '>=', $last->{moves} && $whole->{schedules}, "all of up to $last->{moves} moves, as it says";

like +(run(qw(explore --programs xx none)))[2], qr/there are: order .* expire-compares$/, 'all programs are named';
like +(run(qw(explore --batched --programs xx fenced)))[2], qr/there are:(?: instance[a-z-]*)+$/, 'of instances theirs';

# It may be over before we are told of its folder: then once more.
for (1 .. 50) {
    $pid = open3($in, $said, undef, Stockade::binary(), 'replay', 'set-nx-px', $found->{faults}{oversold});
    Stockade::eventually(20, $ours);
    kill $_, $pid for qw(STOP INT CONT);
    $text = do { local $/ = undef; <$said> };
    waitpid $pid, 0;
    last if $text =~ /interrupted$/;
}
like $text, qr/interrupted$/, 'replay: Ctrl-C ends it';
is $ours->(), 0, 'and nothing is left behind, either';

# A ledger that cannot be read is no verdict, and least of all that nothing broke.
$pid = open3($in, $said, undef, Stockade::binary(), qw(replay -i --json none));
is_deeply JSON::PP::decode_json(scalar <$said>)->{faults}, [], 'a ledger, and all is well';
system 'sqlite3', $_, 'DROP TABLE transfers' for glob "/dev/shm/stockade-stage-$pid-*/db /tmp/stockade-stage-$pid-*/db";
print {$in} "move a a\n";
my $unread = JSON::PP::decode_json(scalar <$said>);
like $unread->{error}, qr/^the ledger cannot be read: no such table/, 'a table of it is gone: the game says so';
ok !exists $unread->{faults}, 'and judges no more';
waitpid $pid, 0;
is $? >> 8, 2, 'exit 2';

# A disk that is full is no fault of a lock, and nothing is known of that.
my @apart = ('unshare', '-rm', 'sh', '-c', 'mount -t tmpfs -o size=1m tmpfs /dev/shm && cd /dev/shm && : >apart && exec "$@"', 'sh');
SKIP: {
    skip 'no disk of our own', 2 if system("@apart[0, 1] true 2>/dev/null") != 0;
    $pid = open3($in, $said, undef, @apart, Stockade::binary(), qw(explore --json --stages 1 --moves 9 --deduct guarded fenced));
    my $shm = "/proc/$pid/cwd"; # its /dev/shm, and not ours
    Stockade::eventually(20, sub { -e "$shm/apart" && glob "$shm/stockade-stage-*/node1" }) or die "no stage";
    open my $disk, '>', "$shm/full" or die "full: $!";
    syswrite $disk, q{ } x 4096 for 1 .. 256;
    $text = do { local $/ = undef; <$said> };
    waitpid $pid, 0;
    is $? >> 8, 2, 'the disk is full: nobody knows, exit 2';
    like $text, qr{^stockade: explore: no room on the disk of /dev/shm/}m, 'and it says so';
}

# ---- what is left in the lock, and kill -9 --------------------------------------

$pid = open3($in, $said, undef, Stockade::binary(), 'replay', 'mkdir', 'a a!');
$text = do { local $/ = undef; <$said> };
waitpid $pid, 0;
like $text, qr/left-for-ever/, 'a directory is left as the lock';
is $ours->(), 0, 'and goes with all the rest';

for my $case (['explore'], ['one that plays for it'], ['one that plays at random', qw(--random 100)]) {
    my ($victim, @flags) = @$case;
    %family = ();
    $pid = open3($in, $said, undef, Stockade::binary(), 'explore', '--stages', 2, '--lost-replies', 2, '--troubles', 4, @flags, 'fenced');
    ok Stockade::eventually(20, sub { $ours->() == 2 }), 'two stages, a folder each';
    kill 'KILL', $victim eq 'explore' ? $pid : grep { $_ != $pid } (sort keys %family)[0, 1];
    $text = do { local $/ = undef; <$said> };
    waitpid $pid, 0;
    ok Stockade::eventually(20, sub { !$ours->() }), "kill -9 of $victim: no folder is left";
    ok Stockade::eventually(20, sub { !grep { -e "/proc/$_" } keys %family }), 'and no process';
    like $text, qr/has ended by itself/, 'and the search says that it cannot go on' if $victim ne 'explore';
}

# Time is up, and one stage ends long before the other, which was told so as well.
%family = ();
$pid = open3($in, $said, undef, Stockade::binary(), 'explore', '--stages', 2, '--seconds', 4, '--late', 1, 'fenced');
Stockade::eventually(20, sub { $ours->() == 2 }) or die 'no stages';
my ($slow, $other) = sort { $a <=> $b } Stockade::Child::children_of($pid);
Stockade::Child::freeze($slow);
ok Stockade::eventually(20, sub { !Stockade::Child::name_of($other) }), 'of two stages one has ended';
Stockade::eventually(20, sub { !-e "/proc/$other" }); # the search has looked after it
kill 'CONT', $slow;
$text = do { local $/ = undef; <$said> };
waitpid $pid, 0;
like $text, qr/\Anone in the \d+ that were played/, 'the search waits for the other, and tells what is known';
done_testing;
