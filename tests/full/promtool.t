# Goal of this test: Prometheus reads what we give it. promtool looks at the metrics
# of a server, at the alerts, and at the queries of the dashboard; and each alert
# fires on its fault, and on no other.
use CPAN::Meta::YAML ();
use lib 'tests/e2e';
use JSON::PP ();
use Stockade;

my $deploy = "$Stockade::ROOT/server/deploy";
my $alerts = "$deploy/prometheus-alerts.yml";
my $JSON   = JSON::PP->new->utf8->canonical;
my $dir    = Stockade::tempdir();

sub promtool {
    my (@args) = @_;
    return Stockade::run([@args], binary => 'promtool', seconds => 240);
}

# JSON is YAML.
sub file_of {
    my ($name, $data) = @_;
    return Stockade::write_file("$dir/$name", ref $data ? $JSON->encode($data) : $data);
}

sub passes {
    my ($what, @args) = @_;
    my $ran = promtool(@args);
    return is($ran->{exit}, 0, $what) || diag $ran->{out}, $ran->{err};
}

# ---- metrics -----------------------------------------------------------------
my $server = Stockade->start(args => ['--lock', 'none']);
$server->order(1);
my $metrics = $server->get('/metrics')->{raw};
$server->ends('after SIGTERM');

sub check_metrics {
    my ($file) = @_;
    my $said = `promtool check metrics <$file 2>&1`;
    return $? . $said;
}
is check_metrics(file_of('metrics', $metrics)), '0', 'promtool has nothing to say of the metrics';
isnt check_metrics(file_of('broken', $metrics =~ s/_total/_number/gr)), '0', 'but of counters without _total it has';

# ---- rules and queries ---------------------------------------------------------
passes('the alerts are rules', 'check', 'rules', $alerts);

# With Grafana's variables as it fills them in.
my @queries = map { s/\$__rate_interval/1m/gr =~ s/\$\w+/.*/gr } map { $_->{expr} } map { @{ $_->{targets} } }
    @{ $JSON->decode(Stockade::slurp("$deploy/grafana-dashboard.json"))->{panels} };
cmp_ok scalar @queries, '>', 20, 'the dashboard has queries';

sub as_rules {
    my $n = 0;
    return { groups => [{ name => 'dashboard', rules => [map { { record => 'q:' . ++$n, expr => $_ } } @_] }] };
}
passes('which Prometheus understands', 'check', 'rules', file_of('queries.yml', as_rules(@queries)));
is promtool('check', 'rules', file_of('broken.yml', as_rules(@queries, 'rate(stockade_ready)')))->{exit}, 1,
    'a query that is none is found';

# ---- when they fire --------------------------------------------------------------
my $outcome = 'stockade_orders_total{outcome="%s"}';
my $class   = 'stockade_http_responses_total{class="%s"}';
# For the first half hour; promtool has no short form of it.
my $unknown = 'NaN ' x 30;
my %well    = (
    'up'                                     => '1x2000',
    'stockade_ready'                         => 'NaN 1x2000',
    'stockade_orders_waiting'                => '6000x2000',
    'stockade_orders_waiting_limit'          => '8192x2000',
    'stockade_stranded_units'                => 'NaN 0x2000',
    'stockade_false_sold_out_total'          => '0x2000',
    'stockade_locks_lost_total'              => '0x9 1 2 3x2000',
    sprintf($outcome, 'placed')              => '0+4000x2000',
    sprintf($outcome, 'sold-out')            => '0+4000x2000',
    sprintf($outcome, 'store-unavailable')   => '7x2000',
    sprintf($outcome, 'lock-unreachable')    => '7x2000',
    # A burst, as an instance leaves behind that is killed.
    sprintf($outcome, 'lock-timeout')        => '0x37 3000x2000',
    'stockade_changes_failed_total'          => '2x2000',
    sprintf($class, '2xx')                   => '0+8000x2000',
    sprintf($class, '5xx')                   => '0+40x2000',
    'stockade_order_seconds_bucket{le="0.4096"}' => '0+995x2000',
    'stockade_order_seconds_bucket{le="0.8192"}' => '0+1000x2000',
    'stockade_order_seconds_bucket{le="+Inf"}'   => '0+1000x2000',
    # One audit a day, after half an hour and a day later.
    'stockade_audit_timestamp_seconds'       => $unknown . '1800x1439 88200x2000',
    'stockade_audit_oversold_units'          => $unknown . '0x2000',
    'stockade_audit_balanced'                => $unknown . '1x2000',
);

