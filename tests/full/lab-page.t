# Goal of this test: the laboratory's page does in a real browser what it promises: a
# lock is broken by clicks, and the path is walked. `make test-all` installs what it needs.
use lib 'tests/e2e';
use Stockade;
use Stockade::Browser;
use Stockade::Child;

my $dir = Stockade::tempdir();
my $lab = Stockade::Child->spawn(command => [Stockade::binary(), 'lab', 'serve', '--port', '0'], log => "$dir/log");
my $url = $lab->wait_for_line(qr{(http://127\.0\.0\.1:\d+)/lab}, 20 * $Stockade::SLOW) or die $lab->log;

Stockade::Browser::run_scripts($url, qw(lab path own load verdicts));

$lab->signal('INT');
is $lab->wait(20 * $Stockade::SLOW), 0, 'Ctrl-C ends it';
done_testing;
