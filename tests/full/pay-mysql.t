# Goal of this test: tests/e2e/pay.t on MariaDB, whose clock counts there.
use strict;
use warnings;
use FindBin;

$ENV{STOCKADE_MARIADB} = 1;
$ENV{STOCKADE_HOLDS}   = 3000;
exec $^X, "$FindBin::Bin/../e2e/pay.t" or die "pay.t: $!";
