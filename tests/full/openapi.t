# Goal of this test: static/openapi.json is true, and well-formed for those who read
# it with tools. redocly lints it; schemathesis makes requests of it, good and bad
# ones, and holds each reply against it: eight an operation and more; `make test-long`: 300.
#
#     EXAMPLES=300 SEED=7 tests/run tests/full/openapi.t
#
# Both are installed under build/, from the registries of Python and npm, once. A
# machine that does not reach these skips, but for CI.
use Fcntl qw(:flock);
use File::Path qw(make_path remove_tree);
use lib 'tests/e2e';
use JSON::PP ();
use Stockade;

my $SEED     = $ENV{SEED} || 1;
my $EXAMPLES = $ENV{EXAMPLES} || 8;
my $TOKEN    = 'sesame';
my $RULES    = "$Stockade::ROOT/tests/openapi";
my $PLACE    = "$Stockade::ROOT/build/openapi";
my $dir      = Stockade::tempdir();
my $api      = "$Stockade::ROOT/static/openapi.json";
my $INSTALL  = 'set -e; if [ -e requirements.txt ]; then python3 -m venv . && bin/pip install -q --no-compile -r requirements.txt;'
    . ' else npm install --no-audit --no-fund --no-package-lock --ignore-scripts --fetch-retries=1; fi';

# A command's child, with its output in a file called NAME.
sub begin {
    my ($name, $seconds, $command, %with) = @_;
    return Stockade::Child->spawn(
        command => ['timeout', '-k', '5', $seconds * $Stockade::SLOW, @$command],
        stdout  => "$dir/$name",
        stderr  => "$dir/$name.err",
        %with,
    );
}

# Its exit code, and what it said.
sub end {
    my ($name, $child) = @_;
    my $exit = $child->wait(300 * $Stockade::SLOW);
    return ($exit // 'none', Stockade::slurp("$dir/$name"), Stockade::slurp("$dir/$name.err"));
}

# Installs what LIST names in FOLDER, unless it is there. Tests that run at once take
# turns.
sub install {
    my ($list, $folder) = @_;
    my $wanted = Stockade::slurp("$RULES/$list");
    my $place  = "$PLACE/$folder";
    make_path($PLACE);
    open my $lock, '>', "$place.lock" or die "$place.lock: $!";
    flock $lock, LOCK_EX or die "flock: $!";
    return $place if Stockade::slurp("$place/installed") eq $wanted;
    remove_tree($place);
    make_path($place);
    symlink "$RULES/$list", "$place/$list" or die "symlink: $!";
    my ($exit, @said) = end("install-$list", begin("install-$list", 600, ['bash', '-c', $INSTALL], cwd => $place));
    if ($exit ne '0') {
        my ($error) = map { /^(.*error.*)/im } @said;
        my $why = "cannot install what $list names: " . ($error // "exit $exit");
        plan skip_all => $why if !$ENV{CI};
        fail $why;
        done_testing;
        exit 1;
    }
    Stockade::write_file("$place/installed", $wanted);
    return $place;
}

my $redocly      = install('package.json', 'npm') . '/node_modules/.bin/redocly';
my $schemathesis = install('requirements.txt', 'python') . '/bin/schemathesis';

# ---- redocly -----------------------------------------------------------------

# How many errors and warnings it finds in a description.
sub lint {
    my ($file) = @_;
    my $child = begin('lint', 60, [$redocly, 'lint', '--config', "$RULES/redocly.yaml", '--format', 'json', $file],
        env => { REDOCLY_TELEMETRY => 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE => 'true' });
    my ($exit, $out, $err) = end('lint', $child);
    my $found = eval { JSON::PP->new->utf8->decode($out) } or diag $out, $err;
    return ($exit, $found->{totals}{errors}, $found->{totals}{warnings}, $out);
}

my ($exit, $errors, $warnings, $told) = lint($api);
is_deeply [$exit, $errors, $warnings], [0, 0, 0], 'redocly has nothing to say' or diag $told;
(my $broken = Stockade::slurp($api)) =~ s{responses/Malformed"}{responses/Nothing"};
Stockade::write_file("$dir/broken.json", $broken);
(undef, $errors) = lint("$dir/broken.json");
cmp_ok $errors, '>', 0, 'but of a description that is broken it has';

# ---- schemathesis ------------------------------------------------------------

# Without an admin token everything; with one what is the administrator's. Its
# threads would trip over a bug of Python 3.11 (gh-106905): so it has one, and the
# two runs go on side by side.
my %run = (
    # Events come without an end: e2e/events.t reads them.
    'no token' => { server => Stockade->start, operations => 26, args => ['--exclude-path', '/api/events'] },
    'a token'  => {
        server     => Stockade->start(token => $TOKEN),
        operations => 6,
        args       => ['-H', "Authorization: Bearer $TOKEN", '--include-path-regex', '^/api/(products/|audit)'],
        env        => { ADMIN_TOKEN => 1 },
    },
);
for my $name (sort keys %run) {
    my $run = $run{$name};
    # It looks for them, and leaves notes, where it runs.
    symlink "$RULES/hooks.py", $run->{server}->dir . '/hooks.py' or die "symlink: $!";
    $run->{child} = begin($name, $EXAMPLES + 140,
        [$schemathesis, '--config-file', "$RULES/schemathesis.toml", 'run', $run->{server}->url . '/openapi.json',
            '--seed', $SEED, '--max-examples', $EXAMPLES, '--no-color', @{ $run->{args} || [] }],
        env => $run->{env}, cwd => $run->{server}->dir);
}
for my $name (sort keys %run) {
    my $run = $run{$name};
    my ($code, $out, $err) = end($name, $run->{child});
    is $code, 0, "with $name all requests get what is described" or diag $out, $err;
    my ($tested) = $out =~ /^\s*Tested: (\d+)/m;
    is $tested, $run->{operations}, "with $name: all operations";
    my ($cases) = $out =~ /^\s*(\d+) generated/m;
    note "$cases requests, seed $SEED";
    cmp_ok $cases, '>', $EXAMPLES * 2 / 3 * $run->{operations}, 'and by many requests';
    $run->{server}->ends("with $name");
}
done_testing;
