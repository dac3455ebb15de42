/* See lab_stage.h. */
#include "server/lab/lab_stage.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Becomes stockade-lab, which keeps the name by which it was called, for command lines
 * that can be pasted. Returns only if that cannot be. */
static int become(char *command, char *argv[])
{
    char own[PATH_MAX] = "", path[PATH_MAX + 16];
    char *args[64] = {program_invocation_name, command};
    int n = 1;

    if (readlink("/proc/self/exe", own, sizeof(own) - 1) < 0)
        own[0] = '\0';
    (void)snprintf(path, sizeof(path), "%s/stockade-lab", dirname(own));
    while (n < 62 && argv[n]) {
        args[n + 1] = argv[n];
        n++;
    }
    (void)execv(path, args);
    fprintf(stderr, "stockade: %s: cannot start %s: %s\n", command, path,
            strerror(errno));
    return 2;
}

int explore_main(int argc, char *argv[])
{
    (void)argc;
    return become("explore", argv);
}

int replay_main(int argc, char *argv[])
{
    (void)argc;
    return become("replay", argv);
}

int lab_stage_main(int argc, char *argv[])
{
    (void)argc;
    return become(argv[0], argv);
}
