/*
 * Experiments: how to wait for a lock, and whether more locks help. Here the numbers
 * are the point; the ledger has to be right all the same.
 */
#include "server/lab/experiments/families.h"
#include "server/lab/load/measure.h"

#define CROWD LOAD_NAIVE " --workers 64"

#define FAIL_FAST                                                              \
    .instances = 1, .stock = 64, .crowd = {.buyers = 64, .orders = 64}

#define POLL                                                                   \
    .instances = 1, .stock = 96, .flags = CROWD LOAD_PATIENT " --think-ms 10", \
    .crowd = {.buyers = 32, .orders = 96}, .measure = measure_waiting

#define QUEUE                                                                  \
    .instances = 4, .stock = 160,                                              \
    .flags = CROWD LOAD_PATIENT " --think-ms 10",                              \
    .crowd = {.buyers = 32, .orders = 160}, .measure = measure_overtakes

static const struct experiment experiments[] = {
    {.id = "19",
     .name = "fail-fast",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "Fail fast",
               .symptom = "most buyers refused, with units left",
               .see = "64 buyers come at once for 64 units. Whoever finds the "
                      "lock taken is refused at once (--lock-wait-ms 0). A "
                      "handful buy; all others go away, and the units stay on "
                      "the shelf. Nothing is oversold: it is undersold.",
               .why = "Each order holds the lock for a moment, and most buyers "
                      "come at just that moment. The refusal is about the "
                      "lock, but to the buyer it means that there is no stock.",
               .fix = "Wait for the lock for a bounded time, and be woken by a "
                      "message (pub/sub) when it is free: all 64 buy."},
          [EXPERIMENT_ZH] =
              {.title = "立即失败",
               .symptom = "还有库存，多数买家却被拒绝",
               .see = "64 个买家同时来买 64 "
                      "件商品。发现锁被占用就立刻被拒绝（--lock-wait-ms "
                      "0）。只有几个人买到，其余的人都走了，商品还留在货架"
                      "上。没有超卖，却少卖了。",
               .why = "每个订单只占用锁一会儿，多数买家恰好在这一会儿到来。被拒"
                      "绝是因为锁，买家却以为没有库存了。",
               .fix = "限时等锁，锁一释放就由消息（pub/sub）唤醒：64 "
                      "个人都能买到。"}},
     .bug = {.load = LOAD_OF("token-lua", FAIL_FAST,
                             .flags = CROWD " --lock-wait-ms 0 --think-ms 30",
                             .judge = measure_refused),
             .sold = LOAD_SOLD_ANY},
     .fix = {.load = LOAD_OF("redisson", FAIL_FAST,
                             .flags = CROWD LOAD_PATIENT " --think-ms 30",
                             .judge = measure_nobody_refused),
             .sold = 64}},
    {.id = "20",
     .name = "spin",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "Spin",
               .symptom = "twice the requests, and luck decides",
               .see = "32 buyers wait for one lock and look again and again, "
                      "with longer and longer pauses. Each order costs Redis "
                      "some eight requests. Half of the orders are quick, and "
                      "the slowest takes a hundred times as long.",
               .why = "A short pause costs requests. With a "
                      "long one you sleep while the lock is free, and somebody "
                      "who has just come takes it.",
               .fix = "Sleep until a message says that the lock is free "
                      "(redisson): this costs about half the requests, and the "
                      "slowest order takes little longer than the others."},
          [EXPERIMENT_ZH] =
              {.title = "自旋",
               .symptom = "请求翻倍，全凭运气",
               .see =
                   "32 "
                   "个买家等同一把锁，隔一会儿看一次，间隔越来越长。每个订单大"
                   "约要向 Redis "
                   "发八次请求。一半的订单很快完成，最慢的却要等上百倍的时间。",
               .why = "没有合适的间隔。间隔短，请求就多；间隔长，锁空着时你还在"
                      "睡，刚来的人就把它拿走了。",
               .fix = "一直睡，有消息说锁空出来了再醒（redisson）：请求大约减半"
                      "，最慢的订单也比别的慢不了多少。"}},
     .bug = {.load = LOAD_OF("spin", POLL, .judge = measure_polls), .sold = 96},
     .fix = {.load = LOAD_OF("redisson", POLL, .judge = measure_sleeps),
             .sold = 96}},
    {.id = "21",
     .name = "no-queue",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "No queue",
               .symptom = "the first to come is overtaken by dozens",
               .see =
                   "32 buyers at four instances wait for one lock. Everything "
                   "is sold, each unit once. But the ledger shows an order "
                   "that was overtaken by dozens of later ones.",
               .why =
                   "A release wakes somebody in each instance, and the fastest "
                   "gets the lock. The instance that has just released it gets "
                   "it again most easily. Nobody asks who has waited longest.",
               .fix = "A queue in Redis (fair): the lock goes to whoever has "
                      "waited longest. Nobody is overtaken."},
          [EXPERIMENT_ZH] =
              {.title = "没有队列",
               .symptom = "先来的被几十个人插队",
               .see = "32 "
                      "个买家在四个实例上等同一把锁。商品全部卖出，每件只卖一次"
                      "。但账本显示，有一个订单被几十个后来的订单插了队。",
               .why = "释放锁会在每个实例里唤醒一个人，谁快谁拿到；刚释放锁的实"
                      "例最容易再拿到它。没有人问谁等得最久。",
               .fix = "在 Redis "
                      "里排队（fair）：锁给等得最久的人，没有人被插队。"}},
     .bug = {.load = LOAD_OF("redisson", QUEUE, .judge = measure_is_unfair),
             .sold = 160},
     .fix = {.load = LOAD_OF("fair", QUEUE, .judge = measure_is_fair),
             .sold = 160}},
    {.id = "38",
     .name = "do-segments-help",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "Do segments help?",
               .symptom = "yes if the work is slow; not in batches",
               .see =
                   "The stock is split over 1, 2, 5, 10 and 20 segments, each "
                   "with a lock of its own. Orders have 0, 2 or 10 ms of work "
                   "under the lock, and go one by one or in batches. Each line "
                   "says how many times as fast as with one segment that is.",
               .why = "With 10 ms of work, one lock lets 100 orders a second "
                      "through, however fast the machine is; ten locks let ten "
                      "times as many. Without work, the machine is the limit. "
                      "In a batch, all orders that wait share one lock and do "
                      "the work once: more segments gain nothing.",
               .fix = "Measure before you split: batches bring more than "
                      "segments, and cost less."},
          [EXPERIMENT_ZH] =
              {.title = "分段有没有用",
               .symptom = "锁内工作慢时有用，批量时没用",
               .see = "库存分成 1、2、5、10、20 "
                      "个分段，每个分段有自己的锁。订单在锁内工作 0、2 或 10 "
                      "毫秒，一个一个处理，或者成批处理。每行给出速度是只有一个"
                      "分段时的几倍。",
               .why = "锁内工作 10 毫秒时，无论机器多快，一把锁每秒只能过 100 "
                      "个订单，十把锁就是十倍。没有工作时，瓶颈是机器本身。成批"
                      "处理时，等待的订单共用一把锁，工作只做一次，再多分段也没"
                      "有好处。",
               .fix = "分段之前先测量：批量带来的好处比分段多，代价还更小。"}},
     .bug = {.load =
                 LOAD_OF("fenced", .instances = 1,
                         .flags = "--deduct guarded --workers 64" LOAD_PATIENT,
                         .crowd = {.buyers = 64}, .measure = measure_segments,
                         .judge = measure_segments_as_told),
             .sold = LOAD_SOLD_ANY}},
};

const struct experiment_family experiments_queue = {
    .title =
        {[EXPERIMENT_EN] = "Waiting for a lock", [EXPERIMENT_ZH] = "排队等锁"},
    .kind = &load_kind,
    .experiments = experiments,
    .n = sizeof(experiments) / sizeof(experiments[0]),
};
