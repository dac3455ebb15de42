# Goal of this test: no bytes are read as two requests by us and as one by
# somebody before us, or the other way round. Whatever is ambiguous gets 4xx
# and the end of the connection; what is not goes through.
use lib 'tests/e2e';
use HttpRaw;
use Stockade;

my $server = Stockade->start;
my $port   = $server->port;
$server->product(77, 1000);

my $HOST     = "Host: localhost\r\n";
my $JSON     = "Content-Type: application/json\r\n";
my $BODY     = '{"product_id":77,"user_id":1,"quantity":1}';
my $LENGTH   = 'Content-Length: ' . length($BODY) . "\r\n";
my $SMUGGLED = "GET /livez?smuggled HTTP/1.1\r\n${HOST}X-Rest: ";

sub post_with { return "POST /api/orders HTTP/1.1\r\n" . join('', @_) }

# Refused: status, one reply, closed. CLOSED => 0: may stay open.
sub refused {
    my ($name, $status, $bytes) = @_;
    my $talk = HttpRaw::talk($port, $bytes);
    my $got  = $talk->{replies}[0] || { status => 'no reply', headers => {} };
    like $got->{status}, qr/^(?:$status)$/, "$name: $status";
    ok $talk->{closed}, "$name: and the connection is closed";
    is scalar @{ $talk->{replies} }, 1, "$name: and nothing else is answered";
    return $got;
}

sub accepted {
    my ($name, $status, $bytes, $n) = @_;
    my $talk = HttpRaw::talk($port, $bytes);
    is_deeply [map { $_->{status} } @{ $talk->{replies} }], [($status) x ($n || 1)], $name
        or diag explain $talk;
    return;
}

# ---- two opinions on where the body ends ---------------------------------
my $chunked = "Transfer-Encoding: chunked\r\n";
my $problem = refused('Content-Length and chunked', 400,
    post_with($HOST, $JSON, "Content-Length: 6\r\n", $chunked, "\r\n0\r\n\r\n$SMUGGLED"));
is $problem->{headers}{'content-type'}, 'application/problem+json', 'it says why, as a problem';
like $problem->{body}, qr/exclude each other/, 'in words';
is $problem->{headers}{connection}, 'close', 'and announces the close';
refused('chunked and Content-Length', 400,
    post_with($HOST, $JSON, $chunked, "Content-Length: 6\r\n", "\r\n0\r\n\r\n$SMUGGLED"));
refused('two different Content-Lengths', 400,
    post_with($HOST, $JSON, $LENGTH, "Content-Length: 0\r\n", "\r\n$BODY$SMUGGLED"));
refused('two equal Content-Lengths', 400, post_with($HOST, $JSON, $LENGTH, $LENGTH, "\r\n$BODY"));
refused('Content-Length with a space before the colon', 400,
    post_with($HOST, $JSON, "Content-Length : 34\r\n", "\r\n$SMUGGLED"));
refused('a tab before the colon', 400, post_with($HOST, $JSON, "Content-Length\t: 34\r\n", "\r\n$SMUGGLED"));
refused("Content-Length: $_", '400|413', post_with($HOST, $JSON, "Content-Length: $_\r\n", "\r\n$BODY"))
    for '+4', '4, 4', '-1', '0x10', '4 4', '', '99999999999999999999', '4;', "4\x0b";
refused("Transfer-Encoding: $_", 400, post_with($HOST, $JSON, "Transfer-Encoding: $_\r\n", "\r\n0\r\n\r\n$SMUGGLED"))
    for '', 'chunke', 'xchunked', 'gzip, chunked', 'chunked, chunked', 'identity', 'chunked;x=1', "\x0bchunked", '"chunked"', 'chunked ', "chunked\t";
refused('two Transfer-Encodings', 400, post_with($HOST, $JSON, $chunked, $chunked, "\r\n0\r\n\r\n$SMUGGLED"));
refused('chunked with HTTP/1.0', 400, "POST /api/orders HTTP/1.0\r\n$HOST$JSON$chunked\r\n0\r\n\r\n$SMUGGLED");

