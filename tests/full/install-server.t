# Goal of this test: `make install` puts down a whole service, and `make uninstall`
# takes all of it away. The program sells from there, with the file of settings that
# is installed; that file has nothing that the program does not take; completion knows what the program
# knows; systemd finds nothing wrong with the unit, which two instances of one database
# can be started by; man shows the pages.
use File::Find ();
use lib 'tests/e2e';
use Stockade;

plan skip_all => 'built without sanitizers' if $ENV{SAN};

my $PREFIX = '/opt/shop';
my $DEST   = Stockade::tempdir();
my $OPT    = "$DEST$PREFIX";
my $CONF   = "$OPT/etc/stockade/stockade.conf";
my $UNITS  = "$OPT/lib/systemd/system";

# What a command says, errors too; it has to go well.
sub works {
    my ($command, $what) = @_;
    my $output = `$command 2>&1`;
    is $?, 0, $what or diag "$command\n$output";
    return $output;
}

ok Stockade::copy_build("$Stockade::ROOT/build/install-server"), 'a build of its own';

sub make {
    my ($goal, $more) = @_;
    return works("make -s -C $Stockade::ROOT -j2 SAN= B=build/install-server PREFIX=$PREFIX DESTDIR=$DEST WERROR=-Werror "
            . ($more // '') . " $goal", "make $goal");
}

sub things_in {
    my ($folder) = @_;
    my @things;
    File::Find::find(sub { push @things, $File::Find::name =~ s{^\Q$folder\E/?}{}r }, $folder) if -d $folder;
    return sort grep { length } @things;
}

sub files_in {
    my ($folder) = @_;
    return grep { !-d "$folder/$_" } things_in($folder);
}

sub has {
    my ($command) = @_;
    return system("command -v $command >/dev/null 2>&1") == 0;
}

like works("make -s -C $Stockade::ROOT help", 'make help'), qr/^ +make install .*^ +make clean /ms, 'lists what one can make';

make('install-server');
my @texts = map { s{.*/}{}r } glob "$Stockade::ROOT/lock/textbook/*.lock $Stockade::ROOT/lock/textbook/text.h";
is_deeply [files_in($OPT)],
    [sort map({ "share/doc/stockade/locks/$_" } @texts), qw(bin/stockade bin/stockade-lab etc/stockade/stockade.conf lib/systemd/system/stockade.service lib/systemd/system/stockade@.service share/bash-completion/completions/stockade
        share/doc/stockade/stockade.conf share/doc/stockade/nginx.conf share/doc/stockade/haproxy.cfg share/doc/stockade/prometheus-alerts.yml
        share/doc/stockade/grafana-dashboard.json share/man/man1/stockade.1 share/man/man5/stockade.conf.5)],
    'installed is what was promised';
my @modes = map { sprintf '%s %o', $_, (stat "$OPT/$_")[2] & 07777 } files_in($OPT);
is_deeply [grep { !/^bin\/stockade(?:-lab)? 755$|^[^b].* 644$/ } @modes], [], 'with rights for all to read';

# ---- it sells ---------------------------------------------------------------------

my $binary = "$OPT/bin/stockade";
my $server = Stockade->start(binary => $binary, args => ['--config', $CONF]);
is scalar @{ $server->get('/api/products')->{body}{products} }, 0, 'no example products';
$server->product(1, 1000);
is $server->order(1)->{status}, 201, 'an order';
my $page = $server->get('/');
is $page->{status}, 200, 'the page';
like $page->{raw}, qr/<html/, 'is in the program';
is $server->get($_)->{status}, 200, "and so is $_" for '/app.js', '/style.css', '/openapi.json';
$server->ends('installed');

# ---- the file of settings ---------------------------------------------------------

my $help = Stockade::run(['serve', '--help'], binary => $binary)->{out};
my @flags = $help =~ /^  (--[a-z-]+)/mg;
my $conf  = Stockade::slurp($CONF);
is_deeply [$conf =~ /^([^#\n].*)/mg], ['no-seed = yes'], 'it sets one';
(my $set = $conf) =~ s/^#([a-z-]+ =)/$1/mg;
my @named = $set =~ /^([a-z-]+) =/mg;
cmp_ok scalar @named, '>', 5, "and names @named";
$set =~ s{\Q$PREFIX\E(?=/etc/stockade/admin-token$)}{$OPT}m;
Stockade::write_file("$OPT/etc/stockade/admin-token", "token\n");
Stockade::write_file("$DEST/set.conf", $set);
my $checked = Stockade::run(['serve', '--check-config', '--listen', '127.0.0.1:0', '--config', "$DEST/set.conf"], binary => $binary);
is $checked->{exit}, 0, 'which it takes all together' or diag $checked->{err};
unlink "$OPT/etc/stockade/admin-token";

# ---- completion -------------------------------------------------------------------

# What is offered for the last of these words.
sub offered {
    my (@words) = @_;
    my $ran = open my $bash, '-|', 'bash', '-c', 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _stockade; printf "%s\n" "${COMPREPLY[@]}"',
        "$OPT/share/bash-completion/completions/stockade", $binary, @words;
    die "bash: $!" if !$ran;
    return [sort grep { length } map { chomp; $_ } <$bash>];
}

my ($locks) = $help =~ /^Locks:\n(.*)/ms;
my @locks = $locks =~ /^  (\S+)/mg;
is_deeply offered(''), [sort qw(serve audit explore lab replay help)], 'completion of commands';
is_deeply offered('serve', '--'), [sort @flags], 'of all settings';
is_deeply offered('serve', '--lock-w'), ['--lock-wait-ms'], 'of one';
is_deeply offered('serve', '--lock', ''), [sort @locks], 'of locks';
is_deeply offered('serve', '--deduct', ''), [qw(guarded naive)], 'of choices';
is_deeply offered('serve', '--lock-per', ''), [qw(product user)], 'of what a lock is named after';
is_deeply offered('serve', '--shared', '--orders', 'o'), ['one-by-one'], 'of one choice';
is_deeply offered('serve', '--db', ''), [], 'of what nobody can know: nothing';
is_deeply offered('audit', '--'), [qw(--acked --db --json)], 'of flags of audit';
is_deeply offered('lab', ''), [qw(list locks path run serve show)], 'of commands of the laboratory';
is_deeply offered('lab', 'run', 'the-cr'), ['the-crash'], 'of experiments';
is_deeply offered($_, '--buyers', '3', 'fair'), [grep { /^fair/ } @locks], "of locks behind $_" for qw(explore replay);
is_deeply offered('lab', 'path', 'two'), [qw(two-commands two-instances)], 'of stops';
ok scalar(grep { $_ eq '--zk-node' } @{ offered('lab', 'locks', '--zk') }), 'and their flags';

# ---- the unit ---------------------------------------------------------------------

my $unit = Stockade::slurp("$UNITS/stockade.service");
my ($start) = $unit =~ /^ExecStart=(.*)$/m;
is $start, "$PREFIX/bin/stockade serve --config $PREFIX/etc/stockade/%N.conf", 'the unit starts what is installed';
unlike $unit, qr{/usr/local}, 'and nothing else';
is Stockade::slurp("$UNITS/stockade\@.service"), $unit, 'and so does its template';
SKIP: {
    skip 'no systemd-analyze', 6 if !has('systemd-analyze');
    # It looks for the program and the pages where they will be: say that they are here.
    (my $here = $unit) =~ s/\Q$PREFIX\E/$OPT/g;
    for my $name (qw(stockade.service stockade@.service)) {
        Stockade::write_file("$DEST/$name", $here);
        my $said = works("MANPATH=$OPT/share/man systemd-analyze verify $DEST/$name", "systemd-analyze verifies $name");
        is join('', grep { /stockade/ } split /^/, $said), '', 'and has nothing to say';
        my ($exposure) = works("systemd-analyze security --offline=true --no-pager $UNITS/$name", 'systemd-analyze security') =~ /exposure level.*: ([\d.]+)/;
        cmp_ok $exposure // 10, '<', 2, 'exposed little: ' . ($exposure // 'unknown');
    }
}

# Two instances as the manual has them, by the command of the unit.
my $redis = Stockade::Redis->start;
my %instance;
for my $port (8080, 8081) {
    my $name = "stockade\@$port";
    Stockade::write_file("$OPT/etc/stockade/$name.conf", "shared = yes\n");
    my ($program, @args) = split / /, $start =~ s/\Q$PREFIX\E/$OPT/gr =~ s/%N/$name/gr;
    is shift @args, 'serve', "$name: a command of the program";
    $instance{$port} = Stockade->start(binary => $program, args => \@args, redis => $redis, dir => $DEST);
}
my $order = $instance{8080}->order(1, 1, 1, 'one');
is $order->{status}, 201, 'one instance sells';
is $instance{8081}->order(1, 1, 1, 'one')->{raw}, $order->{raw}, 'and the other knows of it';
$instance{$_}->ends($_) for sort keys %instance;
$redis->stop;
unlink glob "$OPT/etc/stockade/stockade@*.conf";

# ---- the manual -------------------------------------------------------------------

my $manual = join '', map { Stockade::slurp($_) =~ s{\\f[A-Z]}{}gr } glob "$OPT/share/man/man[15]/stockade*";
unlike $manual, qr{/usr/local|server/deploy}, 'the manual names the paths of what is installed';
my @paths = grep { !/token|environment/ } $manual =~ m{(\Q$PREFIX\E/(?:etc|share)[\w./\\-]*\w)}g;
cmp_ok scalar @paths, '>', 5, 'some of them';
is_deeply [grep { !-e } map { $DEST . tr/\\//dr } @paths], [], 'and they are there';
SKIP: {
    skip 'no man', 8 if !has('man');
    for my $page ("$OPT/share/man/man1/stockade.1", "$OPT/share/man/man5/stockade.conf.5") {
        like works("MANWIDTH=80 man -l $page", "man shows $page"), qr/^STARTING AND STOPPING|^DESCRIPTION/m, 'as a manual';
        is works("man --warnings -l $page 2>&1 >/dev/null", 'once more'), '', 'without a complaint';
    }
}

# ---- again, and away --------------------------------------------------------------

Stockade::write_file($CONF, Stockade::slurp($CONF) . "workers = 3\n");
make('install-server');
like Stockade::slurp($CONF), qr/^workers = 3$/m, 'installed once more: settings that were changed stay';
make('uninstall-server');
is_deeply [files_in($OPT)], ['etc/stockade/stockade.conf'], 'uninstalled: only they are left';
unlink $CONF;
make('install-server');
make('uninstall-server');
is_deeply [grep { /stockade/ } things_in($OPT)], [], 'nothing is left, when they are as they came';

make('install');
my @all = files_in($OPT);
is scalar(grep { m{^(?:bin/stockade|lib/libdlock\.a|share/man/man3/dlock\.3)$} } @all), 3, 'make install: the service and the library';
make('uninstall');
is_deeply [files_in($OPT)], [], 'make uninstall: neither';

# Elsewhere than below PREFIX.
make('install-server', "PREFIX=/usr UNITDIR=/etc/systemd/system");
ok -e "$DEST/$_", "/$_" for qw(usr/bin/stockade etc/stockade/stockade.conf etc/systemd/system/stockade.service etc/systemd/system/stockade@.service);
like Stockade::slurp("$DEST/etc/systemd/system/stockade.service"), qr{^ExecStart=/usr/bin/stockade serve --config /etc/stockade/}m, 'and the unit says so';
make('uninstall-server', "PREFIX=/usr UNITDIR=/etc/systemd/system");
is_deeply [files_in("$DEST/usr"), files_in("$DEST/etc")], [], 'nothing is left there';
done_testing;
