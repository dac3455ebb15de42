# One measurement: fresh servers, wrk, the end of the servers, the audit. A case
# is a hash that says what to measure; measuring adds what was found.
#
#   who          nginx, lua-on-redis, a kind of Bench::Rig, or before
#   load         same, spread or keys: see bench.lua
#   connections
#   idle         connections besides that were used once and stay open
#   viewers      who watch the page meanwhile
#   products     on sale; 0 = they are in the database that is copied
#   sold_out     true: nothing is left of the only product
#   rows, db     orders that are there before, and the database that has them
#   segments     that the stock is split over; default 1
#   flags        further flags for our servers
#   instances    servers of ours on one database; default 1
#   apart        spread: each instance is sent products of its own
#   nodes        of MariaDB, for the instances; default: the database is a file
#   urls, pids   theirs: one for each instance, and their process ids
#   rate         orders a second, due at fixed times whatever the server does
#                (open_load); default: as fast as answers come (wrk)
#
# Found: per_s (orders accepted in a second; refusals where all is sold out,
# answers of nginx), p50_ms ... p999_ms of all answers, refused, cpu {wrk,
# server, redis, database, others, all} in cores, batch (orders of a lock that shared a
# transaction, on average), locks (how often one was asked for), commits (transactions
# with orders, which took commit_ms on average), retries (transactions run once more),
# ledger, and wrong: why the measurement does not count. A fast wrong answer is wrong.
package Bench::Case;

use strict;
use warnings;

use IO::Socket::INET ();
use JSON::PP ();
use List::Util qw(max sum);
use Time::HiRes qw(time);

use Bench::Rig;
use Stockade;

my $JSON = JSON::PP->new->utf8;

# For connections that are idle for long: the server would close them otherwise.
my @PATIENT = ('--request-deadline-ms', 120_000);

my %OTHERS = (nginx => \&of_nginx, 'lua-on-redis' => \&of_lua_on_redis);

sub measure {
    my ($rig, $seconds, $case) = @_;
    my $of = $OTHERS{ $case->{who} } || \&of_ours;
    my %found = eval { $of->($rig, $seconds, $case) };
    %found = (wrong => ["it failed: $@"]) if $@;
    $rig->clear;
    chomp @{ $found{wrong} };
    delete $found{wrong} if !@{ $found{wrong} };
    my %result = (%$case, %found);
    delete @result{qw(db urls pids)};
    return \%result;
}

sub of_nginx {
    my ($rig, $seconds, $case) = @_;
    my $nginx = $rig->nginx;
    my %found = under_load($rig, $seconds, $case, { server => [$nginx->{pid}] }, [$nginx]);
    $found{per_s} = $found{requests} / $found{seconds};
    $found{wrong} = [$found{refused} || $found{broken} ? 'nginx did not answer all' : ()];
    return %found;
}

sub of_lua_on_redis {
    my ($rig, $seconds, $case) = @_;
    my $redis = $rig->redis;
    my $nginx = $rig->lua_on_redis($redis);
    my %found = under_load($rig, $seconds, $case, { server => [$nginx->{pid}], redis => [$redis->pid] }, [$nginx]);
    my $accepted = $found{requests} - $found{refused};
    $found{per_s} = $accepted / $found{seconds};
    $found{wrong} = [Bench::Rig::lua_on_redis_wrong($redis, $accepted)];
    return %found;
}

sub of_ours {
    my ($rig, $seconds, $case) = @_;
    my $redis   = $rig->redis;
    my $n       = $case->{instances} || 1;
    my $dir     = $n > 1 ? $rig->folder : undef;
    my @servers = map {
        $rig->stockade(
            $case->{who},
            redis    => $redis,
            db       => $case->{db},
            dir      => $dir,
            url      => $case->{urls} ? $case->{urls}[$_ - 1] : undef,
            shared   => $n > 1 || ($case->{nodes} || 0) > 1,
            products => $_ > 1 ? 0 : $case->{products},
            sold_out => $case->{sold_out},
            segments => $case->{segments},
            flags    => [@{ $case->{flags} || [] }, $case->{rate} || $case->{idle} ? @PATIENT : ()],
        )
    } 1 .. $n;
    my %pids  = (server => [map { $_->{pid} } @servers], redis => [$redis->pid], database => $case->{pids} || []);
    my %found = under_load($rig, $seconds, $case, \%pids, \@servers);
    %found = (%found, from_metrics(@servers));
    $found{per_s} = ($case->{sold_out} ? $found{refused} : $found{requests} - $found{refused}) / $found{seconds};
    $found{wrong} = [false_refusals(@servers), $case->{sold_out} ? other_refusals($found{refused}, @servers) : (), stop_all(@servers)];
    judge($case, \%found, $servers[0]) if $case->{who} ne 'null';
    return %found;
}

