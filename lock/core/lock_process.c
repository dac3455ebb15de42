/*
 * process: a mutex per name, shared by all clients of this process.
 *
 * Guarantees that one session of this process at a time holds a name, and that
 * only it can release it. Waiters sleep and are woken.
 *
 * Does not know of any other process: two instances of a service sell the same piece twice.
 * This lock is here to show that: it passes every test of a single instance.
 *
 * It has no lease: a session that is closed without a release leaves the name locked, for
 * as long as the process lives. In a child of fork(2) every name is free.
 */
#include "lock/core/client.h"

#include <pthread.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

TAILQ_HEAD(waiter_list, waiter);

/* A name that is held or waited for; the table forgets the others. NAME comes first, so
 * that the tree finds a place by it. */
struct place {
    char name[DLOCK_NAME_BYTES_MAX + 1];
    unsigned waiters_n;
    struct waiter_list armed; /* who is to be told, the oldest first */
    char owner[DLOCK_OWNER_BYTES_MAX + 1]; /* "" = free */
};

struct waiter {
    const struct dlock_session *session;
    struct place *place;
    struct dlock_wake_call call;
    TAILQ_ENTRY(waiter) link; /* valid while the call is there */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void *places; /* a tree of tsearch(3); guarded by mutex */

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Waiters of the parent's stay: they may be on the stack of a thread that is gone. */
static void forget_parents(void)
{
    tdestroy(places, free);
    places = NULL;
}

const struct dlock_shared dlock_process_shared = {&mutex, forget_parents};

/* With the mutex, as all that touches the tree. */
static struct place *find(const char *name)
{
    void *found = tfind(name, &places, compare_names);

    return found == NULL ? NULL : *(struct place **)found;
}

/* The place, made if need be; NULL: no memory. */
static struct place *need(const char *name)
{
    struct place *place = find(name);

    if (place != NULL)
        return place;
    place = calloc(1, sizeof(*place));
    if (place == NULL)
        return NULL;
    TAILQ_INIT(&place->armed);
    (void)snprintf(place->name, sizeof(place->name), "%s", name);
    /* The tree keeps the pointer to PLACE, and compares NAME through it: so the place must
     * not move. */
    if (tsearch(place, &places, compare_names) != NULL)
        return place;
    free(place);
    return NULL;
}

/* Forgets a place that nobody holds or waits for. */
static void forget(struct place *place)
{
    if (place->owner[0] != '\0' || place->waiters_n > 0)
        return;
    (void)tdelete(place, &places, compare_names);
    free(place);
}

/* The one that has waited longest. False: nobody does. */
static bool tell_one(struct place *place)
{
    struct waiter *first = TAILQ_FIRST(&place->armed);

    if (first == NULL)
        return false;
    /* The waiter leaves the list before it is called: a wake-up is for one waiter, and the
     * next release is the next one's. */
    TAILQ_REMOVE(&place->armed, first, link);
    dlock_wake_call(&first->call);
    return true;
}

/* The same session again finds the name taken, like anybody else. */
static enum dlock_status acquire(const struct dlock_attempt *attempt)
{
    DLOCK_LOCKED(&mutex);
    struct place *place = need(attempt->name);

    if (place == NULL)
        return dlock_error_set(DLOCK_UNREACHABLE, "out of memory");
    if (place->owner[0] != '\0')
        return DLOCK_BUSY;
    (void)snprintf(place->owner, sizeof(place->owner), "%s",
                   attempt->session->owner);
    return DLOCK_OK;
}

static enum dlock_status release(const struct dlock_attempt *attempt)
{
    DLOCK_LOCKED(&mutex);
    struct place *place = find(attempt->name);

    if (place == NULL || strcmp(place->owner, attempt->session->owner) != 0)
        return DLOCK_LOST;
    place->owner[0] = '\0';
    /* The name is free before anybody is told, because a waiter that tries at once must not
     * find it taken. */
    (void)tell_one(place);
    forget(place);
    return DLOCK_OK;
}

static enum dlock_status inspect(const struct dlock_attempt *attempt,
                                 struct dlock_holder *holder)
{
    DLOCK_LOCKED(&mutex);
    const struct place *place = find(attempt->name);

    if (place != NULL && place->owner[0] != '\0') {
        holder->held = true;
        memcpy(holder->owner, place->owner, sizeof(holder->owner));
    }
    return DLOCK_OK;
}

/* Being counted as a waiter keeps the place in the table. */
static void *watch(struct dlock_session *session, const char *name)
{
    struct waiter *waiter = calloc(1, sizeof(*waiter));
    DLOCK_LOCKED(&mutex);
    /* watch() makes the place even if the name has become free meanwhile; arm() then finds
     * it free, and tells at once. */
    struct place *place = waiter == NULL ? NULL : need(name);

    if (place == NULL) {
        free(waiter);
        return NULL;
    }
    waiter->session = session;
    waiter->place = place;
    place->waiters_n++;
    return waiter;
}

static uint64_t arm(void *watched, uint64_t until_ms,
                    const struct dlock_wake_call *call)
{
    struct waiter *waiter = watched;
    DLOCK_LOCKED(&mutex);

    waiter->call = *call;
    /* A release, or the end of the wait, between the last try and this moment told nobody:
     * with the mutex neither can slip in between this look and the list. */
    if (waiter->place->owner[0] == '\0' || dlock_wait_ended(waiter->session))
        dlock_wake_call(&waiter->call);
    else
        TAILQ_INSERT_TAIL(&waiter->place->armed, waiter, link);
    return until_ms;
}

static void disarm(void *watched)
{
    struct waiter *waiter = watched;
    DLOCK_LOCKED(&mutex);

    if (waiter->call.told != NULL)
        TAILQ_REMOVE(&waiter->place->armed, waiter, link);
    waiter->call.told = NULL;
}

static void unwatch(void *watched, uint64_t free_ms)
{
    struct waiter *waiter = watched;
    /* The waiter has kept the place alive up to here, so it can be read before the mutex is
     * taken. */
    struct place *place = waiter->place;
    DLOCK_LOCKED(&mutex);

    (void)free_ms; /* a lock without leases */
    place->waiters_n--;
    /* Leaving late, we may have been the one that a release woke. */
    if (place->owner[0] == '\0')
        (void)tell_one(place);
    forget(place);
    free(waiter);
}

static void tell_all(const void *node, VISIT visit, void *ctx)
{
    (void)ctx;
    /* twalk_r() visits an inner node three times, a leaf once: the waiters of each are told
     * at one of these. */
    while ((visit == preorder || visit == leaf) &&
           tell_one(*(struct place *const *)node))
        continue;
}

/* Wakes the waiters of other clients as well; they look, and sleep on. */
static void wake_all(struct dlock *client)
{
    DLOCK_LOCKED(&mutex);

    (void)client;
    twalk_r(places, tell_all, NULL);
}

const struct dlock_strategy dlock_strategy_process = {
    .info = {.name = "process",
             .claim = "One at a time within this process, and only there.",
             .capabilities = DLOCK_CAP_OWNER | DLOCK_CAP_WAKE},
    .acquire = acquire,
    .release = release,
    .inspect = inspect,
    .watch = watch,
    .arm = arm,
    .disarm = disarm,
    .unwatch = unwatch,
    .wake_all = wake_all,
};
