# Runs the script that uses this in namespaces of its own: network, processes, mounts,
# and a /run that nobody else sees. So nothing that the script makes there outlives
# it, however it ends: when its first process is gone, the kernel ends all others,
# and takes down the network and /run.
package Hosts::Apart;

use strict;
use warnings;

# sh is the first process; the script has the signals and the zombies of any other.
my $FIRST = 'mount -t tmpfs -o mode=1777 tmpfs /run && "$@"; exit $?';

sub import {
    return if $^C;    # perl -c only looks
    if (!$ENV{HOSTS_APART}) {
        @ENV{qw(HOSTS_APART TMPDIR)} = (1, '/run');
        exec qw(unshare --net --mount --pid --fork --kill-child --mount-proc sh -c), $FIRST, 'sh', $^X, $0, @ARGV
            or die "unshare: $!\n";
    }
    delete $ENV{HOSTS_APART};
    return;
}

1;