# ---- the load ---------------------------------------------------------------

# One wrk for each server, at the same time; what they found together. The
# percentiles are the worst of them.
sub under_load {
    my ($rig, $seconds, $case, $pids, $servers) = @_;
    my @idle = map { idle_connections($_, $case->{idle}) } @$servers;
    $rig->viewers($servers->[0]{port}, $case->{viewers}) if $case->{viewers};
    my %before = cpu_of($pids);
    my @runs = map { start_load($rig, $seconds, $case, $_, @$servers) } 0 .. $#$servers;
    my @told = map { end_load($seconds, $_) } @runs;
    my %used = since(\%before, { cpu_of($pids) });
    my %sum = (shares => [map { $_->{requests} - $_->{refused} } @told]);
    for my $one (@told) {
        $sum{$_} += $one->{$_} for qw(requests refused broken cpu_s);
        $sum{$_} = max($sum{$_} // 0, $one->{$_}) for 'seconds', grep { /_ms$/ } keys %$one;
    }
    delete $sum{shares} if @told == 1;
    $sum{cpu} = cores(\%used, delete $sum{cpu_s}, $sum{seconds});
    return %sum;
}

# N connections, each of which has had an answer.
sub idle_connections {
    my ($server, $n) = @_;
    return map {
        my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $server->{port}) or die "connect: $!";
        syswrite $socket, "GET /livez HTTP/1.1\r\nHost: 127.0.0.1:$server->{port}\r\n\r\n";
        sysread($socket, my $answer, 65536) or die "an idle connection had no answer\n";
        $socket
    } 1 .. $n || 0;
}

# Of the server with that number; the connections are spread over all.
sub start_load {
    my ($rig, $seconds, $case, $i, @servers) = @_;
    my ($server, $n) = ($servers[$i], scalar @servers);
    my $folder      = $rig->folder;
    my $connections = int($case->{connections} / $n);
    my @command     = $case->{rate}
        ? ("$rig->{build}/open_load", $server->{port}, $case->{rate}, $seconds, $connections)
        : ('wrk', '-t', 1, '-c', $connections, '-d', "${seconds}s", '--timeout', '10s',
        '-s', "$Stockade::ROOT/loadtest/bench.lua", "http://127.0.0.1:$server->{port}/");
    my %env = (
        BENCH_LOAD        => $case->{load},
        BENCH_PRODUCTS    => $case->{products} || 1,
        BENCH_CONNECTIONS => $connections,
        $case->{apart} ? (BENCH_PART => $i + 1, BENCH_PARTS => $n) : (),
        BENCH_OUT         => "$folder/result.json",
    );
    my $child = Stockade::Child->spawn(
        command => \@command,
        env     => \%env,
        stdout  => $case->{rate} ? "$folder/result.json" : "$folder/out",
        stderr  => "$folder/err",
    );
    return { folder => $folder, child => $child, connections => $connections };
}

# requests, refused, broken, seconds, p50_ms and so on.
sub end_load {
    my ($seconds, $run) = @_;
    my $exit = $run->{child}->wait($seconds + 60);
    my $text = Stockade::slurp("$run->{folder}/result.json");
    die 'the load failed: ', map { Stockade::slurp("$run->{folder}/$_") } qw(err out)
        if !defined $exit || $exit != 0 || !$text;
    my $told = $JSON->decode($text);
    check_samples($told, $run->{connections}) if exists $told->{samples};
    return $told;
}

# wrk says of how many answers its percentiles are: of none, if some connection
# had no answer.
sub check_samples {
    my ($told, $connections) = @_;
    die "no percentiles of $told->{requests} answers on $connections connections\n" if !$told->{samples};
    die "wrk's percentiles are of $told->{samples} samples, not of $told->{requests}\n"
        if abs($told->{samples} - $told->{requests}) > $told->{broken};
    return;
}

# ---- CPU ----------------------------------------------------------------------

