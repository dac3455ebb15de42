# What perf, strace and the kernel say of a process, by thread and by order.
package Bench::Profile;

use strict;
use warnings;

use List::Util qw(sum0);

# ---- samples ----------------------------------------------------------------

# From the text of `perf script -F comm,tid,ip,sym,dso`: [thread, [frames, the
# innermost first]] for each sample.
sub samples {
    my ($text) = @_;
    my @samples;
    for (split /\n/, $text) {
        if (/^\s*(\S.*?)\s+(\d+)\s*$/) {
            push @samples, ["$1-$2", []];
        } elsif (/^\s+([0-9a-f]+) (\S.*)$/ && @samples) {
            push @{ $samples[-1][1] }, name_of($2);
        }
    }
    return grep { @{ $_->[1] } } @samples;
}

# Of "function (/path/of/library)": the function, or the library where it has
# no names.
sub name_of {
    my ($name, $library) = $_[0] =~ m{^(.*?)\s*(?:\((?:[^()]*/)?([^()/]*)\))?$};
    return $name eq '[unknown]' && defined $library ? "[$library]" : $name;
}

# {"thread;outer;...;inner" => samples}
sub fold {
    my %folded;
    for my $sample (@_) {
        my ($thread, $frames) = @$sample;
        $folded{ join ';', $thread, map { tr/;/:/r } reverse @$frames }++;
    }
    return \%folded;
}

# {thread => {innermost function => samples}}
sub flat {
    my %flat;
    $flat{ $_->[0] }{ $_->[1][0] }++ for @_;
    return \%flat;
}

# ---- threads ----------------------------------------------------------------

# {"comm-tid" => {user, system: seconds of CPU; switches: times it waited}}
sub threads {
    my ($pid) = @_;
    my %threads;
    for my $task (glob "/proc/$pid/task/*") {
        my ($tid) = $task =~ /(\d+)$/;
        my ($comm, $user, $system) = Stockade::slurp("$task/stat") =~ /\((.*)\) (?:\S+ ){11}(\d+) (\d+)/ or next;
        my ($switches) = Stockade::slurp("$task/status") =~ /^voluntary_ctxt_switches:\s+(\d+)/m;
        $threads{"$comm-$tid"} = { user => $user / 100, system => $system / 100, switches => $switches };
    }
    return \%threads;
}

sub since {
    my ($before, $after) = @_;
    my %since;
    for my $thread (keys %$after) {
        my $old = $before->{$thread} || {};
        $since{$thread} = { map { $_ => $after->{$thread}{$_} - ($old->{$_} || 0) } keys %{ $after->{$thread} } };
    }
    return \%since;
}

# ---- system calls -----------------------------------------------------------

# {name => calls} from what `strace -c` wrote.
sub calls {
    my ($text) = @_;
    my %calls;
    for (split /\n/, $text) {
        $calls{$2} = $1 if /^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$/ && $2 ne 'total';
    }
    return \%calls;
}

# ---- as text ----------------------------------------------------------------

# THREADS used this while ORDERS were answered.
sub threads_text {
    my ($threads, $orders) = @_;
    my $text = sprintf "  %-24s %10s %10s %14s\n", 'thread', 'user us', 'system us', 'waits';
    my %sum;
    for my $thread (sort { used($threads->{$b}) <=> used($threads->{$a}) || $a cmp $b } keys %$threads) {
        my $used = $threads->{$thread};
        $sum{$_} += $used->{$_} for keys %$used;
        $text .= thread_line($thread, $used, $orders) if used($used) > 0;
    }
    return $text . thread_line('all', \%sum, $orders);
}

sub used { return $_[0]{user} + $_[0]{system} }

sub thread_line {
    my ($name, $used, $orders) = @_;
    return sprintf "  %-24s %10.2f %10.2f %14.3f\n", $name, 1e6 * $used->{user} / $orders,
        1e6 * $used->{system} / $orders, $used->{switches} / $orders;
}

# The first N functions of each thread that counts, with what they cost an order.
sub flat_text {
    my ($flat, $threads, $orders, $n) = @_;
    my $text = '';
    for my $thread (sort { total($flat->{$b}) <=> total($flat->{$a}) || $a cmp $b } keys %$flat) {
        my $samples = total($flat->{$thread});
        my $us      = $threads->{$thread} ? 1e6 * used($threads->{$thread}) / $orders : 0;
        next if $us < 0.05;
        $text .= sprintf "  %s: %.2f us an order, %d samples\n", $thread, $us, $samples;
        my @first = (sort { $flat->{$thread}{$b} <=> $flat->{$thread}{$a} || $a cmp $b } keys %{ $flat->{$thread} })[0 .. $n - 1];
        for my $function (grep { defined } @first) {
            my $share = $flat->{$thread}{$function} / $samples;
            $text .= sprintf "    %6.2f us %5.1f %%  %s\n", $us * $share, 100 * $share, $function;
        }
    }
    return $text;
}

sub total { return sum0(values %{ $_[0] }) }

sub calls_text {
    my ($calls, $orders) = @_;
    my $text = sprintf "  %-20s %10s %12s\n", 'system call', 'calls', 'an order';
    for my $name (sort { $calls->{$b} <=> $calls->{$a} || $a cmp $b } keys %$calls) {
        $text .= sprintf "  %-20s %10d %12.3f\n", $name, $calls->{$name}, $calls->{$name} / $orders;
    }
    return $text . sprintf "  %-20s %10d %12.3f\n", 'all', total($calls), total($calls) / $orders;
}

1;
