# Goal of this test: the interface is what /openapi.json says it is: every path
# answers, every reply has a status, a media type, headers and a body that are
# written there, and what was ordered can be seen, found and cancelled.
use lib 'tests/e2e';
use HttpRaw;
use JSON::PP ();
use Stockade;

my $server = Stockade->start;
my $reply  = $server->get('/openapi.json');
is $reply->{status}, 200, 'the description is there';
my $api = $reply->{body};
is $api->{openapi}, '3.1.0', 'OpenAPI 3.1';

# ---- a reader of the part of JSON Schema that the description uses -------------
sub at {
    my ($node) = @_;
    while (ref $node eq 'HASH' && $node->{'$ref'}) {
        my @steps = split m{/}, $node->{'$ref'};
        shift @steps;
        $node = $api;
        $node = $node->{$_} for @steps;
        die 'a dangling $ref' if !$node;
    }
    return $node;
}

sub type_of {
    my ($value) = @_;
    return 'null' if !defined $value;
    return 'boolean' if JSON::PP::is_bool($value);
    return ref $value eq 'HASH' ? 'object' : 'array' if ref $value;
    my $text = JSON::PP->new->allow_nonref->encode($value);
    return $text =~ /^"/ ? 'string' : $text =~ /^-?\d+$/ ? 'integer' : 'number';
}

# Several schemas of objects as the one that has all they have.
sub all_of {
    my %all = (type => 'object', required => [], properties => {});
    for my $schema (map { at($_) } @_) {
        push @{ $all{required} }, @{ $schema->{required} || [] };
        $all{properties}{$_} = $schema->{properties}{$_} for keys %{ $schema->{properties} };
    }
    return \%all;
}

# What is wrong with VALUE, as a list of texts.
sub wrong {
    my ($schema, $value, $where) = @_;
    $schema = at($schema);
    $schema = all_of(@{ $schema->{allOf} }) if $schema->{allOf};
    my @types = ref $schema->{type} ? @{ $schema->{type} } : ($schema->{type} || ());
    my $type  = type_of($value);
    return "$where is $type" if @types && !grep { $_ eq $type } @types;
    my @wrong;
    if ($type eq 'object') {
        my $known = $schema->{properties} || {};
        push @wrong, map { "$where has no $_" } grep { !exists $value->{$_} } @{ $schema->{required} || [] };
        for my $name (sort keys %$value) {
            if ($known->{$name}) { push @wrong, wrong($known->{$name}, $value->{$name}, "$where.$name") }
            elsif ($schema->{properties}) { push @wrong, "$where.$name is not described" }
        }
    }
    if ($type eq 'array') {
        push @wrong, map { wrong($schema->{items}, $_, "$where\[]") } @$value;
    }
    # A constant is a text or an integer here.
    push @wrong, "$where is not $schema->{const}" if defined $schema->{const} && $value ne $schema->{const};
    if ($type eq 'integer') {
        push @wrong, "$where is too small" if defined $schema->{minimum} && $value < $schema->{minimum};
        push @wrong, "$where is too large" if defined $schema->{maximum} && $value > $schema->{maximum};
    }
    if ($type eq 'string') {
        push @wrong, "$where is not in the enum: $value"
            if $schema->{enum} && !grep { $_ eq $value } @{ $schema->{enum} };
        push @wrong, "$where does not match: $value" if defined $schema->{pattern} && $value !~ /$schema->{pattern}/;
    }
    return @wrong;
}

my %called;

# Calls, and holds the reply against the description of PATTERN.
sub call {
    my ($name, $status, $method, $path, $pattern, $body, $headers) = @_;
    my $got = $server->request($method, $path, $body, $headers);
    my $operation = $api->{paths}{$pattern}{ lc $method };
    $called{ "\L$method\E $pattern" }++;
    is $got->{status}, $status, "$name: $status" or diag $got->{raw};
    my $described = at($operation->{responses}{ $got->{status} });
    ok $described, "$name: the status is described" or return $got;
    my ($type) = keys %{ $described->{content} || {} };
    is $got->{headers}{'content-type'}, $type, "$name: the media type is the described one";
    if ($type && $type =~ /json/) {
        is_deeply [wrong($described->{content}{$type}{schema}, $got->{body}, 'body')], [],
            "$name: the body is as described";
        like $got->{raw}, qr/\}\n\z/, "$name: and a line";
    }
    for my $header (grep { !/^Idempot/ } keys %{ $described->{headers} || {} }) {
        my $schema = at($described->{headers}{$header})->{schema};
        my $pattern = $schema->{pattern} // '^[1-9][0-9]*$';    # an integer has none
        like $got->{headers}{ lc $header }, qr/$pattern/, "$name: $header is there";
    }
    # Replies to other methods are only kept by caches that are told to.
    my $caches = $got->{headers}{'cache-control'} // '';
    like $caches, $method eq 'GET' ? qr/^no-(?:store|cache)$/ : qr/^$/, "$name: not for caches";
    ok !defined $got->{headers}{expires}, "$name: nor until later";
    return $got;
}

