# One measurement: fresh servers, wrk, the end of the servers, the audit. A cell
# is a hash that says what to measure; measuring adds what was found.
#
#   who          nginx or a kind of Bench::Rig
#   load         same, spread or keys: see bench.lua
#   connections
#   products     on sale; 0 = they are in the database that is copied
#   sold_out     true: nothing is left of the only product
#   rows, db     orders that are there before, and the database that has them
#   segments     that the stock is split over; default 1
#   flags        further flags for our servers
#   choice, env  what is overruled, and how overrule.c is told
#   instances    servers of ours on one database; default 1
#   rate         orders a second, due at fixed times whatever the server does
#                (open_load); default: as fast as answers come (wrk)
#
# Found: per_s (orders accepted in a second; refusals where all is sold out,
# answers of nginx), p50_ms ... p999_ms of all answers, refused, cpu {wrk,
# server, redis, others, all} in cores, batch (orders of a lane that shared a transaction, on
# average), batch_sizes (how many batches of up to 1, 2, 4 ... there were), locks (how often
# one was asked for), ledger, and wrong: why the measurement does not count. A fast wrong answer is wrong.
package Bench::Cell;

use strict;
use warnings;

use JSON::PP ();
use Time::HiRes qw(time);

use Bench::Rig;
use Stockade;

my $JSON = JSON::PP->new->utf8;

# With few orders for many connections each is idle for long; without this the
# server would end it.
my @PATIENT = ('--request-deadline-ms', 120_000);

sub measure {
    my ($rig, $seconds, $cell) = @_;
    my %found = eval { $cell->{who} eq 'nginx' ? of_nginx($rig, $seconds, $cell) : of_ours($rig, $seconds, $cell) };
    %found = (wrong => ["it failed: $@"]) if $@;
    $rig->clear;
    chomp @{ $found{wrong} };
    delete $found{wrong} if !@{ $found{wrong} };
    my %result = (%$cell, %found);
    delete $result{db};
    return \%result;
}

sub of_nginx {
    my ($rig, $seconds, $cell) = @_;
    my $nginx = $rig->nginx;
    my %found = under_load($rig, $seconds, $cell, { server => [$nginx->{pid}] }, [$nginx]);
    $found{per_s} = $found{requests} / $found{seconds};
    $found{wrong} = [$found{refused} || $found{broken} ? 'nginx did not answer all' : ()];
    return %found;
}

sub of_ours {
    my ($rig, $seconds, $cell) = @_;
    my $redis   = $rig->redis;
    my $n       = $cell->{instances} || 1;
    my $dir     = $n > 1 ? $rig->folder : undef;
    my @servers = map {
        $rig->stockade(
            $cell->{who},
            redis    => $redis,
            db       => $cell->{db},
            dir      => $dir,
            shared   => $n > 1,
            products => $_ > 1 ? 0 : $cell->{products},
            sold_out => $cell->{sold_out},
            segments => $cell->{segments},
            flags    => [@{ $cell->{flags} || [] }, $cell->{rate} ? @PATIENT : ()],
            env      => $cell->{env},
        )
    } 1 .. $n;
    my %pids  = (server => [map { $_->{pid} } @servers], redis => [$redis->pid]);
    my %found = under_load($rig, $seconds, $cell, \%pids, \@servers);
    @found{qw(batch batch_sizes locks)} = from_metrics(@servers);
    $found{per_s} = ($cell->{sold_out} ? $found{refused} : $found{requests} - $found{refused}) / $found{seconds};
    $found{wrong} = [false_refusals(@servers), $cell->{sold_out} ? other_refusals($found{refused}, @servers) : (), stop_all(@servers)];
    judge($cell, \%found, $servers[0]) if $cell->{who} ne 'null';
    return %found;
}

# ---- the load ---------------------------------------------------------------

# One wrk for each server, at the same time; what they found together. The
# percentiles are the worst of them.
sub under_load {
    my ($rig, $seconds, $cell, $pids, $servers) = @_;
    my %before = cpu_of($pids);
    my @runs = map { start_load($rig, $seconds, $cell, $_, scalar @$servers) } @$servers;
    my @told = map { end_load($seconds, $_) } @runs;
    my %used = since(\%before, { cpu_of($pids) });
    my %sum = (shares => [map { $_->{requests} - $_->{refused} } @told]);
    for my $one (@told) {
        $sum{$_} += $one->{$_} for qw(requests refused broken cpu_s);
        $sum{$_} = max($sum{$_}, $one->{$_}) for 'seconds', grep { /_ms$/ } keys %$one;
    }
    delete $sum{shares} if @told == 1;
    $sum{cpu} = cores(\%used, delete $sum{cpu_s}, $sum{seconds});
    return %sum;
}

