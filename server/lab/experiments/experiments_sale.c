/*
 * Experiments: a sale with a crowd. What only numbers show: how much an order costs
 * without a lock, with one that is only known here, and with one that all can see.
 */
#include "server/lab/experiments/families.h"
#include "server/lab/load/load.h"

#define FAULT EXPERIMENT_FAULT

/* As a textbook's order: it reads, thinks for a millisecond, and writes. */
#define TEXTBOOK LOAD_NAIVE " --think-ms 1"

#define LOAD(lock_name, ...)                                                   \
    (&(const struct experiment_load){.lock = (lock_name), __VA_ARGS__})

/* Nobody is refused for want of time, also where all is slow. */
#define PATIENT " --lock-wait-ms 12000 --request-deadline-ms 30000"

/* The literature's: 800 orders for 100 units within one second. */
#define BURST                                                                  \
    .instances = 2, .stock = 100, .flags = TEXTBOOK PATIENT,                   \
    .crowd = {.buyers = 800, .orders = 800, .within_ms = 1000}

static const struct experiment experiments[] = {
    {.id = "01",
     .name = "no-lock",
     .text =
         {{.title = "t", .symptom = "s", .see = "x", .why = "y", .fix = "z"},
          {.title = "t", .symptom = "s", .see = "x", .why = "y", .fix = "z"}},
     .bug = {.load = LOAD("none", .instances = 1, .stock = 1000,
                          .flags = TEXTBOOK, .wrk_connections = 64),
             .faults = FAULT(STAGE_OVERSOLD),
             .sold = LOAD_SOLD_ANY},
     .fix = {.load = LOAD("none", .instances = 1, .stock = 1000,
                          .flags = "--deduct guarded --orders one-by-one "
                                   "--think-ms 1",
                          .wrk_connections = 64),
             .sold = LOAD_SOLD_ANY}},
    {.id = "02",
     .name = "one-process-is-fine",
     .text =
         {{.title = "t", .symptom = "s", .see = "x", .why = "y", .fix = "z"},
          {.title = "t", .symptom = "s", .see = "x", .why = "y", .fix = "z"}},
     .bug = {.load = LOAD("process", .instances = 1, .stock = 1000,
                          .flags = TEXTBOOK, .wrk_connections = 64),
             .sold = LOAD_SOLD_ANY}},
    {.id = "03",
     .name = "two-instances-are-not",
     .text =
         {{.title = "t", .symptom = "s", .see = "x", .why = "y", .fix = "z"},
          {.title = "t", .symptom = "s", .see = "x", .why = "y", .fix = "z"}},
     .bug = {.load = LOAD("process", BURST),
             .faults = FAULT(STAGE_OVERSOLD),
             .sold = LOAD_SOLD_ANY},
     .fix = {.load = LOAD("token-lua", BURST), .sold = 100}},
};

const struct experiment_family experiments_sale = {
    .title = {[EXPERIMENT_EN] = "A sale with a crowd",
              [EXPERIMENT_ZH] = "人山人海的秒杀"},
    .kind = "load",
    .experiments = experiments,
    .n = sizeof(experiments) / sizeof(experiments[0]),
    .run = load_run,
    .scene = load_scene,
};
