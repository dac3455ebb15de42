# Goal of this test: without an admin token the operator's machine may administer,
# and no page of another site that a browser there has loaded; with a token, who
# has it. Customers come by any name where that grants nothing.
use lib 'tests/e2e';
use Stockade;
use HttpRaw;

sub ask {
    my ($server, $what, @fields) = @_;
    my $text = "$what HTTP/1.1\r\n" . join('', map { "$_\r\n" } @fields) . "\r\n";
    return HttpRaw::ask($server->port, $text)->{status};
}

my $server = Stockade->start;
my $port   = $server->port;
my @json   = ('Content-Type: application/json', 'Content-Length: 0');

# ---- Host: a name that was made to point here ------------------------------------
is ask($server, 'GET /livez', "Host: $_"), 200, "Host: $_"
    for "127.0.0.1:$port", "localhost:$port", "LocalHost:$port", "127.8.9.1:$port", "[::1]:$port", 'localhost',
    '127.0.0.1:1', 'localhost:9999', 'localhost:', '[::1]:1', "localhost:$port \t ";
for my $host ("evil.example:$port", "evil.example", "localhost.evil.example:$port", "127.0.0.1.evil.example:$port",
    "[::2]:$port", "192.0.2.1:$port", ":$port", '', 'localhost:1@evil.example', "localhost:$port:evil", 'localhost:evil', '[::1]:x',
    "localhost.:$port", 'localhost:80:80', 'localhost:8o', 'xlocalhost', 'localhostx', '127.1', '0x7f.0.0.1', '128.0.0.1',
    '::1', '[::1].evil.example', '0000000000000000000000000000000127.0.0.1')
{
    is ask($server, 'GET /livez', "Host: $host"), 421, "Host: '$host' is misdirected";
    is ask($server, 'POST /api/products/1/warmup', "Host: $host", @json), 421, 'for an admin call as well';
}
# Of an absolute target its own authority counts.
is ask($server, 'PUT http://evil.example/api/products/1', "Host: localhost:$port", @json), 421, 'a target at evil.example';
is ask($server, 'GET HTTP://LocalHost/api/audit', 'Host: evil.example'), 200, 'a target here';
is ask($server, "GET http://$_/livez", 'Host: localhost'), 421, "a target with a user: $_" for 'evil@localhost', 'localhost:1@evil.example';
is ask($server, 'GET http://' . 'x' x 300 . '/livez', 'Host: localhost'), 421, 'a target at a very long name';
is ask($server, 'GET /api/audit?x=://evil.example/', 'Host: localhost'), 200, 'a query that looks like one';
is ask($server, 'GET http://localhost:1/api/audit', "Host: localhost:$port", "Origin: http://localhost:$port"), 403, 'and its origin';
for my $field ('X-Forwarded-For: 192.0.2.1', 'Forwarded: for=192.0.2.1') {
    is ask($server, 'GET /api/products', 'Host: evil.example', $field), 421, "a page may write '$field', too";
    is ask($server, 'GET /api/products', "Host: localhost:$port", $field), 200, 'a proxy may, with a name of ours';
    is ask($server, 'GET /api/audit', "Host: localhost:$port", $field), 403, 'which grants nothing';
}

# ---- pages of other sites -----------------------------------------------------------
my @host = ("Host: 127.0.0.1:$port");
for my $case (
    ['none of these fields', 200],
    ['our own page',          200, "Origin: http://127.0.0.1:$port", 'Sec-Fetch-Site: same-origin'],
    ['typed by a person',     200, 'Sec-Fetch-Site: none'],
    ['another site',          403, 'Origin: http://evil.example'],
    ['another port',          403, "Origin: http://127.0.0.1:1"],
    ['a file',                403, 'Origin: null'],
    ['a link elsewhere',      403, 'Sec-Fetch-Site: cross-site'],
    ['another of our names',  403, 'Sec-Fetch-Site: same-site'],
    ['two origins',           403, "Origin: http://127.0.0.1:$port", 'Origin: http://evil.example'],
    ['two sites',             403, 'Sec-Fetch-Site: same-origin', 'Sec-Fetch-Site: cross-site'],
) {
    my ($name, $status, @fields) = @$case;
    is ask($server, 'GET /api/audit', @host, @fields), $status, "audit, $name: $status";
    is ask($server, 'POST /api/products/1/warmup', @host, @json, @fields), $status, "warm-up, $name: $status";
    is ask($server, 'GET /api/products', @host, @fields), 200, "what is for everybody, $name: 200";
}

# What a form may send without asking first changes nothing.
for my $case (['PUT', ''], ['PATCH', ''], ['POST', '/restock'], ['POST', '/warmup']) {
    my ($method, $path) = @$case;
    is ask($server, "$method /api/products/1$path", @host, $_, 'Content-Length: 0'), 415, "$method $path with $_"
        for 'Content-Type: text/plain', 'Content-Type: application/x-www-form-urlencoded', 'X-None: 1';
}

# ---- with an admin token ------------------------------------------------------------
$server->restart(token => 'hunter2-hunter2-hunter2');
is ask($server, 'GET /api/products', 'Host: shop.example'), 200, 'with a token: any name';
is $server->get('/api/audit')->{status}, 403, 'a token is asked for';
is $server->get('/api/audit', { Authorization => "Bearer $_" })->{status}, 403, "wrong token '$_'"
    for 'hunter2-hunter2-hunter3', 'hunter2', 'hunter2-hunter2-hunter2x', 'x';
is $server->get('/api/audit', { Authorization => 'bearer hunter2-hunter2-hunter2', Forwarded => 'for=192.0.2.1' })->{status},
    200, 'the right one will do from anywhere';
is ask($server, 'GET /api/audit', 'Host: shop.example', "Authorization: bearer  hunter2-hunter2-hunter2 \t"), 200, 'with blanks around it, too';
is ask($server, 'GET /api/audit', 'Host: shop.example', ('Authorization: Bearer hunter2-hunter2-hunter2') x 2), 403, 'but not twice';
is $server->request(@$_, '{}')->{status}, 403, "@$_: who may is asked before what"
    for ['PUT', '/api/products/1'], ['PATCH', '/api/products/1'], map { ['POST', "/api/products/1/$_"] } qw(restock warmup);
is $server->get('/api/products')->{status}, 200, 'the shelf is for everybody';
is $server->stop, 0, 'stops';
done_testing;
