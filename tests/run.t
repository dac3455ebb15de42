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
done_testing;
