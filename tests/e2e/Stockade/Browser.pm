# Scripts of tests/browser, which click in a real browser and speak TAP.
package Stockade::Browser;

use strict;
use warnings;

use Stockade ();
use Stockade::Child ();
use Test::More;

# Each point of SCRIPTS, at the service at URL, is a point here.
sub run_scripts {
    my ($url, @scripts) = @_;
    -d "$Stockade::ROOT/build/browser/node_modules"
        or die "the packages of tests/browser are missing: run `make browser-deps browser`\n";
    my $dir   = Stockade::tempdir();
    my $child = Stockade::Child->spawn(
        command => ['node', "$Stockade::ROOT/tests/browser/run.mjs", join(',', @scripts)],
        env     => { STOCKADE_URL => $url },
        stdout  => "$dir/out",
        stderr  => "$dir/err",
    );
    my $exit = $child->wait(500 * @scripts * $Stockade::SLOW);
    my $tap  = Stockade::slurp("$dir/out");
    my ($planned, $said) = ($tap =~ /^1\.\.(\d+)$/m, 0);
    while ($tap =~ /^(not )?ok \d+ - (.*)\n((?:#.*\n)*)/mg) {
        $said++;
        ok !$1, $2 or diag $3;
    }
    is $said, $planned // 'a plan', 'all points were tested';
    is $exit, 0, 'the browser ends well' or diag Stockade::slurp("$dir/err");
    return;
}

1;
