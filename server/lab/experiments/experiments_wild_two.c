/*
 * Experiments in the wild: two are inside at once. The same lessons as in steps, with
 * processes of `stockade serve` that stop and go on, and a redis-server whose leases
 * end by real time. See server/lab/load/load.h for the stories.
 */
#include "server/lab/experiments/families.h"
#include "server/lab/load/load.h"

static const struct experiment experiments[] = {
    {.id = "05w",
     .name = "wild-losers-finally",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "The loser's finally, in the wild",
               .symptom = "a loser frees the winner's lock: oversold",
               .see = "a works under its lock. An order at b gives up waiting, "
                      "and its finally deletes the key, which is a's lock. The "
                      "next orders at b get in while a is still inside, and "
                      "five units are sold, of three.",
               .why = "The finally also covers the acquire, so it runs for "
                      "those who never had the lock as well. DEL does not ask "
                      "whose key it is.",
               .fix = "Release only what you have acquired. b's orders are "
                      "refused while a is inside, and sell what is left when a "
                      "is done."},
          [EXPERIMENT_ZH] =
              {.title = "失败者的 finally，真实进程版",
               .symptom = "没抢到锁的人释放了别人的锁：超卖",
               .see = "a 正持锁工作。b 的一个订单等锁超时，它的 finally "
                      "删掉了键，而那是 a 的锁。b 接下来的订单趁 a "
                      "还在里面就进来了，三件商品卖了五件。",
               .why =
                   "finally 把加锁也包了进去，所以没拿到锁的人也会执行它。DEL "
                   "不会问这个键是谁的。",
               .fix = "只释放自己拿到的锁。a 在里面时 b 的订单被拒绝，a "
                      "做完之后 b 再卖剩下的。"}},
     .bug = {.load = LOAD_OF("setnx-finally", .instances = 2, .stock = 3,
                             .flags = LOAD_IMPATIENT,
                             .each = {LOAD_INSIDE "hold*1"}),
             .schedule = "a& a. b b*2 a> a= b*2",
             .faults = EXPERIMENT_FAULT(STAGE_OVERSOLD),
             .sold = 5},
     .fix = {.load = LOAD_OF("set-nx-px", .instances = 2, .stock = 3,
                             .flags = LOAD_IMPATIENT,
                             .each = {LOAD_INSIDE "hold*1"}),
             .schedule = "a& a. b b*2 a> a= b*2",
             .sold = 3}},
    {.id = "08w",
     .name = "wild-long-work",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "Longer than the lease, in the wild",
               .symptom = "two holders, oversold",
               .see =
                   "A thread of a reads the stock, 3, and then waits for "
                   "something slow, for longer than its lease. Redis ends the "
                   "lease, and b sells two units. Then a writes what it had "
                   "computed: 2 left. Five units are sold, of three.",
               .why = "Redis counts the time of the lease, and nobody "
                      "tells the thread that it is over. It goes on as if "
                      "it still had the lock.",
               .fix =
                   "A watchdog renews the lease while the process lives: b is "
                   "refused until a is done. It helps here because only one "
                   "thread is slow. If the whole process stands still, see "
                   "12w."},
          [EXPERIMENT_ZH] =
              {.title = "干得比租约久，真实进程版",
               .symptom = "两个持有者，超卖",
               .see = "a 的一个线程读到库存 "
                      "3，然后等一件很慢的事，等得比租约还久。租约到期，b "
                      "卖出两件。接着 a 写下自己算好的数：还剩 2 "
                      "件。三件商品卖了五件。",
               .why = "租约的时间由 Redis "
                      "计，没有人告诉这个线程时间到了。它继续往下做，好像锁"
                      "还在手里。",
               .fix = "看门狗：进程活着就不断续租，a 做完之前 b "
                      "都会被拒绝。这里管用，是因为只有一个线程慢；如果整个"
                      "进程都停住，见 12w。"}},
     .bug = {.load = LOAD_OF("set-nx-px", .instances = 2, .stock = 3,
                             .flags = LOAD_IMPATIENT,
                             .each = {LOAD_SHORT_LEASE LOAD_INSIDE "hold*1"}),
             .schedule = "a& a. L b*2 a> a= b*3",
             .faults = EXPERIMENT_FAULT(STAGE_OVERSOLD),
             .sold = 5},
     .fix = {.load = LOAD_OF("watchdog", .instances = 2, .stock = 3,
                             .flags = LOAD_IMPATIENT,
                             .each = {LOAD_RENEWED LOAD_INSIDE "hold*1"}),
             .schedule = "a& a. L b*2 a> a= b*3",
             .sold = 3}},
    {.id = "09w",
     .name = "wild-chain",
     .text = {[EXPERIMENT_EN] =
                  {.title = "A frees B, B frees C, in the wild",
                   .symptom = "a chain of double holders, oversold",
                   .see = "a's process stops just before its release, and its "
                          "lease ends. b gets the lock. a goes on and deletes "
                          "b's key, so c gets in beside b; b's release deletes "
                          "c's key, and so on. Six units are sold, of four.",
                   .why = "The value of the key is the same for all, and DEL "
                          "asks nothing. One late release is enough: each "
                          "wrong release lets in the next one, whose lock is "
                          "then deleted by the one before.",
                   .fix = "The value of the key is a random owner, and a "
                          "script deletes the key only for its owner. a's late "
                          "release deletes nothing, c is refused while b "
                          "works, and four units are sold."},
              [EXPERIMENT_ZH] =
                  {.title = "A 释放 B 的锁，B 释放 C 的锁，真实进程版",
                   .symptom = "一连串的双重持有，超卖",
                   .see =
                       "a 的进程正要释放锁时停住了，租约到期，b 拿到锁。a "
                       "恢复后删掉的是 b 的键，于是 c 和 b 同时在里面；b "
                       "释放时又删掉了 c 的键，一个接一个。四件商品卖了六件。",
                   .why = "键的值对所有人都一样，DEL "
                          "什么也不问。一次迟到的释放就够了：每次误删都会放进一"
                          "个人，而他的锁又被前一个人删掉。",
                   .fix = "值里写一个随机的持有者标识，用脚本只删属于自己的键。"
                          "a 迟到的释放什么也删不掉，b 工作时 c "
                          "被拒绝，正好卖出四件。"}},
     .bug = {.load = LOAD_OF(
                 "set-nx-px", .instances = 3, .stock = 4,
                 .flags = LOAD_IMPATIENT,
                 .each = {LOAD_SHORT_LEASE
                          "--lab-failpoint "
                          "del:before=stop*1,eval-release:before=stop*1",
                          LOAD_LONG_LEASE LOAD_INSIDE "hold*1",
                          LOAD_LONG_LEASE LOAD_INSIDE "hold*1"}),
             .schedule = "a& a. L b& b. a> c& c. b> b= a c> c= a*3",
             .faults = EXPERIMENT_FAULT(STAGE_OVERSOLD),
             .sold = 6},
     .fix = {.load = LOAD_OF(
                 "token-lua", .instances = 3, .stock = 4,
                 .flags = LOAD_IMPATIENT,
                 .each = {LOAD_SHORT_LEASE
                          "--lab-failpoint "
                          "del:before=stop*1,eval-release:before=stop*1",
                          LOAD_LONG_LEASE LOAD_INSIDE "hold*1",
                          LOAD_LONG_LEASE LOAD_INSIDE "hold*1"}),
             .schedule = "a& a. L b& b. a> c& c. b> b= a c> c= a*3",
             .sold = 4}},
    {.id = "10w",
     .name = "wild-same-name",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "The same name in two houses, in the wild",
               .symptom = "frees the other process's lock: oversold",
               .see =
                   "a stops before its release, its lease ends, and b "
                   "gets the lock. Then a looks at the key: it has "
                   "number 1, as a's own worker. So a deletes b's lock, "
                   "and c comes in while b is inside.",
               .why =
                   "The owner is the number of a thread, and each process "
                   "counts its threads from 1. Two processes with one worker "
                   "each have the same owner.",
               .fix = "The owner is random, so each process has another one. a "
                      "looks, finds another owner, and leaves the key alone."},
          [EXPERIMENT_ZH] =
              {.title = "两户人家，同一个名字，真实进程版",
               .symptom = "释放了另一个进程的锁：超卖",
               .see = "a 在释放之前停住，租约到期，b 拿到锁。a "
                      "恢复后看了一眼键：值是 1，和 a "
                      "自己的工作线程编号一样。于是 a 删掉了 b 的锁，b "
                      "还在里面，c 就进来了。",
               .why = "持有者用的是线程编号，而每个进程都从 1 "
                      "开始编号。两个各有一个工作线程的进程，持有者就相同了。",
               .fix = "持有者用随机标识，各个进程都不相同。a "
                      "看一眼，发现是别人的，就不去动这个键。"}},
     .bug = {.load = LOAD_OF("token-thread", .instances = 3, .stock = 3,
                             .flags = LOAD_IMPATIENT " --workers 1",
                             .each = {LOAD_SHORT_LEASE
                                      "--lab-failpoint get:before=stop*1",
                                      LOAD_LONG_LEASE LOAD_INSIDE "hold*1",
                                      LOAD_LONG_LEASE}),
             .schedule = "a& a. L b& b. a> a= c b> b= c*3",
             .faults = EXPERIMENT_FAULT(STAGE_OVERSOLD),
             .sold = 4},
     .fix = {.load = LOAD_OF("token", .instances = 3, .stock = 3,
                             .flags = LOAD_IMPATIENT " --workers 1",
                             .each = {LOAD_SHORT_LEASE
                                      "--lab-failpoint get:before=stop*1",
                                      LOAD_LONG_LEASE LOAD_INSIDE "hold*1",
                                      LOAD_LONG_LEASE}),
             .schedule = "a& a. L b& b. a> a= c b> b= c*3",
             .sold = 3}},
    {.id = "11w",
     .name = "wild-get-and-del",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "Between GET and DEL, in the wild",
               .symptom = "frees another's lock: oversold",
               .see =
                   "a asks Redis whose lock it is and hears: your own. Then "
                   "its process stops, its lease ends, and b gets the lock. a "
                   "goes on with its DEL, and c comes in while b is still "
                   "inside.",
               .why = "Looking and deleting are two commands. In between the "
                      "key can become that of somebody else.",
               .fix =
                   "One script that compares and deletes: Redis runs nothing "
                   "else in between."},
          [EXPERIMENT_ZH] =
              {.title = "GET 与 DEL 之间，真实进程版",
               .symptom = "释放了别人的锁：超卖",
               .see = "a 问 Redis "
                      "锁是谁的，答案是：你自己的。这时进程停住，租约到期，b "
                      "拿到锁。a 恢复后接着执行 DEL，b 还在里面，c 就进来了。",
               .why =
                   "查看和删除是两条命令。查看时成立的事，删除时不一定还成立。",
               .fix = "把比较和删除写进同一段脚本：中间 Redis "
                      "不会执行别的命令。"}},
     .bug = {.load = LOAD_OF(
                 "token", .instances = 3, .stock = 3,
                 .flags = LOAD_IMPATIENT " --workers 1",
                 .each = {LOAD_SHORT_LEASE
                          "--lab-failpoint "
                          "del:before=stop*1,eval-release:before=stop*1",
                          LOAD_LONG_LEASE LOAD_INSIDE "hold*1",
                          LOAD_LONG_LEASE}),
             .schedule = "a& a. L b& b. a> a= c b> b= c*3",
             .faults = EXPERIMENT_FAULT(STAGE_OVERSOLD),
             .sold = 4},
     .fix = {.load = LOAD_OF(
                 "token-lua", .instances = 3, .stock = 3,
                 .flags = LOAD_IMPATIENT " --workers 1",
                 .each = {LOAD_SHORT_LEASE
                          "--lab-failpoint "
                          "del:before=stop*1,eval-release:before=stop*1",
                          LOAD_LONG_LEASE LOAD_INSIDE "hold*1",
                          LOAD_LONG_LEASE}),
             .schedule = "a& a. L b& b. a> a= c b> b= c*3",
             .sold = 3}},
    {.id = "12w",
     .name = "wild-stop-the-world",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "Stop the world, in the wild",
               .symptom = "two holders, the watchdog asleep too",
               .see =
                   "All of a's process is stopped (SIGSTOP) between its read "
                   "and its write, as by a garbage collector, swapping or a "
                   "paused machine. Its lease ends, and b sells two units. a "
                   "goes on and writes its old number. Five units are sold, of "
                   "three.",
               .why = "The watchdog is a thread of the same process, so it "
                      "stands still as well. No lock can take back a write "
                      "that is already on its way.",
               .fix = "Fencing: each grant has a token, and tokens rise. The "
                      "database refuses a write whose token is lower than one "
                      "that it has seen. a is refused, takes the lock again, "
                      "reads again, and sells the unit that is left."},
          [EXPERIMENT_ZH] =
              {.title = "Stop-the-World，真实进程版",
               .symptom = "两个持有者，看门狗也睡着了",
               .see = "a "
                      "的整个进程在读和写之间被停住（SIGSTOP）：垃圾回收、换页"
                      "、虚拟机暂停都会这样。租约到期，b 卖出两件，a "
                      "恢复后写下旧的数字。三件商品卖了五件。",
               .why = "看门狗是同一个进程里的线程，所以它也停住了。已经在路上的"
                      "写入，任何锁都收不回来。",
               .fix = "栅栏令牌：每次拿到锁都得到一个令牌，令牌只增不减。令牌比"
                      "数据库见过的小，写入就会被拒绝。a "
                      "被拒绝后重新拿锁、重新读，卖出剩下的那一件。"}},
     .bug = {.load = LOAD_OF("watchdog", .instances = 2, .stock = 3,
                             .flags = LOAD_IMPATIENT,
                             .each = {LOAD_RENEWED LOAD_INSIDE "stop*1"}),
             .schedule = "a& a. L b*2 a> a= b*3",
             .faults = EXPERIMENT_FAULT(STAGE_OVERSOLD),
             .sold = 5},
     .fix = {.load = LOAD_OF("fenced", .instances = 2, .stock = 3,
                             .flags = LOAD_IMPATIENT,
                             .each = {LOAD_RENEWED LOAD_INSIDE "stop*1"}),
             .schedule = "a& a. L b*2 a> a= b*3",
             .sold = 3}},
    {.id = "13w",
     .name = "wild-late-fencing",
     .text = {[EXPERIMENT_EN] =
                  {.title = "Fencing too late, in the wild",
                   .symptom = "oversold, although tokens rise",
                   .see = "a stops after its read. b gets the lock with a "
                          "higher token, and reads the same stock. a goes on "
                          "and writes first: its token is the highest that the "
                          "database has seen. Then b writes what it computed "
                          "before, and both writes are accepted.",
                   .why =
                       "The database compares tokens only when it is written. "
                       "While b reads, its token is not known there, so the "
                       "old holder can still write in between.",
                   .fix =
                       "Announce the token when the critical section begins, "
                       "before the read. Then the database knows b's token "
                       "when a comes with its old one, and refuses a."},
              [EXPERIMENT_ZH] =
                  {.title = "栅栏令牌来得太晚，真实进程版",
                   .symptom = "令牌在递增，照样超卖",
                   .see =
                       "a 读完后停住。b 拿到锁和更大的令牌，读到同样的库存。a "
                       "恢复后先写：它的令牌是数据库到目前为止见过的最大的一个"
                       "。接着 b 写入之前算好的数，两次写入都被接受了。",
                   .why =
                       "数据库只在写入时才比较令牌。b 读的时候，数据库还不知道 "
                       "b 的令牌，所以旧的持有者还能抢在中间写入。",
                   .fix =
                       "在进入临界区时、读之前就登记令牌。这样 a "
                       "带着旧令牌来时，数据库已经知道 b 的令牌，会拒绝 a。"}},
     .bug = {.load = LOAD_OF("fenced-late", .instances = 2, .stock = 3,
                             .flags = LOAD_IMPATIENT,
                             .each = {LOAD_RENEWED LOAD_INSIDE "stop*1",
                                      LOAD_INSIDE "hold*1"}),
             .schedule = "a& a. L b& b. a> a= b> b= b*3",
             .faults = EXPERIMENT_FAULT(STAGE_OVERSOLD),
             .sold = 4},
     .fix = {.load = LOAD_OF("fenced", .instances = 2, .stock = 3,
                             .flags = LOAD_IMPATIENT,
                             .each = {LOAD_RENEWED LOAD_INSIDE "stop*1",
                                      LOAD_INSIDE "hold*1"}),
             .schedule = "a& a. L b& b. a> a= b> b= b*3",
             .sold = 3}},
    {.id = "15w",
     .name = "wild-one-flag",
     .text =
         {[EXPERIMENT_EN] =
              {.title = "One flag for all, in the wild",
               .symptom = "one release ends the other's renewal",
               .see =
                   "One worker of a is busy with product 1, another sells "
                   "product 2 and releases that lock. From then on nobody "
                   "renews the lock of product 1: its lease ends while the "
                   "worker is inside, and b sells the same units.",
               .why =
                   "The guard thread has one stop flag for all locks. The "
                   "release of any lock sets it, for all locks of the process.",
               .fix =
                   "Each grant has a state of its own: the watchdog knows each "
                   "lock by itself, and a release ends only one renewal."},
          [EXPERIMENT_ZH] =
              {.title = "共用一个标志，真实进程版",
               .symptom = "释放一把锁，另一把停止续租",
               .see = "a 的一个工作线程正忙着卖商品 1，另一个卖了商品 2 "
                      "并释放了它的锁。从此没人再给商品 1 "
                      "的锁续租：线程还在里面，租约就到期了，b "
                      "把同样的商品又卖了一遍。",
               .why = "守护线程只有一个“停止”标志，所有的锁共用。释放任何一把锁"
                      "都会设上它，整个进程的锁都受影响。",
               .fix = "每次加锁都有自己的状态：看门狗分别管理每把锁，释放一把锁"
                      "只结束它自己的续租。"}},
     .bug = {.load = LOAD_OF("guard-thread", .instances = 2, .stock = 3,
                             .flags = LOAD_IMPATIENT,
                             .each = {LOAD_RENEWED LOAD_INSIDE "hold*1"}),
             .schedule = "a& a. a/2 L b*2 a> a= b*3",
             .faults = EXPERIMENT_FAULT(STAGE_OVERSOLD),
             .sold = 6},
     .fix = {.load = LOAD_OF("watchdog", .instances = 2, .stock = 3,
                             .flags = LOAD_IMPATIENT,
                             .each = {LOAD_RENEWED LOAD_INSIDE "hold*1"}),
             .schedule = "a& a. a/2 L b*2 a> a= b*3",
             .sold = 4}},
};

const struct experiment_family experiments_wild_two = {
    .title = {[EXPERIMENT_EN] = "In the wild: two are inside at once",
              [EXPERIMENT_ZH] = "真实进程：两个人同时在里面"},
    .kind = &load_kind,
    .experiments = experiments,
    .n = sizeof(experiments) / sizeof(experiments[0]),
};
