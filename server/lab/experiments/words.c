/* See words.h. */
#include "server/lab/experiments/words.h"

#include <stdint.h>
#include <string.h>
#include <unilbrk.h>
#include <uniwidth.h>

#include "server/lab/programs/program.h"

enum { TEXT_BYTES_MAX = 2000 }; /* what is longer is not broken into lines */

static const uint8_t *bytes_of(const char *text)
{
    return (const uint8_t *)text;
}

void words_wrap(FILE *out, int indent, const char *text)
{
    char breaks[TEXT_BYTES_MAX];
    size_t n = strlen(text);
    bool begins = true;

    if (n > sizeof(breaks))
        n = sizeof(breaks);
    (void)u8_width_linebreaks(bytes_of(text), n, WORDS_COLUMNS - 1, indent, 0,
                              NULL, "UTF-8", breaks);
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

void words_pad(FILE *out, const char *text, int columns)
{
    int width = u8_width(bytes_of(text), strlen(text), "UTF-8");

    fprintf(out, "%s%*s", text, width < columns ? columns - width : 0, "");
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
        [STAGE_LEDGER] = "账目对不上",
        [STAGE_STALE] = "过期的令牌也写入了订单",
        [STAGE_FOREIGN] = "释放了别人的锁",
        [STAGE_FOREVER] = "持锁者已死，锁却永不过期",
        [STAGE_HELD] = "所有人都已结束，锁却仍被占用",
        [STAGE_HOLDS] = "锁已还清，计数却没有归零",
        [STAGE_TWICE] = "订单比要下的多",
        [STAGE_LIMIT] = "有人买的数量超过了限购",
        [STAGE_CHECK] = "程序承诺的事没有做到",
        [STAGE_REFUSED] = "还有库存，却被告知售罄",
        [STAGE_TWO_INSIDE] = "两人同时进入了临界区",
        [STAGE_DEADLOCK] = "谁也无法继续，死锁",
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
        {"order", "下一个订单"},
        {"order-again", "下单，没有得到明确答复就再发一次"},
        {"order-fenced", "带着栅栏令牌加锁，再下单"},
        {"order-nested", "先加锁，再在锁内下单，下单时又要加同一把锁"},
        {"order-checked", "加锁、看库存，再下单，下单时又要加同一把锁"},
        {"order-beside", "加锁，中途拿起并放下另一件商品的锁，再下单"},
        {"lock", "加锁，再释放"},
        {"lock-throws", "加锁，然后在锁内出错"},
        {"lock-forgets", "加锁，工作线程随后结束，进程继续活着"},
    };
    const struct program *program = program_find(name);

    for (size_t i = 0; i < sizeof(chinese) / sizeof(chinese[0]); i++)
        if (language == EXPERIMENT_ZH && strcmp(chinese[i].name, name) == 0)
            return chinese[i].does;
    return program ? program->does : name;
}
