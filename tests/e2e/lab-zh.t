# Goal of this test: `stockade lab run --zh` draws in Chinese. What an experiment on
# the stage draws, and some with real instances, has no English words but names and
# commands, so a phrase that server/lab/picture/chinese.txt does not have is found here.
# The lanes are aligned and stay within 80 columns.
use utf8;
use Encode qw(decode_utf8);
use lib 'tests/e2e';
use JSON::PP ();
use Stockade;
use Stockade::Child;

binmode $_, ':encoding(UTF-8)' for Test::More->builder->output, Test::More->builder->failure_output;

my @REAL = ('03', '06w', '12w');    # a crowd; a process that dies, and one that stops

# What is the same in every language: tables and their columns, keys, moves; and what
# servers say themselves. Names of locks and faults are added below.
my %CODE = map { $_ => 1 } qw(
    redis sqlite naive guarded aw locked del nil stock orders state key id segments segment
    products bucket initial epoch bills status charged synchronous sold purchases units fsync
    get set setnx pexpire hget hset attempt bw cw ax bx cx dx al bl);
my $SAID = qr/database is locked|Operation against a key holding the wrong kind of value/;

Stockade::call_as_typed();
my @experiments = map { JSON::PP::decode_json($_) } split /\n/, Stockade::run(['lab', 'list', '--json'])->{out};
for my $play (grep { $_ } map { @{$_}{qw(bug fix rest)} } @experiments) {
    $CODE{$_} = 1 for $play->{scene} =~ /\block ([^,]+),/, @{ $play->{faults} }, @{ $play->{remarks} };
}

# Both ways, from the heading to the verdict, without command lines: they end where a
# line does not end with a backslash.
sub drawn {
    my ($out) = @_;
    my @ways = $out =~ /^(?:有缺陷时|修复之前|演示内容|修复之后|修复之后，再来一次)\n(.*?)^-> /msg;
    s/^.*stockade (?:replay|serve)\b(?:.*\\\n)*.*\n//mg for @ways;
    return @ways;
}

# The words that are no code, of sentences that are put together again.
sub english {
    my ($drawn) = @_;
    $drawn =~ s/(?<=-)\n {10,}//g;
    $drawn =~ s/\n {10,}/ /g;
    $drawn =~ s/$SAID//g;
    return grep { !$CODE{$_} } $drawn =~ m{(?<![\w:/{}'.-])([a-z]{2,})(?![\w:/{}'-])}g;
}

# Lines of the lanes that begin between them, or reach into the next one.
sub astray {
    my ($drawn) = @_;
    $drawn =~ s/^账本.*//ms;
    $drawn =~ s/^  \S.*\n(?: {10}\S.*\n)*//mg;    # the state
    my ($head, $lines) = $drawn =~ /^(动作  毫秒 .*)\n((?:[^ \n].*\n| {4} *\d.*\n| {11}.*\n)*)/m or return 'no lanes';
    my (@lanes, @astray);
    push @lanes, Stockade::columns(substr $head, 0, $-[0]) while $head =~ /[a-d]/g;
    for my $line (split /\n/, $lines) {
        my ($before, $move) = $line =~ /^( {11,}|(\S*) *\d+ +)/;
        my ($lane) = grep { $lanes[$_] == Stockade::columns($before) } 0 .. $#lanes;
        my $is_actors = !defined $move || $move =~ /^[a-d]/;
        push @astray, $line
            if !defined $lane || $is_actors && $lane < $#lanes && Stockade::columns($line) >= $lanes[$lane + 1];
    }
    return @astray;
}

is_deeply [english("a        0 锁 is held：成功\n")], ['is', 'held'], 'English is found';

# The first that fits is taken, so one that is behind a wider one says nothing.
my $chinese = Stockade::slurp("$Stockade::ROOT/server/lab/picture/chinese.txt");
my (@phrases, @behind);
for my $phrase ($chinese =~ /^"?([^\s#].*?)"?\t/mg) {
    my $text    = $phrase =~ s/\*/7/gr;
    my $pattern = join '.*', map { quotemeta } split /\*/, $phrase, -1;
    push @behind,  $phrase if grep { $text =~ $_ } @phrases;
    push @phrases, qr/\A$pattern\z/;
}
is_deeply \@behind, [], scalar(@phrases) . ' phrases, none behind one that takes its texts';

# Two at a time.
my $dir = Stockade::tempdir();
my @ids = (@REAL, map { $_->{kind} eq 'steps' ? $_->{id} : () } @experiments);
my @todo = @ids;
my %running;
for my $id (@ids) {
    while (@todo && keys %running < 2) {
        my $next = shift @todo;
        $running{$next} = Stockade::Child->spawn(
            command => [Stockade::binary(), 'lab', 'run', '--zh', $next],
            stdout  => "$dir/$next",
            stderr  => "$dir/$next.err",
        );
    }
    is +(delete $running{$id})->wait(300 * $Stockade::SLOW), 0, "$id: as told" or diag Stockade::slurp("$dir/$id.err");
    my $out = decode_utf8(Stockade::slurp("$dir/$id"));
    unlike $out, qr/\x{fffd}/, 'no character is cut in two';
    is_deeply [grep { Stockade::columns($_) > 80 } split /\n/, $out], [], '80 columns';
    unlike $out, qr/eval-[a-z-]+：-?[0-9]|[0-9]{16}/, 'scripts answer in words, and tokens are numbered';
    my @ways = drawn($out);
    cmp_ok scalar @ways, '>', 0, 'it is drawn';
    is_deeply [map { english($_) } @ways], [], 'in Chinese' or diag @ways;
    is_deeply [map { astray($_) } @ways], [], 'lanes are aligned' if !grep { $_ eq $id } @REAL;
}
done_testing;
