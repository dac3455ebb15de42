# Goal of this test: who watches GET /api/events knows the shop as it is, and knows when
# that is not so: all products first, then each change, a beat while the database can be
# read. One who comes again hears what was missed, or that something is lost. Viewers
# have a bound, and hold nothing up at the end.
use lib 'tests/e2e';
use HttpRaw;
use JSON::PP ();
use Stockade;
use Time::HiRes qw(time);

my $redis = Stockade::Redis->start;
my $JSON  = JSON::PP->new->utf8;

# A viewer: {socket, head, text, closed}. By HTTP/1.0, which has no chunks.
sub watch {
    my ($server, %with) = @_;
    my $last = defined $with{last} ? "Last-Event-ID: $with{last}\r\n" : '';
    my $self = { socket => HttpRaw::connect_to($server->port), text => '', closed => 0 };
    HttpRaw::put($self->{socket}, "GET /api/events HTTP/1.0\r\nHost: localhost\r\n$last\r\n");
    read_more($self) while $self->{text} !~ s/\A(.*?\r\n\r\n)//s && !$self->{closed};
    $self->{head} = $1;
    return $self;
}

sub read_more {
    my ($viewer, $seconds) = @_;
    my $more = HttpRaw::get($viewer->{socket}, $seconds // $HttpRaw::PATIENCE_S * $HttpRaw::SLOW);
    $viewer->{closed} = 1 if !length($more // '');
    $viewer->{text} .= $more // '';
    return $more;
}

# The next event that is no beat, or if there are no more, undef: {event, id, data}.
sub hear {
    my ($viewer, %with) = @_;
    my $beats = 0;
    while (1) {
        while ($viewer->{text} =~ s/\A(.*?)\n\n//s) {
            my %event = $1 =~ /^(\w+): (.*)$/mg;
            next if !$event{event};
            if ($event{event} eq 'beat' && !$with{beat}) {
                die "nothing but beats\n" if ++$beats > 15;
                next;
            }
            $event{data} = $JSON->decode($event{data});
            return \%event;
        }
        return undef if $viewer->{closed};
        read_more($viewer);
    }
}

# Events until all of PRODUCTS have this stock: of each the last one counts.
sub hear_stocks {
    my ($viewer, $stock, @products) = @_;
    my %missing = map { $_ => 1 } @products;
    my ($n, $event) = (0);
    while (%missing && ($event = hear($viewer))) {
        delete $missing{ $event->{data}{id} } if $event->{event} eq 'product' && $event->{data}{stock} == $stock;
        $n++;
    }
    is_deeply [keys %missing], [], "all have $stock units";
    return ($n, $event);
}

my $server = Stockade->start(redis => $redis, args => [qw(--connections-max 12 --request-deadline-ms 1000)]);
$server->product(10, 5);

# ---- what is told ------------------------------------------------------------------
my $viewer = watch($server);
like $viewer->{head}, qr{^HTTP/1\.[01] 200 .*^Content-Type: text/event-stream\r\n}ms, 'a stream of events';
like $viewer->{head}, qr/^Cache-Control: no-store\r\n/m, 'not for caches';
like $viewer->{head}, qr/^X-Accel-Buffering: no\r\n/m, 'nor for a proxy to keep back';
my $beat = hear($viewer, beat => 1);
is $beat->{event}, 'beat', 'first a beat';
my $all = hear($viewer);
is $all->{event}, 'products', 'then all products';
is_deeply $all->{data}, $server->get('/api/products?limit=200')->{body}, 'as in the list';
like $beat->{data}{time}, qr/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/, 'which tells the time';
is $server->order(10)->{status}, 201, 'somebody orders';
my $sold = hear($viewer);
is $sold->{event}, 'product', 'it is told';
is_deeply $sold->{data}, { %{ $all->{data}{products}[2] }, stock => 4, sold => 1 }, 'of this product, and all of it';
$server->patch('/api/products/10', { name => "T\x{e9}", opens_at => '2099-01-01T00:00:00Z' });
is_deeply hear($viewer)->{data}, { %{ $sold->{data} }, name => "T\x{e9}", opens_at => '2099-01-01T00:00:00.000Z' },
    'a change of its terms';
$server->patch('/api/products/10', { pay_within_s => 60 });
is hear($viewer)->{data}{pay_within_s}, 60, 'how long an order may stay unpaid is one of them';
$server->product(11, 3);
my $new = hear($viewer);
is_deeply [@{ $new->{data} }{qw(id stock)}], [11, 3], 'a new product';
isnt $new->{id}, $sold->{id}, 'ids differ';
my %terms = (name => 'Cup', price_cents => 7, limit_per_user => 2, segments => 2,
    opens_at => '2098-01-01T00:00:00.000Z', ends_at => '2099-01-01T00:00:00.000Z');
for my $term (sort keys %terms) {
    $server->patch('/api/products/11', { $term => $terms{$term} });
    $new = hear($viewer);
    is $new->{data}{$term}, $terms{$term}, "$term, changed alone, is told";
}
# The time limit of a request is over long before the second beat.
is hear($viewer, beat => 1)->{event}, 'beat', 'nothing else but beats' for 1, 2;
is $server->metric('stockade_viewers'), 1, 'one watches';

# ---- to come again -------------------------------------------------------------------
my $again = watch($server, last => $sold->{id});
my @missed = map { hear($again)->{data} } 1 .. 3 + keys %terms;
is_deeply [map { $_->{id} } @missed], [10, 10, 11, map { 11 } keys %terms], 'one who comes again hears what was missed, and only that';
is hear($again, beat => 1)->{event}, 'beat', 'and nothing else';
close $again->{socket};
$again = watch($server, last => $new->{id});
is hear($again, beat => 1)->{event}, 'beat', 'one who has missed nothing hears nothing' for 1, 2;
close $again->{socket};
ok Stockade::eventually(5, sub { $server->metric('stockade_viewers') == 1 }), 'one who leaves is not counted';
for my $unknown ('00000000-1', 'x', ($new->{id} =~ s/-.*/-9999999/r)) {
    my $lost = watch($server, last => $unknown);
    is_deeply [map { hear($lost)->{event} } 1, 2], [qw(lost products)], "$unknown: lost, then all products";
    close $lost->{socket};
}
# 260 events, of which the ring keeps 256.
my @many = 1001 .. 1130;
$server->product($_, 7) for @many;
hear_stocks($viewer, 7, @many);
for my $id (@many) { # a slow machine lets the deadline of a request pass
    1 until $server->order($id, 1, 1, "many-$id")->{status} == 201;
}
my ($n, $last) = hear_stocks($viewer, 6, @many);
is $n, 130, 'each change once';
my ($number) = $last->{id} =~ /-(\d+)$/;
my $late = watch($server, last => $last->{id} =~ s/-.*/'-' . ($number - 257)/er);
is_deeply [map { hear($late)->{event} } 1, 2], [qw(lost products)], 'what the ring has dropped is said to be lost';
close $late->{socket};
my $recent = watch($server, last => $last->{id} =~ s/-.*/'-' . ($number - 256)/er);
is hear($recent)->{event}, 'product', 'what it still has is told' for 1 .. 256;
is hear($recent, beat => 1)->{event}, 'beat', 'to the last';

# ---- the bound -----------------------------------------------------------------------
my $third  = watch($server);
my $fourth = HttpRaw::ask($server->port, "GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
is $fourth->{status}, 503, 'of twelve connections three may be viewers\'';
like $fourth->{body}, qr/:too-many-viewers"/, 'and it says so';
is $fourth->{headers}{'retry-after'}, 10, 'and when to ask again';
close $third->{socket};
my $head = '';
ok Stockade::eventually(5, sub {
    $head = HttpRaw::ask($server->port, "HEAD /api/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    return $head->{status} eq '200';
}), 'one leaves: there is room';
is $head->{body}, '', 'HEAD: no events';
$head = HttpRaw::talk($server->port, "HEAD /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
is "$head->{replies}[0]{status} $head->{rest}, $head->{closed}", '200 , 1', 'nor a chunk that the next reply would begin with';
ok Stockade::eventually(5, sub { $server->metric('stockade_viewers') == 2 }), 'nor does it watch';

# ---- the end ---------------------------------------------------------------------------
my $chunked = HttpRaw::connect_to($server->port);
HttpRaw::put($chunked, "GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
my $text = '';
$text .= HttpRaw::get($chunked, $HttpRaw::PATIENCE_S) // last until $text =~ /event: beat/;
is $server->stop, 0, 'it ends though somebody watches';
like $server->log, qr/msg=stopped clean=yes/, 'and has waited for nobody';
while (length(my $more = HttpRaw::get($chunked, $HttpRaw::PATIENCE_S) // '')) {
    $text .= $more;
}
like $text, qr/\r\n0\r\n\r\n\z/, 'the stream ends properly';
ok !defined hear($viewer), 'each does';

# ---- what comes back by itself ---------------------------------------------------------
# Whichever instance lets them expire: the viewers of both hear of it, and then the units
# are sold to whoever asks first, whatever memory and hints of either say.
my $one = Stockade->start(redis => $redis, args => ['--shared']);
my $two = Stockade->start(redis => $redis, args => ['--shared'], dir => $one->dir);
$one->product(20, 6, segments => 3, pay_within_s => 4);
my @watching = map { watch($_) } $one, $two;
is $one->order(20, $_, 2)->{status}, 201, 'held' for 1 .. 3;
for my $server ($one, $two) {
    is Stockade::slug($server->order(20, 9)), 'sold-out', 'this instance knows that all is sold' for 1 .. 3;
    cmp_ok $server->metric('stockade_sold_out_checks_total'), '>', 0, 'by memory';
}
hear_stocks($_, 6, 20) for @watching;
is $_->order(20, 10)->{status}, 201, 'what has come back is sold at once' for ($one, $two) x 3;
is $one->metric('stockade_orders_expired_total') + $two->metric('stockade_orders_expired_total'), 3, 'three have expired';
is $_->metric('stockade_false_sold_out_total'), 0, 'nothing was denied that was there' for $one, $two;
is $_->stop, 0, 'ends' for $one, $two;

# ---- what it does not know -----------------------------------------------------------------
$server = Stockade->start(redis => $redis, args => ['--shared']);
$server->product($_, 7) for 3 .. 201;
$viewer = watch($server);
is hear($viewer)->{data}{next}, 200, 'of more than 200 products, where they go on';
hear($viewer, beat => 1);
my $free = $server->hold_database;
my ($end, $beats) = (time + 5, 0);
while (time < $end) {
    read_more($viewer, $end - time);
    $viewer->{closed} = 0;
    $beats++ while $viewer->{text} =~ s/\A(.*?)\n\n//s;
}
cmp_ok $beats, '<=', 1, 'no beat while the database cannot be read';
$free->();
is hear($viewer, beat => 1)->{event}, 'beat', 'then again';
my $orders = Stockade->start(inventory => [$server]);
is $orders->get('/api/events')->{status}, 404, 'an order service has none';
is $orders->stop, 0, 'it ends';
is $server->stop, 0, 'the other one as well';

# ---- a look that was under way ---------------------------------------------------------------
SKIP: {
    skip 'a sanitizer wants to be loaded first', 5 if $ENV{SAN};
    my $dir = Stockade::tempdir();
    Stockade::write_file("$dir/slow.c", <<'C' =~ s/DIR/$dir/gr);
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int sqlite3_step(sqlite3_stmt *statement)
{
    int (*real)(sqlite3_stmt *) = dlsym(RTLD_NEXT, "sqlite3_step"), status = real(statement);
    const char *sql = sqlite3_sql(statement);
    if (status == SQLITE_DONE && sql && strstr(sql, "ORDER BY id LIMIT") && rename("DIR/hold", "DIR/held") == 0)
        while (access("DIR/held", F_OK) == 0)
            usleep(1000);
    return status;
}
C
    is system('cc', '-shared', '-fPIC', '-o', "$dir/slow.so", "$dir/slow.c", '-ldl'), 0, 'a look that hangs when it has read all';
    $server = Stockade->start(args => ['--lock', 'none'], env => { LD_PRELOAD => "$dir/slow.so" });
    $server->product(10, 5);
    $viewer = watch($server);
    Stockade::write_file("$dir/hold", '');
    ok Stockade::eventually(20, sub { -e "$dir/held" }), 'it hangs';
    is $server->order(10)->{status}, 201, 'meanwhile somebody orders';
    my $late = watch($server);
    unlink "$dir/held";
    my ($ten) = grep { $_->{id} == 10 } @{ hear($late)->{data}{products} };
    is $ten->{stock}, 4, 'and then begins to watch: of that look nothing is told';
    is $server->stop, 0, 'ends';
}
done_testing;
