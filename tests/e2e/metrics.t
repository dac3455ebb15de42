# Goal of this test: /metrics is Prometheus text that a scraper accepts, and its
# numbers are right.
use IO::Socket::INET ();
use lib 'tests/e2e';
use Stockade;

my $redis  = Stockade::Redis->start;
my $server = Stockade->start(redis => $redis, args => ['--lock', 'fenced', '--lock-wait-ms', '4000']);
$server->product($_, 3) for 40, 41;
$server->product(43, 3, pay_within_s => 3600);

my $placed = $server->order(40, 1, 1, 'm-1');
$server->order(40, 1, 1, 'm-1');
$server->order(40, 2, 2);
$server->order(40, 3) for 1 .. 4;
$server->order(43, 1, 2);
$server->order(4_000_000);

# As in `top -H`; only the main thread has the program's name.
my %threads;
$threads{ Stockade::slurp($_) =~ s/-?\d*\n\z//r }++ for glob '/proc/' . $server->pid . '/task/*/comm';
my @names = qw(committer dlock-async dlock-watchdog health http reader worker);
is_deeply [grep { $_ ne 'stockade' } sort keys %threads], \@names, 'threads have names';
# ThreadSanitizer has a thread of its own.
is $threads{stockade}, 1, 'each of them' if !$ENV{SAN};

# NaN is "nobody knows".
sub gauge { return $server->metric("stockade_$_[0]") }
sub becomes {
    my ($name, $value) = @_;
    # Each scrape shows what a look at the one before has found, a second apart.
    return ok Stockade::eventually(20, sub { gauge($name) eq $value }), "$name becomes $value";
}
becomes(ready => 1);
$redis->kill9;
$server->order(41, 4);

my $reply = $server->get('/metrics');
is $reply->{status}, 200, '/metrics';
like $reply->{headers}{'content-type'}, qr{^text/plain; version=0\.0\.4}, 'its content type';
like $reply->{raw}, qr/\n\z/, 'ends with a newline';

my $name   = qr/[a-zA-Z_:][a-zA-Z0-9_:]*/;
my $label  = qr/[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"/;
my $number = qr/[-+]?(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?|Inf|NaN)/i;
my (%type, %seen, $help, @odd);
for my $line (split /\n/, $reply->{raw}) {
    if ($line =~ /^# TYPE ($name) (counter|gauge|histogram)$/) {
        push @odd, "twice, or not explained: $line" if $type{$1} || $help ne $1;
        $type{$1} = $2;
    }
    elsif ($line =~ /^# HELP ($name) \S/) { $help = $1 }
    elsif ($line =~ /^($name)((?:\{$label(?:,$label)*\})?) $number$/) {
        my ($sample, $labels) = ($1, $2);
        push @odd, "twice: $line" if $seen{"$sample$labels"}++;
        (my $family = $sample) =~ s/_(?:bucket|sum|count)$//;
        push @odd, "no type: $line" if !$type{$sample} && ($type{$family} || '') ne 'histogram';
    }
    else { push @odd, $line }
}
is_deeply \@odd, [], 'a scraper accepts every line';

my %orders = (placed => 3, replayed => 1, 'sold-out' => 4, 'no-such-product' => 1, 'lock-unreachable' => 1);
is $server->metric('stockade_orders_total', outcome => $_), $orders{$_}, "$orders{$_} $_" or diag $reply->{raw}
    for sort keys %orders;
is $server->metric('stockade_orders_total'), 10, '10 orders in all';
is $server->metric('stockade_orders_waiting'), 0, 'none is waiting';
cmp_ok $server->metric('stockade_http_responses_total', class => '2xx'), '>=', 4, 'replies by class';
is $server->metric('stockade_order_seconds_count'),
    $server->metric('stockade_order_seconds_bucket', le => '+Inf'), 'a histogram adds up';
cmp_ok $server->metric('stockade_lock_hold_seconds_count'), '>=', 1, 'locks were held';
cmp_ok $server->metric('stockade_order_seconds_sum'), '>', 0, 'time has passed';
# Of the four refusals the first was the database's.
cmp_ok $server->metric('stockade_sold_out_checks_total'), '>=', 1, 'a refusal from memory was checked in the database';
cmp_ok $server->metric('stockade_sold_out_checks_total'), '<=', 3, 'but not more than there were';
is $server->metric('stockade_false_sold_out_total'), 0, 'none was wrong';

# ---- gauges ------------------------------------------------------------------
becomes(ready => 0); # the lock server is gone
becomes(stock_units => 1100 + 4);
is gauge('held_units'), 2, 'two are not paid yet';
$server->product(42, 5);
becomes(stock_units => 1100 + 9);
is gauge('stranded_units'), 0, 'nothing is stranded';
is gauge('orders_waiting_limit'), 8192, 'so many orders may wait';
is gauge('connections_limit'), 4096, 'so many connections may be open';
my $open   = gauge('connections');
my @others = map { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $server->port) // die $! } 1 .. 3;
becomes(connections => $open + 3);
@others = ();
becomes(connections => $open);
my ($version) = Stockade::run(['--version'])->{out} =~ /^stockade (\S+)/;
is $server->metric('stockade_build_info', version => $version), 1, 'which program it is';
is gauge("audit_$_"), 'NaN', "without an audit $_ is not known" for qw(timestamp_seconds oversold_units balanced);
my $rename = sub { system 'sqlite3', '-cmd', '.timeout 60000', $server->db, "ALTER TABLE $_[0] RENAME TO $_[1]" };
$rename->(qw(restocks elsewhere));
is $server->get('/api/audit')->{status}, 503, 'an audit that cannot read all of it';
$rename->(qw(elsewhere restocks));
is $server->get('/api/audit')->{status}, 200, 'audited';
is gauge('audit_balanced'), 1, 'it balanced';
is gauge('audit_oversold_units'), 0, 'nothing was oversold';
cmp_ok abs(time - gauge('audit_timestamp_seconds')), '<', 60 * $Stockade::SLOW, 'it was a moment ago';
system 'sqlite3', $server->db, 'PRAGMA ignore_check_constraints = ON; UPDATE orders SET quantity = quantity + 5 WHERE number = 1';
$server->get('/api/audit');
is gauge('audit_balanced'), 0, 'a ledger that was tampered with does not balance';
is gauge('audit_oversold_units'), 5, 'and says by how much it was oversold';

# ---- changes -----------------------------------------------------------------
is $server->delete("/api/orders/$placed->{body}{id}")->{status}, 200, 'a cancel';
is gauge('changes_failed_total'), 0, 'that the database does';
my $free = $server->hold_database;
is $server->delete("/api/orders/$placed->{body}{id}")->{status}, 503, 'one that it cannot do';
$free->();
is $server->delete('/api/orders/1-0000000000000000')->{status}, 404, 'one of no order';
is gauge('changes_failed_total'), 1, 'the one is counted';
is $server->stop, 0, 'ends';
done_testing;
