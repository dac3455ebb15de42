# Goal of this test: the runner of the tests believes nobody: a point that fails, a plan that
# is not kept and an end by a signal are failures; with AGAIN a test that fails beside others
# and passes alone is none, but is named.
use lib 'tests/e2e';
use Stockade;

my $dir = Stockade::tempdir();

# A test of that NAME, with that text.
sub plant {
    my ($name, $text) = @_;
    return Stockade::write_file("$dir/$name.t", $text);
}

# The exit code, and what was said.
sub play {
    my ($again, @tests) = @_;
    my $run = Stockade::run(
        \@tests,
        binary  => "$Stockade::ROOT/tests/run",
        env     => { AGAIN => $again, FULL => '' },
        seconds => 600,                              # it builds what is missing
    );
    return ($run->{exit}, $run->{out} . $run->{err});
}

my $good = plant('good', "print qq{1..1\nok 1 - well\n};\n");
my %bad  = (
    point  => "print qq{1..2\n# fine\nok 1 - well\n# why\nnot ok 2 - badly\n# where\n}; exit 1;\n",
    short  => "print qq{1..3\nok 1 - well\n};\n",
    silent => "1;\n",
    killed => "\$| = 1; print qq{1..1\nok 1 - well\n}; kill 9, \$\$;\n",
);
my @bad = map { plant($_, $bad{$_}) } sort keys %bad;

my ($exit, $said) = play(4, $good, @bad);
is $exit, 1, 'broken tests fail, and fail again alone';
like $said, qr{^failed: \S+/\Q$_\E\.t: }m, $_ for sort keys %bad;
like $said, qr{^4 passed, 5 failed$}m, 'and are counted';
like $said, qr/# why\n.*not ok 2 - badly\n.*# where\n/, 'what they said around it is told';
unlike $said, qr/failed once|point\.t: # fine/, 'and nothing else is said of them';

my $luck = plant('luck', "print qq{1..1\n}; if (-e '$dir/seen') { print qq{ok 1 - luck\n} } else { print qq{not ok 1 - luck\n}; open my \$f, '>', '$dir/seen'; exit 1 }\n");
for my $again (0, 1) {
    unlink "$dir/seen";
    ($exit, $said) = play($again, $good, $luck);
    is $exit, 1 - $again, "AGAIN=$again: one that passes alone";
    like $said, $again ? qr{^failed once: \S+/luck\.t: 1 - luck$}m : qr{^failed: \S+/luck\.t: 1 - luck$}m, 'is named all the same';
    like $said, $again ? qr{^2 passed, 0 failed$}m : qr{^1 passed, 1 failed$}m, 'and counted as it is';
}

unlink "$dir/seen";
($exit, $said) = play(1, $luck, $bad[0]);
is $exit, 1, 'two that failed are more than one';
unlike $said, qr/failed once/, 'so that none is run again';

# What a test leaves behind holds up no other: prove reads one at a time.
my $left = plant('left', "print qq{1..1\nok 1 - well\n}; system 'sleep 60 >/dev/null 2>&1 & echo \$! >$dir/left';\n");
my $time = time;
($exit, $said) = play(0, $left, $good);
ok time - $time < 40, 'a process that is left is not waited for';
kill 'KILL', Stockade::slurp("$dir/left");

# Ctrl-C comes while a test starts something: that is ended as well, at whatever moment.
my $starts = 'my $naps = shift; $| = 1; $SIG{INT} = sub { exit 130 }; print qq{up\n}; Stockade::Child->spawn(command => ["sleep", $naps]) for 1 .. 300; sleep 60';
my @survivors;
for my $round (1 .. 20) {
    my $pid = open my $from, '-|', $^X, "-I$Stockade::ROOT/tests/e2e", '-MStockade', '-e', $starts, "71.$$" or die "perl: $!";
    readline $from;
    select undef, undef, undef, $round / 1000;
    kill 'INT', $pid;
    waitpid $pid, 0;
    push @survivors, grep { Stockade::slurp("/proc/$_/cmdline") eq "sleep\0" . "71.$$\0" } map { m{(\d+)} } glob '/proc/[0-9]*';
    kill 'KILL', @survivors;
}
is_deeply \@survivors, [], 'nothing that was begun lives on';
done_testing;
