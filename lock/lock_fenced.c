/*
 * fenced: redisson with a token in each grant, and without its herd. The default.
 *
 * Guarantees what redisson does (X C A P R L N W), and that a late holder does
 * not write (S): the token only rises, so the guarded resource can refuse it. It
 * is the same code with one more key; redisson gives tokens as well, if the terms
 * ask for them.
 *
 * And one release wakes one waiter. redisson tells every client, as its original
 * does: with 32 processes waiting 31 of them come in vain, each time. Here
 * the server has a list of the waiters (waiters.lua) and wakes the one that tried
 * longest ago; if that one is gone, the next. So a cycle costs three commands
 * whatever the number of waiters: the try that finds it taken, the one that
 * takes it, the release.
 *
 * Does not guarantee: an order among waiters (F), since whoever comes at the right
 * moment overtakes; that is the difference to fair, which makes all wait for the
 * one whose turn it is. Nor anything if the one server loses its data (M).
 */
#include "lock/lock_redisson.h"
#include "lock/waiters.h"

static const struct dlock_script acquire_script = {
#include "lock/waiters.lua.inc"

#include "lock/waiters_ask.lua.inc"

#include "lock/acquire.lua.inc"
};

static const struct dlock_script release_script = {
#include "lock/waiters.lua.inc"

#include "lock/waiters_end.lua.inc"

#include "lock/release.lua.inc"
};

static const struct dlock_script force_script = {
#include "lock/waiters.lua.inc"

#include "lock/force.lua.inc"
};

static const struct dlock_script renew_script = {
#include "lock/waiters.lua.inc"

#include "lock/renew.lua.inc"
};

static const struct dlock_script leave_script = {
#include "lock/waiters.lua.inc"

#include "lock/waiters_leave.lua.inc"
};

static const struct dlock_script list_script = {
#include "lock/waiters.lua.inc"

#include "lock/waiters_list.lua.inc"
};

static const struct dlock_node_kind kind = {
    .acquire = &acquire_script,
    .release = &release_script,
    .force = &force_script,
    .renew = &renew_script,
    .channel = DLOCK_WAITERS_CHANNEL,
    .leave = &leave_script,
    .list = &list_script,
    .keys = {":dlock-waiters"},
};

const struct dlock_strategy dlock_strategy_fenced = {
    .info = {.name = "fenced",
             .claim = "As redisson, and every grant has a rising token by "
                      "which the resource can refuse a late holder.",
             .capabilities = DLOCK_REDISSON_CAPABILITIES | DLOCK_CAP_FENCED},
    .variant = &kind,
    DLOCK_REDISSON_FUNCTIONS,
    DLOCK_WAITERS_FUNCTIONS,
};

/*
 * Nothing of the lock is different. It is the resource that is told, by the
 * capability, to compare at the write and not to stamp before the read: what
 * the holder has read by then may be stale, and its number is the highest.
 */
const struct dlock_strategy dlock_strategy_fenced_late = {
    .info = {.name = "fenced-late",
             .claim =
                 "As fenced, but the resource compares tokens only when it "
                 "is written: the late holder may come first.",
             .capabilities = DLOCK_REDISSON_CAPABILITIES | DLOCK_CAP_FENCED |
                             DLOCK_CAP_FENCED_LATE},
    .variant = &kind,
    DLOCK_REDISSON_FUNCTIONS,
    DLOCK_WAITERS_FUNCTIONS,
};
