# The result as text: a table for each section, then the goals.
package Bench::Report;

use strict;
use warnings;

use List::Util qw(max);
use POSIX qw(uname);

use Bench::Sections;
use Stockade;

sub text {
    my ($result) = @_;
    my $text = "$result->{machine}{text}\n";
    my %rows;
    push @{ $rows{ $_->{section} } }, $_ for @{ $result->{rows} };
    for my $name (grep { $rows{$_} } Bench::Sections::names()) {
        $text .= "\n" . table($name, @{ $rows{$name} });
    }
    $text .= "\nMedians of $result->{settings}{rounds} rounds of $result->{settings}{seconds} s, [least-most].\n";
    $text .= disturbance(@{ $result->{rows} });
    return $text . to_before(@{ $result->{rows} }) . goals(@{ $result->{goals} })
        . wrongs(@{ $result->{rows} });
}

# This version compared to the one before, in the same rounds.
sub to_before {
    my $text = '';
    for my $row (grep { $_->{to_before} } @_) {
        $text .= sprintf "  %-12s %8s %20s %20s\n", $row->{section}, what($row->{section}, $row),
            map { figure($row->{to_before}{$_}, fixed(2)) } qw(per_s p99_ms);
    }
    return $text ? sprintf "\n  %-12s %8s %20s %20s\n%s", 'to before', '', 'rate', 'p99', $text : '';
}

# What rates are compared to, where that is not nginx.
my %TO = (segments => 'to one segment', mysql => 'to SQLite', cluster => 'to the first');

# The last columns, where they are not those of all: [head, figure, format, of a hundred].
my %LAST = (
    open    => [['p90', 'p90_ms', '%.2f'], ['max', 'max_ms', '%.2f'], ['held p99', 'send_delay_p99_ms', '%.2f'], ['refus.', 'refused', '%d'], ['broken', 'broken', '%d']],
    cluster => [['commit ms', 'commit_ms', '%.1f'], ['orders in', 'per_commit', '%.1f'], ['locks', 'asked', '%.0f %%', 100],
        ['run again', 'retried', '%.1f %%', 100], ['conflicts', 'conflicts', '%.0f']],
);

sub table {
    my ($name, @rows) = @_;
    my @last = map { my ($head, $figure, $format, $times) = @$_; [$head, 9, sub { sprintf $format, ($times || 1) * ($_[0]{$figure} || [0])->[0] }] } @{ $LAST{$name} || [] };
    @last = (
        ['wrk/server/redis', 15, sub { join '/', map { sprintf '%.2f', $_ ? $_->[0] : 0 } @{ $_[0]{cpu} }{qw(wrk server redis)} }],
        ['refus.', 6, sub { percent($_[0]{refused_share}[0]) }],
        [$name eq 'instances' ? 'share' : 'batch', 7, \&extra],
    ) if !@last;
    return sprintf("%s: %s\n", $name, Bench::Sections::title($name)) . columns([
        ['', -18, sub { $_[0]{who} }],
        ['', max(8, map { length what($name, $_) } @rows), sub { what($name, $_[0]) }],
        [$name eq 'refusals' ? 'answers/s' : 'orders/s', 22, sub { figure($_[0]{per_s}, \&rate) }],
        [$TO{$name} || 'to nginx', 18, sub { figure($_[0]{ratio}, fixed(2)) }],
        (map { my ($head, $point) = @$_; [$head, 7, sub { sprintf '%.2f', $_[0]{$point}[0] }] } ['p50 ms', 'p50_ms'], ['p99', 'p99_ms'], ['p99.9', 'p999_ms']),
        @last,
    ], 2, @rows);
}

