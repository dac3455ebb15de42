# Goal of this test: what server/deploy/ gives to Prometheus and Grafana fits this
# program: each metric that an alert or the dashboard names is one that a server
# shows, with these labels; each alert says where the manual tells what to do.
# Whether Prometheus reads them, and when alerts fire: tests/full/promtool.t.
use CPAN::Meta::YAML ();
use lib 'tests/e2e';
use JSON::PP ();
use Stockade;

my $deploy = "$Stockade::ROOT/server/deploy";
my $rules  = CPAN::Meta::YAML->read("$deploy/prometheus-alerts.yml")->[0]{groups}[0]{rules};
my $board  = JSON::PP->new->utf8->decode(Stockade::slurp("$deploy/grafana-dashboard.json"));
my @panels = @{ $board->{panels} };
cmp_ok scalar @$rules,  '>', 10, 'there are alerts';
cmp_ok scalar @panels, '>', 10, 'and panels';

# ---- their metrics ----------------------------------------------------------------
my $server  = Stockade->start(args => ['--lock', 'none']);
my $metrics = $server->get('/metrics')->{raw};
my %shown   = map { $_ => 1 } $metrics =~ /^(stockade_\w+)/mg;
my %value   = map { $_ => 1 } $metrics =~ /(\w+="[^"]+")/g;
# Prometheus gives two of its own.
my %label = map { $_ => 1 } qw(job instance), $metrics =~ /(\w+)="/g;

# Series that EXPR names and the server does not show, their labels, and values of these.
sub unknown {
    my ($expr) = @_;
    my @missing = grep { !$shown{$_} } $expr =~ /\b(stockade_\w+)/g;
    push @missing, grep { !$label{$_} } map { split /, */ } $expr =~ /\bby \(([^)]*)\)/g;
    while ($expr =~ /(\w+)!?=~?"([^"]+)"/g) {
        my ($name, $values) = ($1, $2);
        next if $name =~ /^(?:job|instance)$/;
        push @missing, grep { !$value{$_} } map { "$name=\"$_\"" } split /\|/, $values;
    }
    return @missing;
}
is_deeply [unknown('sum by (job, kind) (rate(stockade_orders_total{outcome=~"placed|replaced"}[5m])) > stockade_order_seconds{class="6xx"}')],
    ['stockade_order_seconds', 'kind', 'outcome="replaced"', 'class="6xx"'], 'what is not there is found';
for my $rule (@$rules) {
    is_deeply [unknown($rule->{expr})], [], "$rule->{alert}: its metrics are there";
    # That an instance is down, it cannot say itself.
    like $rule->{expr}, qr/\bstockade_|^up\{job="stockade"\}/, 'and it has some';
    is $rule->{annotations}{runbook}, "stockade(1), ALERTS, $rule->{alert}", 'where to read on';
    like $rule->{labels}{severity}, qr/^(?:critical|warning)$/, 'how bad it is';
}
for my $panel (@panels) {
    my @queries = map { $_->{expr} } @{ $panel->{targets} };
    is_deeply [map { unknown($_) } @queries], [], "$panel->{title}: its metrics are there";
    is scalar(grep { /stockade_\w+\{job=~"\$job", instance=~"\$instance"/ } @queries), scalar @queries, 'of the chosen instances';
    ok $panel->{description}, 'says what one sees';
}
is scalar(keys %{ { map { $_->{id} => 1 } @panels } }), scalar @panels, 'each panel has its id';
is_deeply [map { unknown($_->{query}{query}) } grep { ref $_->{query} } @{ $board->{templating}{list} }], [],
    'so are those that variables are made of';
$server->ends('after SIGTERM');
done_testing;
