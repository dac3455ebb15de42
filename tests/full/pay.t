# Goal of this test: tests/e2e/pay.t with so many orders that it takes half a minute.
# `make test-long` has 100,000, for three minutes.
use strict;
use warnings;
use FindBin;

$ENV{STOCKADE_HOLDS} ||= 12_000;
exec $^X, "$FindBin::Bin/../e2e/pay.t" or die "pay.t: $!";
