# Goal of this test: three hosts sell from one Galera cluster, with the locks in a
# Redis that sentinels watch. Whatever happens to one host, or between two of them,
# the others sell on after a few seconds, nothing that was acknowledged is lost,
# nothing is oversold, and in the end all nodes have the same. README.md has the
# setup; `make test-hosts` runs it.
#
# HOSTS_GAP_S is the longest time without a sale that is let pass; without it any is,
# since a busy machine is slow: that they sell on is what is waited for. HOSTS_ONLY is a
# pattern of the scenarios to play, HOSTS_LOGS a folder for all logs.
use lib qw(tests/e2e tests/hosts);
use Hosts::Apart;
use Hosts::Buyers;
use Hosts::Host;
use JSON::PP qw(decode_json);
use Stockade;

my $GAP_S  = $ENV{HOSTS_GAP_S};
my $WAIT_S = 60;
my $ONLY   = $ENV{HOSTS_ONLY}  || '.';
my $STOCK  = 1_000_000;
my $SCARCE = 100;
my $ROW    = '%-30s %6s %6s %7s %7s %7s %7s';
my %acked;    # id by key
my $scenario = 0;

mkdir $ENV{HOSTS_LOGS} if $ENV{HOSTS_LOGS};
note 'three hosts are started';
my @hosts = Hosts::Host->cluster(3);
diag sprintf $ROW, 'scenario', 'gap s', 'after', qw(acked silent refused unknown);

sub primary { return (grep { $_->is_primary } @hosts)[0] }

# The host whose instance has the product's lock.
sub holder {
    my ($product) = @_;
    my @lock;
    Stockade::eventually(20, sub { @lock = @{ primary()->redis('HKEYS', "lock:{$product:0}") } }) or die "nobody has the lock\n";
    return (grep { my $id = $_->instance; grep { /^$id/ } @lock } @hosts)[0];
}

sub admin {
    my ($method, $path, $body) = @_;
    return Stockade::request($hosts[0], $method, $path, $body, { Authorization => "Bearer $Hosts::Host::TOKEN" });
}

# ---- a scenario ------------------------------------------------------------------

# fault, heal   what happens, to the victim
# victim        which host, given the product; default: the one that has the primary
# seconds       from the fault to the end of it, at least
# meanwhile     what is to be looked at before it ends
# all           true: the victim has to go on selling, too
# majority      who has to, if not all but the victim
sub play {
    my ($name, %with) = @_;
    return if $name !~ /$ONLY/;
    $scenario++;
    my ($product, $scarce) = ($scenario, 100 + $scenario);
    for ([$product, $STOCK], [$scarce, $SCARCE]) {
        admin('PUT', "/api/products/$_->[0]", { name => $name, stock => $_->[1], price_cents => 100 })->{status} == 201 or die;
    }
    my $buyers = Hosts::Buyers->start(hosts => \@hosts, product => $product, scarce => $scarce, name => "s$scenario");
    ok $buyers->await($_, 20), "$name: " . $_->name . ' sells' for @hosts;
    my $victim   = $with{victim} ? $with{victim}->($product) : primary();
    my @majority = $with{majority} ? @{ $with{majority} } : grep { $with{all} || $_ != $victim } @hosts;
    note "$name: " . $victim->name;
    my $began = Hosts::Buyers::now();
    $with{fault}->($victim);
    select undef, undef, undef, $with{seconds};
    ok $buyers->await($_, $WAIT_S), "$name: " . $_->name . ' sells on' for @majority;
    $with{meanwhile}->($victim) if $with{meanwhile};
    my $healed = Hosts::Buyers::now();
    $with{heal}->($victim);
    ok Stockade::eventually($WAIT_S, sub { Hosts::Host::is_whole(@hosts) }), "$name: all is whole again";
    ok $buyers->await($_, $WAIT_S), "$name: " . $_->name . ' sells again' for @hosts;
    my $ended = Hosts::Buyers::now();
    my $told  = $buyers->finish;
    my @gaps  = ($told->gap($began, $healed, @majority), $told->gap($healed, $ended, @hosts));
    if ($GAP_S) {
        cmp_ok $gaps[0], '<', $GAP_S, sprintf '%s: the majority stood still for %.2f s', $name, $gaps[0];
        cmp_ok $gaps[1], '<', $GAP_S, sprintf '%s: %.2f s after it', $name, $gaps[1];
    }
    diag sprintf $ROW, $name, map({ sprintf '%.2f', $_ } @gaps), map({ $told->count($_) } qr/^201/, qr/^[a-z]/, qr/^5/),
        scalar(my @unknown = $told->unknown);
    note $told->summary;
    $told->keep("$ENV{HOSTS_LOGS}/$scenario") if $ENV{HOSTS_LOGS};
    judge($name, $told);
    return;
}

