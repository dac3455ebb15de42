# Goal of this test: a lock of one's own, as a text, is judged like those of the house:
# the search breaks it by a schedule that replay plays, and lets it be once it is mended;
# it is measured, and sells; what is wrong with the text is told with line and word; and
# a script of one's own does not reach a server that somebody else uses.
use lib 'tests/e2e';
use JSON::PP ();
use Stockade;

my $dir = Stockade::tempdir();

sub write_lock { return Stockade::write_file("$dir/$_[0].lock", $_[1]) }

sub run {
    my (@args) = @_;
    return @{ Stockade::run(\@args, seconds => 100) }{qw(exit out err)};
}

my $take    = "take\n    SET \$name \$owner NX PX \$lease -> OK taken, else busy\n";
my $looks   = "release\n    GET \$name -> \$owner next, else lost\n    DEL \$name -> 1 done, else lost\n";
my $in_one  = "release\n    EVAL \$owner -> 1 done, else lost\n"
    . "        if redis.call('get', KEYS[1]) == ARGV[1] then\n            return redis.call('del', KEYS[1])\n        end\n        return 0\n";
my $broken  = write_lock(broken => $take . $looks);
my $mended  = write_lock(mended => $take . $in_one);

# ---- the search -------------------------------------------------------------

my ($status, $out, $err) = run(qw(explore --json --crashes 0 --deduct guarded), $broken);
my $found = JSON::PP::decode_json($out);
is $status, 1, 'looks, then deletes: it breaks';
my $schedule = $found->{faults}{'foreign-release'};
like $schedule, qr/ L /, 'the lease ends in between';
($status, $out) = run('replay', '--deduct', 'guarded', $broken, $schedule);
is $status, 1, 'replay plays it';
like $out, qr/foreign-release/, 'to the same end';
($status, $out) = run(qw(explore --moves 1), $broken);
like $out, qr/^broken\.lock|\Q$broken\E/m, 'the file names the lock';

($status, $out) = run(qw(explore --crashes 0 --deduct guarded), $mended);
is $status, 0, 'mended by a script: it holds';
like $out, qr/\Anone in \d+ schedules: all within these bounds$/m, 'in all within the bounds';

my $beside = write_lock(beside => $take . $in_one =~ s/(EVAL) (\$owner)/$1 \$name:left $2/r);
($status, $out) = run(qw(explore --crashes 0 --deduct guarded), $beside);
like $out, qr/\Anone in \d+ schedules: all within these bounds, but keys beside \$name were not watched$/m, 'it is said what nobody looked at';
like +(run(qw(explore --moves 3 --random 1 --zh), $beside))[1], qr/但没有查看旁边的键/, 'in Chinese as well';

# A set's members count as state: what follows from two is not what follows from one, nor
# from one that looks like two.
for my $case (
    ['one', "    SADD \$name two -> 1 next\n", 'what only other members of a set lead to is found'],
    ['one two', <<'END', 'nor is one that looks like two of them'],
    EVAL -> 1 next
        redis.call('sadd', KEYS[1], 'one')
        redis.call('srem', KEYS[1], 'one two')
        return redis.call('sadd', KEYS[1], 'two')
END
  )
{
    my ($member, $then, $what) = @$case;
    my $file = write_lock(members => <<"END");
take
    EVAL \$lease -> else next
        redis.call('sadd', KEYS[1], '$member')
        redis.call('pexpire', KEYS[1], ARGV[1])
        return 1
$then    SREM \$name two -> else taken
release
    DEL \$name -> 1 done, else lost
END
    ($status, $out) = run(qw(explore --json --preemptions 0 --expiries 0), $file);
    ok JSON::PP::decode_json($out)->{faults}{'unnamed-reply'}, $what;
}

# ---- an error of Redis -------------------------------------------------------

my $mistyped = write_lock(mistyped => "${take}release\n    HDEL \$name x -> 1 done, else lost\n");
my $breaks   = write_lock(breaks => $take . $in_one =~ s/(redis\.call\('del', KEYS\[1\]\))/$1 + nil/r);
for my $case ([$mistyped, 'WRONGTYPE'], [$breaks, 'ERR']) {
    my ($file, $answer) = @$case;
    ($status, $out) = run(qw(explore --json --moves 4 --deduct guarded), $file);
    is $status, 1, "$answer: no lock is right of which a command fails";
    $found = JSON::PP::decode_json($out);
    is $found->{faults}{'error-reply'}, 'a a a', 'the release of the first';
    unlike $found->{verdict}, qr/nothing broke/, 'and the verdict is not that nothing broke';
    ($status, $out) = run('replay', '--deduct', 'guarded', $file, 'a a a' . ($file eq $mistyped ? ' a+' : ''));
    like $out, qr/\Q$answer\E.*^verdict: error-reply: Redis answered a command of the lock with an error \(move 3\)$/ms, 'replay says the same';
    like $out, qr/released it: Redis answered with\s+an error/, 'the release was answered';
    unlike $out, qr/reply was lost/, 'and no reply was lost';
}

