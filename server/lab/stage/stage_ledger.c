/* See stage_ledger.h. */
#include "server/lab/stage/stage_ledger.h"

#include "server/lab/stage/stage.h"

unsigned ledger_faults(const struct store_audit *audit)
{
    unsigned faults = 0;

    if (audit->oversold > 0)
        faults |= 1u << STAGE_OVERSOLD;
    /* Units that are sold and still there. Those that were sold beyond all that there were
     * are no news to who knows that it is oversold. */
    if (audit->phantom > audit->oversold)
        faults |= 1u << STAGE_LEDGER;
    if (audit->unsettled > 0)
        faults |= 1u << STAGE_UNSETTLED;
    if (audit->fence_regressions > 0)
        faults |= 1u << STAGE_STALE;
    if (audit->duplicates > 0)
        faults |= 1u << STAGE_TWICE;
    if (audit->over_limit > 0)
        faults |= 1u << STAGE_LIMIT;
    return faults;
}

/* A user who bought more than one may is miscounted as well, and that is told. */
unsigned ledger_faults_at_the_end(const struct store_audit *audit)
{
    bool has_lost_units = audit->undersold > 0 || audit->stranded > 0 ||
                          (audit->negative > 0 && audit->oversold == 0) ||
                          (audit->miscounted > 0 && audit->over_limit == 0);

    return has_lost_units ? 1u << STAGE_LEDGER : 0;
}
