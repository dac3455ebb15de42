# Goal of this test: a service that may have fewer file descriptors than it needs says
# how many at its start, takes what it may, and sells in spite of somebody who wants
# more connections than there are descriptors.
use lib 'tests/e2e';
use HttpRaw;
use Stockade;

# Runs what follows with these limits.
sub under {
    my ($limits) = @_;
    return ['bash', '-c', "$limits; exec \"\$@\"", 'sh'];
}

# ---- too few ---------------------------------------------------------------------
my $server = Stockade->start(wrap => under('ulimit -n 300'), args => [qw(--http-threads 1 --request-deadline-ms 600000)]);
my ($left, $needed) = $server->log =~ /^level=warn msg=file-descriptors connections_max=(\d+) reason="(\d+) file descriptors are needed, 300 allowed: ulimit -n \2, LimitNOFILE=\2 /m;
ok $needed, 'the log says what is needed and how to get it' or diag $server->log;
is 4096 - $left, $needed - 300, 'fewer connections by what is missing';
my @idle = map { HttpRaw::connect_to($server->port, LocalAddr => '127.0.0.2') } 1 .. 400;
is $server->order(1)->{status}, 201, 'with 400 connections from one address another places an order';
is $server->get('/readyz')->{status}, 200, 'and it is ready';
is HttpRaw::get($idle[-1], $HttpRaw::PATIENCE_S), '', 'what the first has too many was closed';
unlike $server->log, qr/too many open files/i, 'it did not run out';
is $server->stop, 0, 'stops';

# ---- enough, if it asks -------------------------------------------------------------
$server = Stockade->start(wrap => under('ulimit -Sn 300; ulimit -Hn 6000'));
unlike $server->log, qr/msg=file-descriptors/, 'a low soft limit is raised: no warning';
like Stockade::slurp('/proc/' . $server->pid . '/limits'), qr/^Max open files +6000 +6000 /m, 'to the hard one';
is $server->stop, 0, 'stops';

my $asks = Stockade::run(['-c', 'ulimit -n 2000; exec "$0" serve --check-config --http-threads 1 --inventory http://a:1,http://b:1', Stockade::binary()], binary => 'bash');
is $asks->{err} =~ s/.*"(\d+) file descriptors are needed, .*/$1/sr, $needed - 96 + 2 * 257, 'an order service has connections to others, and not to locks';

# ---- far too few --------------------------------------------------------------------
my $dir = Stockade::tempdir();
my $none = Stockade::run(['-c', "ulimit -n 90; exec \"\$0\" serve --http-threads 1 --db sqlite:$dir/x.db", Stockade::binary()], binary => 'bash');
is $none->{exit}, 2, 'fewer than it needs without connections: exit 2';
like $none->{err}, qr/connections-max.*: $needed file descriptors are needed, 90 allowed: /, 'and says so';
ok !-e "$dir/x.db", 'before it opens anything';

my ($unit) = Stockade::slurp("$Stockade::ROOT/server/deploy/stockade.service") =~ /^LimitNOFILE=(\d+)$/m;
cmp_ok $unit, '>', $needed - 4096 + 60_000, 'the unit has enough for the 60000 connections that it speaks of';
done_testing;