my $first = write_lock(first => ($take =~ s{NX PX}{NX XX PX}r) . $in_one);
is Stockade::run(['replay', '-i', '--deduct', 'guarded', $first], keys => $_->[1])->{exit}, $_->[0], "keys $_->[1]" for [1, 'aq'], [0, 'auq'];

# Its sender has given up, and never hears of it.
my $late = write_lock(late => $take . $in_one =~ s/return 0/return redis.call('incr', KEYS[1], 'x')/r);
($status, $out) = run('replay', '--deduct', 'guarded', $late, 'a a a^ L ^');
like $out, qr/late eval-release: ERR .*^verdict: error-reply: .* \(move 5\)$/ms, 'an error counts when the command arrives late, too';

# ---- more than the stage can look at ------------------------------------------

my $large = write_lock(large => "take\n    EVAL \$lease -> 1 taken, else busy\n        redis.call('set', KEYS[1], '" . 'x' x 4200 . "', 'PX', ARGV[1])\n        return 1\nrelease\n    DEL \$name -> else done\n");
($status, $out, $err) = run(qw(replay --deduct guarded --save), "$dir/large.jsonl", '--svg', "$dir/large.svg", $large, 'a');
is $status, 2, 'what is in Redis cannot be looked at whole: exit 2';
like $err, qr/move 1: Redis has more in it than can be looked at$/m, 'and it is said why';
unlike $out, qr/verdict/, 'without a verdict';
is_deeply [glob "$dir/large.[js]*"], [], 'nor is there a file that has one';

# ---- a reply that the text does not name -------------------------------------

my $unnamed = write_lock(unnamed => $take . $looks =~ s/1 done, else lost/2 done/r);
($status, $out) = run(qw(explore --json --moves 5 --deduct guarded), $unnamed);
is $status, 1, 'a lock that does not understand its replies is not right';
is +JSON::PP::decode_json($out)->{faults}{'unnamed-reply'}, 'a a a a', 'found where the reply came';
($status, $out) = run('replay', '--deduct', 'guarded', $unnamed, 'a a a a');
like $out, qr/released it: line 5 of the text\s+does not name the reply 1$/m, 'told with the line and the reply';
unlike $out, qr/reply was lost/, 'which was not lost';
like $out, qr/^verdict: unnamed-reply: .* \(move 4\)$/m, 'and the verdict says so';
my $asleep = write_lock(asleep => "renewed watchdog\n\n${take}renew\n    PEXPIRE \$name \$lease -> 2 done\n$looks");
($status, $out) = run('replay', '--deduct', 'guarded', $asleep, 'a aw');
like $out, qr/^verdict: unnamed-reply: .* \(move 2\)$/m, 'also to the watchdog';

# ---- what a text gets wrong without an error ---------------------------------

