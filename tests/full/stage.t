# Goal of this test: random schedules of each lock, and of instances that sell in
# batches, give the same records byte for byte each time, virtual time included; and
# so they do beside processes that burn all of the CPU. With STAGE_FULL=yes, as `make
# test-long` says, it plays 200 of each ten times, for minutes; else a sample. And then the
# search loses nothing of what breaks a lock by playing only one schedule of many that
# lead to the same state, because states with one hash have one future.
use lib 'tests/e2e';
use Stockade;

my $tests = "$Stockade::ROOT/build/tests";
my $dir   = Stockade::tempdir();
my @locks   = qw(none process mkdir setnx setnx-finally setnx-expire setnx-expire-lua set-nx-px token-thread token token-lua
    guard-thread watchdog reentrant-local reentrant-broken reentrant spin redisson fair multi redlock fenced fenced-late batched);

# Two at a time: one schedule after the other leaves a core idle.
sub same {
    my ($schedules, $times, $what) = @_;
    my @left = @locks;
    while (my @two = splice @left, 0, 2) {
        my @plays = map {
            Stockade::Child->spawn(command => ["$tests/test_stage"], stdout => "$dir/$_",
                env => { STAGE_LOCK => $_, STAGE_SCHEDULES => $schedules, STAGE_TIMES => $times });
        } @two;
        for my $lock (@two) {
            is shift(@plays)->wait, 0, "$lock: $what" or diag Stockade::slurp("$dir/$lock");
            like Stockade::slurp("$dir/$lock"), qr/^\Q$lock\E$/m, 'it was played';
        }
    }
    return;
}

# test_stage alone plays five of each, three times, when nothing disturbs it.
same(200, 10, 'the same every time') if $ENV{STAGE_FULL};

my @burners = map { Stockade::Child->copy(sub { 1 while 1 }) } 1 .. 2;
same($ENV{STAGE_FULL} ? (10, 4) : (5, 2), 'the same beside processes that burn the CPU');
$_->end for @burners;

# Deeper, and for seconds of each scene: the samples are these two by themselves.
if ($ENV{STAGE_FULL}) {
    $ENV{STAGE_DEEPER} = 2;
    is system("$tests/full/test_stage_search >/dev/null"), 0, 'the search finds the same with reduction and without';
    $ENV{STAGE_SECONDS} = 5;
    is system("$tests/full/test_stage_states >/dev/null"), 0, 'states with one hash have one future';
}
done_testing;
