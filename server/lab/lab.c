/*
 * `stockade lab`: each experiment is a row below and a file of its own.
 */
#include "server/lab/lab.h"

#include <stdio.h>
#include <string.h>

#include "server/lab/lab_locks.h"
#include "server/log.h"

static const struct experiment {
    const char *name;
    int (*main)(int argc, char *argv[]);
    const char *help;
} experiments[] = {
    {"locks", lab_locks_main,
     "measure which properties every lock holds, and print the table"},
};

#define EXPERIMENTS_N (sizeof(experiments) / sizeof(experiments[0]))

static void usage(FILE *out)
{
    fprintf(out, "usage: stockade lab EXPERIMENT [--help | flags]\n\n");
    for (size_t i = 0; i < EXPERIMENTS_N; i++)
        fprintf(out, "  %-8s %s\n", experiments[i].name, experiments[i].help);
}

int lab_main(int argc, char *argv[])
{
    const char *name = argc > 1 ? argv[1] : "";

    /* Servers die here on purpose. */
    log_level_set(LOG_ERROR);
    for (size_t i = 0; i < EXPERIMENTS_N; i++)
        if (strcmp(experiments[i].name, name) == 0)
            return experiments[i].main(argc - 1, argv + 1);
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        usage(stdout);
        return 0;
    }
    if (*name)
        fprintf(stderr, "stockade: lab has no experiment '%s'\n", name);
    usage(stderr);
    return 2;
}
