# Goal of this test: tests/e2e/segment-sale.t with 30,000 units, and the same
# for one instance alone, and one by one. `make test-long` sells 100,000.

$ENV{STOCKADE_UNITS} ||= 30_000;
exec $^X, 'tests/e2e/segment-sale.t' or die "segment-sale.t: $!";
