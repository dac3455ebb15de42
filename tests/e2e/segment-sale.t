# Goal of this test: a sale over 16 segments, of 1 to 7 units an order, while orders
# are cancelled, some twice, the product is resized four times, restocked and warmed
# up, and Redis loses its data twice. Nobody hears "not now" because of any of that,
# nobody hears "sold out" too early, and in the end all is sold and the ledger is
# exact, order by order and segment by segment.
#
# STOCKADE_UNITS=N sells N units, and then in other ways as well:
# tests/full/segment-sale.t does.
# STOCKADE_SEED=N makes the customers want the same again.
use lib 'tests/e2e';
my ($seed, $UNITS, $is_full);
BEGIN {
    $seed    = $ENV{STOCKADE_SEED} || time ^ $$ << 8;
    $UNITS   = 0 + ($ENV{STOCKADE_UNITS} || 8_000);
    $is_full = defined $ENV{STOCKADE_UNITS};
}
use Stockade;
use Stockade::Ledger;
use Stockade::Sale;
use Time::HiRes qw(time);

my $PRODUCT = 40;
my $RESTOCK = 1000;
diag "seed $seed";

# What happens in the course of a sale of so many units, from its first to its last
# quarter.
sub plan_all {
    my ($sale, $redis, $units) = @_;
    my @flush = (do => sub { $redis->command('FLUSHALL') });
    my @steps = (
        [request => $sale->resize(5)],
        \@flush,
        [supplies => $RESTOCK, request => ['POST', "/api/products/$PRODUCT/restock", { quantity => $RESTOCK }, "restock-$PRODUCT"]],
        [request => $sale->resize(40)],
        [request => ['POST', "/api/products/$PRODUCT/warmup"]],
        \@flush,
        [request => $sale->resize(16)],
    );
    $sale->plan(at => $units * ($_ + 1) / (@steps + 1), @{ $steps[$_] }) for 0 .. $#steps;
    # So few in each that units have to be gathered.
    $sale->plan(at => $units - $units / 50, request => $sale->resize(256));
    return;
}

# A scrape shows what a look at the one before has found: NaN before the first.
sub stranded {
    my $server = shift;
    my $units;
    Stockade::eventually(20, sub { $units = $server->metric('stockade_stranded_units'); $units !~ /nan/i });
    return $units;
}

# One sale, from its first unit to its last: (the sale, its Redis, its folder, the
# instances).
sub play {
    my ($what, $instances, $units, @args) = @_;
    my $redis   = Stockade::Redis->start;
    my $dir     = Stockade::tempdir();
    # The disk of a busy machine stands still for seconds now and then.
    my @servers = map {
        Stockade->start(redis => $redis, dir => $dir,
            args => ['--no-seed', '--lock-wait-ms', 10_000 * $Stockade::SLOW, $instances > 1 ? '--shared' : (), @args])
    } 1 .. $instances;
    $servers[0]->product($PRODUCT, $units, segments => 16);
    my $sale = Stockade::Sale->new(servers => \@servers, product => $PRODUCT, units => $units, seed => $seed);
    plan_all($sale, $redis, $units);
    my $begin = time;
    ok $sale->run(seconds => 100) || $sale->not_now, "$what: it ends" or diag $sale->state, map { $_->log } @servers;
    note sprintf '%s: %.1f s, %s', $what, time - $begin, $sale->state;
    return ($sale, $redis, $dir, @servers);
}

# Sells it all, and judges. Where somebody hears "not now", all is played once more, and
# again: it was the machine, that stood still for longer than orders wait, or it happens
# each time.
sub sell {
    my ($what, @how) = @_;
    my ($sale, $redis, $dir, @servers);
    for my $try (1 .. 3) {
        $_->stop for @servers;
        ($sale, $redis, $dir, @servers) = play($what, @how);
        last if !$sale->not_now;
        diag "$what, $try: ", $sale->not_now;
    }
    is $sale->not_now, undef, "$what: nobody hears 'not now'" or return diag $sale->state;
    is_deeply $sale->complaints, [], "$what: every answer is right" or diag explain $sale->complaints;
    is Stockade::slug($_->order($PRODUCT)), 'sold-out', "$what: each instance says that it is sold out" for @servers;
    is $_->metric('stockade_false_sold_out_total'), 0, "$what: no refusal was wrong" for @servers;
    is stranded($_), 0, "$what: no unit is stranded" for @servers;
    is_deeply [Stockade::Ledger::hints_differ($redis, $servers[0], $PRODUCT)], [], "$what: warmed up, the hints are right";
    is $_->stop, 0, "$what: ends" for @servers;
    my @wrong = Stockade::Ledger::judge($servers[0]->db, $sale);
    is_deeply \@wrong, [], "$what: the ledger is exact" or diag explain \@wrong;
    expect_busy($what, $servers[0]->db, $sale);
    return;
}

# All that was to happen has happened.
sub expect_busy {
    my ($what, $db, $sale) = @_;
    my $gathered = Stockade::Ledger::gathered($db, $PRODUCT);
    cmp_ok $gathered->{0}, '>', 0, "$what: some orders were gathered";
    cmp_ok $gathered->{1}, '>', 0, "$what: and some of those cancelled";
    cmp_ok $sale->statuses->{'cancel 200'}, '>', $sale->bought / 100, "$what: there were cancels";
    return;
}

sell('two instances', 2, $UNITS);
if ($is_full) {
    sell('one instance', 1, $UNITS);
    my @one_by_one = qw(--orders one-by-one --workers 16 --lock-wait-ms 20000);
    sell('two instances, one by one', 2, $UNITS / 10, @one_by_one);
    sell('one instance, one by one',  1, $UNITS / 10, @one_by_one);
}
done_testing;
