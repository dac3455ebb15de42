# Goal of this test: tests/e2e/pay.t with 100,000 orders, half of which expire.
use strict;
use warnings;
use FindBin;

$ENV{STOCKADE_HOLDS} = 100_000;
exec $^X, "$FindBin::Bin/../e2e/pay.t" or die "pay.t: $!";