# A line for each row: COLUMNS are [head, width, row -> text]. The first N say what it is, and
# are all that there is of one without figures.
sub columns {
    my ($columns, $n, @rows) = @_;
    my $put  = sub { ' ' . join '', map { sprintf " %$columns->[$_][1]s", $_[$_] } 0 .. $#_ };
    my $text = $put->(map { $_->[0] } @$columns) . "\n";
    for my $row (@rows) {
        my @words = map { $_->[2]->($row) } @$columns[0 .. ($row->{per_s} ? $#$columns : $n - 1)];
        $text .= $put->(@words) . ($row->{per_s} ? "\n" : "  no round counts\n");
        $text .= "    of $row->{rounds} good rounds of $row->{of}\n" if $row->{per_s} && $row->{rounds} < $row->{of};
    }
    return $text =~ s/ +$//mgr;
}

# What differs within the section.
sub what {
    my ($name, $row) = @_;
    return defined $row->{products} ? $row->{products} : '' if $name eq 'products';
    return defined $row->{rows} ? short($row->{rows}) . ($row->{load} eq 'keys' ? ' keys' : '')
        : $row->{load} eq 'keys' ? 'keys' : '' if $name eq 'table';
    return "$row->{think_ms} ms, segments=$row->{segments}" if $name eq 'segments';
    return "products=$row->{products} segments=$row->{segments} instances=$row->{instances}" . ($row->{kind} && " $row->{kind}") if $name eq 'cluster';
    return "$row->{share} %, $row->{rate}/s" if $name eq 'open';
    return $row->{kind} if $name eq 'mysql';
    return "c=$row->{connections}" . (($row->{instances} || 1) > 1 && $name ne 'instances' ? " x$row->{instances}" : '');
}

sub extra {
    my ($row) = @_;
    return sprintf '%s%.2f', $row->{section} eq 'instances' ? '' : 'share ', $row->{share_min}[0] if $row->{share_min};
    return $row->{batch} && $row->{batch}[0] ? sprintf '%.1f', $row->{batch}[0] : '';
}

sub figure {
    my ($spread, $format) = @_;
    return '' if !$spread;
    return sprintf '%s [%s-%s]', map { $format->($_) } @$spread;
}

sub fixed { my ($decimals) = @_; return sub { sprintf '%.*f', $decimals, $_[0] } }

sub rate { my ($n) = @_; return $n < 9950 ? sprintf '%.0f', $n : sprintf '%.1fk', $n / 1000 }

sub short { my ($n) = @_; return $n >= 1e6 ? $n / 1e6 . 'M' : $n }

sub percent { my ($share) = @_; return !$share ? '0' : $share < 0.01 ? '<1%' : sprintf '%.0f%%', 100 * $share }

# A little is the kernel's own work for our connections.
sub disturbance {
    my $worst = max(map { $_->{cpu}{others} ? $_->{cpu}{others}[2] : 0 } @_);
    return '' if !$worst || $worst < 0.3;
    return sprintf "Others used up to %.2f cores meanwhile: measure again on a quiet machine.\n", $worst;
}

sub goals {
    my (@goals) = @_;
    my $text = @goals ? "\nGoals:\n" : '';
    for my $goal (@goals) {
        my $bound = defined $goal->{least} ? sprintf '>= %.2f', $goal->{least} : sprintf '<= %.2f', $goal->{most};
        $text .= sprintf "  %-46s %8s  %-20s %s\n", $goal->{goal}, $bound, verdict($goal);
        $text .= "      in the way: $goal->{in_the_way}\n" if $goal->{in_the_way};
    }
    $text =~ s/ +$//mg;
    return $text;
}

# What was measured, and what that means for the goal.
sub verdict {
    my ($goal) = @_;
    my $mark = !defined $goal->{reached} ? '' : $goal->{reached} ? 'reached' : 'NOT REACHED';
    $mark .= sprintf ' (%d of %d measurements count)', @{ $goal->{good} } if $goal->{good};
    return ($goal->{measured} ? figure($goal->{measured}, fixed(2)) : 'not measured', $mark);
}

sub wrongs {
    my @lines;
    for my $row (@_) {
        push @lines, map { "WRONG: $row->{section}, $row->{who}, " . what($row->{section}, $row) . ": $_\n" } @{ $row->{wrong} };
    }
    return @lines ? join '', "\n", @lines : '';
}

# ---- the README ----------------------------------------------------------------

# The table of the README, so that nobody types figures: each next to nginx, by connections;
# empty, if nothing of that was measured.
sub markdown {
    my (@compared) = grep { $_->{section} =~ /^(?:connections|limits|refusals)$/ && $_->{who} ne 'nginx' && $_->{ratio} } @_;
    my %numbers     = map { $_->{connections} => 1 } @compared;
    my @connections = sort { $a <=> $b } keys %numbers;
    my (@lines, %row);
    for my $row (@compared) {
        my $line = "`$row->{who}`, " . Bench::Sections::title($row->{section});
        push @lines, $line if !$row{$line};
        $row{$line}{ $row->{connections} } = $row;
    }
    return '' if !@lines;
    return join '', map { '| ' . join(' | ', @$_) . " |\n" } ['to nginx', @connections, 'p99 at 64'], ['---', ('--:') x (1 + @connections)],
        map { my $of = $row{$_}; [$_, (map { one('%.2f', $of->{$_}{ratio}) } @connections), one('%.1f', $of->{64}{p99_ratio})] } @lines;
}

sub one { my ($format, $spread) = @_; return $spread ? sprintf $format, $spread->[0] : '' }

# ---- the machine ---------------------------------------------------------------

my $IN_MEMORY = 'The databases are in memory (tmpfs): commits cost nothing, and these figures are not to be believed.';

# The machine. PLACE: where the databases are. {text} says all of it in a line or two.
sub machine {
    my ($place) = @_;
    my ($model) = Stockade::slurp('/proc/cpuinfo') =~ /^model name\s*:\s*(.*)$/m;
    my ($system, undef, $release) = uname();
    chomp(my $commit = qx{git -C "$Stockade::ROOT" describe --always --dirty 2>/dev/null} || 'unknown');
    my $disk = filesystem($place);
    my %machine = (cores => cores(), cpu => $model || 'unknown', kernel => "$system $release", commit => $commit, filesystem => $disk);
    $machine{text} = "stockade $commit on $machine{cores} cores ($machine{cpu}), $machine{kernel}, $disk";
    $machine{text} .= "\n$IN_MEMORY" if $disk eq 'tmpfs';
    return \%machine;
}

sub filesystem {
    my ($place) = @_;
    chomp(my $type = qx{stat -f -c %T "$place" 2>/dev/null} || 'unknown');
    return $type;
}

# The same of MARIADB's data.
sub of_mariadb {
    my ($mariadb) = @_;
    chomp(my $version = $mariadb->sql('SELECT VERSION()'));
    my $disk = filesystem($mariadb->{dir});
    return "; MariaDB $version, $disk" . ($disk eq 'tmpfs' ? "\n$IN_MEMORY" : '');
}

sub cores {
    my $n = () = Stockade::slurp('/proc/cpuinfo') =~ /^processor\s/mg;
    return $n || 1;
}

1;
