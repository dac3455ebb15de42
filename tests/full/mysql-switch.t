# Goal of this test: the primary of a MariaDB dies in the middle of a sale, and its replica
# takes its address before it has carried out its relay log, as LIMITS in stockade(1) says.
# What was confirmed is there, and who heard that nothing was ordered has no order.
use lib 'tests/e2e';
use Stockade;
use Stockade::Mariadb;

my $redis = Stockade::Redis->start;
my $dir   = Stockade::tempdir();
my @ports = map { Stockade::free_port() } 1, 2;
my @args  = (
    qw(--log-bin=log --binlog-format=ROW --gtid-strict-mode=ON --skip-networking=0 --bind-address=127.0.0.1),
    map { "--rpl-semi-sync-$_" } qw(master-enabled=ON slave-enabled=ON master-wait-no-slave=OFF master-timeout=600000),
);
my ($primary, $replica) = map { Stockade::Mariadb->start(args => [@args, "--server-id=$_", "--port=$ports[$_ - 1]"]) } 1, 2;

# Instances know one address.
sub move_to {
    my ($server) = @_;
    symlink $server->socket_path, "$dir/new" or die "symlink: $!";
    rename "$dir/new", "$dir/sql" or die "rename: $!";
    return;
}

move_to($primary);
my $url = $primary->database("$dir/sql") =~ s/user=root/user=shop/r;
my ($name) = $url =~ /db=(\w+)/;
$primary->sql("CREATE USER shop\@localhost; GRANT ALL ON $name.* TO shop\@localhost");
$replica->sql("SET GLOBAL read_only = ON; CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = $ports[0], "
    . "MASTER_USER = 'root', MASTER_USE_GTID = slave_pos; START SLAVE");
my @servers = map { Stockade->start(redis => $redis, db_url => $url, args => ['--shared']) } 1, 2;
$servers[0]->product(40, 1_000_000);
my $load = Stockade::Load->start(servers => \@servers, product => 40);
ok $load->wait_for(200, 60), 'both sell';
$replica->sql('STOP SLAVE SQL_THREAD');
ok $load->wait_for(400, 60), 'and sell on while the replica only writes down what they do';

$primary->kill9;
move_to($replica);
my $refused = sub { scalar grep { $_->[0] >= 500 } map { @$_ } $load->notes };
ok Stockade::eventually(60, sub { $refused->() > 20 }), 'nothing is sold while it may not be written';
$replica->sql('START SLAVE SQL_THREAD');
ok Stockade::eventually(60, sub { $replica->sql('SHOW SLAVE STATUS') =~ /has read all relay log/ }), 'the relay log is carried out';
$replica->sql('STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = OFF');
for my $server (@servers) {
    ok Stockade::eventually(60, sub { $server->order(40)->{status} == 201 }), 'an instance sells on' or diag $server->log;
}

my $told = $load->finish;
is_deeply [grep { !/^(?:201|503)$/ } keys %{ $told->{status} }], [], 'yes, or not now' or diag explain $told->{status};
my $keys = join ', ', map { "'$_->[4]'" } grep { "@$_[0, 5]" eq '503 -' } map { @$_ } $load->notes;
is $replica->sql("SELECT COUNT(*) FROM $name.orders WHERE `key` IN ($keys)"), "0\n", 'who heard that nothing was ordered has no order';
my $verdict = $servers[0]->balances('switched', acked => $told->{file});
is $verdict->{lost}, 0, 'and what was confirmed is there';
is $_->stop, 0, 'ends' for @servers;
done_testing;
