# Goal of this test: whatever a client sends instead of an order, it hears what
# was wrong with it, as a problem document; and nothing is sold by mistake.
use lib 'tests/e2e';
use HttpRaw;
use JSON::PP ();
use Stockade;

my $server = Stockade->start;
my $port   = $server->port;
my $JSON   = JSON::PP->new->utf8;
$server->product($_, 100) for 7, 8;

# A problem with this status and this name; the reply for more questions.
sub problem {
    my ($name, $reply, $status, $slug) = @_;
    is $reply->{status}, $status, "$name: $status";
    is $reply->{headers}{'content-type'}, 'application/problem+json', "$name: a problem document";
    my $body = eval { $JSON->decode(defined $reply->{raw} ? $reply->{raw} : $reply->{body}) } || {};
    is $body->{type}, "urn:stockade:problem:$slug", "$name: $slug";
    is $body->{status}, $status, "$name: it says its status";
    ok length($body->{title} || ''), "$name: it has a title";
    $reply->{problem} = $body;
    return $reply;
}

sub bad_order {
    my ($name, $body, $status, $slug, $field) = @_;
    my $reply = problem($name, $server->post('/api/orders', $body), $status, $slug);
    is $reply->{problem}{errors}[0]{field}, $field, "$name: it names the field" if defined $field;
    return $reply;
}

# ---- what is not understood -------------------------------------------------
for my $case (
    ['415', 'unsupported-media-type', 'Content-Encoding: gzip'],
    ['415', 'unsupported-media-type', 'Content-Encoding: identity, br'],
    ['417', 'expectation-failed',     'Expect: 200-ok'],
    ['417', 'expectation-failed',     'Expect:'],
    ['415', 'unsupported-media-type', "Content-Encoding: identity\r\nContent-Encoding: gzip"],
    ['417', 'expectation-failed',     "Expect: 100-continue\r\nExpect: 200-ok"],
    ['201', '',                       "Content-Encoding: Identity \t"],
    ['201', '',                       'Content-Encoding: Identity'],
    ['201', '',                       'Expect: 100-Continue'],
) {
    my ($status, $slug, $field) = @$case;
    my $bytes  = HttpRaw::order_bytes(1, undef, 8);
    my $socket = HttpRaw::connect_to($port);
    HttpRaw::put($socket, $bytes =~ s/\r\n/\r\n$field\r\n/r);
    $field =~ s/\r\n/ and /;
    my $reply = HttpRaw::read_replies($socket, 1)->{replies}[0];
    $slug ? problem($field, $reply, $status, $slug) : is $reply->{status}, $status, "$field: $status";
    HttpRaw::put($socket, $bytes);
    is HttpRaw::status_of($socket), 201, "$field: the next request is understood";
}

# ---- JSON that is none ----------------------------------------------------
bad_order($_->[0], $_->[1], 400, 'malformed-json') for (
    ['no body',               ''],
    ['two documents',         '{} {}'],
    ['text after it',         '{} x'],
    ['a NUL in the text',     "{\"product_id\":7}\0"],
    ['a NUL behind a number', "{\"product_id\":8\0,\"user_id\":1,\"quantity\":1}"],
    ['invalid UTF-8',         "{\"a\":\"\xff\xfe\"}"],
    ['NaN',                   '{"product_id":NaN,"user_id":1,"quantity":1}'],
    ['a leading zero',        '{"product_id":07,"user_id":1,"quantity":1}'],
    ['a depth bomb',          '[' x 8000],
    ['a deep object',         '{"a":' x 2500 . '1' . '}' x 2500],
);
like bad_order('a typo', "{\n  \"product_id\": x}", 400, 'malformed-json')->{problem}{detail},
    qr/line 2, column \d+/, 'the position is told';

