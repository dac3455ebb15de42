# Goal of this test: an order is on disk before it is acknowledged. strace writes
# down the server's system calls, in order. After a request was read from a
# connection, an fdatasync has to begin and to end before the 201 is written to it. A
# server that was built with synchronous = OFF has to fail this: so the test can fail.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../e2e";
use Stockade;
use Test::More;

my $ORDERS = 200;

# One order after another, and then many at once, under strace.
sub trace_of {
    my ($binary) = @_;
    my $dir = Stockade::tempdir();
    local $ENV{STOCKADE_BIN} = $binary;
    my $server = Stockade->start(
        dir  => $dir,
        # The leak detector of a sanitizer build does not work under a tracer.
        env  => { ASAN_OPTIONS => join ':', grep { $_ } $ENV{ASAN_OPTIONS}, 'detect_leaks=0' },
        wrap => ['strace', '-D', '-f', '-q', '-s', 32, '-o', "$dir/trace",
                 '-e', 'trace=fdatasync,fsync,recvfrom,sendmsg,sendto,write'],
    );
    $server->product(40, 1_000_000);
    $server->order(40, $_) for 1 .. 20;
    my $load = Stockade::Load->start(servers => [$server], product => 40, name => 'many');
    $load->wait_for($ORDERS, 30);
    $load->finish;
    $server->ends('in the end');
    return Stockade::slurp("$dir/trace");
}

# The acknowledged orders of a trace: how many there were, and how many of them
# were not waiting for an fdatasync.
sub judge {
    my ($trace) = @_;
    my (%asked, %syncing, %receiving, $begun, $synced, $n, $unsafe);
    $begun = $synced = $n = $unsafe = 0;
    for (split /\n/, $trace) {
        my ($pid, $call) = /^(\d+)\s+(.*)/ or next;
        # A call that takes long has two lines.
        if ($call =~ /^f(?:data)?sync\(/) {
            $syncing{$pid} = ++$begun;
        }
        if ($call =~ /f(?:data)?sync(?:\(| resumed).*= 0/) {
            $synced = $syncing{$pid} if $syncing{$pid} > $synced;
        }
        $receiving{$pid} = $1 if $call =~ /^recvfrom\((\d+)/;
        if ($call =~ /^(?:recvfrom\(\d+, |<\.\.\. recvfrom resumed>)"POST \/api\/orders/) {
            $asked{ $receiving{$pid} } = $begun;
        }
        if ($call =~ /^(?:sendmsg|sendto|write)\((\d+),.*"HTTP\/1\.1 201/ && exists $asked{$1}) {
            $n++;
            # Number $begun had begun before the request: a later one counts.
            $unsafe++ if $synced <= delete $asked{$1};
        }
    }
    return ($n, $unsafe);
}

my ($n, $unsafe) = judge(trace_of(Stockade::binary()));
cmp_ok $n, '>=', $ORDERS, "$n orders were acknowledged";
is $unsafe, 0, 'each after an fdatasync that began when it was there already';

# The same sources, but for one word.
my $build = Stockade::tempdir();
ok Stockade::copy_build($build) && unlink("$build/stockade", "$build/db/sqlite/sqlite.o") == 2, 'what is built but for that';
my $made = system 'make', '-s', '-C', $Stockade::ROOT, "B=$build", 'V=0', 'SAN=',
    q{CPPFLAGS=-DSQLITE_SYNCHRONOUS='"OFF"'}, "$build/stockade";
is $made, 0, 'builds with synchronous = OFF' or BAIL_OUT('cannot build');
($n, $unsafe) = judge(trace_of("$build/stockade"));
cmp_ok $n, '>=', $ORDERS, "without fsync: $n orders were acknowledged";
cmp_ok $unsafe, '>', $n / 2, "without fsync: $unsafe of them too early";
done_testing;
