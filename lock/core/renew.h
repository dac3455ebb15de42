/*
 * Private to lock/: a renewal of a lease as the watchdog, the pass over those that are
 * due, and the strategy that sends it know it.
 */
#ifndef DLOCK_RENEW_H
#define DLOCK_RENEW_H

#include "lock/core/wire_config.h"

struct dlock;

/* A lease to be renewed, and what came of it. */
struct dlock_renew {
    const char *name;
    const char *owner;
    uint64_t number; /* of the command; config.renew draws it */
    enum dlock_status status;
    int64_t
        answer; /* if that is DLOCK_OK: 1 = renewed, 0 = expired, -1 = taken,
                       or DLOCK_OVERTAKEN */
};

/* A script's reply to a late command, which it has not carried out. */
enum { DLOCK_OVERTAKEN = -2 };

/* Slots of a strategy: see strategy.h. */
typedef void dlock_renew_slot(struct dlock *client, struct dlock_renew renews[],
                              size_t n, unsigned lease_ms, uint64_t limit_ms);
typedef uint64_t dlock_forced_slot(struct dlock *client, const char *name,
                                   const char *owner, uint64_t limit_ms);

struct dlock_watchdog_config {
    const struct dlock_wire_config *wire;
    unsigned lease_ms;
    dlock_renew_slot *renew;
    dlock_forced_slot *forced; /* the strategy's */
    struct dlock *client;      /* for both */
    uint64_t valid_ms; /* how long a lease counts; see dlock_valid_ms() */
    dlock_lost_hook *on_lost; /* NULL = nobody wants to know */
    void *on_lost_ctx;
};

#endif
