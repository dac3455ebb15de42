/*
 * The guard thread: the renewal of `guard-thread`, as found in many a tutorial.
 * One thread per client, which every third of a lease asks for each name how
 * long it still lives, and gives it a whole lease again.
 *
 * Guarantees that work longer than the lease is alone (L), sometimes.
 *
 * Does not do what the watchdog (held.c) does, and each difference is a
 * failure that it is here to show:
 *
 *   TTL, then EXPIRE, without a look at whose lock it is: once the lease has
 *     been missed, it keeps the next holder's lock alive, also after that
 *     holder's death.
 *   It belongs to the client, not to the session: a worker that dies leaves a
 *     lock that is renewed for as long as the process lives. There is no
 *     longest time to hold a lock either.
 *   One stop flag for all names: who gives back one lock ends the renewal of
 *     all the others.
 *   Nobody is told of anything: the holder neither of a renewal (its grant's
 *     deadline stays where it was, dlock_remaining_ms() runs down to 0) nor of
 *     a loss (on_lost is never called).
 *
 * As code it is correct: no races, and stopping waits for a renewal under way.
 * What is wrong is the design.
 */
#include "lock/textbook/text.h"

#include <stdio.h>
#include <stdlib.h>

#include "lock/core/clock.h"
#include "lock/redis/call.h"

enum { LOOKS_PER_LEASE = 3 };

/* A name that the thread looks after. */
struct guarded {
    LIST_ENTRY(guarded) link;
    char name[DLOCK_NAME_BYTES_MAX + 1];
};

/* One per client, in client->own. */
struct guard {
    struct dlock_wire *wire; /* the thread's own */
    const struct dlock_clock *clock;
    unsigned lease_ms;
    unsigned timeout_ms;    /* of one look */
    pthread_mutex_t mutex;  /* guards everything below */
    pthread_cond_t wake;    /* for the thread: something has changed */
    pthread_cond_t dropped; /* the thread has emptied the list */
    LIST_HEAD(guardeds, guarded) list; /* grown by all, emptied by the thread */
    uint64_t due_ms;                   /* the next look */
    bool running;                      /* THE flag: one for all names */
    bool closing;
    bool started;
    pthread_t thread;
};

enum dlock_status dlock_guard_open(struct dlock *client)
{
    struct guard *guard = calloc(1, sizeof(*guard));

    if (guard == NULL)
        return DLOCK_UNREACHABLE;
    guard->clock = client->clock;
    guard->lease_ms = client->watchdog_lease_ms;
    guard->timeout_ms = client->wire.command_timeout_ms;
    guard->wire = dlock_wire_open(&client->wire, "guard");
    if (guard->wire == NULL) {
        free(guard);
        return DLOCK_UNREACHABLE;
    }
    (void)pthread_mutex_init(&guard->mutex, NULL);
    (void)pthread_cond_init(&guard->wake, NULL);
    (void)pthread_cond_init(&guard->dropped, NULL);
    client->own = guard;
    return DLOCK_OK;
}

/* With the mutex, or when the thread has gone. */
static void drop_all(struct guard *guard)
{
    struct guarded *guarded;

    while ((guarded = LIST_FIRST(&guard->list)) != NULL) {
        LIST_REMOVE(guarded, link);
        free(guarded);
    }
}

/* The end of the process, for the thread: only now it stops by itself. */
void dlock_guard_close(struct dlock *client)
{
    struct guard *guard = client->own;

    if (guard->started) {
        (void)pthread_mutex_lock(&guard->mutex);
        guard->closing = true;
        (void)pthread_cond_signal(&guard->wake);
        (void)pthread_mutex_unlock(&guard->mutex);
        (void)pthread_join(guard->thread, NULL);
    }
    drop_all(guard);
    (void)pthread_cond_destroy(&guard->dropped);
    (void)pthread_cond_destroy(&guard->wake);
    (void)pthread_mutex_destroy(&guard->mutex);
    dlock_wire_close(guard->wire);
    free(guard);
}

