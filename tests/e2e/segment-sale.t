# Goal of this test: a sale over 16 segments, of 1 to 7 units an order, with all
# that may happen to it: orders are cancelled, some twice; the product is resized
# four times, restocked and warmed up; Redis loses its data twice. It ends when
# everybody has heard "sold out", and then the ledger is exact, order by order and
# cell by cell; nobody heard it too early; and every "not now" said when to come
# back.
#
# STOCKADE_UNITS=N sells N units, and then in other ways as well:
# tests/full/segment-sale.t sells 100,000.
# STOCKADE_SEED=N makes the customers want the same again.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
my ($seed, $UNITS, $is_full);
BEGIN {
    $seed    = $ENV{STOCKADE_SEED} || time ^ $$ << 8;
    $UNITS   = 0 + ($ENV{STOCKADE_UNITS} || 8_000);
    $is_full = defined $ENV{STOCKADE_UNITS};
}
use Stockade;
use Stockade::Ledger;
use Stockade::Sale;
use Test::More;
use Time::HiRes qw(time);

my $PRODUCT = 40;
my $RESTOCK = 1000;
diag "seed $seed";

# All that happens in the course of a sale of so many units, from its first to
# its last quarter: not in the order of what is likely to go well.
sub plan_all {
    my ($sale, $redis, $units) = @_;
    my $flush = sub {
        $sale->{early} = $sale->statuses->{'order 503 warming-up'} || 0 if !defined $sale->{early};
        $redis->command('FLUSHALL');
    };
    my @steps = (
        ['resize to 5',  request => $sale->resize(5)],
        ['FLUSHALL',     do => $flush],
        ['restock',      supplies => $RESTOCK,
            request => ['POST', "/api/products/$PRODUCT/restock", { quantity => $RESTOCK }, "restock-$PRODUCT"]],
        ['resize to 40', request => $sale->resize(40)],
        ['warm up',      request => ['POST', "/api/products/$PRODUCT/warmup"]],
        ['FLUSHALL',     do => $flush],
        ['resize to 16', request => $sale->resize(16)],
    );
    for my $i (0 .. $#steps) {
        my ($what, @how) = @{ $steps[$i] };
        $sale->plan(at => $units * ($i + 1) / (@steps + 1), what => $what, @how);
    }
    # So few in each that orders have to be gathered.
    $sale->plan(at => $units - $units / 50, what => 'resize to 256', request => $sale->resize(256));
    return;
}

# Sells it all; judges; the database's path.
sub sell {
    my ($what, $instances, $units, @args) = @_;
    my $redis   = Stockade::Redis->start;
    my $dir     = Stockade::tempdir();
    my @servers = map {
        Stockade->start(redis => $redis, dir => $dir, args => ['--no-seed', '--lock-wait-ms', 5000, $instances > 1 ? '--shared' : (), @args])
    } 1 .. $instances;
    $servers[0]->product($PRODUCT, $units, segments => 16);
    my $sale = Stockade::Sale->new(servers => \@servers, product => $PRODUCT, units => $units, seed => $seed);
    plan_all($sale, $redis, $units);
    my $begin = time;
    # Everybody stops for a while, with much left: what is told then?
    for my $part (1 .. 5) {
        $sale->run(until => sub { $sale->bought >= $units * $part / 6 });
        is_deeply [eventually_right($redis, $servers[0]->db)], [], "$what: the warm keys are right ($part of 6)";
    }
    ok $sale->run(seconds => 100), "$what: it ends" or diag $sale->state, map { $_->log } @servers;
    note sprintf '%s: %.1f s, %s', $what, time - $begin, $sale->state;
    is_deeply $sale->complaints, [], "$what: nobody was lied to" or diag explain $sale->complaints;
    is $sale->{early}, 0, "$what: no keys were missed before Redis had lost them";
    is eventually_says($_), 'sold-out', "$what: each says that it is sold out" for @servers;
    is $_->metric('stockade_false_sold_out_total'), 0, "$what: none has found itself wrong about that" for @servers;
    is_deeply [eventually_right($redis, $servers[0]->db)], [], "$what: the warm keys say what the database says";
    is $_->metric('stockade_stranded_units'), 0, "$what: no unit is stranded" for @servers;
    is $_->stop, 0, "$what: ends" for @servers;
    my @wrong = Stockade::Ledger::judge($servers[0]->db, $sale);
    is_deeply \@wrong, [], "$what: the ledger is exact" or diag explain \@wrong;
    expect_busy($what, $servers[0]->db, $sale);
    return ($servers[0]->db, $sale, $dir);
}

# Its keys may be under way still: then it says so.
sub eventually_says {
    my ($server) = @_;
    my $says;
    Stockade::eventually(5, sub { ($says = Stockade::slug($server->order($PRODUCT))) ne 'warming-up' });
    return $says;
}

# What the warmer has still to tell, it tells soon.
sub eventually_right {
    my ($redis, $db) = @_;
    my @wrong;
    Stockade::eventually(5, sub { !(@wrong = Stockade::Ledger::keys_differ($redis, $db, $PRODUCT)) });
    return @wrong;
}

# All is sold; and all that was to happen has happened, to somebody.
sub expect_busy {
    my ($what, $db, $sale) = @_;
    my ($left, $placed) = (0, 0);
    for my $cell (Stockade::Ledger::cells($db, $PRODUCT)) {
        $left   += $cell->{stock};
        $placed += $cell->{drawn};
    }
    is $placed, $sale->supplied, "$what: every unit is sold";
    is $left,   0, "$what: none is left";
    my $gathered = 'SELECT COUNT(DISTINCT number) FROM parts JOIN orders USING (number) WHERE state =';
    cmp_ok +(Stockade::Ledger::rows($db, "$gathered 0"))[0][0], '>', 0, "$what: some orders were gathered";
    cmp_ok +(Stockade::Ledger::rows($db, "$gathered 1"))[0][0], '>', 0, "$what: and some of those cancelled";
    cmp_ok $sale->statuses->{'cancel 200'}, '>', $sale->bought / 100, "$what: there were cancels";
    return;
}

my @last = sell('two instances', 2, $UNITS);
if ($is_full) {
    sell('one instance', 1, $UNITS);
    sell('two instances, direct', 2, $UNITS / 10, '--desk', 'direct', '--workers', 16);
    sell('one instance, direct',  1, $UNITS / 10, '--desk', 'direct', '--workers', 16);
}

# Who judged could have judged otherwise.
my ($db, $sale, $dir) = @last;
for my $planted (Stockade::Ledger::planted($db, $PRODUCT, $dir)) {
    my ($bug, $says, $wrong) = @$planted;
    my @said = Stockade::Ledger::judge($wrong, $sale);
    ok scalar(grep { /^$says:/ } @said), "planted: $bug: found" or diag explain \@said;
}
done_testing;
