/* Private to lock/: looking for deadlocks while waiting, as the core knows it. The
 * code is in lock/deadlock/, which is linked into programs that register it. */
#ifndef DLOCK_DEADLOCK_PRIVATE_H
#define DLOCK_DEADLOCK_PRIVATE_H

#include "lock/core/client.h"

/* The looks of one wait. All zero at first. */
struct dlock_look {
    uint64_t at_ms;  /* lease time of the next look; 0 = none is wanted */
    uint64_t number; /* of this wait */
    uint64_t heard;  /* the stamp of the last answer; stamps only rise */
    uint64_t first;  /* the stamp when this cycle was seen first; 0 = none */
    uint64_t cycle;  /* which one: a hash */
};

struct dlock_detector {
    /* DLOCK_MISUSE, and why, where no server knows all holders by their names. */
    enum dlock_status (*can)(const struct dlock *client,
                             struct dlock_error *error);

    /* DLOCK_BUSY: wait on, and look again at look->at_ms. DLOCK_DEADLOCK, and the
     * cycle in words: it is this wait that is to end. DLOCK_MISUSE: this user of
     * the server may not look. Blocks for the wire. */
    enum dlock_status (*look)(const struct dlock_attempt *attempt,
                              struct dlock_look *look,
                              struct dlock_error *error);
};

/* As registered. NULL: this program does not have it. */
extern const struct dlock_detector *dlock_detector_made;

#endif
