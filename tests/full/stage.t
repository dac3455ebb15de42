# Goal of this test: 200 random schedules of each lock, ten times each, give the same
# records byte for byte, virtual time included; and so they do beside processes that
# burn all of the CPU.
use strict;
use warnings;
use FindBin;
use Test::More;

my $program = "$FindBin::Bin/../../build/tests/test_stage";
my @locks   = qw(none process setnx setnx-finally setnx-expire setnx-expire-lua set-nx-px token-thread token token-lua
    guard-thread watchdog reentrant-local reentrant-broken reentrant spin redisson fair fenced fenced-late);

sub same {
    my ($lock, $schedules, $times) = @_;
    local @ENV{qw(STAGE_LOCK STAGE_SCHEDULES STAGE_TIMES)} = ($lock, $schedules, $times);
    return system("$program >/dev/null") == 0;
}

ok same($_, 200, 10), "$_: the same every time" for @locks;

my @burners;
for (1 .. 2) {
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        1 while getppid() != 1;
        exit 0;
    }
    push @burners, $pid;
}
ok same($_, 20, 10), "$_: the same beside processes that burn the CPU" for @locks;
kill 'KILL', @burners;
waitpid $_, 0 for @burners;
done_testing;
