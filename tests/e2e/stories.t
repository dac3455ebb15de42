# Goal of this test: what actors of the stage do besides one order each: programs,
# roles, several in one process; and what a search has once told wrongly. The stories
# are kept as strings: what one version tells, the next one tells as well. Those of the
# experiments: lab.t.
use lib 'tests/e2e';
use JSON::PP ();
use Stockade;

my @stories = (
    # what; flags and lock, schedule; what breaks, units left, orders, whether it is over
    ['in one process a mutex is enough',
        '--one-process process', 'a b a a b', '', 0, 1, 1],
    [q{a number of this process's is enough in it},
        '--one-process token-thread', 'a a a a L b a', '', 0, 1, 0],
    ['a lock that lives in the process is not kept from the schedule before',
        '--one-process --products 2 --programs lock-both,lock-both:product=2:other=1 process', 'a', '', 2, 0, 0],
    ['nor is it free while its holder waits for itself',
        '--one-process --programs order-nested,order process', 'a', '', 1, 0, 0],
    ['an open transaction keeps no other actor from beginning',
        '--deduct guarded --pay-within 1 --programs order-whole,order-busy-is-no none', 'a b a a a', '', 0, 1, 1],
    ['one has come to its end, and the next one there has the watchdog',
        '--one-process --deduct guarded redisson', 'a a a b bw', '', 0, 1, 0],
    ['who has died is not inside beside another',
        '--deduct guarded redisson', 'a a! L b', '', 1, 0, 0],
    ['a lock of the other product is left behind as well',
        '--products 2 --programs order:product=2,order setnx', 'a a!', 'left-for-ever', 2, 0, 0],
    ['a fifth lock has its holder, and is left behind by that',
        '--buyers 4 --products 5 --programs order:product=2,order:product=3,order:product=4,order:product=5 setnx', 'a b c d d!', 'left-for-ever', 5, 0, 0],
    ['who dies takes those of its process along',
        '--one-process --deduct guarded set-nx-px', 'a a!', '', 1, 0, 1],
    ['a lock that counts in the session is not lengthened',
        '--programs order-nested reentrant-local', 'a a L b b a a b b', 'oversold', 0, 2, 0],
    [q{a user's limit},
        '--stock 5 --limit 1 --programs order:user=7,order:user=7 none', 'a b a b a b', 'ledger over-limit two-inside', 4, 2, 1],
    ['other segments, and they are dealt out evenly',
        '--deduct guarded --stock 8 --programs resize:segments=4,even-out none', 'a b', '', 8, 0, 1],
    ['one that does not knows the holder',
        '--replica redisson', 'a a P b a a', '', 0, 1, 0],
    [q{a key's order is one, whoever sends it},
        '--deduct guarded --stock 5 --programs order:user=1:key=k,order-twice:user=1:key=k none', 'a b b', '', 4, 1, 1],
    ['two cancels of it return the units once',
        '--deduct guarded --programs order-cancel:key=k,cancel:key=k none', 'a b a', '', 1, 0, 1],
    ['more units under one key, four times',
        '--deduct guarded --programs restock-twice,restock-twice none', 'a b a b', '', 2, 0, 1],
    ['a lease made shorter',
        '--deduct guarded --programs lock-extends,lock redisson', 'a a L b b b a a', '', 1, 0, 1],
    ['batched: the same order at two instances',
        '--batched --stock 3 --programs instance-same:user=1:key=k,instance-same:user=1:key=k fenced', 'ai ai a a a a a a a ai a bi bi b b b b b b b bi b', '', 2, 1, 1],
    ['an instance whose lease has ended writes nothing',
        '--batched --stock 3 fenced', 'ai ai a a bi bi b b L b b b a a b b b b b', '', 1, 2, 0],
    ['of its waits the one that ends first is over: it looks again, and its order still waits',
        '--batched --stock 3 fenced', 'ai bi a a b b b b b b+ b b a a a a a b b b b b b b', '', 1, 2, 0],
    ['an order is paid, and a cancel comes too late',
        '--deduct guarded --pay-within 1 --programs order-pay:key=k,cancel:key=k none', 'a a b', '', 0, 1, 1],
    ['it is cancelled, and the payment comes too late',
        '--deduct guarded --pay-within 1 --programs order-pay:key=k,cancel:key=k none', 'a b a', '', 1, 0, 1],
    ['it is overdue, and its payment comes before the expiry: too late',
        '--deduct guarded --buyers 1 --pay-within 1 --programs order-pay none', 'a H a', '', 1, 0, 1],
    ['it has expired, another buyer has the unit, and the payment comes',
        '--deduct guarded --pay-within 1 --programs order-pay:key=k,order-pay none', 'a H ae b a b', '', 0, 1, 1],
    ['its instance has died, and another one gives the unit back, once',
        '--deduct guarded --buyers 3 --pay-within 1 --programs order:key=k,pay:key=k,pay:key=k none', 'a b c H be ce b c', '', 1, 0, 1],
    ['the answer to a payment is lost, and it is sent once more',
        '--deduct guarded --buyers 1 --pay-within 1 --programs order-pay none', 'a a~ a', '', 0, 1, 1],
    [q{a lock per user keeps a user's limit},
        '--stock 2 --limit 1 --lock-per user --programs order:user=1,order:user=1 redisson', 'a b b b a a a a b b b', '', 1, 1, 1],
    ['and not the stock',
        '--lock-per user redisson', 'a b a b a b a b a b', 'oversold', 0, 2, 1],
    ['a waiter whose time is over is not asleep: it looks, and wakes the next',
        '--deduct guarded --buyers 3 fair', 'c b b b b b+ b L a a c! a a', '', 1, 0, 0],
    ['a question that came late has its place in the queue',
        '--deduct guarded --buyers 3 fair', 'c a^ ^ c~ c b~ a^ ^', '', 0, 1, 0],
    ['a late vote of a minority locks nothing',
        '--deduct guarded redlock', 'a a a^ a a a a^ ^', '', 0, 1, 0],
    ['whoever was not heard of for a heartbeat queues up anew',
        '--deduct guarded --buyers 3 fair', 'b b a a a c c c c c+ c c+ c c+ b a c', '', 0, 1, 0],
    ['or keeps its place, because the server heard of nobody',
        '--deduct guarded --buyers 3 fair', 'b a bw b- c~ a a a a+ b a', '', 1, 0, 0],
    [q{a late question of one that has had the lock is a heartbeat's delay},
        '--deduct guarded --buyers 3 fair', 'b^ a^ a a L ^ ^ b b a b b b', '', 0, 1, 0],
    ['a pause of a moment after a split vote is no sleep',
        'multi', 'a a a a~ b a b b b b a b', '', 0, 0, 0],
    ['a waiter of several servers looks by itself, because an undo wakes nobody',
        '--deduct guarded --wait-ms 1000 multi', 'a~ L a b b b b a', '', 1, 0, 0],
    [q{what is late after a loss of all data is the loss's},
        '--deduct guarded fenced', 'a a^ a a a F ^', '', 0, 1, 0],
    ['and so are holds that it leaves',
        '--deduct guarded fenced', 'a a a a b b^ b b b F ^', '', 0, 1, 1],
    ['and so is a waiter that nobody wakes',
        '--deduct guarded redisson', 'a b b b b F a a', '', 0, 1, 0],
    ['a late question that a release has made void gives no place',
        '--deduct guarded --buyers 3 fair', 'b a^ L a a ^ c', '', 1, 0, 0],
    ['a server that has begun anew lets a late acquire in',
        '--deduct guarded redlock', 'b^ b b b b b b 1! a a a a a a a ^', '', 0, 1, 1],
    ['with less time than a last command needs, nobody waits',
        '--deduct guarded --wait-ms 100 redisson', 'a a b a', '', 0, 1, 1],
    ['one that dies in the queue is spared once, if nobody asked',
        '--deduct guarded --buyers 3 --stock 3 fair', 'a c c+ c! b L b b b', '', 3, 0, 0],
    ['who has overslept was woken in vain',
        '--deduct guarded --buyers 3 --stock 3 --wait-ms 1000 fenced', 'a a c c c c c c+ c ax b b b b b b+ b a c', '', 3, 0, 0],
    ['and stands in the queue for a while',
        '--deduct guarded --buyers 3 --stock 3 --wait-ms 1000 fair', 'c a cw a+ b b b c c b', '', 2, 1, 0],
    ['and keeps others out for as long',
        '--deduct guarded --stock 3 --wait-ms 1000 --programs order-twice,order fair', 'a b aw b+ a a a a a a a+ a a+ a a', '', 2, 1, 1],
    ['who looks too late leaves it all the same',
        '--deduct guarded --stock 3 --wait-ms 1000 --programs order-twice,order fair', 'a a b b b aw b b a a a a', '', 1, 2, 1],
    ['who has left the queue is not overtaken',
        '--deduct guarded --buyers 3 --stock 3 --wait-ms 1000 fair', 'c c~ a a a a a+ a^ a a+ a a c b', '', 2, 1, 0],
    ['nor who has left it late',
        '--deduct guarded --stock 3 --wait-ms 1000 --programs order-twice,order fair', 'a b b b b b+ b b+ b a~ a b^ ^ a', '', 2, 1, 0],
    ['who begins to wait again has not been refused a free lock',
        '--deduct guarded --stock 3 --wait-ms 1000 --programs order-twice,order-twice fair', 'b a L a a', '', 3, 0, 0],
    ['one of two locks is lost, and the other given back',
        '--batched --buyers 1 --stock 3 --segments 2 fenced', 'ai a a a a ai a a L a a a a a a a a', '', 1, 2, 0],
    ['a renewal does not make an acquire void',
        '--deduct guarded --programs order-nested,order fenced', 'a a a a^ aw b b b+ ^', '', 1, 0, 0],
    ['a release that comes behind its late acquire undoes nothing newer',
        '--deduct guarded --programs order-again,order redisson', 'b b b a^ a a~ L a^ a a a ^ ^', '', 0, 1, 1],
    ['nor does an extend behind it',
        '--programs lock-extends,lock redisson', 'a^ a a^ a L ^ ^', '', 1, 0, 0],
    ['a wait that is taken back ends what it gets late',
        '--deduct guarded --buyers 3 --stock 3 --wait-ms 1000 fair', 'b c c c c^ c L c+ c^ ^ ^', '', 3, 0, 0],
    ['a watchdog that comes before the answer to an extend makes the lease a full one',
        '--deduct guarded --programs lock-extends,lock redisson', 'b~ a a+ L a a aw', '', 1, 0, 0],
    ['nor does an extend behind a look at the lock',
        '--deduct guarded --programs lock-extends,lock redisson', 'a a^ a~ ^', '', 1, 0, 0],
    ['a watchdog makes no release late',
        '--deduct guarded --programs order-nested,order fair', 'a L a a^ aw ^', '', 1, 0, 0],
    ['a watchdog that asks why a lease was lost renews none',
        '--deduct guarded --wait-ms 1000 --programs order-nested,order fenced', 'a a L a a b b b b+ aw', '', 1, 0, 0],
    ['a grant that came late counts from its own beginning',
        '--deduct guarded --buyers 3 --wait-ms 1000 --programs order-nested,order fair', 'c~ a^ a c c c ^ b b+ a a a', '', 0, 1, 0],
    ['and so it does where waiters are known',
        '--deduct guarded --buyers 3 --wait-ms 1000 --programs order-nested,order fenced', 'c c c a a a a a^ a c~ ^ b b b+ a a', '', 0, 1, 0],
    ['a command of another lock makes none late',
        '--batched --buyers 1 --segments 2 --stock 3 fenced', 'ai a a a a a a a^ ai a a ^', '', 2, 1, 0],
    ['nor does a command of another server',
        '--deduct guarded --programs lock-extends,lock multi', 'a a a a^ ^', '', 1, 0, 0],
    ['nor one that may not have come',
        '--deduct guarded --programs lock-extends,lock redlock', 'a a~ a a a^ ^', '', 1, 0, 0],
    ['somebody who could not say that it waits no longer is woken in vain',
        '--deduct guarded --buyers 3 --wait-ms 1000 --programs order-nested,order fair', 'b a bw a+ c c c b b c', '', 0, 1, 0],
    ['a queue is lost with the data of its server',
        '--deduct guarded fair', 'b^ b a F ^', '', 1, 0, 0],
    ['who stands behind another one in a queue has waited for somebody',
        '--deduct guarded --wait-ms 1000 --stock 3 --programs order-twice,order fair', 'a a b b b a a a a a a+ a a+ a a b b b', '', 1, 2, 1],
    ['an order of an instance that does other things may wait in vain',
        '--batched --wait-ms 1000 fenced', 'bi bi ai a a a a a a a a+ a+ ai a a a a a a a ai b b b b bi b', '', 0, 1, 1],
    ['an inner release that is asked for again leaves the outer hold',
        '--deduct guarded --programs order-nested,order fenced', 'a a a a a aw a~ a a', '', 0, 1, 0],
    ['no time ends in the millisecond in which a lease does',
        '--deduct guarded --buyers 1 --pay-within 10 redisson', 'a a H a', '', 0, 1, 1],
    [q{units of another product are no reason to sell one of this},
        '--deduct guarded --products 2 --programs order-cancel,order none', 'a b a', '', 2, 0, 1],
);

sub told {
    my ($where, $schedule) = @_;
    my $run = Stockade::run(['replay', '--json', split(/ /, $where), $schedule]);
    return eval { JSON::PP::decode_json($run->{out}) } // { faults => [], lock => $run->{err} };
}

for my $story (@stories) {
    my ($what, $where, $schedule, $faults, @end) = @$story;
    my $told = told($where, $schedule);
    is_deeply ["@{ $told->{faults} }", @{$told}{qw(stock orders)}, $told->{over} ? 1 : 0, $told->{schedule}], [$faults, @end, $schedule], $what or diag explain $told;
}

# What a run has come to, what is remarked only, and at which move.
my @judged = (
    ['--buyers 3 --stock 3 token-lua', 'a a L b b a a a c b b b c c c c c c', 'ledger 11, two-inside-late 4'],
    ['--stock 2 token', 'a a L b b a a a b b b b', 'ledger 10, two-inside-late 4'],
    ['--buyers 4 --stock 3 token-lua', 'a a L b b a a a c b b b c+ c c c c c d d d d d', 'ledger 11, oversold 22, two-inside-late 4'],
    ['fenced', 'a a a a L b b b b a a b b', 'two-inside-late 7'],
    ['redisson', 'a F b', 'two-inside-lost 3'],
    ['--buyers 3 set-nx-px', 'a a a a L b a c', 'foreign-release 7, two-inside 8'],
    ['--buyers 1 token-lua', 'a a a a!', 'ledger 4'],
);
for my $one (@judged) {
    my ($where, $schedule, $broke) = @$one;
    my $told = told($where, $schedule);
    my %at   = %{ $told->{broke_at} };
    is join(', ', map({ "$_ $at{$_}" } sort keys %at), $told->{schedule}), "$broke, $schedule", "$where: '$schedule'";
    is_deeply [sort @{ $told->{faults} }], [grep { !/-l(?:ate|ost)$/ } sort keys %at], 'what is wrong';
    is_deeply $told->{remarks}, [grep { /-l(?:ate|ost)$/ } sort keys %at], 'and what is remarked only';
}

# A release gets no answer for ten seconds, which b's watchdog passes: nobody knows what the
# server believes of that session, and the lock is taken by another one.
my $instances = '--batched --products 2 --stock 3 --programs instance,instance:product=2 fenced';
my $taken     = 'bi b b ai a a';
my $unheard   = 'a~ a~ a~ bw a';
my @owners    = map { told($instances, $_)->{redis} =~ /^lock:\{1:0\}\t\S+\t\d+\t(a\S*)=/ }
    $taken, "$taken a a a a $unheard bw bw bw a+ $unheard ai a a";
ok @owners == 2 && $owners[0] ne $owners[1], 'a session whose release got no answer takes no more locks' or diag "@owners";
done_testing;
