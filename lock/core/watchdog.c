/*
 * The watchdog: one thread and one connection for all renewals of a client. This
 * file keeps the table and the thread; a pass over the renewals is in renewal.c.
 *
 * The thread sleeps until the next renewal is due and is woken only for one that
 * is due earlier. A cancelled grant costs it one idle look per third of a lease.
 *
 * The mutex is never held while a command is on its way. The entries of a pass are
 * marked instead, and a thread that removes a marked entry waits until the pass has
 * its answers: that wait makes cancelling synchronous. The hook comes later,
 * because it may want a mutex that is held by the thread that gives back.
 */
#include "lock/core/watchdog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/core/clock.h"

/* A holder of many locks asks for each deadline again and again; it takes and
 * gives back seldom in comparison. */
#define WATCHDOG_BUCKETS 1024

/* One per client; made with it, its thread with the first registration. */
struct dlock_watchdog {
    struct dlock *client;
    pthread_mutex_t mutex; /* guards everything below */
    pthread_cond_t wake;   /* something is due earlier; stop */
    pthread_cond_t sent;   /* a pass has its answers */
    struct dlock_renewal *buckets[WATCHDOG_BUCKETS]; /* all, by grant */
    struct dlock_renewal_queue queue;                /* the thread's work */
    uint64_t wake_ms; /* when the thread will look by itself */
    bool sending;     /* what is in the pass */
    bool started;
    bool stop;
    pthread_t thread;
    struct dlock_pass pass; /* the thread's own */
};

struct dlock_watchdog *dlock_watchdog_open(struct dlock *client)
{
    struct dlock_watchdog *watchdog = calloc(1, sizeof(*watchdog));

    if (watchdog == NULL)
        return NULL;
    watchdog->client = client;
    watchdog->wake_ms = UINT64_MAX;
    TAILQ_INIT(&watchdog->queue);
    (void)pthread_mutex_init(&watchdog->mutex, NULL);
    (void)pthread_cond_init(&watchdog->wake, NULL);
    (void)pthread_cond_init(&watchdog->sent, NULL);
    return watchdog;
}

/* Renewals that are still registered end: the client is going. */
void dlock_watchdog_close(struct dlock_watchdog *watchdog)
{
    if (watchdog == NULL)
        return;
    if (watchdog->started) {
        (void)pthread_mutex_lock(&watchdog->mutex);
        watchdog->stop = true;
        (void)pthread_cond_signal(&watchdog->wake);
        (void)pthread_mutex_unlock(&watchdog->mutex);
        (void)pthread_join(watchdog->thread, NULL);
    }
    for (size_t i = 0; i < WATCHDOG_BUCKETS; i++)
        for (struct dlock_renewal *next, *each = watchdog->buckets[i];
             each != NULL; each = next) {
            next = each->next_in_bucket;
            free(each);
        }
    (void)pthread_cond_destroy(&watchdog->sent);
    (void)pthread_cond_destroy(&watchdog->wake);
    (void)pthread_mutex_destroy(&watchdog->mutex);
    free(watchdog);
}

/* The thread --------------------------------------------------------------- */

/* Called and returns with the mutex held; lets go of it in between. */
static void pass_once(struct dlock_watchdog *watchdog, uint64_t now)
{
    struct dlock_pass *pass = &watchdog->pass;

    watchdog->sending = true;
    (void)pthread_mutex_unlock(&watchdog->mutex);
    dlock_renewal_send(pass, watchdog->client);
    (void)pthread_mutex_lock(&watchdog->mutex);
    watchdog->sending = false;
    dlock_renewal_apply(pass, watchdog->client, now);
    (void)pthread_cond_broadcast(&watchdog->sent);
    dlock_renewal_tell(pass, watchdog->client, &watchdog->mutex);
    dlock_renewal_end(pass, &watchdog->queue);
}

/*
 * The thread. A pass may have taken long, or there may be more than fits into
 * one: so it looks again after each, and sleeps only if nothing is due.
 */
static void *watch(void *arg)
{
    struct dlock_watchdog *watchdog = arg;

    (void)pthread_mutex_lock(&watchdog->mutex);
    while (!watchdog->stop) {
        uint64_t now = dlock_clock_now(watchdog->client->clock);
        const struct dlock_renewal *first;

        if (dlock_renewal_collect(&watchdog->pass, watchdog->client,
                                  &watchdog->queue, now)) {
            pass_once(watchdog, now);
            continue;
        }
        first = TAILQ_FIRST(&watchdog->queue);
        watchdog->wake_ms = first != NULL ? first->due_ms : UINT64_MAX;
        (void)dlock_clock_wait(watchdog->client->clock, &watchdog->wake,
                               &watchdog->mutex, watchdog->wake_ms);
    }
    (void)pthread_mutex_unlock(&watchdog->mutex);
    return NULL;
}

