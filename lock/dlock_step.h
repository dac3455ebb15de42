/*
 * libdlock: the step hook; a part of dlock.h, which includes this. It is called
 * before each command to a server is sent, and after its reply was read: for
 * timelines, faults, schedulers and metrics.
 */
#ifndef DLOCK_STEP_HOOK_H
#define DLOCK_STEP_HOOK_H

#include <stdbool.h>
#include <stddef.h>

/* Around the declarations of each header. */
#ifdef __cplusplus
#define DLOCK_BEGIN extern "C" {
#define DLOCK_END   }
#else
#define DLOCK_BEGIN
#define DLOCK_END
#endif

DLOCK_BEGIN

enum dlock_phase { DLOCK_BEFORE, DLOCK_AFTER };

enum dlock_verdict {
    DLOCK_GO,   /* carry on */
    DLOCK_FAIL, /* BEFORE: do not send it; behave as if the server were gone.
                   AFTER: throw the reply away, as if it had been lost */
    DLOCK_HOLD_BACK, /* BEFORE, of a step with words: as if its reply were lost;
                        the hook may send the words. Elsewhere: DLOCK_FAIL */
};

struct dlock_step {
    const char *name;  /* "set-nx" */
    const char *owner; /* of the session; "watchdog" or "guard" for renewals,
                        "subscriber" */
    const char *key;   /* the lock's name */
    enum dlock_phase phase;
    const char *reply;        /* AFTER: short text of the reply; BEFORE: NULL */
    unsigned node;            /* which server of the url, from 0 */
    const char *const *words; /* BEFORE: the Redis command; else NULL */
    size_t words_n;
    size_t parts_n; /* of a script ("EVAL"): so many of words[1] and behind are
                       its text, one after the other */
    bool is_error;  /* AFTER: the reply is the server's error */
};

/* Called on the thread that does the step; may block (a test pauses here), must not call
 * into the session that is stepping. */
typedef enum dlock_verdict dlock_step_hook(void *ctx,
                                           const struct dlock_step *step);

DLOCK_END

#endif
