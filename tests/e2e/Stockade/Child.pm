# A child process that is always ended: by itself, by stop(), or by our END.
package Stockade::Child;

use strict;
use warnings;

use Fcntl qw(F_SETFD FD_CLOEXEC);
use POSIX qw(WNOHANG SIG_BLOCK SIG_SETMASK SIGINT SIGTERM SIGHUP);
use Time::HiRes qw(time);

my $owner = $$;    # a forked client must not kill its parent's children
my %running;       # pid => object

# A copy of this process that does WORK: no END block runs in it, and the temporary
# directories stay. A signal that ends us must wait until %running has the child.
sub copy {
    my ($class, $work) = @_;
    my $before = POSIX::SigSet->new;
    POSIX::sigprocmask(SIG_BLOCK, POSIX::SigSet->new(SIGINT, SIGTERM, SIGHUP), $before);
    my $pid = fork // die "fork: $!";
    if (!$pid) {
        $SIG{$_} = 'DEFAULT' for qw(TERM INT HUP PIPE);
        POSIX::sigprocmask(SIG_SETMASK, $before);
        my $done = eval { $work->(); 1 } or print STDERR "a copy: $@";
        POSIX::_exit($done ? 0 : 1);
    }
    my $self = $running{$pid} = bless { pid => $pid, text => '' }, $class;
    POSIX::sigprocmask(SIG_SETMASK, $before);
    return $self;
}

# command  program and arguments
# env      variables to add; undef takes one away
# cwd      directory to run in
# stdout, stderr   files to write to
# log      a file for both; wait_for_line() follows it
sub spawn {
    my ($class, %with) = @_;
    my ($from, $to);
    pipe $from, $to or die "pipe: $!" if $with{log};
    my $self = $class->copy(sub { _become(\%with, $to) });
    if ($with{log}) {
        close $to;
        $self->{pipe} = $from;
        $self->{file} = $with{log};
    }
    return $self;
}

# In the child: never returns.
sub _become {
    my ($with, $to) = @_;
    open STDIN, '<', $with->{stdin} || '/dev/null' or POSIX::_exit(126);
    _redirect(*STDOUT, $to, $with->{stdout});
    _redirect(*STDERR, $to, $with->{stderr});
    my %env = %{ $with->{env} || {} };
    defined $env{$_} ? ($ENV{$_} = $env{$_}) : delete $ENV{$_} for keys %env;
    chdir $with->{cwd} or POSIX::_exit(126) if $with->{cwd};
    { no warnings 'exec'; exec { $with->{command}[0] } @{ $with->{command} } }
    print STDERR "cannot run $with->{command}[0]: $!\n";
    POSIX::_exit(127);
}

sub _redirect {
    my ($handle, $pipe, $path) = @_;
    my $done = $pipe ? open $handle, '>&', $pipe : open $handle, '>', $path || '/dev/null';
    POSIX::_exit(126) if !$done;
    return;
}

sub pid { return $_[0]{pid} }

# Reads what the child writes until a line matches; returns the match's first
# group. undef if the child closed its output or SECONDS are over. From then on a
# cat copies the output to the file, so that the child never waits for a full pipe.
sub wait_for_line {
    my ($self, $pattern, $seconds) = @_;
    my $end = time + $seconds;
    my $found;
    while (1) {
        last if ($found) = $self->{text} =~ /^.*$pattern.*$/m;
        my $left = $end - time;
        my $bits = '';
        vec($bits, fileno $self->{pipe}, 1) = 1;
        last if $left <= 0 || !select($bits, undef, undef, $left);
        last if !sysread $self->{pipe}, $self->{text}, 65536, length $self->{text};
    }
    $self->_drain;
    return $found;
}

sub _drain {
    my ($self) = @_;
    open my $file, '>', $self->{file} or die "$self->{file}: $!";
    $self->{drain} = ref($self)->copy(sub {
        open STDIN,  '<&', $self->{pipe} or POSIX::_exit(126);
        open STDOUT, '>&', $file or POSIX::_exit(126);
        open STDERR, '>', '/dev/null';
        exec 'cat' or POSIX::_exit(127);
    });
    close $self->{pipe};
    return;
}