# Seconds of CPU so far; `children`: of load generators that have ended; `all`: of
# every process on this machine.
sub cpu_of {
    my ($pids) = @_;
    my (undef, undef, $user, $system) = times;
    my %cpu = (now => time, children => $user + $system, all => machine_cpu_s());
    for my $who (keys %$pids) {
        $cpu{$who} += Bench::Rig::cpu_s($_) for @{ $pids->{$who} };
    }
    return %cpu;
}

sub since { my ($before, $after) = @_; return map { $_ => $after->{$_} - $before->{$_} } keys %$after }

sub machine_cpu_s {
    my ($user, $nice, $system, undef, undef, $irq, $softirq) = Stockade::slurp('/proc/stat') =~ /^cpu +(.*)/ ? split / /, $1 : ();
    return ($user + $nice + $system + $irq + $softirq) / 100;
}

# Servers work during the load. A load generator also works after it, on its
# result: so it says itself how much CPU the load took, and other processes' use
# is taken over the whole time.
sub cores {
    my ($used, $asking_s, $seconds) = @_;
    my %cores = map { $_ => $used->{$_} / $seconds } grep { defined $used->{$_} } qw(server redis database);
    my $ours  = $used->{children};
    $ours += $used->{$_} || 0 for qw(server redis database);
    $cores{wrk}    = $asking_s / $seconds;
    $cores{all}    = $used->{all} / $used->{now};
    $cores{others} = max(0, ($used->{all} - $ours) / $used->{now});
    return \%cores;
}

# Of all servers together.
sub from_metrics {
    my %sum = map { $_ => 0 } qw(batch_orders_sum batch_orders_count lock_wait_seconds_count store_write_seconds_sum
        store_write_seconds_count store_retries_total);
    for my $server (@_) {
        my $metrics = $server->{stockade}->get('/metrics')->{raw};
        $sum{$1} += $2 while $metrics =~ /^stockade_(\w+) (\S+)$/mg;
    }
    my ($batches, $commits) = @sum{qw(batch_orders_count store_write_seconds_count)};
    return (
        batch     => $batches ? $sum{batch_orders_sum} / $batches : 0,
        locks     => $sum{lock_wait_seconds_count},
        commits   => $commits,
        commit_ms => $commits ? 1e3 * $sum{store_write_seconds_sum} / $commits : 0,
        retries   => $sum{store_retries_total},
    );
}

# ---- the verdict ------------------------------------------------------------

# The servers check their own refusals.
sub false_refusals {
    my $n = sum(map { $_->{stockade}->metric('stockade_false_sold_out_total') || 0 } @_);
    return $n ? "$n orders were refused as sold out of what was there" : ();
}

# To wrk every error is a refusal; the servers know which of them meant "sold out".
sub other_refusals {
    my ($refused, @servers) = @_;
    my $sold_out = sum(map { $_->{stockade}->metric('stockade_orders_total', outcome => 'sold-out') || 0 } @servers);
    return $sold_out < $refused ? "$refused were refused, but only $sold_out as sold out" : ();
}

sub stop_all {
    my @wrong;
    for my $server (map { $_->{stockade} } @_) {
        my $exit = $server->stop(30);
        push @wrong, 'the server ' . (defined $exit ? "ended with exit code $exit" : 'did not end') if !defined $exit || $exit;
    }
    return @wrong;
}

# What wrk was told against what the ledger says. wrk stops in the middle: orders
# in flight then may have been sold, and wrk does not count them. The audit of ten
# million orders takes minutes.
sub judge {
    my ($case, $found, $server) = @_;
    my ($ledger, $exit) = $server->{stockade}->audit(seconds => 900);
    die "the audit cannot tell ($exit): ", $ledger->{error} || '', "\n" if $exit !~ /^[01]$/;
    my $accepted = $found->{requests} - $found->{refused};
    my $sold     = $ledger->{orders} - ($case->{rows} || 0) - ($case->{sold_out} ? 1 : 0);
    my $wrong    = $found->{wrong};
    $found->{ledger} = $ledger;
    push @$wrong, "the ledger is not balanced: oversold by $ledger->{oversold}, undersold by $ledger->{undersold}"
        if !$ledger->{balanced};
    push @$wrong, "$accepted orders were acknowledged, $sold are in the ledger" if $sold < $accepted;
    push @$wrong, "$sold orders are in the ledger, but only $accepted were acknowledged"
        if $sold > $accepted + $case->{connections} + $found->{broken};
    push @$wrong, "$found->{refused} of $found->{requests} were refused, not all" if $case->{sold_out} && $accepted;
    push @$wrong, 'nothing was answered' if !$found->{requests};
    return;
}

1;
