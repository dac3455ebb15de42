# Goal of this test: three-hosts.t leaves nothing behind, also if it is ended in the
# middle: no process, no network, no file.
use lib 'tests/e2e';
use Stockade;

# Names of the processes in a process namespace.
sub names_in {
    my ($namespace) = @_;
    my @pids = grep { (readlink "/proc/$_/ns/pid" // '') eq $namespace } map { m{(\d+)$} } glob '/proc/[0-9]*';
    return map { Stockade::Child::name_of($_) } @pids;
}

my $dir = Stockade::tempdir();
for my $way ('its own end', 'its death') {
    my $test = Stockade::Child->spawn(command => [$^X, "$Stockade::ROOT/tests/hosts/three-hosts.t"], log => "$dir/$way");
    ok $test->wait_for_line(qr/(three hosts are started)/, 20 * $Stockade::SLOW), "$way: it begins" or diag $test->log;
    my ($first)  = Stockade::Child::children_of($test->pid);
    my ($script) = Stockade::Child::children_of($first);
    my $namespace = readlink "/proc/$first/ns/pid";
    isnt $namespace, readlink("/proc/$$/ns/pid"), "$way: processes of its own";
    ok Stockade::eventually(30, sub { 2 <= grep { $_ eq 'mariadbd' } names_in($namespace) }), "$way: servers run";
    kill 'TERM', $script if $way eq 'its own end';
    $test->signal('KILL') if $way eq 'its death';
    ok defined $test->wait(20 * $Stockade::SLOW), "$way: it ends";
    ok Stockade::eventually(20, sub { !names_in($namespace) }), "$way: no process is left" or diag join ' ', names_in($namespace);
}
is_deeply [glob '/run/host[0-9]'], [], 'no file is left';
unlike `ip -o link`, qr/: (?:lan|host\d)\b/, 'nor a network';
done_testing;
