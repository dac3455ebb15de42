/*
 * stockade-lab: the program behind `stockade explore` and `stockade replay`. It is
 * one of its own because it is linked so that actors block, sleep and read the
 * time where the stage wants them to (wraps.c): what sells has none of that.
 */
#include <stdio.h>
#include <string.h>

#include "lock/dlock_textbook.h"
#include "server/lab/stage/stage_commands.h"

int main(int argc, char *argv[])
{
    const char *name = argc > 1 ? argv[1] : "";

    dlock_register_all();
    if (strcmp(name, "explore") == 0)
        return explore_main(argc - 1, argv + 1);
    if (strcmp(name, "replay") == 0)
        return replay_main(argc - 1, argv + 1);
    fprintf(stderr, "stockade-lab: to be called as stockade explore, or "
                    "stockade replay\n");
    return 2;
}
