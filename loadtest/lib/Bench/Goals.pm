# The goals, and whether they are reached. Each is a ratio of two measurements of
# the same rounds, since absolute figures depend on the machine and on the hour. If
# one of the measurements was wrong its goal is not reached: that the others are
# good may be luck.
package Bench::Goals;

use strict;
use warnings;

use JSON::PP ();

use Bench::Report;
use Bench::Stats;

# [what, section, how it is measured, 'least' or 'most', bound, case [, other case]]
my @GOALS = (
    nginx_ratio('orders, 16 connections',  connections => 0.25, 16),
    nginx_ratio('orders, 64 connections',  connections => 0.60, 64),
    nginx_ratio('orders, 256 connections', connections => 0.75, 256),
    nginx_ratio('with limit and key, 64 connections',  limits => 0.40, 64),
    nginx_ratio('with limit and key, 256 connections', limits => 0.50, 256),
    (map { to_lua($_) } 16, 64, 256),
    nginx_ratio('refusals, 64 connections',  refusals => 0.9, 64),
    nginx_ratio('refusals, 256 connections', refusals => 0.9, 256),
    ['p99, 64 connections', 'connections', 'p99_ratio', most => 12, { who => 'batched', connections => 64 }],
    against('one-by-one-fenced', 64),
    against('one-by-one-fenced', 256),
    many_orders('10 million', 10_000_000, 'plain', same => 0.8),
    many_orders('1 million',  1_000_000,  'limit and key', keys => 0.9),
    many_orders('10 million', 10_000_000, 'limit and key', keys => 0.8),
    ['1000 products to 1', 'products', 'between', least => 0.8,
        { who => 'batched', products => 1000 }, { who => 'batched', products => 1 }],
    ['with ten viewers to without', 'viewers', 'between', least => 0.97,
        { who => 'with-viewers' }, { who => 'batched' }],
    ['with a timeline to without', 'timeline', 'between', least => 0.97,
        { who => 'with-timeline' }, { who => 'batched' }],
    ['one by one, 10 ms, 10 segments to one', 'segments', 'ratio', least => 8,
        { who => 'one-by-one-fenced', think_ms => 10, segments => 10 }],
    ['MariaDB in batches to one by one', 'mysql', 'between', least => 20,
        { who => 'batched', kind => 'mariadb' }, { who => 'one-by-one-fenced', kind => 'mariadb' }],
    ['the smaller share of two instances', 'instances', 'share_min', least => 1 / 3, { who => 'batched' }],
);

sub nginx_ratio {
    my ($what, $section, $bound, $connections) = @_;
    return ["$what, to nginx", $section, 'ratio', least => $bound, { who => 'batched', connections => $connections }];
}

# Of a shop that keeps nothing on disk.
sub to_lua {
    my ($connections) = @_;
    my %load = (connections => $connections, load => 'keys');
    return ["with limit and key to Lua on Redis, $connections connections", 'limits', 'between', least => 1.5,
        { who => 'batched', %load }, { who => 'lua-on-redis', %load }];
}

sub against {
    my ($who, $connections) = @_;
    return ["batched to $who, $connections connections", 'connections', 'between', least => 25,
        { who => 'batched', connections => $connections }, { who => $who, connections => $connections }];
}

sub many_orders {
    my ($many, $rows, $what, $load, $bound) = @_;
    return ["$many orders to none, $what", 'table', 'between', least => $bound,
        { who => 'batched', load => $load, rows => $rows }, { who => 'batched', load => $load, rows => 0 }];
}

# One hash a goal whose section was measured; see verdict().
sub judge {
    my ($cases, $rows) = @_;
    my %measured = map { $_->{section} => 1 } @$cases;
    return map { judge_one($_, $cases, $rows) } grep { $measured{ $_->[1] } } @GOALS;
}

sub judge_one {
    my ($goal, $cases, $rows) = @_;
    my ($what, $section, $how, $sense, $bound, $case, $other) = @$goal;
    $_ = { %$_, section => $section } for grep { defined } $case, $other;
    my ($row) = grep { Bench::Stats::fits($_, $case) } @$rows;
    my $got = $how eq 'between' ? Bench::Stats::ratio_of($cases, $case, $other) : $row && $row->{$how};
    my %judged = (goal => $what, verdict($sense, $bound, $got, used(@_)));
    $judged{in_the_way} = in_the_way($row) if $row && $got && !holds($sense, $bound, $got);
    return \%judged;
}

# All measurements that a goal depends on, also the wrong ones.
sub used {
    my ($goal, $cases) = @_;
    my (undef, $section, $how, undef, undef, @wanted) = @$goal;
    my @used = grep { my $case = $_; grep { Bench::Stats::fits($case, { %$_, section => $section }) } @wanted } @$cases;
    return @used if $how !~ /^(?:p99_)?ratio$/; # to the yardstick
    return @used, grep { my $case = $_; grep { Bench::Stats::is_yardstick_of($case, $_) } @used } @$cases;
}

# For GOT, of the cases USED: SENSE => bound; measured; reached, unless nothing
# was measured; good => [how many, of how many], if some were wrong.
sub verdict {
    my ($sense, $bound, $got, @used) = @_;
    my $good    = grep { !$_->{wrong} } @used;
    my %verdict = ($sense => $bound, measured => $got);
    $verdict{good} = [$good, scalar @used] if $good < @used;
    $verdict{reached} = !$verdict{good} && holds($sense, $bound, $got) ? JSON::PP::true() : JSON::PP::false() if $got;
    return %verdict;
}

sub holds {
    my ($sense, $bound, $got) = @_;
    return $sense eq 'least' ? $got->[0] >= $bound : $got->[0] <= $bound;
}

# Whether all cores are busy, or somebody waits.
sub in_the_way {
    my ($row) = @_;
    my %cores = map { $_ => $row->{cpu}{$_} ? $row->{cpu}{$_}[0] : 0 } qw(wrk server redis others all);
    return sprintf '%s: %.2f of %d cores are busy (wrk %.2f, server %.2f, Redis %.2f, others %.2f); '
        . 'the server takes %.1f us of CPU an answer, in batches of %.0f',
        $cores{all} > 0.9 * Bench::Report::cores() ? 'CPU' : 'waiting, for the disk or another thread',
        $cores{all}, Bench::Report::cores(), @cores{qw(wrk server redis others)}, $row->{server_us}[0], $row->{batch} ? $row->{batch}[0] : 0;
}

1;
