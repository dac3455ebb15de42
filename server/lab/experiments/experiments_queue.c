/*
 * Experiments: how to wait for a lock, and whether more locks help. Here the numbers
 * are the point; the ledger has to be right all the same.
 */
#include "server/lab/experiments/families.h"
#include "server/lab/load/measure.h"

#define LOAD(lock_name, ...)                                                   \
    (&(const struct experiment_load){.lock = (lock_name), __VA_ARGS__})

/* Nobody is refused for want of time, also where all is slow. */
#define PATIENT                                                                \
    LOAD_NAIVE " --workers 64 --request-deadline-ms 30000 --lock-wait-ms "

#define FAIL_FAST                                                              \
    .instances = 1, .stock = 64, .crowd = {.buyers = 64, .orders = 64}

#define POLL                                                                   \
    .instances = 1, .stock = 96, .flags = PATIENT "12000 --think-ms 10",       \
    .crowd = {.buyers = 32, .orders = 96}, .measure = measure_waiting

#define QUEUE                                                                  \
    .instances = 4, .stock = 160, .flags = PATIENT "12000 --think-ms 10",      \
    .crowd = {.buyers = 32, .orders = 160}, .measure = measure_overtakes

#define T                                                                      \
    .text = {                                                                  \
        {.title = "t", .symptom = "s", .see = "x", .why = "y", .fix = "z"},    \
        {.title = "t", .symptom = "s", .see = "x", .why = "y", .fix = "z"}}

static const struct experiment experiments[] = {
    {.id = "19",
     .name = "fail-fast",
     T,
     .bug = {.load = LOAD("token-lua", FAIL_FAST,
                          .flags = PATIENT "0 --think-ms 30",
                          .judge = measure_refused),
             .sold = LOAD_SOLD_ANY},
     .fix = {.load = LOAD("redisson", FAIL_FAST,
                          .flags = PATIENT "12000 --think-ms 30",
                          .judge = measure_nobody_refused),
             .sold = 64}},
    {.id = "20",
     .name = "spin",
     T,
     .bug = {.load = LOAD("spin", POLL, .judge = measure_is_late), .sold = 96},
     .fix = {.load = LOAD("redisson", POLL, .judge = measure_is_prompt),
             .sold = 96}},
    {.id = "21",
     .name = "no-queue",
     T,
     .bug = {.load = LOAD("redisson", QUEUE, .judge = measure_is_unfair),
             .sold = 160},
     .fix = {.load = LOAD("fair", QUEUE, .judge = measure_is_fair),
             .sold = 160}},
    {.id = "38",
     .name = "do-segments-help",
     T,
     .bug = {.load = LOAD("fenced", .instances = 1,
                          .flags = "--deduct guarded --workers 64 "
                                   "--request-deadline-ms 30000 "
                                   "--lock-wait-ms 12000",
                          .crowd = {.buyers = 64}, .measure = measure_segments,
                          .judge = measure_segments_as_told),
             .sold = LOAD_SOLD_ANY}},
};

const struct experiment_family experiments_queue = {
    .title =
        {[EXPERIMENT_EN] = "Waiting for a lock", [EXPERIMENT_ZH] = "排队等锁"},
    .kind = "load",
    .experiments = experiments,
    .n = sizeof(experiments) / sizeof(experiments[0]),
    .run = load_run,
    .scene = load_scene,
};