# All it wrote so far.
sub log {
    my ($self) = @_;
    return $self->{text} . ($self->{file} ? Stockade::slurp($self->{file}) : '');
}

# Its exit code (128 + signal as in the shell), or undef after SECONDS.
sub wait {
    my ($self, $seconds) = @_;
    return $self->{exit} if defined $self->{exit};
    my $got = 0;
    eval {
        local $SIG{ALRM} = sub { die "late\n" };
        Time::HiRes::alarm($seconds) if defined $seconds;
        $got = waitpid $self->{pid}, 0;
        my $status = $?;
        Time::HiRes::alarm(0);
        $self->{exit} = $status & 127 ? 128 + ($status & 127) : $status >> 8 if $got == $self->{pid};
        1;
    };
    Time::HiRes::alarm(0);
    return if !defined $self->{exit};
    delete $running{ $self->{pid} };
    $self->_settle;
    return $self->{exit};
}

# Waits until the cat has ended, so that the log is complete. But a grandchild that
# survived (a redis-server) may still have the pipe.
sub _settle {
    my ($self) = @_;
    my $cat = delete $self->{drain} or return;
    $cat->end if !defined $cat->wait(10);
    return;
}

sub alive {
    my ($self) = @_;
    return 0 if defined $self->{exit};
    my $got = waitpid $self->{pid}, WNOHANG;
    return 1 if $got == 0;
    my $status = $?;
    $self->{exit} = $got == $self->{pid} ? ($status & 127 ? 128 + ($status & 127) : $status >> 8) : -1;
    delete $running{ $self->{pid} };
    $self->_settle;
    return 0;
}

sub signal {
    my ($self, $name) = @_;
    return defined $self->{exit} ? 0 : kill $name, $self->{pid};
}

# Stops process PID where it is. The signal goes to one of its threads; the others run on
# until that one gets a processor, which may take long on a busy machine.
sub freeze {
    my ($pid) = @_;
    kill 'STOP', $pid;
    for (1 .. 6000) {
        return if !grep { !_is_stopped($_) } glob "/proc/$pid/task/*/stat";
        select undef, undef, undef, 0.005;
    }
    die "process $pid does not stop\n";
}

# The thread of a file in /proc, or it is not there any more.
sub _is_stopped {
    my ($path) = @_;
    open my $file, '<', $path or return 1;
    my $text = <$file>;
    return !defined $text || $text =~ /\) [TZX] /;
}

# SIGTERM and the exit code; undef if it took longer and was killed.
sub stop {
    my ($self, $seconds) = @_;
    $self->signal('TERM');
    my $exit = $self->wait($seconds);
    $self->end if !defined $exit;
    return $exit;
}

# SIGKILL. It may be stopped by SIGSTOP: SIGKILL ends it all the same.
sub end {
    my ($self) = @_;
    $self->signal('KILL');
    return $self->wait(10);
}

# Process ids of a process's children.
sub children_of {
    my ($parent) = @_;
    my @found;
    for my $path (glob '/proc/[0-9]*/stat') {
        my $stat = Stockade::slurp($path);
        my ($pid, $ppid) = $stat =~ /^(\d+) \(.*\) \S (\d+)/s or next;
        push @found, $pid if $ppid == $parent;
    }
    return @found;
}

# The name of a process, such as "redis-server"; '' when there is none, or only a
# zombie.
sub name_of {
    my ($pid) = @_;
    my ($name, $state) = Stockade::slurp("/proc/$pid/stat") =~ /\((.*)\) (\S)/s;
    return defined $name && $state ne 'Z' ? $name : '';
}

# A copy that comes here all the same must not end its parent's children.
END {
    if ($$ == $owner) {
        my $exit = $?;
        my @left = values %running;
        $_->signal('KILL') for @left;
        $_->wait(5) for @left;
        $? = $exit;
    }
}

1;
