/*
 * stockade: an order service for flash sales, and a laboratory for the locks
 * it needs. Each subcommand is a row below and a file of its own.
 */
#include <stdio.h>
#include <string.h>

#include "server/audit.h"
#include "server/lab/lab.h"
#include "server/serve.h"

static int help_main(int argc, char *argv[]);

static const struct command {
    const char *name;
    int (*main)(int argc, char *argv[]);
    const char *help;
} commands[] = {
    {"serve", serve_main, "sell: the HTTP order service"},
    {"audit", audit_main, "check the ledger: is every unit accounted for?"},
    {"lab", lab_main, "experiments with locks"},
    {"help", help_main, "show this"},
};

#define COMMANDS_N (sizeof(commands) / sizeof(commands[0]))

static void usage(FILE *out)
{
    fprintf(out, "usage: stockade COMMAND [--help | flags]\n\n");
    for (size_t i = 0; i < COMMANDS_N; i++)
        fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].help);
}

static int help_main(int argc, char *argv[])
{
    (void)argc;
    (void)argv;
    usage(stdout);
    return 0;
}

static const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < COMMANDS_N; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return &commands[COMMANDS_N - 1];
    return NULL;
}

int main(int argc, char *argv[])
{
    const struct command *command = argc > 1 ? command_find(argv[1]) : NULL;

    if (command)
        return command->main(argc - 1, argv + 1);
    if (argc > 1)
        fprintf(stderr, "stockade: there is no command '%s'\n", argv[1]);
    usage(stderr);
    return 2;
}
