/*
 * Experiments: a lease ends while its holder still works. What the next one then
 * meets, and why each mending but the last leaves a hole.
 */
#include "server/lab/experiments/families.h"

static const struct experiment experiments[] = {
    {.id = "08",
     .name = "longer-than-the-lease",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "Longer than the lease",
               .symptom = "two holders, oversold",
               .see = "a reads the stock and then takes a break that is longer "
                      "than its lease. The lease ends (L), b gets the lock and "
                      "reads the same stock. Both sell the only unit.",
               .why =
                   "A lease is a promise of time: Redis deletes the key after "
                   "ten seconds, whether a is done or not. Nobody tells a. "
                   "To a, it still looks as if it had the lock.",
               .fix = "A watchdog: a thread of a's process renews the lease "
                      "while a works (aw), so that b finds the lock taken. It "
                      "does not help when the whole process stands still: see "
                      "12."},
          [EXPERIMENT_ZH] =
              {.title = "干得比租约久",
               .symptom = "两个持有者，超卖",
               .see =
                   "a 读了库存，然后停顿了一下，停得比租约还久。租约到期（L），"
                   "b 拿到锁，读到同样的库存。唯一的一件商品被卖了两次。",
               .why =
                   "租约只是一段时间的承诺：十秒一到，不管 a 做完没有，Redis "
                   "都会删掉这个键，而且没有人通知 a。在 a "
                   "看来，锁还在自己手里。",
               .fix =
                   "看门狗：只要 a 还在工作，a "
                   "进程里的一个线程就不断续租（aw），"
                   "b 会发现锁仍被占用。但如果整个进程都停住，看门狗也救不了，"
                   "见 12。"}},
     .bug = {.scene = EXPERIMENT_SCENE("set-nx-px", .buyers = 2, .stock = 1),
             .schedule = "a a L b b a a b b",
             .faults = EXPERIMENT_FAULT(STAGE_OVERSOLD),
             .sold = 2},
     .fix = {.scene = EXPERIMENT_SCENE("watchdog", .buyers = 2, .stock = 1),
             .schedule = "a a aw aw aw aw b a a a b b b b",
             .sold = 1}},
};

const struct experiment_family experiments_lease = {
    .title = {[EXPERIMENT_EN] = "When the lease ends too early",
              [EXPERIMENT_ZH] = "租约提前到期"},
    .kind = "steps",
    .experiments = experiments,
    .n = sizeof(experiments) / sizeof(experiments[0]),
    .run = steps_run,
    .scene = steps_scene,
};
