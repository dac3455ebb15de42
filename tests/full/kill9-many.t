# Goal of this test: tests/e2e/kill9.t, four times as long: 80 kills under load,
# and nothing that was acknowledged is lost.
use strict;
use warnings;
use FindBin;

$ENV{STOCKADE_KILLS} = 80;
exec $^X, "$FindBin::Bin/../e2e/kill9.t" or die "kill9.t: $!";
