# Goal of this test: what the README tells a reader to paste works when pasted.
# Every ```sh block runs, in order, in one shell, against one server.
use lib 'tests/e2e';
use File::Temp ();
use Stockade;

my $server = Stockade->start;
my $readme = Stockade::slurp("$Stockade::ROOT/README.md");
my $url    = $server->url;

my @blocks = $readme =~ /^```sh\n(.*?)^```$/msg;
cmp_ok scalar @blocks, '>=', 4, 'the README has examples';

my $script = File::Temp->new(SUFFIX => '.sh');
print $script "set -euo pipefail\n";
for my $block (@blocks) {
    $block =~ s{http://127\.0\.0\.1:8080}{$url}g;
    print $script $block, "echo\necho '--8<--'\n";
}
close $script;

my @said = split /--8<--\n/, `bash $script 2>/dev/null`;
is $?, 0, 'the shell is content';
is scalar @said, scalar @blocks, 'every block ran to its end';

like $said[0], qr{^HTTP/1\.1 201 }, 'the order is placed';
like $said[0], qr{^Location: /api/orders/}m, 'and has a place';
like $said[1], qr{"key"|"id"}, 'it is found by its key';
like $said[1], qr{"state":"cancelled"}, 'and cancelled';
my @statuses = map { /^HTTP\/1\.1 (\d+)/mg } @said;
is_deeply [grep { $_ >= 400 } @statuses], [], 'nothing was refused' or diag join "\n", @said;
like $said[2], qr{"name":"Sneakers"}, 'a product is made';
like $said[2], qr{"limit_per_user":1,"opens_at":null,.*"stock":500,.*"segments":10}, 'a patch changes what it names';
like $said[2], qr{"initial":600}, 'the product is restocked';
like $said[2], qr{"stock_by_segment":\[\{"segment":0,"initial":60,"stock":60\}}, 'and shows its segments';
like $said[3], qr{"balanced":true}, 'the ledger balances';
like $said[3], qr{"status":"ok","store":"ok","lock":"ok"}, 'the service is ready';
like $said[3], qr{stockade_orders_total\{outcome="placed"\} 1}, 'metrics count the order';
done_testing;
