/*
 * fair: first come, first served.
 *
 * Guarantees what redisson does (X C A P R L N W), and an order (F): the waiter
 * that asked first, and still waits, is next, whatever client it belongs to. Only
 * that one is woken by a release. A try without waiting does not overtake.
 *
 * How: on the server, a queue beside the lock (fair_queue.lua). Each waiter has
 * a heartbeat of two seconds there, refreshed by its own tries, of which there
 * are three per heartbeat while it sleeps. A waiter that dies, or is stopped for
 * longer, loses its place and holds the others up no longer than that; one that
 * gives up takes itself out. Nobody's deadline is ever moved by anybody else,
 * and all are read from the server's clock. The fair lock of a widely used
 * library did neither, and its deadlines drifted hours ahead (locks.md, 8).
 *
 * When nobody was heard of for half a heartbeat, the dead cannot be told from
 * those whom a stopped server did not hear: all keep their places for a heartbeat
 * more. The same if the server's clock is found to have been set back.
 *
 * Does not guarantee: an order after ten seconds of that, or if the server's
 * clock is set forward by as much: all waiters queue anew then, as they come.
 * Exclusion does not depend on it. Nor anything if the one server loses its
 * data (M), nor, without tokens, that a late holder does not write (S): ask for
 * them in the terms.
 *
 * The failure it is here to show is that fairness costs: a lock may not go to a
 * waiter that is awake, but waits until the one whose turn it is has been woken.
 */
#include "lock/redis/lock_redisson.h"
#include "lock/redis/scripts.h"

static const struct dlock_node_kind kind = {
    .acquire = &dlock_script_fair_acquire,
    .release = &dlock_script_fair_release,
    .force = &dlock_script_fair_force,
    .renew = &dlock_script_fair_renew,
    .leave = &dlock_script_fair_leave,
    .list = &dlock_script_fair_list,
    .channel = DLOCK_NODE_TURN_CHANNEL,
    .keys = {":dlock-queue", ":dlock-beats"},
};

const struct dlock_strategy dlock_strategy_fair = {
    .info = {.name = "fair",
             .claim = "As redisson, and the lock goes to whoever has waited "
                      "for it longest.",
             .capabilities = DLOCK_REDISSON_CAPABILITIES},
    .variant = &kind,
    DLOCK_REDISSON_FUNCTIONS,
    DLOCK_WAITERS_FUNCTIONS,
};
