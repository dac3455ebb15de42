/* Experiments: answers that were given too early, too late, or wrongly. */
#include "server/lab/experiments/families.h"

static const struct experiment experiments[] = {
    {.id = "39",
     .name = "sold-in-redis-not-in-sql",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "Sold in Redis, not in SQL",
               .symptom = "an order was acknowledged, and is nowhere",
               .see = "A script takes the unit from a key in Redis, and a is "
                      "told that it has bought it. The order is to be written "
                      "to the database after that, but a's process dies before "
                      "(a!). b is told sold out. The database still has the "
                      "unit, and no order.",
               .why =
                   "The stock is kept in two places, and nothing changes both "
                   "or none. A queue between them only makes the gap longer.",
               .fix = "The database decides, in one transaction, and nobody is "
                      "told anything before its commit. The number in Redis is "
                      "only a hint: fast, and allowed to be wrong. a has heard "
                      "nothing here, and b gets the unit."},
          [EXPERIMENT_ZH] =
              {.title = "Redis 里卖了，SQL 里没有",
               .symptom = "已确认的订单哪里都找不到",
               .see = "一段脚本从 Redis 的键里扣掉一件，a "
                      "得到“已买到”的答复。订单要在这之后才写进数据库，可是 a "
                      "的进程先死了（a!）。b "
                      "得到“已售罄”的答复。数据库里那一件还在，订单却没有。",
               .why = "库存记在两个地方，却没有办法让它们要么都改、要么都不改。"
                      "中间加个队列，只会让空档更长。",
               .fix = "由数据库在一个事务里决定，提交之前不告诉任何人。Redis "
                      "里的数只是提示：很快，也允许出错。这次 a "
                      "没有得到任何答复，b 买到了那一件。"}},
     .bug = {.scene =
                 EXPERIMENT_GUARDED("set-nx-px", .buyers = 2, .stock = 1,
                                    .roles = {{.program = "order-in-redis"},
                                              {.program = "order-in-redis"}}),
             .schedule = "a a a! b b",
             .faults = EXPERIMENT_FAULT(STAGE_LOST) |
                       EXPERIMENT_FAULT(STAGE_REFUSED)},
     .fix = {.scene = EXPERIMENT_GUARDED("set-nx-px", .buyers = 2, .stock = 1),
             .schedule = "a a! L b b b",
             .sold = 1}},
    {.id = "40",
     .name = "sticky-sold-out",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "A sticky \"sold out\"",
               .symptom = "refused, with stock left",
               .see =
                   "a buys the only unit. b is refused, and sets a flag in "
                   "Redis, so that those who come later cost no write. Then c "
                   "cancels a's order, and the unit is back. d looks at the "
                   "flag and is refused, as is everybody after it.",
               .why =
                   "The flag was right when it was set, but nothing takes it "
                   "back. It is not enough that the cancel deletes it: a late "
                   "write by an earlier refusal sets it again.",
               .fix =
                   "The flag has the product's epoch in it, and each cancel "
                   "begins a new epoch, in its own transaction. d looks "
                   "whether the flag is of this epoch. It is not, so d buys. "
                   "(The service has a number like this, which its instances "
                   "share.)"},
          [EXPERIMENT_ZH] =
              {.title = "收不回来的“售罄”",
               .symptom = "还有库存，却被拒绝",
               .see =
                   "a 买走唯一的一件。b 被拒绝，并在 Redis "
                   "里设了一个标志，让后来的人不必再写数据库。接着 c 取消了 a "
                   "的订单，那一件回来了。d 看到标志，被拒绝；之后的人也一样。",
               .why = "标志设上时是对的，之后却没有什么让它失效。取消时把它删掉"
                      "还不够：更早的一次拒绝如果写得晚，又会把它设上。",
               .fix = "标志里带上商品的 "
                      "epoch（纪元号），每次取消都在自己的事务里把它加一。d "
                      "检查标志是不是当前 epoch 的。不是，于是 d "
                      "买到了。（本服务也有这样一个编号，由各实例共享。）"}},
     .bug = {.scene = EXPERIMENT_GUARDED(
                 "none", .buyers = 4, .stock = 1,
                 .roles = {{.program = "order-sticky", .key = "k"},
                           {.program = "order-sticky"},
                           {.program = "cancel-epoch", .key = "k"},
                           {.program = "order-sticky"}}),
             .schedule = "a a a a b b b b c c c c c d d",
             .faults = EXPERIMENT_FAULT(STAGE_REFUSED)},
     .fix = {.scene = EXPERIMENT_GUARDED(
                 "none", .buyers = 4, .stock = 1,
                 .roles = {{.program = "order-epoch", .key = "k"},
                           {.program = "order-epoch"},
                           {.program = "cancel-epoch", .key = "k"},
                           {.program = "order-epoch"}}),
             .schedule = "a a a a b b b b c c c c c d d d d",
             .sold = 1}},
    {.id = "41",
     .name = "busy-is-not-sold-out",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "Busy is not sold out",
               .symptom = "undersold: busy is taken for sold out",
               .see =
                   "b is in the middle of a transaction, so the database "
                   "answers a: busy (locked). a's code knows only yes and no. "
                   "It takes this for a no, and tells its customer that all is "
                   "sold. One of two units is left.",
               .why =
                   "Busy means neither yes nor no, but \"don't know yet\". An "
                   "else that catches all other answers turns it into a no.",
               .fix = "Wait for a bounded time, and then say: 503, try again "
                      "later. The service's order waits until b has committed, "
                      "and gets the other unit."},
          [EXPERIMENT_ZH] =
              {.title = "忙不等于售罄",
               .symptom = "少卖：忙被当成了售罄",
               .see =
                   "b 的事务正进行到一半，数据库对 a 的回答是：忙（locked）。a "
                   "的代码只认得有和没有，把它当成没有，告诉顾客已经售罄。两件"
                   "里还剩一件。",
               .why = "忙既不是有，也不是没有，而是“还不知道”。一个兜底的 else "
                      "把它变成了没有。",
               .fix = "等待，但时间有上限；还不行就回答 "
                      "503，请稍后再试。本服务的订单等到 b "
                      "提交之后，买到了另一件。"}},
     .bug = {.scene =
                 EXPERIMENT_GUARDED("none", .buyers = 2, .stock = 2,
                                    .roles = {{.program = "order-busy-is-no"},
                                              {.program = "order-whole"}}),
             .schedule = "b b a b b",
             .faults = EXPERIMENT_FAULT(STAGE_REFUSED),
             .sold = 1},
     .fix = {.scene = EXPERIMENT_GUARDED(
                 "none", .buyers = 2, .stock = 2,
                 .roles = {{.program = "order"}, {.program = "order-whole"}}),
             .schedule = "b b a b b a",
             .sold = 2}},
    {.id = "42",
     .name = "acknowledged-then-lost",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "Acknowledged, then lost",
               .symptom = "201, and no order after a power cut",
               .see =
                   "The database is set to synchronous = OFF, because that is "
                   "faster. a's order is committed, and a is told so. Then the "
                   "power fails (b). What was never synced to the disk is "
                   "gone: there is no order, and the unit is on sale again.",
               .why = "A commit that does not wait for the disk is only in the "
                      "memory of the kernel. That survives the crash of a "
                      "process, but not a power cut.",
               .fix =
                   "synchronous = FULL: the commit returns when the disk "
                   "has it, and only then is the customer told. One sync "
                   "for many orders (group commit) makes it cheap. The order "
                   "survives the same power cut."},
          [EXPERIMENT_ZH] =
              {.title = "确认过，又丢了",
               .symptom = "返回了 201，断电后没有订单",
               .see = "为了快，数据库设成 synchronous = OFF。a 的订单提交了，a "
                      "也得到了确认。然后断电（b）。没有同步到磁盘的都没了：订"
                      "单不见了，那一件又可以卖了。",
               .why = "不等磁盘的提交，只写进了内核的内存。进程崩溃不会丢，断电"
                      "就会丢。",
               .fix =
                   "synchronous = "
                   "FULL：磁盘写好之后提交才返回，这时才告诉顾客。多个订单共"
                   "用一次同步（组提交），代价就不高。同样断电，订单还在。"}},
     .bug = {.scene =
                 EXPERIMENT_GUARDED("none", .buyers = 2, .stock = 1,
                                    .roles = {{.program = "order-unsynced"},
                                              {.program = "power-cut"}}),
             .schedule = "a a a a a b",
             .faults = EXPERIMENT_FAULT(STAGE_LOST)},
     .fix = {.scene = EXPERIMENT_GUARDED("none", .buyers = 2, .stock = 1,
                                         .roles = {{.program = "order-synced"},
                                                   {.program = "power-cut"}}),
             .schedule = "a a a a a b",
             .sold = 1}},
    {.id = "43",
     .name = "late-at-the-door",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "Late at the door",
               .symptom = "an order after the end of the sale",
               .see =
                   "The sale ends in five seconds (c). b looks at the clock at "
                   "the door: the sale is open. Then b has to wait for the "
                   "lock until the lease ends (L), because a died while it "
                   "held it. By then the sale is over, and b sells all the "
                   "same.",
               .why =
                   "Between the look and the sale there is a wait, and nobody "
                   "knows how long. What was checked before a wait has to be "
                   "checked after it.",
               .fix = "Check in the transaction that sells, by the clock "
                      "of that moment. b comes in time, waits too long, "
                      "and is told: sale ended."},
          [EXPERIMENT_ZH] =
              {.title = "进门时还在卖，成交时已结束",
               .symptom = "活动结束之后还有订单",
               .see =
                   "活动五秒后结束（c）。b "
                   "在门口看了一下时间：还开着。然后它得等锁，要等到租约到期（L"
                   "），因为 a 拿着锁时死了。这时活动早已结束，b 却照样卖了。",
               .why = "看时间和卖出之间隔着一次等待，谁也不知道要等多久。等待之"
                      "前检查过的事，等待之后要再检查。",
               .fix = "在卖出的那个事务里检查，用那一刻的时间。b "
                      "来得及时，但等得太久，得到的答复是：活动已结束。"}},
     .bug = {.scene = EXPERIMENT_GUARDED("token-lua", .buyers = 3, .stock = 2,
                                         .roles = {{.program = "order"},
                                                   {.program = "order-late"},
                                                   {.program = "end-soon"}}),
             .schedule = "c a a! b b L b b b b b",
             .faults = EXPERIMENT_FAULT(STAGE_CHECK),
             .sold = 1},
     .fix = {.scene = EXPERIMENT_GUARDED("token-lua", .buyers = 3, .stock = 2,
                                         .roles = {{.program = "order"},
                                                   {.program = "order"},
                                                   {.program = "end-soon"}}),
             .schedule = "c a a! b L b b b b",
             .says = "sale-ended"}},
    {.id = "44",
     .name = "paid-or-expired",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "Paid or expired",
               .symptom = "both win: paid for, and sold once more",
               .see =
                   "a has ordered and pays. At the same moment b runs, the job "
                   "that cancels unpaid orders. Both read \"open\"; a writes "
                   "\"paid\", b writes \"expired\". a's card is charged, and "
                   "its unit is on sale again.",
               .why = "Each has looked before it wrote, and the other one has "
                      "written in between. The last write wins, and the first "
                      "does not know that it has lost.",
               .fix =
                   "Compare and set: UPDATE ... WHERE status = 'open', and a "
                   "look at how many rows have changed. Of two who try, one "
                   "changes the row. The other one sees 0 rows and stops."},
          [EXPERIMENT_ZH] =
              {.title = "付款和过期，谁说了算",
               .symptom = "双方都赢：钱付了，货又在卖",
               .see = "a 下了单，正在付款。同时来了 "
                      "b，它是取消未付款订单的任务。双方都看到账单未付，就都写"
                      "：一个写已付，一个写过期。a 的钱扣了，那一件却又在卖。",
               .why = "双方都是先看再写，而看和写之间对方也写了。后写的赢，先写"
                      "的不知道自己输了。",
               .fix = "比较并设置：UPDATE ... WHERE status = "
                      "'open'"
                      "，再看改了几行。双方同时来，只有一方改得到；另一方看到 "
                      "0 行，就停下。"}},
     .bug = {.scene = EXPERIMENT_GUARDED(
                 "none", .buyers = 2, .stock = 1,
                 .roles = {{.program = "pay-looks", .key = "k"},
                           {.program = "expire-looks", .key = "k"}}),
             .schedule = "a a a b a b a b",
             .faults = EXPERIMENT_FAULT(STAGE_CHECK)},
     .fix = {.scene = EXPERIMENT_GUARDED(
                 "none", .buyers = 2, .stock = 1,
                 .roles = {{.program = "pay-compares", .key = "k"},
                           {.program = "expire-compares", .key = "k"}}),
             .schedule = "a a a b a",
             .sold = 1}},
};

const struct experiment_family experiments_answer = {
    .title = {[EXPERIMENT_EN] = "What the customer is told",
              [EXPERIMENT_ZH] = "给顾客的答复"},
    .kind = &steps_kind,
    .experiments = experiments,
    .n = sizeof(experiments) / sizeof(experiments[0]),
};
