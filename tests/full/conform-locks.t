# Goal of this test: every lock holds what is expected of it and fails what it
# must fail, measured; and the laboratory's README has what the command prints.
use lib 'tests/e2e';
use Stockade;
use Stockade::Redis ();

# ---- the command line ------------------------------------------------------

my $wrong = Stockade::run([qw(lab locks --lock no-such-lock)]);
is $wrong->{exit}, 2, 'a lock that is not there';
like $wrong->{err}, qr/no lock 'no-such-lock'; there are: none process /, 'and which there are';
my $long = Stockade::run([qw(lab locks --lock none)], env => { TMPDIR => '/tmp/' . 'x' x 60 });
is $long->{exit}, 2, 'a TMPDIR too long for sockets';
like $long->{err}, qr/too long/, 'and it is said';
my $bare = Stockade::run([qw(lab locks)], env => { PATH => Stockade::tempdir() . '' });
is $bare->{exit}, 2, 'no redis-server: exit 2';
like $bare->{err}, qr/\Astockade: lab locks: redis-server did not start.*apt-get install redis-server\)\n\z/, 'said once, with what to do';
is Stockade::run([qw(lab locks --wrong)])->{exit}, 2, 'a flag that is not there';
is Stockade::run([qw(lab nothing)])->{exit}, 2, 'an experiment that is not there';
is Stockade::run([qw(lab locks --help)])->{exit}, 0, 'help';

my $text = Stockade::run([qw(lab locks --lock none)]);
is $text->{exit}, 0, 'one lock';
like $text->{out}, qr/^none: No lock/, 'for a person: what it claims';
like $text->{out}, qr/^X  ✘  one at a time, among threads\n      two hold it/m, 'what was asked, and the evidence';
like $text->{out}, qr/^1 of 1 locks measured; all as expected/m, 'and what to think of it';

# Of those that this build has.
for my $case (grep { $wrong->{err} =~ / $_->[0]\b/ } ['sql-row', '--sql'], ['zk', '--zk']) {
    my ($lock, $flag) = @$case;
    for my $form ([], ['--markdown']) {
        my $none = Stockade::run([qw(lab locks --lock), $lock, @$form]);
        is $none->{exit}, 2, "$lock @$form: without its server it could not run";
        is $none->{err}, "lab: $lock not run: needs $flag URL\n", 'and what is missing is said';
        unlike $none->{out}, qr/all as expected/, 'not that all is well';
        like $none->{out}, qr/^0 of 1 locks measured; so nothing is known$/m, 'nor that anything is known' if !@$form;
    }
}

# A server that does not answer is not the lock's fault.
for my $case (grep { $wrong->{err} =~ / $_->[0]\b/ } ['sql-row', '--sql', 'mysql:unix:/nowhere?db=x', "Can't connect"],
    ['zk', '--zk', 'zk:127.0.0.1:1', 'no connection'], ['fenced', '--redis', 'redis://127.0.0.1:1', 'refused'],
    ['fenced', '--redis', 'foo', 'the url: use unix:PATH']) {
    my ($lock, $flag, $server, $why) = @$case;
    my $away = Stockade::run([qw(lab locks --lock), $lock, $flag, $server]);
    is $away->{exit}, 2, "$flag $server: $lock could not be run";
    like $away->{err}, qr/\Alab: $lock not run: .*$why.*\n\z/, 'and it is said why';
    like $away->{out}, qr/^0 of 1 locks measured; so nothing is known$/m, 'nor is anything known';
}

# Nor is one that dies in the middle: what was asked then is not known, and the rest is.
my $where = Stockade::tempdir();
my $dying = Stockade::Child->spawn(
    command => [Stockade::binary(), qw(lab locks --lock setnx)],
    env     => { TMPDIR => "$where" },
    stdout  => "$where/said",
    stderr  => '/dev/null',
);
my $shut_down = sub { system("redis-cli -s $_ shutdown nosave 2>/dev/null") for glob "$where/stockade-locks-*/lab-*/node0.redis" };
ok Stockade::eventually(100, sub { $shut_down->(); return -s "$where/said" }), 'its servers die as they come';
is $dying->wait(60 * $Stockade::SLOW), 1, 'not as expected';
my $said = Stockade::slurp("$where/said");
like $said, qr/^\w+ +\?!? .*\n.*its server does not answer/m, 'a check was broken off by that';
unlike $said, qr/^\w+ +[^? ]+! /m, 'and none is blamed on the lock';

