# The verdict on a sale: the orders, row by row, against what the customers were
# told, read by sqlite3; and segment by segment, by `stockade audit`, which has a test
# of its own: test_store_audit.c plants what it has to find.
#
#     my @wrong = Stockade::Ledger::judge($db, $sale);     # () = exact
#     my @wrong = Stockade::Ledger::hints_differ($redis, $server, $product);
#
# Each complaint begins with a word that says of what kind it is.
package Stockade::Ledger;

use strict;
use warnings;

my $COMPLAINTS = 20;

# Rows of a query, as lists.
sub rows {
    my ($db, $query) = @_;
    open my $out, '-|', 'sqlite3', '-separator', "\t", '-cmd', '.timeout 60000', $db, $query or die "sqlite3: $!";
    my @rows = map { chomp; [split /\t/, $_, -1] } <$out>;
    close $out or die "sqlite3 cannot read $db: $query";
    return @rows;
}

sub judge {
    my ($db, $sale) = @_;
    my @wrong = (_orders($db, $sale), _audit($db, $sale));
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

sub _audit {
    my ($db, $sale) = @_;
    my $dir   = Stockade::tempdir();
    my $acked = Stockade::write_file("$dir/acked", join '', map { "$_->{id}\n" } $sale->acked);
    my $ran   = Stockade::run(['audit', '--db', "sqlite:$db", '--json', '--acked', $acked]);
    my $said = eval { JSON::PP::decode_json($ran->{out}) } or return "audit: could not tell: $ran->{err}";
    my @wrong;
    push @wrong, "audit: exit $ran->{exit}" if $ran->{exit} != 0;
    push @wrong, "audit: $said->{sold} sold, of @{[$sale->supplied]}" if $said->{sold} != $sale->supplied;
    push @wrong, 'audit: not balanced' if !$said->{balanced};
    push @wrong, map { "audit: $_ is $said->{$_}" }
        grep { $said->{$_} } qw(oversold undersold phantom negative stranded duplicates lost miscounted fence_regressions unsettled);
    push @wrong, map { "audit: segment $_->{segment} drifts by $_->{drift}" } grep { $_->{drift} } @{ $said->{lines} };
    return @wrong;
}

# ---- the stock hints --------------------------------------------------------

# The keys in Redis against what the database has, after a warmup and with nothing under way.
# Tried for a moment: a hint of before may still be on its way.
sub hints_differ {
    my ($redis, $server, $product) = @_;
    my @wrong;
    Stockade::eventually(5, sub {
        my $reply = $server->post("/api/products/$product/warmup", {});
        @wrong = $reply->{status} == 200 ? _hints_differ($redis, $reply->{body}) : ("hint: warmup: $reply->{raw}");
        return !@wrong;
    });
    return @wrong;
}

sub _hints_differ {
    my ($redis, $loaded) = @_;
    my @wrong;
    for my $segment (@{ $loaded->{stock_by_segment} }) {
        my $name = "stock:{$loaded->{product_id}:$segment->{segment}}";
        my $says = $redis->command('GET', $name);
        $says = 'nothing' if !defined $says;
        push @wrong, "hint: $name says $says, not $segment->{stock}" if $says ne $segment->{stock};
    }
    splice @wrong, $COMPLAINTS if @wrong > $COMPLAINTS;
    return @wrong;
}

1;
