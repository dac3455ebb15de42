# Goal of this test: tests/e2e/kill9.t, twice as long: 40 kills under load,
# and nothing that was acknowledged is lost. `make test-long` has 80.
use strict;
use warnings;
use FindBin;

$ENV{STOCKADE_KILLS} ||= 40;
exec $^X, "$FindBin::Bin/../e2e/kill9.t" or die "kill9.t: $!";
