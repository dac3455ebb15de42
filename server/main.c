/*
 * stockade: an order service for flash sales, and a laboratory for the locks
 * it needs. Each subcommand is a row below and a file of its own.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "lock/textbook/textbook.h"
#include "server/commands.h"
#include "server/lab/base/fail.h"
#include "server/lab/lab.h"

static const struct command {
    const char *name;
    int (*main)(int argc, char *argv[]);
    const char *help;
} commands[] = {
    {"serve", serve_main, "sell: the HTTP order service"},
    {"audit", audit_main, "check the ledger: is every unit accounted for?"},
    {"lab", lab_main, "experiments with locks"},
    {"explore", lab_stage_main,
     "find the shortest schedules that break a lock"},
    {"replay", lab_stage_main, "play a schedule against a lock, step by step"},
    {"help", NULL, "show this"},
};

#define TEXT(version)  TEXT_(version)
#define TEXT_(version) #version

#define COMMANDS_N (sizeof(commands) / sizeof(commands[0]))

int main(int argc, char *argv[])
{
    const char *name = argc > 1 ? argv[1] : "";
    bool is_help = strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 ||
                   strcmp(name, "-h") == 0;
    FILE *out = is_help ? stdout : stderr;

    if (strcmp(name, "--version") == 0 ||
        (argc > 2 && strcmp(argv[2], "--version") == 0)) {
        puts("stockade " TEXT(STOCKADE_VERSION));
        return fail_unless_told(0);
    }
    /* Ignored, as a parent may pass it on, it frees the pid of a child that has ended:
     * another process could have it when we kill by it. */
    (void)signal(SIGCHLD, SIG_DFL);
    dlock_register_all();
    for (size_t i = 0; i < COMMANDS_N; i++)
        if (commands[i].main && strcmp(commands[i].name, name) == 0)
            return fail_unless_told(commands[i].main(argc - 1, argv + 1));
    if (argc > 1 && !is_help)
        fprintf(stderr, "stockade: there is no command '%s'\n", name);
    fprintf(out, "usage: stockade COMMAND [--help | flags]\n"
                 "       stockade --version\n\n");
    for (size_t i = 0; i < COMMANDS_N; i++)
        fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].help);
    return fail_unless_told(is_help ? 0 : 2);
}
