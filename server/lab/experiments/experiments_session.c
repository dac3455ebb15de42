/*
 * Experiments: one holder, and itself. Locks that are taken again by who has them
 * already, and renewals that outlive what they are for.
 */
#include "server/lab/experiments/families.h"

static const struct experiment experiments[] = {
    {.id = "14",
     .name = "the-eternal-lock",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "The eternal lock",
               .symptom = "renewed for ever, for nobody",
               .see =
                   "The worker of a takes the lock and ends without releasing "
                   "it, but its process lives on. A guard thread there renews "
                   "the lease again and again (aw), beyond the 15 s that "
                   "anybody may hold the lock. b waits, and is refused.",
               .why = "The guard thread knows the key, but not whether "
                      "somebody still works under it. A lease should end when "
                      "its holder is gone, and this one never does.",
               .fix =
                   "The renewal belongs to the grant. It stops when the lock "
                   "is released, or has been held for longer than a limit (max "
                   "hold). Then the lease ends (L), and b gets in."},
          [EXPERIMENT_ZH] =
              {.title = "永不过期的锁",
               .symptom = "没人在用，却一直续租",
               .see = "a "
                      "的工作线程拿到锁，没有释放就结束了，进程却还活着。里面的"
                      "守护线程一遍遍地续租（aw），早就超过了最长持有时间 15 "
                      "秒。b 等啊等，最后被拒绝。",
               .why = "守护线程只认得键，不知道还有没有人在用这把锁。持有者没了"
                      "，租约本该到期，现在却永远不到期。",
               .fix = "续租要跟着这一次加锁走：锁释放了，或者持有时间超过上限（"
                      "max hold），就停止续租。然后租约到期（L），b 进来。"}},
     .bug = {.scene = EXPERIMENT_SCENE("guard-thread", .buyers = 2, .stock = 1,
                                       .max_hold_ms = 15000,
                                       .roles = {{.program = "lock-forgets"}}),
             .schedule = "a b aw aw aw aw aw aw aw aw aw aw aw aw b+ b",
             .faults = EXPERIMENT_FAULT(STAGE_HELD),
             .says = "lock-timeout"},
     .fix = {.scene = EXPERIMENT_SCENE("watchdog", .buyers = 2, .stock = 1,
                                       .max_hold_ms = 15000,
                                       .roles = {{.program = "lock-forgets"}}),
             .schedule = "a b aw aw aw aw aw L b b b b b b",
             .sold = 1}},
    {.id = "15",
     .name = "one-flag-for-all",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "One flag for all",
               .symptom = "releasing one lock lets the other expire",
               .see =
                   "a holds the lock of product 1. It also takes and releases "
                   "the lock of product 2. From then on nobody renews the "
                   "first one: its lease ends (L), b gets in, and both sell "
                   "the only unit of product 1.",
               .why =
                   "The guard thread has one stop flag for all locks. Whoever "
                   "releases any lock sets it.",
               .fix =
                   "Each grant has a state of its own: the release of one lock "
                   "does not touch the others. Their renewals go on (aw).",
               .rest = "When the whole process stands still, the watchdog in "
                       "it does so, too: see 12."},
          [EXPERIMENT_ZH] =
              {.title = "共用一个标志",
               .symptom = "释放一把锁，另一把跟着到期",
               .see =
                   "a 持有商品 1 的锁，又拿了商品 2 的锁并释放掉。从此没有人给"
                   "第一把锁续租：租约到期（L），b 进来，"
                   "商品 1 唯一的一件被卖了两次。",
               .why = "守护线程只有一个“停止”标志，所有的锁共用。无论释放哪把锁"
                      "，都会设上这个标志。",
               .fix = "每次加锁都有自己的状态：释放一把锁与其他锁无关，"
                      "它们照常续租（aw）。",
               .rest = "如果整个进程都停住，里面的看门狗也会停住：见 12。"}},
     .bug = {.scene = EXPERIMENT_SCENE("guard-thread", .buyers = 2, .stock = 1,
                                       .products = 2,
                                       .roles = {{.program = "order-beside"}}),
             .schedule = "a a a a L b b a a b b a b",
             .faults = EXPERIMENT_FAULT(STAGE_OVERSOLD) |
                       EXPERIMENT_FAULT(STAGE_TWO_LATE),
             .sold = 2},
     .fix = {.scene = EXPERIMENT_SCENE("watchdog", .buyers = 2, .stock = 1,
                                       .products = 2,
                                       .roles = {{.program = "order-beside"}}),
             .schedule = "a a a a aw aw aw aw b a a a b b b b",
             .sold = 1},
     .rest = {.scene = EXPERIMENT_SCENE("watchdog", .buyers = 2, .stock = 1,
                                        .products = 2,
                                        .roles = {{.program = "order-beside"}}),
              .schedule = "a a a a L b b a a b b",
              .faults = EXPERIMENT_FAULT(STAGE_OVERSOLD) |
                        EXPERIMENT_FAULT(STAGE_TWO_LATE),
              .sold = 2}},
    {.id = "16",
     .name = "locking-yourself-out",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "Locking yourself out",
               .symptom = "a waits for itself, and is refused",
               .see =
                   "A method of a takes the lock and calls another one, which "
                   "takes the same lock. a waits for the holder, and that is "
                   "a. There is stock, nobody else is there, and the order "
                   "is refused.",
               .why = "The lock does not compare the caller with its holder: "
                      "if the key is there, the answer is no.",
               .fix = "A re-entrant lock: it has an owner and a count. Its "
                      "owner gets in again, and the lock is free after as many "
                      "releases as acquires."},
          [EXPERIMENT_ZH] =
              {.title = "把自己锁在门外",
               .symptom = "自己等自己，最后被拒绝",
               .see = "a 的一个方法拿到锁，又调用另一个方法，后者要拿同一把锁。"
                      "a 在等持有者，而持有者正是 a。明明有库存，也没有别人，"
                      "订单却被拒绝。",
               .why = "这把锁不比较来的人是不是持有者：只要键存在，回答就是“不"
                      "行”。",
               .fix = "可重入锁：记下持有者和次数。持有者可以再次进入，加锁几次"
                      "，就要释放几次，锁才空出来。"}},
     .bug = {.scene = EXPERIMENT_SCENE("token-lua", .buyers = 1, .stock = 1,
                                       .wait_ms = 5000,
                                       .roles = {{.program = "order-nested"}}),
             .schedule = "a a a+ a a",
             .says = "lock-timeout"},
     .fix = {.scene = EXPERIMENT_SCENE("reentrant", .buyers = 1, .stock = 1,
                                       .wait_ms = 5000,
                                       .roles = {{.program = "order-nested"}}),
             .schedule = "a a a a a a a",
             .sold = 1}},
    {.id = "17",
     .name = "re-entry-does-not-renew",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "Re-entry does not renew",
               .symptom = "the lease ends while the inner part works",
               .see =
                   "a takes the lock for 10 s, works for 8, and calls a method "
                   "that takes the lock again. Two seconds later, inside that "
                   "method, the lease ends (L). b gets in, and both sell the "
                   "only unit. (c and its other lock are here only as a "
                   "clock.)",
               .why =
                   "The second acquire only added one to a count in a's "
                   "memory, and sent nothing to Redis. The inner section "
                   "believes that it has a lease of 10 s. It has only what is "
                   "left of the first one.",
               .fix =
                   "The count is in Redis, and a re-entry starts the lease "
                   "anew: it ends at 18 s. At 10 s, b finds the lock taken."},
          [EXPERIMENT_ZH] =
              {.title = "重入不续租",
               .symptom = "内层还在工作，租约就到期了",
               .see =
                   "a 拿到租约 10 秒的锁，干了 8 "
                   "秒后调用另一个方法，后者再次加锁。在里面才过 2 "
                   "秒，租约就到期了（L），b 进来，唯一的一件被卖了两次。（c "
                   "和它的另一把锁只是用来计时。）",
               .why = "第二次加锁只是在 a 的内存里加了一，没有发给 Redis。"
                      "内层以为自己有 10 秒，其实只有外层剩下的那点时间。",
               .fix = "次数记在 Redis 里，重入时租约重新开始计时，到第 18 "
                      "秒才到期。第 10 秒时，b 会发现锁仍被占用。"}},
     .bug = {.scene = EXPERIMENT_SCENE(
                 "reentrant-local", .buyers = 3, .stock = 1, .wait_ms = 9000,
                 .lease_ms = 10000, .products = 2,
                 .roles = {{.program = "order-checked"},
                           {.program = "order-again"},
                           {.program = "lock", .product = 2}}),
             .schedule = "c a b b+ b a a L b b a a a b b b c",
             .faults = EXPERIMENT_FAULT(STAGE_OVERSOLD) |
                       EXPERIMENT_FAULT(STAGE_TWO_LATE),
             .sold = 2},
     .fix = {.scene = EXPERIMENT_SCENE(
                 "reentrant", .buyers = 3, .stock = 1, .wait_ms = 9000,
                 .lease_ms = 10000, .products = 2,
                 .roles = {{.program = "order-checked"},
                           {.program = "order-again"},
                           {.program = "lock", .product = 2}}),
             .schedule = "c a b b+ b a a a L b a a a a b b b b c",
             .sold = 1}},
    {.id = "18",
     .name = "the-tutorial-that-never-ran",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "The tutorial that never ran",
               .symptom = "WRONGTYPE; nobody ever gets in",
               .see =
                   "a takes the lock with SETNX, which makes a string, and "
                   "then wants to count its re-entries with HSET on the same "
                   "key. Redis answers WRONGTYPE. The key stays, and b fails "
                   "likewise.",
               .why = "A key of Redis has one type. This lock was published as "
                      "a tutorial and copied many times, but it fails in its "
                      "first run.",
               .fix = "A hash from the start (owner and count), made by one "
                      "script that also sets its expiry."},
          [EXPERIMENT_ZH] =
              {.title = "从没运行过的教程",
               .symptom = "WRONGTYPE，谁也进不去",
               .see = "a 用 SETNX 加锁，这会创建一个字符串；接着它想用 HSET "
                      "在同一个键上记录重入次数，Redis 回答 WRONGTYPE。"
                      "键留了下来，b 也同样失败。",
               .why = "Redis "
                      "的一个键只有一种类型。这把锁曾作为教程发表，被抄了很多遍"
                      "，可是它第一次运行就会失败。",
               .fix = "从一开始就用哈希（持有者和次数），由一段脚本创建，并同时"
                      "设定过期时间。"}},
     .bug = {.scene =
                 EXPERIMENT_SCENE("reentrant-broken", .buyers = 2, .stock = 1),
             .schedule = "a b a b a+ a a b+ b b",
             .faults = EXPERIMENT_FAULT(STAGE_HELD),
             .says = "WRONGTYPE"},
     .fix = {.scene = EXPERIMENT_SCENE("reentrant", .buyers = 2, .stock = 1),
             .schedule = "a b a a a a b b b b",
             .sold = 1}},
};

const struct experiment_family experiments_session = {
    .title = {[EXPERIMENT_EN] = "One holder and itself",
              [EXPERIMENT_ZH] = "持有者与自己"},
    .kind = &steps_kind,
    .experiments = experiments,
    .n = sizeof(experiments) / sizeof(experiments[0]),
};
