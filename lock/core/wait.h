/*
 * Waiting for a lock: tries, and what lies between them.
 *
 *     dlock_session_begin - dlock_wait_try - arm - (told, or time) - disarm
 *                              ^                                       |
 *                              +---------------------------------------+
 */
#ifndef DLOCK_WAIT_H
#define DLOCK_WAIT_H

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
    enum dlock_status (*can)(const struct dlock *client);

    /* DLOCK_BUSY: wait on, and look again at look->at_ms. DLOCK_DEADLOCK, and the
     * cycle in words: it is this wait that is to end. DLOCK_MISUSE: this user of
     * the server may not look. Blocks for the wire. */
    enum dlock_status (*look)(const struct dlock_attempt *attempt,
                              struct dlock_look *look);
};

/* As registered; the code is in lock/deadlock/. NULL: this program does not have it. */
extern const struct dlock_detector *dlock_detector_made;

/* One acquire; must not move. For wait.c and session.c only, but for the clock. */
struct dlock_wait {
    enum dlock_status status; /* of the last try, or why there is none */
    bool tries;               /* or it had failed before the first one */
    struct dlock_session *session;
    const struct dlock_strategy *strategy;
    const struct dlock_clock *clock;
    const struct dlock_terms *terms; /* have to live as long, like the name */
    struct dlock_attempt attempt;    /* its number rises with an answer */
    uint64_t number;                 /* its first one: the grant's */
    uint64_t deadline_ms;            /* lease time */
    uint64_t tried_at_ms; /* before the last try, or the one that it repeats */
    uint64_t busy_ms;     /* the holder has at most so long, ... */
    uint64_t busy_at_ms;  /* ... from here, the end of the last try */
    struct dlock_grant grant;
    void *watch;       /* NULL: polls, or has not waited yet */
    bool has_waited;   /* there was a pause */
    bool answered;     /* the last wake-up led to a try that was answered */
    unsigned silent_n; /* tries without an answer, in a row */
    bool repeats;      /* the next try is a copy of one that got none */
    bool uncertain;    /* we may have it */
    unsigned looks;    /* pauses so far */
    struct dlock_look look;
};

/* The end of a wait without a wake-up: US of real time, or a point of lease time.
 * The one that is not meant is 0. */
struct dlock_pause {
    uint64_t us;
    uint64_t until_ms;
};

/* One try; none if the wait was ended meanwhile, but for the first. True: there is no
 * grant, and time for another. Blocks for the wire only. */
bool dlock_wait_try(struct dlock_wait *wait);

/* Between two tries: it is time for the next one when *CALL is called, or the pause is
 * over. Neither blocks. After disarm it is not called any more. */
struct dlock_pause dlock_wait_arm(struct dlock_wait *wait,
                                  const struct dlock_wake_call *call);
void dlock_wait_disarm(struct dlock_wait *wait);

/* Sleeps on this thread instead. */
void dlock_wait_sleep(struct dlock_wait *wait);

/* Leaves; blocks for the wire only. With DLOCK_OK grant.deadline_ms, .token and .holds are
 * filled, and tried_at_ms is a time before the grant. DLOCK_LOST: it came too late for
 * its lease; DLOCK_TIMEOUT: nobody could be reached, and the wait was ended. */
enum dlock_status dlock_wait_end(struct dlock_wait *wait);

/* Calls CALL, a strategy's release or extend, again and again while there is no answer
 * and attempt->limit_ms has not come: after DLOCK_UNKNOWN only where the server knows
 * copies. */
enum dlock_status dlock_wait_retry(
    const struct dlock_attempt *attempt,
    enum dlock_status (*call)(const struct dlock_attempt *attempt));

#endif
