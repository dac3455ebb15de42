# Goal of this test: all experiments with real instances go as told, with the bug and
# with the fix. Once; or as often as LAB_TIMES says. Stories mostly wait, so they are
# played while the crowds are at work; neither may reach the other.
use lib 'tests/e2e';
use IPC::Open3 qw(open3);
use JSON::PP ();
use Stockade;
use Stockade::Child;

my $dir = Stockade::tempdir();
my @ids = map { $_->{kind} eq 'load' ? $_->{id} : () } map { JSON::PP::decode_json($_) } split /\n/, Stockade::run(['lab', 'list', '--json'])->{out};
my %names = (stories => [grep { /w$/ } @ids], crowds => [grep { !/w$/ } @ids]);
cmp_ok scalar(@{ $names{$_} }), '>', 6, "there are $_" for sort keys %names;

for my $time (1 .. $ENV{LAB_TIMES} || 1) {
    my %child = map {
        $_ => Stockade::Child->spawn(
            command => [Stockade::binary(), 'lab', 'run', '--json', @{ $names{$_} }],
            stdout  => "$dir/$_",
            stderr  => "$dir/$_.err",
        )
    } keys %names;
    for my $kind (sort keys %child) {
        is $child{$kind}->wait(300 * $Stockade::SLOW), 0, "$time, $kind: exit 0" or diag Stockade::slurp("$dir/$kind.err");
        my @ran = map { JSON::PP::decode_json($_) } split /\n/, Stockade::slurp("$dir/$kind");
        is_deeply [map { $_->{id} } @ran], $names{$kind}, 'all were run';
        for my $one (@ran) {
            ok $one->{as_told}, "$one->{id} $one->{name}: as told" or diag map { JSON::PP->new->canonical->pretty->encode($_) } $one;
        }
    }
}

# A page that was left without a word would keep the machine busy: 38 takes longer than this.
my $pid = open3(my $ask, my $answers, undef, Stockade::binary(), qw(lab run -i --json 38));
is scalar(() = <$answers>), 1, 'a run that nobody looks at says no more than that it begins';
waitpid $pid, 0;
is $? >> 8, 2, 'and ends before its time';
done_testing;
