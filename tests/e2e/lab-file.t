# Goal of this test: who learns writes an experiment of their own as one text file, and
# `stockade lab run --file` plays it: as told or not, drawn and as JSON, without a
# build. What is wrong in the file is told with its line.
use utf8;
use Encode qw(encode_utf8);
use lib 'tests/e2e';
use JSON::PP ();
use Stockade;

binmode $_, ':encoding(UTF-8)' for Test::More->builder->output, Test::More->builder->failure_output;

Stockade::call_as_typed();
my $dir = Stockade::tempdir();

sub lab { return Stockade::told(['lab', @_], seconds => 120) }

sub file {
    my ($name, $text) = @_;
    return Stockade::write_file("$dir/$name", encode_utf8($text));
}

my $OWN = <<'END';
# A lease, and who dies under it twice.
[en]
title     Dies twice
symptom   the second death is healed as well
see       a dies under its lock (a!), and so does b,
          who came after it.
why       No finally runs in the dead.
fix       A lease ends by itself, as often as it
          has to.

[bug]
lock      setnx
buyers    3
schedule  a a! b b+ b c c+ c
faults    left-for-ever
says      lock-timeout

[fix]
lock      set-nx-px
schedule  a a! b L b b b! c L c c c c c c
sold      1
END
my $path = file('50-dies-twice.txt', $OWN);

my ($status, $out, $err) = lab('run', '--file', $path);
is $status, 0, 'a file of one\'s own goes as told' or diag $out, $err;
like $out, qr/^50 Dies twice - the second death is healed as well\n/, 'and is told';
like $out, qr/^  a dies under its lock \(a!\), and so does b, who came after it\.$/m, 'lines of a paragraph are joined';
like $out, qr/lock setnx, deduct naive: 3 buyers, stock 1\n.*lock set-nx-px, deduct naive: 3 buyers, stock 1\n/s,
    'the fix is the bug, but for what it says';
is scalar(() = $out =~ /^-> as told$/mg), 2, 'both ways';
($status, $out) = lab('run', '--json', '--file', $path);
is JSON::PP::decode_json($out)->{fix}{sold}, 1, 'so it is for programs';
($status, $out) = lab('show', '--zh', '--file', $path);
like $out, qr/^50 Dies twice.*^有缺陷时$/ms, 'it needs no Chinese';
($status, $out) = lab('show', '--json', '--file', Stockade::write_file("$dir/49-gbk.txt", $OWN =~ s/Dies twice/\xcb\xc0/r));
is JSON::PP::decode_json($out)->{text}{en}{title}, '??', 'of another encoding programs get what they can read';

