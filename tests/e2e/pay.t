# Goal of this test: what is not paid in time is on sale again at that moment, whoever
# dies meanwhile; what is paid stays sold; and a payment that comes too late hears so and
# is on record. Two instances sell, customers pay, cancel, or forget it, and many do so
# at the last moment; instances get kill -9; the ledger is exact at every look.
# STOCKADE_HOLDS=N has N orders, `make test-long` 100,000; STOCKADE_MARIADB=1 a server of
# its own: tests/full/pay-mysql.t.
use lib 'tests/e2e';
my ($HOLDS, $MARIADB);
BEGIN { ($HOLDS, $MARIADB) = ($ENV{STOCKADE_HOLDS} || 600, $ENV{STOCKADE_MARIADB}) }
use POSIX ();
use Stockade;
use Time::HiRes qw(time);

# A killed instance has to come up again in the middle of the sale.
$Stockade::PATIENCE_S = 90;

my $WITHIN_S = 3;
my $CLIENTS  = $HOLDS < 10_000 ? 4 : 32;
my $EACH     = int $HOLDS / $CLIENTS;
my $STOCK    = 10 * $HOLDS;

my $redis = Stockade::Redis->start;
require Stockade::Mariadb if $MARIADB;
my $mariadb = $MARIADB && Stockade::Mariadb->start;
my %with  = (redis => $redis, args => [qw(--no-seed --shared --lock fenced)], $mariadb ? (db_url => $mariadb->database) : ());
my $one   = Stockade->start(%with);
my $two   = Stockade->start(%with, dir => $one->dir);
my $dir   = Stockade::tempdir();

# ---- at the moment, without a customer ---------------------------------------------
sub state_of { return $two->get("/api/orders/$_[0]")->{body}{state} }
sub stock_of { return $two->get("/api/products/$_[0]")->{body}{stock} }
sub pay { my ($server, $id, $with) = @_; return $server->post("/api/orders/$id/pay", { payment => $with }) }

$one->product(50, 3, pay_within_s => 1, limit_per_user => 2, segments => 3);
my $order = $one->order(50, 1, 2)->{body}{id};
is Stockade::slug($one->order(50, 1, 1)), 'purchase-limit', 'what is held counts';
is Stockade::slug($one->order(50, 2, 2)), 'sold-out', 'and is not on sale';
ok Stockade::eventually(5, sub { $one->order(50, 2, 2)->{status} == 201 }), 'it is on sale again';
is_deeply [@{ $two->get("/api/orders/$order")->{body} }{qw(state cancelled_at)}], ['expired', undef], 'the order has expired, and nobody has cancelled it';
is Stockade::slug(pay($two, $order, '=late')), 'order-expired', 'and is not paid any more';
like $two->get('/api/orders.csv')->{raw}, qr/^\Q$order\E,50,1,2,.*,expired,[^,]+,,"","",1,"'=late"\r$/m, 'as the list says, with what is to be refunded';
ok Stockade::eventually(5, sub { stock_of(50) == 3 }), 'nor is the second one';
is $one->metric('stockade_orders_expired_total') + $two->metric('stockade_orders_expired_total'), 2, 'two are counted';
is $two->metric('stockade_late_payments_total'), 1, 'and the payment';

$one->product(51, 5, pay_within_s => 1);
my $last = $one->order(51)->{body}{id};
$one->kill9;
ok Stockade::eventually(5, sub { state_of($last) eq 'expired' }), 'the other one sees to it for one that has died';
$last = $two->order(51)->{body}{id};
$two->kill9;
select undef, undef, undef, 1.2;    # nobody is there to do anything
$two->restart;
ok Stockade::eventually(5, sub { state_of($last) eq 'expired' }), 'what ran out meanwhile expires at the start';
$one->restart;
is stock_of(51), 5, 'all is back';

# ---- a crowd -----------------------------------------------------------------------
# A customer orders some, and does with each what it likes when it likes; writes down
# each answer: "ordered ID", "paid ID 200", "cancelled ID 409", "unpaid ID".
sub shop {
    my ($i) = @_;
    my @servers = ($one, $two);
    open my $notes, '>>', "$dir/notes.$i" or POSIX::_exit(1);
    $_->{http} = undef for @servers;
    srand $i;
    my (@todo, $n);
    my $do = sub {
        my ($what, $id) = @_;
        my $server = $servers[rand @servers];
        my $reply  = $what eq 'pay' ? pay($server, $id, "p-$id") : $server->delete("/api/orders/$id");
        syswrite $notes, "$what $id $reply->{status} " . Stockade::slug($reply) . "\n";
    };
    while ($n++ < $EACH || @todo) {
        if ($n <= $EACH) {
            my $reply = { status => 0 };
            while ($reply->{status} !~ /^20[01]$/) {    # the same order, until one of them has it
                select undef, undef, undef, 0.05 if $reply->{status};
                $reply = $servers[rand @servers]->order(52, $i * 1_000_000 + $n, 1, "k$i-$n");
            }
            my $id = $reply->{body}{id};
            syswrite $notes, "order $id\n";
            my $kind = rand;    # half of them pay soon; a few cancel, or come at the last moment
            my $end  = time + $WITHIN_S;
            if    ($kind < 0.45) { $do->(pay => $id) }
            elsif ($kind < 0.5)  { $do->(cancel => $id) }
            elsif ($kind < 0.6)  { push @todo, [$end - 0.02 + rand 0.03, 'pay', $id] }
            elsif ($kind < 0.7)  { push @todo, [$end - 0.02 + rand 0.03, $_, $id] for 'pay', 'cancel' }
        }
        @todo = sort { $a->[0] <=> $b->[0] } @todo;
        select undef, undef, undef, 0.01 if $n > $EACH;
        while (@todo && time >= $todo[0][0]) {
            my (undef, $what, $id) = @{ shift @todo };
            $do->($what, $id);
        }
    }
    POSIX::_exit(0);
}

