/*
 * stockade-lab: the program behind `stockade explore`, `replay`, and `lab list`,
 * `lab show`, `lab run`, `lab path` and `lab serve`. It is one of its own because it is
 * linked so that actors block, sleep and read the time where the stage wants them to
 * (turns/wraps.c): what sells has none of that.
 */
#include <stdio.h>
#include <string.h>

#include "lock/textbook/textbook.h"
#include "server/lab/base/fail.h"
#include "server/lab/experiments/experiment.h"
#include "server/lab/explore/explore.h"
#include "server/lab/path/path.h"
#include "server/lab/replay/game.h"
#include "server/lab/serve/lab_serve.h"

int main(int argc, char *argv[])
{
    static const struct {
        const char *name;
        int (*main)(int argc, char *argv[]);
    } commands[] = {
        {"explore", explore_main}, {"replay", replay_main},
        {"list", lab_list_main},   {"show", lab_show_main},
        {"run", lab_run_main},     {"path", lab_path_main},
        {"serve", lab_serve_main},
    };
    bool is_lab = argc > 1 && strcmp(argv[1], "lab") == 0;
    const char *name;

    /* A command is called with "lab" before it, or without: its name is the first word
     * in either case. */
    argc -= is_lab;
    argv += is_lab;
    name = argc > 1 ? argv[1] : "";
    /* The locks must be registered before any command looks for one by its name. */
    dlock_register_all();
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(commands[i].name, name) == 0)
            return fail_unless_told(commands[i].main(argc - 1, argv + 1));
    fprintf(stderr, "stockade-lab: to be called as stockade explore, replay, "
                    "or lab\n");
    return 2;
}