# ---- products -----------------------------------------------------------------
my @seeded = @{ call('an empty database', 200, 'GET', '/api/products', '/api/products')->{body}{products} };
is_deeply [map { $_->{id} } grep { $_->{stock} > 0 } @seeded], [1, 2], 'has two products to sell';

my %phone = (name => "Ph\x{f6}ne \x{2603}", stock => 10, price_cents => 49_900, limit_per_user => 3,
    opens_at => '2020-01-01T00:00:00Z', ends_at => '2099-12-31T23:59:59.5Z');
my $made = call('a new product', 201, 'PUT', '/api/products/100', '/api/products/{id}', {%phone});
is $made->{headers}{location}, '/api/products/100', 'Location says where';
is $made->{body}{name}, $phone{name}, 'its name came through in UTF-8';
is $made->{body}{ends_at}, '2099-12-31T23:59:59.500Z', 'times have milliseconds';
is_deeply [@{ $made->{body} }{qw(id initial stock sold)}], [100, 10, 10, 0], 'its numbers';
call('the same again', 200, 'PUT', '/api/products/100', '/api/products/{id}', {%phone});
call("if $_->[0]: $_->[1]", $_->[3], 'PUT', "/api/products/$_->[2]", '/api/products/{id}', {%phone}, { $_->[0] => $_->[1] })
    for ['If-Match', '*', 100, 200], ['If-Match', '"x"', 100, 412], ['If-Match', '*', 110, 412],
    ['If-None-Match', '*', 100, 412], ['If-None-Match', '"x"', 100, 200], ['If-None-Match', '*', 111, 201];
call("a change of what has no tag: $_->[0]", 412, @$_[0 .. 3], { 'If-Match' => '"x"' })
    for ['POST', '/api/orders', '/api/orders', { product_id => 100, user_id => 1, quantity => 1 }],
    ['DELETE', '/api/orders/1-2', '/api/orders/{id}', undef],
    ['POST', '/api/orders/1-2/pay', '/api/orders/{id}/pay', { payment => 'p' }],
    ['POST', '/api/products/100/restock', '/api/products/{id}/restock', { quantity => 1 }],
    ['POST', '/api/products/100/warmup', '/api/products/{id}/warmup', {}];
is $server->get('/api/products/100')->{body}{stock}, 10, 'and nothing is done';
is $server->get('/api/products/110')->{status}, 404, 'what a condition refuses is not made';
my $left_out = call('a put that leaves something out', 409, 'PUT', '/api/products/100', '/api/products/{id}',
    { name => 'Phone', price_cents => 100, limit_per_user => 3 });
is Stockade::slug($left_out), 'incomplete-put', 'is refused';
is_deeply [map { $_->{field} } @{ $left_out->{body}{errors} }], [qw(opens_at ends_at)], 'with the names of what is missing';
is $server->get('/api/products/100')->{body}{price_cents}, 49_900, 'and changes nothing';
my $changed = call('changed', 200, 'PATCH', '/api/products/100', '/api/products/{id}',
    { name => 'Phone', price_cents => 100, opens_at => undef }, { 'Content-Type' => 'application/merge-patch+json' });
is_deeply [@{ $changed->{body} }{qw(name price_cents limit_per_user opens_at ends_at)}],
    ['Phone', 100, 3, undef, '2099-12-31T23:59:59.500Z'], 'what is not named stays, null removes';
is_deeply call('nothing changed', 200, 'PATCH', '/api/products/100', '/api/products/{id}', {})->{body}, $changed->{body}, 'as it was';
call('patch of nothing', 404, 'PATCH', '/api/products/12345', '/api/products/{id}', { name => 'a' });
is Stockade::slug(call('patch of the stock', 409, 'PATCH', '/api/products/100', '/api/products/{id}', { stock => 11 })),
    'stock-fixed', 'stock changes by restock';
