# Goal of this test: a product over segments, as customers see it. Scenarios 34,
# 35 and 40; the first one also with its bug: with --deduct naive an order asks one
# segment only, as in textbooks. 37, a resize: segment-sale.t, test_store_segments.c.
use lib 'tests/e2e';
use Digest::SHA qw(sha1_hex);
use Stockade;
use Time::HiRes qw(time);

my $redis  = Stockade::Redis->start;
my $server;
my @SHARED = qw(--no-seed --shared --lock fenced);

sub says {
    my ($reply, $slug, $what) = @_;
    return is(Stockade::slug($reply), $slug, $what) || diag $reply->{raw};
}
sub sells { my ($reply, $what) = @_; return says($reply, '', $what) && is $reply->{status}, 201, $what }
sub stock_of { my ($from, $id) = @_; return $from->get("/api/products/$id")->{body}{stock} }

sub segment_of { my ($from, $id) = @_; return $from->get("/api/orders/$id")->{body}{segment} }

sub stock_by_segment {
    my ($from, $id) = @_;
    return join ' ', map { $_->{stock} } @{ $from->get("/api/products/$id")->{body}{stock_by_segment} };
}

sub sound {
    my ($what, $from, $stranded) = @_;
    my $verdict = $from->balances($what);
    is_deeply [grep { $_->{drift} || ($_->{retired} && $_->{stock}) } @{ $verdict->{lines} }], [],
        "$what: segment by segment, and no unit is stranded";
    return;
}

# In batches, and order by order.
for my $way (qw(one-by-one batched)) {
    $server = Stockade->start(redis => $redis, args => ['--no-seed', '--lock', 'fenced', '--orders', $way]);

    # ---- 34: a buyer belongs to no segment ---------------------------------------

    # The same user every time: with hash(user) mod 8 it would be sold out after five.
    $server->product(34, 40, segments => 8);
    sells $server->order(34, 7), "34 $way: unit $_, of the same user" for 1 .. 40;
    is stock_by_segment($server, 34), '0 0 0 0 0 0 0 0', "34 $way: from all segments";
    says $server->order(34, 7), 'sold-out', "34 $way: sold out when there is nothing left, and not before";
    is $server->metric('stockade_false_sold_out_total'), 0, "34 $way: and it has looked whether that was so";

    # ---- 35: fragments -----------------------------------------------------------

    $server->product(35, 8, segments => 8);
    is stock_by_segment($server, 35), '1 1 1 1 1 1 1 1', "35 $way: eight segments of one";
    my @pairs = map { $server->order(35, undef, 2)->{body}{id} } 1 .. 4;
    is scalar(grep { defined } @pairs), 4, "35 $way: four orders of two";
    like segment_of($server, $_), qr/^[0-7]$/, "35 $way: each has one segment" for @pairs;
    is stock_by_segment($server, 35), '0 0 0 0 0 0 0 0', "35 $way: from all segments";
    says $server->order(35, undef, 2), 'sold-out', "35 $way: and now there are none";
    is $server->delete("/api/orders/$pairs[1]")->{status}, 200, "35 $way: one is cancelled";
    is $server->delete("/api/orders/$pairs[1]")->{status}, 200, "35 $way: twice";
    is stock_of($server, 35), 2, "35 $way: two units are back, once";
    says $server->order(35, undef, 3), 'sold-out', "35 $way: three are not there";
    sells $server->order(35, undef, 2), "35 $way: two are";
    sound "35 $way", $server;

    is $server->stop, 0, "$way: ends";
}

# ---- 34, the bug -------------------------------------------------------------

my $naive = Stockade->start(args => [qw(--no-seed --lock fenced --deduct naive --orders one-by-one)]);
$naive->product(34, 40, segments => 8);
sells $naive->order(34), "naive: unit $_ of one segment" for 1 .. 5;
says $naive->order(34), 'sold-out', 'naive: it says that it is sold out';
is stock_of($naive, 34), 35, 'naive: with 35 units in other segments';
ok Stockade::eventually(5, sub { ($naive->metric('stockade_false_sold_out_total') || 0) == 1 }), 'naive: and it notices the lie';
is $naive->stop, 0, 'naive: ends';

# ---- 40: "sold out" does not stick, nor elsewhere ------------------------------