/* The thread ---------------------------------------------------------------- */

/*
 * Is it there? Then it shall live on. Whose it is, is not asked; and between the
 * two commands it may have become somebody else's as well.
 */
static void renew(struct guard *guard, const char *name)
{
    uint64_t limit_ms = dlock_clock_now(guard->clock) + guard->timeout_ms;
    struct dlock_command command;
    struct dlock_reply reply;

    dlock_command_init(&command, "guard-ttl", name, NULL);
    dlock_command_arg(&command, "PTTL");
    dlock_command_arg(&command, name);
    if (dlock_call(guard->wire, &command, limit_ms, &reply) != DLOCK_OK ||
        reply.integers[0] <= 0)
        return;
    dlock_command_init(&command, "guard-expire", name, NULL);
    dlock_command_arg(&command, "PEXPIRE");
    dlock_command_arg(&command, name);
    dlock_command_number(&command, guard->lease_ms);
    (void)dlock_call(guard->wire, &command, limit_ms, &reply);
}

/* New names come to the head of the list and none leaves it but by the thread itself: so
 * the way through it holds, though the mutex is let go of. */
static void *guard_all(void *arg)
{
    struct guard *guard = arg;

    (void)pthread_mutex_lock(&guard->mutex);
    while (!guard->closing) {
        if (!guard->running) {
            drop_all(guard);
            guard->due_ms = UINT64_MAX;
            (void)pthread_cond_broadcast(&guard->dropped);
        } else if (dlock_clock_until(guard->clock, guard->due_ms) == 0) {
            guard->due_ms = dlock_clock_now(guard->clock) +
                            guard->lease_ms / LOOKS_PER_LEASE;
            for (struct guarded *each = LIST_FIRST(&guard->list);
                 each != NULL && guard->running; each = LIST_NEXT(each, link)) {
                (void)pthread_mutex_unlock(&guard->mutex);
                renew(guard, each->name);
                (void)pthread_mutex_lock(&guard->mutex);
            }
            continue;
        }
        (void)dlock_clock_wait(guard->clock, &guard->wake, &guard->mutex,
                               guard->due_ms);
    }
    (void)pthread_mutex_unlock(&guard->mutex);
    return NULL;
}

/* Starting and stopping ----------------------------------------------------- */

/* With the mutex: a stop that the thread has not yet seen comes first. */
static void await_stop(struct guard *guard)
{
    while (!guard->running && !LIST_EMPTY(&guard->list))
        (void)pthread_cond_wait(&guard->dropped, &guard->mutex);
}

bool dlock_guard_start(struct dlock *client, const char *name)
{
    struct guard *guard = client->own;
    struct guarded *guarded = calloc(1, sizeof(*guarded));
    bool started;

    if (guarded == NULL)
        return false;
    (void)snprintf(guarded->name, sizeof(guarded->name), "%s", name);
    (void)pthread_mutex_lock(&guard->mutex);
    if (!guard->started)
        guard->started = dlock_clock_thread(&guard->thread, "dlock-guard",
                                            guard_all, guard) == 0;
    started = guard->started;
    if (started) {
        await_stop(guard);
        if (LIST_EMPTY(&guard->list))
            guard->due_ms = dlock_clock_now(guard->clock) +
                            guard->lease_ms / LOOKS_PER_LEASE;
        LIST_INSERT_HEAD(&guard->list, guarded, link);
        guard->running = true;
        (void)pthread_cond_signal(&guard->wake);
    }
    (void)pthread_mutex_unlock(&guard->mutex);
    if (!started)
        free(guarded);
    return started;
}

void dlock_guard_stop(struct dlock *client)
{
    struct guard *guard = client->own;

    (void)pthread_mutex_lock(&guard->mutex);
    guard->running = false;
    (void)pthread_cond_signal(&guard->wake);
    await_stop(guard);
    (void)pthread_mutex_unlock(&guard->mutex);
}
