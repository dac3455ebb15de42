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
 * Does not guarantee: an order among waiters (F), since a newcomer at the right
 * moment overtakes; that is the difference to fair, which makes all wait for the
 * one whose turn it is. Nor anything if the one server loses its data (M).
 */
#include "lock/redis/lock_redisson.h"
#include "lock/redis/scripts.h"

const struct dlock_node_kind dlock_fenced_kind = {
    .acquire = &dlock_script_fenced_acquire,
    .release = &dlock_script_fenced_release,
    .force = &dlock_script_fenced_force,
    .renew = &dlock_script_fenced_renew,
    .leave = &dlock_script_fenced_leave,
    .list = &dlock_script_fenced_list,
    .channel = DLOCK_NODE_TURN_CHANNEL,
    .keys = {":dlock-waiters"},
};

const struct dlock_strategy dlock_strategy_fenced = {
    .info = {.name = "fenced",
             .claim = "As redisson, and every grant has a rising token by "
                      "which the resource can refuse a late holder.",
             .capabilities = DLOCK_REDISSON_CAPABILITIES | DLOCK_CAP_FENCED},
    .variant = &dlock_fenced_kind,
    DLOCK_REDISSON_FUNCTIONS,
    DLOCK_WAITERS_FUNCTIONS,
};
