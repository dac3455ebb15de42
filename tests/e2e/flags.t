# Goal of this test: of a wrong setting the message says which one it is and what it
# takes, before anything is opened; exit 2.
use lib 'tests/e2e';
use Stockade;

my $dir = Stockade::tempdir();

sub serve {
    my ($args, %with) = @_;
    return Stockade::run(['serve', '--listen', '127.0.0.1:0', '--db', "sqlite:$dir/x.db", @$args], %with);
}

sub write_file { return Stockade::write_file("$dir/$_[0]", $_[1]) }

# A database of a later version.
Stockade->start(dir => $dir, db => "$dir/new.db")->stop;
system 'sqlite3', "$dir/new.db", 'PRAGMA user_version = 99';
unlink glob "$dir/new.db?*";

# flags, and what the message has to say; that of each setting is in test_config.c.
my @wrong = (
    [['--workers', 'many'],           qr/--workers "many": takes 1\.\.256/],
    # What only the parts know: each check is theirs.
    [['--lab-failpoint', 'del:now=crash'], qr/failpoint.*this is none: 'del:now=crash'/],
    # Too long for a name: no resolver is asked.
    [['--listen', 'x' x 70 . ':0'],   qr/--listen x{70}:0: \w/],
    [['--db', "sqlite:$dir"],         qr/is not a file/],
    [['--db', 'sqlite::memory:'],     qr/must be a file with a name/],
    [['--db', "sqlite:$dir/new.db"],  qr/schema version 99, this program knows 1 to \d+: use the stockade that wrote it, or a newer one/],
    [['--redis', 'unix:/a,unix:/b'],  qr/this lock takes one server/],
);
# Locks that this build may be without.
my $locks = Stockade::run(['serve', '--help'])->{out};
for my $case (['zk', 'zk:127:', 'libzookeeper-mt-dev'], ['sql-row', 'mysql:x', 'libmariadb-dev']) {
    my ($lock, $url, $package) = @$case;
    push @wrong, [['--lock', $lock, '--lock-url', $url],
        $locks =~ /^  \Q$lock\E /m ? qr/the url: use / : qr/--lock "\Q$lock\E".*left out of this build.*\Q$package\E/];
}

for my $case (@wrong) {
    my ($args, $says) = @$case;
    my $name = join ' ', map { length > 30 ? substr($_, 0, 30) . '...' : $_ } @$args;
    for my $check ([], ['--check-config']) {
        my $ran = serve([@$check, @$args]);
        is $ran->{exit}, 2, "exit 2: @$check $name";
        like $ran->{err}, $says, "says so: @$check $name";
    }
}
ok !-e "$dir/x.db", 'no database was made on the way';
# A service waits for its folder (start-order.t); who asks is told.
my $folder = serve(['--check-config', '--db', "sqlite:$dir/none/x.db"]);
is $folder->{exit}, 2, 'a folder that is not there';
like $folder->{err}, qr{cannot make it in \Q$dir\E/none: No such file}, 'is said';
for my $check ([], ['--check-config']) {
    my $ran = serve([@$check, '--redis', 'spawn'], env => { PATH => $dir });
    is $ran->{exit}, 2, "@$check without a redis-server: exit 2";
    like $ran->{err}, qr/apt-get install redis-server/, 'and how to have one';
}
write_file('lost.db-wal', 'orders');
like serve(['--db', "sqlite:$dir/lost.db"])->{err}, qr/lost\.db is missing, but its journal is there .* or move the journal away"/, 'nor in the place of a lost one';
ok !-e "$dir/lost.db" && -s "$dir/lost.db-wal", 'and its journal stays';

# A backup that root has copied into its place; here it is root who may not read.
write_file('others.db', '');
chmod 0, "$dir/others.db" or die $!;
my $me     = getpwuid $>;
my $other  = $> == 0 ? 'nobody' : $me;
my @as_any = $> == 0 ? ('setpriv', '--bounding-set=-dac_override,-dac_read_search') : ();
chown scalar getpwnam($other), -1, "$dir/others.db" or die $! if @as_any;
Stockade::refuses(['serve', '--listen', '127.0.0.1:0', '--db', "sqlite:$dir/others.db"],
    qr/cannot open \S+others\.db: Permission denied \(it belongs to \Q$other\E, this process is \Q$me\E\)/, wrap => \@as_any);

# Of TEST-NET-1: no host has it.
my $elsewhere = serve(['--check-config', '--listen', '192.0.2.1:8080']);
is $elsewhere->{exit}, 2, 'an address that this host has not';
like $elsewhere->{err}, qr/--listen 192\.0\.2\.1:8080: Cannot assign/, 'is said';
my $fine = serve(['--check-config', '--workers', '3', '--lock', 'fenced']);
is $fine->{exit}, 0, '--check-config with right settings';
like $fine->{out} . $fine->{err}, qr/\bok\b/i, 'says OK';
ok !-e "$dir/x.db", 'and opens nothing';