# ---- JSON that is no order -------------------------------------------------
bad_order($_->[0], $_->[1], 422, 'invalid-fields', $_->[2]) for (
    ['an array',            '[]'],
    ['a number',            '1'],
    ['null alone',          'null'],
    ['nothing in it',       '{}',                                                      'product_id'],
    ['no user',             '{"product_id":7,"quantity":1}',                           'user_id'],
    ['an unknown field',    '{"product_id":7,"user_id":1,"quantity":1,"price":0}',     'price'],
    ['a misspelt field',    '{"product_id":7,"user_id":1,"quantitiy":1}',              'quantity'],
    ['a field twice',       '{"product_id":7,"user_id":1,"quantity":1,"quantity":2}'],
    ['a string',            '{"product_id":"7","user_id":1,"quantity":1}',             'product_id'],
    ['a real',              '{"product_id":7,"user_id":1,"quantity":1.5}',             'quantity'],
    ['an exponent',         '{"product_id":7,"user_id":1,"quantity":1e-1}',            'quantity'],
    ['almost one',          '{"product_id":7,"user_id":1,"quantity":0.99999999999999999999999}', 'quantity'],
    ['a tenth too much',    '{"product_id":7,"user_id":90071992547409911e-1,"quantity":1}', 'user_id'],
    ['a large exponent',    '{"product_id":7,"user_id":1,"quantity":1e300}',           'quantity'],
    ['null',                '{"product_id":7,"user_id":null,"quantity":1}',            'user_id'],
    ['true',                '{"product_id":7,"user_id":1,"quantity":true}',            'quantity'],
    ['an object',           '{"product_id":{},"user_id":1,"quantity":1}',              'product_id'],
    ['zero',                '{"product_id":7,"user_id":1,"quantity":0}',               'quantity'],
    ['minus one',           '{"product_id":7,"user_id":1,"quantity":-1}',              'quantity'],
    ['minus zero',          '{"product_id":7,"user_id":1,"quantity":-0}',              'quantity'],
    ['more than a million', '{"product_id":7,"user_id":1,"quantity":1000001}',         'quantity'],
    ['2^53',                '{"product_id":9007199254740992,"user_id":1,"quantity":1}', 'product_id'],
    ['1e999',               '{"product_id":1e999,"user_id":1,"quantity":1}'],
    ['2^63',                '{"product_id":9223372036854775808,"user_id":1,"quantity":1}'],
    ['an escaped NUL',      '{"product_id":7,"user_id":"\u0000","quantity":1}'],
    ['one in a name',       '{"product_id":7,"user_id":1,"quantity":1,"\u0000":1}'],
);
my $all = bad_order('everything wrong', '{"product_id":0,"user_id":"x","extra":1}', 422, 'invalid-fields');
is_deeply [map { $_->{field} } @{ $all->{problem}{errors} }], [qw(product_id user_id quantity extra)],
    'all that is wrong is told at once';
bad_order('a name with a newline', '{"a\nb":1}', 422, 'invalid-fields');

