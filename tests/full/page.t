# Goal of this test: the page at / does in a real browser what it promises, against
# a real server. `make test-all` installs what it needs.
use lib 'tests/e2e';
use Stockade;
use Stockade::Browser;

my $redis = Stockade::Redis->start;
my $server = Stockade->start(redis => $redis, args => ['--no-seed']);

Stockade::Browser::run_scripts($server->url, qw(ordering pay trouble looks live));

$server->ends('the shop');
done_testing;
