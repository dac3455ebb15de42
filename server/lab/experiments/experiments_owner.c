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
               .see =
                   "a's lease ends (L) while a works, and b gets in. a is "
                   "done and deletes the lock, which is b's by now: so c gets "
                   "in beside b. Then b deletes c's. It goes on like this "
                   "down the queue.",
               .why =
                   "The value of the key is the same for all. DEL cannot tell "
                   "mine from yours, so one late holder makes the next one "
                   "late, and so on.",
               .fix =
                   "A random owner as the value, which the release compares. "
                   "a and b still overlap once: that is another lesson (08). "
                   "But the chain ends there, c waits."},
          [EXPERIMENT_ZH] =
              {.title = "A 放了 B 的锁，B 放了 C 的锁",
               .symptom = "一个接一个的双重持有",
               .see = "a 还在干活，租约就到期了（L），b 进来。a 干完后删锁，"
                      "可这时锁已经是 b 的，于是 c 和 b 同时在里面。"
                      "接着 b 又删掉 c 的锁，如此一路传下去。",
               .why = "键的值对所有人都一样，DEL 分不清是你的还是我的。"
                      "一个人迟到，就会让下一个人也“迟到”。",
               .fix = "值里写一个随机的持有者标识，释放时先比较。a 和 b "
                      "仍会重叠一次，那是另一课（08），但链条到此为止：c "
                      "会等待。"}},
     .bug = {.scene = EXPERIMENT_SCENE("set-nx-px", .buyers = 3, .stock = 3),
             .schedule = "a a L b b a a a c c b b b c c c",
             .faults = EXPERIMENT_FAULT(STAGE_FOREIGN) |
                       EXPERIMENT_FAULT(STAGE_TWO_INSIDE),
             .sold = 3},
     .fix = {.scene = EXPERIMENT_SCENE("token-lua", .buyers = 3, .stock = 3),
             .schedule = "a a L b b a a a c b b b c c c c c c",
             .sold = 3}},
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
               .why =
                   "A thread number is a name within one process. In the next "
                   "process somebody else has the same, so the comparison "
                   "says yes when it should say no.",
               .fix = "An owner that is random and so the same nowhere else: "
                      "the comparison finds b's, and a leaves it alone."},
          [EXPERIMENT_ZH] =
              {.title = "两家人里同名的人",
               .symptom = "释放了另一个进程的锁",
               .see =
                   "a 和 b 是两个进程，里面都有 1 号线程。a 的租约到期（L），"
                   "b 进来。a 回来后比较持有者，看到的正是自己的编号，"
                   "于是删掉了 b 的锁。",
               .why =
                   "线程号只在一个进程内有意义。换一个进程，别人也叫这个名字，"
                   "本该回答“不是”的比较，却回答了“是”。",
               .fix = "持有者用随机标识，别处不会再有相同的。比较时看到的是 b，"
                      "a 就不会去动它。"}},
     .bug = {.scene = EXPERIMENT_SCENE("token-thread", .buyers = 2, .stock = 2),
             .schedule = "a a L b b a a a a b b b",
             .faults = EXPERIMENT_FAULT(STAGE_FOREIGN),
             .sold = 2},
     .fix = {.scene = EXPERIMENT_SCENE("token", .buyers = 2, .stock = 2),
             .schedule = "a a L b b a a a b b b b",
             .sold = 2}},
    {.id = "11",
     .name = "between-get-and-del",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "Between GET and DEL",
               .symptom = "frees another's lock, in spite of the token",
               .see =
                   "a is done, reads the lock with GET, and finds itself. "
                   "Then it is held up, the lease ends (L), b gets in. a's "
                   "DEL, decided before, deletes b's lock, and c gets in "
                   "beside b.",
               .why =
                   "Look first, then act: what was seen may not be true any "
                   "more. Between two commands there is always room for a "
                   "pause.",
               .fix =
                   "Compare and delete in one script, which Redis runs "
                   "without a gap."},
          [EXPERIMENT_ZH] =
              {.title = "GET 与 DEL 之间",
               .symptom = "比较了令牌，还是放了别人的锁",
               .see =
                   "a 干完了，用 GET 读锁，看到是自己的。这时它卡住了，"
                   "租约到期（L），b 进来。a 早就决定好的 DEL 删掉了 b 的锁，"
                   "c 也进来了。",
               .why = "先看再做：看到的东西，到动手时可能已经变了。"
                      "两条命令之间，总有可能停顿。",
               .fix = "把比较和删除写进同一段脚本，Redis 会一口气执行完。"}},
     .bug = {.scene = EXPERIMENT_SCENE("token", .buyers = 3, .stock = 3),
             .schedule = "a a a a a L b b a c c b b c c c c b",
             .faults = EXPERIMENT_FAULT(STAGE_FOREIGN) |
                       EXPERIMENT_FAULT(STAGE_TWO_INSIDE),
             .sold = 3},
     .fix = {.scene = EXPERIMENT_SCENE("token-lua", .buyers = 3, .stock = 3),
             .schedule = "a a a a L b b a c b b b c c c c c c",
             .sold = 3}},
};

const struct experiment_family experiments_owner = {
    .title = {[EXPERIMENT_EN] = "Whose lock is it?",
              [EXPERIMENT_ZH] = "这是谁的锁？"},
    .kind = "steps",
    .experiments = experiments,
    .n = sizeof(experiments) / sizeof(experiments[0]),
    .run = steps_run,
    .scene = steps_scene,
};
