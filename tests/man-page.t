# Goal of this test: the manual says what is there, all of it and nothing else:
# problems, metrics, paths, log messages; and stockade.conf(5) the settings. Where
# groff is installed it has to format both pages without a warning.
use lib 'tests/e2e';
use Stockade;

chdir $Stockade::ROOT or die;
my @pages = qw(server/stockade.1 server/stockade.conf.5);
my ($text, $conf) = map { plain(Stockade::slurp($_)) } @pages;

sub plain {
    my ($page) = @_;
    $page =~ s/^\.\\".*\n//mg;
    $page =~ s/\\f[A-Z]//g;
    $page =~ s/\\-/-/g;
    return $page =~ s/\\~/ /gr;
}

sub section {
    my ($name, $page) = @_;
    my ($section) = ($page // $text) =~ /^\.SH \Q$name\E\n(.*?)(?=^\.SH |\z)/ms;
    return $section // '';
}

# What stands in bold at the head of each paragraph of a section: ".TP\n.B name",
# ".BR name, name", '.BI name " value"'.
sub heads {
    my ($name) = @_;
    return map { tr/"//dr } map { s/^\.B[RI]? //r } section($name) =~ /^\.TP\n(\.B.*)/mg;
}

sub same {
    my ($got, $expected, $what) = @_;
    return is_deeply [sort @$got], [sort @$expected], $what;
}

# ---- settings ----------------------------------------------------------------

# "--name value [preset]" as `serve --help` lists it, and as stockade.conf(5) does.
my $help  = Stockade::run(['serve', '--help'])->{out};
my ($list) = $help =~ /^(  --.*?)\n\n/ms;
my @told;
for my $line (split /\n/, $list) {
    my ($name, $rest) = $line =~ /^  --(\S+) ?(.*)$/ or next;
    my ($preset) = $rest =~ / \[([^\]]+)\]$/;
    push @told, [$name, $preset, $rest];
}
my %entry = section('SETTINGS', $conf) =~ /^\.TP\n\.BI? --([a-z-]+)(.*?)(?=^\.TP|\z)/msg;
same [keys %entry], [map { $_->[0] } @told], 'the manual has the settings of --help';
for my $setting (@told) {
    my ($name, $preset, $rest) = @$setting;
    my ($value, $variable, $default) = ($entry{$name} // '') =~ /\A[ "]*(.*?)"?\n\((\w+)(?:, (?:no default|default (.*?)))?\)\n\.br\n/s;
    is $variable, 'STOCKADE_' . uc($name =~ tr/-/_/r), "--$name: its variable";
    $value //= '?';
    like $rest, qr/^\Q$value\E(?: |$)/, "--$name: its value";
    # Of a flag --help does not say that it is "no".
    is $default, $preset // ($value ? undef : 'no'), "--$name: its default";
}

# Flags that the pages name anywhere are flags of some command.
my %flag = map { $_ => 1 } map { Stockade::run([@$_, '--help'])->{out} =~ /(?<![\w-])(--[a-z][a-z-]*)/g } ['serve'], ['audit'], (map { ['lab', $_] } qw(list show run path locks serve)), ['explore'], ['replay'];
my %named = map { $_ => 1 } grep { !/^--(?:maxmemory-policy|reference|wsrep-recover)$/ } "$text$conf" =~ /(?<![\w-])(--[a-z][a-z-]*)/g;
delete @named{qw(--setting --version)};
same [keys %named], [keys %flag], 'the flags of all commands';

# The synopsis gives no command a flag that another has.
for my $form (split /^\.br\n/m, section('SYNOPSIS')) {
    my ($command) = $form =~ /stockade ((?:lab )?[a-z]+)/ or next;
    my $has = $command eq 'help' ? '' : Stockade::run([split(/ /, $command), '--help'])->{out};
    is_deeply [grep { $has !~ /\Q$_\E\b/ } grep { $_ ne '--setting' } $form =~ /(--[a-z][a-z-]*)/g], [], "the flags of $command";
}

# ---- what is answered --------------------------------------------------------

my $problems = join '', map { Stockade::slurp($_) } 'server/base/order_outcomes.txt', 'server/http/problems.txt';
my @problems = grep { !/^201 / } map { s/,.* / /r } $problems =~ /^\w+, (\d+, \d+ +\| [a-z-]+)/mg;
cmp_ok scalar @problems, '>', 25, 'the table of problems was found';
same [heads('OUTCOMES')], \@problems, 'the manual has the problems, with their status';

my $routes = Stockade::slurp('server/http/route.c');
my @routes = map { s/", "/ /r } $routes =~ /^    \{"([A-Z]+", "\/[^"]*)"/mg;
my @files  = Stockade::slurp('server/http/handle_files.c') =~ /^ {8}"\/(.*)",$/mg;
push @routes, map { "GET /$_" } @files, map { m{/(?!lab)(.*)} } glob 'static/*.js';
cmp_ok scalar @routes, '>', 15, 'the table of paths was found';
same [map { split / *, */ } heads('HTTP API')], \@routes, 'the manual has the paths';

# ---- what is told to operators -----------------------------------------------

my $server  = Stockade->start(args => ['--lock', 'none']);
my $front   = Stockade->start(inventory => [$server]);
my %metrics = map { $_ => 1 } map { $_->get('/metrics')->{raw} =~ /^# TYPE (\w+)/mg } $server, $front;
my @metrics = keys %metrics;
cmp_ok scalar @metrics, '>', 10, 'metrics were scraped';
same [map { split / *, */ } heads('METRICS')], \@metrics, 'the manual has the metrics';
my %metric = map { $_ => 1 } @metrics;
is_deeply [grep { !$metric{$_} } $text =~ /\b(stockade_\w+)/g], [], 'and no others';

my @alerts = Stockade::slurp('server/deploy/prometheus-alerts.yml') =~ /^ +- alert: (\w+)/mg;
cmp_ok scalar @alerts, '>', 10, 'the alerts were found';
same [heads('ALERTS')], \@alerts, 'the manual has the alerts';
for my $entry (section('ALERTS') =~ /^\.TP\n(.*?)(?=^\.TP|\z)/msg) {
    my ($name, $todo) = $entry =~ /^\.B (\w+)\n(.*)/s;
    cmp_ok scalar(() = $todo =~ /[.;:]$/mg), '>=', 3, "$name: three lines of what to do" or diag $todo;
}

my %messages;
for my $file (grep { !m{/log\.h$} } glob 'server/*.[ch] server/*/*.[ch] server/*/*/*.[ch]') {
    $messages{$_}++ for Stockade::slurp($file) =~ /\blog_(?:info\(|warn\(|error\(|line\(level,)\s*"([^"]+)"/g;
    $messages{$_}++ for Stockade::slurp($file) =~ /level=\w+ msg=(\w+)/g;
}
same [map { split / *, */ } heads('TROUBLE')], [keys %messages], 'the manual has the messages of the log';

# ---- its form ----------------------------------------------------------------

SKIP: {
    skip 'groff is not installed', scalar @pages if system('command -v groff >/dev/null') != 0;
    is `groff -man -Tutf8 -ww $_ 2>&1 >/dev/null`, '', "groff has nothing to say of $_" for @pages;
}
done_testing;
