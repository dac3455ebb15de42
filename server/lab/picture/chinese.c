/* See chinese.h. */
#include "server/lab/picture/chinese.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { STARS_MAX = 6, PART_BYTES = 1024 };

/* A * is any text, as short as possible. $1 is the first of them, translated too.
 * The first phrase that fits is taken. */
static const struct {
    const char *english, *chinese;
} phrases[] = {
    /* what has parts: the whole is tried first */
    {"*\n", "$1\n"},
    {"  *: expected ", "  $1：预期 "},
    {"ledger: stock *, sold *, orders *", "账本：库存 $1，售出 $2，订单 $3"},
    {"    ms", "  毫秒"},
    {"lock none, deduct *: * actor*, stock *",
     "不加锁，用 $1 扣库存，$2 个参与者，库存 $4"},
    {"lock *, deduct *: * actor*, stock *",
     "锁 $1，用 $2 扣库存，$3 个参与者，库存 $5"},
    {"lock *, deduct *: * buyer*, stock *",
     "锁 $1，用 $2 扣库存，$3 个买家，库存 $5"},
    {"* instance*, lock none, stock *", "$1 个实例，不加锁，库存 $3"},
    {"* instance*, lock *, stock *", "$1 个实例，锁 $3，库存 $4"},
    {"the watchdog gives up: held for * ms", "看门狗放弃续租：已持有 $1 毫秒"},
    {"fsync: the disk has it", "fsync：磁盘上已有"},
    {"no fsync: only the kernel's memory has it",
     "没有 fsync：只在内核的内存里"},
    {"moves now: *", "可走：$1"},
    {"* schedules, *; * states, * a second",
     "$1 个调度，$2；$3 个状态，每秒 $4 个"},
    {"none in * schedules: *", "$1 个调度中没有发现问题：$2"},
    {"none in the * that were played: *", "走过的 $1 个中没有发现问题：$2"},
    {"breaks: *", "出错：$1"},
    {"all within these bounds", "此范围内的全部"},
    {"* schedules, at random, of up to * moves and * on average, seed *; * a "
     "second",
     "$1 个随机调度，最长 $2 步，平均 $3 步，种子 $4；每秒 $5 个"},
    {"all of up to * moves", "不超过 $1 步的全部"},
    {"at random, of up to * moves and * on average, seed *",
     "随机，最长 $1 步，平均 $2 步，种子 $3"},
    {"* buyer*, stock *, wait-ms *, lease-ms *;",
     "$1 个买家，库存 $3，wait-ms $4，lease-ms $5；"},
    {"at most * moves, * preemptions, * waits, and * of: * expiries, * "
     "crashes,",
     "最多 $1 步、$2 次抢占、$3 次等待到时，以下最多共 $4 次：$5 次到期、$6 "
     "次崩溃、"},
    {"* lost replies, * late commands, * losses of all data, * renewals, * "
     "refusals",
     "$1 次丢失答复、$2 条迟到的命令、$3 次数据全失、$4 次续租、$5 "
     "次数据库拒绝"},
    {"UPDATE the order and the stock: cancel: *",
     "取消订单（UPDATE 订单和库存）：$1"},
    {"nothing to give back: *", "没有可释放的锁：$1"},
    {"BEGIN, look which orders have their lock: ok: * lot*",
     "BEGIN，看哪些订单已拿到锁：$1 批"},
    {"BEGIN, look which orders have their lock: *",
     "BEGIN，看哪些订单已拿到锁：$1"},
    {"decide the orders of *, under the lock: *", "在锁内决定 $1 的订单：$2"},
    {"decide the orders of *, without a lock: *", "不加锁决定 $1 的订单：$2"},
    {"SELECT the last token of *", "SELECT 最近的令牌：$1"},
    {"the answer to *: *", "对 $1 的答复：$2"},
    {"an order comes in", "来了一个订单"},
    {"the instance stops", "实例停止"},
    {"it fails", "失败了"},
    {"has it for * ms", "还可持有 $1 毫秒"},
    {"asked for * ms: *", "请求续到 $1 毫秒：$2"},
    {"  redis   is empty", "  redis   为空"},
    {"  redis   *", "  redis   $1"},
    {"  sqlite  stock * of *, * sold in * order*",
     "  sqlite  库存 $1（共 $2 件），$4 个订单售出 $3 件"},
    {"  network * command* held up", "  网络    卡住 $1 条命令"},
    {"  moves   now: *", "  可走    $1"},
    {"  *       *, has the lock", "  $1       $2，持有锁"},
    {"  *       *", "  $1       $2"},
    {"inside; *", "在临界区内；$1"},
    {"order *: no answer", "订单 $1：没有答复"},
    {"order *: * sold", "订单 $1：$2 已买到"},
    {"order *: * *", "订单 $1：$2 $3"},
    {"* orders: * sold, * sold out, * not now",
     "$1 个订单：$2 个买到，$3 个售罄，$4 个要稍后再试"},
    {"wrk begins: * connections, * s", "wrk 开始：$1 个连接，$2 秒"},
    {"wrk ends: it has seen * orders confirmed",
     "wrk 结束：它看到 $1 个订单得到确认"},
    {"*: *", "$1：$2"},

    /* `stockade lab` */
    {" (", "（"},
    {", ", "，"},
    {")", "）"},
    {"product *", "商品 $1"},
    {"other product *", "另一种商品 $1"},
    {"user *", "用户 $1"},
    {"units *", "件数 $1"},
    {"segments *", "分段数 $1"},
    {"Idempotency-Key *", "幂等键 $1"},
    {"stockade replay --help says what these moves mean",
     "这些动作的含义见 stockade replay --help"},
    {"server/lab/README.md says what the signs of a story mean",
     "故事中各符号的含义见 server/lab/README.md"},
    {"What you will see", "你会看到"},
    {"Why", "为什么"},
    {"What fixes it", "如何修复"},
    {"With the bug", "有缺陷时"},
    {"With the fix", "修复之后"},
    {"With the fix, once more", "修复之后，再来一次"},
    {"Without the fix", "修复之前"},
    {"What is played", "演示内容"},
    {"What the fix leaves open", "修复之后还剩什么问题"},
    {"expected", "预期"},
    {"none", "无"},
    {", sold *", "，售出 $1"},
    {", \"*\"", "，“$1”"},
    {"; found ", "；实际 "},
    {", not all are done", "，还有人没做完"},
    {"verdict", "结论"},
    {"remark", "备注"},
    {"nothing broke", "一切正常"},
    {"nothing broke so far", "到此为止一切正常"},
    {"nothing broke; what counts is above", "一切正常；要看的是上面的数字"},
    {" (move *)", "（第 $1 步）"},
    {"somebody is told this", "有人得到这个答复"},
    {"as told", "与预期一致"},
    {"NOT AS TOLD", "与预期不符"},
    {"* of * as told", "$2 个中有 $1 个与预期一致"},
    {"all", "全部"},
    {"story", "剧本"},
    {"* experiments; * of them once more with real instances (w)",
     "$1 个实验；其中 $2 个另有真实进程版（w）"},
    {"What one is about, and to run it:", "想知道一个实验讲什么，并运行它："},

    /* what actors do: their programs */
    {"orders once", "下单一次"},
    {"orders; if no answer comes, sends the order again",
     "下单，没有得到明确答复就再发一次"},
    {"takes the lock with a fencing token, then orders",
     "带着栅栏令牌加锁，再下单"},
    {"takes the lock, and under it orders, which takes it again",
     "先加锁，再在锁内下单，下单时又要加同一把锁"},
    {"takes the lock, looks at the stock, and orders, which takes it again",
     "加锁、看库存，再下单，下单时又要加同一把锁"},
    {"takes the lock, takes and gives back the other product's, then orders",
     "加锁，再获取并释放另一种商品的锁，然后下单"},
    {"takes the lock, gives it back", "加锁，再释放"},
    {"takes the product's lock, and then the other product's",
     "先加一种商品的锁，再加另一种商品的锁"},
    {"takes the lock, and something fails under it", "加锁，然后在锁内出错"},
    {"orders, whatever the lock has answered", "不管锁怎么回答，照样下单"},
    {"deals the stock out to another number of segments",
     "把库存重新分配到另一个分段数"},
    {"cancels the order that has this key", "取消这个幂等键对应的订单"},
    {"adds units to the stock", "增加库存"},
    {"orders, and gives the lock back before it commits",
     "下单，先释放锁再提交"},
    {"orders, and commits before it gives the lock back",
     "下单，先提交再释放锁"},
    {"counts in a row of the user's, then orders",
     "先在用户自己的一行里计数，再下单"},
    {"orders if its UPDATE has changed a row", "UPDATE 改到了行才下单"},
    {"orders in a database that waits for its disk",
     "在等磁盘写好的数据库里下单"},
    {"orders under a lock of the user's own", "拿着按用户命名的锁下单"},
    {"counts the user's orders, then orders", "先数用户有几个订单，再下单"},
    {"orders if there is any stock, enough or not",
     "只要有库存就下单，不管够不够"},
    {"orders, whether its UPDATE changed a row or not",
     "不管 UPDATE 改了几行，照样下单"},
    {"orders from the segment that its user's number gives",
     "只从用户编号算出的分段下单"},
    {"orders from the first segment that has all it wants",
     "挨个问分段，从第一个够的分段下单"},
    {"moves units from segment 0 to 1, a statement each",
     "把库存从分段 0 搬到 1，一条语句一步"},
    {"moves units from segment 0 to 1, in one transaction",
     "把库存从分段 0 搬到 1，放在一个事务里"},
    {"cancels; the user's number says where the units go",
     "取消订单，库存还到用户编号算出的分段"},
    {"sells in Redis, says so, then writes the order",
     "在 Redis 里卖，答复之后才写订单"},
    {"orders, unless a flag says that all is sold out",
     "下单，除非有标志说已经售罄"},
    {"orders, unless a flag of this epoch says sold out",
     "下单，除非有当前 epoch 的标志说已经售罄"},
    {"cancels, and begins a new epoch of the product",
     "取消订单，并让商品进入新的 epoch"},
    {"orders in one transaction of several statements",
     "用一个含多条语句的事务下单"},
    {"orders; a busy database means sold out to it",
     "下单，把数据库忙当成售罄"},
    {"orders in a database that does not wait for its disk",
     "在不等磁盘的数据库里下单"},
    {"is the machine, which loses its power", "扮演机器：断电"},
    {"ends the product's sale, five seconds from now", "让活动在五秒后结束"},
    {"looks whether the sale is open, then waits for the lock",
     "先看活动是否还在进行，再等锁"},
    {"orders, then pays, if a look at the bill says open",
     "下单，看一眼账单未付，就付款"},
    {"orders, then pays, on condition that the bill is open",
     "下单，以账单未付为条件付款"},
    {"cancels the order, if a look at the bill says open",
     "看一眼账单未付，就取消订单"},
    {"cancels the order, on condition that its bill is open",
     "以账单未付为条件取消订单"},
    {"takes the lock; its worker ends, its process lives on",
     "加锁，工作线程随后结束，进程继续活着"},

    /* what is played */
    {"* x *, stock *", "$1 个实例，锁 $2，库存 $3"},

    /* the lock */
    {"inside", "进入临界区"},
    {"inside, with token *", "进入临界区，令牌 $1"},
    {"not inside", "没有进入临界区"},
    {"the lock did not become free within the wait time", "等锁超时"},
    {"the lock server cannot be reached", "连不上锁服务器"},
    {"the reply was lost", "答复丢失"},
    {"the lock may be held", "可能已经拿到锁"},
    {"gave it back", "释放了锁"},
    {"takes that for its own", "以为释放的是自己的锁"},
    {"its lease had ended", "租约早已到期"},
    {"the failover had lost it", "主从切换时丢了"},
    {"Redis had forgotten it", "Redis 忘掉了"},
    {"the servers had lost it", "服务器丢了"},
    {"* had deleted it", "被 $1 删掉了"},
    {"* had taken it", "被 $1 拿走了"},
    {"it has no lock", "它没有锁"},

    /* marks */
    {"deletes *'s lock", "删掉了 $1 的锁"},
    {"takes *'s lock away", "夺走了 $1 的锁"},
    {"* are * inside, after a lease had ended",
     "租约到期后，$1 同时在临界区内"},
    {"* are * inside, as Redis has lost the lock",
     "Redis 丢了锁，$1 同时在临界区内"},
    {"* are * inside", "$1 同时在临界区内"},
    {"written from a read that is out of date", "写入的数来自过时的读取"},
    {"wakes nobody", "没有唤醒任何人"},
    {"sells what is not there", "卖出了并不存在的一件"},
    {"one order too many", "多了一个订单"},
    {"more than one user may buy", "超过了一个用户的限购"},
    {"written under an old token", "用旧令牌写入"},
    {"a later holder of the lock has been here",
     "后来的持有者已登记更大的令牌"},
    {"has all that it wants", "要的锁都拿到了"},
    {"an error under the lock", "持锁时出错"},
    {"the worker ends, and does not give it back", "工作线程结束，没有释放锁"},
    {"its subscriber is told something", "它的订阅者收到消息"},
    {"the watchdog renews nothing", "看门狗没有要续租的锁"},
    {"granted", "拿到了"},
    {"granted, token *", "拿到了，令牌 $1"},
    {"granted once more", "又拿到一次"},
    {"granted once more, token *", "又拿到一次，令牌 $1"},
    {"taken", "被占用"},
    {"taken; look again in * ms", "被占用，$1 毫秒后再看"},
    {"too late, not granted", "来得太晚，没有拿到"},
    {"too late, left alone", "来得太晚，没有动它"},
    {"the lock is free", "锁空出来了"},
    {"not its own, left alone", "不是自己的，没有动它"},
    {"* still held", "还剩 $1 次"},
    {"renewed", "已续租"},
    {"it has ended", "已经到期"},
    {"it is another's", "已是别人的"},
    {"subscribed", "已订阅"},

    /* what comes from outside */
    {"the lease ends", "租约到期"},
    {"the process dies", "进程崩溃"},
    {"time passes", "时间流逝"},
    {"its wait is over", "等待超时"},
    {"looks again", "再看一次"},
    {"Redis forgets all", "Redis 忘掉一切"},
    {"server * forgets all", "$1 号服务器忘掉一切"},
    {"server * dies, and begins anew with nothing",
     "$1 号服务器宕机，重启后数据全无"},
    {"the clock of server * leaps, and the lease ends there",
     "$1 号服务器的时钟跳变，租约在那里到期"},
    {"the replica lags from now on", "从库从此落后"},
    {"the server dies, its replica is promoted", "主库宕机，从库被提升"},
    {"the power fails", "断电"},
    {"what was synced is there", "已同步到磁盘的都在"},
    {"(held up)", "（卡在网络里）"},
    {"(sent)", "（已发出）"},

    /* the order */
    {"SELECT the stock", "SELECT 库存"},
    {"UPDATE the stock", "UPDATE 库存"},
    {"UPDATE the stock to *", "UPDATE 库存为 $1"},
    {"UPDATE the stock if it is enough, *", "UPDATE 库存（够才扣），$1"},
    {"UPDATE the order and the stock", "UPDATE 订单和库存"},
    {"UPDATE the product", "UPDATE 商品"},
    {"INSERT the order of user *", "INSERT 用户 $1 的订单"},
    {"INSERT the order of *", "INSERT $1 的订单"},
    {"announce token *", "登记令牌 $1"},
    {"cancel", "取消"},
    {"over * segment*", "分成 $1 个分段"},
    {"its sale ends in * s", "活动在 $1 秒后结束"},
    {"ok", "成功"},
    {"* row", "$1 行"},
    {"* rows", "$1 行"},
    {"(* values)", "（$1 个值）"},
    {"fewer units are left than were asked for", "剩下的不够买"},
    {"this segment has too few units, the product has enough",
     "这个分段不够，商品总数够"},
    {"the user would have more than one user may buy", "这个用户会超过限购"},
    {"the sale is over", "活动已结束"},
    {"the commit was not confirmed", "提交没有得到确认"},
    {"it may be on disk", "可能已写入磁盘"},
    {"cancelled", "已取消"},
    {"its units are back", "库存已还回"},
    {"the bill is not open", "账单不是未付"},
    {"nothing is cancelled", "什么也不取消"},
    {"the order is paid for, and its units are on sale again",
     "订单已付款，商品却又在卖"},
    {"an order was sold after the end of the sale", "活动结束之后还卖出了订单"},

    /* how it ends */
    {"the answer", "答复"},
    {"placed", "已买到"},
    {"replayed", "这个订单已经有了"},
    {"sold-out", "已售罄"},
    {"purchase-limit", "超过限购"},
    {"sale-ended", "活动已结束"},
    {"lock-timeout", "等锁超时"},
    {"lock-unreachable", "连不上锁服务器"},
    {"store-unavailable", "数据库不可用"},

    /* what is there */
    {"* ms left", "还剩 $1 毫秒"},
    {"no end", "永不过期"},
    {"next", "下一步"},
    {"its program begins", "程序开始"},
    {"waits", "等待"},
    {"naps, then looks again", "小睡，然后再看"},
    {"dead", "已崩溃"},
    {"done", "已完成"},

    /* what broke: STAGE_FAULT_MAP */
    {"more units were sold than there were", "卖出的数量超过了库存"},
    {"the ledger does not add up", "账本对不上"},
    {"an order was written under an old token", "有订单是用旧令牌写入的"},
    {"somebody else's lock was released", "释放了别人的锁"},
    {"the dead left the lock, and it has no end", "持有者已死，锁却永不过期"},
    {"all are done, and the lock is held", "所有人都已结束，锁却仍被占用"},
    {"somebody gave back all it had, and the lock counts holds of it",
     "锁已全部释放，计数却没有归零"},
    {"there are more orders than were wanted", "订单比顾客要的多"},
    {"somebody bought more than one user may", "有人买的数量超过了限购"},
    {"an order was acknowledged, and is nowhere", "已确认的订单不见了"},
    {"what the program promises is not so", "程序承诺的事没有做到"},
    {"refused as sold out with stock left", "还有库存，却被告知售罄"},
    {"two were inside at once", "两人同时进入了临界区"},
    {"nobody can go on, and not all are done", "死锁：谁也无法继续"},
    {"the lease of another's lock was changed", "改动了别人的锁的租约"},
    {"a late command undid what is newer", "迟到的命令冲掉了更新的结果"},
    {"an owner was told that it lost its lock", "锁还在手里，却被告知已丢失"},
    {"the lock is free, and nobody wakes a waiter",
     "锁已空闲，却没有人叫醒等待者"},
    {"somebody came in before who came first", "后来者插队"},
    {"a token was granted again, or a lower one", "令牌重复或变小"},
    {"two were inside, after a lease had ended",
     "租约到期之后，两人同时在临界区内"},
    {"two were inside, after Redis had lost the lock",
     "Redis 丢了锁之后，两人同时在临界区内"},

    /* real instances */
    {"order *", "订单 $1"},
    {"waits at *", "停在 $1"},
    {"SIGSTOP at *", "收到 SIGSTOP，停在 $1"},
    {"the process dies at *", "进程在 $1 崩溃"},
    {"goes on", "恢复执行"},
    {"the lock has no holder any more, says Redis",
     "Redis 说：锁已经没有持有者"},
    {"the lock is still held, after * ms", "过了 $1 毫秒，锁仍被占用"},
    {"* ms * segments *", "$1 毫秒 $2 个分段 $3"},
    {"* ms * segment *", "$1 毫秒 $2 个分段 $3"},

    /* of what they are made */
    {"* (*)", "$1（$2）"},
    {"late *", "迟到的 $1"},
    {"server * *", "$1 号 $2"},
    {"watchdog *", "看门狗 $1"},
    {"guard *", "守护线程 $1"},
    {"*, * and *", "$1、$2 和 $3"},
    {"* and *", "$1 和 $2"},
};

