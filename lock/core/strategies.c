/*
 * The table of contents: which locks there are, by strategies.txt; and which of them are in
 * this program. This library has those that one may rely on for what they claim, and two for
 * the time before there is a Redis; the others are in libraries of their own, so that a
 * program has what it asked for.
 */

#include <string.h>

#include "lock/core/wait.h"
#include "lock/core/net.h"

static const char own;
const char *const DLOCK_CORE = &own;

DLOCK_STRATEGIES(dlock_strategies_of_core, core)

enum { SETS_MAX = 7 };

static const struct dlock_strategies *sets[SETS_MAX] = {
    &dlock_strategies_of_core};

/* Instructions for a program that is to have it. */
static const char core[] = "";
static const char textbook[] = "a textbook's, and in stockade only";
static const char quorum[] =
    "link libdlock-quorum, register dlock_quorum_strategies";
static const char sql[] = "link libdlock-sql, register dlock_sql_strategies";
static const char zk[] = "link libdlock-zk, register dlock_zk_strategies";

static const struct {
    const char *where;
    const char *names[8];
} contents[] = {
#define ROW(set, ...) {set, {__VA_ARGS__, NULL}},
#include "lock/core/strategies.inc"
};

enum { CONTENTS_N = sizeof(contents) / sizeof(contents[0]) };

const struct dlock_tls_kind *dlock_tls_made;
const struct dlock_detector *dlock_detector_made;

enum dlock_status dlock_register(const struct dlock_strategies *strategies,
                                 struct dlock_error *error)
{
    enum dlock_status status = DLOCK_OK;
    size_t n = 0;

    while (n < SETS_MAX && sets[n] != NULL && sets[n] != strategies)
        n++;
    if (strategies == NULL)
        status = dlock_error_set(DLOCK_MISUSE, "no strategies");
    else if (*strategies->core != &own)
        status = dlock_error_set(DLOCK_MISUSE,
                                 "this program has two copies of libdlock, and "
                                 "the part is the other one's: link all of "
                                 "them shared, or all archives");
    else if (n == SETS_MAX)
        status =
            dlock_error_set(DLOCK_MISUSE, "there are %d already", SETS_MAX);
    if (status != DLOCK_OK)
        return dlock_error_report(error, status, "register");
    sets[n] = strategies;
    if (strategies->tls != NULL)
        dlock_tls_made = strategies->tls;
    return DLOCK_OK;
}

const struct dlock_strategy *dlock_strategy_called(const char *name)
{
    for (size_t i = 0; i < SETS_MAX && sets[i] != NULL; i++)
        for (size_t j = 0; sets[i]->all[j] != NULL; j++)
            if (strcmp(sets[i]->all[j]->info.name, name) == 0)
                return sets[i]->all[j];
    return NULL;
}

const char *dlock_strategy_where(const char *name)
{
    for (size_t i = 0; i < CONTENTS_N; i++)
        for (size_t j = 0; contents[i].names[j] != NULL; j++)
            if (strcmp(contents[i].names[j], name) == 0)
                return contents[i].where;
    return NULL;
}

const struct dlock_strategy_info *dlock_strategy_info(size_t index)
{
    for (size_t i = 0; i < CONTENTS_N; i++)
        for (size_t j = 0; contents[i].names[j] != NULL; j++) {
            const struct dlock_strategy *strategy =
                dlock_strategy_called(contents[i].names[j]);

            if (strategy != NULL && index-- == 0)
                return &strategy->info;
        }
    /* Locks of somebody's own come last. */
    for (size_t i = 0; i < SETS_MAX && sets[i] != NULL; i++)
        for (size_t j = 0; sets[i]->all[j] != NULL; j++)
            if (dlock_strategy_where(sets[i]->all[j]->info.name) == NULL &&
                index-- == 0)
                return &sets[i]->all[j]->info;
    return NULL;
}

const struct dlock_strategy_info *dlock_strategy_find(const char *name)
{
    const struct dlock_strategy *strategy =
        name == NULL ? NULL : dlock_strategy_called(name);

    return strategy == NULL ? NULL : &strategy->info;
}
