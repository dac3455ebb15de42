# Goal of this test: the search of all schedules finds what each lesson is about, and
# finds nothing with the right code in its place. The experiment shows the shortest
# schedule. A program that dies, or ends, in a transaction of its own does not change how
# the next schedule goes.
use lib 'tests/e2e';
use JSON::PP ();
use Stockade;

sub explore {
    my (@args) = @_;
    my $run = Stockade::run(['explore', '--json', @args], seconds => 100);
    is $run->{err}, '', "@args: can be played";
    return JSON::PP::decode_json($run->{out});
}

my @calm    = qw(--crashes 0 --expiries 0);
my @guarded = qw(--deduct guarded);
my @lessons = (
    # id, fault, who is there, with the wrong code, with the right code, where
    ['26', 'oversold',   'order-unlocks-first,order-unlocks-first',   'order-commits-first,order-commits-first', @calm, 'token-lua'],
    ['28', 'oversold',   'order-locks-user,order-locks-user',         'order,order',                  @calm, 'token-lua'],
    ['32', 'oversold',   'order-off-by-one,order-off-by-one',         'order-counts-rows,order-counts-rows', @guarded, @calm, '--stock', 3, '--quantity', 2, 'none'],
    ['33', 'oversold',   'order-counts-no-rows,order-counts-no-rows', 'order-counts-rows,order-counts-rows', @guarded, @calm, 'none'],
    ['36', 'ledger',     'move-in-steps,order',                       'move-at-once,order',           @guarded, '--segments', 2, '--stock', 2, 'none'],
    ['39', 'lost-order', 'order-in-redis,order-in-redis',             'order,order',                  @guarded, 'none'],
    ['41', 'refused',    'order-whole,order-busy-is-no',              'order-whole,order', @guarded, @calm, '--stock', 2, 'none'],
    ['42', 'lost-order', 'order-unsynced,power-cut',                  'order-synced,power-cut',       @guarded, 'none'],
);

my %schedule = map { $_->{id} => $_->{bug}{schedule} }
    map { JSON::PP::decode_json($_) } split /\n/, Stockade::run(['lab', 'list', '--json'])->{out};

for my $lesson (@lessons) {
    my ($id, $fault, $wrong, $right, @where) = @$lesson;
    my $found = explore('--programs', $wrong, @where);
    ok $found->{faults}{$fault}, "$id: $fault, by '" . ($found->{faults}{$fault} // '') . q{'};
    is $found->{faults}{$fault}, $schedule{$id}, "$id: the experiment's schedule is the shortest" if $id =~ /26|33|39|42/;
    $found = explore('--programs', $right, @where);
    is_deeply $found->{faults}, {}, "$id: with the right code nothing breaks";
    ok $found->{whole}, "$id: and nothing was left out";
}
done_testing;
