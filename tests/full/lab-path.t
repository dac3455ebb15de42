# Goal of this test: the search judges every choice of every stop of the path as the
# lesson needs it: some mend it and some do not. Nothing in the program knows which: the
# table below is the only one. Each search comes to
# its end: on a busy machine that may take longer than a learner's patience.
use lib 'tests/e2e';
use JSON::PP ();
use Stockade;

# stop => the letters of those that hold; '-' is the stop's own lock
my %HOLDS = (
    'no-lock'               => 'bc',
    'two-instances'         => 'bcd',
    'left-behind'           => 'c',
    'the-losers-finally'    => 'b',
    'two-commands'          => 'bc',
    'anothers-lock'         => 'c',
    'same-name'             => 'c',
    'get-then-del'          => 'c',
    'compare-and-delete'    => '-',
    'longer-than-the-lease' => 'd',
    'the-guard'             => 'bc',
    'counted-twice'         => 'bc',
    'the-pause'             => 'cd',
    'fencing-too-late'      => 'bc',
    'unlock-before-commit'  => 'c',
    'one-per-customer'      => 'bd',
    'redis-forgets'         => 'cd',
    'belt-and-braces'       => '-',
);

my @files = map { Stockade::slurp($_) =~ s{\A}{$_\n}r } sort glob "$Stockade::ROOT/server/lab/path/*.txt";
is scalar @files, scalar keys %HOLDS, 'all stops are in the table';
for my $file (@files) {
    my ($name) = $file =~ m{/\d+-(\S+)\.txt\n};
    my @letters = $file =~ /^\[([a-d])\]$/mg;
    my $held    = '';
    my @unknown;
    for my $letter (@letters ? @letters : '-') {
        my $run = Stockade::run(
            ['lab', 'path', '--judge', '--seconds', 500, '--json', $letter eq '-' ? () : ('--choice', $letter), $name],
            seconds => 550
        );
        my $told = eval { JSON::PP::decode_json($run->{out}) } // { answer => "none: $run->{err}" };
        $held .= $letter if $told->{answer} eq 'holds';
        push @unknown, "$letter: $told->{answer}" if $told->{answer} !~ /^(?:holds|breaks)$/;

        # That it breaks by the schedule that is told, the search has seen once more by itself.
        like $told->{schedule}, qr/\S/, "$name, $letter: $told->{fault} by '$told->{schedule}'" if $told->{answer} eq 'breaks';
    }
    is $held, $HOLDS{$name} // 'a row', "$name: what holds";
    is_deeply \@unknown, [], "$name: the search came to its end";
}
done_testing;
