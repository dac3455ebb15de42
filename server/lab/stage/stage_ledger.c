/* See stage_ledger.h. */
#include "server/lab/stage/stage_ledger.h"

#include "server/lab/stage/stage.h"

static bool is_oversold(const struct store_audit *audit)
{
    return audit->oversold > 0;
}

/* Units that are sold and still there. Those that were sold beyond all that there were
 * are no news to who knows that it is oversold. */
static bool has_phantoms(const struct store_audit *audit)
{
    return audit->phantom > audit->oversold;
}

static bool has_unsettled(const struct store_audit *audit)
{
    return audit->unsettled > 0;
}

static bool has_old_tokens(const struct store_audit *audit)
{
    return audit->fence_regressions > 0;
}

static bool has_duplicates(const struct store_audit *audit)
{
    return audit->duplicates > 0;
}

static bool is_over_limit(const struct store_audit *audit)
{
    return audit->over_limit > 0;
}

/* A user who bought more than one may is miscounted as well, and that is told. */
static bool has_lost_units(const struct store_audit *audit)
{
    return audit->undersold > 0 || audit->stranded > 0 ||
           (audit->negative > 0 && audit->oversold == 0) ||
           (audit->miscounted > 0 && audit->over_limit == 0);
}

unsigned ledger_faults(const struct store_audit *audit)
{
    static const struct {
        enum stage_fault fault;
        bool (*is_broken)(const struct store_audit *audit);
    } rules[] = {
        {STAGE_OVERSOLD, is_oversold},    {STAGE_LEDGER, has_phantoms},
        {STAGE_UNSETTLED, has_unsettled}, {STAGE_STALE, has_old_tokens},
        {STAGE_TWICE, has_duplicates},    {STAGE_LIMIT, is_over_limit},
    };
    unsigned faults = 0;

    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (rules[i].is_broken(audit))
            faults |= 1u << rules[i].fault;
    return faults;
}

unsigned ledger_faults_at_the_end(const struct store_audit *audit)
{
    return has_lost_units(audit) ? 1u << STAGE_LEDGER : 0;
}
