/* Experiments: stock that is split over several segments. */
#include "server/lab/experiments/families.h"

static const struct experiment experiments[] = {
    {.id = "34",
     .name = "pinned-to-a-segment",
     .text = {[EXPERIMENT_EN] =
                  {.title = "Pinned to a segment",
                   .symptom = "sold out, with stock left",
                   .see = "There are two units, one in each of two segments. "
                          "The user's number decides from which segment an "
                          "order sells, and for a and b it gives the same one. "
                          "a gets its unit; b is told that all is sold.",
                   .why = "A hash deals users out evenly only on average. b "
                          "has asked only one segment, and that one says "
                          "nothing about the other.",
                   .fix = "Ask the other segments as well, and say sold out "
                          "only if the database says so of the whole product: "
                          "b gets the other unit."},
              [EXPERIMENT_ZH] =
                  {.title = "绑定在一个分段上",
                   .symptom = "还有库存，却说售罄",
                   .see = "两件商品，两个分段各一件。用户编号决定从哪个分段卖，"
                          "a 和 b 恰好算出同一个。a 买到了，b 被告知售罄。",
                   .why = "哈希只是平均来说分得均匀。b "
                          "只问了一个分段，而一个分段空了，不代表另一个也空。",
                   .fix = "再去问其他分段；只有数据库说这种商品全部售罄，才能回"
                          "答售罄。于是 b 买到另一件。"}},
     .bug = {.scene = EXPERIMENT_GUARDED(
                 "none", .buyers = 2, .stock = 2, .segments = 2,
                 .roles = {{.program = "order-pinned", .user = 1},
                           {.program = "order-pinned", .user = 5}}),
             .schedule = "a a a b b",
             .faults = EXPERIMENT_FAULT(STAGE_REFUSED),
             .sold = 1},
     .fix = {.scene = EXPERIMENT_GUARDED("none", .buyers = 2, .stock = 2,
                                         .segments = 2,
                                         .roles = {{.user = 1}, {.user = 5}}),
             .schedule = "a b b",
             .sold = 2}},
    {.id = "35",
     .name = "fragments",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "Fragments",
               .symptom = "sold out, with 8 left",
               .see =
                   "Eight segments have one unit each. a wants two. It asks "
                   "all of the segments, one after the other; none has two, "
                   "and a is told that all is sold.",
               .why =
                   "Each segment answers correctly that it has fewer than two "
                   "units. Nobody asks how many there are in all.",
               .fix =
                   "Move the missing units into one segment and sell them "
                   "there, all in one transaction and on record. The service "
                   "does so when no segment has enough, but the product has."},
          [EXPERIMENT_ZH] =
              {.title = "碎片",
               .symptom = "还有 8 件，却说售罄",
               .see = "八个分段各有一件，a "
                      "要两件。它把所有分段挨个问了一遍，没有一个有两件，于是得"
                      "到售罄的答复。",
               .why = "每个分段都说自己不到两件，这没有错。可是没有人问过加起来"
                      "有几件。",
               .fix = "把缺的件数移到同一个分段，再从那里卖，全部在一个事务里完"
                      "成，并留下记录。如果哪个分段都不够，而商品总数够，本服务"
                      "就这样做。"}},
     .bug = {.scene = EXPERIMENT_GUARDED(
                 "none", .buyers = 1, .stock = 8, .segments = 8, .quantity = 2,
                 .roles = {{.program = "order-probes"}}),
             .schedule = "a a a a a a a a a",
             .faults = EXPERIMENT_FAULT(STAGE_REFUSED)},
     .fix = {.scene = EXPERIMENT_GUARDED("none", .buyers = 1, .stock = 8,
                                         .segments = 8, .quantity = 2),
             .schedule = "a",
             .sold = 2}},
    {.id = "36",
     .name = "the-moved-unit",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "The moved unit",
               .symptom = "a unit is in no segment",
               .see =
                   "a moves a unit from one segment to another: it takes it "
                   "out of the first, and dies (a!) before it puts it into the "
                   "second. Then b wants both units and is refused, though "
                   "nobody has bought any.",
               .why =
                   "Each statement is on disk when it ends. A crash between "
                   "the two leaves the first one done, and the second one "
                   "never comes. In the other order, a unit would be doubled.",
               .fix = "One transaction: either both segments have changed, or "
                      "none. a dies in the middle here, too, but the database "
                      "undoes what a had begun."},
          [EXPERIMENT_ZH] =
              {.title = "搬丢的一件",
               .symptom = "有一件不在任何分段里",
               .see =
                   "a "
                   "把一件从一个分段搬到另一个：先从第一个减掉，还没加到第二个"
                   "就死了（a!）。之后 b 想买两件，被拒绝了，可谁也没买过。",
               .why = "每条语句一结束就落盘。崩溃在两条语句之间，第一条已经生效"
                      "，第二条永远不会来。如果顺序反过来，就会多出一件。",
               .fix = "放进一个事务：要么两个分段都改，要么都不改。这次 a "
                      "同样死在中间，数据库撤销了它做到一半的事。"}},
     .bug = {.scene = EXPERIMENT_GUARDED(
                 "none", .buyers = 2, .stock = 2, .segments = 2,
                 .roles = {{.program = "move-in-steps"}, {.quantity = 2}}),
             .schedule = "a a! b",
             .faults = EXPERIMENT_FAULT(STAGE_LEDGER),
             .says = "sold-out"},
     .fix = {.scene = EXPERIMENT_GUARDED(
                 "none", .buyers = 2, .stock = 2, .segments = 2,
                 .roles = {{.program = "move-at-once"}, {.quantity = 2}}),
             .schedule = "a a a! b",
             .sold = 2}},
    {.id = "37",
     .name = "resize-in-mid-sale",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "A resize in mid-sale",
               .symptom = "a cancel goes to the wrong segment",
               .see =
                   "d buys the unit of segment 0. With two segments, a's user "
                   "number gives segment 1, and a buys the unit there. b makes "
                   "one segment of the two. c cancels a's order and computes "
                   "the segment once more: now it is 0, so the unit goes back "
                   "to a segment that it was not sold from, and the accounts "
                   "of both are wrong.",
               .why =
                   "The number of segments is part of the computation, and it "
                   "has changed in between. What was true at the sale has to "
                   "be kept, and not computed again.",
               .fix =
                   "The order's row says which segment it was sold from. A "
                   "cancel gives the units back there. If that segment is no "
                   "longer in use, the service moves them on to one that is, "
                   "on record."},
          [EXPERIMENT_ZH] =
              {.title = "卖到一半改分段数",
               .symptom = "取消后库存回错了地方",
               .see = "d 买走分段 0 的那一件。有两个分段时，a "
                      "的用户编号算出分段 1，a 买走那里的一件。b "
                      "把两个分段合成一个。c 取消 a 的订单，又算了一次：现在是 "
                      "0，于是这一件还到了别的分段，两个分段的账都不对了。",
               .why =
                   "分段数参与了计算，而它在中间变了。卖的时候是哪个分段，应该"
                   "记下来，而不是重新算。",
               .fix = "订单里记着是从哪个分段卖的，取消时就还到那里；如果那个分"
                      "段已经停用，再移到在用的分段，并留下记录。"}},
     .bug =
         {.scene = EXPERIMENT_GUARDED(
              "none", .buyers = 4, .stock = 2, .segments = 2,
              .roles = {{.program = "order-pinned", .user = 5, .key = "k"},
                        {.program = "resize", .segments = 1},
                        {.program = "cancel-pinned", .user = 5, .key = "k"}}),
          .schedule = "d a a a b c c c c c",
          .faults = EXPERIMENT_FAULT(STAGE_LEDGER),
          .sold = 1},
     .fix = {.scene = EXPERIMENT_GUARDED(
                 "none", .buyers = 4, .stock = 2, .segments = 2,
                 .roles = {{.user = 5, .key = "k"},
                           {.program = "resize", .segments = 1},
                           {.program = "cancel", .user = 5, .key = "k"}}),
             .schedule = "d a a b c",
             .sold = 1}},
};

const struct experiment_family experiments_segment = {
    .title =
        {[EXPERIMENT_EN] = "Stock in segments", [EXPERIMENT_ZH] = "分段的库存"},
    .kind = &steps_kind,
    .experiments = experiments,
    .n = sizeof(experiments) / sizeof(experiments[0]),
};
