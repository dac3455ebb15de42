/*
 * `stockade lab`: each of its commands is a row below.
 */
#include "server/lab/lab.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/base/child.h"
#include "server/base/log.h"
#include "server/lab/base/fail.h"
#include "server/lab/conform/conform.h"

static const struct command {
    const char *name;
    int (*main)(int argc, char *argv[]);
    const char *help;
} commands[] = {
    {"list", lab_stage_main, "list the experiments"},
    {"show", lab_stage_main, "NAME: what an experiment does, and why"},
    {"run", lab_stage_main,
     "NAME | steps | load | all: run it, with its bug and its fix"},
    {"path", lab_stage_main,
     "[STOP]: a course: break a lock, mend it, see what is still wrong"},
    {"serve", lab_stage_main, "a page on which you break locks by clicking"},
    {"locks", lab_locks_main,
     "measure which properties every lock holds, and print the table"},
};

#define COMMANDS_N (sizeof(commands) / sizeof(commands[0]))

static void usage(FILE *out)
{
    fprintf(out, "usage: stockade lab COMMAND [--help | flags]\n\n");
    for (size_t i = 0; i < COMMANDS_N; i++)
        fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].help);
}

/* Keeps the name by which it was called, for command lines that can be pasted; and "lab",
 * because a list of processes must not show `stockade serve`. */
int lab_stage_main(int argc, char *argv[])
{
    char path[PATH_MAX] = "", **args = calloc((size_t)argc + 3, sizeof(*args));
    /* The commands explore and replay are called without "lab". */
    int n = strcmp(argv[0], "explore") != 0 && strcmp(argv[0], "replay") != 0;

    if (args && child_path("stockade-lab", path)) {
        args[0] = program_invocation_name;
        args[1] = "lab";
        memcpy(&args[n + 1], argv, (size_t)argc * sizeof(*args));
        (void)execv(path, args);
    }
    /* An exec comes back only if it has failed. */
    free(args);
    return fail_to_run("%s: cannot start %s: %s", argv[0], path,
                       strerror(errno));
}

int lab_main(int argc, char *argv[])
{
    const char *name = argc > 1 ? argv[1] : "";

    /* Servers die here on purpose. */
    log_level_set(LOG_ERROR);
    for (size_t i = 0; i < COMMANDS_N; i++)
        if (strcmp(commands[i].name, name) == 0)
            return commands[i].main(argc - 1, argv + 1);
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        usage(stdout);
        return 0;
    }
    if (*name)
        fprintf(stderr, "stockade: lab has no command '%s'\n", name);
    usage(stderr);
    return 2;
}
