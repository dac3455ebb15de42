/*
 * Experiments: somebody dies or fails while it holds the lock, or while it takes
 * it. What is left behind, and what a clumsy way to clean up does.
 */
#include "server/lab/experiments/families.h"

/* Experiment 08: what every lease leaves open. */
#define OUTLIVED_LEASE                                                         \
    {                                                                          \
        .scene = EXPERIMENT_SCENE("set-nx-px", .buyers = 2, .stock = 1),       \
        .schedule = "a a L b b a a b b",                                       \
        .faults = EXPERIMENT_FAULT(STAGE_OVERSOLD) |                           \
                  EXPERIMENT_FAULT(STAGE_TWO_LATE),                            \
        .sold = 2                                                              \
    }

static const struct experiment experiments[] = {
    {.id = "04",
     .name = "the-exception",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "The exception",
               .symptom = "the product never sells again",
               .see =
                   "a takes the lock, and its work fails. The exception skips "
                   "the DEL. b waits for as long as it may, and is refused. "
                   "Nobody works under the lock, and nobody gets it.",
               .why = "The release is the last line of the work. An error on "
                      "the way skips it, and the key has no expiry.",
               .fix = "Release in a finally (in C: on every way out). Mind "
                      "where it begins: see 05.",
               .rest = "A crash runs no finally: the lock stays, and has no "
                       "end. See 06."},
          [EXPERIMENT_ZH] =
              {.title = "抛出异常",
               .symptom = "商品再也卖不出去",
               .see = "a 拿到锁，干活时出了错，异常跳过了 DEL。b "
                      "一直等到超时，被拒绝。没有人在用这把锁，却也没有人拿得到"
                      "它。",
               .why = "释放锁写在最后一行，中途出错就执行不到；而这个键又没有过"
                      "期时间。",
               .fix = "把释放写进 finally（在 C 里：每条退出路径都要释放）。"
                      "注意 try 从哪里开始，见 05。",
               .rest = "进程崩溃时不会执行 finally：锁留了下来，永不过期。见 "
                       "06。"}},
     .bug = {.scene = EXPERIMENT_SCENE("setnx", .buyers = 2, .stock = 1,
                                       .roles = {{.program = "lock-throws"}}),
             .schedule = "a b b+ b",
             .faults = EXPERIMENT_FAULT(STAGE_HELD),
             .says = "lock-timeout"},
     .fix = {.scene = EXPERIMENT_SCENE("setnx-finally", .buyers = 2, .stock = 1,
                                       .roles = {{.program = "lock-throws"}}),
             .schedule = "a b a b b b b b b",
             .sold = 1},
     .rest = {.scene =
                  EXPERIMENT_SCENE("setnx-finally", .buyers = 2, .stock = 1),
              .schedule = "a a!",
              .faults = EXPERIMENT_FAULT(STAGE_FOREVER)}},
    {.id = "05",
     .name = "the-losers-finally",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "The loser's finally",
               .symptom = "a loser frees the winner's lock",
               .see =
                   "a holds the lock. b waits for it and gives up, but its "
                   "finally deletes the lock all the same. c comes in while a "
                   "is still inside: both sell the only unit.",
               .why =
                   "A finally runs on every way out, also for somebody who "
                   "never got the lock. DEL does not ask whose key it deletes.",
               .fix = "Delete only what you have acquired: take the lock "
                      "before the try, not inside it. (This lock also has an "
                      "expiry, which is the lesson of 06. It has no part in "
                      "this one.)",
               .rest = "The expiry is a second command. a dies between the "
                       "two, and the key has no end: see 07."},
          [EXPERIMENT_ZH] =
              {.title = "失败者的 finally",
               .symptom = "没抢到锁的人释放了别人的锁",
               .see = "a 持有锁。b 等了一阵，放弃了，但它的 finally "
                      "照样把锁删掉。于是 c 在 a "
                      "还没出来时就进去了：唯一的一件被卖了两次。",
               .why =
                   "无论从哪条路退出，finally 都会执行，没拿到锁的人也不例外。"
                   "而 DEL 不会问这个键是谁的。",
               .fix =
                   "只删自己拿到的锁：加锁要写在 try 之前，而不是 try 里面。（"
                   "这把锁还带过期时间，那是 06 的内容，与这一课无关。）",
               .rest = "过期时间是第二条命令。a "
                       "死在两条命令之间，键就永不过期：见 07。"}},
     .bug = {.scene = EXPERIMENT_SCENE("setnx-finally", .buyers = 3, .stock = 1,
                                       .wait_ms = 5000),
             .schedule = "a a b b+ b b c c a a c c a c",
             .faults = EXPERIMENT_FAULT(STAGE_FOREIGN) |
                       EXPERIMENT_FAULT(STAGE_TWO_INSIDE) |
                       EXPERIMENT_FAULT(STAGE_OVERSOLD),
             .sold = 2},
     .fix = {.scene = EXPERIMENT_SCENE("setnx-expire", .buyers = 3, .stock = 1,
                                       .wait_ms = 5000),
             .schedule = "a a a b b+ b c a a a c c c c c",
             .sold = 1},
     .rest = {.scene =
                  EXPERIMENT_SCENE("setnx-expire", .buyers = 2, .stock = 1),
              .schedule = "a a! b b+ b",
              .faults = EXPERIMENT_FAULT(STAGE_FOREVER),
              .says = "lock-timeout"}},
    {.id = "06",
     .name = "the-crash",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "The crash",
               .symptom = "the product never sells again",
               .see =
                   "a takes the lock and its process dies (a!). b waits for "
                   "as long as it may, and is refused. The unit is still "
                   "there, and nobody can buy it any more.",
               .why =
                   "The key in Redis outlives the process that made it. A "
                   "finally does not help: a dead process runs none.",
               .fix =
                   "A lease: the key gets an expiry when it is made. When the "
                   "lease ends (L), the next one gets in.",
               .rest = "A lease ends also when its holder is alive and slow. "
                       "Then two are inside: see 08."},
          [EXPERIMENT_ZH] =
              {.title = "崩溃",
               .symptom = "商品再也卖不出去",
               .see = "a 拿到锁，然后进程崩溃（a!）。b 一直等到超时，被拒绝。"
                      "商品还在，却再也没人能买到。",
               .why = "Redis 里的键比创建它的进程活得更久。finally 也帮不上忙："
                      "死掉的进程什么都不会执行。",
               .fix = "租约：创建键的同时就设定过期时间。租约一到期（L），下一"
                      "个人就能进来。",
               .rest = "持有者还活着，只是慢，租约也一样会到期。这时两个人都在"
                       "里面：见 08。"}},
     .bug = {.scene = EXPERIMENT_SCENE("setnx", .buyers = 2, .stock = 1),
             .schedule = "a a! b b+ b",
             .faults = EXPERIMENT_FAULT(STAGE_FOREVER),
             .says = "lock-timeout"},
     .fix = {.scene = EXPERIMENT_SCENE("set-nx-px", .buyers = 2, .stock = 1),
             .schedule = "a a! b L b b b b b b",
             .sold = 1},
     .rest = OUTLIVED_LEASE},
    {.id = "07",
     .name = "between-two-commands",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "Between two commands",
               .symptom = "a key without an expiry, for ever",
               .see =
                   "a sends SETNX and would send EXPIRE next, but it dies "
                   "between the two (a!). The key has no expiry, and b waits "
                   "in vain.",
               .why = "A process can die between any two commands. The lease "
                      "was to protect from a crash, but "
                      "this crash comes before it is set.",
               .fix =
                   "One command for both, SET with NX and PX, or a script: the "
                   "key has an expiry at every moment.",
               .rest = "A lease ends also when its holder is alive and slow. "
                       "Then two are inside: see 08."},
          [EXPERIMENT_ZH] =
              {.title = "两条命令之间",
               .symptom = "没有过期时间的键，永远留下",
               .see =
                   "a 发出 SETNX，本来接着要发 EXPIRE，却在两条命令之间崩溃了"
                   "（a!）。键没有过期时间，b 怎么等都没用。",
               .why = "两条命令就是两个时刻，进程可能恰好死在中间。租约本来是用"
                      "来防崩溃的，这次崩溃却发生在设定租约之前。",
               .fix = "用一条命令完成：SET 带上 NX 和 PX，或者写成一段脚本。"
                      "这样键在任何时刻都有过期时间。",
               .rest = "持有者还活着，只是慢，租约也一样会到期。这时两个人都在"
                       "里面：见 08。"}},
     .bug = {.scene = EXPERIMENT_SCENE("setnx-expire", .buyers = 2, .stock = 1),
             .schedule = "a a! b b+ b",
             .faults = EXPERIMENT_FAULT(STAGE_FOREVER),
             .says = "lock-timeout"},
     .fix = {.scene = EXPERIMENT_SCENE("set-nx-px", .buyers = 2, .stock = 1),
             .schedule = "a a! b L b b b b b b",
             .sold = 1},
     .rest = OUTLIVED_LEASE},
};

const struct experiment_family experiments_crash = {
    .title = {[EXPERIMENT_EN] = "Errors and crashes",
              [EXPERIMENT_ZH] = "出错与崩溃"},
    .kind = &steps_kind,
    .experiments = experiments,
    .n = sizeof(experiments) / sizeof(experiments[0]),
};