# What Redis was told while CODE ran: each command as one text.
sub commands_during {
    my ($code) = @_;
    $redis->command(qw(CONFIG SET slowlog-log-slower-than), $_) for 0;
    $redis->command(qw(CONFIG SET slowlog-max-len 100000));
    $redis->command(qw(SLOWLOG RESET));
    $code->();
    my @said = map { join ' ', @{ $_->[3] } } @{ $redis->command(qw(SLOWLOG GET 100000)) };
    $redis->command(qw(CONFIG SET slowlog-log-slower-than -1));
    return @said;
}

# So far: locks that were asked for; batches; and all that the database has, but for a
# row of the probe's, which writes when it was not heard of for a second.
sub locks_of { return map { $_->metric('stockade_lock_wait_seconds_count') } @_ }
sub batches_of { my $n = 0; $n += $_->metric('stockade_batch_orders_count') for @_; return $n }
sub rows_of {
    my ($server) = @_;
    my @rows = qx(sqlite3 -cmd '.timeout 20000' '${\ $server->db}' .dump);
    return sha1_hex(grep { !/'readyz-/ } @rows);
}

# Orders that come too late are refused without a lock, and nothing is written.
# Without a key most are refused from memory: one a second is checked.
my $keys = 0;
my $inspect = sha1_hex(Stockade::slurp("$Stockade::ROOT/lock/inspect.lua") =~ s/^ *(?:--.*)?\n//gmr);
my $looks   = qr/^(?:unsubscribe|pubsub|evalsha $inspect|hgetall|pttl) /i;

sub refuses_for_nothing {
    my ($id, $what, @servers) = @_;
    says $_->order($id), 'sold-out', "$what: sold out" for @servers;
    ok Stockade::eventually(5, sub { !$redis->locks }), "$what: nobody has a lock";
    my @locks   = locks_of(@servers);
    my $rows    = rows_of($servers[0]);
    my $batches = batches_of(@servers);
    my $begin   = time;
    my %says;
    my @told = commands_during(sub {
        for my $server (@servers) {
            $says{ Stockade::slug($server->order($id)) }++ for 1 .. 25;
            $says{ Stockade::slug($server->order($id, undef, 1, 'late-' . ++$keys)) }++ for 1 .. 25;
        }
    });
    is_deeply \%says, { 'sold-out' => 50 * @servers }, "$what: fifty more hear so";
    is_deeply [locks_of(@servers)], \@locks, "$what: without a lock";
    is rows_of($servers[0]), $rows, "$what: nothing is written";
    cmp_ok batches_of(@servers) - $batches, '<=', @servers * (25 + 2 + time - $begin), "$what: hardly a batch but for the keys";
    # An instance that has waited for the lock may still be ending its subscription,
    # and the one that gave it back may still be looking at it.
    is_deeply [grep { /lock:/ && !/$looks/ } @told], [], "$what: Redis was not asked for one";
    return;
}

# A cancel at one, and the very next order at the other. In between both refuse
# from memory.
my $one = Stockade->start(redis => $redis, args => \@SHARED);
my $two = Stockade->start(redis => $redis, args => \@SHARED, dir => $one->dir);
$one->product(40, 16, segments => 8);
my @bought = map { ($one, $two)[$_ % 2]->order(40, $_, 2, "bought-$_") } 1 .. 8;
sells $_, '40: an order' for @bought;
@bought = map { $_->{body}{id} } @bought;
for my $round (1 .. 6) {
    my ($here, $there) = $round % 2 ? ($one, $two) : ($two, $one);
    refuses_for_nothing(40, "40.$round", $here, $there);
    is $here->order(40, 8, 2, 'bought-8')->{status}, 201, "40.$round: a repeated key hears of its order";
    is $here->delete('/api/orders/' . shift @bought)->{status}, 200, "40.$round: one is cancelled here";
    my $next = $there->order(40, undef, 2);
    sells $next, "40.$round: and the very next order there gets it";
    push @bought, $next->{body}{id};
}
says $_->order(40), 'sold-out', '40: sold out' for $one, $two;
is $one->post('/api/products/40/restock', { quantity => 1 })->{status}, 200, '40: one unit comes';
sells $two->order(40), '40: and the very next order gets it';
for ($one, $two) {
    is $_->metric('stockade_false_sold_out_total'), 0, '40: nobody was told so wrongly';
    cmp_ok $_->metric('stockade_sold_out_checks_total'), '>', 0, '40: and it has looked whether that was so';
}
sound '40', $one;
is $_->stop, 0, 'ends' for $one, $two;
done_testing;