# ---- chunks --------------------------------------------------------------
sub chunks { return post_with($HOST, $JSON, $chunked, "\r\n", @_) }
refused('a chunk size of 0x1', 400, chunks("0x1\r\na\r\n0\r\n\r\n"));
refused('a chunk size beyond 64 bits', '400|413', chunks("FFFFFFFFFFFFFFFFF\r\na"));
refused('a chunk size with a sign', 400, chunks("+1\r\na\r\n0\r\n\r\n"));
refused('a chunk longer than it says', 400, chunks("1\r\nab\r\n0\r\n\r\n"));
accepted('proper chunks', 201, chunks(sprintf("%x\r\n%s\r\n0\r\n\r\n", length $BODY, $BODY)));
accepted('chunks of one byte', 201, chunks(map({ "1\r\n$_\r\n" } split //, $BODY), "0\r\n\r\n"));

# ---- lines ---------------------------------------------------------------
refused('a folded header', 400, "GET /livez HTTP/1.1\r\n${HOST}X: a\r\n b\r\n\r\n");
refused('a folded header at the end', 400, "GET /livez HTTP/1.1\r\n${HOST}X: a\r\n\tb\r\n\r\n");
refused('a bare LF', 400, "GET /livez HTTP/1.1\r\n${HOST}X: a\nY: b\r\n\r\n");
refused('only bare LFs', 400, "GET /livez HTTP/1.1\nHost: localhost\n\n");
refused('a bare CR', 400, "GET /livez HTTP/1.1\r\n${HOST}X: a\rY: b\r\n\r\n");
refused('a NUL in a value', 400, "GET /livez HTTP/1.1\r\n${HOST}X: a\0b\r\n\r\n");
refused('a NUL at the end of a value', 400, "GET /livez HTTP/1.1\r\n${HOST}X: a\0\r\n\r\n");
refused('a NUL before blanks', 400, "GET /livez HTTP/1.1\r\n${HOST}X: a\0 \t\r\n\r\n");
refused('a NUL in a value, not the last', 400, "GET /livez HTTP/1.1\r\nX: a\0b\r\n$HOST\r\n");
refused('a NUL in a name', 400, "GET /livez HTTP/1.1\r\n${HOST}X\0Y: a\r\n\r\n");
refused('a control byte in a value', 400, "GET /livez HTTP/1.1\r\n${HOST}X: a\x01b\r\n\r\n");
refused('a DEL in a value', 400, "GET /livez HTTP/1.1\r\n${HOST}X: a\x7fb\r\n\r\n");
refused('a line without a colon', 400, "GET /livez HTTP/1.1\r\n${HOST}nonsense\r\n\r\n");
refused('an escape in a value', 400, "GET /livez HTTP/1.1\r\n${HOST}X: \x1b[0m\r\n\r\n");
refused(sprintf('a byte %d in a name', ord), 400, "GET /livez HTTP/1.1\r\n${HOST}X${_}Y: a\r\n\r\n") for "\x01", "\x7f", ' ', '(';
refused('a nameless header', 400, "GET /livez HTTP/1.1\r\n${HOST}: a\r\n\r\n");
refused('a name with a bracket', 400, "GET /livez HTTP/1.1\r\n${HOST}X[]: a\r\n\r\n");
refused('a name with a byte above ASCII', 400, "GET /livez HTTP/1.1\r\n${HOST}X\xe4: a\r\n\r\n");
refused('a header line that begins with a space', 400, "GET /livez HTTP/1.1\r\n Host: localhost\r\n\r\n");

# ---- the request line ----------------------------------------------------
refused('two Hosts', 400, "GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
refused('two equal Hosts', 400, "GET /livez HTTP/1.1\r\n$HOST$HOST\r\n");
refused('two Hosts with HTTP/1.0', 400, "GET /livez HTTP/1.0\r\nHost: a\r\nhost: b\r\n\r\n");
refused('no Host', 400, "GET /livez HTTP/1.1\r\nX: a\r\n\r\n");
refused('a Host with a space', 400, "GET /livez HTTP/1.1\r\nHost: a b\r\n\r\n");
refused('HTTP/1.9', 505, "GET /livez HTTP/1.9\r\n$HOST\r\n");
refused('HTTP/2.0', 505, "GET /livez HTTP/2.0\r\n$HOST\r\n");
refused('http/1.1', 400, "GET /livez http/1.1\r\n$HOST\r\n");
refused('two spaces before the target', 400, "GET  /livez HTTP/1.1\r\n$HOST\r\n");
refused('a space in the target', 400, "GET /li vez HTTP/1.1\r\n$HOST\r\n");
refused('a NUL in the target', 400, "GET /livez\0x HTTP/1.1\r\n$HOST\r\n");
refused('a byte above ASCII in the target', 400, "GET /l\xefvez HTTP/1.1\r\n$HOST\r\n");
refused('a tab in the target', 400, "GET /livez\tx HTTP/1.1\r\n$HOST\r\n");
refused('a method that is no token', 400, "G{T /livez HTTP/1.1\r\n$HOST\r\n");

# ---- and what is right goes through --------------------------------------
accepted('a plain request', 200, "GET /livez HTTP/1.1\r\n$HOST\r\n");
accepted('HTTP/1.0 without Host', 200, "GET /livez HTTP/1.0\r\n\r\n");
accepted('the absolute form', 200, "GET http://localhost/livez HTTP/1.1\r\n$HOST\r\n");
accepted('values with spaces and tabs', 200, "GET /livez HTTP/1.1\r\n${HOST}X:  a\tb  \r\nY:\r\nZ: \r\n\r\n");
accepted('two requests at once', 200, "GET /livez HTTP/1.1\r\n$HOST\r\n" x 2, 2);
accepted('five orders at once', 201, post_with($HOST, $JSON, $LENGTH, "\r\n$BODY") x 5, 5);
accepted('an empty line before it', 200, "\r\nGET /livez HTTP/1.1\r\n$HOST\r\n");

is $server->stop, 0, 'the server is still there, and stops';

# ---- another libmicrohttpd than the one of its headers ------------------------
SKIP: {
    skip 'a sanitizer wants to be loaded first', 5 if $ENV{SAN};
    my $dir = Stockade::tempdir();
    Stockade::write_file("$dir/later.c", 'const char *MHD_get_version(void); const char *MHD_get_version(void) { return "0.9.76"; }');
    is system('cc', '-shared', '-fPIC', '-o', "$dir/later.so", "$dir/later.c"), 0, 'a library that says that it is a later one';
    $server = Stockade->start(env => { LD_PRELOAD => "$dir/later.so" });
    is HttpRaw::ask($server->port, "GET /livez HTTP/1.1\nHost: localhost\n\n")->{status}, 200,
        'lines are left to it: how it parses is not known';
    is HttpRaw::ask($server->port, "GET /livez HTTP/1.1\r\n$HOST", @$_, "\r\n")->{status}, 431, 'but a head has its bounds'
        for ['X: ' . 'a' x 8192 . "\r\n"], [map { "X-$_: a\r\n" } 1 .. 64];
    is $server->stop, 0, 'stops';
}
done_testing;
