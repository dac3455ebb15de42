# The verdict on a sale: the database, row by row, against what the customers
# were told. sqlite3 reads the tables, so the verdict does not depend on our own C
# code; `stockade audit` is asked as well.
#
#     my @wrong = Stockade::Ledger::judge($db, $sale);     # () = exact
#     my @wrong = Stockade::Ledger::hints_differ($redis, $server, $product);
#
# Each complaint begins with a word that says of what kind it is. To show that
# judge() finds mistakes, planted() makes wrong ledgers out of a right one, and
# says which complaint each has to give.
package Stockade::Ledger;

use strict;
use warnings;

use File::Copy ();

my $COMPLAINTS = 20;

# Rows of a query, as lists.
sub rows {
    my ($db, $query) = @_;
    open my $out, '-|', 'sqlite3', '-separator', "\t", '-cmd', '.timeout 10000', $db, $query or die "sqlite3: $!";
    my @rows = map { chomp; [split /\t/, $_, -1] } <$out>;
    close $out or die "sqlite3 cannot read $db: $query";
    return @rows;
}

sub judge {
    my ($db, $sale) = @_;
    my $product = $sale->{product};
    my @wrong   = (_orders($db, $sale), _segments($db, $product), _total($db, $sale), _audit($db, $sale));
    splice @wrong, $COMPLAINTS if @wrong > $COMPLAINTS;
    return @wrong;
}

# ---- order by order ---------------------------------------------------------

# Ids are as the customers know them.
sub _orders {
    my ($db, $sale) = @_;
    my ($told, %seen, @wrong) = ($sale->orders);
    for my $row (rows($db, "SELECT user_id, printf('%d-%016x', number, secret), quantity, state "
                . "FROM orders WHERE product_id = $sale->{product}"))
    {
        my ($user, $id, $quantity, $state) = @$row;
        my $order = $told->[$user];
        push @wrong, "doubled: user $user" if $seen{$user}++;
        if (!$order || $order->{told} eq 'no') {
            push @wrong, "phantom: $id of user $user, who was told no";
            next;
        }
        push @wrong, "identity: $id, told $order->{id}" if $order->{told} eq 'yes' && $order->{id} ne $id;
        push @wrong, "quantity: $id has $quantity, told $order->{quantity}" if $order->{quantity} != $quantity;
        push @wrong, "cancel: $id is in state $state, asked: " . ($order->{cancel} || 'no')
            if $state ? !$order->{cancel} : ($order->{cancel} || '') eq 'done';
    }
    push @wrong, map { "lost: $_->{id}" } grep { !$seen{ $_->{user} } } $sale->acked;
    return @wrong;
}

# Orders for which units were moved into their segment, by state: 0 placed,
# 1 cancelled. As far as the times of orders and transfers tell.
sub gathered {
    my ($db, $product) = @_;
    my %gathered = (0 => 0, 1 => 0, map { @$_ } rows($db, <<"SQL"));
SELECT state, COUNT(DISTINCT o.number) FROM orders AS o
JOIN transfers AS t ON t.product_id = o.product_id AND t.to_segment = o.segment
    AND t.units < o.quantity AND t.created_ms BETWEEN o.created_ms AND o.created_ms + 5
WHERE o.product_id = $product GROUP BY state
SQL
    return \%gathered;
}

# ---- segment by segment -----------------------------------------------------

# {segment, initial, stock, active, placed, supplied} of each segment there ever
# was: placed from the orders alone; supplied from first units and restocks, which
# enter at segment 0, and from the transfers.
sub segments {
    my ($db, $product) = @_;
    my @columns = qw(segment initial stock active placed supplied);
    return map {
        my %segment;
        @segment{@columns} = @$_;
        \%segment
    } rows($db, <<"SQL");
SELECT segment, initial, stock, active,
    (SELECT IFNULL(SUM(quantity), 0) FROM orders AS o
     WHERE o.product_id = s.product_id AND o.segment = s.segment AND state = 0),
    (SELECT IFNULL(SUM(units), 0) FROM (
        SELECT id AS product_id, 0 AS segment, first_units AS units FROM products
        UNION ALL SELECT product_id, 0, quantity FROM restocks
        UNION ALL SELECT product_id, to_segment, units FROM transfers
        UNION ALL SELECT product_id, from_segment, -units FROM transfers
    ) AS t WHERE t.product_id = s.product_id AND t.segment = s.segment)
FROM segments AS s WHERE product_id = $product ORDER BY 1
SQL
}

sub _segments {
    my ($db, $product) = @_;
    my @wrong;
    for my $segment (segments($db, $product)) {
        my $drift   = $segment->{initial} - $segment->{stock} - $segment->{placed};
        my $unknown = $segment->{initial} - $segment->{supplied};
        push @wrong, "segment: $segment->{segment} drifts by $drift" if $drift;
        push @wrong, "record: $unknown units of $segment->{segment} have no record" if $unknown;
        push @wrong, "stranded: $segment->{stock} in $segment->{segment}" if !$segment->{active} && $segment->{stock};
    }
    return @wrong;
}

# ---- all together -----------------------------------------------------------

