/*
 * Experiments: a lock that knows its owner badly or not at all is released by
 * somebody who is late.
 */
#include "server/lab/experiments/families.h"

static const struct experiment experiments[] = {
    {.id = "09",
     .name = "a-frees-b-b-frees-c",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "A frees B, B frees C",
               .symptom = "a chain of double holders",
               .see = "a's lease ends (L) while a works, and b gets in. a "
                      "is done and deletes the lock, which is b's by now: "
                      "so c gets in beside b. Then b deletes c's lock. It "
                      "goes on like this down the queue.",
               .why = "The value of the key is the same for all, so DEL "
                      "cannot tell whose lock it is. One late release "
                      "deletes the next holder's lock, whose release then "
                      "deletes the lock after that.",
               .fix = "The value is a random owner, and the release compares "
                      "it. The chain ends: a leaves b's lock alone, and c "
                      "waits.",
               .rest = "a and b still overlap, because a's lease has ended "
                       "(08). If a reads before that, its write is out of "
                       "date: fewer units are gone than were sold, and d "
                       "buys one that is not there. A token that the "
                       "database compares helps (12)."},
          [EXPERIMENT_ZH] =
              {.title = "A 释放 B 的锁，B 释放 C 的锁",
               .symptom = "一连串的双重持有",
               .see = "a 还在干活，租约就到期了（L），b 进来。a 干完后删锁，"
                      "可这时锁已经是 b 的，于是 c 和 b 同时在里面。"
                      "接着 b 又删掉 c 的锁，如此一路传下去。",
               .why = "键的值对所有人都一样，DEL "
                      "分不清锁是谁的。一次迟到的释放删掉了下一个人的锁，下"
                      "一个人释放时又删掉再下一个人的锁。",
               .fix = "值里写一个随机的持有者标识，释放时先比较。链条到此为"
                      "止：a 不会去动 b 的锁，c 会等待。",
               .rest = "a 的租约到期了，a 和 b 仍会重叠（08）。如果 a "
                       "在那之前读了库存，它写下的数就已过时：库存少扣了，d "
                       "买到了并不存在的一件。要靠数据库比较令牌（12）。"}},
     .bug = {.scene = EXPERIMENT_SCENE("set-nx-px", .buyers = 3, .stock = 3),
             .schedule = "a L b a a a a c b c b b b c c c",
             .faults = EXPERIMENT_FAULT(STAGE_FOREIGN) |
                       EXPERIMENT_FAULT(STAGE_LEDGER) |
                       EXPERIMENT_FAULT(STAGE_TWO_INSIDE) |
                       EXPERIMENT_FAULT(STAGE_TWO_LATE),
             .sold = 3},
     .fix = {.scene = EXPERIMENT_SCENE("token-lua", .buyers = 3, .stock = 3),
             .schedule = "a L b a a a a c b b b b c c c c c c",
             .faults = EXPERIMENT_FAULT(STAGE_TWO_LATE),
             .sold = 3},
     .rest = {.scene = EXPERIMENT_SCENE("token-lua", .buyers = 4, .stock = 3),
              .schedule = "a a L b b a a a c b b b c+ c c c c c d d d d d",
              .faults = EXPERIMENT_FAULT(STAGE_OVERSOLD) |
                        EXPERIMENT_FAULT(STAGE_LEDGER) |
                        EXPERIMENT_FAULT(STAGE_TWO_LATE),
              .sold = 4}},
    {.id = "10",
     .name = "same-name-in-two-houses",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "The same name in two houses",
               .symptom = "frees the lock of another process",
               .see =
                   "a and b are processes, and each has a thread number 1. "
                   "a's lease ends (L), b gets in. a comes back, compares the "
                   "owner, finds its own number there, and deletes b's lock.",
               .why = "A thread number is a name within one process. In "
                      "another process somebody else has the same number, so "
                      "the comparison says yes when it should say no.",
               .fix =
                   "The owner is random, so no two are the same. The "
                   "comparison finds b's owner, and a leaves the lock alone.",
               .rest = "Comparing and deleting are two commands. a finds "
                       "itself, its lease ends, and it deletes b's lock all "
                       "the same: see 11."},
          [EXPERIMENT_ZH] =
              {.title = "两户人家，同一个名字",
               .symptom = "释放了另一个进程的锁",
               .see =
                   "a 和 b 是两个进程，里面都有 1 号线程。a 的租约到期（L），"
                   "b 进来。a 回来后比较持有者，看到的正是自己的编号，"
                   "于是删掉了 b 的锁。",
               .why = "线程编号只在一个进程内有意义。另一个进程里也有同样的编号"
                      "，本该回答“不是”的比较，却回答了“是”。",
               .fix = "持有者用随机标识，不会有两个相同的。比较时看到的是 b "
                      "的标识，a 就不会去动这把锁。",
               .rest = "比较和删除是两条命令。a 看到是自己的，随后租约到期，它"
                       "还是删掉了 b 的锁：见 11。"}},
     .bug = {.scene = EXPERIMENT_SCENE("token-thread", .buyers = 2, .stock = 2),
             .schedule = "a L b a a a a a b b b b",
             .faults = EXPERIMENT_FAULT(STAGE_FOREIGN) |
                       EXPERIMENT_FAULT(STAGE_TWO_LATE),
             .sold = 2},
     .fix = {.scene = EXPERIMENT_SCENE("token", .buyers = 2, .stock = 2),
             .schedule = "a L b a a a a b b b b b",
             .faults = EXPERIMENT_FAULT(STAGE_TWO_LATE),
             .sold = 2},
     .rest = {.scene = EXPERIMENT_SCENE("token", .buyers = 2, .stock = 2),
              .schedule = "a a a a a L b a b b b b",
              .faults = EXPERIMENT_FAULT(STAGE_FOREIGN),
              .sold = 2}},
    {.id = "11",
     .name = "between-get-and-del",
     .text = {[EXPERIMENT_EN] =
                  {.title = "Between GET and DEL",
                   .symptom = "frees another's lock, though it compared",
                   .see = "a is done, reads the lock with GET, and finds "
                          "itself. Then it is held up, the lease ends (L), and "
                          "b gets in. a has already decided on its DEL: it "
                          "deletes b's lock, and c gets in beside b.",
                   .why = "a compares first and deletes later, and in between "
                          "the key has become b's. A pause is possible between "
                          "any two commands.",
                   .fix = "Compare and delete in one script: Redis runs "
                          "nothing else in between.",
                   .rest = "The lease still ends while a works (08). If a has "
                           "read the stock before that, it writes a number "
                           "that is out of date."},
              [EXPERIMENT_ZH] =
                  {.title = "GET 与 DEL 之间",
                   .symptom = "比较了持有者，还是释放了别人的锁",
                   .see = "a 干完了，用 GET "
                          "读锁，看到是自己的。这时它卡住了，租约到期（L），b "
                          "进来。a 早就决定要执行 DEL，结果删掉了 b 的锁，于是 "
                          "c 和 b 同时在里面。",
                   .why = "a "
                          "先看后做，到动手时，看到的情况已经变了。任何两条命令"
                          "之间都可能停顿。",
                   .fix = "把比较和删除写进同一段脚本：中间 Redis "
                          "不会执行别的命令。",
                   .rest = "a 干活时租约仍会到期（08）。如果 a 在那之前读了库存"
                           "，写下的数就已过时。"}},
     .bug = {.scene = EXPERIMENT_SCENE("token", .buyers = 3, .stock = 3),
             .schedule = "a a a a a L b b a c c b b c c c c b",
             .faults = EXPERIMENT_FAULT(STAGE_FOREIGN) |
                       EXPERIMENT_FAULT(STAGE_LEDGER) |
                       EXPERIMENT_FAULT(STAGE_TWO_INSIDE),
             .sold = 3},
     .fix = {.scene = EXPERIMENT_SCENE("token-lua", .buyers = 3, .stock = 3),
             .schedule = "a a a a L b b a c b b b c c c c c c",
             .sold = 3},
     .rest = {.scene = EXPERIMENT_SCENE("token-lua", .buyers = 2, .stock = 3),
              .schedule = "a a L b b a a a b b b",
              .faults = EXPERIMENT_FAULT(STAGE_LEDGER) |
                        EXPERIMENT_FAULT(STAGE_TWO_LATE),
              .sold = 2}},
};

const struct experiment_family experiments_owner = {
    .title = {[EXPERIMENT_EN] = "Whose lock is it?",
              [EXPERIMENT_ZH] = "这是谁的锁？"},
    .kind = &steps_kind,
    .experiments = experiments,
    .n = sizeof(experiments) / sizeof(experiments[0]),
};
