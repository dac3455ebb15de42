/*
 * The guard thread: the renewal of `guard-thread`, as found in many a tutorial. One thread
 * per client, which every third of a lease asks for each name how long it still lives, and
 * gives it a whole lease again.
 *
 * Guarantees that work longer than the lease is alone (L), sometimes.
 *
 * Does not do what the watchdog (held.c) does, and each difference is a failure that it is
 * here to show:
 *
 *   TTL, then EXPIRE, without a look at whose lock it is: once the lease has been missed, it
 *     keeps the next holder's lock alive, also after that holder's death.
 *   It belongs to the client, not to the session: a worker that dies leaves a lock that is
 *     renewed for as long as the process lives. There is no longest time to hold it either.
 *   One stop flag for all names: who gives back one lock ends the renewal of all others.
 *   Nobody is told: the holder neither of a renewal (dlock_remaining_ms() runs down to 0)
 *     nor of a loss (on_lost is never called).
 *
 * As code it is correct: no races, and stopping waits for a renewal under way.
 */
#include "lock/textbook/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/redis/call.h"

enum { LOOKS_PER_LEASE = 3 };

/* One per client, in client->own. */
struct guard {
    struct dlock_wire *wire; /* the thread's own */
    const struct dlock_clock *clock;
    unsigned lease_ms;
    unsigned timeout_ms;   /* of one look */
    pthread_mutex_t mutex; /* guards everything below */
    pthread_cond_t changed;
    char (*names)[DLOCK_NAME_BYTES_MAX + 1];
    size_t n;        /* of names; 0 is THE flag: one for all of them */
    uint64_t due_ms; /* the next look, if there are names */
    bool looking;    /* at them, without the mutex */
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
    (void)pthread_cond_init(&guard->changed, NULL);
    client->own = guard;
    return DLOCK_OK;
}

/* The end of the process, for the thread: only now it stops by itself. */
void dlock_guard_close(struct dlock *client)
{
    struct guard *guard = client->own;

    if (guard->started) {
        (void)pthread_mutex_lock(&guard->mutex);
        guard->closing = true;
        (void)pthread_cond_broadcast(&guard->changed);
        (void)pthread_mutex_unlock(&guard->mutex);
        /* The thread may be in a command: its timeout bounds this wait. */
        (void)pthread_join(guard->thread, NULL);
    }
    (void)pthread_cond_destroy(&guard->changed);
    (void)pthread_mutex_destroy(&guard->mutex);
    dlock_wire_close(guard->wire);
    free(guard->names);
}

/* The thread ---------------------------------------------------------------- */

/* Is it there? Then it shall live on. Whose it is, is not asked; and between the two
 * commands it may have become somebody else's as well. */
static void renew(struct guard *guard, const char *name)
{
    uint64_t limit_ms = dlock_clock_now(guard->clock) + guard->timeout_ms;
    struct dlock_command command;
    struct dlock_reply reply;

    dlock_command_init(&command, "guard-ttl", name, NULL);
    dlock_command_arg(&command, "PTTL");
    dlock_command_arg(&command, name);
    if (dlock_call(guard->wire, &command, limit_ms, &reply) != DLOCK_OK ||
        /* A key without a lease answers -1, one that is not there -2, an error no number:
         * in each case there is nothing to lengthen. */
        reply.integers[0] <= 0)
        return;
    dlock_command_init(&command, "guard-expire", name, NULL);
    dlock_command_arg(&command, "PEXPIRE");
    dlock_command_arg(&command, name);
    dlock_command_number(&command, guard->lease_ms);
    (void)dlock_call(guard->wire, &command, limit_ms, &reply);
}

/* With the mutex, which is let go of meanwhile. */
static void look_at_all(struct guard *guard)
{
    char name[DLOCK_NAME_BYTES_MAX + 1];

    guard->looking = true;
    guard->due_ms =
        dlock_clock_now(guard->clock) + guard->lease_ms / LOOKS_PER_LEASE;
    for (size_t i = 0; i < guard->n; i++) {
        /* The array may move, and N become 0, while the mutex is not held: so the name is
         * copied, and N is read anew each time. */
        memcpy(name, guard->names[i], sizeof(name));
        (void)pthread_mutex_unlock(&guard->mutex);
        renew(guard, name);
        (void)pthread_mutex_lock(&guard->mutex);
    }
    guard->looking = false;
    (void)pthread_cond_broadcast(&guard->changed);
}

static void *guard_all(void *arg)
{
    struct guard *guard = arg;
    DLOCK_LOCKED(&guard->mutex);

    while (!guard->closing)
        /* The first name of all sets the time of the look, and later ones join it: one
         * period is for all names. */
        if (guard->n > 0 && dlock_clock_until(guard->clock, guard->due_ms) == 0)
            look_at_all(guard);
        else
            (void)dlock_clock_wait(guard->clock, &guard->changed, &guard->mutex,
                                   guard->n > 0 ? guard->due_ms : UINT64_MAX);
    return NULL;
}

/* Starting and stopping ----------------------------------------------------- */

bool dlock_guard_start(struct dlock *client, const char *name)
{
    struct guard *guard = client->own;
    void *more = NULL;
    DLOCK_LOCKED(&guard->mutex);

    if (!guard->started)
        guard->started = dlock_clock_thread(&guard->thread, "dlock-guard",
                                            guard_all, guard) == 0;
    if (guard->started)
        more = realloc(guard->names, (guard->n + 1) * sizeof(*guard->names));
    if (more == NULL)
        return false;
    guard->names = more;
    (void)snprintf(guard->names[guard->n], sizeof(*guard->names), "%s", name);
    if (guard->n++ == 0)
        guard->due_ms =
            dlock_clock_now(guard->clock) + guard->lease_ms / LOOKS_PER_LEASE;
    (void)pthread_cond_broadcast(&guard->changed);
    return true;
}

void dlock_guard_stop(struct dlock *client)
{
    struct guard *guard = client->own;
    DLOCK_LOCKED(&guard->mutex);

    /* The names of all other holders go as well: that is the failure which is to be
     * shown. */
    guard->n = 0;
    /* The wait is needed, because an EXPIRE under way could reach the server after the
     * release, and keep the next holder's lock. */
    while (guard->looking)
        (void)pthread_cond_wait(&guard->changed, &guard->mutex);
}
