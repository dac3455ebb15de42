# Goal of this test: experiments with real instances, a few of each kind (all of them
# are in tests/full). What `stockade lab run` finds is what was told, with the bug and
# with the fix; a fault that does not come about, or a server that does not come up,
# is an error with a text and no verdict; and Ctrl-C leaves no process and no file.
use utf8;
use lib 'tests/e2e';
use Cwd ();
use IPC::Open3 qw(open3);
use JSON::PP ();
use POSIX qw(WNOHANG);
use Stockade;
use Stockade::Child;

sub lab {
    my ($args, %with) = @_;
    return Stockade::told(['lab', 'run', @$args], seconds => 60, %with);
}

# Folders and processes of the laboratory whose process id this is.
sub left_behind {
    my ($pid) = @_;
    my @processes = grep { Stockade::slurp($_) =~ /stockade-(?:load|stage)-$pid-/ } glob '/proc/[0-9]*/cmdline';
    my @folders = glob "{/dev/shm,/tmp}/stockade-{load,stage}-$pid-*";
    return (@folders, @processes);
}

# What comes of a run that a program watches, with its last answer.
sub watched {
    my $pid = open3(my $ask, my $answers, undef, Stockade::binary(), qw(lab run -i --json), @_);
    my $last = {};
    $ask->autoflush;
    while (!$last->{done} && defined(my $answer = <$answers>)) {
        $last = JSON::PP->new->decode($answer);
        print {$ask} 'lo' if !$last->{done};
        select undef, undef, undef, 0.05;
        print {$ask} "ok\n" if !$last->{done};
    }
    waitpid $pid, 0;
    return $last;
}

# The beginning of an experiment of one's own, up to what is in [bug].
my $head = join "\n", 'kind load', '[en]', 'title t', 'symptom s', 'see s', 'why w', 'fix f', '[bug]', '';

# One with two instances.
my $own = Stockade::tempdir();
sub story {
    my ($lock, $flags, $a, $story) = @_;
    return Stockade::write_file("$own/60-story.txt", <<"END");
${head}lock      $lock
instances 2
stock     3
flags     --deduct naive --orders one-by-one --lock-wait-ms 1000 $flags
a         --lab-failpoint $a
story     $story
sold      2
END
}

# In the background: a lock is left in the second segment of a product that is sold by then.
Stockade::write_file("$own/38-left.txt", Stockade::slurp("$Stockade::ROOT/server/lab/experiments/38-do-segments-help.txt") =~ s/^lock +\Kfenced$/setnx/mr =~ s/^buyers +\K64$/1/mr);
my $split = Stockade::Child->spawn(command => [Stockade::binary(), qw(lab run --file), "$own/38-left.txt"], log => "$own/38.log");
ok $split->wait_for_line(qr/( 2 segments)/, 60 * $Stockade::SLOW), 'a stock is split';
my ($socket) = glob '{/dev/shm,/tmp}/stockade-load-' . $split->pid . '-*/locks.redis';
is `redis-cli -s $socket set 'lock:{2:1}' somebody`, "OK\n", 'and the lock of a part is left';

# ---- a crowd, a process that stops, an order that fails, a worker that hangs -------

my ($status, $json, $error) = lab(['--json', '03', '12w', '04w', '06w', '15w']);
is $status, 0, 'as told: exit 0' or diag $error, $json;
my %ran = map { my $one = JSON::PP->new->decode($_); $one->{id} => $one } split /\n/, $json;

cmp_ok $ran{'03'}{bug}{sold}, '>', 100, '03: more than 100 of 100 are sold';
is_deeply $ran{'03'}{bug}{faults}, ['oversold'], 'which is the verdict';
is $ran{'03'}{fix}{sold}, 100, 'with a lock that both see: 100';
like $ran{'03'}{$_}{timeline}[-1]{text}, qr/^800 orders: /, "$_: of 800 orders each was answered" for qw(bug fix);

my @texts = map { $_->{text} } @{ $ran{'12w'}{bug}{timeline} };
is scalar(grep { $_ eq 'SIGSTOP at naive-update:before' } @texts), 1, '12w: the process stops where it should';
is $ran{'12w'}{bug}{sold}, 5, 'five of three';
is_deeply [@{ $ran{'12w'}{fix} }{qw(sold stock)}], [3, 0], 'with a fence: three, none too few';

