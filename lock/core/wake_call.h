/*
 * Private to lock/: whom to tell that it is worth trying again. A thread that
 * sleeps until then is one of them (wait.c), an asynchronous acquire that waits
 * without a thread is another (async/park.c).
 */
#ifndef DLOCK_WAKE_CALL_H
#define DLOCK_WAKE_CALL_H

#include <stddef.h>

/*
 * Is called at most once for each time that it is armed, from any thread, with
 * the mutex of whoever calls: so it takes none but its own, calls nothing of a
 * lock, and returns at once.
 */
struct dlock_wake_call {
    void (*told)(void *ctx); /* NULL = nobody waits, or was told already */
    void *ctx;
};

/* With the mutex that guards CALL. */
static inline void dlock_wake_call(struct dlock_wake_call *call)
{
    void (*told)(void *ctx) = call->told;

    call->told = NULL;
    if (told != NULL)
        told(call->ctx);
}

#endif
