# Goal of this test: `stockade lab path`. Each stop's fewest known moves bring its fault
# about; a stop is broken, mended and solved by keys, a wrong mend is told by a schedule
# that replays, and a right lock is solved when the search agrees. What is solved is kept
# in one file. All of it in Chinese as well, within 80 columns.
use utf8;
use Encode qw(encode_utf8);
use IPC::Open3 qw(open3);
use JSON::PP ();
use lib 'tests/e2e';
use Stockade;
use Stockade::Child;

binmode $_, ':encoding(UTF-8)' for Test::More->builder->output, Test::More->builder->failure_output;

Stockade::call_as_typed();
my $dir   = Stockade::tempdir();
our $state = "$dir/state";

# Runs `lab path ARGS` with KEYS on its standard input: (exit status, output, errors).
sub path {
    my ($keys, @args) = @_;
    return Stockade::told(['lab', 'path', @args], keys => $keys, env => { XDG_STATE_HOME => $state }, seconds => 120);
}

sub kept { return Stockade::slurp("$state/stockade/path") }

# What the files say, apart from what the program reads in them.
my %stops;
for my $file (sort glob "$Stockade::ROOT/server/lab/path/*.txt") {
    my ($id, $name) = $file =~ m{/(\d+)-([^/]+)\.txt$};
    my ($break) = Stockade::slurp($file) =~ /^\[break\]\n(.*?)(?=^\[|\z)/ms;
    $stops{$id} = { name => $name, $break =~ /^(schedule|shortest|faults|lock) +(.*)$/mg };
}
cmp_ok scalar keys %stops, '>=', 15, 'some fifteen stops';

subtest 'the fewest known moves of each stop bring its fault about' => sub {
    for my $id (sort keys %stops) {
        my $stop = $stops{$id};
        next if !$stop->{schedule};
        my ($shown, $shortest) = @{$stop}{qw(schedule shortest)};
        my ($exit, $out) = path("move $shown\nback 0\nmove " . ($shortest // $shown) . "\n", '--json', $id);
        my (undef, @played) = map { JSON::PP::decode_json(encode_utf8($_)) } split /\n/, $out;
        my %wanted = map { $_ => 1 } split / /, $stop->{faults};
        my @broken = map { scalar grep { $wanted{$_} } @{ $_->{faults} } } @played;
        is_deeply [\@broken, $played[0]{schedule}], [[1, 0, 1], $shown], "$id $stop->{name}: $stop->{faults} by '$shown'";
        cmp_ok length $shortest, '<', length $shown, "$id: and by '$shortest'" if $shortest;
    }
    is_deeply [map { $stops{$_}{name} } grep { !$stops{$_}{schedule} } sort keys %stops],
        ['compare-and-delete', 'belt-and-braces'], 'two are right, and have none';
};

subtest 'the list' => sub {
    my ($exit, $out) = path('');
    is $exit, 0;
    my @lines = $out =~ /^\[ \] (\d\d  [a-z-]+)  +\S/mg;
    is_deeply \@lines, [map { "$_  $stops{$_}{name}" } sort keys %stops], 'all stops, in their order';
    like $out, qr/^0 of \d+ solved\n  \S+stockade lab path 01$/m, 'and where to begin';
};

subtest 'broken, mended wrongly, mended' => sub {
    my ($exit, $out) = path('aa1bc', '3');
    is $exit, 1, 'not broken: the lock is held, and nobody has died';
    unlike $out, qr/^Mend it$/m, 'nothing is to be mended yet';
    is kept(), '', 'nothing is kept';
    my ($died) = path('a', 'two-instances');
    is $died, 1, 'the end of the keys is the end';

    # The death of a has the key 1, when a is inside.
    ($exit, $out) = path('a1aq', 'left-behind');
    is $exit, 1, 'broken, and not mended';
    like $out, qr/^you have done it in 2 moves$/m;
    like $out, qr/^the fewest known are 2$/m, 'one\'s own moves beside the fewest known';
    like $out, qr/^it still breaks: the lock was left behind/m, 'the search judges';
    my ($command) = $out =~ /it still breaks.*\n  \S+stockade (replay .*)$/m;
    like $command, qr/^replay setnx-finally 'a a!'$/, 'and tells the schedule';
    is Stockade::run(['replay', 'setnx-finally', 'a a!'])->{exit}, 1, 'which breaks it';
    is kept(), "left-behind broken 2\n", 'that much is kept';

    ($exit, $out) = path('qdzc', '03');
    is $exit, 0, 'gone on with, and solved';
    like $out, qr/: d\nthere is no such choice\n.*: z\nthere is no such choice\n/s, 'what is no choice is told';
    like $out, qr/^none in \d+ schedules: all within these bounds\n(?:but something else.*\n)*2 buyers, .*\nat most 64 moves/m,
        'none, and within which bounds';
    like $out, qr/^but something else breaks: more units were sold/m, 'what else breaks is told';
    like $out, qr/^solved\n\nWhat is still wrong\n.*Redisson: .*redsync: .*Spring: .*lab path 04    The loser's finally$/ms,
        'what is still wrong, what one types elsewhere, and the next stop';
    is kept(), "left-behind broken 2\nleft-behind mended\n", 'solved is kept';
    ($exit, $out) = path('');
    like $out, qr/^\[x\] 03 .*\n(?:.*\n)*\n1 of \d+ solved\n  \S+stockade lab path 01$/m, 'and shown';
};

subtest 'fewer moves than before count, and more do not' => sub {
    local $state = "$dir/fewer";
    for ([3, 'aa4q', 3], [2, 'a1q', 2], [3, 'aa4q', 2]) {
        my ($n, $keys, $kept) = @$_;
        my ($exit, $out) = path($keys, '3');
        like $out, qr/^you have done it in $n moves$/m;
        like kept(), qr/^left-behind broken $kept\n\z/m, "$n moves: $kept are kept";
    }
    my ($exit, $out) = path('aba?q', '2');
    like $out, qr/^hint: [ab]; 3 moves from here: more units were sold/m, 'a hint leads to the goal';
};

subtest 'it cannot be done' => sub {
    my ($exit, $out) = path('qn', '9');
    is $exit, 1, 'not without the search';
    unlike kept(), qr/compare-and-delete/;
    ($exit, $out) = path('aaLbbaabb?qn', '9');
    like $out, qr/^the goal is not reached from here in \d\d+ schedules: all within these bounds$/m, 'a hint, behind an oversale';
    ($exit, $out) = path('aaLqs', '9');
    is $exit, 0, 'solved';
    like $out, qr/^none in \d+ schedules: all within these bounds$/m, 'when the search agrees';
    like kept(), qr/^compare-and-delete mended$/m;
};

subtest 'what the stop offers is judged and played by itself' => sub {
    my ($exit, $out) = path('', '--judge', '--choice', 'a', '1');
    is $exit, 1, 'breaks';
    ($exit, $out) = path('', '--judge', '--json', '--choice', 'b', '1');
    is $exit, 0, 'holds';
    my $told = JSON::PP::decode_json(encode_utf8($out));
    is_deeply [@{$told}{qw(choice answer)}], ['b', 'holds'];
    like $told->{says}, qr/^none in \d+ schedules: all within these bounds$/;
    like $told->{bounds}, qr/^2 buyers.*\nat most 64 moves, 3 times one who could go on has to wait \(preemptions\)/, 'the bounds are told';
    ($exit, $out) = path('', '--judge', '--json', '--choice', 'a', '1');
    is_deeply [@{ JSON::PP::decode_json(encode_utf8($out)) }{qw(answer fault schedule)}], ['breaks', 'oversold', 'a b a a b b'];
    like + (path('', '--judge', '--choice', 'c', '10'))[1], qr/\Ait breaks in another way: the lock was left behind.*\n  \S+ replay setnx 'a a!'\n\z/,
        'a mend must not bring what an earlier stop has mended';
    my $after = JSON::PP::decode_json(encode_utf8((path('', '--judge', '--json', '--choice', 'a', '10'))[1]));
    cmp_ok $after->{moves}, '<=', 9, 'a search ends when it has found what it is for: a fault of 9 moves';
    ($exit, $out) = path('ababbaq', '--choice', 'a', '1');
    like $out, qr/^verdict: oversold/m, 'and is broken by hand';
    is $exit, 1;
    ($exit, $out) = path('', '--judge', '--seconds', 1, '18');
    is $exit, 2, 'time is up: nobody knows';
    like $out, qr/^none in the \d+ that were played: .*\ntime was up first: that is no answer yet$/m, 'and it is told';
};

subtest 'in Chinese, within 80 columns' => sub {
    for my $id (sort keys %stops) {
        my ($exit, $out) = path('q', '--zh', $id);
        my $head = $out =~ s/^\S*动作  毫秒.*//msr;
        is_deeply [grep { Stockade::columns($_) > 80 } split /\n/, $out], [], "$id: no line is too wide";
        like $head, qr/^$id .*\n\n书上怎么说\n  .*^这把锁\n.*^弄坏它\n  /ms, "$id: its parts";
        ($exit, $out) = path('q', $id);
        is_deeply [grep { Stockade::columns($_) > 80 } split /\n/, $out], [], "$id: nor in English";
    }
    my ($exit, $out) = path('qac', '--zh', '3');
    is $exit, 0;
    like $out, qr/^修好它\n  a  .*: a\n还是会出错：锁被遗留下来，永不过期\n.*: c\n\d+ 个调度中没有发现问题：此范围内的全部\n但会出别的错：.*^通过\n/ms;
    like + (path('qs', '--zh', '9'))[1], qr/^做得到吗？s：做不到，让搜索来确认（q 结束）: s$/m, 'nor of the search';
    is_deeply [$out =~ /^((?:What|The|Mend|Break|your|it|solved|none)\b.*)$/mg], [], 'no words of ours are English';
};

subtest 'what goes wrong is told' => sub {
    my ($exit, undef, $err) = path('', 'left-behnd');
    is $exit, 2;
    like $err, qr/no stop 'left-behnd'; is it left-behind\?/;
    ($exit, undef, $err) = path('', '--choice', 'd', '3');
    is $exit, 2;
    like $err, qr/stop 03 has no choice d/;
    is + (path('q', '--choice', $_, '2'))[0], 2, "nor has one of four a choice '$_'" for 'e', '', 'aa', '`';
    is + (path('', '--judge'))[0], 2, 'a judge wants a stop';
    is + (path('', '1', '2'))[0], 2, 'one stop at a time';
    is + (path('', '--nonsense'))[0], 2;
    my $help = (path('', '--help'))[1];
    like $help, qr{^\Q$state\E/stockade/path$}m, '--help says where it is kept';

    Stockade::write_file("$state/stockade/path", "nonsense\nno-lock broken many mended\n\nleft-behind broken 2\nleft-behind mended\n" . 'x' x 1000);
    my ($status, $out) = path('');
    is_deeply [$out =~ /^\[x\] (\d\d)/mg], ['03'], 'what makes no sense in the file says nothing';
};

subtest 'Ctrl-C is no answer' => sub {
    local $ENV{XDG_STATE_HOME} = $state; # where stop 3 was broken
    for ([qr/your choice/, 'q', '3'], [undef, '', '--judge', '--seconds', 60, '18']) {
        my ($asks, $keys, @args) = @$_;
        my $pid = open3(my $in, my $says, undef, Stockade::binary(), 'lab', 'path', @args);
        print {$in} $keys;
        $in->flush;
        my $said = '';
        sysread $says, $said, 4096, length $said or last while $asks && $said !~ $asks;
        ok $asks || Stockade::eventually(20, sub { Stockade::Child::children_of($pid) }), 'it waits for a key, or searches';
        kill 'INT', $pid;
        $said .= do { local $/ = undef; <$says> // '' };
        waitpid $pid, 0;
        is $? >> 8, 2, "@args: exit 2";
        unlike $said, qr/time was up/, 'and nothing of a time';
    }
};

subtest 'where nothing can be kept, it is played all the same' => sub {
    $state = Stockade::write_file("$dir/file", '');
    my ($exit, $out, $err) = path('a1c', '3');
    is $exit, 0, 'solved';
    like $err, qr{lab path: .*/stockade/path: Not a directory}, 'that it is not kept is told';
};

done_testing;