my %lanes = map { my $id = $_; $id => { map { $_->{text} =~ s/\d+ ms|order \d+: //r => join ' ', map { $_ || '-' } @{ $_->{lanes} } } @{ $ran{$id}{bug}{timeline} } } } '12w', '06w';
is_deeply [@{ $lanes{'12w'} }{ 'order 1', 'SIGSTOP at naive-update:before', 'goes on', '201 sold', '409 sold-out' }],
    ['waits -', 'held -', 'held -', '- held', '- -'], 'lanes: who waits, and who has the lock';
is_deeply [map { $_->{actor} eq 'b' && $_->{text} =~ /sold$/ ? join ' ', @{ $_->{lanes} } : () } grep { $_->{actor} } @{ $ran{'12w'}{bug}{timeline} }],
    ['clash clash', 'clash clash', ' held', ' held'], 'two have it, then one';
is_deeply [@{ $lanes{'06w'} }{ 'the process dies at naive-update:before', 'no answer' }], [('unknown -') x 2], 'what became of an order of the dead nobody knows';
ok !exists $ran{'03'}{bug}{timeline}[0]{lanes}, 'a crowd has none';

is_deeply [@{ $ran{'04w'}{bug} }{qw(sold stock)}], [0, 3], '04w: nothing is sold any more';
is_deeply $ran{'04w'}{bug}{faults}, ['left-for-ever'], 'since the lock is left';
is_deeply $ran{'15w'}{bug}{faults}, ['oversold'], '15w: two products, one flag';

my $wild = Stockade::slurp("$Stockade::ROOT/server/lab/experiments/15w-wild-one-flag.txt");
my $file = Stockade::write_file("$own/15w-untold.txt", $wild =~ s/^faults .*\n//mr =~ s/^sold +4$/sold 5/mr);
($status, $json) = lab(['--json', '--file', $file]);
is_deeply [map { !$_->{as_told} } @{ JSON::PP->new->decode($json) }{qw(bug fix)}], [1, 1], 'a fault that was not told, or another number, is not as told';
Stockade::write_file("$own/04w-crowd.txt", Stockade::slurp("$Stockade::ROOT/server/lab/experiments/04w-wild-exception.txt") =~ s/^story .*/buyers 2\norders 4/mr);
($status, $json) = lab(['--json', '--file', "$own/04w-crowd.txt"]);
is_deeply(JSON::PP->new->decode($json)->{bug}{faults}, ['left-for-ever'], 'a lock that a crowd leaves behind is left as well');
is +(lab(['01']))[0], 0, 'none leaves no lock';
Stockade::write_file("$own/06w-mkdir.txt", Stockade::slurp("$Stockade::ROOT/server/lab/experiments/06w-wild-crash.txt") =~ s/^lock +\Ksetnx$/mkdir/mr);
($status, $json) = lab(['--json', '--file', "$own/06w-mkdir.txt"]);
is_deeply(JSON::PP->new->decode($json)->{bug}{faults}, ['left-for-ever'], 'a directory that the dead have left is left as well');
my $fast = Stockade::slurp("$Stockade::ROOT/server/lab/experiments/19-fail-fast.txt");
Stockade::write_file("$own/19-all-served.txt", $fast =~ s/^measure +refused \K0.5 1$/0 0/mr);
($status, $json) = lab(['--json', '--file', "$own/19-all-served.txt"]);
is_deeply [map { !$_->{as_told} } @{ JSON::PP->new->decode($json) }{qw(bug fix)}], [1, ''], 'nor is a bound that was not kept';
Stockade::write_file("$own/19-all-refused.txt", $fast =~ s/^measure +refused \K0.5 1$/1.1 2/mr);
($status, $json) = lab(['--json', '--file', "$own/19-all-refused.txt"]);
ok !JSON::PP->new->decode($json)->{bug}{as_told}, 'nor one that was not reached';
$wild = Stockade::slurp("$Stockade::ROOT/server/lab/experiments/04w-wild-exception.txt");
Stockade::write_file("$own/04w-half.txt", $wild =~ s/(\[fix\].*)naive-select/$1naive-insert/sr =~ s/^sold +\K3$/2/mr);
($status, $json) = lab(['--json', '--file', "$own/04w-half.txt"]);
is_deeply([@{ JSON::PP->new->decode($json)->{fix} }{qw(faults as_told)}], [['ledger'], JSON::PP::false], 'a unit that was taken for an order that failed is missed');

# A fault that is no death: its process lives, and sells.
($status, $json) = lab(['--json', '--file', story('setnx', '', 'naive-update:before=pause:300*1', 'a& a. a= b')]);
my @happened = @{ JSON::PP->new->decode($json)->{bug}{timeline} };
is_deeply [map { $_->{text} =~ /:before$/ ? $_->{text} : () } @happened], ['a fault at naive-update:before'], 'a pause is no death';
is_deeply [grep { /unknown/ } map { @{ $_->{lanes} } } @happened], [], 'and what becomes of the order is known';

# ---- locks that nobody outside can look for -------------------------------------------
my $hidden = watched(qw(--lock process 08w));
is_deeply [map { $_->{text} =~ /lock/ ? $_->{text} : () } @{ $hidden->{timeline} }], ['nobody outside can see who has the lock'], 'the lock of a process is not said to be free';
is $hidden->{said}, 'nobody outside can see who has the lock', 'nor that none is left';
for my $case (['process', '', qr/^nobody outside can see who has the lock$/m], ['setnx', '--lock-per user', qr/^a lock per user is not looked for$/m]) {
    my ($lock, $flags, $says) = @$case;
    ($status, $json) = lab(['--file', story($lock, $flags, 'del:before=error', 'a b')]);
    like $json, $says, "$lock $flags: what was not looked for is said";
    unlike $json, qr/nothing broke/, 'and not that nothing broke';
    like $json, qr/^verdict: the ledger is right; what counts is above$/m, 'but what is known';
}

is $split->wait(120 * $Stockade::SLOW), 1, 'a lock of any segment is looked for: not as told';
like $split->log, qr/^verdict: left-for-ever: /m, 'since it is left';

# ---- what cannot be run -------------------------------------------------------------

my $empty = Stockade::tempdir();
my ($code, undef, $text) = lab(['08w'], env => { PATH => $empty });
is $code, 2, 'without redis-server: exit 2';
like $text, qr/08w.*redis-server did not start.*is it installed/, 'and a text that says so';
symlink $_, "$empty/" . s{.*/}{}r for grep { -x } map { "$_/redis-server" } split /:/, $ENV{PATH};
($code, undef, $text) = lab(['02'], env => { PATH => $empty });
is $code, 2, 'without wrk: exit 2';
like $text, qr/wrk is not there: apt-get install wrk/, 'and what to do';
for ([2, qr/wrk has not told what it saw/, ''],
    [1, qr/found lost-order, sold 0$/m, q(echo '{"accepted":7' >"$LOADTEST_OUT")],
    [1, qr/sold 0$/m, q(echo '{"accepted":0' >"$LOADTEST_OUT")]) {
    my ($exit, $why, $tells) = @$_;
    chmod 0755, Stockade::write_file("$empty/wrk", "#!/bin/sh\n$tells\n");
    my @ran = lab(['02'], env => { PATH => $empty });
    is $ran[0], $exit, 'a wrk that sells nothing, and tells ' . ($tells || 'nothing');
    like $ran[1] . $ran[2], $why, 'has its own verdict';
}

Stockade::write_file("$own/04w-no-server.txt", $wild =~ s/^flags +\K/--nonsense /mr);
($code, undef, $text) = lab(['--file', "$own/04w-no-server.txt"]);
like "$code $text", qr/^2 .*a server did not come up: .*nonsense/s, 'a server that knows no such flag: exit 2, and why';

# The second play of an experiment, whose server is not there any more, closes what the first had.
my ($redis) = grep { -x } map { "$_/redis-server" } split /:/, $ENV{PATH};
chmod 0755, Stockade::write_file("$own/redis-server", qq{#!/bin/sh\nset -C; : >"$own/once" || exit 1\nexec $redis "\$@"\n});
($code, undef, $text) = lab(['04w'], env => { PATH => $own });
like "$code $text", qr/^2 .*04w, fix: redis-server did not start/s, 'a redis-server that starts only once: exit 2';

# The second of two servers ends at once, and says nothing.
ok Stockade::copy_build("$own/build"), 'a build of its own';
unlink "$own/build/stockade";
my $real = Cwd::abs_path(Stockade::binary());
chmod 0755, Stockade::write_file("$own/build/stockade", qq{#!/bin/sh\n(set -C; : >"$own/first") 2>/dev/null && exec $real "\$@"\nexit 1\n});
($code, undef, $text) = Stockade::told([qw(run 03)], binary => "$own/build/stockade-lab", seconds => 60);
like "$code $text", qr/^2 .*a server did not come up: it has ended without a word/s, 'a server that says nothing: exit 2';

# A run whose redis-server dies, so that nobody can say who has the lock, or one of whose instances
# dies by itself, was not played.
for my $case (
    ['L a> a=', qr/nobody knows who has the lock: /,       sub { system 'redis-cli', '-s', glob("{/dev/shm,/tmp}/stockade-load-$_[0]-*/locks.redis"), qw(shutdown nosave) }],
    ['a=',      qr/instance a has ended by itself$/, sub { kill 'KILL', grep { Stockade::slurp("/proc/$_/cmdline") =~ /\0serve\0/ } Stockade::Child::children_of($_[0]) }],
) {
    my ($rest, $why, $end) = @$case;
    Stockade::write_file("$own/12w-dies.txt", <<"END");
${head}lock      set-nx-px
instances 1
stock     3
flags     --deduct naive --orders one-by-one
a         --lock-lease-ms 20000 --lab-failpoint naive-update:before=hold*1
story     a& a. $rest
END
    my $dies = open3(my $none, my $says, undef, Stockade::binary(), qw(lab run --file), "$own/12w-dies.txt");
    my $line = '';
    $line = <$says> // die 'it ended' until $line =~ /waits at/;
    $end->($dies);
    like do { local $/ = undef; <$says> }, qr/^stockade: lab run 12w, bug: $why/m, 'it died: that is no verdict';
    waitpid $dies, 0;
    is $? >> 8, 2, 'but exit 2';
}

# ---- a program that watches ------------------------------------------------------------

my $watched = open3(my $ask, my $answers, undef, Stockade::binary(), qw(lab run -i --json --lock fenced 03));
my $so_far = JSON::PP->new->decode(scalar <$answers>);
ok !$so_far->{done}, 'it is told at once how far it is';
close $ask;
is_deeply [<$answers>], [], 'who closes the conversation hears no more';
waitpid $watched, 0;
is $? >> 8, 2, 'and the run has ended';
is_deeply [left_behind($watched)], [], 'with all that was its own';

# Half a question, and no more: a signal ends who waits for the rest.
for my $command ([qw(lab run -i --json 03)], [qw(lab run -i --json 08)], [qw(explore -i --json fenced)]) {
    my $asked = open3(my $half, my $says, undef, Stockade::binary(), @$command);
    ok scalar(<$says>), "@$command: it answers at once";
    syswrite $half, 'lo';
    select undef, undef, undef, 0.5;
    kill 'TERM', $asked;
    ok Stockade::eventually(10, sub { waitpid($asked, WNOHANG) == $asked }), 'SIGTERM ends it' or do { kill 'KILL', $asked; waitpid $asked, 0 };
    ok Stockade::eventually(5, sub { !left_behind($asked) }), 'and nothing is left behind';
}

($code, undef, $text) = lab([qw(--fix 03)]);
like "$code $text", qr/^2 .*--fix and --lock go with -i/s, '--fix is for who plays by hand';
($code, undef, $text) = lab([qw(-i --fix 02)]);
like "$code $text", qr/^2 .*has no fix/s, 'if there is one';

# ---- Ctrl-C ---------------------------------------------------------------------------

for my $experiment ('38', '14w') {
    my $pid = open3(my $in, my $said, undef, Stockade::binary(), 'lab', 'run', $experiment);
    my $began = 0;
    while (!$began && defined(my $line = <$said>)) {
        $began = $line =~ /segments|waits at/;
    }
    ok $began, "$experiment: it is under way";
    cmp_ok scalar(() = left_behind($pid)), '>=', 2, 'in a folder of its own, with servers';
    kill 'INT', $pid;
    my $rest = do { local $/ = undef; <$said> };
    waitpid $pid, 0;
    is $? >> 8, 2, 'Ctrl-C: exit 2';
    like $rest, qr/interrupted/, 'and says so';
    is_deeply [left_behind($pid)], [], 'nothing is left behind';
}
done_testing;
