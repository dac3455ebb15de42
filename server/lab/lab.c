/*
 * `stockade lab`: each of its commands is a row below.
 */
#include "server/lab/lab.h"

#include <stdio.h>
#include <string.h>

#include "server/base/log.h"
#include "server/lab/lab_locks.h"
#include "server/lab/lab_stage.h"

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