# Wrong in a way in which none of the house is.
my $renews = Stockade::slurp("$Stockade::ROOT/lock/textbook/token-lua.lock") =~ s/^(?=claim)/renewed  watchdog\n/mr
    =~ s/^renew\n.*?(?=^release)/renew\n    PEXPIRE \$name \$lease -> 1 done, else lost\n\n/msr;
my $frees = Stockade::slurp("$Stockade::ROOT/lock/textbook/reentrant.lock") =~ s/^        local left = .*\z/        redis.call('del', KEYS[1])\n        return tonumber(ARGV[2])\n/msr;
for my $case (
    ['renews', $renews, qr/^C  ✘ .*\n +a holder was stopped and overtaken and goes on/m],
    ['frees',  $frees,  qr/^N  ✘ .*\n +taken twice, free after one release/m])
{
    my ($what, $text, $mark) = @$case;
    like Stockade::run([qw(lab locks --lock), Stockade::write_file("$where/$what.lock", $text)])->{out}, $mark, "one that $what another's";
}

my $given = Stockade::Redis->start;
like Stockade::run([qw(lab locks --lock setnx --redis), $given->url])->{out}, qr/^1 of 1 locks measured; what was asked is as expected/m,
    'of what was not asked nothing is said';
# Also of a lock that fails whatever it is asked; and the one whose take is always in doubt is measured.
like Stockade::run([qw(lab locks --lock reentrant-broken --redis), $given->url])->{out}, qr/^1 of 1 locks measured; what was asked is/m, 'a doubt is no silence';
$given->pause;
my $hangs = Stockade::run([qw(lab locks --lock setnx-finally --redis), $given->url]);
is $hangs->{exit}, 2, 'a server that hangs: nothing could be run';
like $hangs->{err}, qr/\Alab: setnx-finally not run: .*timed out/i, 'and it is said why';
$given->resume;

# ---- Ctrl-C ----------------------------------------------------------------

# Ids of the processes whose command line has TEXT in it.
sub running {
    my ($text) = @_;
    return grep { index(Stockade::slurp("/proc/$_/cmdline"), $text) >= 0 }
        map { m{(\d+)$} } glob '/proc/[0-9]*';
}

my $dir   = Stockade::tempdir();
for my $signal (qw(INT TERM KILL)) {
    my $child = Stockade::Child->spawn(
        command => [Stockade::binary(), qw(lab locks)],
        env     => { TMPDIR => "$dir" },
        stdout  => '/dev/null',
        stderr  => '/dev/null',
    );
    ok Stockade::eventually(10, sub { running("$dir") > 2 }), 'its servers run';
    $child->signal($signal);
    is $child->wait(60 * $Stockade::SLOW), { INT => 130, TERM => 143, KILL => 137 }->{$signal}, "SIG$signal ends it";
    my $left = sub { running("$dir") + (() = glob "$dir/*") };
    ok Stockade::eventually(20, sub { !$left->() }), 'and no server is left, nor a file';
}

# ---- all locks, all properties ---------------------------------------------

# name => its row, of the locks that were run
sub rows_of {
    my ($table) = @_;
    return map { /^\| `(\S+)` \|(?! \?)/ ? ($1 => $_) : () } split /\n/, $table;
}

my $all = Stockade::run([qw(lab locks --markdown)], seconds => 500, env => { STOCKADE_SLOW => $Stockade::SLOW });
my %measured = rows_of($all->{out});
my ($shown) = Stockade::slurp("$Stockade::ROOT/server/lab/README.md") =~ /<!-- locks -->\n(.*?)<!-- end of locks -->/s;
my %told = rows_of($shown // '');
cmp_ok scalar keys %measured, '>', 6, 'locks were run';

is $all->{exit}, 0, 'every lock is as expected' or diag $all->{err};
for my $lock (sort keys %measured) {
    is $told{$lock}, $measured{$lock}, "the README says of $lock what was measured (make readme-locks)";
}
done_testing;
