# Goal of this test: two instances, one database, one Redis. What one sells the
# other knows; limits and keys hold across them; together they sell exactly what is
# there, and no customer notices that Redis loses all its data meanwhile.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Stockade;
use Test::More;

my $redis = Stockade::Redis->start;
my @args  = qw(--shared --lock fenced --deduct guarded --orders batched);
my $one   = Stockade->start(redis => $redis, args => \@args);
my $two   = Stockade->start(redis => $redis, args => \@args, dir => $one->dir);

my $UNITS = 2000;
$one->product(40, $UNITS);
sub left { return $_[0]->get('/api/products/40')->{body}{stock} }
is left($two), $UNITS, 'what one puts on sale the other has';

my $load = Stockade::Load->start(servers => [$one, $two], product => 40, clients => 16);
for my $part (1 .. 9) {
    Stockade::eventually(30, sub { left($one) <= $UNITS * (10 - $part) / 10 });
    $redis->command('FLUSHALL');
}
my $sold_out = Stockade::eventually(30, sub { left($one) == 0 });
my $told = $load->finish;
ok $sold_out, 'sold out';
is delete $told->{status}{201}, $UNITS, "$UNITS units, $UNITS orders acknowledged";
is_deeply [keys %{ $told->{status} }], [409], 'nobody heard anything but yes and sold out' or diag explain $told->{status};
my ($verdict, $exit) = $one->audit(acked => $told->{file});
is $exit, 0, 'the ledger balances' or diag explain $verdict;
my ($line) = grep { $_->{product_id} == 40 } @{ $verdict->{lines} };
is $line->{sold},   $UNITS, 'sold exactly';
is $line->{drift},  0, 'nothing twice, nothing vanished';
is Stockade::slug($two->order(40)), 'sold-out', 'the other one knows';

# One click at each instance, at the same time
$one->product(41, 100, limit_per_user => 1);
for my $user (1 .. 10) {
    my @replies = Stockade::Load::volley(([$one, 41, $user], [$two, 41, $user]) x 2);
    is scalar(grep { $_->[0] == 201 } @replies), 1, "user $user, limit 1, four clicks: one order"
        or diag explain \@replies;
}

# The same key at each instance, at the same time
$one->product(42, 100);
for my $n (1 .. 10) {
    my @replies = Stockade::Load::volley(([$one, 42, 500 + $n, 1, "both-$n"], [$two, 42, 500 + $n, 1, "both-$n"]) x 2);
    my %ids = map { $_->[1]{id} => 1 } grep { $_->[0] == 201 } @replies;
    is scalar(grep { $_->[0] == 201 } @replies), 4, "key both-$n: yes to all four" or diag explain \@replies;
    is scalar keys %ids, 1, "key both-$n: and the same order";
}
is $two->get('/api/products/42')->{body}{stock}, 90, 'ten keys, ten units';

my $id = $one->order(42, 900, 5)->{body}{id};
my @cancels = map { $_->delete("/api/orders/$id")->{status} } $one, $two, $one;
is_deeply \@cancels, [200, 200, 200], 'cancelled here and there';
is $one->get('/api/products/42')->{body}{stock}, 90, 'its units came back once';

# --shared and alone do not mix
ok !Stockade->start(redis => $redis, dir => $one->dir, args => ['--lock', 'fenced'], dies => 1),
    'an instance without --shared is refused';
is $_->stop, 0, 'ends' for $one, $two;
is +($one->audit)[1], 0, 'the ledger balances in the end';
done_testing;