($status, $out) = lab('run', '--file', file('51-dies-twice.txt', $OWN =~ s/^sold +1\n/sold 2\n/mr));
is $status, 1, 'what was expected did not come about: exit 1';
like $out, qr/With the fix: expected none, sold 2; found none, sold 1$/m, 'and what did';
($status, $out) = lab('run', '--file', file('51-dies-twice.txt', $OWN =~ s/ c(?=\nsold)//r));
is $status, 1, 'nothing broke, but not all are done: exit 1';
like $out, qr/^verdict: nothing broke so far$/m, 'the verdict is of so far';
like $out, qr/With the fix: .*, sold 1, not all are done$/m, 'and that is why';
is + (lab('run', '--file', file('51-dies-twice.txt', $OWN =~ s/^says +\Klock-timeout/sold-out/mr)))[0], 1, 'nor was anybody told what was told of';
($status, $out, $err) = lab('run', '--file', file('52-dies-twice.txt', $OWN =~ s/b! c L/b! aw L/r));
is $status, 2, 'a move that there is not: exit 2';
like $err, qr/lab run 52, fix: move 8: .*/, 'and which';

# Each file that is built in can be edited in its place.
my %built = map { /"id": "(\w+)"/ ? ($1 => $_) : () } split /^/, (lab('list', '--json'))[1];
for my $built (glob "$Stockade::ROOT/server/lab/experiments/*.txt") {
    my ($id) = $built =~ m{/(\d\dw?)-};
    is +(lab('show', '--json', '--file', $built))[1], $built{$id}, "$id: the same from its file";
}

my $REAL = ($OWN =~ s/^# .*\n/kind load\n/r) =~ s/\[bug\]\K.*//sr . "\nlock setnx\ninstances 2\nflags --think-ms 1\n";
# A run has what the one before it has; and the bug's schedule.
my ($bug, $fix, $rest) = @{ JSON::PP::decode_json(+(lab('show', '--json', '--file', file('55-real.txt', <<"END")))[1]) }{qw(bug fix rest)};
@{[$REAL =~ s/^(?=why)/rest      r\n/mr]}story a
says      x
[fix]
lock      set-nx-px
story     b
[rest]
stock     7
END
is_deeply [map { $_->{schedule} } $bug, $fix, $rest], [qw(a b a)], 'each has the story of the bug, or its own';
is_deeply [map { $_->{scene} =~ /(lock \S+), stock (\d+)/ } $bug, $fix, $rest], ['lock setnx', 0, ('lock set-nx-px', 0), 'lock set-nx-px', 7],
    'and what the one before has';

# ---- what is wrong ------------------------------------------------------------

my @wrong = (
    [[qr/lock +setnx\n/, "lock sentx\n"],           qr/:12: there is no lock 'sentx'$/],
    [[qr/left-for-ever/, 'left'],                   qr/:15: there is no fault 'left'$/],
    [[qr/^buyers/m, 'colour'],                      qr/:13: colour is no setting of the stage$/],
    [[qr/^buyers +3/m, 'replica no'],               qr/:13: replica takes nothing$/],
    [[qr/^buyers +3/m, 'buyers 5'],                 qr/:13: buyers takes 1 to 4$/],
    [[qr/^buyers +3/m, 'programs order-late,ordr'], qr/:13: no program 'ordr'; there are: /],
    [[qr/a a! b b\+ b/, 'a a? b'],                  qr/:14: .*\?/],
    [[qr/^\[fix\]/m, '[fax]'],                      qr/:18: \[fax\]: the sections are /],
    [[qr/^why.*\n/m, ''],                           qr/: \[en\] has no why$/],
    [[qr/^says/m, 'faults'],                        qr/:16: 'faults' is there twice$/],
    [[qr/^\[bug\]/m, "[zh]\ntitle x\n\n[bug]"],      qr/: \[zh\] has no symptom$/],
    [[qr/^\[bug\].*(?=\[fix\])/ms, ''],            qr/:\d+: there is no \[bug\] with a lock before it$/],
    [[qr/^\[bug\](.*\n)*/m, ''],                    qr/: \[bug\] has no lock$/],
    [[qr/\z/, "[rest]\nlock set-nx-px\n"],          qr/: \[en\] has no rest, as the plays have one$/],
    [[qr/^# .*/, 'kind loud'],                      qr/:1: kind is steps or load$/],
    [[qr/^buyers.*/m, 'instances 2'],               qr/:13: instances is no setting of the stage$/],
    (map { [[qr/\z/, "story b $_->[0]$_->[1]"], qr/:15: '\Q$_->[1]\E' is not a word of a story$/, $REAL] }
            ['', 'x'], ['a', '/'], ['a', '/3'], ['a', '*'], ['a', '*-1'], ['a', '*0'], ['a*3', 'x']),
    [[qr/\z/, "story a*3 b\n[fix]\ninstances 1"],   qr/: \[fix\]: 'b' is not a word of a story$/, $REAL],
    [[qr/\z/, "story a\n[fix]\ninstances 0"],       qr/: \[fix\] has no instances, or no flags$/, $REAL],
    [[qr/\z/, "orders 10"],                         qr/: \[bug\] has no story, no wrk and no buyers$/, $REAL],
    [[qr/\z/, 'measure us 0 1'],                    qr/:15: measure takes refused, .*, and from where to where/, $REAL],
    [[qr/\z/, "measure refused 0 1\nstory a"],      qr/: measure is of a crowd: no story, no wrk$/, $REAL],
    [[qr/\z/, 'c --workers 1'],                     qr/:15: there is no 'c' with real instances$/, $REAL],
    [[qr/^sold.*/m, 'sold 1x'],                     qr/:\d+: sold takes 0 to 1000000$/],
    [[qr/\z/, 'sold many'],                         qr/:15: sold takes 0 to 1000000$/, $REAL],
);
for my $case (@wrong) {
    my ($change, $text, $right) = @$case;
    my ($from, $to) = @$change;
    my $wrong = ($right // $OWN) =~ s/$from/$to/r;
    isnt $wrong, $OWN, "changed to $to";
    is Stockade::refuses(['lab', 'run', '--file', file('53-wrong.txt', $wrong)], qr{^stockade: \Q$dir\E/53-wrong\.txt(?=:\d+: ).*?$text}), '',
        'with its file and line, and nothing else';
}
my $endless = Stockade::slurp("$Stockade::ROOT/server/lab/experiments/20-spin.txt") =~ s/^orders.*\n//mgr;
($status, $out, $err) = lab('run', '--file', file('54-endless.txt', $endless));
is $status, 2, 'a crowd that never ends: exit 2';
like $err, qr/^stockade: lab run 54, bug: without orders a crowd would not end$/m, 'and why';

my @calls = (
    [['run', '--file', "$dir/not-there"],         qr/cannot read \S+not-there/],
    [['run', '--file', file('mine.txt', $OWN)],   qr/mine\.txt:\d+: a file is called NUMBER-NAME\.txt/],
    [['run', '--file', $path, '06'],              qr/usage: stockade lab run/],
    [['show', '--file', $path, '06'],             qr/usage: stockade lab show/],
    [['list', '--file', $path],                   qr/lab list takes no name/],
);
Stockade::refuses(['lab', @{ $_->[0] }], $_->[1]) for @calls;
done_testing;
