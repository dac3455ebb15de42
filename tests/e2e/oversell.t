# Goal of this test: the demo's claim, without luck: the lock decides whether the
# textbook's read - think - write sells one unit once. Two orders arrive together,
# and the business time is far longer than the time between them.
use lib 'tests/e2e';
use Stockade;

# Whoever comes a second late, because the machine is busy, is still in time.
my $THINK_MS = 1500;
my $redis    = Stockade::Redis->start;

# Sells the last unit of three products to two buyers each, who buy nothing else, one at
# each of the instances (or both at the only one). Returns the audit.
sub sell_last_units {
    my ($instances, @args) = @_;
    my $dir     = Stockade::tempdir();
    my @servers = map {
        Stockade->start(
            redis => $redis,
            dir   => $dir,
            args  => [
                @args, '--think-ms', $THINK_MS, '--lock-wait-ms', 60_000, '--no-seed',
                $instances > 1 ? '--shared' : (),
            ],
        )
    } 1 .. $instances;
    $servers[0]->product($_, 1) for 1 .. 3;
    my @replies = Stockade::Load::volley(map { ([$servers[0], $_, 2 * $_], [$servers[-1], $_, 2 * $_ + 1]) } 1 .. 3);
    my $yes = grep { $_->[0] == 201 } @replies;
    is $_->stop, 0, 'ends' for @servers;
    my ($verdict, $exit) = $servers[0]->audit;
    is $verdict->{orders}, $yes, "as many orders as were acknowledged: $yes" or diag explain \@replies;
    is $exit, $verdict->{balanced} ? 0 : 1, 'the exit code is the verdict';
    return $verdict;
}

my @naive = qw(--deduct naive --orders one-by-one --workers 8);
for my $case (
    # lock, instances, further flags, units oversold
    ['none',      2, \@naive, 3],
    ['process',   1, \@naive, 0],
    ['process',   2, \@naive, 3],
    ['token-lua', 2, \@naive, 0],
    ['redisson',  2, [@naive, qw(--lock-per user)], 3], # two users sell one unit
    ['fenced',    2, [qw(--deduct guarded --orders batched)], 0],
  )
{
    my ($lock, $instances, $flags, $oversold) = @$case;
    my $verdict = sell_last_units($instances, '--lock', $lock, @$flags);
    my $what    = "$lock x$instances $flags->[1]";
    is $verdict->{oversold}, $oversold, "$what: oversold by $oversold" or diag explain $verdict;
    is $verdict->{sold}, 3 + $oversold, "$what: " . (3 + $oversold) . ' sold';
}
done_testing;
