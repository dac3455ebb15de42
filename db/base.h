/*
 * Error texts, clocks, a bounded wait and the step hook, for every file of db/.
 */
#ifndef STORE_BASE_H
#define STORE_BASE_H

#include "db/store.h"

#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

/*
 * Writes the text for a person, cut to fit, and gives STATUS back. ERROR may be
 * NULL. A macro, so that the analyzers see that what comes back is no STORE_OK:
 *
 *     return failure_set(error, STORE_IO, "%s is a directory", path);
 */
#define failure_set(error, status, ...)                                        \
    (failure_text((error), __VA_ARGS__), (status))

/* The status of a failed system call on a file. A person gives rights; all else may end by
 * itself: a folder is mounted, a disk gets room. */
enum store_status failure_status(int error);

void failure_text(struct store_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The wall clock: sales open and end by it, and it stands in the rows. It can
 * step, so that no wait may be measured with it. */
static inline int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* For waits. */
static inline uint64_t monotonic_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Waiting for another process where there is no event to wait for: look, wait a short
 * random time, look again, until a deadline. Short because a commit takes a
 * millisecond; random so that two processes do not meet for ever; bounded because a
 * caller would rather hear "don't know yet" than wait for a process that somebody has
 * stopped. */
struct backoff {
    const atomic_bool *hurry; /* no waiting while it is true; NULL = never */
    uint64_t until_us;        /* by monotonic_us() */
    unsigned random;          /* the state of rand_r(); 0 = to be begun */
    unsigned tries;
};

/* Begins a wait of at most MS; keeps the generator going. */
static inline void backoff_begin(struct backoff *backoff, unsigned ms)
{
    backoff->until_us = monotonic_us() + (uint64_t)ms * 1000;
    backoff->tries = 0;
}

/* Waits 0.1 .. 2 ms, longer each time. False: the time is up, or hurry. */
bool backoff_wait(struct backoff *backoff);

/* The step hook; store.h says what it is for. */
struct step {
    store_step_hook *hook; /* NULL = none */
    void *ctx;
};

static inline enum store_verdict step_call(struct step step, const char *name,
                                           int64_t product_id,
                                           enum store_phase phase,
                                           const char *reply)
{
    const struct store_step it = {name, product_id, phase, reply};

    return step.hook ? step.hook(step.ctx, &it) : STORE_GO;
}

#define step_begin(step, name, product_id)                                     \
    step_call((step), (name), (product_id), STORE_BEFORE, NULL)
/* REPLY is worked out for a hook only. */
#define step_end(step, name, product_id, reply)                                \
    ((step).hook                                                               \
         ? step_call((step), (name), (product_id), STORE_AFTER, (reply))       \
         : STORE_GO)

#endif
