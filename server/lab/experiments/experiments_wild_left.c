/*
 * Experiments in the wild: a lock that nobody gets any more. A process dies under it,
 * or leaves it, or hangs. See server/lab/load/load.h for the stories.
 */
#include "server/lab/experiments/families.h"
#include "server/lab/load/load.h"

static const struct experiment experiments[] = {
    {.id = "04w",
     .name = "wild-exception",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "The exception, in the wild",
               .symptom = "the process lives, its lock stays for ever",
               .see = "An order fails under a's lock, because the database "
                      "could not be read. The order answers with an error, and "
                      "a lives on. Nobody else gets the lock: b's orders wait "
                      "and are refused, and all three units stay unsold.",
               .why =
                   "The release is the last line of the work. An error jumps "
                   "over it, as an exception does. The key has no expiry, so "
                   "it stays in Redis although nobody works under it.",
               .fix = "A finally: the release runs whatever happens. With the "
                      "same error at the same place, a releases the lock, and "
                      "b sells all three."},
          [EXPERIMENT_ZH] =
              {.title = "抛出异常，真实进程版",
               .symptom = "进程还活着，锁却永远不释放",
               .see = "a 持锁时订单出错：数据库没读出来。a "
                      "返回了错误，进程照常运行，但锁没有释放。b "
                      "的订单等到超时，全部被拒绝，三件商品一件也没卖掉。",
               .why = "释放锁写在业务代码的最后一行，出错时就像抛异常一样被跳过"
                      "了。这个键没有过期时间，虽然没人在干活，它却一直留在 "
                      "Redis 里。",
               .fix = "用 "
                      "finally：不管发生什么都会执行释放。在同一处出同样的错，a"
                      " 仍会释放锁，b 把三件都卖了出去。"}},
     .bug = {.load = LOAD_OF(
                 "setnx", .instances = 2, .stock = 3, .flags = LOAD_IMPATIENT,
                 .each = {"--lab-failpoint naive-select:before=error*1,"
                          "del:before=error"}),
             .schedule = "a b*3",
             .faults = EXPERIMENT_FAULT(STAGE_FOREVER)},
     .fix = {.load = LOAD_OF(
                 "setnx-finally", .instances = 2, .stock = 3,
                 .flags = LOAD_IMPATIENT,
                 .each = {"--lab-failpoint naive-select:before=error*1"}),
             .schedule = "a b*3",
             .sold = 3}},
    {.id = "06w",
     .name = "wild-crash",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "The crash, in the wild",
               .symptom = "the holder is dead, and nobody sells",
               .see = "a's process dies between its read and its write, as by "
                      "kill -9. Its lock stays in Redis. b is a healthy "
                      "process, but all its orders are refused, for ever.",
               .why =
                   "No finally runs in a process that is dead. Redis does not "
                   "know that the client which set the key is gone, and the "
                   "key has no expiry.",
               .fix = "A lock with an expiry (a lease). When the lease ends, "
                      "Redis removes the key by itself; b gets the lock and "
                      "sells all three."},
          [EXPERIMENT_ZH] =
              {.title = "崩溃，真实进程版",
               .symptom = "持有者已死，谁也卖不了",
               .see =
                   "a 在读和写之间突然死掉，就像被 kill -9。它的锁留在 Redis "
                   "里。b 是一个健康的进程，可它的订单会一直被拒绝。",
               .why =
                   "进程死了，finally 也不会执行。Redis "
                   "不知道设置这个键的客户端已经不在，而这个键又没有过期时间。",
               .fix = "给锁加上过期时间（租约）。租约一到期，Redis "
                      "自己删掉这个键，b 拿到锁，把三件都卖出去。"}},
     .bug = {.load = LOAD_OF("setnx", .instances = 2, .stock = 3,
                             .flags = LOAD_IMPATIENT,
                             .each = {LOAD_SHORT_LEASE LOAD_INSIDE "crash*1"}),
             .schedule = "a& a. L b*3",
             .faults = EXPERIMENT_FAULT(STAGE_FOREVER)},
     .fix = {.load = LOAD_OF("set-nx-px", .instances = 2, .stock = 3,
                             .flags = LOAD_IMPATIENT,
                             .each = {LOAD_SHORT_LEASE LOAD_INSIDE "crash*1"}),
             .schedule = "a& a. L b*3",
             .sold = 3}},
    {.id = "07w",
     .name = "wild-two-commands",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "Between two commands, in the wild",
               .symptom = "a key without an expiry, for ever",
               .see =
                   "a sends SETNX and dies before it sends EXPIRE. The key is "
                   "there and has no expiry. b waits for longer than any "
                   "lease, and is refused all the same.",
               .why = "A process can die between any two commands. This is "
                      "unlikely for one order, but not "
                      "for all the orders of a busy day.",
               .fix =
                   "One command that does both: SET NX PX (or a script). a "
                   "dies right after it, but the key has its expiry already."},
          [EXPERIMENT_ZH] =
              {.title = "两条命令之间，真实进程版",
               .symptom = "没有过期时间的键，永远留下",
               .see = "a 发出 SETNX，还没发 EXPIRE "
                      "就死了。键已经存在，却没有过期时间。b "
                      "等得比任何租约都久，还是被拒绝。",
               .why = "两条命令就是两个时刻，进程可能正好死在中间。对一个订单来"
                      "说概率很小，对繁忙的一天里所有的订单就不小了。",
               .fix = "用一条命令同时完成：SET NX PX（或者脚本）。a "
                      "在它之后立刻死掉，键也已经带着过期时间了。"}},
     .bug = {.load =
                 LOAD_OF("setnx-expire", .instances = 2, .stock = 3,
                         .flags = LOAD_IMPATIENT,
                         .each = {LOAD_SHORT_LEASE
                                  "--lab-failpoint "
                                  "expire:before=crash,set-nx-px:after=crash"}),
             .schedule = "a& a. L b*3",
             .faults = EXPERIMENT_FAULT(STAGE_FOREVER)},
     .fix = {.load =
                 LOAD_OF("set-nx-px", .instances = 2, .stock = 3,
                         .flags = LOAD_IMPATIENT,
                         .each = {LOAD_SHORT_LEASE
                                  "--lab-failpoint "
                                  "expire:before=crash,set-nx-px:after=crash"}),
             .schedule = "a& a. L b*3",
             .sold = 3}},
    {.id = "14w",
     .name = "wild-eternal-lock",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "The eternal lock, in the wild",
               .symptom = "renewed for ever for a worker that hangs",
               .see =
                   "A worker of a hangs under the lock and never comes back. "
                   "The process lives, and its guard thread renews the lease "
                   "again and again. b's orders are refused as long as a runs.",
               .why = "The guard thread knows the name of the lock, but not "
                      "whether its holder still works, and it has no time "
                      "limit. The lease is there for a holder that fails. The "
                      "guard thread makes it useless.",
               .fix = "A renewal that belongs to its holder and stops after a "
                      "time limit (--lock-max-hold-ms): then the lease ends, "
                      "and b sells. If a ever wakes up and writes, only "
                      "fencing can refuse it."},
          [EXPERIMENT_ZH] =
              {.title = "永不过期的锁，真实进程版",
               .symptom = "工作线程卡死，锁却被永远续租",
               .see = "a "
                      "的一个工作线程持锁卡住，再也不回来。进程还活着，守护线程"
                      "一次次给锁续租。只要 a 在运行，b 的订单就一直被拒绝。",
               .why = "守护线程只认得锁的名字，不知道持有者还在不在工作，也没有"
                      "时间上限。租约本来是为持有者出故障准备的，守护线程却让它"
                      "失去了作用。",
               .fix = "让续租属于持有者，并设最长持有时间（--lock-max-hold-"
                      "ms）：时间一到就停止续租，租约到期，b 就能卖。a "
                      "万一醒来再写，只有栅栏令牌能拒绝它。"}},
     .bug = {.load = LOAD_OF("guard-thread", .instances = 2, .stock = 3,
                             .flags = LOAD_IMPATIENT " --lock-max-hold-ms 600",
                             .each = {LOAD_RENEWED LOAD_INSIDE "hold*1"}),
             .schedule = "a& a. L b*2",
             .faults = EXPERIMENT_FAULT(STAGE_HELD)},
     .fix = {.load = LOAD_OF("watchdog", .instances = 2, .stock = 3,
                             .flags = LOAD_IMPATIENT " --lock-max-hold-ms 600",
                             .each = {LOAD_RENEWED LOAD_INSIDE "hold*1"}),
             .schedule = "a& a. L b*2",
             .sold = 2}},
};

const struct experiment_family experiments_wild_left = {
    .title = {[EXPERIMENT_EN] = "In the wild: a lock that nobody gets any more",
              [EXPERIMENT_ZH] = "真实进程：再也没人拿得到的锁"},
    .kind = &load_kind,
    .experiments = experiments,
    .n = sizeof(experiments) / sizeof(experiments[0]),
};