$one->product(52, $STOCK, pay_within_s => $WITHIN_S, segments => 4);
my @pids = map {
    my $pid = fork;
    die "fork: $!" if !defined $pid;
    shop($_) if !$pid;
    $pid;
} 1 .. $CLIENTS;

my ($looks, $wrong) = (0, 0);
sub look {
    my ($verdict, $exit) = $two->audit;
    # 2: it did not get at the database, which the instances write all the time.
    $looks += $exit == 0;
    $wrong += $exit == 1;
    diag explain $verdict if $exit == 1;
    return $verdict;
}
my %running = map { $_ => 1 } @pids;
my ($kills, $killed) = (0, 0);
for my $round (1 .. 1_000_000) {
    while ((my $pid = waitpid -1, POSIX::WNOHANG()) > 0) { delete $running{$pid} }
    last if !grep { $running{$_} } @pids;
    my $began = time;
    look();
    # Nobody can sell while an audit reads the file: four fifths of the time are the sale's.
    select undef, undef, undef, 0.05 + 4 * (time - $began);
    next if $round % 4 != 2 || ($kills >= 3 && time < $killed + 10);
    $one->kill9;
    $killed = time;
    $kills++;
    look();
    # On its old port: the customers know no other one.
    $one->restart(port => $one->port);
}
my $meanwhile = $looks;
ok Stockade::eventually(20, sub { my $held = look()->{held}; defined $held && $held == 0 }), 'at the end nothing is held';
is $wrong, 0, "the ledger was exact at $looks looks, with $kills kills";
cmp_ok $meanwhile, '>', 0, 'looked while they bought';

# ---- what they were told, order by order ---------------------------------------------
my %is;
for (my $page = '/api/orders.csv'; $page;) {
    my $reply = $two->get($page);
    for (split /\r\n/, $reply->{raw}) {
        my ($id, $product, $state) = (split /,/)[0, 1, 6];
        $is{$id} = $state if $product eq '52';
    }
    ($page) = ($reply->{headers}{link} || '') =~ /<(.*?)>/;
}
is scalar keys %is, $EACH * $CLIENTS, 'each order is there once';
my (%told, %states, @complaints);
for my $i (1 .. $CLIENTS) {
    for (split /\n/, Stockade::slurp("$dir/notes.$i")) {
        my ($what, $id, $status, $slug) = split / /, $_, 4;
        $told{$id}{$what} = [$status, $slug // ''];
    }
}
my %first = (paid => 'already-paid', cancelled => 'order-cancelled', expired => 'order-expired');
my ($late, $unknown) = (1, 0);    # one more came before
for my $id (sort keys %told) {
    my $is   = $is{$id} || 'not there';
    my $told = $told{$id};
    $states{$is}++;
    my ($pay, $cancel) = map { $_ || [0] } @$told{qw(pay cancel)};
    $late    += $pay->[0] == 409;
    $unknown += $pay->[0] >= 500;
    push @complaints, "$id is $is, and was paid" if $pay->[0] == 200 && $is ne 'paid';
    push @complaints, "$id is $is, and was cancelled" if $cancel->[0] == 200 && $is ne 'cancelled';
    push @complaints, "$id is $is, the payment heard $pay->[1]" if $pay->[0] == 409 && $pay->[1] ne $first{$is};
    push @complaints, "$id is $is, the cancel heard $cancel->[1]" if $cancel->[0] == 409 && $cancel->[1] ne $first{$is};
    push @complaints, "$id is $is, and nobody has paid" if $is eq 'paid' && !$told->{pay};
}
is_deeply \@complaints, [], 'each order is what its customer was told';
my $verdict = $two->audit;
ok $verdict->{late_payments} >= $late && $verdict->{late_payments} <= $late + $unknown,
    "late payments are on record: $verdict->{late_payments}, $late told, $unknown without an answer";
note join ', ', map { "$_: $states{$_}" } sort keys %states;
cmp_ok $states{$_} || 0, '>', 0, "some are $_" for qw(paid cancelled expired);
is stock_of(52), $STOCK - $verdict->{sold}, 'what is not paid is on sale';
$_->ends('in the end') for $one, $two;
done_testing;
