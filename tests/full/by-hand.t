# Goal of this test: a learner plays by hand, one key a move, `replay -i` and `lab run -i`:
# takes moves back, follows hints until the lock has broken, hears when there is no way,
# and gets a command line that plays the same once more. From a terminal no Enter is
# wanted.
use utf8;
use Encode ();
use JSON::PP ();
use lib 'tests/e2e';
use Stockade;

Stockade::call_as_typed();
my $dir = Stockade::tempdir();

# Presses KEYS, one after the other: (exit status, output, errors).
sub play {
    my ($keys, @command) = @_;
    return Stockade::told(\@command, keys => $keys, seconds => 120);
}

subtest 'keys make a schedule, which can be played again' => sub {
    my ($exit, $out) = play('aaLbbaabbq', 'replay', '-i', 'set-nx-px');
    is $exit, 1, 'it broke';
    like $out, qr/^verdict: oversold: more units were sold than there were \(move 9\)$/m;
    my ($again) = $out =~ /^\S+stockade (replay set-nx-px '.*')$/m;
    is $again, q{replay set-nx-px 'a a L b b a a b b'}, 'the command is told';
    like Stockade::run(['replay', 'set-nx-px', 'a a L b b a a b b'])->{out}, qr/oversold/, 'and does the same';
};

subtest 'a move is taken back, and a schedule is gone on with' => sub {
    my ($exit, $out) = play("ba\nuu", 'replay', '-i', '--deduct', 'guarded', 'set-nx-px', 'a a');
    is $exit, 0, 'nothing broke; the end of the input is the end';
    like $out, qr/replay --deduct guarded set-nx-px 'a a'$/m, 'two keys, and both taken back';
    ($exit, $out) = play('uq', 'replay', '-i', 'set-nx-px');
    like $out, qr/^your move .*: u\nthis is the start$/m, 'nothing is before the start';
    ($exit, $out) = play('aLLq', 'replay', '-i', 'set-nx-px');
    like $out, qr/: L\nthere is no such move now$/m, 'a lease ends once';
    ($exit, $out) = play('1q', 'replay', '-i', 'set-nx-px');
    like $out, qr/^  1  a~  the same, and the reply is lost$/m, 'two letters have a key of their own';
    like $out, qr/set-nx-px 'a~'$/m;
};

subtest 'hints lead to the goal of an experiment' => sub {
    # Near the end, since a hint does not take long to look for there.
    my @moves = qw(a a a);
    my $out   = '';
    for (1 .. 20) {
        (undef, $out) = play('?q', 'replay', '-i', 'token', "@moves");
        last if $out !~ /^hint: (\S+); \d+ moves from here: /m;
        push @moves, $1;
        last if Stockade::run(['replay', 'token', "@moves"])->{exit} == 1;
    }
    is Stockade::run(['replay', 'token', "@moves"])->{exit}, 1, "by hints: @moves";
    (my $exit, $out) = play('aaL?q', 'lab', 'run', '-i', '08');
    like $out, qr/^goal: sell more units than there are$/m, 'the goal is told first';
    like $out, qr/^hint: b; 6 moves from here: more units were sold than there were$/m, 'a hint leads there';
    (undef, $out) = play('?q', 'replay', '-i', 'set-nx-px', 'a a L b b a a b b');
    like $out, qr/^nothing else breaks from here in \d+ schedules: all with /m, 'what is broken already is no hint';
    ($exit, $out) = play('aaLbbaabbq', 'lab', 'run', '-i', '08');
    like $out, qr/^you have done it in 9 moves$/m, 'and it is told that it is reached';
    is $exit, 1;
};

subtest 'where no way is, that is said' => sub {
    # So late that few schedules are left: a hint does not take long to look for.
    my ($exit, $out) = play('aaaa?q', 'replay', '-i', '--deduct', 'guarded', 'fenced');
    is $exit, 0;
    like $out, qr/^nothing breaks from here in \d+ schedules: all with one lease that ends/m;
};

