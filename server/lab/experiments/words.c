/* See words.h. */
#include "server/lab/experiments/words.h"

#include <stdint.h>
#include <string.h>
#include <unilbrk.h>

#include "server/lab/programs/program.h"

enum { TEXT_BYTES_MAX = 2000 }; /* what is longer is not broken into lines */

void words_wrap(FILE *out, int indent, const char *text)
{
    char breaks[TEXT_BYTES_MAX];
    size_t n = strlen(text);
    bool begins = true;

    if (n > sizeof(breaks))
        n = sizeof(breaks);
    (void)u8_width_linebreaks((const uint8_t *)text, n, WORDS_COLUMNS - 1,
                              indent, 0, NULL, "UTF-8", breaks);
    fprintf(out, "%*s", indent, "");
    for (size_t i = 0; i < n; i++) {
        begins = breaks[i] == UC_BREAK_POSSIBLE;
        if (begins)
            fprintf(out, "\n%*s", indent, "");
        /* The space at which a line ends would stand at the end of it. */
        if (text[i] != ' ' || i + 1 == n || breaks[i + 1] != UC_BREAK_POSSIBLE)
            fputc(text[i], out);
    }
    fputc('\n', out);
}

const char *words(enum words which, enum experiment_language language)
{
    static const char *const texts[][EXPERIMENT_LANGUAGES_N] = {
#define WORDS_TEXT(name, en, zh) {en, zh},
        WORDS_MAP(WORDS_TEXT)
#undef WORDS_TEXT
    };

    return texts[which][language];
}

const char *words_fault(enum stage_fault fault,
                        enum experiment_language language)
{
    static const char *const chinese[STAGE_FAULT_N] = {
        [STAGE_OVERSOLD] = "卖出的数量超过了库存",
        [STAGE_LEDGER] = "账本对不上",
        [STAGE_STALE] = "有订单是用旧令牌写入的",
        [STAGE_FOREIGN] = "释放了别人的锁",
        [STAGE_FOREVER] = "持锁者已死，锁却永不过期",
        [STAGE_HELD] = "所有人都已结束，锁却仍被占用",
        [STAGE_HOLDS] = "锁已全部释放，计数却没有归零",
        [STAGE_TWICE] = "订单比客户要的多",
        [STAGE_LIMIT] = "有人买的数量超过了限购",
        [STAGE_LOST] = "已确认的订单不见了",
        [STAGE_CHECK] = "程序承诺的事没有做到",
        [STAGE_REFUSED] = "还有库存，却被告知售罄",
        [STAGE_TWO_INSIDE] = "两人同时进入了临界区",
        [STAGE_DEADLOCK] = "死锁：谁也无法继续",
    };

    return language == EXPERIMENT_ZH && chinese[fault]
               ? chinese[fault]
               : stage_fault_text(fault);
}

const char *words_program(const char *name, enum experiment_language language)
{
    static const struct {
        const char *name, *does;
    } chinese[] = {
        {"order", "下单一次"},
        {"order-again", "下单，没有得到明确答复就再发一次"},
        {"order-fenced", "带着栅栏令牌加锁，再下单"},
        {"order-nested", "先加锁，再在锁内下单，下单时又要加同一把锁"},
        {"order-checked", "加锁、看库存，再下单，下单时又要加同一把锁"},
        {"order-beside", "加锁，再获取并释放另一种商品的锁，然后下单"},
        {"lock", "加锁，再释放"},
        {"lock-both", "先加一种商品的锁，再加另一种商品的锁"},
        {"lock-throws", "加锁，然后在锁内出错"},
        {"order-ignoring", "不管锁怎么回答，照样下单"},
        {"resize", "按角色的分段数重新分配库存"},
        {"cancel", "取消角色的幂等键对应的订单"},
        {"order-unlocks-first", "下单，先释放锁再提交"},
        {"order-locks-user", "拿着按用户命名的锁下单"},
        {"order-checks-first", "先数用户有几个订单，再下单"},
        {"order-off-by-one", "只要有库存就下单，不管够不够"},
        {"order-counts-no-rows", "不管 UPDATE 改了几行，照样下单"},
        {"order-pinned", "只从用户编号算出的分段下单"},
        {"order-probes", "挨个问分段，从第一个够的分段下单"},
        {"move-in-steps", "把库存从分段 0 搬到 1，一条语句一步"},
        {"move-at-once", "把库存从分段 0 搬到 1，放在一个事务里"},
        {"cancel-pinned", "取消订单，库存还到用户编号算出的分段"},
        {"order-in-redis", "在 Redis 里卖，答复之后才写订单"},
        {"order-sticky", "下单，除非有标志说已经售罄"},
        {"order-epoch", "下单，除非有当前 epoch 的标志说已经售罄"},
        {"cancel-epoch", "取消订单，并让商品进入新的 epoch"},
        {"order-whole", "用一个含多条语句的事务下单"},
        {"order-busy-is-no", "下单，把数据库忙当成售罄"},
        {"order-unsynced", "在不等磁盘的数据库里下单"},
        {"power-cut", "扮演机器：断电"},
        {"end-soon", "让活动在五秒后结束"},
        {"order-late", "先看活动是否还在进行，再等锁"},
        {"pay-looks", "下单，看一眼账单未付，就付款"},
        {"pay-compares", "下单，以账单未付为条件付款"},
        {"expire-looks", "看一眼账单未付，就取消订单"},
        {"expire-compares", "以账单未付为条件取消订单"},
        {"lock-forgets", "加锁，工作线程随后结束，进程继续活着"},
    };
    const struct program *program = program_find(name);

    for (size_t i = 0; i < sizeof(chinese) / sizeof(chinese[0]); i++)
        if (language == EXPERIMENT_ZH && strcmp(chinese[i].name, name) == 0)
            return chinese[i].does;
    return program ? program->does : name;
}
