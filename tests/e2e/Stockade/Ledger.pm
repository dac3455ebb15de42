# The verdict on a sale: the database, row by row, against what the customers
# were told. Independent of `stockade audit`, which is asked as well, and of all
# that our own C code knows: sqlite3 reads the tables.
#
#     my @wrong = Stockade::Ledger::judge($db, $sale);     # () = exact
#     my @wrong = Stockade::Ledger::keys_differ($redis, $db, $product);
#
# Each complaint begins with a word that says of what kind it is. What finds
# nothing has to be shown to find something: planted() makes wrong ledgers out of
# a right one, and says what is to be said of each.
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
    my @wrong   = (_orders($db, $sale), _cells($db, $product), _total($db, $sale), _audit($db, $sale));
    splice @wrong, $COMPLAINTS if @wrong > $COMPLAINTS;
    return @wrong;
}

# ---- order by order ---------------------------------------------------------

# What is stored of an order, by its user: ids as they are said to customers.
sub _stored {
    my ($db, $product) = @_;
    return rows($db, <<"SQL");
SELECT user_id, printf('%d-%016x', number, secret), quantity, state,
       (SELECT IFNULL(SUM(units), 0) FROM parts WHERE parts.number = orders.number),
       (SELECT COUNT(*) FROM parts WHERE parts.number = orders.number AND parts.segment = orders.segment)
FROM orders WHERE product_id = $product
SQL
}

