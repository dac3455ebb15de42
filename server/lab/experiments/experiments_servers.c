/*
 * Experiments: the servers lose a lock that they have granted. No lock can help
 * that by itself; the database can.
 */
#include "server/lab/experiments/families.h"

static const struct experiment experiments[] = {
    {.id = "22",
     .name = "failover",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "Failover",
               .symptom = "two holders after a failover, oversold",
               .see =
                   "The replica lags (R): what is written from now on does not "
                   "reach it. a takes the lock and reads the stock. The server "
                   "dies, and its replica is promoted (P): it does not know of "
                   "the lock. b gets in, and both sell the only unit.",
               .why =
                   "Redis answers before its replicas have the data. What was "
                   "granted in the last moment before a failover is lost.",
               .fix =
                   "Fencing: b announces a higher token to the database before "
                   "it reads, and the database refuses a's write. A lock on "
                   "several servers that do not depend on each other (multi, "
                   "redlock) helps as well; for what it needs, see 23."},
          [EXPERIMENT_ZH] =
              {.title = "主从切换",
               .symptom = "切换后出现两个持有者，超卖",
               .see = "从库落后了（R）：此后写入的数据传不到它那里。a "
                      "拿到锁，读了库存。主库宕机，从库被提升（P），它不知道有"
                      "这把锁。b 进来，唯一的一件被卖了两次。",
               .why = "Redis 先答复客户端，再把数据传给从库。"
                      "切换前最后一刻发出的锁就会丢失。",
               .fix = "栅栏令牌：b "
                      "在读之前先在数据库登记更大的令牌，数据库会拒绝 a "
                      "的写入。把锁放在几台互不依赖的服务器上（multi、redlock）"
                      "也有效，条件见 23。"}},
     .bug = {.scene = EXPERIMENT_SCENE("redisson", .buyers = 2, .stock = 1,
                                       .replica = true),
             .schedule = "R a a P b b a a b a b b",
             .faults = EXPERIMENT_FAULT(STAGE_OVERSOLD) |
                       EXPERIMENT_FAULT(STAGE_TWO_LOST),
             .sold = 2},
     .fix = {.scene = EXPERIMENT_SCENE("fenced", .buyers = 2, .stock = 1,
                                       .replica = true),
             .schedule = "R a a a a P b b b b a a b b b a a a a a",
             .faults = EXPERIMENT_FAULT(STAGE_TWO_LOST),
             .sold = 1}},
    {.id = "23",
     .name = "delayed-restart",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "A restart that forgets",
               .symptom = "two majorities, oversold",
               .see = "Of three servers, a has the lock on 1 and 2; its "
                      "command to 3 is held up (a^). Server 2 loses its data, "
                      "as by a restart without persistence (2F), and b gets "
                      "the votes of 2 and 3. Both have a majority, and both "
                      "sell the only unit.",
               .why =
                   "Two majorities share at least one server. That helps only "
                   "if this server remembers whom it has voted for.",
               .fix = "Ask each server for its age. A server that began less "
                      "than the longest lease ago may have forgotten a vote, "
                      "so its vote does not count (2!): b has to wait.",
               .rest = "The age does not show that a server has lost its data "
                       "without a restart (2F): the first run is still "
                       "possible. Then fencing helps (24)."},
          [EXPERIMENT_ZH] =
              {.title = "重启后失忆",
               .symptom = "出现两个多数派，超卖",
               .see = "三台服务器里，a 拿到 1 号和 2 号的票，发给 3 "
                      "号的命令卡在网络里（a^）。2 "
                      "号丢了数据，就像没有持久化就重启了（2F），于是 b 拿到 2 "
                      "号和 3 号的票。两人都有多数票，唯一的一件被卖了两次。",
               .why =
                   "两个多数派至少有一台公共的服务器，但只有它记得自己投过谁，"
                   "这一点才有用。",
               .fix = "先问每台服务器的年龄：启动时间还不到最长租约的，可能忘了"
                      "投过的票，它的票不算（2!），b "
                      "只能等待。",
               .rest = "没有重启就丢了数据（2F），年龄看不出来：第一次的情形仍"
                       "会发生。这时要靠栅栏令牌（24）。"}},
     .bug = {.scene = EXPERIMENT_SCENE("redlock", .buyers = 2, .stock = 1),
             .schedule = "a a a^ a 2F b b b b a a b b b b b a a a ^",
             .faults = EXPERIMENT_FAULT(STAGE_OVERSOLD) |
                       EXPERIMENT_FAULT(STAGE_TWO_INSIDE),
             .sold = 2},
     .fix = {.scene = EXPERIMENT_SCENE("redlock", .buyers = 2, .stock = 1),
             .schedule = "a a a^ a 2! b b b b b a a b b b b b b b a "
                         "b b b b b b b b a a ^",
             .sold = 1},
     .rest = {.scene = EXPERIMENT_SCENE("redlock", .buyers = 2, .stock = 1),
              .schedule = "a a a^ a 2F b b b b a a b b b b b a a a ^",
              .faults = EXPERIMENT_FAULT(STAGE_OVERSOLD) |
                        EXPERIMENT_FAULT(STAGE_TWO_INSIDE),
              .sold = 2}},
    {.id = "24",
     .name = "clock-step",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "Clock step",
               .symptom = "a majority forgets early, oversold",
               .see =
                   "a has the lock on all three servers. The clocks of 2 and 3 "
                   "are set forward (2L, 3L), and the lease ends there at "
                   "once. b gets the votes of both while a is still inside, "
                   "and both sell the only unit.",
               .why =
                   "A lease needs clocks that run alike. An administrator, or "
                   "a bad time server, can move them by minutes.",
               .fix =
                   "Fencing: two are still inside at once, but b has announced "
                   "a higher token, and the database refuses a. A lock makes "
                   "conflicts rare; the database makes them harmless."},
          [EXPERIMENT_ZH] =
              {.title = "时钟跳变",
               .symptom = "多数服务器上租约提前到期，超卖",
               .see = "a 在三台服务器上都拿到了锁。2 号和 3 "
                      "号的时钟被拨快（2L、3L），租约在那里立刻到期。a "
                      "还在里面，b 就拿到了这两台的票，唯一的一件被卖了两次。",
               .why = "租约的前提是大家的时钟走得一样快。管理员手动改时间，"
                      "或者时间服务器出错，都可能一下跳几分钟。",
               .fix = "栅栏令牌：两人还是同时在里面，但 b "
                      "已经登记了更大的令牌，数据库会拒绝 "
                      "a。锁让冲突变少，数据库让冲突无害。"}},
     .bug = {.scene = EXPERIMENT_SCENE("redlock", .buyers = 2, .stock = 1),
             .schedule = "a a a a 2L 3L b b b b a a b b b b b a a a",
             .faults = EXPERIMENT_FAULT(STAGE_OVERSOLD) |
                       EXPERIMENT_FAULT(STAGE_TWO_INSIDE),
             .sold = 2},
     .fix = {.scene = EXPERIMENT_SCENE("redlock", .buyers = 2, .stock = 1,
                                       .roles = {{.program = "order-fenced"},
                                                 {.program = "order-fenced"}}),
             .schedule = "a a a a a 2L 3L b b b b b a a b b b b b a a",
             .faults = EXPERIMENT_FAULT(STAGE_TWO_INSIDE),
             .sold = 1}},
    {.id = "25",
     .name = "redis-forgets",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "Redis forgets",
               .symptom = "locks are gone in mid-sale, oversold",
               .see =
                   "a is inside and has read the stock. Redis forgets all "
                   "(F): a FLUSHALL, or a restart without persistence. b "
                   "finds no lock and gets in at once; both sell the only "
                   "unit.",
               .why =
                   "A lock in Redis is data in memory. If that is lost, all "
                   "locks are free, and their holders do not hear of it.",
               .fix =
                   "Fencing, with tokens that do not start again: they go on "
                   "from the highest that the database has seen. So b's token "
                   "is higher, though Redis has forgotten a's, and a's write "
                   "is refused. The service says 503 until it knows the "
                   "highest token."},
          [EXPERIMENT_ZH] =
              {.title = "Redis 失忆",
               .symptom = "活动进行中锁全没了，超卖",
               .see = "a 在里面，已经读了库存。这时 Redis "
                      "忘掉一切（F）：有人执行了 "
                      "FLUSHALL，或者没有持久化就重启了。b "
                      "发现没有锁，立刻进来，唯一的一件被卖了两次。",
               .why = "Redis "
                      "里的锁只是内存中的数据。数据一丢，所有的锁都空了出来，而"
                      "持有者毫不知情。",
               .fix =
                   "栅栏令牌，而且令牌不会从头再来：它接着数据库见过的最大值往"
                   "上走。所以 Redis 虽然忘了 a 的令牌，b 的令牌还是更大，a "
                   "的写入会被拒绝。在查到最大令牌之前，服务回答 503。"}},
     .bug = {.scene = EXPERIMENT_SCENE("redisson", .buyers = 2, .stock = 1),
             .schedule = "a a F b b a a b a b b",
             .faults = EXPERIMENT_FAULT(STAGE_OVERSOLD) |
                       EXPERIMENT_FAULT(STAGE_TWO_LOST),
             .sold = 2},
     .fix = {.scene = EXPERIMENT_SCENE("fenced", .buyers = 2, .stock = 1),
             .schedule = "a a a a F b b b b a a b b b a a a a a",
             .faults = EXPERIMENT_FAULT(STAGE_TWO_LOST),
             .sold = 1}},
};

const struct experiment_family experiments_servers = {
    .title = {[EXPERIMENT_EN] = "When the servers lose the lock",
              [EXPERIMENT_ZH] = "服务器弄丢了锁"},
    .kind = &steps_kind,
    .experiments = experiments,
    .n = sizeof(experiments) / sizeof(experiments[0]),
};