# Nobody was told of two orders under one key, and everybody has an answer.
sub judge {
    my ($name, $told) = @_;
    my %ids;
    my @twice = grep { ($ids{ $_->[2] } //= $_->[4]) ne $_->[4] } $told->acked;
    is scalar @twice, 0, "$name: one key, one order";
    is_deeply [$told->unknown], [], "$name: everybody has an answer in the end";
    %acked = (%acked, %ids);
    return;
}

# ---- the verdict -----------------------------------------------------------------

# By each node, which have to agree.
sub verdict {
    my $dir = Stockade::tempdir();
    my $acked = Stockade::write_file("$dir/acked", join '', map { "$_\n" } values %acked);
    is $_->stop_instance, 0, $_->name . ': the instance ends' for @hosts;
    my %rows;
    for my $host (@hosts) {
        my $name = $host->name;
        my $ran  = Stockade::run(['audit', '--db', $host->db_url, '--json', '--acked', $acked], seconds => 60);
        my $said = eval { decode_json($ran->{out}) } || {};
        is $ran->{exit}, 0, "$name: the ledger balances" or diag $ran->{out}, $ran->{err};
        is $said->{$_}, 0, "$name: $_" for qw(lost oversold undersold negative duplicates);
        is $said->{sold}, $said->{orders}, "$name: as many units as orders";
        $rows{$name} = $host->checksums;
    }
    is $rows{ $_->name }, $rows{ $hosts[0]->name }, $_->name . ' has the same rows' for @hosts[1, 2];
    return;
}

# ---- what happens ------------------------------------------------------------------

# An instance whose node is not synced says so, to customers and to the balancer.
sub refuses {
    my ($host) = @_;
    my $local  = 'http://127.0.0.1:8080';
    my $order  = $host->ask_inside('-H', 'Content-Type: application/json', '-d', '{"product_id":1,"user_id":9,"quantity":1}', "$local/api/orders");
    like $order, qr{^HTTP/1.1 503 .*^Retry-After: *[1-9].*store-unavailable}msi, 'cut off: 503, and when to come again';
    like $host->ask_inside("$local/readyz"), qr{^HTTP/1.1 503 }, 'cut off: it is not ready';
    return;
}

play 'a host loses its power', seconds => 5,  fault => sub { $_[0]->power_off }, heal => sub { $_[0]->boot; $_[0]->up };
play 'a host is cut off',      seconds => 20, fault => sub { $_[0]->unplug }, heal => sub { $_[0]->plug_in }, meanwhile => \&refuses;
play 'a host hears nobody',    seconds => 6,  fault => sub { $_[0]->deafen }, heal => sub { $_[0]->listen };
play 'a host is frozen',       seconds => 6,  fault => sub { $_[0]->freeze }, heal => sub { $_[0]->thaw };
play 'the node of a holder is frozen', seconds => 6, victim => \&holder,
    fault => sub { $_[0]->freeze_node }, heal => sub { $_[0]->thaw_node };
play 'one does not hear the primary', seconds => 8,
    victim => sub { (grep { !$_->is_primary } @hosts)[0] },
    fault  => sub { $_[0]->deafen(primary()) },
    heal   => sub { $_[0]->listen };
play 'Redis dies', seconds => 3, all => 1, fault => sub { $_[0]->kill_redis }, heal => sub { $_[0]->start_redis };

# All at once, and each boots by itself, in another order than before.
play 'all hosts lose their power', seconds => 0, heal => sub { $_->boot for @hosts[2, 0, 1]; $_->up for @hosts },
    fault => sub { Hosts::Host::power_off(@hosts) }, majority => [];

# The locks are for order and speed only: without them, all nodes write the same rows.
is $_->restart_instance('--lock', 'none'), 0, 'it ends, and sells without locks' for @hosts;
play 'no locks, a host is frozen', seconds => 6, fault => sub { $_[0]->freeze }, heal => sub { $_[0]->thaw };

verdict();
$_->keep_logs($ENV{HOSTS_LOGS}) for $ENV{HOSTS_LOGS} ? @hosts : ();
done_testing;
