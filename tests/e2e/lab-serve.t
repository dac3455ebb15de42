# Goal of this test: `stockade lab serve` plays games and judges over HTTP, a process for each; lets
# in nobody but this machine's own pages; has a few games at most, and says so; and
# Ctrl-C leaves neither a process nor a file behind.
use lib 'tests/e2e';
use HTTP::Tiny ();
use IO::Socket::INET ();
use JSON::PP ();
use Stockade;
use Stockade::Child;

my $dir = Stockade::tempdir();
my $tmp = "$dir/tmp";
mkdir $tmp or die "$tmp: $!";
my $lab = Stockade::Child->spawn(
    command => [Stockade::binary(), 'lab', 'serve', '--port', '0'],
    env     => { TMPDIR => $tmp },
    log     => "$dir/log"
);
my $url = $lab->wait_for_line(qr{(http://127\.0\.0\.1:\d+)/lab}, 20 * $Stockade::SLOW) or die $lab->log;
my $http = HTTP::Tiny->new(timeout => 60 * $Stockade::SLOW, max_redirect => 0);

sub ask {
    my ($method, $path, $body, %headers) = @_;
    $headers{'Content-Type'} //= 'application/json' if $body;
    my $reply = $http->request($method, $url . $path, { headers => \%headers, $body ? (content => $body) : () });
    my $json = ($reply->{headers}{'content-type'} // '') eq q{application/json} && ($reply->{content} // q{}) ne '';
    return ($reply->{status}, $json ? JSON::PP::decode_json($reply->{content}) : $reply);
}

sub begin { return ask('POST', '/api/lab/games', JSON::PP::encode_json({@_})) }

sub judge { return ask('POST', '/api/lab/judge', JSON::PP::encode_json({@_})) }

sub command {
    my ($id, $command) = @_;
    return ask('POST', "/api/lab/games/$id", JSON::PP::encode_json({ command => $command }));
}

# The processes of games, and theirs. One is there from the beginning, which removes what
# the laboratory leaves when it is killed.
my %remover = map { $_ => 1 } Stockade::Child::children_of($lab->pid);
sub games     { return grep { !$remover{$_} } Stockade::Child::children_of($lab->pid) }
sub processes { return map { $_, Stockade::Child::children_of($_) } games() }

subtest 'the page and what there is' => sub {
    my ($status, $reply) = ask('GET', '/lab');
    is $status, 200;
    like $reply->{headers}{'content-security-policy'}, qr/default-src 'none'/;
    unlike $reply->{content}, qr{<script(?! type="module" src=)|\bon\w+=|style=}, 'nothing is inline';
    ($status, $reply) = ask('GET', $_), is($status, 200, $_) for map { "/$_" } qw(browser.js lab.css lab.js lab-beside.js lab-charts.js lab-files.js lab-lanes.js lab-load.js lab-own.js lab-path.js lab-words.js chart.js);
    ($status, $reply) = ask('GET', '/');
    is $reply->{headers}{location}, '/lab', '/ leads there';
    ($status, my $all) = ask('GET', '/api/lab');
    ok + (grep { $_->{name} eq 'redlock' } @{ $all->{locks} }), 'locks';
    is_deeply [grep { $_->{claim}{zh} !~ /^[^a-z]*\p{Han}/ } @{ $all->{locks} }], [], 'what each claims, in Chinese too';
    my %is_goal = map { $_ => 1 } map { @{ $_->{goal} } } (map { @{ $_->{plays} } } @{ $all->{experiments} }), @{ $all->{stops} };
    is_deeply [grep { ($all->{faults}{$_}{goal}{zh} // '') !~ /^\p{Han}/ } sort keys %is_goal], [], 'each goal says what to do';
    my ($story) = grep { $_->{id} eq '08' } @{ $all->{experiments} };
    is_deeply $story->{plays}[0]{goal}, ['oversold'], 'stories with their goals';
    like $story->{zh}{title}, qr/\p{Han}/, 'in both languages';
};

subtest 'a game' => sub {
    my ($status, $game) = begin(lock => 'set-nx-px', buyers => 3, deduct => 'naive');
    is $status, 200;
    is scalar @{ $game->{actors} }, 3, 'three buyers';
    my $id = $game->{id};
    ($status, $game) = command($id, 'move a a L b b a a b b');
    is_deeply $game->{faults}, ['oversold'], 'broken by nine moves';
    ($status, $game) = command($id, 'back 4');
    is $game->{schedule}, 'a a L b', 'and back';
    ($status, $game) = command($id, 'move a a a b b b');
    ok + (grep { $_->{done} } @{ $game->{actors} }), 'somebody is done';
    is + (command($id, 'back 4'))[0], 200, 'but not the game';
    ($status, $game) = command($id, 'move z');
    is $status, 200;
    like $game->{error}, qr/z/, 'what is no move is told';
    ($status, $game) = command($id, 'move ' . 'a ' x 200);
    like $game->{error}, qr/^a line is: /, 'nor is a line that is too long';
    ($status, $game) = command($id, 'back 0');
    is_deeply [@{$game}{qw(schedule error)}], ['', undef], 'whose rest is no other line';
    is + (ask('DELETE', "/api/lab/games/$id"))[0], 204, 'ended';
    is + (command($id, 'move a'))[0], 404, 'is over';
    ok Stockade::eventually(20, sub { !processes() }), 'its processes are gone';
};

subtest 'a story' => sub {
    my ($status, $game) = begin(experiment => '31', language => 'zh');
    is $status, 200;
    like $game->{moves}[0]{says}, qr/\p{Han}/, 'in Chinese';
    ask('DELETE', "/api/lab/games/$game->{id}");
};

subtest 'the path' => sub {
    my ($status, $all) = ask('GET', '/api/lab');
    my ($stop) = grep { $_->{name} eq 'left-behind' } @{ $all->{stops} };
    is_deeply [@{$stop}{qw(id schedule fewest goal)}], ['03', 'a a!', 2, ['left-for-ever']], 'a stop';
    like $stop->{zh}{literature}, qr/\p{Han}/, 'in both languages';
    is scalar @{ $stop->{choices} }, 3, 'with what it offers';
    ok !grep({ exists $_->{lock} || exists $_->{holds} } @{ $stop->{choices} }), 'and no word on which is right';
    my ($shown) = grep { $_->{id} eq '08' } @{ $all->{stops} };
    is scalar(split / /, $shown->{schedule}), $shown->{fewest}, 'what is shown has no more moves than are known to do';
    my ($right) = grep { !$_->{schedule} } @{ $all->{stops} };
    is_deeply [@{$right}{qw(fewest choices)}], [0, []], 'one that cannot be broken';

    ($status, my $game) = begin(stop => '03');
    is $status, 200;
    ($status, $game) = command($game->{id}, 'move a a!');
    is_deeply $game->{faults}, ['left-for-ever'], 'is broken';
    ask('DELETE', "/api/lab/games/$game->{id}");
    ($status, $game) = begin(stop => '03', choice => 'c', language => 'zh');
    is_deeply [$status, $game->{lock}], [200, 'set-nx-px'], 'what it offers can be played, too';
    ask('DELETE', "/api/lab/games/$game->{id}");

    my @told = map { (judge(stop => '03', choice => $_))[1] } qw(a c);
    is_deeply [map { $_->{answer} } @told], [qw(breaks holds)], 'it is judged';
    is $told[0]{schedule}, 'a a!', 'by a schedule';
    like $told[1]{says}, qr/^none in \d+ schedules: all within these bounds$/, 'or by how many there are';
    ($status, my $told) = judge(stop => '09', language => 'zh');
    like $told->{says}, qr/\p{Han}/, 'a right lock, in Chinese';
    is + (judge(%$_))[0], 422, 'no arbitrary input: ' . JSON::PP::encode_json($_)
        for {}, { stop => '99' }, { stop => '--help' }, { stop => '03', choice => 'd' }, { stop => '03', choice => 'a --help' },
        { lock => 'fenced' };
    is + (begin(stop => '03', choice => 'x'))[0], 422;
    is + (ask('GET', '/api/lab/judge'))[0], 404;
    ok Stockade::eventually(20, sub { !processes() }), 'no process is left';
};

subtest 'a lock of one\'s own' => sub {
    my $text = "take\n    SET \$name \$owner NX PX \$lease -> OK taken, else busy\nrelease\n    DEL \$name -> 1 done, else lost\n";
    my ($status, $game) = begin(text => $text, deduct => 'guarded');
    is_deeply [$status, $game->{lock}], [200, 'mine.lock'], 'is played';
    ($status, my $told) = ask('POST', '/api/lab/searches', JSON::PP::encode_json({ text => $text, deduct => 'guarded', language => 'zh' }));
    is_deeply [$status, $told->{done}, $told->{schedules}], [200, JSON::PP::false, 0], 'and searched';
    my $id    = $told->{id};
    my $known = Stockade::eventually(100, sub { $told = (command($id, 'look'))[1]; $told->{done} });
    ok $known, 'to its end, while one may look how far it is';
    my $broken = $told->{faults}{'foreign-release'};
    like $broken, qr/ L /, 'which has found a way';
    is + (command($id, 'look'))[0], 500, 'and is over then';
    my $answers = Stockade::run([qw(explore -i --json --seconds 60 fenced)], keys => 'look' x 100 . "\n")->{out};
    is scalar(() = $answers =~ /\n/g), 2, 'a long line is one question';
    ($status, $game) = command($game->{id}, "move $broken");
    is_deeply $game->{faults}, ['foreign-release'], 'by which the game breaks';
    ask('DELETE', "/api/lab/games/$game->{id}");
    ($status, $told) = begin(text => $text =~ s/DEL/FLUSHALL/r);
    is $status, 422, 'what is wrong with a text is told';
    is $told->{error}, "mine.lock:4: 'FLUSHALL': no command that a lock's text may use", 'with its line';
    ($status, $told) = ask('POST', '/api/lab/searches', JSON::PP::encode_json({ text => 'take' }));
    is $told->{error}, "mine.lock: there is no part 'take'", 'by a search, too';
    ($status, $told) = ask('POST', '/api/lab/searches', JSON::PP::encode_json({ text => $text =~ s/DEL .*/EVAL -> 1 done\n        if x = 1 then/r }));
    is $status, 422, 'a script that Redis does not compile is searched by nobody';
    like $told->{error}, qr/^mine\.lock:5: Redis does not compile this script: /, 'and its line is told';
    is + (ask('POST', '/api/lab/searches', '{}'))[0], 422;
    my ($all) = (ask('GET', '/api/lab'))[1];
    like + (grep { $_->{name} eq 'token' } @{ $all->{locks} })[0]{text}{en}, qr/^release\n\s+GET \$name\s+-> \$owner next/m, 'the text of a lock can be had';
    for my $lock (grep { $_->{text} } @{ $all->{locks} }) {
        my ($english, $chinese) = @{ $lock->{text} }{qw(en zh)};
        is_deeply [grep { !/\p{Han}/ } $chinese =~ /^(?:# |claim ).*/mg], [], "$lock->{name}: all comments are in Chinese, too";
        s/^(?:#|claim ).*\n//mg for $english, $chinese;
        is $chinese, $english, 'and nothing else differs';
    }
    ($status, $game) = begin(text => (grep { $_->{name} eq 'reentrant' } @{ $all->{locks} })[0]{text}{zh});
    is $status, 200, 'such a text plays';
    ask('DELETE', "/api/lab/games/$game->{id}");
    ok Stockade::eventually(20, sub { !processes() }), 'no process is left';
};

subtest 'an experiment, with its fix and with another lock' => sub {
    my ($status, $game) = begin(experiment => '08', fix => JSON::PP::true);
    is_deeply [$status, $game->{lock}], [200, 'watchdog'], 'its fix is played';
    ask('DELETE', "/api/lab/games/$game->{id}");
    ($status, $game) = begin(experiment => '08', lock => 'fenced');
    is_deeply [$status, $game->{lock}, $game->{stock}], [200, 'fenced', 1], 'a lock of choice, on the same stage';
    ask('DELETE', "/api/lab/games/$game->{id}");
    is + (begin(%$_))[0], 422, 'not: ' . JSON::PP->new->canonical->encode($_)
        for { experiment => '08', lock => '--help' }, { experiment => '08', lock => 'zk' }, { experiment => '03' };
};

subtest 'an experiment of load' => sub {
    my $run = sub { return ask('POST', '/api/lab/runs', JSON::PP::encode_json({@_})) };
    my ($status, $told) = $run->(experiment => '03', language => 'zh');
    is_deeply [$status, $told->{done}], [200, JSON::PP::false], 'begins';
    my ($id, $looks) = ($told->{id}, 0);
    my $done = Stockade::eventually(100, sub { $looks++; $told = (command($id, 'look'))[1]; $told->{done} });
    ok $done, 'and ends';
    is_deeply [@{$told}{qw(lock faults as_told)}], ['process', ['oversold'], JSON::PP::true], 'with the verdict of the ledger';
    like $told->{timeline}[-1]{text}, qr/\p{Han}/, 'in Chinese';
    my ($first, $last) = @{ $told->{samples} }[0, -1];
    cmp_ok $first->{stock}, '>', 50, 'from its beginning';
    is_deeply [$first->{placed}, $last->{placed}, $last->{placed} + $last->{sold_out}, $last->{stock}],
        [0, $told->{sold}, 800, 0], 'its orders and its stock were followed';
    is $last->{orders}, 800, 'and each order\'s time';
    cmp_ok $last->{waits_s}, '>', 0, 'and what it waited for';
    is + (command($id, 'look'))[0], 404, 'is over then';

    ($status, $told) = $run->(experiment => '03', fix => JSON::PP::true);
    my ($second) = (($run->(experiment => '19', lock => 'fair'))[1]{id});
    is + ($run->(experiment => '03'))[0], 429, 'two are all';
    is + (ask('DELETE', "/api/lab/games/$told->{id}"))[0], 204, 'who leaves ends it';
    ($status, $told) = $run->(experiment => '03', lock => 'redisson');
    is $status, 200, 'which makes room';
    ask('DELETE', "/api/lab/games/$_") for $second, $told->{id};
    is + ($run->(%$_))[0], 422, 'not: ' . JSON::PP->new->canonical->encode($_)
        for {}, { experiment => '08' }, { experiment => '02', fix => JSON::PP::true }, { experiment => '03', lock => 'redlock' },
        { experiment => '03', lock => '--help' };
    ok Stockade::eventually(20, sub { !processes() }), 'no process is left';
};

subtest 'what is asked wrongly' => sub {
    my $more = Stockade::run([qw(lab serve 9000)]);
    is_deeply [@$more{qw(exit out err)}], [2, '', "stockade: lab serve does not take '9000'\n"], 'a port is a flag';
    my $taken = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1');
    $more = Stockade::run([qw(lab serve --port), $taken->sockport]);
    like $more->{err}, qr/cannot listen on port \d+: Address already in use; --port 0 takes one/, 'a port that is taken';
    my ($status, $reply) = begin(lock => 'no-such-lock');
    is $status, 422, $reply->{error};
    is + (begin(experiment => '999'))[0], 422;
    is + (begin(buyers => 2))[0], 422;
    is + (begin(lock => '--help'))[0], 422, 'a lock is no flag';
    for ([{ buyers => 5 }, '--buyers takes 1 to 4'], [{ buyers => 2.5 }, '--buyers takes 1 to 4'], [{ stock => -1 }, '--stock takes 0 to 1000'],
        [{ deduct => 'foo' }, '--deduct takes naive or guarded'], [{ schedule => 'zz' }, qr/zz/], [{ schedule => '--help' }, qr/--help/],
        [{ schedule => 5 }, '"schedule" is of a wrong type'], [{ schedule => 'a ' x 200 }, qr/a schedule has at most 64 moves/],
        [{ stop => '3', choice => 5 }, '"choice" is of a wrong type'], [{ stop => '3', choice => 'z' }, qr/has no choice z/], [{ stop => '3', buyers => 2 }, qr/^there is no "buyers"/],
        [{ experiment => '08', fix => 'true' }, '"fix" is of a wrong type'], [{ experiment => '08', schedule => 'a' }, qr/^there is no "schedule"/],
        [{ language => 'fr' }, '"language" is en or zh'], [{ lock => 5, text => 'x' }, '"lock" is of a wrong type']) {
        my ($wish, $error) = @$_;
        ($status, $reply) = begin($wish->{stop} || $wish->{experiment} ? () : (lock => 'none'), %$wish);
        is $status, 422, 'not: ' . JSON::PP->new->canonical->encode($wish);
        like $reply->{error}, ref $error ? $error : qr/^\Q$error\E$/, 'and it is said why';
    }
    for ([schedule => 'a ' . "\x{9501}" x 4], ['a' . "\x{e4}" x 30, 1]) { # the error is cut within a character
        ($status, $reply) = begin(lock => 'none', @$_);
        is_deeply [$status, $reply->{error} =~ /\?/ ? 'told' : $reply], [422, 'told'], 'an error in another script';
    }
    is_deeply [judge(stop => '3', choice => 5)], [422, { error => '"choice" is of a wrong type' }], 'nor judged';
    ($status, $reply) = ask('POST', '/api/lab/searches', '{"lock": "none", "buyers": 9}');
    is_deeply [$status, $reply->{error}], [422, '--buyers takes 1 to 4'], 'nor is it searched';
    is + (ask('POST', '/api/lab/games', '{'))[0], 400;
    is + (ask('POST', '/api/lab/games', '[' x 4000))[0], 400;
    is + (ask('POST', '/api/lab/games', 'x' x 40_000))[0], 413;
    is + (ask('GET', '/api/lab/games'))[0], 404;
    ok Stockade::eventually(20, sub { !processes() }), 'and no process is left';
};

# The status of a request for HOST.
sub status_for {
    my ($port, $host) = @_;
    my $socket = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port") or die "connect: $!";
    print {$socket} "GET /api/lab HTTP/1.0\r\n" . ($host ? "Host: $host\r\n" : '') . "\r\n";
    return (split / /, scalar <$socket>)[1];
}

subtest 'pages from elsewhere' => sub {
    my ($status, $reply) = ask('POST', '/api/lab/games', '{"lock":"none"}', 'Content-Type' => 'text/plain');
    is $status, 415, 'a form can send no JSON';
    my $port = $url =~ s/.*://r;
    is status_for($port, $_), 403, "not for '$_'" for "evil.example:$port", 'evil.example', "127.0.0.1.evil.example:$port", "localhost:1$port", 'localhost', '';
};

# Below 1024 a port takes root.
subtest 'a port that browsers leave out' => sub {
    my $at_80 = Stockade::Child->spawn(command => [Stockade::binary(), qw(lab serve --port 80)], log => "$dir/log.80");
    $at_80->wait_for_line(qr{(:80/lab)}, 20 * $Stockade::SLOW) or plan skip_all => 'port 80 is not to be had';
    is status_for(80, $_), 200, "for $_" for 'localhost', 'LocalHost:80', '127.0.0.1', '[::1]';
    is status_for(80, $_), 403, "not for $_" for 'evil.example', 'localhost:8080', 'localhost.evil.example';
    is $at_80->stop, 0, 'it ends';
};

my @begun;
subtest 'a few games at once' => sub {
    my @ids = map { (begin(lock => 'none'))[1]{id} } 1 .. 16;
    is + (grep { defined } @ids), 16, 'sixteen begin';
    command($_, 'move b') for @ids; # the first began long ago on a busy machine
    my ($status, $reply) = begin(lock => 'none');
    is $status, 503, $reply->{error};
    ask('DELETE', "/api/lab/games/$ids[0]");
    ($status, $reply) = begin(lock => 'none');
    is $status, 200, 'one that ended makes room';
    @begun = (@ids[1 .. 15], $reply->{id});
};

# The page of a browser that was killed never says that its game has ended.
subtest 'the game that was unused for the longest time makes room' => sub {
    my ($unused, @used) = @begun;
    my ($status, $new);
    Stockade::eventually(
        60,
        sub {
            command($_, 'move a') for @used;
            ($status, $new) = begin(lock => 'none');
            return $status == 200;
        }
    );
    is $status, 200, 'one begins';
    is + (command($unused, 'move a'))[0], 404, 'in its place';
    is_deeply [grep { (command($_, 'move a'))[0] != 200 } @used], [], 'and in no other';
    @begun = (@used, $new->{id});
};

subtest 'a page that is left while its game begins leaves no game' => sub {
    ask('DELETE', "/api/lab/games/$_") for @begun;
    ok Stockade::eventually(20, sub { !processes() }), 'none before';
    my $body = '{"lock":"none"}';
    my $port = $url =~ s/.*://r;
    for (1 .. 3) {
        my $socket = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port") or die "connect: $!";
        print {$socket} "POST /api/lab/games HTTP/1.1\r\nHost: localhost:$port\r\nContent-Type: application/json\r\n"
            . 'Content-Length: ' . length($body) . "\r\n\r\n$body";
        # It says goodbye before the game can answer, and hears which one it was all the same.
        $socket->flush;
        $socket->shutdown(1);
        my ($id) = join('', <$socket>) =~ /"id":"([0-9a-f]+)"/;
        ok $id, 'a game has begun';
        is + (command($id, 'move a'))[0], 404, 'and is gone';
        ok Stockade::eventually(20, sub { !processes() }), 'with its processes';
    }
    begin(lock => 'none') for 1 .. 16;
};

my @all = processes();
ok @all > 16, scalar(@all) . ' processes';
$lab->signal('INT');
is $lab->wait(30 * $Stockade::SLOW), 0, 'Ctrl-C ends it';
ok Stockade::eventually(20, sub { !grep { kill 0, $_ } @all }), 'and all of its games';

subtest 'beside a service' => sub {
    my $port    = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1')->sockport;
    my $service = Stockade->start(args => ['--lab', $port]);
    is $service->get('/lab')->{status}, 404, 'the service has no route of it';
    is $http->get("http://127.0.0.1:$port/lab")->{status}, 200, 'the page has a port of its own';
    like $service->log, qr{msg=lab page=http://127\.0\.0\.1:$port/lab$}m, 'which is told';
    my $run = Stockade::run(['serve', '--listen', '127.0.0.1:0', '--db', "sqlite:$dir/other.db", '--lab', $port]);
    is $http->get("http://127.0.0.2:$port/lab")->{status}, 599, 'only there';
    is $run->{exit}, 1, 'a port that is taken is an error';
    like $run->{err}, qr/msg=lab error=.*port $port is not free/, 'and told';
    $service->kill9;
    ok Stockade::eventually(20, sub { $http->get("http://127.0.0.1:$port/lab")->{status} == 599 }), 'it ends with the service';
    $service = Stockade->start(args => ['--lab', $port]);
    my ($page) = grep { Stockade::Child::name_of($_) eq 'stockade-lab' } $service->children;
    Stockade::Child::freeze($page);
    is $service->stop, 0, 'a page that does not end is killed';
    $service = Stockade->start(args => ['--lab', $port, '--lab-public']);
    is $http->get("http://127.0.0.2:$port/lab")->{status}, 200, '--lab-public: at any address, by any name';
    my @idle = map { IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port", LocalAddr => '127.0.0.2') } 1 .. 70;
    is + HTTP::Tiny->new(timeout => 10 * $Stockade::SLOW)->get("http://127.0.0.1:$port/lab")->{status}, 200, 'one visitor does not shut out the others';
    $service->kill9;
    ok Stockade::eventually(20, sub { $http->get("http://127.0.0.1:$port/lab")->{status} == 599 }), 'it ends with the service, too';
};
opendir my $left, $tmp or die "$tmp: $!";
is_deeply [grep { !/^\.\.?$/ } readdir $left], [], 'no file is left';
done_testing;
