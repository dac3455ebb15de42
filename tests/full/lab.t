# Goal of this test: the experiments that are played in steps go as told ten times
# out of ten, with the bug and with the fix; and all ten times alike, step by step.
# Two runs at a time: what one does must not reach the other.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../e2e";
use JSON::PP ();
use Stockade;
use Stockade::Child;
use Test::More;

my $TIMES = 10;

my $dir  = Stockade::tempdir();
my $left = $TIMES;
my (@running, @ended);
while ($left > 0 || @running) {
    if ($left > 0 && @running < 2) {
        $left--;
        push @running,
            Stockade::Child->spawn(
            command => [Stockade::binary(), 'lab', 'run', '--json', 'steps'],
            stdout  => "$dir/out-$left",
            stderr  => "$dir/err-$left",
            );
        next;
    }
    push @ended, (shift @running)->wait(250 * $Stockade::SLOW);
}
is_deeply \@ended, [(0) x $TIMES], 'each time all go as told: exit 0'
    or diag map { Stockade::slurp("$dir/err-$_") } 0 .. $TIMES - 1;

my @first = split /\n/, Stockade::slurp("$dir/out-0");
cmp_ok scalar @first, '>', 0, 'there are experiments';
for my $i (0 .. $#first) {
    my $told = JSON::PP::decode_json($first[$i]);
    my @other = grep { ((split /\n/, Stockade::slurp("$dir/out-$_"))[$i] // '') ne $first[$i] } 1 .. $TIMES - 1;
    is_deeply \@other, [], "$told->{id} $told->{name}: the same, step by step, $TIMES times";
}
done_testing;
