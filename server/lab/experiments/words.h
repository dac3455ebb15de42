/* Words on a terminal, in the two languages. */
#ifndef WORDS_H
#define WORDS_H

#include <stdio.h>

#include "server/lab/experiments/experiment.h"

enum { WORDS_COLUMNS = 80 };

/* TEXT in lines of WORDS_COLUMNS at most, each behind INDENT columns. A Chinese
 * character takes two columns, and a line may end behind most of them. */
void words_wrap(FILE *out, int indent, const char *text);

/* The labels of the output. */
#define WORDS_MAP(X)                                                           \
    X(WORDS_SEE, "What you will see", "你会看到")                              \
    X(WORDS_WHY, "Why", "为什么")                                              \
    X(WORDS_FIX, "What fixes it", "如何修复")                                  \
    X(WORDS_BUG_PLAYS, "With the bug", "有缺陷时")                             \
    X(WORDS_FIX_PLAYS, "With the fix", "修复之后")                             \
    X(WORDS_LEDGER, "ledger", "账本")                                          \
    X(WORDS_STOCK, "stock", "库存")                                            \
    X(WORDS_SOLD, "sold", "售出")                                              \
    X(WORDS_ORDERS, "orders", "订单")                                          \
    X(WORDS_VERDICT, "verdict", "结论")                                        \
    X(WORDS_HOLDS, "nothing broke", "一切正常")                                \
    X(WORDS_HEARD, "somebody is told this", "有人得到这样的答复")              \
    X(WORDS_AS_TOLD, "as told", "与预期一致")                                  \
    X(WORDS_NOT_AS_TOLD, "NOT AS TOLD", "与预期不符")                          \
    X(WORDS_EXPECTED, "expected", "预期")                                      \
    X(WORDS_FOUND, "found", "实际")                                            \
    X(WORDS_NOT_OVER, ", not all are done", "，还有人没做完")

enum words {
#define WORDS_ENUM(name, en, zh) name,
    WORDS_MAP(WORDS_ENUM)
#undef WORDS_ENUM
        WORDS_N
};

const char *words(enum words which, enum experiment_language language);

/* What a fault is. */
const char *words_fault(enum stage_fault fault,
                        enum experiment_language language);

/* What a program does (server/lab/programs/program.h). */
const char *words_program(const char *name, enum experiment_language language);

#endif
