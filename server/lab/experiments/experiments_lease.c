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
               .see = "a reads the stock and then pauses for longer than its "
                      "lease. The lease ends (L), b gets the lock and reads "
                      "the same stock. Both sell the only unit.",
               .why = "A lease lasts for a fixed time: Redis deletes the key "
                      "after ten seconds, whether a is done or not. Nobody "
                      "tells a. It still believes that it has the lock.",
               .fix = "A watchdog: a thread of a's process renews the lease "
                      "while a works (aw), so that b finds the lock taken.",
               .rest = "When the whole process stands still, the watchdog in "
                       "it does so, too: see 12."},
          [EXPERIMENT_ZH] =
              {.title = "干得比租约久",
               .symptom = "两个持有者，超卖",
               .see = "a 读了库存，然后停顿得比租约还久。租约到期（L），b "
                      "拿到锁，读到同样的库存。唯一的一件被卖了两次。",
               .why =
                   "租约只在一段时间内有效：十秒一到，不管 a 做完没有，Redis "
                   "都会删掉这个键，而且没有人通知 a。a 还以为锁在自己手里。",
               .fix = "看门狗：只要 a 还在工作，a "
                      "进程里的一个线程就不断续租（aw），"
                      "b 会发现锁仍被占用。",
               .rest = "如果整个进程都停住，里面的看门狗也会停住：见 12。"}},
     .bug = {.scene = EXPERIMENT_SCENE("set-nx-px", .buyers = 2, .stock = 1),
             .schedule = "a a L b b a a b b",
             .faults = EXPERIMENT_FAULT(STAGE_OVERSOLD) |
                       EXPERIMENT_FAULT(STAGE_TWO_LATE),
             .sold = 2},
     .fix = {.scene = EXPERIMENT_SCENE("watchdog", .buyers = 2, .stock = 1),
             .schedule = "a a aw aw aw aw b a a a b b b b",
             .sold = 1},
     .rest = {.scene = EXPERIMENT_SCENE("watchdog", .buyers = 2, .stock = 1),
              .schedule = "a a L b b a a b b",
              .faults = EXPERIMENT_FAULT(STAGE_OVERSOLD) |
                        EXPERIMENT_FAULT(STAGE_TWO_LATE),
              .sold = 2}},
    {.id = "12",
     .name = "stop-the-world",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "Stop the world",
               .symptom = "two holders: the watchdog slept too",
               .see = "The whole process of a stands still for longer than its "
                      "lease, and so does the watchdog in it. The lease ends "
                      "(L), b gets in, and both sell the only unit.",
               .why = "A watchdog is a thread of the process that it watches. "
                      "A garbage collection, SIGSTOP or the move of a virtual "
                      "machine stops both of them.",
               .fix =
                   "Fencing: each grant has a token, and tokens rise. b "
                   "announces its token to the database before it reads. a's "
                   "write comes with a lower token, and the database refuses "
                   "it. a tries again, and finds that nothing is left."},
          [EXPERIMENT_ZH] =
              {.title = "Stop-the-World：整个进程停住",
               .symptom = "两个持有者：看门狗也睡着了",
               .see = "a "
                      "的整个进程停住，停得比租约还久，里面的看门狗也一样。租约"
                      "到期（L），b 进来，唯一的一件被卖了两次。",
               .why = "看门狗只是被看护进程里的一个线程。垃圾回收、SIGSTOP、"
                      "虚拟机迁移，都会让两者一起停下。",
               .fix = "栅栏令牌（fencing "
                      "token）：每次拿到锁都得到一个令牌，令牌只增不减。b "
                      "读库存之前，先在数据库登记自己的令牌；a "
                      "醒来后带着更小的令牌来写，就会被数据库拒绝。a "
                      "重试一次，发现已经售罄。"}},
     .bug = {.scene = EXPERIMENT_SCENE("watchdog", .buyers = 2, .stock = 1),
             .schedule = "a a L b b a a b a b b",
             .faults = EXPERIMENT_FAULT(STAGE_OVERSOLD) |
                       EXPERIMENT_FAULT(STAGE_TWO_LATE),
             .sold = 2},
     .fix = {.scene = EXPERIMENT_SCENE("fenced", .buyers = 2, .stock = 1),
             .schedule = "a a a a L b b b b a a b b b a a a a a",
             .faults = EXPERIMENT_FAULT(STAGE_TWO_LATE),
             .sold = 1}},
    {.id = "13",
     .name = "fencing-too-late",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "Fencing too late",
               .symptom = "oversold although tokens rise",
               .see =
                   "a has a token, and b has a higher one. The database "
                   "compares tokens at each write. But a writes first: the "
                   "database has not seen b's token yet and accepts the write. "
                   "Then b writes what it computed from the old stock.",
               .why = "Tokens are compared when the stock is written, but the "
                      "mistake is made when it is read: b read the stock while "
                      "a could still write.",
               .fix = "b announces its token before it reads. From then on the "
                      "database refuses a, and what b has read stays true."},
          [EXPERIMENT_ZH] =
              {.title = "栅栏令牌来得太晚",
               .symptom = "令牌在递增，照样超卖",
               .see =
                   "a 有令牌，b 的令牌更大，数据库在每次写入时比较令牌。但是 a "
                   "先写：数据库还没见过 b 的令牌，于是接受了这次写入。然后 b "
                   "把按旧库存算好的数写了进去。",
               .why = "令牌在写的时候才比较，而错误在读的时候就已发生：b "
                      "读库存时，a 还能写。",
               .fix = "b 在读之前先登记自己的令牌。从这一刻起数据库拒绝 a，"
                      "b 读到的数据就一直有效。"}},
     .bug = {.scene = EXPERIMENT_SCENE("fenced-late", .buyers = 2, .stock = 1),
             .schedule = "a a a L b b b a a a b b b",
             .faults = EXPERIMENT_FAULT(STAGE_OVERSOLD) |
                       EXPERIMENT_FAULT(STAGE_TWO_LATE),
             .sold = 2},
     .fix = {.scene = EXPERIMENT_SCENE("fenced", .buyers = 2, .stock = 1),
             .schedule = "a a a a L b b b b a a b b b a a a a a",
             .faults = EXPERIMENT_FAULT(STAGE_TWO_LATE),
             .sold = 1}},
};

const struct experiment_family experiments_lease = {
    .title = {[EXPERIMENT_EN] = "When the lease ends too early",
              [EXPERIMENT_ZH] = "租约提前到期"},
    .kind = &steps_kind,
    .experiments = experiments,
    .n = sizeof(experiments) / sizeof(experiments[0]),
};