sub _total {
    my ($db, $sale) = @_;
    my ($initial, $stock, $placed) = (0, 0, 0);
    for my $segment (segments($db, $sale->{product})) {
        $initial += $segment->{initial};
        $stock   += $segment->{stock};
        $placed  += $segment->{placed};
    }
    my $supplied = $sale->supplied;
    return if $stock + $placed == $initial && $initial == $supplied;
    return "total: $placed placed, $stock left, $initial on account, of $supplied";
}

sub _audit {
    my ($db, $sale) = @_;
    my $dir   = Stockade::tempdir();
    my $acked = Stockade::write_file("$dir/acked", join '', map { "$_->{id}\n" } $sale->acked);
    my $ran   = Stockade::run(['audit', '--db', "sqlite:$db", '--json', '--acked', $acked]);
    my $said = eval { JSON::PP::decode_json($ran->{out}) } or return "audit: could not tell: $ran->{err}";
    my @wrong;
    push @wrong, "audit: exit $ran->{exit}" if $ran->{exit} != 0;
    push @wrong, 'audit: not balanced' if !$said->{balanced};
    push @wrong, map { "audit: $_ is $said->{$_}" }
        grep { $said->{$_} } qw(oversold undersold phantom negative stranded duplicates lost miscounted fence_regressions unsettled);
    push @wrong, map { "audit: segment $_->{segment} drifts by $_->{drift}" } grep { $_->{drift} } @{ $said->{lines} };
    return @wrong;
}

# ---- the stock hints --------------------------------------------------------

# The keys in Redis against the database, after a warmup and with nothing under way.
# Tried for a moment: a hint of before may still be on its way.
sub hints_differ {
    my ($redis, $server, $product) = @_;
    my @wrong;
    Stockade::eventually(5, sub {
        my $reply = $server->post("/api/products/$product/warmup", {});
        @wrong = $reply->{status} == 200 ? _hints_differ($redis, $server->db, $product) : ("hint: warmup: $reply->{raw}");
        return !@wrong;
    });
    return @wrong;
}

sub _hints_differ {
    my ($redis, $db, $product) = @_;
    my @wrong;
    for my $segment (grep { $_->{active} } segments($db, $product)) {
        my $name = "stock:{$product:$segment->{segment}}";
        my $says = $redis->command('GET', $name);
        $says = 'nothing' if !defined $says;
        push @wrong, "hint: $name says $says, not $segment->{stock}" if $says ne $segment->{stock};
    }
    splice @wrong, $COMPLAINTS if @wrong > $COMPLAINTS;
    return @wrong;
}

# ---- wrong ledgers ----------------------------------------------------------

# Bugs, by what they leave behind: [name, the complaint that judge() has to give,
# SQL]. Each leaves one row wrong, in spite of the schema's constraints.
sub _bugs {
    my ($product) = @_;
    my $in   = "product_id = $product";
    my $some = "SELECT number FROM orders WHERE $in AND state = 0 ORDER BY number DESC LIMIT 1";
    my $gone = "SELECT number FROM orders WHERE $in AND state = 1 ORDER BY number DESC LIMIT 1";
    return (
        ['an order is lost', 'lost', "DELETE FROM orders WHERE number = ($some)"],
        ['an order is stored twice', 'doubled',
            'INSERT INTO orders SELECT number + 1000000, secret, product_id, segment, user_id, quantity, price_cents, '
            . "limit_per_user, fence, state, created_ms, cancelled_ms, NULL, pay_until_ms FROM orders WHERE number = ($some)"],
        ['an order nobody was told of', 'phantom', "UPDATE orders SET user_id = 900000000 WHERE number = ($some)"],
        ['a unit more in an order', 'quantity', "UPDATE orders SET quantity = quantity + 1 WHERE number = ($some)"],
        ['a cancelled order is there again', 'cancel', "UPDATE orders SET state = 0, cancelled_ms = 0 WHERE number = ($gone)"],
        ['an order is cancelled, and nobody asked', 'cancel',
            "UPDATE orders SET state = 1, cancelled_ms = 1 WHERE number = ($some)"],
        ['a cancel returned to the wrong segment', 'segment',
            "UPDATE segments SET stock = stock + 1 WHERE $in AND segment = 0; "
            . "UPDATE segments SET initial = initial + 1 WHERE $in AND segment = 1"],
        ['a cancel returned twice', 'total', "UPDATE segments SET initial = initial + 1, stock = stock + 1 WHERE $in AND segment = 0"],
        ['a unit vanished', 'total', "UPDATE segments SET initial = initial - 1 WHERE $in AND segment = 0"],
        ['a unit in a segment that is not in use', 'stranded',
            "UPDATE segments SET active = 0, stock = 1, initial = initial + 1 WHERE $in AND segment = 2; "
            . "UPDATE segments SET initial = initial - 1 WHERE $in AND segment = 1"],
        ['units were moved, and it is not on record', 'record',
            "DELETE FROM transfers WHERE number = (SELECT MAX(number) FROM transfers WHERE $in AND units > 0)"],
    );
}

# A wrong ledger for each bug: [name, complaint, path of the database].
sub planted {
    my ($db, $product, $dir) = @_;
    my @planted;
    for my $bug (_bugs($product)) {
        my ($name, $says, $sql) = @$bug;
        my $wrong = "$dir/wrong" . @planted . '.db';
        File::Copy::copy($db, $wrong) or die "$wrong: $!";
        rows($wrong, "PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON; $sql");
        push @planted, [$name, $says, $wrong];
    }
    return @planted;
}

1;
