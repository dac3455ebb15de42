/* Experiments with several locks at once. */
#include "server/lab/experiments/families.h"

#define TWO_ORDERS(first, second)                                              \
    EXPERIMENT_SCENE(                                                          \
        "token-lua", .buyers = 2, .stock = 1, .wait_ms = 5000, .products = 2,  \
        .roles = {                                                             \
            {.program = "lock-both", .product = 1, .other = 2},                \
            {.program = "lock-both", .product = (first), .other = (second)}})

static const struct experiment experiments[] = {
    {.id = "31",
     .name = "a-b-b-a",
     .text = {[EXPERIMENT_EN] =
                  {.title = "A-B, B-A",
                   .symptom = "each waits for the other's lock",
                   .see =
                       "Two orders want two products each and lock both, in "
                       "the order of the request: a has 1 and wants 2, b has 2 "
                       "and wants 1. Both wait, and neither can go on, until "
                       "the wait of a ends (a+). a releases what it has. It "
                       "was refused, though nobody had bought anything.",
                   .why = "Whoever waits keeps the locks that it holds. If the "
                          "waits form a circle, no lock in it becomes free.",
                   .fix = "Both take their locks in the same order, the lower "
                          "number first: then b waits for 1 and holds nothing. "
                          "Or each takes all at once, or none (multi). Or the "
                          "circle is found: with deadlock_ms "
                          "(dlock_deadlock.h), libdlock tells "
                          "one of them who waits for whom."},
              [EXPERIMENT_ZH] =
                  {.title = "A-B、B-A",
                   .symptom = "双方各等对方的锁",
                   .see = "两个订单各买两种商品，按请求里的顺序加锁：a 拿着 1 "
                          "要 2，b 拿着 2 要 1。双方都在等，谁也走不动，直到 a "
                          "等待超时（a+），释放手里的锁。a "
                          "被拒绝了，可根本没有人买走任何东西。",
                   .why = "等锁的人不会放开已有的锁。等待关系一旦成环，"
                          "环里的锁谁也释放不了。",
                   .fix = "大家都按同样的顺序加锁，编号小的在前：这样 b 等 1 "
                          "时手里什么也没有。或者一次全拿，拿不全就都不拿（mult"
                          "i）。或者把环找出来：设了 deadlock_ms，libdlock "
                          "会告诉其中一方谁在等谁。"}},
     .bug = {.scene = TWO_ORDERS(2, 1),
             .schedule = "a b a b a+ a a b b b b",
             .says = "not inside"},
     .fix = {.scene = TWO_ORDERS(1, 2), .schedule = "a b a a a b b b b b"}},
};

const struct experiment_family experiments_several = {
    .title = {[EXPERIMENT_EN] = "Several locks at once",
              [EXPERIMENT_ZH] = "同时拿几把锁"},
    .kind = &steps_kind,
    .experiments = experiments,
    .n = sizeof(experiments) / sizeof(experiments[0]),
};
