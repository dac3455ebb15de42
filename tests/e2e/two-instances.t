# Goal of this test: two instances, one database, one Redis. What one sells the
# other knows; limits and keys hold across them; together they sell exactly
# what is there.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Stockade;
use Test::More;
use Time::HiRes qw(time);

my $redis = Stockade::Redis->start;
my @args  = qw(--shared --lock fenced --deduct guarded --desk combine);
my $one   = Stockade->start(redis => $redis, args => \@args);
my $two   = Stockade->start(redis => $redis, args => \@args, dir => $one->dir);

$one->product(40, 300);
is $two->get('/api/products/40')->{body}{stock}, 300, 'what one puts on sale the other has';

my $load = Stockade::Load->start(servers => [$one, $two], product => 40, clients => 16);
my $sold_out = Stockade::eventually(30, sub { $one->get('/api/products/40')->{body}{stock} == 0 });
my $told = $load->finish;
ok $sold_out, 'sold out';
is $told->{status}{201}, 300, '300 units, 300 orders acknowledged' or diag explain $told->{status};
my ($verdict, $exit) = $one->audit(acked => $told->{file});
is $exit, 0, 'the ledger balances' or diag explain $verdict;
my ($line) = grep { $_->{product_id} == 40 } @{ $verdict->{lines} };
is $line->{sold},   300, 'sold exactly';
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

# One dies in the middle of a sale; the other goes on, at the latest when the
# lease of the lock that the dead one had is over.
my $LEASE_S = 10;
$two->product(43, 1000);
$two->product(44, 1_000_000);
$load = Stockade::Load->start(servers => [$one], product => 44, clients => 4, name => 'dies');
ok $load->wait_for(200, 20), 'one has sold for some time';
$one->kill9;
my $died = time;
$load->finish;
ok Stockade::eventually(20, sub { $two->order(43)->{status} == 201 }), 'one is killed, the other sells on';
ok Stockade::eventually(20, sub { $two->order(44)->{status} == 201 }), 'also what the dead one was selling';
cmp_ok time - $died, '<', $LEASE_S + 1.5 * $Stockade::SLOW, sprintf 'within the lease of %d s (%.1f)', $LEASE_S, time - $died;

# --shared and alone do not mix
ok !Stockade->start(redis => $redis, dir => $one->dir, args => ['--lock', 'fenced'], dies => 1),
    'an instance without --shared is refused';
is $two->stop, 0, 'ends';
is +($one->audit)[1], 0, 'the ledger balances in the end';
done_testing;
