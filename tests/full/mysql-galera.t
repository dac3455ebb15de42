# Goal of this test: two instances sell one hot product on two nodes of a Galera
# cluster, without a lock between them, and no unit is sold twice: what is sold is as
# much as there are orders, and every acknowledged order is on both nodes. A limit may
# be set on one while the other sells. The store's rules hold between two nodes. A node that
# is not synced is 503 with Retry-After, and recovers by itself.
#
# GALERA_SECONDS=600 is the long form: most of what goes wrong between nodes does so while a
# limit changes, and that is in the first six seconds.
use lib 'tests/e2e';
use Stockade;
use Stockade::Mariadb;

plan skip_all => 'needs galera-4, and wsrep_sst_rsync of mariadb-server' if !Stockade::Mariadb::has_galera();

my $SECONDS = $ENV{GALERA_SECONDS} || 4;
my $redis   = Stockade::Redis->start;
my @nodes   = Stockade::Mariadb->cluster(2);
my $name    = $nodes[0]->database =~ s/.*db=(\w+).*/$1/r;
my @urls    = map { 'mysql:unix:' . $_->socket_path . "?db=$name&user=root" } @nodes;
ok Stockade::eventually(10, sub { $nodes[1]->sql("SHOW DATABASES LIKE '$name'") }), 'two nodes, one cluster';

# Each rule's two transactions on two nodes, statement by statement.
{
    my ($build) = Stockade::binary() =~ m{(.*)/[^/]+$};
    local $ENV{STORE_RIG_MYSQL}   = 'mysql:unix:' . $nodes[0]->socket_path;
    local $ENV{STORE_RIG_MYSQL_2} = 'mysql:unix:' . $nodes[1]->socket_path;
    for my $test (qw(test_store_meet test_store_conflicts)) {
        my $said = `timeout 450 $build/tests/$test 2>&1`;
        is $? >> 8, 0, "$test on two nodes" or diag $said;
    }
}
ok Stockade::eventually(30, sub { $nodes[1]->is_synced }), 'synced after that';

sub instances {
    my (@args) = @_;
    return map { Stockade->start(redis => $redis, db_url => $_, args => ['--shared', @args]) } @urls;
}

for my $lock ('none', 'fenced') {
    my $what    = "lock $lock";
    my @servers = instances('--lock', $lock);
    $servers[0]->product($lock eq 'none' ? 40 : 41, 100_000_000);
    my $load = Stockade::Load->start(servers => \@servers, product => $lock eq 'none' ? 40 : 41, name => $lock);
    ok $load->wait_for(50, 60), "$what: sells";
    for my $limit ((0, 1_000_000) x 3) {
        my $changed = $servers[1]->patch("/api/products/" . ($lock eq 'none' ? 40 : 41),
            { limit_per_user => $limit }, { 'Content-Type' => 'application/merge-patch+json' });
        is $changed->{status}, 200, "$what: limit $limit in mid-sale";
        sleep 1;
    }
    sleep($lock eq 'none' ? $SECONDS : $SECONDS / 2);
    my $told = $load->finish;
    diag "$what: ", explain $told->{status};
    cmp_ok scalar @{ $told->{acked} }, '>=', 50, "$what: " . @{ $told->{acked} } . ' acknowledged';
    for my $server (@servers) {
        my $verdict = $server->ends($what, acked => $told->{file}, seconds => 60 + $SECONDS);
        is $verdict->{lost}, 0, "$what: nothing is lost";
        is $verdict->{miscounted}, 0, "$what: every user's units are counted";
        is $verdict->{sold}, $verdict->{orders}, "$what: as many units as orders";
    }
}

my ($server, $cut_off) = instances('--lock', 'none');
my $isolate = sub { $nodes[1]->sql("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=$_[0]'") };
my $placed = $cut_off->order(40);
is $placed->{status}, 201, 'both nodes sell';
$nodes[1]->sql("KILL $_") for split ' ', $nodes[1]->sql("SELECT id FROM information_schema.processlist WHERE db = '$name'");
$isolate->(1);
my $reply;
ok Stockade::eventually(30, sub { $reply = $cut_off->order(40, 7, 1, 'alone'); $reply->{status} == 503 }), 'a node that is cut off: 503';
like $reply->{headers}{'retry-after'}, qr/^[1-9]\d*$/, 'cut off: Retry-After';
ok Stockade::eventually(30, sub { !$nodes[1]->is_synced }), 'cut off: not synced';
# Readers connect anew, and hear that the node is not synced: not that there is no order.
is $cut_off->get("/api/orders/$placed->{body}{id}")->{status}, 503, 'cut off: an order cannot be looked up' for 1 .. 5;
ok Stockade::eventually(30, sub { $server->order(40)->{status} == 201 }), 'the other node sells on';
my $refused = Stockade::run(['serve', '--check-config', '--db', $urls[1], '--redis', $redis->url]);
isnt $refused->{exit}, 0, 'cut off: no instance starts there';
like $refused->{err}, qr/wsrep_ready/, 'cut off: and says why';
$isolate->(0);
ok Stockade::eventually(60, sub { $cut_off->order(40)->{status} == 201 }), 'it sells again by itself' or diag $cut_off->log;
is $cut_off->order(40, 7, 1, 'alone')->{status}, 201, 'a repeated key gets an order';
$cut_off->ends('in the end', seconds => 60 + $SECONDS);
$server->ends('in the end, the other', seconds => 60 + $SECONDS);
done_testing;
