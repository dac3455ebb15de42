/*
 * What the callback of an asynchronous call was told.
 */
#ifndef ASYNC_NOTE_H
#define ASYNC_NOTE_H

#include <pthread.h>
#include <stdatomic.h>

#include "lock/dlock.h"

/* The head of a callback. */
#define ASYNC_CALLBACK(name)                                                   \
    static void name(                                                          \
        void *ctx, struct dlock_session *session, enum dlock_status status,    \
        const struct dlock_grant *grant, const struct dlock_error *error)

struct note {
    pthread_t thread;
    struct dlock_grant grant;
    atomic_uint n;
    enum dlock_status status;
    bool granted;
    bool close; /* the callback closes the session */
    char text[200];
};

/* The callback; CTX is a note. */
void note_done(void *ctx, struct dlock_session *session,
               enum dlock_status status, const struct dlock_grant *grant,
               const struct dlock_error *error);

/* The status that it got; waits for it, and fails the test after seconds. */
enum dlock_status note_await(struct note *note);

/* An acquire that is to be noted. */
enum dlock_status note_begin(struct dlock_session *session, const char *name,
                             unsigned wait_ms, struct note *note);

#endif
