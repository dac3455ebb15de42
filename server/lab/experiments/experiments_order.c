/* Experiments: what goes wrong around a lock that works, and without one. */
#include "server/lab/experiments/families.h"

static const struct experiment experiments[] = {
    {.id = "26",
     .name = "unlock-before-commit",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "Unlock before commit",
               .symptom = "oversold, under a lock that works",
               .see = "a sells the only unit under the lock: it reads, begins "
                      "a transaction, writes. Then it releases the lock, and "
                      "commits only after that. b gets in between the two and "
                      "reads the stock: still 1. Both sell it.",
               .why = "Until a commits, nobody else can read what a has "
                      "written. So a has to hold the lock until then, and "
                      "releases it too early. Some frameworks commit when a "
                      "method returns: a lock that is released inside that "
                      "method makes just this mistake.",
               .fix =
                   "Commit, then release, as the service's own order does: b "
                   "does not get the lock until all can read what a has sold."},
          [EXPERIMENT_ZH] =
              {.title = "先解锁，后提交",
               .symptom = "锁没有问题，照样超卖",
               .see = "a "
                      "在锁内卖掉唯一的一件：读库存、开始事务、写入。然后它先释"
                      "放锁，之后才提交。b 正好在两者之间进来，读到的库存还是 "
                      "1。两人都卖了这一件。",
               .why = "a "
                      "写入的数据，要到提交之后别人才能读到。所以锁要持有到提交"
                      "之后，a "
                      "却释放得太早。有的框架在方法返回时才提交事务，如果在方法"
                      "里面释放锁，就会出这个错。",
               .fix = "先提交，再释放锁。本服务的下单流程就是这样：b "
                      "要等到大家都能读到 a 卖出的结果，才拿得到锁。"}},
     .bug = {.scene = EXPERIMENT_SCENE(
                 "token-lua", .buyers = 2, .stock = 1,
                 .roles = {{.program = "order-unlocks-first"},
                           {.program = "order-unlocks-first"}}),
             .schedule = "a a a a a a b b a b b b b b",
             .faults = EXPERIMENT_FAULT(STAGE_OVERSOLD),
             .sold = 2},
     .fix = {.scene = EXPERIMENT_SCENE(
                 "token-lua", .buyers = 2, .stock = 1,
                 .roles = {{.program = "order-commits-first"},
                           {.program = "order-commits-first"}}),
             .schedule = "a a a a a b a a b b b b",
             .sold = 1}},
    {.id = "27",
     .name = "the-ignored-answer",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "The ignored answer",
               .symptom = "orders without a lock",
               .see =
                   "a has the lock and reads the stock. b waits for the "
                   "lock until its time is up (b+), and is told that it "
                   "has not got it. b goes on all the same and reads "
                   "the same stock. Both sell the only unit.",
               .why =
                   "An acquire with a time limit can fail, and this code has "
                   "no branch for it. Tests miss it: no test waits that long.",
               .fix = "Look at the answer. Whoever has not got the lock does "
                      "not enter: b is told lock-timeout, and may try again."},
          [EXPERIMENT_ZH] =
              {.title = "没人看的返回值",
               .symptom = "没拿到锁也照样下单",
               .see = "a 拿着锁并读了库存。b "
                      "等锁等到超时（b+"
                      "），返回值说没有拿到锁。它照样往下走，读到同样的库"
                      "存，唯一的一件被卖了两次。",
               .why = "带时限的加锁可能失败，而代码里没有处理失败的那一行。"
                      "测试时谁也不会等那么久，所以发现不了。",
               .fix = "检查返回值。没拿到锁就不能进去：b 得到 "
                      "lock-timeout，可以再试。"}},
     .bug = {.scene = EXPERIMENT_SCENE(
                 "set-nx-px", .buyers = 2, .stock = 1, .wait_ms = 5000,
                 .roles = {{.program = "order-ignoring"},
                           {.program = "order-ignoring"}}),
             .schedule = "a a b b+ b b a a b b a",
             .faults = EXPERIMENT_FAULT(STAGE_OVERSOLD),
             .sold = 2},
     .fix = {.scene = EXPERIMENT_SCENE("set-nx-px", .buyers = 2, .stock = 1,
                                       .wait_ms = 5000),
             .schedule = "a a b b+ b a a a",
             .sold = 1,
             .says = "lock-timeout"}},
    {.id = "28",
     .name = "wrong-grain",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "The wrong grain",
               .symptom = "oversold, though everybody has a lock",
               .see =
                   "a and b each take a lock, and each gets it: the locks are "
                   "named after the user. Both read the stock of the same "
                   "product, and both sell its only unit.",
               .why = "A lock keeps out only those who ask for the same name. "
                      "The rule here is about the product, not the user: no "
                      "more is sold than there is.",
               .fix =
                   "Name the lock after what it protects: lock:{1:0} is that "
                   "of the product. Then b waits, and finds that all is sold."},
          [EXPERIMENT_ZH] =
              {.title = "锁的粒度不对",
               .symptom = "人人有锁，照样超卖",
               .see = "a 和 b "
                      "各拿一把锁，都拿到了：锁是按用户命名的。两人读的却是同一"
                      "种商品的库存，唯一的一件被卖了两次。",
               .why = "锁只能挡住请求同一个名字的人。这里的规则是卖出的不能多于"
                      "库存，它属于商品，而不属于用户。",
               .fix = "锁的名字要和它保护的东西一致：lock:{1:0} "
                      "是这种商品的锁。于是 b 等待，然后发现已经售罄。"}},
     .bug = {.scene =
                 EXPERIMENT_SCENE("token-lua", .buyers = 2, .stock = 1,
                                  .roles = {{.program = "order-locks-user"},
                                            {.program = "order-locks-user"}}),
             .schedule = "a b a b a a b b a b",
             .faults = EXPERIMENT_FAULT(STAGE_OVERSOLD),
             .sold = 2},
     .fix = {.scene = EXPERIMENT_SCENE("token-lua", .buyers = 2, .stock = 1),
             .schedule = "a b a a a a b b b b",
             .sold = 1}},
    {.id = "29",
     .name = "two-clicks",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "Two clicks",
               .symptom = "two orders, where one is allowed",
               .see =
                   "One user may buy one unit, and clicks twice. Both requests "
                   "count the user's orders, and both find none. Both take a "
                   "unit on condition that it is there, and both write an "
                   "order.",
               .why = "Looking and then writing are two steps, and the second "
                      "request looks between them. The condition on the stock "
                      "is right, but it does not protect the limit.",
               .fix = "There is one row for each product and user, and both "
                      "requests have to change it: the database lets one of "
                      "them go first, and the other one finds the limit "
                      "reached. A lock per user would do as well, as long as "
                      "nobody writes without it."},
          [EXPERIMENT_ZH] =
              {.title = "点了两下",
               .symptom = "限购一件，却有两个订单",
               .see = "每人限购一件，用户点了两下。两个请求都去数这个用户的订单"
                      "，都是零；然后都在有库存的条件下扣了一件，都写了订单。",
               .why = "先查再写是两步，第二个请求正好在两步之间查。扣库存的条件"
                      "没有错，但它管不了限购。",
               .fix = "每种商品的每个用户有一行记录，两个请求都要改这一行：数据"
                      "库让其中一个先改，另一个就会发现已到上限。按用户加锁也可"
                      "以，前提是没有人绕过这把锁。"}},
     .bug = {.scene = EXPERIMENT_GUARDED(
                 "none", .buyers = 2, .stock = 2, .limit = 1,
                 .roles = {{.program = "order-checks-first", .user = 1},
                           {.program = "order-checks-first", .user = 1}}),
             .schedule = "a b a b a b",
             .faults = EXPERIMENT_FAULT(STAGE_LIMIT),
             .sold = 2},
     .fix = {.scene = EXPERIMENT_GUARDED(
                 "none", .buyers = 2, .stock = 2, .limit = 1,
                 .roles = {{.program = "order-has-row", .user = 1},
                           {.program = "order-has-row", .user = 1}}),
             .schedule = "a b a a",
             .sold = 1,
             .says = "purchase-limit"}},
    {.id = "30",
     .name = "retry-without-a-key",
     .text = {[EXPERIMENT_EN] =
                  {.title = "A retry without a key",
                   .symptom = "one purchase, two orders",
                   .see =
                       "a orders. The order is written, and the answer is lost "
                       "on its way (a~). a does not know what came of it, and "
                       "sends the same again. Now there are two orders.",
                   .why = "A client that hears nothing cannot know whether its "
                          "request or the answer was lost. And the service "
                          "cannot tell a retry from a second wish.",
                   .fix =
                       "An Idempotency-Key, chosen by the client before its "
                       "first try. The key is unique in the database: the "
                       "answer to the second try is the order of the first."},
              [EXPERIMENT_ZH] =
                  {.title = "重试没带幂等键",
                   .symptom = "想买一次，下了两单",
                   .see =
                       "a 下单；订单写进去了，答复却在路上丢了（a~）。a "
                       "不知道结果，把同样的请求又发了一遍。于是有了两个订单。",
                   .why = "客户端没有收到答复，就不知道丢的是请求还是答复。服务"
                          "也分不清这是重试，还是又想买一次。",
                   .fix = "客户端在第一次请求之前选好幂等键（Idempotency-"
                          "Key）。它在数据库里是唯一的：第二次请求得到的答复就"
                          "是第一次的订单。"}},
     .bug = {.scene = EXPERIMENT_GUARDED("none", .buyers = 1, .stock = 5,
                                         .roles = {{.program = "order-again"}}),
             .schedule = "a~ a",
             .faults = EXPERIMENT_FAULT(STAGE_TWICE),
             .sold = 2},
     .fix = {.scene = EXPERIMENT_GUARDED(
                 "none", .buyers = 1, .stock = 5,
                 .roles = {{.program = "order-again", .key = "k"}}),
             .schedule = "a~ a",
             .sold = 1}},
    {.id = "32",
     .name = "off-by-one",
     .text = {[EXPERIMENT_EN] =
                  {.title = "Off by one",
                   .symptom = "stock -1",
                   .see =
                       "There are three units, and a and b want two each. The "
                       "UPDATE has a condition: stock > 0. a gets two; one is "
                       "left for b, and that is more than 0. The stock is -1.",
                   .why = "The condition asks whether there is any stock, but "
                          "it has to ask whether there is enough. With orders "
                          "of one unit both are the same, so nobody noticed.",
                   .fix =
                       "stock >= quantity, in the statement that takes the "
                       "units. And CHECK (stock >= 0) on the column, which "
                       "turns such a mistake into an error. (The database has "
                       "it; the PRAGMA switches it off for this lesson.)"},
              [EXPERIMENT_ZH] =
                  {.title = "差一错误",
                   .symptom = "库存变成 -1",
                   .see =
                       "共三件，a 和 b 各要两件。UPDATE 带着条件：stock > 0。a "
                       "拿走两件；轮到 b 时还剩一件，也大于 0。库存变成了 -1。",
                   .why = "条件问的是有没有库存，而该问的是够不够。每单只买一件"
                          "时两者一样，所以没人发现。",
                   .fix = "在扣减语句里写 stock >= 数量。再给这一列加上 CHECK "
                          "(stock >= "
                          "0)"
                          "，这样的错误就会报错，而不是变成订单。（数据库里本来"
                          "就有，这一课用 PRAGMA 把它关掉了。）"}},
     .bug = {.scene = EXPERIMENT_GUARDED(
                 "none", .buyers = 2, .stock = 3, .quantity = 2,
                 .roles = {{.program = "order-off-by-one"},
                           {.program = "order-off-by-one"}}),
             .schedule = "a a a b b b",
             .faults = EXPERIMENT_FAULT(STAGE_OVERSOLD),
             .sold = 4},
     .fix = {.scene = EXPERIMENT_GUARDED(
                 "none", .buyers = 2, .stock = 3, .quantity = 2,
                 .roles = {{.program = "order-counts-rows"},
                           {.program = "order-counts-rows"}}),
             .schedule = "a a b",
             .sold = 2,
             .says = "sold-out"}},
    {.id = "33",
     .name = "rows-not-counted",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "Rows not counted",
               .symptom = "orders > stock, and the stock is 0",
               .see =
                   "a takes the only unit. b's UPDATE has the right condition, "
                   "so it changes no row, and that is no error. b writes its "
                   "order all the same. The stock says 0, and two units are "
                   "sold.",
               .why =
                   "An UPDATE that matches nothing succeeds. It answers how "
                   "many rows it has changed, and nobody has looked at that.",
               .fix =
                   "Look at changes(): 0 rows mean sold out, and no order is "
                   "written. The service does both in one transaction."},
          [EXPERIMENT_ZH] =
              {.title = "没看影响行数",
               .symptom = "订单比库存多，库存显示 0",
               .see = "a 拿走唯一的一件。b 的 UPDATE "
                      "条件正确，所以一行也没改到，但这不算出错。b "
                      "照样写了订单。库存是 0，卖出的却是两件。",
               .why = "什么都没匹配到的 UPDATE "
                      "也算成功。它的答复是改了几行，而没有人去看。",
               .fix =
                   "检查 changes()：0 "
                   "行就是售罄，不写订单。本服务把两件事放在同一个事务里。"}},
     .bug = {.scene = EXPERIMENT_GUARDED(
                 "none", .buyers = 2, .stock = 1,
                 .roles = {{.program = "order-counts-no-rows"},
                           {.program = "order-counts-no-rows"}}),
             .schedule = "a a b b",
             .faults = EXPERIMENT_FAULT(STAGE_OVERSOLD),
             .sold = 2},
     .fix = {.scene = EXPERIMENT_GUARDED(
                 "none", .buyers = 2, .stock = 1,
                 .roles = {{.program = "order-counts-rows"},
                           {.program = "order-counts-rows"}}),
             .schedule = "a a b",
             .sold = 1,
             .says = "sold-out"}},
};

const struct experiment_family experiments_order = {
    .title = {[EXPERIMENT_EN] = "The code around the lock",
              [EXPERIMENT_ZH] = "锁周围的代码"},
    .kind = &steps_kind,
    .experiments = experiments,
    .n = sizeof(experiments) / sizeof(experiments[0]),
};