# N: over how many servers the connections are spread.
sub start_load {
    my ($rig, $seconds, $cell, $server, $n) = @_;
    my $folder      = $rig->folder;
    my $connections = int($cell->{connections} / $n);
    my @command     = $cell->{rate}
        ? ("$rig->{build}/open_load", $server->{port}, $cell->{rate}, $seconds, $connections)
        : ('wrk', '-t', 1, '-c', $connections, '-d', "${seconds}s", '--timeout', '10s',
        '-s', "$Stockade::ROOT/loadtest/bench.lua", "http://127.0.0.1:$server->{port}/");
    my %env = (
        BENCH_LOAD        => $cell->{load},
        BENCH_PRODUCTS    => $cell->{products} || 1,
        BENCH_CONNECTIONS => $connections,
        BENCH_OUT         => "$folder/result.json",
    );
    my $child = Stockade::Child->spawn(
        command => \@command,
        env     => \%env,
        stdout  => $cell->{rate} ? "$folder/result.json" : "$folder/out",
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

# wrk says of how many answers its percentiles are: of none, if not even one
# came on each connection.
sub check_samples {
    my ($told, $connections) = @_;
    die "no percentiles of $told->{requests} answers on $connections connections\n" if !$told->{samples};
    die "wrk's percentiles are of $told->{samples} samples, not of $told->{requests}\n"
        if abs($told->{samples} - $told->{requests}) > $told->{broken};
    return;
}

sub max {
    my ($a, $b) = @_;
    return !defined $a || $b > $a ? $b : $a;
}

# ---- CPU ----------------------------------------------------------------------

# Seconds of CPU so far; `children` are those of ours that have ended, which is
# the load generators; `all` is what was done on this machine, by whomever.
sub cpu_of {
    my ($pids) = @_;
    my %cpu = (now => time, children => children_cpu_s(), all => machine_cpu_s());
    for my $who (keys %$pids) {
        $cpu{$who} += Bench::Rig::cpu_s($_) for @{ $pids->{$who} };
    }
    return %cpu;
}

sub since { my ($before, $after) = @_; return map { $_ => $after->{$_} - $before->{$_} } keys %$after }

sub children_cpu_s {
    my (undef, undef, $user, $system) = times;
    return $user + $system;
}

sub machine_cpu_s {
    my ($user, $nice, $system, undef, undef, $irq, $softirq) = Stockade::slurp('/proc/stat') =~ /^cpu +(.*)/ ? split / /, $1 : ();
    return ($user + $nice + $system + $irq + $softirq) / 100;
}

# Servers work while they are asked. A load generator works on its result when
# that is over: so it says itself what the asking took, and what the others used
# is reckoned over the whole time.
sub cores {
    my ($used, $asking_s, $seconds) = @_;
    my %cores = map { $_ => $used->{$_} / $seconds } grep { defined $used->{$_} } qw(server redis);
    my $ours  = $used->{children};
    $ours += $used->{$_} || 0 for qw(server redis);
    $cores{wrk}    = $asking_s / $seconds;
    $cores{all}    = $used->{all} / $used->{now};
    $cores{others} = max(0, ($used->{all} - $ours) / $used->{now});
    return \%cores;
}

# Of all servers together: the mean of the batches' sizes, how many there were of
# each size, and how many locks.
sub from_metrics {
    my %sum = map { $_ => 0 } qw(batch_orders_sum batch_orders_count lock_wait_seconds_count);
    my %upto;
    for my $server (@_) {
        my $metrics = $server->{stockade}->get('/metrics')->{raw};
        $sum{$1} += $2 while $metrics =~ /^stockade_(\w+) (\S+)$/mg;
        $upto{$1} += $2 while $metrics =~ /^stockade_batch_orders_bucket\{le="(\d+)"\} (\d+)$/mg;
    }
    my $batches = $sum{batch_orders_count};
    return ($batches ? $sum{batch_orders_sum} / $batches : 0, sizes(%upto), $sum{lock_wait_seconds_count});
}

# /metrics counts those of up to so many orders, we those that are not in the
# bucket below.
sub sizes {
    my (%upto) = @_;
    my (%sizes, $below);
    for my $size (sort { $a <=> $b } keys %upto) {
        my $n = $upto{$size} - ($below || 0);
        $sizes{$size} = $n if $n > 0;
        $below = $upto{$size};
    }
    return \%sizes;
}

# ---- the verdict ------------------------------------------------------------

# The servers look themselves.
sub false_refusals {
    my $n = 0;
    $n += $_->{stockade}->metric('stockade_false_sold_out_total') || 0 for @_;
    return $n ? "$n orders were refused as sold out of what was there" : ();
}

# To wrk every error is a refusal; the servers know which of them meant "sold out".
sub other_refusals {
    my ($refused, @servers) = @_;
    my $sold_out = 0;
    $sold_out += $_->{stockade}->metric('stockade_orders_total', outcome => 'sold-out') || 0 for @servers;
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

# Of ten million orders it takes its time.
sub audit {
    my ($db) = @_;
    my $ran = Stockade::run(['audit', '--db', "sqlite:$db", '--json'], seconds => 900);
    die "the audit cannot tell ($ran->{exit}): $ran->{err}\n" if $ran->{exit} !~ /^[01]$/;
    return $JSON->decode($ran->{out});
}

# What wrk was told and what the ledger says. wrk stops in the middle: what was
# in flight then may have been sold without wrk hearing of it.
sub judge {
    my ($cell, $found, $server) = @_;
    my $ledger   = audit($server->{stockade}->db);
    my $accepted = $found->{requests} - $found->{refused};
    my $sold     = $ledger->{orders} - ($cell->{rows} || 0) - ($cell->{sold_out} ? 1 : 0);
    my $wrong    = $found->{wrong};
    $found->{ledger} = $ledger;
    push @$wrong, "the ledger is not balanced: oversold by $ledger->{oversold}, undersold by $ledger->{undersold}"
        if !$ledger->{balanced};
    push @$wrong, "$accepted orders were acknowledged, $sold are in the ledger" if $sold < $accepted;
    push @$wrong, "$sold orders are in the ledger, but only $accepted were acknowledged"
        if $sold > $accepted + $cell->{connections} + $found->{broken};
    push @$wrong, "$found->{refused} of $found->{requests} were refused, not all" if $cell->{sold_out} && $accepted;
    push @$wrong, 'nothing was answered' if !$found->{requests};
    return;
}

1;
