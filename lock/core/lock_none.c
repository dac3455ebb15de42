/*
 * none: no lock at all. Everybody is let in at once, and the oversell is what it is here to
 * show. Every other strategy is measured against it, for safety as for speed, so it is a
 * strategy like any other and not an "if" somewhere.
 */
#include "lock/core/client.h"

/* There is nothing to take, so nothing is ever found lost. */
static enum dlock_status do_nothing(const struct dlock_attempt *attempt)
{
    (void)attempt;
    return DLOCK_OK;
}

const struct dlock_strategy dlock_strategy_none = {
    .info = {.name = "none",
             .claim = "No lock: everybody is let in.",
             .capabilities = 0},
    .acquire = do_nothing,
    .release = do_nothing,
};
