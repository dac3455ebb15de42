/*
 * Private to lock/: looking for deadlocks while waiting, as the core knows it. Who
 * does it is in lock/deadlock/, which is linked into programs that register it.
 */
#ifndef DLOCK_DEADLOCK_PRIVATE_H
#define DLOCK_DEADLOCK_PRIVATE_H

#include "lock/strategy.h"

/* What one wait knows. All zero at first. */
struct dlock_look {
    uint64_t at_ms;  /* lease time of the next look; 0 = none is wanted */
    uint64_t number; /* of this wait */
    uint64_t heard;  /* the stamp of the last answer; stamps only rise */
    uint64_t first;  /* the stamp when this cycle was seen first; 0 = none */
    uint64_t cycle;  /* which one: a hash */
};

struct dlock_detector {
    /* The server of this strategy knows who holds a lock by a name. */
    bool (*can)(const struct dlock_strategy *strategy);

    /* DLOCK_BUSY: wait on, and look again at look->at_ms. DLOCK_DEADLOCK, and the
     * cycle in words: it is this wait that is to end. Blocks for the wire. */
    enum dlock_status (*look)(struct dlock_session *session,
                              const struct dlock_attempt *attempt,
                              struct dlock_look *look,
                              struct dlock_error *error);
};

/* As registered. NULL: this program does not have it. */
extern const struct dlock_detector *dlock_detector_made;

#endif