sub _orders {
    my ($db, $sale) = @_;
    my ($told, %seen, @wrong) = ($sale->orders);
    for my $row (_stored($db, $sale->{product})) {
        my ($user, $id, $quantity, $state, $elsewhere, $twice) = @$row;
        my $order = $told->[$user];
        push @wrong, "doubled: user $user" if $seen{$user}++;
        push @wrong, "parts: $id has $quantity, of which $elsewhere from others" if $elsewhere >= $quantity || $twice;
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

# ---- cell by cell -----------------------------------------------------------

# What is placed of each cell, from the orders alone.
my $DRAWN = <<'SQL';
SELECT segment, SUM(units) AS units FROM (
    SELECT segment, quantity AS units FROM orders WHERE product_id = %1$d AND state = 0
    UNION ALL
    SELECT o.segment, -p.units FROM parts AS p JOIN orders AS o USING (number) WHERE o.product_id = %1$d AND o.state = 0
    UNION ALL
    SELECT p.segment, p.units FROM parts AS p JOIN orders AS o USING (number) WHERE o.product_id = %1$d AND o.state = 0
) GROUP BY segment
SQL

# {segment, initial, stock, active, drawn} of each cell there ever was.
sub cells {
    my ($db, $product) = @_;
    my $drawn = sprintf $DRAWN, $product;
    return map {
        my %cell;
        @cell{qw(segment initial stock active drawn)} = @$_;
        \%cell
    } rows($db, "SELECT c.segment, initial, stock, active, IFNULL(d.units, 0) FROM cells AS c "
            . "LEFT JOIN ($drawn) AS d USING (segment) WHERE product_id = $product ORDER BY 1");
}

sub _cells {
    my ($db, $product) = @_;
    my @wrong;
    for my $cell (cells($db, $product)) {
        my $drift = $cell->{initial} - $cell->{stock} - $cell->{drawn};
        push @wrong, "cell: $cell->{segment} drifts by $drift" if $drift;
        push @wrong, "stranded: $cell->{stock} in $cell->{segment}" if !$cell->{active} && $cell->{stock};
    }
    return @wrong;
}

# ---- all together -----------------------------------------------------------

sub _total {
    my ($db, $sale) = @_;
    my ($initial, $stock, $placed) = (0, 0, 0);
    for my $cell (cells($db, $sale->{product})) {
        $initial += $cell->{initial};
        $stock   += $cell->{stock};
        $placed  += $cell->{drawn};
    }
    my ($least, $maybe) = ($sale->supplied, $sale->maybe_supplied);
    return if $stock + $placed == $initial && ($initial == $least || $initial == $least + $maybe);
    return "total: $placed placed, $stock left, $initial on account, of $least";
}

sub _audit {
    my ($db, $sale) = @_;
    my $dir = Stockade::tempdir();
    open my $file, '>', "$dir/acked" or die "acked: $!";
    print {$file} "$_->{id}\n" for $sale->acked;
    close $file or die "acked: $!";
    my $ran = Stockade::run(['audit', '--db', "sqlite:$db", '--json', '--acked', "$dir/acked"]);
    my $said = eval { JSON::PP::decode_json($ran->{out}) } or return "audit: could not tell: $ran->{err}";
    my @wrong;
    push @wrong, "audit: exit $ran->{exit}" if $ran->{exit} != 0;
    push @wrong, 'audit: not balanced' if !$said->{balanced};
    push @wrong, map { "audit: $_ is $said->{$_}" }
        grep { $said->{$_} } qw(oversold undersold phantom negative stranded duplicates lost fence_regressions);
    push @wrong, map { "audit: segment $_->{segment} drifts by $_->{drift}" } grep { $_->{drift} } @{ $said->{lines} };
    return @wrong;
}

# ---- the warm keys ----------------------------------------------------------

# What the keys say, against the database: for when nothing is under way.
sub keys_differ {
    my ($redis, $db, $product) = @_;
    my ($epoch) = map { $_->[0] } rows($db, "SELECT epoch FROM products WHERE id = $product");
    my (%right, @wrong);
    for my $cell (grep { $_->{active} } cells($db, $product)) {
        my $name = "stock:{$product:$cell->{segment}}";
        my %has  = @{ $redis->command('HGETALL', $name) };
        my $says = join '/', map { defined $has{$_} ? $has{$_} : '-' } qw(epoch units);
        $right{$name} = 1;
        push @wrong, "key: $name says $says, and it is $epoch/$cell->{stock}" if $says ne "$epoch/$cell->{stock}";
    }
    push @wrong, map { "key: $_ of a cell that is not in use" }
        grep { !$right{$_} } @{ $redis->command('KEYS', "stock:{$product:*") };
    splice @wrong, $COMPLAINTS if @wrong > $COMPLAINTS;
    return @wrong;
}

# ---- wrong ledgers ----------------------------------------------------------

# Bugs that we have all seen, as what they leave behind: [name, what judge() has
# to begin with, SQL]. Each leaves one row wrong; triggers and constraints of the
# schema do not stop it.
sub _bugs {
    my ($product) = @_;
    my $in   = "product_id = $product";
    my $some = "SELECT number FROM orders WHERE $in AND state = 0 ORDER BY number DESC LIMIT 1";
    my $gone = "SELECT number FROM orders WHERE $in AND state = 1 ORDER BY number DESC LIMIT 1";
    my $from = "SELECT p.number FROM parts AS p JOIN orders AS o USING (number) WHERE o.$in AND o.state = 0";
    return (
        ['an order is lost', 'lost', "DELETE FROM parts WHERE number = ($some); DELETE FROM orders WHERE number = ($some)"],
        ['an order is stored twice', 'doubled',
            'INSERT INTO orders SELECT number + 1000000, secret, product_id, segment, user_id, quantity, price_cents, '
            . "limit_per_user, fence, state, created_ms, cancelled_ms, NULL FROM orders WHERE number = ($some)"],
        ['an order nobody was told of', 'phantom', "UPDATE orders SET user_id = 900000000 WHERE number = ($some)"],
        ['a unit more in an order', 'quantity', "UPDATE orders SET quantity = quantity + 1 WHERE number = ($some)"],
        ['a cancelled order is there again', 'cancel', "UPDATE orders SET state = 0, cancelled_ms = 0 WHERE number = ($gone)"],
        ['an order is cancelled, and nobody asked', 'cancel',
            "UPDATE orders SET state = 1, cancelled_ms = 1 WHERE number = ($some)"],
        ['a cancel returned to the wrong cell', 'cell',
            "UPDATE cells SET stock = stock + 1 WHERE $in AND segment = 0; "
            . "UPDATE cells SET initial = initial + 1 WHERE $in AND segment = 1"],
        ['a cancel returned twice', 'total', "UPDATE cells SET initial = initial + 1, stock = stock + 1 WHERE $in AND segment = 0"],
        ['a unit vanished', 'total', "UPDATE cells SET initial = initial - 1 WHERE $in AND segment = 0"],
        ['a unit in a retired cell', 'stranded',
            "UPDATE cells SET active = 0, stock = 1, initial = initial + 1 WHERE $in AND segment = 2; "
            . "UPDATE cells SET initial = initial - 1 WHERE $in AND segment = 1"],
        ['an order took more elsewhere than it has', 'parts',
            "UPDATE parts SET units = units + 7 WHERE number = ($from LIMIT 1)"],
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
