# Goal of this test: `stockade serve`, alone, sells: an order from the list of
# products to the audit.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Stockade;
use Test::More;

my $server = Stockade->start;

my $list = $server->get('/api/products');
is $list->{status}, 200, 'the products are listed';
my @seeded = @{ $list->{body}{products} };
is scalar @seeded, 2, 'two products are there on an empty database';
ok $_->{stock} > 0, "product $_->{id} has stock" for @seeded;

my $id     = $seeded[0]{id};
my $before = $server->get("/api/products/$id")->{body};

my $bought = $server->order($id, 7, 2, 'lifecycle-1');
is $bought->{status}, 201, 'bought';
my $order = $bought->{body};
is $order->{product_id}, $id, 'of this product';
is $order->{user_id},  7, 'for this user';
is $order->{quantity}, 2, 'two units';
like $order->{created_at}, qr/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/, 'created_at is RFC 3339 in UTC';
is $bought->{headers}{location}, "/api/orders/$order->{id}", 'Location says where it is';
is $server->get($bought->{headers}{location})->{body}{id}, $order->{id}, 'and there it is';

my $again = $server->order($id, 7, 2, 'lifecycle-1');
is $again->{status}, 201, 'the same key again: the same answer';
is $again->{headers}{'idempotent-replayed'}, 'true', 'marked as a replay';
is $again->{raw}, $bought->{raw}, 'byte for byte';

my $other = $server->order($id, 7, 1, 'lifecycle-1');
is $other->{status}, 422, 'the same key for another order is refused';
is Stockade::slug($other), 'idempotency-key-reused', 'and says so';

my $found = $server->get('/api/orders?key=lifecycle-1');
is $found->{status}, 200, 'an order is found by its key';
is $found->{body}{id}, $order->{id}, 'the right one';
is $server->get('/api/orders?key=never-used')->{status}, 404, 'an unknown key is 404';

is $server->get("/api/products/$id")->{body}{stock}, $before->{stock} - 2, 'two units less in stock';

my $cancelled = $server->delete("/api/orders/$order->{id}");
is $cancelled->{status}, 200, 'cancelled';
is $server->delete("/api/orders/$order->{id}")->{status}, 200, 'cancelled again';
is $server->get("/api/products/$id")->{body}{stock}, $before->{stock}, 'the units are back, once';
is $server->delete('/api/orders/nosuchorder')->{status}, 404, 'nothing to cancel: 404';

$server->product(50, 3);
is $server->order(50, undef, 4)->{status}, 409, 'more than there is: refused';
is $server->order(50, undef, 3)->{status}, 201, 'all there is: sold';
is Stockade::slug($server->order(50)), 'sold-out', 'then it is sold out';

$server->product(51, 100, limit_per_user => 2);
is $server->order(51, 9, 2)->{status}, 201, 'as many as one may';
is Stockade::slug($server->order(51, 9, 1)), 'purchase-limit', 'and not one more';
is $server->order(51, 10, 1)->{status}, 201, 'but somebody else may';

is Stockade::slug($server->order(999_999)), 'no-such-product', 'no such product';

my $live = $server->get('/api/audit')->{body};
ok $live->{balanced}, 'the running server says its ledger balances';
my $verdict = $server->ends('after SIGTERM');
is $verdict->{sold},      5 + 1, 'units sold, by the ledger' or diag explain $verdict;
is $verdict->{orders},    3, 'orders';
is $verdict->{cancelled}, 1, 'cancelled';
done_testing;
