# Goal of this test: all experiments with real instances go as told, with the bug and
# with the fix. Once; or as often as LAB_TIMES says.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../e2e";
use JSON::PP ();
use Stockade;
use Stockade::Child;
use Test::More;

my $dir = Stockade::tempdir();

for my $time (1 .. $ENV{LAB_TIMES} || 1) {
    my $child = Stockade::Child->spawn(
        command => [Stockade::binary(), 'lab', 'run', '--json', 'load'],
        stdout  => "$dir/out",
        stderr  => "$dir/err",
    );
    is $child->wait(300 * $Stockade::SLOW), 0, "$time: all go as told: exit 0" or diag Stockade::slurp("$dir/err");
    my @ran = map { JSON::PP::decode_json($_) } split /\n/, Stockade::slurp("$dir/out");
    cmp_ok scalar(@ran), '>=', 19, 'all were run';
    for my $one (@ran) {
        ok $one->{as_told}, "$one->{id} $one->{name}" or diag map { JSON::PP->new->canonical->pretty->encode($_) } $one;
    }
}
done_testing;