/* Whether TEXT is PATTERN: PARTS has where the text of each * begins and ends. */
static bool match(const char *pattern, const char *text, const char *parts[][2])
{
    if (*pattern != '*')
        return *pattern == *text &&
               (*text == '\0' || match(pattern + 1, text + 1, parts));
    for (const char *end = text;; end++) {
        if (match(pattern + 1, end, parts + 1)) {
            parts[0][0] = text;
            parts[0][1] = end;
            return true;
        }
        if (*end == '\0')
            return false;
    }
}

static void write_chinese(FILE *out, const char *english)
{
    const char *parts[STARS_MAX][2];
    char part[PART_BYTES];
    size_t i = 0;

    while (i < sizeof(phrases) / sizeof(phrases[0]) &&
           !match(phrases[i].english, english, parts))
        i++;
    if (i == sizeof(phrases) / sizeof(phrases[0])) {
        fputs(english, out);
        return;
    }
    for (const char *at = phrases[i].chinese; *at; at++) {
        const char **star;

        if (*at != '$') {
            fputc(*at, out);
            continue;
        }
        star = parts[*++at - '1'];
        (void)snprintf(part, sizeof(part), "%.*s", (int)(star[1] - star[0]),
                       star[0]);
        write_chinese(out, part);
    }
}

void chinese(char text[], size_t size)
{
    char english[PART_BYTES];
    FILE *out;

    (void)snprintf(english, sizeof(english), "%s", text);
    out = fmemopen(text, size - 1, "w");
    if (!out)
        return;
    memset(text, 0, size); /* fmemopen() ends no text that fills all of it */
    write_chinese(out, english);
    (void)fclose(out);
}
