/*
 * Experiments: one holder, and itself. Locks that are taken again by who has them
 * already, and renewals that outlive what they are for.
 */
#include "server/lab/experiments/families.h"

static const struct experiment experiments[] = {
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
               .why =
                   "A key of Redis has one type. This lock was published as "
                   "a tutorial and copied many times; a single run would have "
                   "shown it.",
               .fix = "A hash from the start, owner to count, made by one "
                      "script that also sets its end."},
          [EXPERIMENT_ZH] =
              {.title = "从没运行过的教程",
               .symptom = "WRONGTYPE，谁也进不去",
               .see = "a 用 SETNX 加锁，这会创建一个字符串；接着它想用 HSET "
                      "在同一个键上记录重入次数，Redis 回答 WRONGTYPE。"
                      "键留了下来，b 也同样失败。",
               .why = "Redis 的一个键只有一种类型。这把锁曾作为教程发表，"
                      "被抄了很多遍；其实只要运行一次就会发现问题。",
               .fix = "从一开始就用哈希（持有者 → 次数），由一段脚本创建，"
                      "并同时设定过期时间。"}},
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
    .kind = "steps",
    .experiments = experiments,
    .n = sizeof(experiments) / sizeof(experiments[0]),
    .run = steps_run,
    .scene = steps_scene,
};
