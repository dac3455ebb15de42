# Goal of this test: tests/e2e/pay.t on MariaDB, whose clock counts there.

$ENV{STOCKADE_MARIADB} = 1;
$ENV{STOCKADE_HOLDS}   = 3000;
exec $^X, 'tests/e2e/pay.t' or die "pay.t: $!";