/* Registering and cancelling --------------------------------------------- */

/* Attempts are numbered through a client: they fill the buckets evenly. */
static struct dlock_renewal **bucket_of(struct dlock_watchdog *watchdog,
                                        uint64_t attempt)
{
    return &watchdog->buckets[attempt % WATCHDOG_BUCKETS];
}

/* Pending entries are in the table, but not in the thread's queue. */
struct dlock_renewal *dlock_watchdog_register(struct dlock_watchdog *watchdog,
                                              const char *name,
                                              const char *owner,
                                              uint64_t attempt)
{
    struct dlock_renewal **bucket = bucket_of(watchdog, attempt);
    struct dlock_renewal *renewal = calloc(1, sizeof(*renewal));
    bool started;

    if (renewal == NULL)
        return NULL;
    (void)snprintf(renewal->name, sizeof(renewal->name), "%s", name);
    (void)snprintf(renewal->owner, sizeof(renewal->owner), "%s", owner);
    renewal->attempt = attempt;
    (void)pthread_mutex_lock(&watchdog->mutex);
    if (!watchdog->started)
        watchdog->started =
            dlock_clock_thread(&watchdog->thread, "dlock-watchdog", watch,
                               watchdog) == 0;
    started = watchdog->started;
    if (started) {
        renewal->next_in_bucket = *bucket;
        *bucket = renewal;
    }
    (void)pthread_mutex_unlock(&watchdog->mutex);
    if (started)
        return renewal;
    free(renewal);
    return NULL;
}

void dlock_watchdog_confirm(struct dlock_watchdog *watchdog,
                            struct dlock_renewal *renewal,
                            uint64_t granted_at_ms, unsigned max_hold_ms)
{
    const struct dlock *client = watchdog->client;
    unsigned lease_ms = client->watchdog_lease_ms;

    (void)pthread_mutex_lock(&watchdog->mutex);
    renewal->state = DLOCK_RENEWAL_LIVE;
    renewal->due_ms = granted_at_ms + lease_ms / DLOCK_RENEWALS_PER_LEASE;
    renewal->deadline_ms =
        granted_at_ms + dlock_valid_ms(client->strategy, lease_ms);
    renewal->stop_ms =
        max_hold_ms == 0 ? UINT64_MAX : granted_at_ms + max_hold_ms;
    dlock_renewal_line_up(&watchdog->queue, renewal);
    if (renewal->due_ms < watchdog->wake_ms)
        (void)pthread_cond_signal(&watchdog->wake);
    (void)pthread_mutex_unlock(&watchdog->mutex);
}

/*
 * With the mutex: waits for a pass that is sending RENEWAL, then frees it, or
 * leaves that to the pass. Nobody else removes it meanwhile: its session is busy.
 * Tells whether it was cut off.
 */
static bool remove_renewal(struct dlock_watchdog *watchdog,
                           struct dlock_renewal *renewal)
{
    struct dlock_renewal **link = bucket_of(watchdog, renewal->attempt);
    bool cut_off;

    while (renewal->in_pass && watchdog->sending)
        (void)pthread_cond_wait(&watchdog->sent, &watchdog->mutex);
    cut_off = renewal->cut_off;
    while (*link != renewal)
        link = &(*link)->next_in_bucket;
    *link = renewal->next_in_bucket;
    dlock_renewal_step_out(&watchdog->queue, renewal);
    if (renewal->in_pass)
        renewal->state = DLOCK_RENEWAL_CANCELLED;
    else
        free(renewal);
    return cut_off;
}

void dlock_watchdog_discard(struct dlock_watchdog *watchdog,
                            struct dlock_renewal *renewal)
{
    if (renewal == NULL)
        return;
    (void)pthread_mutex_lock(&watchdog->mutex);
    (void)remove_renewal(watchdog, renewal);
    (void)pthread_mutex_unlock(&watchdog->mutex);
}

/*
 * With the mutex. Each hold of a re-entered lock has its own entry: the outer
 * one may be renewed and the inner one not, or the other way round.
 */
static struct dlock_renewal *find(struct dlock_watchdog *watchdog,
                                  const char *owner, uint64_t attempt)
{
    struct dlock_renewal *each = *bucket_of(watchdog, attempt);

    while (each != NULL &&
           (each->attempt != attempt || strcmp(each->owner, owner) != 0))
        each = each->next_in_bucket;
    return each;
}

