# Goal of this test: kill -9 in the middle of a sale over segments, at random
# moments, while orders are gathered and cancelled, and the product is resized,
# restocked and warmed up without a pause. After each: what was acknowledged is
# there, nothing is there twice, each cell's account is right, and the warm keys
# are soon what the database says. In the end every unit is sold, and nobody has
# heard "sold out" with units left.
#
# What is under way when it dies is not left to chance, but which step of that it
# is at; tests/test_store_segments_crash.c and tests/test_segment_steps.c die at
# each of them.
#
# STOCKADE_SEED=N makes it the same moments again.
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

# In all sales together: orders from several segments, by what became of them;
# and how often death came with such a thing under way.
my %gathered = (placed => 0, cancelled => 0);
my %killed = map { $_ => 0 } @DEEDS;

# As much as happens in one life, one after the other, while units are bought.
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

sub soon_same {
    my ($redis, $db) = @_;
    my @wrong;
    Stockade::eventually(5, sub { !(@wrong = Stockade::Ledger::keys_differ($redis, $db, $PRODUCT)) });
    return \@wrong;
}

# Until some moment, and on from there until one of the servers does that deed, and
# a moment longer: that server. What is over before is begun again.
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
    my $differ = soon_same($redis, $victim->db);
    is_deeply $differ, [], "$what: the keys say what the database says" or diag explain $differ;
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
            # What a dead holder leaves behind is gone soon.
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
    is_deeply soon_same($redis, $servers[0]->db), [], "$what: the keys say what the database says";
    is $_->stop, 0, "$what: ends" for @servers;
    look_back($what, $servers[0]->db);
    return;
}

sub look_back {
    my ($what, $db) = @_;
    my $left = 0;
    $left += $_->{stock} for Stockade::Ledger::cells($db, $PRODUCT);
    is $left, 0, "$what: every unit is sold";
    for my $row (Stockade::Ledger::rows($db,
        'SELECT state, COUNT(DISTINCT number) FROM parts JOIN orders USING (number) GROUP BY state'))
    {
        $gathered{ $row->[0] ? 'cancelled' : 'placed' } += $row->[1];
    }
    return;
}

sale_with_kills('combine', 1, 40);
sale_with_kills('direct',  1, 20, '--desk', 'direct', '--workers', 16);
sale_with_kills('two',     2, 20);
cmp_ok $gathered{$_}, '>', 0, "gathered orders that are $_: $gathered{$_}" for sort keys %gathered;
cmp_ok $killed{$_}, '>', 0, "killed with this under way: $_: $killed{$_} times" for sort keys %killed;
done_testing;