my $counts = Stockade::slurp('lock/textbook/reentrant.lock') =~ s/^        local left = .*\z/        redis.call('del', KEYS[1])\n        return tonumber(ARGV[2])\n/msr;
for my $case (
    # what; the text; flags and the schedule; the fault, at which move
    ['takes what is taken alone', "take\n    SET \$name \$owner XX PX \$lease -> OK taken, else busy\n$in_one", '--buyers 1', 'a a+ a', 'failed', 3],
    ['releases nothing, and says done', $take . $in_one =~ s/== ARGV/~= ARGV/r =~ s/return 0/return 1/r, '--deduct guarded', 'a a a', 'still-held', 3],
    ['lengthens the lease of whoever has it', "renewed watchdog\n${take}renew\n    PEXPIRE \$name \$lease -> 1 done, else lost\n$in_one", '', 'a L b aw', 'foreign-lease', 4],
    ['frees the lock by the inner release', $counts, '--programs lock-nested,lock', 'a a a a b', 'two-inside', 5],
    ['lets the lock end sooner by the inner release', Stockade::slurp('lock/textbook/reentrant.lock') =~ s/^( *redis\.call\('hset'.*\n)/$1            redis.call('pexpire', KEYS[1], 1000)\n/mr, '--programs lock-nested,lock', 'a a a a', 'wrong-lease', 4],
    ['does so under an order', $counts, '--programs order-nested,order', 'a a a a a a b', 'two-inside', 7],
    ['lasts for a time of its own', "take\n    SET \$name \$owner NX PX 10 -> OK taken, else busy\n$in_one", '', 'a', 'wrong-lease', 1],
    ['ends before that', $take =~ s/taken, else busy/next, else busy\n    PEXPIRE \$name 10 -> 1 taken, else busy/r . $in_one, '', 'a a', 'wrong-lease', 2],
    ['takes seconds for milliseconds', "take\n    SET \$name \$owner NX EX \$lease -> OK taken, else busy\n$in_one", '', 'a', 'wrong-lease', 1],
    ['is taken when it is free by now', $take =~ s/else busy/else next\n    GET \$name -> nil taken, else busy/r . $in_one, '--deduct guarded', 'a b a a b', 'wrong-lease', 5],
    ['is extended by a time of its own', "renewed watchdog\n${take}renew\n    PEXPIRE \$name 1000 -> 1 done, else lost\n$in_one", '--buyers 1 --programs lock-extends', 'a a', 'wrong-lease', 2],
    ['says that it is renewed', "renewed watchdog\n${take}renew\n    GET \$name -> \$owner done, else lost\n$in_one", '', 'a aw', 'wrong-lease', 2],
    ['is renewed for ever', "renewed watchdog\n${take}renew\n    EVAL -> else done\n        return redis.call('persist', KEYS[1])\n$in_one", '', 'a aw', 'wrong-lease', 2],
    ['has no finally', Stockade::slurp('lock/textbook/setnx.lock'), '--buyers 1 --programs lock-throws', 'a', 'still-held', 1])
{
    my ($what, $text, $flags, $moves, $fault, $move) = @$case;
    ($status, $out) = run('replay', split(' ', $flags), write_lock('wrong', $text), $moves);
    is $status, 1, $what;
    like $out, qr/^(?:verdict: |  and )?\Q$fault\E: .*\(move $move\)$/m, "that is $fault";
}

($status, $out) = run(qw(explore --deduct guarded --moves 2), write_lock('renewed', "renewed watchdog\n${take}renew\n    GET \$name -> \$owner done, else lost\n$in_one"));
like $out, qr/\Abreaks: wrong-lease$/m, 'a search renews what a text renews';
like $out, qr/^expiries 1, crashes 1, renewals 1;\nlost replies 0, late commands 0, losses of all data 0, refusals 0;\nnever played: a\+ while a can step$/m, 'and says what it has not played';

# ---- measured, and selling --------------------------------------------------

($status, $out) = run(qw(lab locks --lock), $broken);
is $status, 0, 'lab locks measures it';
like $out, qr/^$_ /m, $_ for 'X2 ✔', 'C  ✔', 'P  ✔', 'R  ✘', 'W  ✘', 'D  ✘';
like $out, qr/^1 of 1 locks measured; nothing was expected of a lock of your own$/m, 'nobody expected anything';

my $server = Stockade->start(args => ['--lock', $broken, '--deduct', 'naive', '--orders', 'one-by-one'], seed => 1);
is $server->order(1, 7)->{status}, 201, 'it sells';
is +($server->audit)[1], 0, 'and the ledger adds up';
$server->stop;

# ---- what is wrong ----------------------------------------------------------

for my $case (
    [write_lock(key => "$take${looks}renew\n    PEXPIRE other \$lease -> 1 done\n"), qr/key\.lock:7: 'other': a lock's text touches its own keys only/],
    [write_lock(word => "owner mine\n"), qr/word\.lock:1: 'mine': constant, number or random$/m],
    [write_lock(lua => $take . $in_one =~ s/==/=/r), qr/lua\.lock:5: Redis does not compile this script: \S/],
    [write_lock(empty => ''), qr/empty\.lock: there is no part 'take'$/m],
    ["$dir/none.lock", qr/none\.lock: No such file or directory$/m],
    [$dir . '/padlock', qr/there is no lock '\S+padlock'; there are: .*; or a text of your own, FILE\.lock$/m],
) {
    Stockade::refuses(['explore', $case->[0]], $case->[1]);
}
Stockade::refuses([qw(lab locks --lock), "$dir/lua.lock"], qr/lua\.lock:5: Redis does not compile this script: \S/);
for my $command ([qw(explore -i --json)], [qw(replay -i --json)]) {
    ($status, $out) = run(@$command, "$dir/lua.lock");
    is $status, 2, "$command->[0]: exit 2";
    like JSON::PP::decode_json($out)->{error}, qr/lua\.lock:5: Redis does not compile/, 'to a program as well, before anything is played';
}
($status, undef, $err) = run('serve', '--listen', '127.0.0.1:0', '--db', "sqlite:$dir/x.db", '--lock', $mended);
is $status, 2, 'serve takes no script of one\'s own';
like $err, qr/--lock .*runs in the laboratory only/, 'and says where it runs';
ok !-e "$dir/x.db", 'before anything is opened';

done_testing;
