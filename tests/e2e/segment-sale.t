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
use HttpRaw;
use List::Util qw(sum0);
use Stockade;
use Time::HiRes qw(CLOCK_MONOTONIC clock_gettime);

my $PRODUCT = 40;
my $PATH    = "/api/products/$PRODUCT";
my $RESTOCK = 1000;
my $CLIENTS = 32;
my $MOST    = 7;       # units in an order
my $KEYS    = 0.25;    # share of orders with an idempotency key
my $CANCELS = 0.1;     # share of orders that are cancelled, some of them twice
my $LATER   = 8;       # orders from one to its cancel, at the most
diag "seed $seed";

# The disk of a busy machine stands still for seconds now and then.
my $WAIT_MS = 10_000 * $Stockade::SLOW;

sub now { return clock_gettime(CLOCK_MONOTONIC) }

# ---- a customer ---------------------------------------------------------------

# Notes have a word for the answer, and the times of the request and the answer.
sub ask {
    my ($load, $socket, $user, $quantity, $bytes) = @_;
    my $begun = now();
    HttpRaw::put($socket, $bytes);
    my $reply = HttpRaw::read_replies($socket, 1)->{replies}[0] // { status => 'none', body => '' };
    my ($id)  = $reply->{body} =~ /"id": *"([^"]+)"/;
    my $word  = $reply->{body} =~ /"(?:state|type)": *"[^"]*?([a-z0-9-]+)"/ && $reply->{status} ne '201' ? $1 : $reply->{status};
    $load->note($word, $PRODUCT, $user, $quantity, '-', $id // '-', $begun, now());
    return ($word, $id);
}

# Buys until the load is over, and then as long as a single unit is left.
sub buy {
    my ($load, $i, $server) = @_;
    my ($socket, $most, @regrets) = (HttpRaw::connect_to($server->port), $MOST);
    srand $seed + $i;
    for (my $n = 1; ; $n++) {
        while (@regrets && $regrets[0][0] <= $n) {
            my (undef, $id, @order) = @{ shift @regrets };
            ask($load, $socket, @order, "DELETE /api/orders/$id HTTP/1.1\r\nHost: localhost\r\n\r\n");
        }
        my ($user, $quantity) = ($i * 1_000_000 + $n, 1 + int rand $most);
        my $key = rand() < $KEYS ? "$load->{name}-$user" : undef;
        my ($word, $id) = ask($load, $socket, $user, $quantity, HttpRaw::order_bytes($user, $key, $PRODUCT, $quantity));
        return if $word ne '201' && ($word ne 'sold-out' || ($load->{over} && $quantity == 1));
        $most = $word eq '201' ? $most : $quantity > 1 ? $quantity - 1 : $MOST;
        select undef, undef, undef, 0.02 if $word ne '201' && $quantity == 1;
        next if $word ne '201' || rand() >= $CANCELS;
        push @regrets, ([$n + 1 + int rand $LATER, $id, $user, $quantity]) x (rand() < 0.3 ? 2 : 1);
    }
}

# ---- what happens to the product ------------------------------------------------

# When such a share of the units is sold.
my @PLAN = (
    [1 / 8,   patch => '', { segments => 5 }],
    [2 / 8,   'flush'],
    [3 / 8,   post => '/restock', { quantity => $RESTOCK }, { 'Idempotency-Key' => 'restock' }],
    [4 / 8,   patch => '', { segments => 40 }],
    [5 / 8,   post => '/warmup', {}],
    [6 / 8,   'flush'],
    [7 / 8,   patch => '', { segments => 16 }],
    # So few in each that units have to be gathered.
    [49 / 50, patch => '', { segments => 256 }],
);

sub sells {
    my ($server, $units, $end) = @_;
    return Stockade::eventually($end - now(), sub { $server->get($PATH)->{body}{sold} >= $units });
}

# All of it, until all is sold: ([when, how much was supplied] ..., what went wrong).
sub disturb {
    my ($redis, $units, @servers) = @_;
    my @supplied = ([0, $units]);
    my $end      = now() + 100 * $Stockade::SLOW;
    for my $step (@PLAN) {
        my ($share, $method, $path, @body) = @$step;
        my $server = $servers[int rand @servers];
        return (\@supplied, "it does not sell $share") if !sells($server, $share * $units, $end);
        if ($method eq 'flush') {
            $redis->command('FLUSHALL');
            next;
        }
        my $reply = $server->$method($PATH . $path, @body);
        return (\@supplied, "$method $path: $reply->{raw}") if $reply->{status} != 200;
        push @supplied, [now(), $RESTOCK] if $path eq '/restock';
    }
    return (\@supplied, sells($servers[0], $units + $RESTOCK, $end) ? () : 'it does not sell all');
}

# ---- the verdict ------------------------------------------------------------------

# What came before a time, of [time, units]: for times that rise.
sub sum_before {
    my @events = sort { $a->[0] <=> $b->[0] } @_;
    my $sum    = 0;
    return sub {
        my ($time) = @_;
        $sum += shift(@events)->[1] while @events && $events[0][0] < $time;
        return $sum;
    };
}

# A refusal was wrong if at every moment from the request to the answer so much was left:
# all that was supplied and returned before the request, less all that others may have
# bought before the answer.
sub refused_wrongly {
    my ($refused, $came, $bought) = @_;
    my $came_before = sum_before(@$came);
    my $gone_before = sum_before(map { [@{$_}{qw(begun quantity)}] } @$bought);
    $_->{left}  = $came_before->($_->{begun}) for sort { $a->{begun} <=> $b->{begun} } @$refused;
    $_->{left} -= $gone_before->($_->{ended}) for sort { $a->{ended} <=> $b->{ended} } @$refused;
    return grep { $_->{left} >= $_->{quantity} } @$refused;
}