call('patch with the stock that it has', 200, 'PATCH', '/api/products/100', '/api/products/{id}', { stock => 10 });
# The other end of the sale was set by an earlier request.
for my $case (
    [opens_at => '2100-01-01T00:00:00Z',   'has to be before ends_at'],
    [opens_at => '2099-12-31T23:59:59.5Z', 'has to be before ends_at'],
    [ends_at  => '2019-01-01T00:00:00Z',   'has to be after opens_at'],
) {
    my ($field, $time, $detail) = @$case;
    $server->patch('/api/products/100', { opens_at => '2020-01-01T00:00:00Z' });
    my $wrong = call("$field $time", 422, 'PATCH', '/api/products/100', '/api/products/{id}', { $field => $time });
    is Stockade::slug($wrong), 'invalid-fields', 'is a fault of that field';
    is_deeply $wrong->{body}{errors}, [{ field => $field, detail => $detail }], 'which is named';
}
is Stockade::slug(call('another stock', 409, 'PUT', '/api/products/100', '/api/products/{id}', { %phone, stock => 11 })),
    'stock-fixed', 'stock does not change by put';
my $first_restock = call('restock', 200, 'POST', '/api/products/100/restock', '/api/products/{id}/restock',
    { quantity => 5 }, { 'Idempotency-Key' => 'restock-1' });
ok !defined $first_restock->{headers}{'idempotent-replayed'}, 'not a replay';
my $restocked = call('restock, the same key', 200, 'POST', '/api/products/100/restock',
    '/api/products/{id}/restock', { quantity => 5 }, { 'Idempotency-Key' => 'restock-1' });
is $restocked->{body}{stock}, 15, 'counts once';
is $restocked->{headers}{'idempotent-replayed'}, 'true', 'a replay';
is call('restock, too much', 422, 'POST', '/api/products/100/restock', '/api/products/{id}/restock', { quantity => 9_007_199_254_740_991 })
    ->{body}{detail}, 'product 100 would have had over 2^53-1 units', 'says what would be too much';
is Stockade::slug(call('restock, the key for something else', 422, 'POST', '/api/products/100/restock',
    '/api/products/{id}/restock', { quantity => 6 }, { 'Idempotency-Key' => 'restock-1' })),
    'idempotency-key-reused', 'is refused';
