# Goal of this test: tests/e2e/kill9.t, ten times as long: 200 kills under load,
# and nothing that was acknowledged is lost.
use strict;
use warnings;
use FindBin;

$ENV{STOCKADE_KILLS} = 200;
exec $^X, "$FindBin::Bin/../e2e/kill9.t" or die "kill9.t: $!";