# Alert => [the first minute at which it fires, what the fault does to the series, the
# value in the summary].
my %fault = (
    StockadeOversold       => [30, { 'stockade_audit_oversold_units' => $unknown . '5x2000' }, 5],
    StockadeUnbalanced     => [30, { 'stockade_audit_balanced' => $unknown . '0x2000' }],
    StockadeNotAudited     => [1500, { map { ("stockade_audit_$_" => 'NaN ' x 2000) } qw(timestamp_seconds oversold_units balanced) }],
    StockadeFalseSoldOut   => [21, { 'stockade_false_sold_out_total' => '0x20 1x2000' }],
    StockadeStranded       => [25, { 'stockade_stranded_units' => '0x19 3x2000' }, 3],
    StockadeDown           => [21, { 'up' => '1x19 0x2000' }],
    StockadeNotReady       => [21, { 'stockade_ready' => '1x19 0x2000' }],
    StockadeStoreFails     => [21, { sprintf($outcome, 'store-unavailable') => '7x20 8x2000' }],
    StockadeLockServerAway => [21, { sprintf($outcome, 'lock-unreachable') => '7x20 8x2000' }],
    StockadeChangesFail    => [21, { 'stockade_changes_failed_total' => '2x20 3x2000' }],
    StockadeLockTimeouts   => [11, { sprintf($outcome, 'lock-timeout') => '0+200x2000' }],
    StockadeErrors         => [11, { sprintf($class, '5xx') => '0+200x2000' }],
    StockadeLocksLost      => [22, { 'stockade_locks_lost_total' => '0x20 2 4 5x2000' }],
    StockadeSlow           => [6, { 'stockade_order_seconds_bucket{le="0.4096"}' => '0+985x2000' }],
    StockadeQueueFull      => [21, { 'stockade_orders_waiting' => '0x19 7000x2000' }],
);

my %rule = map { $_->{alert} => $_ } @{ CPAN::Meta::YAML->read($alerts)->[0]{groups}[0]{rules} };
is_deeply [sort keys %fault], [sort keys %rule], 'each alert has its fault';

# promtool's own form of a case: what is there, and which alerts are to fire then.
sub case {
    my ($name, $minute, $series, %fires) = @_;
    my @series = map {
        my $labels = /\{(.*)\}/ ? ",$1" : '';
        { series => s/\{.*//r . "{job=\"stockade\",instance=\"a\"$labels}", values => $series->{$_} }
    } sort keys %$series;
    return { name => $name, interval => '1m', input_series => \@series,
        alert_rule_test => [map { { alertname => $_, eval_time => "${minute}m", exp_alerts => $fires{$_} || [] } } sort keys %rule] };
}

# The alert as it fires: with the labels of the series that it is about.
sub firing {
    my ($name, $value) = @_;
    my %labels = (job => 'stockade', instance => 'a', %{ $rule{$name}{labels} });
    delete $labels{instance} if $rule{$name}{expr} =~ /by \(job\)/;
    ($labels{outcome}) = $1 if $rule{$name}{expr} =~ /^increase.*outcome="([^"]+)"/;
    my %says = %{ $rule{$name}{annotations} };
    $says{summary} =~ s/\{\{ \$value \}\}/$value/ if defined $value;
    return ($name => [{ exp_labels => \%labels, exp_annotations => \%says }]);
}

sub test_file {
    my ($name, @cases) = @_;
    return file_of($name, { rule_files => [$alerts], evaluation_interval => '1m', tests => \@cases });
}
my @cases = map { case("all is well after $_ minutes", $_, \%well) } 40, 1439, 1999;
for my $name (sort keys %fault) {
    my ($minute, $change, $value) = @{ $fault{$name} };
    push @cases, case($name, $minute, { %well, %$change }, firing($name, $value));
    push @cases, case("$name, a minute before", $minute - 1, { %well, %$change });
}
passes('each alert fires on its fault and on no other', 'test', 'rules', test_file('cases.yml', @cases));
my $silent = case('a fault that nobody is told of', 40, { %well, %{ $fault{StockadeOversold}[1] } });
is promtool('test', 'rules', test_file('silent.yml', $silent))->{exit}, 1, 'a case that is wrong is found';
done_testing;