bool dlock_watchdog_cancel(struct dlock_watchdog *watchdog, const char *owner,
                           uint64_t attempt)
{
    struct dlock_renewal *renewal;
    bool cut_off = false;

    (void)pthread_mutex_lock(&watchdog->mutex);
    renewal = find(watchdog, owner, attempt);
    if (renewal != NULL)
        cut_off = remove_renewal(watchdog, renewal);
    (void)pthread_mutex_unlock(&watchdog->mutex);
    return cut_off;
}

/* With the mutex: the first in a bucket that OWNER has. */
static struct dlock_renewal *find_any(struct dlock_renewal *each,
                                      const char *owner)
{
    while (each != NULL && strcmp(each->owner, owner) != 0)
        each = each->next_in_bucket;
    return each;
}

/* Nothing is registered for OWNER meanwhile: the session is being closed. */
void dlock_watchdog_cancel_owner(struct dlock_watchdog *watchdog,
                                 const char *owner)
{
    struct dlock_renewal *each;

    (void)pthread_mutex_lock(&watchdog->mutex);
    /* Removing may wait and so change a bucket: each is searched anew. */
    for (size_t i = 0; i < WATCHDOG_BUCKETS; i++)
        while ((each = find_any(watchdog->buckets[i], owner)) != NULL)
            (void)remove_renewal(watchdog, each);
    (void)pthread_mutex_unlock(&watchdog->mutex);
}

/* Telling is the thread's, and may have to wait for a pass under way. Goes over
 * all there are: it is seldom that a lock is lost and taken anew. */
void dlock_watchdog_supersede(struct dlock_watchdog *watchdog, const char *name,
                              const char *owner, uint64_t attempt)
{
    (void)pthread_mutex_lock(&watchdog->mutex);
    for (size_t i = 0; i < WATCHDOG_BUCKETS; i++)
        for (struct dlock_renewal *each = watchdog->buckets[i]; each != NULL;
             each = each->next_in_bucket)
            if (each->state == DLOCK_RENEWAL_LIVE && each->attempt < attempt &&
                strcmp(each->owner, owner) == 0 &&
                strcmp(each->name, name) == 0) {
                each->state = DLOCK_RENEWAL_UNTOLD;
                each->due_ms = 0;
                dlock_renewal_line_up(&watchdog->queue, each);
            }
    (void)pthread_cond_signal(&watchdog->wake);
    (void)pthread_mutex_unlock(&watchdog->mutex);
}

/* A renewal under way may be older or younger than the new lease, so its answer
 * must not overwrite the new end. A shorter lease may need the next one sooner than
 * was planned; one that is over is not renewed, but told. */
void dlock_watchdog_reset(struct dlock_watchdog *watchdog, const char *owner,
                          uint64_t attempt, uint64_t deadline_ms,
                          bool uncertain)
{
    struct dlock_renewal *renewal;

    (void)pthread_mutex_lock(&watchdog->mutex);
    /* Looked for anew after each wait: the grant may be given back meanwhile. */
    while ((renewal = find(watchdog, owner, attempt)) != NULL &&
           renewal->in_pass && watchdog->sending)
        (void)pthread_cond_wait(&watchdog->sent, &watchdog->mutex);
    if (renewal != NULL && renewal->state == DLOCK_RENEWAL_LIVE &&
        (!uncertain || deadline_ms < renewal->deadline_ms)) {
        uint64_t now = dlock_clock_now(watchdog->client->clock);
        uint64_t left = deadline_ms > now ? deadline_ms - now : 0;
        uint64_t third = left / DLOCK_RENEWALS_PER_LEASE;

        renewal->deadline_ms = deadline_ms;
        if (left == 0)
            renewal->state = DLOCK_RENEWAL_UNTOLD;
        if (renewal->due_ms > now + third)
            renewal->due_ms = now + third;
        dlock_renewal_line_up(&watchdog->queue, renewal);
        if (renewal->due_ms < watchdog->wake_ms)
            (void)pthread_cond_signal(&watchdog->wake);
    }
    (void)pthread_mutex_unlock(&watchdog->mutex);
}

/* Lost grants stay in the table until they are given back, to say so here. */
void dlock_watchdog_deadline(struct dlock_watchdog *watchdog, const char *owner,
                             uint64_t attempt, uint64_t *deadline_ms)
{
    const struct dlock_renewal *renewal;

    (void)pthread_mutex_lock(&watchdog->mutex);
    renewal = find(watchdog, owner, attempt);
    if (renewal != NULL)
        *deadline_ms =
            renewal->state == DLOCK_RENEWAL_LIVE ? renewal->deadline_ms : 0;
    (void)pthread_mutex_unlock(&watchdog->mutex);
}
