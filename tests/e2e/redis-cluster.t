# Goal of this test: two instances sell from one database over a Redis Cluster, while
# the slots of the product's locks move from node to node. Nobody is told anything but
# yes and sold out. A node that is away is told, and sells again when it is back. One that
# hangs does not keep the products whose locks are on the others.
use lib 'tests/e2e';
use Stockade;
use Stockade::Cluster;

my $cluster = Stockade::Cluster->start;
my @args    = qw(--shared --lock fenced --lock-wait-ms 5000 --no-seed);
my $one     = Stockade->start(redis => $cluster->url, args => \@args);
my $two     = Stockade->start(redis => $cluster->url, args => \@args, dir => $one->dir);

my $UNITS = 1500;
$one->product(40, $UNITS, segments => 3);
sub left { return $one->get('/api/products/40')->{body}{stock} }

my $load = Stockade::Load->start(servers => [$one, $two], product => 40, clients => 8);
my $moves = 0;
while (my $left = left()) {
    for my $segment (0 .. 2) {
        $cluster->move("lock:{40:$segment}");
        $moves++;
    }
}
my $told = $load->finish;
cmp_ok $moves, '>=', 3, 'slots moved meanwhile';
diag "$moves moves";
is delete $told->{status}{201}, $UNITS, "$UNITS units, $UNITS orders acknowledged";
is_deeply [keys %{ $told->{status} }], [409], 'nobody heard anything but yes and sold out' or diag explain $told->{status};
$one->balances('moved', acked => $told->{file});
unlike $_->log, qr/msg=hints redis=|min_replicas/, 'no hint was in trouble' for $one, $two;
my %on = map { $_->{port} => 1 } map { $cluster->owner("lock:{40:$_}") } 0 .. 2;
cmp_ok scalar keys %on, '>', 1, 'its locks are on several nodes';

# ---- a node that is away ------------------------------------------------------

my ($product) = grep { my $id = $_; $cluster->owner("lock:{$id:0}") == ($cluster->nodes)[0] } 50 .. 99;
my ($other)   = grep { my $id = $_; $cluster->owner("lock:{$id:0}") != ($cluster->nodes)[0] } 50 .. 99;
$one->product($_, 100) for $product, $other;
is $one->order($_)->{status}, 201, "$_ sells" for $product, $other;
my $gone = ($cluster->nodes)[0];
$gone->kill9;
ok Stockade::eventually(10, sub { Stockade::slug($one->order($product)) eq 'lock-unreachable' }), 'a node is away: it is said';
is $one->order($other)->{status}, 201, 'what is on another one sells';
$gone->again;
ok Stockade::eventually(20, sub { $one->order($product)->{status} == 201 }), 'back: it sells again';

# ---- a node that hangs --------------------------------------------------------

# Each try of its locks takes a whole timeout, and the lock library has four threads.
my @hung = grep { $cluster->owner("lock:{$_:0}") == $gone } 100 .. 299;
$#hung = 39;
$one->product($_, 100) for @hung;
my @all_refused = (503) x @hung;
sub asked { return map { Stockade::Load::ask($one, $_, 1) } @_ }
$gone->pause;
is_deeply [map { $_->()->[0] } asked(@hung)], \@all_refused, 'a node hangs: nobody buys what is locked there';
my @again = asked(@hung);
is $one->order($other)->{status}, 201, 'what is on another node sells';
is_deeply [map { $_->()->[0] } @again], \@all_refused, 'and still nobody buys there';
$gone->resume;
ok Stockade::eventually(20, sub { $one->order($hung[0])->{status} == 201 }), 'it goes on: it sells again';
is_deeply [map { $_->()->[0] } asked(@hung)], [(201) x @hung], 'all at once, too';
$_->ends('in the end') for $one, $two;
$cluster->stop;
done_testing;