call('one product', 200, 'GET', '/api/products/100', '/api/products/{id}');
my $head = HttpRaw::talk($server->port, "HEAD /api/products/100 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
like $head->{rest}, qr/^HTTP\/1\.1 200 .*Content-Type: application\/json.*Cache-Control: no-store.*Content-Length: [1-9]\d*\r\n(?:.*\r\n)?\r\n\z/s,
    'HEAD: the same head, no body';
call('no product', 404, 'GET', '/api/products/12345', '/api/products/{id}');

# The ids on each page of three.
sub pages_after {
    my ($after) = @_;
    my @pages;
    while ($after) {
        my $page = call("products after $after", 200, 'GET', "/api/products?after=$after&limit=3", '/api/products');
        push @pages, [map { $_->{id} } @{ $page->{body}{products} }];
        $after = $page->{body}{next};
    }
    return \@pages;
}
$server->product($_, 1) for 201 .. 206;
is_deeply pages_after(200), [[201 .. 203], [204 .. 206]], 'page by page, each product once; the last is full';
$server->product(207, 1);
is_deeply pages_after(200), [[201 .. 203], [204 .. 206], [207]], 'or not full';

# ---- orders -------------------------------------------------------------------
sub buy {
    my ($name, $status, $order, $key) = @_;
    return call($name, $status, 'POST', '/api/orders', '/api/orders', $order, $key && { 'Idempotency-Key' => $key });
}
my $want  = { product_id => 100, user_id => 42, quantity => 2 };
my $first = buy('an order', 201, $want, 'api-1');
my $id    = $first->{body}{id};
is $first->{headers}{location}, "/api/orders/$id", 'Location';
is_deeply [@{ $first->{body} }{qw(product_id user_id quantity)}], [100, 42, 2], 'what was asked for';
is $server->get('/api/products/100')->{body}{stock}, 13, 'two units less in stock';
ok !defined $first->{headers}{'idempotent-replayed'}, 'not a replay';
is $first->{body}{total_cents}, 200, 'two at 100';
my $second = buy('once more', 201, $want, 'api-1');
is $second->{headers}{'idempotent-replayed'}, 'true', 'a replay';
is $second->{raw}, $first->{raw}, 'byte for byte';
is Stockade::slug(buy('another order, the same key', 422, { %$want, quantity => 1 }, 'api-1')),
    'idempotency-key-reused', 'is refused';
for my $more (buy('too many for one', 409, $want), buy('at once', 409, { %$want, user_id => 44, quantity => 4 })) {
    is Stockade::slug($more), 'purchase-limit', 'limit';
    is $more->{body}{detail}, 'the user would have more than one user may buy', 'says nothing of what was bought';
}
my $other = buy('but somebody else may', 201, { %$want, user_id => 43 })->{body}{id};
is Stockade::slug(buy('too many for all', 409, { product_id => 201, user_id => 1, quantity => 2 })), 'sold-out', 'stock';
buy('all there is', 201, { product_id => 201, user_id => 1, quantity => 1 });
is Stockade::slug(buy('then it is sold out', 409, { product_id => 201, user_id => 1, quantity => 1 })), 'sold-out', 'stock';
is Stockade::slug(buy('of nothing', 404, { product_id => 999, user_id => 1, quantity => 1 })), 'no-such-product', 'product';
$server->product(300, 5, opens_at => '2099-01-01T00:00:00Z');
$server->product(301, 5, ends_at  => '2001-01-01T00:00:00Z');
is Stockade::slug(buy('too early', 409, { product_id => 300, user_id => 1, quantity => 1 })), 'sale-not-open', 'window';
is Stockade::slug(buy('too late', 409, { product_id => 301, user_id => 1, quantity => 1 })), 'sale-ended', 'window';
buy('malformed', 400, '{');
buy('incomplete', 422, {});
buy('too large', 413, ' ' x 20_000);
call('not JSON', 415, 'POST', '/api/orders', '/api/orders', 'x', { 'Content-Type' => 'text/plain' });

call('the order', 200, 'GET', "/api/orders/$id", '/api/orders/{id}');
is call('by its key', 200, 'GET', '/api/orders?key=api-1', '/api/orders')->{body}{id}, $id, 'the right one';
call('by its key, quoted', 200, 'GET', '/api/orders?key=%22api-1%22', '/api/orders');
call('by no key', 400, 'GET', '/api/orders', '/api/orders');
call('by an unknown key', 404, 'GET', '/api/orders?key=none', '/api/orders');
call('an unknown order', 404, 'GET', '/api/orders/1-0123456789abcdef', '/api/orders/{id}');
call('cancel an unknown one', 404, 'DELETE', '/api/orders/1-0123456789abcdef', '/api/orders/{id}');
my $gone = call('cancel', 200, 'DELETE', "/api/orders/$id", '/api/orders/{id}');
is $gone->{body}{state}, 'cancelled', 'cancelled';
ok $gone->{body}{cancelled_at}, 'at a time';
is call('cancel again', 200, 'DELETE', "/api/orders/$id", '/api/orders/{id}')->{raw}, $gone->{raw}, 'the same answer';
my $look = call('and look', 200, 'GET', "/api/orders/$id", '/api/orders/{id}');
is delete $look->{body}{segment}, 0, 'where it came from is still known';
is_deeply $look->{body}, $gone->{body}, 'the same order';
is buy('the first request again', 201, $want, 'api-1')->{raw}, $first->{raw}, 'has its first answer still';
is $server->get('/api/products/100')->{body}{stock}, 13, 'the units are back, once';

# ---- the export -----------------------------------------------------------------
# Keys are customers' text: of these the first three would be formulas.
my @keys = ('=1+1', '+a', '@b', 'quote"and,comma', 'plain');
my @exported = map { buy("for the export, $_", 201, { product_id => 203 + $_, user_id => 1, quantity => 1 }, $keys[$_]) } 0 .. 3;
my ($csv, $next, $pages) = ('', '/api/orders.csv?limit=3', 0);
while ($next) {
    my $page = call("export $next", 200, 'GET', $next, '/api/orders.csv');
    $csv .= $page->{raw};
    ($next) = ($page->{headers}{link} // '') =~ /^<(.*)>; rel="next"$/;
    $pages++;
}
is $pages, 3, 'page by page';
is call('in one', 200, 'GET', '/api/orders.csv', '/api/orders.csv')->{raw}, $csv, 'the same in one';
my ($names, @rows) = split /\r\n/, $csv;
is $names, 'id,product_id,user_id,quantity,price_cents,total_cents,state,created_at,cancelled_at,idempotency_key,payment,late_payments,late_payment', 'its head';
is scalar @rows, 7, 'a line for each order';
is $rows[0], "$id,100,42,2,100,200,cancelled,$gone->{body}{created_at},$gone->{body}{cancelled_at},\"api-1\",\"\",0,\"\"", 'a cancelled one';
is_deeply [map { /^(.*?),[^"]*(".*"),"",0,""$/ } @rows[3 .. 6]],
    [map { ($exported[$_]{body}{id}, ('"\'=1+1"', '"\'+a"', '"\'@b"', '"quote""and,comma"')[$_]) } 0 .. 3],
    'no key is a formula, and each is one field';
call("export $_", 400, 'GET', "/api/orders.csv?$_", '/api/orders.csv') for 'limit=5001', 'after=x';
call('export from outside', 403, 'GET', '/api/orders.csv', '/api/orders.csv', undef, { Forwarded => 'for=192.0.2.1' });

# ---- events: see events.t -----------------------------------------------------------
my $events = HttpRaw::ask($server->port, "HEAD /api/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
my $described = at($api->{paths}{'/api/events'}{get}{responses}{ $events->{status} });
is $events->{headers}{'content-type'}, (keys %{ $described->{content} })[0], 'events: the media type is the described one';
$called{'get /api/events'}++;

# ---- paying -----------------------------------------------------------------------
call('paid within an hour', 201, 'PUT', '/api/products/600', '/api/products/{id}', { name => 'held', stock => 5, pay_within_s => 3600 });
sub pay {
    my ($name, $status, $order, $with) = @_;
    return call($name, $status, 'POST', "/api/orders/$order/pay", '/api/orders/{id}/pay', $with);
}
my $wanted = { product_id => 600, user_id => 7, quantity => 1 };
my ($held, $left) = map { buy('an order to be paid', 201, $wanted, "held-$_") } 1, 2;
is $held->{body}{state}, 'awaiting-payment', 'awaits its payment';
like $held->{body}{pay_until}, qr/T/, 'until when';
my $paid = pay('paid', 200, $held->{body}{id}, { payment => 'pi_1' });
is_deeply [@{ $paid->{body} }{qw(state payment late_payments)}], ['paid', 'pi_1', 0], 'by that payment';
is $paid->{body}{pay_until}, $held->{body}{pay_until}, 'the time to pay is as it was';
my $replayed = pay('the same payment again', 200, $held->{body}{id}, { payment => 'pi_1' });
is $replayed->{raw}, $paid->{raw}, 'the same answer';
is $replayed->{headers}{'idempotent-replayed'}, 'true', 'which says so';
is buy('the order again', 201, $wanted, 'held-1')->{raw}, $held->{raw}, 'has its first answer still';
is Stockade::slug(pay('a second payment', 409, $held->{body}{id}, { payment => 'pi_2' })), 'already-paid', 'it is paid';
is Stockade::slug(pay('another order by it', 422, $left->{body}{id}, { payment => 'pi_1' })), 'payment-reused', 'it has an order';
is Stockade::slug(call('cancel what is paid', 409, 'DELETE', "/api/orders/$held->{body}{id}", '/api/orders/{id}')), 'already-paid', 'no';
call('cancel what is not', 200, 'DELETE', "/api/orders/$left->{body}{id}", '/api/orders/{id}');
is Stockade::slug(pay('pay what is cancelled', 409, $left->{body}{id}, { payment => 'pi_3' })), 'order-cancelled', 'too late';
is_deeply [@{ call('the late payment', 200, 'GET', "/api/orders/$left->{body}{id}", '/api/orders/{id}')->{body} }
        {qw(state payment late_payments late_payment)}], ['cancelled', undef, 1, 'pi_3'], 'is on record';
pay('pay what was paid at once', 409, $other, { payment => 'at-once' });
is call('that payment', 200, 'GET', "/api/orders/$other", '/api/orders/{id}')->{body}{late_payment}, 'at-once', 'is on record, too';
pay("late payment $_", 409, $left->{body}{id}, { payment => "late-$_" }) for 2 .. 16, 16;
is Stockade::slug(pay('and one more', 409, $left->{body}{id}, { payment => 'late-17' })), 'too-many-payments', 'is not on record';
ok Stockade::eventually(5, sub { $server->log =~ /^level=warn msg=payment order=\d+ payment=late-17 error="too many /m }),
    'but in the log';
is $server->metric('stockade_late_payments_total'), 19, 'all are counted, and none twice';
call('pay no order', 404, 'POST', '/api/orders/1-0123456789abcdef/pay', '/api/orders/{id}/pay', { payment => 'pi_4' });
is pay('pay by nothing', 422, $held->{body}{id}, {})->{body}{errors}[0]{field}, 'payment', 'names what is missing';
pay('pay by what is no JSON', 400, $held->{body}{id}, '{');

# ---- segments -------------------------------------------------------------------
call('split over four', 201, 'PUT', '/api/products/400', '/api/products/{id}', { name => 'split', stock => 10, segments => 4 });
sub resize { return call($_[0], $_[1], 'PATCH', '/api/products/400', '/api/products/{id}', { segments => $_[2] }) }
sub look { return call($_[0], 200, 'GET', '/api/products/400', '/api/products/{id}')->{body} }
sub stocks { return [map { $_->{stock} } @{ $_[0]{stock_by_segment} }] }

my $split = look('its segments');
is $split->{segments}, 4, 'four';
is_deeply stocks($split), [3, 3, 2, 2], 'dealt out evenly';
is_deeply [map { $_->{segment} } @{ $split->{stock_by_segment} }], [0 .. 3], 'ascending';
is resize('resized', 200, 6)->{body}{name}, 'split', 'the rest stays';
is_deeply stocks(look('six')), [2, 2, 2, 2, 1, 1], 'dealt out anew';
for my $bad (0, 257, -1, 1.5, '4') {
    my $refused = resize("segments $bad", 422, $bad);
    is $refused->{body}{errors}[0]{field}, 'segments', 'says which field';
    like $refused->{body}{errors}[0]{detail}, $bad eq 257 ? qr/too large/ : $bad =~ /^0|-1$/ ? qr/at least 1/ : qr/integer/, 'and what it takes';
}
cmp_ok look('the epoch')->{epoch}, '>', $split->{epoch}, 'a new epoch';
resize('fewer units than segments', 200, 256);
is scalar @{ look('of ten units')->{stock_by_segment} }, 10, 'ten segments in use';
my $large = buy('more than any segment has', 201, { product_id => 400, user_id => 1, quantity => 4 });
my $from = call('from where', 200, 'GET', "/api/orders/$large->{body}{id}", '/api/orders/{id}')->{body}{segment};
cmp_ok $from, '<', 10, 'from one segment, to which the others gave';
my $warm = call('warm up', 200, 'POST', '/api/products/400/warmup', '/api/products/{id}/warmup')->{body};
is $warm->{product_id}, 400, 'says of what';
ok $warm->{in_redis}, 'and that Redis has it';
is_deeply $warm->{stock_by_segment}, look('as loaded')->{stock_by_segment}, 'of what the database has';
call('warm up nothing', 404, 'POST', '/api/products/401/warmup', '/api/products/{id}/warmup');
call('warm up without a type', 415, 'POST', '/api/products/400/warmup', '/api/products/{id}/warmup', undef,
    { 'Content-Type' => 'text/plain' });
call('warm up from outside', 403, 'POST', '/api/products/400/warmup', '/api/products/{id}/warmup', undef,
    { Forwarded => 'for=192.0.2.1' });
resize('one segment', 200, 1);
call('cancelled', 200, 'DELETE', "/api/orders/$large->{body}{id}", '/api/orders/{id}');
is_deeply stocks(look('after the cancel')), [10], 'all are in the one segment';

# ---- operations -----------------------------------------------------------------
call('alive', 200, 'GET', '/livez', '/livez');
call('ready', 200, 'GET', '/readyz', '/readyz');
call('healthy', 200, 'GET', '/healthz', '/healthz');
like call('metrics', 200, 'GET', '/metrics', '/metrics')->{raw}, qr/^stockade_orders_total\{/m, 'with our counters';
my $audit = call('audit', 200, 'GET', '/api/audit', '/api/audit')->{body};
ok $audit->{balanced}, 'balanced';
is $audit->{stranded}, 0, 'nothing is stranded';
my @lines = grep { $_->{product_id} == 400 } @{ $audit->{lines} };
is scalar @lines, 256, 'each segment has its line';
is scalar(grep { $_->{retired} } @lines), 255, 'those out of use say so';
call('audit from outside', 403, 'GET', '/api/audit', '/api/audit', undef, { Forwarded => 'for=192.0.2.1' });

# ---- the page ---------------------------------------------------------------------
for my $path ('/', '/app.js', '/shop.js', '/live.js', '/browser.js', '/words.js', '/orders.js', '/admin.js', '/style.css', '/openapi.json') {
    my $file = call($path, 200, 'GET', $path, $path);
    like $file->{headers}{'content-security-policy'}, qr/default-src 'none'/, "$path: a policy";
    is $file->{headers}{'x-content-type-options'}, 'nosniff', "$path: nosniff";
    is $file->{headers}{'referrer-policy'}, 'no-referrer', "$path: and tells no other site who asks";
    my $same = $server->get($path, { 'If-None-Match' => "W/$file->{headers}{etag}, \"x\"" });
    is $same->{status}, 304, "$path: not sent twice";
    ok !length($same->{raw} // ''), "$path: with no body";
    is $same->{headers}{'content-length'}, length $file->{raw}, "$path: and the length that it would have";
    is $server->get($path, { 'If-None-Match' => '*' })->{status}, 304, "$path: nor to whoever has any";
    is $server->get($path, { 'If-None-Match' => '"other"' })->{status}, 200, "$path: sent if changed";
    unlike $file->{raw}, qr{(?:src|href|url\()\s*=?\s*["']?(?:https?:)?//}, "$path: loads nothing from elsewhere";
}
unlike $server->get('/')->{raw}, qr/<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=/, 'no inline script or style';

# ---- the examples --------------------------------------------------------------------
my %schemas = %{ $api->{components}{schemas} };
for my $name (sort grep { $schemas{$_}{examples} } keys %schemas) {
    is_deeply [map { wrong($schemas{$name}, $_, $name) } @{ $schemas{$name}{examples} }], [], "$name: its examples fit it";
}
sub example { return $schemas{ $_[0] }{examples}[ $_[1] || 0 ] }

my $bought = buy('the example of an order', 201, example('NewOrder'));
my %made_now = map { $_ => $bought->{body}{$_} } qw(id created_at fence);
is_deeply $bought->{body}, { %{ example('Order') }, %made_now }, 'gets the example of its reply';
call('the example of a product', 201, 'PUT', '/api/products/500', '/api/products/{id}', example('NewProduct'));
call('an example of a patch', 200, 'PATCH', '/api/products/500', '/api/products/{id}', example('ProductPatch', $_)) for 0, 1;
is call('the example of a restock', 200, 'POST', '/api/products/500/restock', '/api/products/{id}/restock', example('Restock'))
    ->{body}{stock}, 1500, 'counts';
call('the example of a warm-up', 200, 'POST', '/api/products/500/warmup', '/api/products/{id}/warmup',
    $api->{paths}{'/api/products/{id}/warmup'}{post}{requestBody}{content}{'application/json'}{example});
is_deeply buy('sold out', 409, { product_id => 201, user_id => 1, quantity => 1 })->{body}, example('Problem'),
    'gets the example of a problem';

isnt join(' ', wrong($schemas{NewProduct}, { name => 'a' }, 'body')), '', 'what the server refuses, the schema refuses: no stock';

# What any request may be answered is described for each.
my @anything = (
    [400, '',            'X: 1'],
    [413, '',            'Host: localhost', 'Content-Length: 2000000'],
    [414, '?' . '&' x 64, 'Host: localhost'],
    [415, '',            'Host: localhost', 'Content-Encoding: gzip', "Content-Length: 2\r\n\r\n{}"],
    [417, '',            'Host: localhost', 'Expect: nothing'],
    [421, '',            'Host: evil.example'],
    [431, '',            'Host: localhost', map { "X$_: 1" } 1 .. 64],
    [505, ' HTTP/1.9 ',  'Host: localhost'],
);
for my $path (sort keys %{ $api->{paths} }) {
    for my $method (grep { $_ ne 'parameters' } sort keys %{ $api->{paths}{$path} }) {
        my %described = %{ $api->{paths}{$path}{$method}{responses} };
        ok $described{408}, "$method $path: 408 is described";
        for my $case (@anything) {
            my ($status, $more, @fields) = @$case;
            my $line = "\U$method\E " . $path =~ s/\{id\}/1/r . ($more =~ /HTTP/ ? $more =~ s/ $//r : "$more HTTP/1.1");
            is HttpRaw::ask($server->port, join("\r\n", $line, @fields, '', ''))->{status}, $status, "$method $path: $status";
            ok $described{$status}, "$method $path: $status is described";
        }
    }
}

# ---- the problems --------------------------------------------------------------------
# Which type has which status stands in the server's own table; each response names its
# types, and each type is in a response of some operation.
my %table = map { reverse Stockade::slurp("$Stockade::ROOT/server/$_") =~ /^\w+, ([45]\d+), \d+ +\| ([a-z-]+)/mg }
    'base/order_outcomes.txt', 'http/problems.txt';
my %used;
for my $operation (map { my $item = $_; map { $item->{$_} } grep { $_ ne 'parameters' } keys %$item } values %{ $api->{paths} }) {
    for my $status (grep { /^[45]/ } keys %{ $operation->{responses} }) {
        my $described = at($operation->{responses}{$status});
        my %has = %{ $described->{content}{'application/problem+json'}{schema}{allOf}[1]{properties} };
        is $has{status}{const}, $status, "$operation->{operationId}: $status says so";
        is !!$described->{headers}{'Retry-After'}, !!($status =~ /^(?:429|503)$/), "$status: Retry-After or not";
        $used{ s/.*://r }{$status}++ for @{ $has{type}{enum} || [] };
    }
}
my %told = map { ($_ => join ' ', keys %{ $used{$_} }) } keys %used;
# What no operation answers: a path or method that is none, a bug, and nothing at all.
delete @table{qw(method-not-allowed internal-error)};
is_deeply \%told, \%table, 'every problem is where it may occur, under its status';

my @missing = grep { !$called{$_} } map {
    my $path = $_;
    map { "$_ $path" } grep { /^(?:get|put|patch|post|delete)$/ } keys %{ $api->{paths}{$path} }
} keys %{ $api->{paths} };
is_deeply \@missing, [], 'every described operation was called';

my $verdict = $server->ends('after SIGTERM');
is_deeply [@$verdict{qw(sold orders cancelled held late_payments)}], [9, 8, 3, 0, 18], 'units sold, orders, and those cancelled' or diag explain $verdict;
my @audit = (['audit', '--db', 'sqlite:' . $server->db], wrap => ['sh', '-c', 'exec "$@" >/dev/full', 'sh']);
like Stockade::run($audit[0])->{out}, qr/^0 units not paid yet, 0 orders expired, 18 late payments /m, 'for people, too';
my $empty = Stockade::run([@{ $audit[0] }, '--acked', '/dev/null'], env => { MALLOC_PERTURB_ => 165 });
like $empty->{out}, qr/^0 acknowledged orders looked up\nbalanced$/m, 'none is lost of an empty list, and it says that it was empty';
is Stockade::run(@audit)->{exit}, 2, 'an audit that cannot be written cannot tell';
is Stockade::run([@{ $audit[0] }, '--acked', '/none'])->{exit}, 2, 'nor one without the list that it is to look at';
my $big = Stockade::write_file($server->dir . '/big', "none\n" x 15_000_000);
my @small = $ENV{SAN} ? () : ('sh', '-c', 'ulimit -v 60000; exec "$@"', 'sh');
is Stockade::run([@{ $audit[0] }, '--acked', $big], wrap => \@small)->{exit}, @small ? 2 : 1, 'nor one whose list does not fit into memory';

# ---- what nobody knows ----------------------------------------------------------------
$server->restart(args => ['--lab-failpoint', 'commit:after=drop'], unready => 1);
my $unknown = $server->post('/api/products/1/restock', { quantity => 1 });
is $unknown->{status}, 503, 'the answer to a commit is lost' or diag $unknown->{raw};
like $unknown->{body}{detail}, qr/; it may have been done: look before you repeat it$/, 'which is said';
$server->stop;
SKIP: {
    skip 'a sanitizer wants to be loaded first', 1 if $ENV{SAN};
    Stockade::write_file($server->dir . '/none.c', <<'C');
#include <stddef.h>
void *__libc_malloc(size_t size);
void *malloc(size_t size) { return size == 768 ? NULL : __libc_malloc(size); } /* RENDER_ORDER_BYTES */
C
    is system('cc', '-shared', '-fPIC', '-o', $server->dir . '/none.so', $server->dir . '/none.c'), 0, 'no memory for an order';
    $server->restart(args => ['--lock', 'none'], unready => 0, env => { LD_PRELOAD => $server->dir . '/none.so' });
    $unknown = $server->order(1, 1, 1, 'no-memory');
    is Stockade::slug($unknown), 'overloaded', 'an order whose reply finds no memory' or diag $unknown->{raw};
    ok $unknown->{body}{may_have_ordered}, 'may have been ordered';
    $server->restart(env => {});
    is $server->get('/api/orders?key=no-memory')->{status}, 200, 'and was';
    $server->stop;
}
done_testing;
