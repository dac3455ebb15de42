# Goal of this test: the page at / does in a real browser what it promises, against
# a real server. The scripts of tests/browser do the clicking; each speaks TAP.
# `make test-all` installs what they need.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../e2e";
use Stockade;
use Test::More;

my $browser = "$Stockade::ROOT/tests/browser";
-d "$Stockade::ROOT/build/browser/node_modules"
    or die "the packages of tests/browser are missing: run `make browser-deps browser`\n";

my $redis = Stockade::Redis->start;
my $server = Stockade->start(redis => $redis, args => ['--no-seed']);

for my $script (qw(ordering trouble looks)) {
    my $dir   = Stockade::tempdir();
    my $child = Stockade::Child->spawn(
        command => ['node', "$browser/$script.mjs"],
        env     => { STOCKADE_URL => $server->url },
        stdout  => "$dir/out",
        stderr  => "$dir/err",
    );
    my $exit = $child->wait(120 * $Stockade::SLOW);
    my $tap  = Stockade::slurp("$dir/out");
    my ($planned, $said) = ($tap =~ /^1\.\.(\d+)$/m, 0);
    while ($tap =~ /^(not )?ok \d+ - (.*)\n((?:#.*\n)*)/mg) {
        $said++;
        ok !$1, "$script: $2" or diag $3;
    }
    is $said, $planned // 'a plan', "$script: all points were tested";
    is $exit, 0, "$script: ends well" or diag Stockade::slurp("$dir/err");
}

$server->ends('the shop');
done_testing;