# Numbers are judged by their text, since a double would round them: what user it is, or
# what is wrong. Names and values before it look like it.
for my $case (
    ['100.0', 100], ['12.0000000000000000000000000000000', 12], ['9007199254740991.0', 9007199254740991],
    map({ [$_, 'has to be an integer'] } qw(0.99999999999999999999999 1.00000000000000000000001 90071992547409911e-1 9007199254740990.999999999
            1e-400 1E+2 1.0e0 1e300 -1.5)),
    map({ [$_, 'is too large'] } qw(9007199254740992 9007199254740992.0), '1' . '0' x 300 . '.0'),
    map({ [$_, 'has to be at least 1'] } qw(-0 -0.0 -1.0), '-1' . '0' x 300 . '.0'),
) {
    my ($number, $told) = @$case;
    my $order = qq("product_id":8 ,"us\\u0065r_id" :\n$number,"quantity":1});
    if ($told =~ /^\d/) {
        is $server->post('/api/orders', "{$order")->{body}{user_id}, $told, "$number is user $told";
        next;
    }
    my $problem = bad_order($number, qq({ "x\\":1.5e3}" : [{"user_id":3.0},":"],$order), 422, 'invalid-fields', 'user_id')->{problem};
    is "$problem->{errors}[0]{detail}, $problem->{detail}", "$told, user_id: $told", "$number $told";
}
is bad_order('a very long name', '{"' . 'x' x 4000 . '":1}', 422, 'invalid-fields')->{problem}{errors}[-1]{field}, '(a long name)',
    'it is not cut';

# ---- what it comes in -----------------------------------------------------
my $good = '{"product_id":7,"user_id":1,"quantity":1}';
problem("Content-Type '$_'", $server->post('/api/orders', $good, { 'Content-Type' => $_ }),
    415, 'unsupported-media-type')
    for 'text/plain', 'application/x-www-form-urlencoded', 'application/jsonx', 'json';
my $HOST = "Host: localhost\r\n";
sub raw { return HttpRaw::ask($port, @_) }
problem('no Content-Type', raw("POST /api/orders HTTP/1.1\r\n${HOST}Content-Length: 2\r\n\r\n{}"),
    415, 'unsupported-media-type');
problem('two of them', raw("POST /api/orders HTTP/1.1\r\n${HOST}" . "Content-Type: application/json\r\n" x 2 . "Content-Length: 2\r\n\r\n{}"),
    415, 'unsupported-media-type');
is $server->post('/api/orders', $good, { 'Content-Type' => 'Application/JSON; charset=utf-8' })->{status}, 201,
    'a parameter and another case are fine';

# A payment is shown as it came: what JSON escapes is refused.
for my $bad ('{}', map { qq({"payment":$_}) } 1, '""', '"a b"', '"a\"b"', '"a\\\\b"', qq("\xc3\xa4"), '"' . 'x' x 65 . '"') {
    my $reply = problem("pay with $bad", $server->post('/api/orders/1-0000000000000000/pay', $bad), 422, 'invalid-fields');
    is $reply->{problem}{errors}[0]{field}, 'payment', "pay with $bad: names the field";
}
problem("pay with $_", $server->post('/api/orders/1-0000000000000000/pay', qq({"payment":"$_"})), 404, 'no-such-order') for 'pi_1!#[]~', 'x' x 64;

# ---- keys -----------------------------------------------------------------
problem("key <$_>", $server->post('/api/orders', $good, { 'Idempotency-Key' => $_ }),
    400, 'malformed-idempotency-key')
    for 'with space', '"open', '""', 'x' x 129, '"bad\escape"', '"a"b';
problem('a key above ASCII', raw("POST /api/orders HTTP/1.1\r\n${HOST}Content-Type: application/json\r\n",
    "Idempotency-Key: k\xe4y\r\nContent-Length: 2\r\n\r\n{}"), 400, 'malformed-idempotency-key');
problem('two keys', raw("POST /api/orders HTTP/1.1\r\n${HOST}Content-Type: application/json\r\n",
    "Idempotency-Key: a\r\nIdempotency-Key: a\r\nContent-Length: 2\r\n\r\n{}"), 400, 'malformed-idempotency-key');
is $server->post('/api/orders', $good, { 'Idempotency-Key' => $_ })->{status}, 201, "key $_"
    for 'x' x 128, '"' . 'q' x 128 . '"', '~!@#$%^&*()', '"a\"b\\\\c"';
is $server->post('/api/orders', $good, { 'Idempotency-Key' => '"twice"' })->{body}{id},
    $server->post('/api/orders', $good, { 'Idempotency-Key' => 'twice' })->{body}{id}, 'quoted or bare is the same';

my @blanks = map { raw("POST /api/orders HTTP/1.1\r\n${HOST}Content-Type: application/json \r\n",
        "Idempotency-Key: blanks$_\r\nContent-Length: ", length($good), "\r\n\r\n$good") } '', '  ', " \t", "\t";
is $_->{body}, $blanks[0]{body}, 'blanks after a key are not part of it' for @blanks;
is $blanks[0]{status}, 201, 'which is good' or diag explain @blanks;

# ---- sizes ----------------------------------------------------------------
my $pad = sub { my ($size) = @_; return $good . ' ' x ($size - length $good) };
is $server->post('/api/orders', $pad->(16384))->{status}, 201, 'a body of 16 KiB';
problem('one byte more', $server->post('/api/orders', $pad->(16385)), 413, 'body-too-large');
problem('a body of 1 MiB', $server->post('/api/orders', $pad->(1048576)), 413, 'body-too-large');
is $server->get('/livez')->{status}, 200, 'the connection is still good';
my $big = raw("POST /api/orders HTTP/1.1\r\n${HOST}Content-Type: application/json\r\nContent-Length: 1048577\r\n\r\n");
problem('a body announced as larger', $big, 413, 'body-too-large');
is $big->{headers}{connection}, 'close', 'is not even read';
sub chunked {
    my ($n) = @_;
    return raw("POST /api/orders HTTP/1.1\r\n${HOST}Content-Type: application/json\r\n",
        "Transfer-Encoding: chunked\r\n\r\n", ("1000\r\n" . ' ' x 4096 . "\r\n") x $n, "0\r\n\r\n");
}
problem('16 KiB in chunks, and no JSON', chunked(4), 400, 'malformed-json');
problem('20 KiB in chunks', chunked(5), 413, 'body-too-large');
problem('200 KiB in chunks', chunked(50), 413, 'body-too-large');
my $flood = HttpRaw::talk($port, "POST /api/orders HTTP/1.1\r\n${HOST}Content-Type: application/json\r\n"
    . "Transfer-Encoding: chunked\r\n\r\n" . ("10000\r\n" . ' ' x 65536 . "\r\n") x 40 . "0\r\n\r\n");
ok $flood->{closed}, 'a flood of chunks is cut off';
my $expect = raw("POST /api/orders HTTP/1.1\r\n${HOST}Content-Type: application/json\r\nExpect: 100-continue\r\n",
    'Content-Length: ' . length($good) . "\r\n\r\n$good");
is $expect->{status}, 201, 'Expect: 100-continue works';

is raw("GET /livez HTTP/1.0\r\nExpect: 200-ok\r\n\r\n")->{status}, 200, 'HTTP/1.0 has no Expect';

sub head_of { return raw("GET /livez HTTP/1.1\r\n$HOST", @_, "\r\n") }
is head_of("Content-Encoding: gzip\r\n")->{status}, 200, 'a Content-Encoding of no body';
my $room = 8192 - length("GET /livez HTTP/1.1\r\n$HOST\r\n");
is head_of('X: ' . 'a' x ($room - 5) . "\r\n")->{status}, 200, 'a head of 8 KiB';
problem('one byte more', head_of('X: ' . 'a' x ($room - 4) . "\r\n"), 431, 'headers-too-large');
is head_of(map { "X-$_: a\r\n" } 1 .. 63)->{status}, 200, '64 fields';
problem('65 fields', head_of(map { "X-$_: a\r\n" } 1 .. 64), 431, 'headers-too-large');
is head_of('X: ' . 'a' x 20000 . "\r\n")->{status}, 431, 'a head of 20 KiB';
is head_of(map { "X-$_: " . 'a' x 100 . "\r\n" } 1 .. 1000)->{status}, 431, 'a head of 100 KiB';
problem('a target of 2049 bytes', raw('GET /' . 'a' x 2048 . " HTTP/1.1\r\n$HOST\r\n"), 414, 'target-too-long');
problem('a target of 2048 bytes', raw('GET /' . 'a' x 2047 . " HTTP/1.1\r\n$HOST\r\n"), 404, 'not-found');
is raw('GET /' . 'a' x 20000 . " HTTP/1.1\r\n$HOST\r\n")->{status}, 414, 'a target of 20 KB';

# Arguments take libmicrohttpd's memory: what is too much is said, nothing behind it is lost
# in silence, and what is allowed leaves room for a head and a body.
is raw('GET /livez?x=1' . '&a=b' x 63 . " HTTP/1.1\r\n$HOST\r\n")->{status}, 200, '64 arguments';
for my $n (64, 200, 500) {
    my $line = '/livez?x=1' . '&a=b' x $n . " HTTP/1.1\r\n$HOST";
    my $what = ($n + 1) . ' arguments';
    problem($what, raw("GET $line\r\nGET /livez HTTP/1.1\r\n$HOST\r\n"), 414, 'target-too-long');
    my $many = problem("$what of a POST", raw("POST $line" . "Content-Length: 2\r\n\r\n{}"), 414, 'target-too-long');
    is $many->{headers}{connection}, 'close', "$what: and says that it closes";
}
problem('2000 empty arguments', raw('GET /livez?' . '&' x 2000 . " HTTP/1.1\r\n$HOST\r\n"), 414, 'target-too-long');
my $most = '/api/orders?x=1' . '&a=b' x 63 . " HTTP/1.1\r\n${HOST}Content-Type: application/json\r\n"
    . join('', map { "X-$_: " . 'b' x 115 . "\r\n" } 1 .. 60) . 'Content-Length: ' . length($good) . "\r\n\r\n$good";
is raw("POST $most")->{status}, 201, '64 arguments and 60 fields';
{
    # The same, slowly: libmicrohttpd grows its buffer while it parses.
    my $socket = HttpRaw::connect_to($port);
    my $bytes  = "GET /livez HTTP/1.1\r\n$HOST" . join('', map { "X-$_: " . 'b' x 120 . "\r\n" } 1 .. 60) . "\r\n";
    while (length $bytes) {
        HttpRaw::put($socket, substr $bytes, 0, 97, '');
        select undef, undef, undef, 0.002;
    }
    is HttpRaw::read_replies($socket, 1)->{replies}[0]{status}, 200, '7.8 KiB of head in small pieces';
}

# ---- paths ----------------------------------------------------------------
sub path_of { return raw("GET $_[0] HTTP/1.1\r\n$HOST\r\n") }
problem($_, path_of($_), 400, 'malformed-target') for (
    '/livez%00', '/a%00b', '/%', '/%4', '/%zz', '/%g0', '/%0a', '/%1f', '/%7f', '/x/./y', '/..', '/.', '/.%2e', 'http://h', 'http://h?x', '/api/products/%2e%2e/1',
    '/static/..%2f..%2fetc/passwd', '/../livez', '/api/../livez', '/./livez', '/livez/..', '/livez/.',
    '/a\b', '/a%5cb', '/a%2Fb', 'livez', '*', '/livez#top', '/api/products?limit=0', '/api/products?limit=201',
    '/api/products?limit=x', '/api/products?limit=1&limit=2', '/api/products?after=-1',
    '/api/products?after=%zz', '/api/products?limit', '/api/products?after&limit=1', '/api/orders',
    '/api/orders?keys=1&xkey=2',
);
problem("key$_", path_of("/api/orders?key$_"), 400, 'malformed-idempotency-key')
    for '', map { "=$_" } '', '%00', 'a%00b', 'a%20b', 'a+b', '%', '%1&x=2', 'a&key=b', 'x' x 129;
problem($_, path_of($_), 404, 'not-found') for (
    '/nope', '/livez/', '/livez/x', '//', '//livez', '/api/orders/', '/api/orders/1/', '/api/orders/1/2', '/api/products//restock',
    '/api/products/1/restock/', '/api/products/1/restock/x', '/api/products/1/restocks',
    '/API/products', '/index.html', '/api', '/api/orders/' . 'x' x 65, '/a..b/..c/...', '/%61pi/x%C3%A4',
);
problem('OPTIONS /nope', raw("OPTIONS /nope HTTP/1.1\r\n$HOST\r\n"), 404, 'not-found');
problem($_, path_of($_), 404, 'no-such-product')
    for map { "/api/products/$_" } 0, qw(-1 +1 1x 01 1%20 %201 abc 9007199254740992 99999999999999999999 99999);
problem($_, path_of($_), 404, 'no-such-order') for '/api/orders/nosuch', '/api/orders/1-0000000000000000', '/api/orders/' . 'x' x 64,
    '/api/orders?key=nosuch';
is path_of('/api/orders?a=1&key=%7e!@%23$%25^%26*()')->{status}, 200, 'a key is decoded: & is a part of it';
is path_of('/%6civez')->{status}, 200, 'an escape that need not be one is understood';
is path_of('/livez?x=%zz')->{status}, 200, 'a query that nobody reads does not matter';

# ---- methods ----------------------------------------------------------------
for (
    ['PATCH', '/api/orders', 'POST, GET, HEAD'],
    ['POST', '/api/orders/1', 'GET, HEAD, DELETE'],
    ['DELETE', '/api/products/7', 'GET, HEAD, PUT, PATCH'],
    ['GET', '/api/products/7/restock', 'POST'],
    ['POST', '/', 'GET, HEAD'],
    ['OPTIONS', '/livez', 'GET, HEAD'],
    ['get', '/livez', 'GET, HEAD'],
) {
    my ($method, $path, $allow) = @$_;
    my $reply = problem("$method $path", raw("$method $path HTTP/1.1\r\n$HOST\r\n"), 405, 'method-not-allowed');
    is $reply->{headers}{allow}, $allow, "$method $path: Allow";
}

# ---- products ---------------------------------------------------------------
sub bad_product {
    my ($method, $path, $body, $field) = @_;
    my $reply = problem("$method $body", $server->request($method, $path, $body), 422, 'invalid-fields');
    is $reply->{problem}{errors}[0]{field}, $field, "$method $body: names $field";
    return;
}
sub bad_put   { return bad_product('PUT',   '/api/products/900', @_) }
sub bad_patch { return bad_product('PATCH', '/api/products/7',   @_) }
bad_put('{"stock":1}', 'name');
bad_put('{"name":"a"}', 'stock');
bad_put('{"name":"","stock":1}', 'name');
bad_put('{"name":"a\u0007","stock":1}', 'name');
bad_put('{"name":"a\u009b31m","stock":1}', 'name'); # begins an escape sequence, too
bad_put('{"name":"' . 'x' x 101 . '","stock":1}', 'name');
bad_put('{"name":"a","stock":-1}', 'stock');
bad_put('{"name":"a","stock":1,"price_cents":1000000001}', 'price_cents');
bad_put('{"name":"a","stock":1,"price_cents":null}', 'price_cents');
bad_put("{\"name\":\"a\",\"stock\":1,\"opens_at\":$_}", 'opens_at')
    for '"tomorrow"', '"2030-01-01"', '"2030-01-01T00:00:00"', '"2030-01-01T00:00:00+01:00"',
    '"2030-02-30T00:00:00Z"', '"2030-02-29T00:00:00Z"', '"2030-13-01T00:00:00Z"', '"2030-01-01T24:00:00Z"',
    '"2030-01-01T00:60:00Z"', '"2030-01-01T00:00:60Z"', '"2030-01-01t00:00:00Z"', '"2030-01-01T00:00:00Z "',
    '" 2030-01-01T00:00:00Z"', '"2030-1-01T00:00:00Z"', '"+2030-01-01T00:00:00Z"', '""', '"2030-01-01T00:00:00.Z"', '"2030-01-01T00:00:00.1234Z"',
    '1', '"1969-01-01T00:00:00Z"', '"1970-01-01T00:00:00Z"', '"1969-12-31T23:59:59.999Z"';
is $server->put('/api/products/902', '{"name":"a","stock":1,"opens_at":"1970-01-01T00:00:00.001Z"}')->{status}, 201, 'the first time that is one';
bad_put("{\"name\":\"a\",\"stock\":1,\"opens_at\":\"2030-01-02T00:00:00Z\",\"ends_at\":\"2030-01-0${_}T00:00:00Z\"}", 'ends_at') for 1, 2;
problem('restock by nothing', $server->post('/api/products/7/restock', '{"quantity":0}'), 422, 'invalid-fields');
problem('restock of nothing', $server->post('/api/products/901/restock', '{"quantity":1}'), 404, 'no-such-product');

bad_patch('{"name":null}', 'name');
bad_patch('{"segments":null}', 'segments');
bad_patch('{"stock":null}', 'stock');
bad_patch("{\"segments\":$_}", 'segments') for 0, 257, -1, 9007199254740991;
bad_patch('{"colour":null}', 'colour');
bad_patch('{"opens_at":"2030-01-02T00:00:00Z","ends_at":"2030-01-01T00:00:00Z"}', 'ends_at');
problem('PATCH of nothing', $server->patch('/api/products/901', '{"name":"a"}'), 404, 'no-such-product');
problem('PATCH of no JSON', $server->patch('/api/products/7', '[]'), 422, 'invalid-fields');
problem('PATCH as a JSON patch', $server->patch('/api/products/7', '[]', { 'Content-Type' => 'application/json-patch+json' }),
    415, 'unsupported-media-type');

my $sold = 100 - $server->get('/api/products/7')->{body}{stock};
is $sold, 10, 'nothing was sold by mistake';
ok $server->get('/api/audit')->{body}{balanced}, 'and the ledger balances';
is $server->stop, 0, 'the server stops as it should';
done_testing;
