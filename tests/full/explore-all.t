# Goal of this test: every lock breaks as the table of what each must hold says, and
# not otherwise; one that breaks more is told, and one that was not played to its end
# is not called sound; and what server/lab/README.md tells of each lock is so.
use lib 'tests/e2e';
use JSON::PP ();
use Stockade;

my @all = qw(explore --all --json --renewals 1 --lost-replies 1 --late 1 --troubles 1);

# Of locks with several servers there are more schedules than time. Locks as they are:
# the other ways are for `make explore`, which has more time.
my ($table) = Stockade::slurp("$Stockade::ROOT/server/lab/README.md") =~ /<!-- explored -->\n(.*?)<!-- end/s;
my @locks = grep { !/ / } $table =~ /^\| `([^`]+)` \|/mg;
my ($told_of, @played) = ('');
for my $lock (@locks) {
    my $seconds = $lock eq 'none' ? 250 : $Stockade::SLOW; # it has the fewest
    my $run = Stockade::run([@all, '--preemptions', 2, '--seconds', $seconds, '--only', "=$lock"], seconds => 300);
    $told_of .= $run->{err};
    push @played, map { JSON::PP::decode_json($_) } split /\n/, $run->{out};
}
unlike $told_of, qr/is not expected|was not found$/m, 'each lock breaks as it has to';
is scalar @played, scalar @locks, 'each is played';
my @found = grep { $_->{whole} } @played;
cmp_ok scalar @found, '>', 0, 'and some were played to their end, on a busy machine as well';

my $more = Stockade::run([@all, qw(--crashes 0 --expiries 0 --forgets 1 --moves 9 --preemptions 2 --only =setnx)], seconds => 300);
is $more->{exit}, 1, 'Redis loses all it knows: of that the table knows nothing';
like $more->{err}, qr{setnx: oversold is not expected, and was found$}m, 'and it is said';

my $less = Stockade::run([@all, qw(--moves 2 --only =set-nx-px)], seconds => 300);
is $less->{exit}, 2, 'two moves are too few to tell';
like $less->{err}, qr/set-nx-px: oversold is expected, and was not found with --moves 2: 64 is enough to tell$/m, 'and it is said';

# Rows of a move each: all are there, and their flags make sense.
my $rows = Stockade::run([@all, qw(--moves 1 --seconds 1)], seconds => 300);
my $names = join '', map { join(' ', $_->{lock}, $_->{flags} || ()) . "\n" } map { JSON::PP::decode_json($_) } split /\n/, $rows->{out};
is_deeply [grep { $names !~ /^\Q$_\E$/m } $table =~ /^\| `([^`]+)` \|/mg], [], 'each row of the table is one of explore';

# The fourth release frees nothing: in this time only random schedules come so far.
my $dir  = Stockade::tempdir();
my $lock = Stockade::write_file("$dir/frees.lock", "take\n    SET \$name \$owner NX PX \$lease -> OK taken, else busy\nrelease\n"
    . "    INCR \$name:n -> 1 next, 2 next, 3 next, else done\n    DEL \$name -> 1 done, else lost\n");
my $late = Stockade::run(['explore', $lock, qw(--json --deduct guarded --stock 4 --troubles 1 --programs), 'order-twice,order-twice', '--seconds', 4 * $Stockade::SLOW],
    seconds => 300);
ok JSON::PP::decode_json($late->{out})->{faults}{'still-held'}, 'what random schedules have met counts';

# ---- the table --------------------------------------------------------------

my %told;
for my $row (split /\n/, $table) {
    my ($name, $faults) = $row =~ /^\| `([^`]+)` \|(.*?)\|/ or next;
    my ($lock, @flags) = split ' ', $name;
    my %schedule = $faults =~ /(\S+) `([^`]+)`/g;
    $told{$name} = join ' ', sort keys %schedule;
    for my $fault (sort keys %schedule) {
        my $played = Stockade::run(['replay', '--json', @flags, $lock, $schedule{$fault}]);
        my %broke = map { $_ => 1 } @{ JSON::PP::decode_json($played->{out})->{faults} };
        ok $broke{$fault}, "$name: $fault by '$schedule{$fault}'";
    }
}
for my $row (@found) {
    my %known = map { $_ => 1 } split ' ', $told{ $row->{lock} };
    is_deeply [grep { !$known{$_} } sort keys %{ $row->{faults} }], [], "$row->{lock}: the table tells all that was found (make explore)";
}
done_testing;