like Stockade::run($_)->{out}, qr/\Astockade \d+\.\d+\.\d+\n\z/, "@$_: name and version"
    for ['--version'], ['serve', '--version'], ['audit', '--version'];

my $help = Stockade::run(['serve', '--help']);
is $help->{exit}, 0, '--help';
is Stockade::run([])->{exit}, 2, 'no command';
is Stockade::run(['sell'])->{exit}, 2, 'no such command';
like Stockade::run(['sell'])->{err}, qr/serve/, 'says which there are';
is Stockade::run(['audit', '--bogus'])->{exit}, 2, 'a wrong flag of audit';
is Stockade::run(['audit', '--db', "sqlite:$dir/none.db"])->{exit}, 2, 'audit of nothing cannot tell';
Stockade::refuses(['audit', '--db', "sqlite:$dir/new.db"], qr/schema version 99/);
Stockade::refuses(['audit', '--db', 'mariadb://u:s3cret@h/d'], qr/cannot audit it: the database's URL must be sqlite:PATH/);
ok !-e "$dir/none.db", 'and makes nothing';

# Which of them wins: test_config.c.
my $file = write_file('stockade.conf', "# a sale\nworkers = 300\n");
like serve(['--check-config', '--config', $file])->{err}, qr/^stockade: \Q$file\E:2: workers = "300": takes 1\.\.256$/, 'the file is read';
like serve(['--check-config'], env => { STOCKADE_WORKERS => 'lots' })->{err}, qr/STOCKADE_WORKERS="lots": takes/,
    'the environment is read';

# A variable that is no setting may be somebody else's: a warning.
my $mistyped = serve(['--check-config'], env => { STOCKADE_WORKRES => '4', STOCKADE_TREE => 'oak', STOCKADE_DB_PASSWORD => 's3cret',
        map { ("STOCKADE_$_" => 'tcp://10.0.0.1:80') } qw(PORT PORT_80_TCP SERVICE_HOST) });
is $mistyped->{exit}, 0, 'unknown ones in the environment are let pass';
is_deeply [sort split /\n/, $mistyped->{err}],
    ['level=warn msg=config variable=STOCKADE_TREE error="there is no such setting"',
    'level=warn msg=config variable=STOCKADE_WORKRES error="there is no such setting"'],
    'but for those that are known, it says so';

my $server = Stockade->start(
    env  => { STOCKADE_NO_SEED => 'yes' },
    args => ['--config', write_file('good.conf', "lock = token-lua\nlog-level = info\n")],
);
is scalar @{ $server->get('/api/products')->{body}{products} }, 0, 'a flag by environment: no seed';
is $server->order(1)->{status}, 404, 'nothing to buy then';
like $server->log, qr/^level=info msg=store db=\S+ state=created$/m, 'that the database is new is said';
unlike $server->log, qr/msg=seed/, 'and that it was left empty is not';
$server->restart(env => {});
my $seeded = qr/^level=warn msg=seed products=2 reason="there were none: see --no-seed"$/m;
like $server->log, $seeded, 'that example products come into an old one is worth a warning';
$server->restart;
is scalar(() = $server->log =~ /state=created|msg=seed/g), 2, 'each of them once';
is $server->stop, 0, 'ends';

# A first start is nothing to be warned of; and the page is where it says.
umask 0;
$server = Stockade->start;
unlike $server->log, qr/^level=(?!info)/m, 'a first start: no warning';
is scalar(() = $server->log =~ /state=created$|msg=seed products=2/mg), 2, 'but what was made is said';
my ($page) = $server->log =~ /msg=ready page=(http:\S+) /;
my $found = HTTP::Tiny->new->get($page // 'http://none');
like $found->{content}, qr/<title>/, 'and where the page is';
my %modes = map { s/.*stockade.db//r => sprintf '%o', (stat)[2] & 0777 } glob $server->db . '*';
is_deeply \%modes, { '.redis' => '700', map { $_ => '600' } '', qw(-shm -wal .lock) }, 'its files are for its user only';
is $server->stop, 0, 'ends';

# Where a database was lost, nobody is to take the new one for it.
unlink glob $server->db . '{,-wal,-shm}';
$server->restart;
like $server->log, qr/^level=warn msg=$_/m, "a database that was lost: $_ is worth a warning" for 'store db=\S+ state=created', 'seed';
$server->stop;
chmod 0640, $server->db;
my $port = Stockade::free_port();
$server->restart(port => $port, args => ['--listen', "[::]:$port"]);
is sprintf('%o', (stat $server->db)[2] & 0777), '640', 'rights that somebody has given it stay';
like $server->log, qr{page=http://localhost:$port/ listen=\[::\]:$port }, 'any address is called localhost';
is $server->stop, 0, 'ends';
done_testing;