sub rows {
    my ($server, $query) = @_;
    return join '', sort qx(sqlite3 -separator ' ' -cmd '.timeout 60000' ${\ $server->db} "$query");
}

# With nothing under way a warmup leaves in Redis what the database has. A hint of before
# may still be on its way.
sub hints_are_right {
    my ($redis, $server) = @_;
    return Stockade::eventually(5, sub {
        my $loaded = $server->post("$PATH/warmup", {});
        my $hint   = sub { $redis->command('GET', "stock:{$PRODUCT:$_[0]{segment}}") // 'nothing' };
        return $loaded->{status} == 200 && !grep { $hint->($_) ne $_->{stock} } @{ $loaded->{body}{stock_by_segment} };
    });
}

# A scrape shows what a look at the one before has found: NaN before the first.
sub stranded {
    my $server = shift;
    my $units;
    Stockade::eventually(20, sub { $units = $server->metric('stockade_stranded_units'); $units !~ /nan/i });
    return $units;
}

# All answers against each other, and the orders, row by row, against the answers.
sub judge {
    my ($what, $load, $server, @supplied) = @_;
    my (%by, %cancelled);
    for my $note (map { @$_ } $load->notes) {
        my %is;
        @is{qw(word product user quantity key id begun ended)} = @$note;
        push @{ $by{ $is{word} } }, \%is;
        $cancelled{ $is{user} } ||= \%is if $is{word} eq 'cancelled';
    }
    my @came  = (@supplied, map { [@{$_}{qw(ended quantity)}] } values %cancelled);
    my @wrong = refused_wrongly($by{'sold-out'}, \@came, $by{201});
    is_deeply \@wrong, [], "$what: nobody hears 'sold out' too early";
    my @orders = map { join(' ', @{$_}{qw(user id quantity)}, $cancelled{ $_->{user} } ? 1 : 0) . "\n" } @{ $by{201} };
    is rows($server, "SELECT user_id, printf('%d-%016x', number, secret), quantity, state FROM orders"), join('', sort @orders),
        "$what: the orders are those of the answers";
    # As far as the times of orders and transfers tell.
    is rows($server, 'SELECT DISTINCT state FROM orders AS o JOIN transfers AS t ON t.to_segment = o.segment'
            . ' AND t.units < o.quantity AND t.created_ms BETWEEN o.created_ms AND o.created_ms + 5'), "0\n1\n",
        "$what: for some units were gathered, and some of those cancelled";
    return;
}

# One sale, from its first unit to its last: {redis, servers, load, supplied, told, wrong}.
sub play {
    my ($instances, $units, @args) = @_;
    my $redis = Stockade::Redis->start;
    my $dir   = Stockade::tempdir();
    push @args, '--no-seed', '--lock-wait-ms', $WAIT_MS, $instances > 1 ? '--shared' : ();
    my @servers = map { Stockade->start(redis => $redis, dir => $dir, args => \@args) } 1 .. $instances;
    $servers[0]->product($PRODUCT, $units, segments => 16);
    my $load  = Stockade::Load->start(servers => \@servers, clients => $CLIENTS, buy => \&buy);
    my ($supplied, @wrong) = disturb($redis, $units, @servers);
    my $told  = $load->finish;
    my $heard = $told->{status};
    push @wrong, map { "$heard->{$_} hear $_" } grep { !/^(?:201|cancelled|sold-out)$/ } sort keys %$heard;
    return { redis => $redis, servers => \@servers, load => $load, supplied => $supplied, told => $told, wrong => \@wrong };
}

# Plays it, and judges. Where somebody hears "not now", all is played once more, and
# again: it was the machine, that stood still for longer than orders wait, or it happens
# each time.
sub sell {
    my ($what, @how) = @_;
    my $sale;
    for my $try (1 .. 3) {
        $_->stop for $sale ? @{ $sale->{servers} } : ();
        $sale = play(@how);
        last if !grep { !/^it does not/ } @{ $sale->{wrong} };
        diag "$what, $try: @{ $sale->{wrong} }";
    }
    is_deeply $sale->{wrong}, [], "$what: it ends, and nobody hears 'not now'" or return;
    my @servers = @{ $sale->{servers} };
    is Stockade::slug($_->order($PRODUCT)), 'sold-out', "$what: each instance says that it is sold out" for @servers;
    is $_->metric('stockade_false_sold_out_total'), 0, "$what: no refusal was wrong" for @servers;
    is stranded($_), 0, "$what: no unit is stranded" for @servers;
    ok hints_are_right($sale->{redis}, $servers[0]), "$what: warmed up, the hints are right";
    is $_->stop, 0, "$what: ends" for @servers;
    judge($what, $sale->{load}, $servers[0], @{ $sale->{supplied} });
    my $verdict = $servers[0]->balances($what, acked => $sale->{told}{file});
    is $verdict->{sold}, sum0(map { $_->[1] } @{ $sale->{supplied} }), "$what: all is sold";
    is_deeply [grep { $verdict->{$_} } qw(oversold undersold phantom negative stranded duplicates lost miscounted fence_regressions unsettled)], [],
        "$what: the ledger is exact";
    is_deeply [grep { $_->{drift} } @{ $verdict->{lines} }], [], "$what: segment by segment";
    return;
}

sell('two instances', 2, $UNITS);
if ($is_full) {
    sell('one instance', 1, $UNITS);
    my @one_by_one = qw(--orders one-by-one --workers 16);
    sell('two instances, one by one', 2, $UNITS / 10, @one_by_one);
    sell('one instance, one by one',  1, $UNITS / 10, @one_by_one);
}
done_testing;
