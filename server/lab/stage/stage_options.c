/* See stage_options.h. */
#include "server/lab/stage/stage_options.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/dlock.h"

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

void stage_options_catch_signals(void)
{
    (void)signal(SIGINT, on_signal);
    (void)signal(SIGTERM, on_signal);
}

bool stage_options_interrupted(void)
{
    return interrupted;
}

int64_t stage_options_number(const char *text, int64_t most)
{
    char *end;
    long long number = strtoll(text, &end, 10);

    return *text && *end == '\0' && number >= 0 && number <= most ? number : -1;
}

/* "lock-nested,order": the first is of a, the second of b, ... */
static void take_programs(struct stage_scene *scene, char *list)
{
    char *rest = NULL;

    for (unsigned i = 0; i < STAGE_ACTORS_MAX; i++)
        scene->roles[i].program = strtok_r(i == 0 ? list : NULL, ",", &rest);
}

bool stage_options_take(struct stage_scene *scene, const char *name, char *arg)
{
    const struct {
        const char *name;
        int64_t *value;
        int64_t least, most;
    } numbers[] = {
        {"stock", &scene->stock, 0, 1000},
        {"quantity", &scene->quantity, 1, 1000},
        {"wait-ms", &scene->wait_ms, 0, 60000},
        {"lease-ms", &scene->lease_ms, 0, 3600000},
        {"products", &scene->products, 1, 10},
        {"segments", &scene->segments, 1, 8},
    };
    int64_t number;

    scene->one_process = scene->one_process || strcmp(name, "one-process") == 0;
    scene->replica = scene->replica || strcmp(name, "replica") == 0;
    if (strcmp(name, "batched") == 0) {
        scene->batched = true;
        scene->deduct = DEDUCT_GUARDED;
        return true;
    }
    if (strcmp(name, "programs") == 0)
        take_programs(scene, arg);
    if (strcmp(name, "one-process") == 0 || strcmp(name, "replica") == 0 ||
        strcmp(name, "programs") == 0)
        return true;

    if (strcmp(name, "deduct") == 0) {
        scene->deduct =
            strcmp(arg, "guarded") == 0 ? DEDUCT_GUARDED : DEDUCT_NAIVE;
        if (strcmp(arg, "guarded") == 0 || strcmp(arg, "naive") == 0)
            return true;
        fprintf(stderr, "stockade: --deduct takes naive or guarded\n");
        return false;
    }
    if (strcmp(name, "buyers") == 0) {
        number = stage_options_number(arg, STAGE_ACTORS_MAX);
        scene->buyers = (unsigned)number;
        if (number > 0)
            return true;
        fprintf(stderr, "stockade: --buyers takes 1 to %d\n", STAGE_ACTORS_MAX);
        return false;
    }
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (strcmp(name, numbers[i].name) != 0)
            continue;
        *numbers[i].value = stage_options_number(arg, numbers[i].most);
        if (*numbers[i].value >= numbers[i].least)
            return true;
        fprintf(stderr, "stockade: --%s takes %" PRId64 " to %" PRId64 "\n",
                name, numbers[i].least, numbers[i].most);
    }
    return false;
}

void stage_options_no_lock(const char *name)
{
    const struct dlock_strategy_info *info;

    fprintf(stderr, "stockade: there is no lock '%s'; there are:", name);
    for (size_t i = 0; (info = dlock_strategy_info(i)) != NULL; i++)
        fprintf(stderr, " %s", info->name);
    fputc('\n', stderr);
}
