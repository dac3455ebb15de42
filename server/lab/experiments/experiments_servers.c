/*
 * Experiments: the servers lose a lock that they have granted. No lock can help
 * that by itself; the database can.
 */
#include "server/lab/experiments/families.h"

static const struct experiment experiments[] = {
    {.id = "25",
     .name = "redis-forgets",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "Redis forgets",
               .symptom = "locks are gone in mid-sale, oversold",
               .see = "a is inside and has read the stock. Redis forgets all "
                      "(F): a FLUSHALL, or a restart without persistence. b "
                      "finds no lock and gets in at once; both sell the only "
                      "unit.",
               .why = "A lock in Redis is data in memory. If that is lost, all "
                      "locks are free, and their holders hear nothing of it.",
               .fix =
                   "Fencing, with tokens that do not restart: they go on "
                   "from what the database has seen. So b's token is higher, "
                   "though Redis has forgotten a's, and a's write is refused. "
                   "The service says 503 until it knows the highest token."},
          [EXPERIMENT_ZH] =
              {.title = "Redis 失忆",
               .symptom = "促销途中锁全没了，超卖",
               .see =
                   "a 在临界区里，已经读了库存。这时 Redis 忘掉一切（F）："
                   "有人执行了 FLUSHALL，或者没有持久化就重启了。b 发现没有锁，"
                   "立刻进来，唯一的一件商品被卖了两次。",
               .why = "Redis 里的锁只是内存中的数据。数据一丢，所有的锁都空了，"
                      "而持有者毫不知情。",
               .fix =
                   "栅栏令牌，而且编号不会从头再来：它接着数据库见过的最大值往"
                   "上走。"
                   "所以 Redis 虽然忘了 a，b 的编号还是更大，a 的写入会被拒绝。"
                   "在查到最大编号之前，服务回答 503。"}},
     .bug = {.scene = EXPERIMENT_SCENE("redisson", .buyers = 2, .stock = 1),
             .schedule = "a a F b b a a b a b b",
             .faults = EXPERIMENT_FAULT(STAGE_OVERSOLD),
             .sold = 2},
     .fix = {.scene = EXPERIMENT_SCENE("fenced", .buyers = 2, .stock = 1),
             .schedule = "a a a F b b b a a b b b a a a a",
             .sold = 1}},
};

const struct experiment_family experiments_servers = {
    .title = {[EXPERIMENT_EN] = "When the servers lose the lock",
              [EXPERIMENT_ZH] = "服务器弄丢了锁"},
    .kind = "steps",
    .experiments = experiments,
    .n = sizeof(experiments) / sizeof(experiments[0]),
    .run = steps_run,
    .scene = steps_scene,
};
