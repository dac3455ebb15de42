# Goal of this test: a database that is locked by another process, or cannot
# grow, means "not now" (503) and nothing acknowledged; then it goes on.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Stockade;
use Test::More;

my $redis = Stockade::Redis->start;

sub unavailable {
    my ($what, $reply) = @_;
    is $reply->{status}, 503, "$what: 503" or diag $reply->{raw};
    is Stockade::slug($reply), 'store-unavailable', "$what: says why";
    like $reply->{headers}{'retry-after'}, qr/^[1-9]\d*$/, "$what: Retry-After";
    return;
}

sub locked_by_another {
    my ($what, @args) = @_;
    my $server = Stockade->start(redis => $redis, args => ['--lock', 'fenced', @args]);
    $server->product(40, 1000);
    is $server->order(40)->{status}, 201, "$what: sells";
    my $release = $server->hold_database;
    unavailable("$what ($_)", $server->order(40, 77, 1, "in-the-dark-$_")) for 1 .. 2;
    is $server->get('/livez')->{status}, 200, "$what: the server lives";
    $release->();
    is $server->order(40)->{status}, 201, "$what: sells again at once";
    my $retried = $server->order(40, 77, 1, 'in-the-dark-1');
    is $retried->{status}, 201, "$what: a repeated key gets an order";
    my $verdict = $server->ends($what);
    is $verdict->{orders}, 3, "$what: and has what was acknowledged, no more" or diag explain $verdict;
    return;
}

locked_by_another('locked');
locked_by_another('locked, shared', '--shared');

# In place of a full disk: a file size limit, so that SQLite's writes fail. SIGXFSZ
# is ignored, or it would end the server.
my $server = Stockade->start(
    redis => $redis,
    args  => ['--lock', 'fenced'],
    wrap  => ['perl', '-e', '$SIG{XFSZ} = "IGNORE"; exec @ARGV'],
);
$server->product(40, 100_000);
my $acked = grep { $server->order(40)->{status} == 201 } 1 .. 20;
is $acked, 20, 'sells while there is room';
is system('prlimit', '--pid', $server->pid, '--fsize=4096:unlimited'), 0, 'no room any more';
unavailable("full ($_)", $server->order(40, 77, 1, "no-room-$_")) for 1 .. 3;
is $server->get('/api/products/40')->{body}{stock}, 100_000 - $acked, 'full: the stock can still be read';
is system('prlimit', '--pid', $server->pid, '--fsize=unlimited:unlimited'), 0, 'there is room again';
ok Stockade::eventually(5, sub { $server->order(40)->{status} == 201 && ++$acked }), 'room: sells again by itself'
    or diag $server->log;
is $server->order(40, 77, 1, 'no-room-1')->{status}, 201, 'room: a repeated key gets an order';
$acked++;
my $verdict = $server->ends('in the end');
is $verdict->{orders}, $acked, 'and has what was acknowledged, no more' or diag explain $verdict;
done_testing;
