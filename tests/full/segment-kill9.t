# Goal of this test: kill -9 in the middle of a sale over segments, at random
# moments, while orders are gathered and cancelled, and the product is resized,
# restocked and warmed up without a pause. After each: what was acknowledged is
# there, nothing is there twice, each segment's account is right, and the server
# that starts again can warm up. In the end every unit is sold, and nobody has heard
# "sold out" with units left.
#
# The test makes sure that such a thing is under way when the server dies;
# test_store_crash.c dies at each step of it.
#
# STOCKADE_SEED=N makes it the same moments again. `make test-long` kills twice as often.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../e2e";
my $seed;
BEGIN { $seed = $ENV{STOCKADE_SEED} || time ^ $$ << 8 }
use Stockade;
use Stockade::Ledger;
use Stockade::Sale;
use Test::More;
use Time::HiRes ();

my $PRODUCT = 40;
my $UNITS   = 700;
my $MORE    = 400;    # in each restock
my @WIDTHS  = (40, 3, 200, 1, 16, 90, 7);
my @DEEDS   = ('order', 'resize', 'warm up', 'restock', 'cancel');
diag "seed $seed";

# In all sales together: gathered orders by state, placed and cancelled; and how
# often a server was killed with such a thing under way.
my %gathered = (0 => 0, 1 => 0);
my %killed = map { $_ => 0 } @DEEDS;

# What happens in one life of a server, while units are bought.
sub plan_life {
    my ($sale, $life) = @_;
    my $at = $sale->bought;
    for my $i (1 .. 8) {
        my $segments = $WIDTHS[int rand @WIDTHS];
        $at += $MORE / 20;
        $sale->plan(at => $at, what => 'resize', request => $sale->resize($segments));
        $sale->plan(at => $at, what => 'warm up', request => ['POST', "/api/products/$PRODUCT/warmup"]);
    }
    $sale->plan(
        at => $at, what => 'restock', supplies => $MORE,
        request => ['POST', "/api/products/$PRODUCT/restock", { quantity => $MORE }, "more-$life"],
    );
    return;
}

# Until a random moment, and from there until a request of that kind is under way,
# and a moment longer: the server that it was sent to. If the sale ends before, it
# gets more units.
sub live {
    my ($servers, $sale, $n, $deed) = @_;
    my $least = Time::HiRes::time() + 0.02 + rand 0.2;
    my @doing;
    my $until = sub {
        @doing = grep { $sale->under_way($_)->{$deed} } @$servers;
        return @doing && Time::HiRes::time() > $least;
    };
    my $lives = 0;
    do { plan_life($sale, "$n-" . $lives++) } while $sale->run(until => $until) && $lives < 20;
    Time::HiRes::sleep(rand 0.003);
    return $doing[int rand @doing];
}

# One life and its end, and the next one.
sub round {
    my ($what, $servers, $redis, $sale, $n) = @_;
    my $deed   = $DEEDS[$n % @DEEDS];
    my $flush  = $n % 3 == 0;
    my $victim = live($servers, $sale, $n, $deed) or die "$what: nobody does this: $deed: " . $sale->state;
    $killed{$_}++ for keys %{ $sale->under_way($victim) };
    $victim->kill9;
    $redis->command('FLUSHALL') if $flush;
    my @wrong = @$servers > 1 ? () : Stockade::Ledger::judge($victim->db, $sale);
    $victim->restart;
    is_deeply \@wrong, [], "$what: the ledger is right" or diag explain \@wrong;
    is $victim->post("/api/products/$PRODUCT/warmup", {})->{status}, 200, "$what: warmed up";
    return;
}

# ROUNDS lives of the first server, or of either of two.
sub sale_with_kills {
    my ($what, $instances, $rounds, @args) = @_;
    my $redis   = Stockade::Redis->start;
    my $dir     = Stockade::tempdir();
    my @servers = map {
        Stockade->start(
            redis => $redis, dir => $dir,
            # So that a dead server's locks are free soon.
            args  => ['--no-seed', '--lock-lease-ms', 300, '--lock-wait-ms', 3000, $instances > 1 ? '--shared' : (), @args],
        )
    } 1 .. $instances;
    $servers[0]->product($PRODUCT, $UNITS, segments => 40);
    my $sale = Stockade::Sale->new(
        servers => \@servers, product => $PRODUCT, units => $UNITS, clients => 32, cancels => 0.3, seed => $seed,
    );
    for my $n (1 .. $rounds) {
        round("$what, $n", \@servers, $redis, $sale, $n);
    }
    ok $sale->run(seconds => 60), "$what: it ends" or diag $sale->state, map { $_->log } @servers;
    note "$what: ", $sale->state;
    is_deeply $sale->complaints, [], "$what: nobody was lied to" or diag explain $sale->complaints;
    my @wrong = Stockade::Ledger::judge($servers[0]->db, $sale);
    is_deeply \@wrong, [], "$what: the ledger is exact" or diag explain \@wrong;
    is_deeply [Stockade::Ledger::hints_differ($redis, $servers[0], $PRODUCT)], [], "$what: warmed up, the hints are right";
    is $_->stop, 0, "$what: ends" for @servers;
    look_back($what, $servers[0]->db);
    return;
}

sub look_back {
    my ($what, $db) = @_;
    my $left = 0;
    $left += $_->{stock} for Stockade::Ledger::segments($db, $PRODUCT);
    is $left, 0, "$what: every unit is sold";
    my $gathered = Stockade::Ledger::gathered($db, $PRODUCT);
    $gathered{$_} += $gathered->{$_} for keys %gathered;
    return;
}

my $times = $ENV{STOCKADE_KILLS} ? 2 : 1;
sale_with_kills('batched',    1, $times * 10);
sale_with_kills('one by one', 1, $times * 5, '--orders', 'one-by-one', '--workers', 16);
sale_with_kills('two',        2, $times * 10);
cmp_ok $gathered{$_}, '>', 0, "gathered orders in state $_: $gathered{$_}" for sort keys %gathered;
cmp_ok $killed{$_}, '>', 0, "killed with this under way: $_: $killed{$_} times" for sort keys %killed;
done_testing;
