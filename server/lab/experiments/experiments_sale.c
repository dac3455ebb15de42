/*
 * Experiments: a sale with a crowd. Without a lock, with one that is known in one
 * process only, and with one that all can see.
 */
#include "server/lab/experiments/families.h"
#include "server/lab/load/load.h"

/* As a textbook's order: it reads, thinks for a millisecond, and writes. */
#define TEXTBOOK LOAD_NAIVE " --think-ms 1"

/* The literature's: 800 orders for 100 units within one second. Nobody is refused
 * for want of time, also where all is slow. */
#define BURST                                                                  \
    .instances = 2, .stock = 100, .flags = TEXTBOOK LOAD_PATIENT,              \
    .crowd = {.buyers = 800, .orders = 800, .within_ms = 1000}

static const struct experiment experiments[] = {
    {.id = "01",
     .name = "no-lock",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "No lock",
               .symptom = "far more orders than units",
               .see = "wrk keeps 64 connections busy for two seconds; 1000 "
                      "units are for sale. Thousands of orders are confirmed. "
                      "At the end the stock in the database may look right all "
                      "the same: only the ledger of orders tells the truth.",
               .why = "Each order reads the stock, thinks for a millisecond "
                      "and writes the new number. Meanwhile others read the "
                      "same number, and all of them sell the same unit.",
               .fix = "A lock around the three steps (see 02 and 03). Or, "
                      "as here, no lock at all, and a condition in the "
                      "database: UPDATE ... WHERE stock >= 1, in one "
                      "transaction with the order (--deduct guarded)."},
          [EXPERIMENT_ZH] =
              {.title = "没有锁",
               .symptom = "订单远远多于库存",
               .see = "wrk 用 64 个连接持续下单两秒，一共只有 1000 "
                      "件商品，却有几千个订单得到确认。最后数据库里的库存可能看"
                      "起来还是对的，只有订单账本能说明真相。",
               .why = "每个订单先读库存，停一毫秒（模拟业务处理），再写回新的数"
                      "。在这期间别人也"
                      "读到了同一个数，于是同一件商品被卖了很多次。",
               .fix = "用锁把这三步包起来（见 02 和 "
                      "03）。或者像这里一样，根本不用锁，而是在数据库里加条"
                      "件：UPDATE ... WHERE stock >= "
                      "1，和订单写在同一个事务里（--deduct guarded）。"}},
     .bug = {.load = LOAD_OF("none", .instances = 1, .stock = 1000,
                             .flags = TEXTBOOK, .wrk_connections = 64),
             .faults = EXPERIMENT_FAULT(STAGE_OVERSOLD),
             .sold = LOAD_SOLD_ANY},
     .fix = {.load = LOAD_OF(
                 "none", .instances = 1, .stock = 1000,
                 .flags = "--deduct guarded --orders one-by-one --think-ms 1",
                 .wrk_connections = 64),
             .sold = LOAD_SOLD_ANY}},
    {.id = "02",
     .name = "one-process-is-fine",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "One process is fine",
               .symptom = "exact",
               .see = "The load of wrk and the textbook code are the same as "
                      "in 01, but each order takes a lock inside the process. "
                      "Not one unit is sold twice.",
               .why =
                   "All orders go through one process, so a mutex is enough: "
                   "one order after the other reads, thinks and writes.",
               .fix = "Nothing has to be fixed, as long as there is only one "
                      "process. See 03."},
          [EXPERIMENT_ZH] =
              {.title = "单进程没问题",
               .symptom = "数目正好",
               .see = "wrk 的压力和教科书代码都与 01 "
                      "相同，只是每个订单要先拿一把进程内的锁。没有一件商品被卖"
                      "两次。",
               .why = "所有订单都经过同一个进程，一个互斥锁就够了：订单一个接一"
                      "个地读、停、写。",
               .fix = "只要一直只有一个进程，就没有什么要修的。请看 03。"}},
     .bug = {.load = LOAD_OF("process", .instances = 1, .stock = 1000,
                             .flags = TEXTBOOK, .wrk_connections = 64),
             .sold = LOAD_SOLD_ANY}},
    {.id = "03",
     .name = "two-instances-are-not",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "Two instances are not",
               .symptom = "oversold",
               .see =
                   "In one second, 800 orders for 100 units alternate between "
                   "two instances that share one database. The code and the "
                   "lock are those of 02, but more than 100 units are sold.",
               .why = "The lock lives in the memory of a process. Each "
                      "instance lets one order in at a time: together that is "
                      "two, and they read the same stock.",
               .fix = "A lock that both can see: a key in Redis. The same "
                      "800 orders buy 100 units, and 700 buyers hear that "
                      "all is sold."},
          [EXPERIMENT_ZH] =
              {.title = "两个实例就不行了",
               .symptom = "超卖",
               .see = "800 个订单在一秒内抢 100 "
                      "件商品，轮流发给两个实例，它们共用一个数据库。代码和锁都"
                      "与 02 相同，卖出的却超过了 100 件。",
               .why = "这把锁在进程的内存里。每个实例一次只放一个订单进来，两个"
                      "实例就会同时放进两个，它们读到同样的库存。",
               .fix = "用两边都看得见的锁：Redis 里的一个键。同样的 800 "
                      "个订单正好买走 100 件，另外 700 人得知已售罄。"}},
     .bug = {.load = LOAD_OF("process", BURST),
             .faults = EXPERIMENT_FAULT(STAGE_OVERSOLD),
             .sold = LOAD_SOLD_ANY},
     .fix = {.load = LOAD_OF("token-lua", BURST), .sold = 100}},
};

const struct experiment_family experiments_sale = {
    .title = {[EXPERIMENT_EN] = "A sale with a crowd",
              [EXPERIMENT_ZH] = "人山人海的秒杀"},
    .kind = &load_kind,
    .experiments = experiments,
    .n = sizeof(experiments) / sizeof(experiments[0]),
};
