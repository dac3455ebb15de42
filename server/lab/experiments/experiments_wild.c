/*
 * Experiments: the lessons of the ladder once more, in the wild: real processes of
 * `stockade serve`, which stop, die and go on, with a redis-server that tells the
 * time by itself. See server/lab/load/load.h.
 */
#include "server/lab/experiments/families.h"
#include "server/lab/load/load.h"

#define FAULT EXPERIMENT_FAULT

/* Who does not get the lock is told so after this time. */
#define WAIT LOAD_NAIVE " --lock-wait-ms 400"

/* Where a holder is when it is stopped, held or killed. */
#define INSIDE     "--lab-failpoint naive-update:before="
#define LEASE      "--lock-lease-ms 400 "
#define LONG_LEASE "--lock-lease-ms 20000 "
#define RENEWED    "--lab-lease-ms 400 "

#define LOAD(lock_name, ...)                                                   \
    (&(const struct experiment_load){.lock = (lock_name), __VA_ARGS__})

static const struct experiment experiments[] = {
    {.id = "04w",
     .name = "the-exception-in-the-wild",
     .text =
         {{.title = "t", .symptom = "s", .see = "x", .why = "y", .fix = "z"},
          {.title = "t", .symptom = "s", .see = "x", .why = "y", .fix = "z"}},
     .bug = {.load = LOAD("setnx", .flags = WAIT, .instances = 2, .stock = 3,
                          .each = {"--lab-leaky --lab-failpoint "
                                   "naive-select:before=error*1"},
                          .story = "a b*3"),
             .faults = FAULT(STAGE_FOREVER)},
     .fix = {.load = LOAD("setnx-finally", .flags = WAIT, .instances = 2,
                          .stock = 3,
                          .each = {"--lab-failpoint "
                                   "naive-select:before=error*1"},
                          .story = "a b*3"),
             .sold = 3}},
    {.id = "05w",
     .name = "the-losers-finally-in-the-wild",
     .text =
         {{.title = "t", .symptom = "s", .see = "x", .why = "y", .fix = "z"},
          {.title = "t", .symptom = "s", .see = "x", .why = "y", .fix = "z"}},
     .bug = {.load = LOAD("setnx-finally", .flags = WAIT, .instances = 2,
                          .stock = 3, .each = {INSIDE "hold*1"},
                          .story = "a& a. b b*2 a> a= b*2"),
             .faults = FAULT(STAGE_OVERSOLD),
             .sold = 5},
     .fix = {.load = LOAD("set-nx-px", .flags = WAIT, .instances = 2,
                          .stock = 3, .each = {INSIDE "hold*1"},
                          .story = "a& a. b b*2 a> a= b*2"),
             .sold = 3}},
    {.id = "06w",
     .name = "the-crash-in-the-wild",
     .text =
         {{.title = "t", .symptom = "s", .see = "x", .why = "y", .fix = "z"},
          {.title = "t", .symptom = "s", .see = "x", .why = "y", .fix = "z"}},
     .bug = {.load =
                 LOAD("setnx", .flags = WAIT, .instances = 2, .stock = 3,
                      .each = {LEASE INSIDE "crash*1"}, .story = "a& a. L b*3"),
             .faults = FAULT(STAGE_FOREVER)},
     .fix = {.load =
                 LOAD("set-nx-px", .flags = WAIT, .instances = 2, .stock = 3,
                      .each = {LEASE INSIDE "crash*1"}, .story = "a& a. L b*3"),
             .sold = 3}},
    {.id = "07w",
     .name = "between-two-commands-in-the-wild",
     .text =
         {{.title = "t", .symptom = "s", .see = "x", .why = "y", .fix = "z"},
          {.title = "t", .symptom = "s", .see = "x", .why = "y", .fix = "z"}},
     .bug = {.load = LOAD(
                 "setnx-expire", .flags = WAIT, .instances = 2, .stock = 3,
                 .each = {LEASE "--lab-failpoint "
                                "expire:before=crash,set-nx-px:after=crash"},
                 .story = "a& a. L b*3"),
             .faults = FAULT(STAGE_FOREVER)},
     .fix = {.load = LOAD(
                 "set-nx-px", .flags = WAIT, .instances = 2, .stock = 3,
                 .each = {LEASE "--lab-failpoint "
                                "expire:before=crash,set-nx-px:after=crash"},
                 .story = "a& a. L b*3"),
             .sold = 3}},
    {.id = "08w",
     .name = "longer-than-the-lease-in-the-wild",
     .text =
         {{.title = "t", .symptom = "s", .see = "x", .why = "y", .fix = "z"},
          {.title = "t", .symptom = "s", .see = "x", .why = "y", .fix = "z"}},
     .bug = {.load = LOAD("set-nx-px", .flags = WAIT, .instances = 2,
                          .stock = 3, .each = {LEASE INSIDE "hold*1"},
                          .story = "a& a. L b*2 a> a= b*3"),
             .faults = FAULT(STAGE_OVERSOLD),
             .sold = 5},
     .fix = {.load = LOAD("watchdog", .flags = WAIT, .instances = 2, .stock = 3,
                          .each = {RENEWED INSIDE "hold*1"},
                          .story = "a& a. L b*2 a> a= b*3"),
             .sold = 3}},
    {.id = "09w",
     .name = "a-frees-b-in-the-wild",
     .text =
         {{.title = "t", .symptom = "s", .see = "x", .why = "y", .fix = "z"},
          {.title = "t", .symptom = "s", .see = "x", .why = "y", .fix = "z"}},
#define CHAIN                                                                  \
    .flags = WAIT, .instances = 3, .stock = 4,                                 \
    .story = "a& a. L b& b. a> c& c. b> b= a c> c= a*3",                       \
    .each = {LEASE "--lab-failpoint del:before=stop*1,"                        \
                   "eval-release:before=stop*1",                               \
             LONG_LEASE INSIDE "hold*1", LONG_LEASE INSIDE "hold*1"}
     .bug = {.load = LOAD("set-nx-px", CHAIN),
             .faults = FAULT(STAGE_OVERSOLD),
             .sold = 6},
     .fix = {.load = LOAD("token-lua", CHAIN), .sold = 4}},
    {.id = "10w",
     .name = "same-name-two-houses-in-the-wild",
     .text =
         {{.title = "t", .symptom = "s", .see = "x", .why = "y", .fix = "z"},
          {.title = "t", .symptom = "s", .see = "x", .why = "y", .fix = "z"}},
#define FREED(step)                                                            \
    .flags = WAIT " --workers 1", .instances = 3, .stock = 3,                  \
    .story = "a& a. L b& b. a> a= c b> b= c*3",                                \
    .each = {LEASE "--lab-failpoint " step, LONG_LEASE INSIDE "hold*1",        \
             LONG_LEASE}
     .bug = {.load = LOAD("token-thread", FREED("get:before=stop*1")),
             .faults = FAULT(STAGE_OVERSOLD),
             .sold = 4},
     .fix = {.load = LOAD("token", FREED("get:before=stop*1")), .sold = 3}},
    {.id = "11w",
     .name = "between-get-and-del-in-the-wild",
     .text =
         {{.title = "t", .symptom = "s", .see = "x", .why = "y", .fix = "z"},
          {.title = "t", .symptom = "s", .see = "x", .why = "y", .fix = "z"}},
     .bug = {.load = LOAD("token", FREED("del:before=stop*1,"
                                         "eval-release:before=stop*1")),
             .faults = FAULT(STAGE_OVERSOLD),
             .sold = 4},
     .fix = {.load = LOAD("token-lua", FREED("del:before=stop*1,"
                                             "eval-release:before=stop*1")),
             .sold = 3}},
    {.id = "12w",
     .name = "stop-the-world-in-the-wild",
     .text =
         {{.title = "t", .symptom = "s", .see = "x", .why = "y", .fix = "z"},
          {.title = "t", .symptom = "s", .see = "x", .why = "y", .fix = "z"}},
     .bug = {.load = LOAD("watchdog", .flags = WAIT, .instances = 2, .stock = 3,
                          .each = {RENEWED INSIDE "stop*1"},
                          .story = "a& a. L b*2 a> a= b*3"),
             .faults = FAULT(STAGE_OVERSOLD),
             .sold = 5},
     .fix = {.load = LOAD("fenced", .flags = WAIT, .instances = 2, .stock = 3,
                          .each = {RENEWED INSIDE "stop*1"},
                          .story = "a& a. L b*2 a> a= b*3"),
             .sold = 3}},
    {.id = "13w",
     .name = "fencing-too-late-in-the-wild",
     .text =
         {{.title = "t", .symptom = "s", .see = "x", .why = "y", .fix = "z"},
          {.title = "t", .symptom = "s", .see = "x", .why = "y", .fix = "z"}},
#define LATE                                                                   \
    .flags = WAIT, .instances = 2, .stock = 3,                                 \
    .story = "a& a. L b& b. a> a= b> b= b*3",                                  \
    .each = {RENEWED INSIDE "stop*1", INSIDE "hold*1"}
     .bug = {.load = LOAD("fenced-late", LATE),
             .faults = FAULT(STAGE_OVERSOLD),
             .sold = 4},
     .fix = {.load = LOAD("fenced", LATE), .sold = 3}},
    {.id = "14w",
     .name = "the-eternal-lock-in-the-wild",
     .text =
         {{.title = "t", .symptom = "s", .see = "x", .why = "y", .fix = "z"},
          {.title = "t", .symptom = "s", .see = "x", .why = "y", .fix = "z"}},
#define HANGS                                                                  \
    .flags = WAIT " --lock-max-hold-ms 500", .instances = 2, .stock = 3,       \
    .story = "a& a. L b*2", .each = {RENEWED INSIDE "hold*1"}
     .bug = {.load = LOAD("guard-thread", HANGS), .faults = FAULT(STAGE_HELD)},
     .fix = {.load = LOAD("watchdog", HANGS), .sold = 2}},
    {.id = "15w",
     .name = "one-flag-for-all-in-the-wild",
     .text =
         {{.title = "t", .symptom = "s", .see = "x", .why = "y", .fix = "z"},
          {.title = "t", .symptom = "s", .see = "x", .why = "y", .fix = "z"}},
#define TWO_PRODUCTS                                                           \
    .flags = WAIT, .instances = 2, .stock = 3,                                 \
    .story = "a& a. a/2 L b*2 a> a= b*3", .each = {RENEWED INSIDE "hold*1"}
     .bug = {.load = LOAD("guard-thread", TWO_PRODUCTS),
             .faults = FAULT(STAGE_OVERSOLD),
             .sold = 6},
     .fix = {.load = LOAD("watchdog", TWO_PRODUCTS), .sold = 4}},
};

const struct experiment_family experiments_wild = {
    .title = {[EXPERIMENT_EN] = "The same in the wild",
              [EXPERIMENT_ZH] = "真实进程中的重演"},
    .kind = "load",
    .experiments = experiments,
    .n = sizeof(experiments) / sizeof(experiments[0]),
    .run = load_run,
    .scene = load_scene,
};