subtest 'in Chinese' => sub {
    my ($exit, $out) = play('aaaa?q', 'replay', '-i', '--zh', 'token');
    like $out, qr/^轮到你（u 撤回，\? 提示，q 结束）: a$/m;
    like $out, qr/^提示：\S+；再走 \d+ 步：/m;
    (undef, my $expires) = play('aq', 'replay', '-i', '--zh', 'setnx-expire');
    my @moves = "$out$expires" =~ /^  \S  [abLF^][~^!+x-]? +(.*)$/mg;
    is_deeply [grep { !/[\x{4e00}-\x{9fff}]/ } @moves], [], scalar(@moves) . ' moves, all in Chinese';
    ($exit, $out) = play('q', 'lab', 'path', '--zh', '1');
    like $out, qr/^目标：[^a-z]+$/m, 'and so is the goal';
};

subtest 'a terminal wants no Enter' => sub {
    my $typed = Stockade::binary() . ' replay -i set-nx-px';
    my $run = Stockade::run(['-qec', $typed, '/dev/null'], binary => '/usr/bin/script', keys => 'aq', seconds => 60);
    is $run->{exit}, 0;
    like $run->{out}, qr/set-nx-px 'a'/, 'q ended it';
};

# A page plays by lines: an answer for each, and one at the start.
subtest 'a program plays, line by line' => sub {
    my $lines = "move a a L b b a\nmove a b b\nback 5\nmove w\nhint\nback 6\nnonsense\n";
    my ($exit, $out) = play($lines, 'replay', '-i', '--json', 'set-nx-px');
    is $exit, 0;
    my @answers = map { JSON::PP::decode_json(Encode::encode_utf8($_)) } split /\n/, $out;
    is scalar @answers, 8, 'an answer each';
    is_deeply [map { $_->{schedule} }  @answers], ['', 'a a L b b a', 'a a L b b a a b b', ('a a L b b') x 5];
    is_deeply [map { "@{$_->{faults}}" } @answers], ['', '', 'oversold', ('') x 5], 'a fault is taken back as well';
    is_deeply $answers[0]{moves}[0], { move => 'a', says => 'its program begins' };
    is_deeply [map { $_->{says} } grep { $_->{move} eq 'a' } @{ $answers[2]{moves} }], ['DEL the lock'], 'steps are told in plain words';
    is $answers[1]{locks}[0]{holder}, 'b', 'the lock is b\'s';
    ok $answers[1]{actors}[0]{inside} && $answers[1]{actors}[1]{inside}, 'both are inside';
    like $answers[4]{error}, qr/no move|is no/, "an error: $answers[4]{error}";
    is $answers[5]{hint}{move}, 'a', 'a hint';
    like $answers[$_]{error}, qr/./, "an error: $answers[$_]{error}" for 6, 7;
};

subtest 'what does not go together is told' => sub {
    Stockade::refuses(['replay', '-i', '--save', "$dir/kept", 'set-nx-px'], qr/-i is without --save/);
    Stockade::refuses([qw(lab run -i 08 09)], qr/-i takes one experiment/);
    Stockade::refuses([qw(lab run -i 01)], qr/under load, not by moves/);
};

subtest 'killed in the moment in which its folder is made: none is left' => sub {
    my @slow = (qw(strace -qq -o /dev/null -e), 'trace=mkdir,mkdirat', '-e', 'inject=mkdir,mkdirat:delay_exit=60000000');
    my $strace = open my $pipe, '|-', @slow, Stockade::binary(), qw(replay -i set-nx-px) or die "strace: $!";
    my ($folder, $pid);
    my $look = sub {
        ($pid) = split ' ', Stockade::slurp("/proc/$strace/task/$strace/children");
        ($folder) = $pid ? glob "{/dev/shm,/tmp}/stockade-stage-$pid-*" : ();
        return $folder && -e $folder;
    };
    ok Stockade::eventually(20, $look), 'it has a folder';
    kill 'KILL', $pid;
    ok Stockade::eventually(20, sub { !-e $folder }), 'which goes with it';
    kill 'KILL', $strace;
    close $pipe;
};

done_testing;
