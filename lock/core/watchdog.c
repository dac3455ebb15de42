/*
 * The watchdog: one thread and one connection for all renewals of a client.
 *
 * All leases that are due go in one pipeline, so that renewing a thousand locks takes
 * some sixteen round trips. A lease is renewed every third of its length: two renewals
 * may fail before it ends. Renewal never makes a lost lock ours again: the command asks
 * for the owner first, and a grant once found lost stays lost.
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
#include "lock/core/due.h"

/* A holder of many locks asks for each deadline again and again; it takes and
 * gives back seldom in comparison. */
#define WATCHDOG_BUCKETS 1024

enum {
    RENEWALS_PER_LEASE = 3,
    RETRIES_PER_LEASE = 10, /* how often an unreachable server is asked */
};

struct dlock_renewal {
    struct dlock_due due; /* the next look at it; queued with something to do */
    LIST_ENTRY(dlock_renewal) link; /* of its bucket */
    char name[DLOCK_NAME_BYTES_MAX + 1];
    char owner[DLOCK_OWNER_BYTES_MAX + 1];
    uint64_t attempt; /* of the owner, that won it */
    enum {
        PENDING, /* registered; not granted yet */
        LIVE,
        UNTOLD, /* lost, and its holder has not been told */
        LOST,
        CANCELLED, /* off the table; the pass that has it frees it */
    } state;
    bool cut_off;         /* lost since the server could not be reached */
    bool in_pass;         /* the thread works on it, without the mutex */
    uint64_t deadline_ms; /* the lease ends, by our clock */
    uint64_t stop_ms;     /* no renewal from then on */
};

/* One per client; made with it, its thread with the first registration. */
struct dlock_watchdog {
    struct dlock *client;
    pthread_mutex_t mutex; /* guards all but the pass */
    pthread_cond_t wake;   /* something is due earlier; stop */
    pthread_cond_t sent;   /* a pass has its answers */
    LIST_HEAD(bucket, dlock_renewal) buckets[WATCHDOG_BUCKETS]; /* by grant */
    struct dlock_due_queue queue;
    uint64_t wake_ms; /* when the thread will look by itself */
    bool sending;     /* what is in the pass */
    bool started;
    bool stop;
    pthread_t thread;

    /* The pass, the thread's own: renewals that are due. The first renewed_n are
     * renewed, the rest was held too long or is lost, and is only looked at. */
    size_t n;
    size_t renewed_n;
    uint64_t limit_ms;  /* of asking the server */
    uint64_t silent_ms; /* nobody answered until then; 0 = somebody has since */
    struct dlock_renewal *entries[DLOCK_PASS_MAX];
    enum dlock_loss losses[DLOCK_PASS_MAX]; /* DLOCK_LOSS_N = not lost */
    struct dlock_renew renews[DLOCK_PASS_MAX];
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
    struct dlock_renewal *each;

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
        while ((each = LIST_FIRST(&watchdog->buckets[i])) != NULL) {
            LIST_REMOVE(each, link);
            free(each);
        }
    (void)pthread_cond_destroy(&watchdog->sent);
    (void)pthread_cond_destroy(&watchdog->wake);
    (void)pthread_mutex_destroy(&watchdog->mutex);
    free(watchdog);
}

/* The queue ---------------------------------------------------------------- */

/* With the mutex: RENEWAL is due at DUE_MS, if there is anything to do about it, and
 * the thread is told if that is earlier than it would look. To be called whenever the
 * state has changed. */
static void line_up(struct dlock_watchdog *watchdog,
                    struct dlock_renewal *renewal, uint64_t due_ms)
{
    dlock_due_remove(&watchdog->queue, &renewal->due);
    renewal->due.at = due_ms;
    if ((renewal->state != LIVE && renewal->state != UNTOLD) ||
        renewal->in_pass)
        return;
    dlock_due_put(&watchdog->queue, &renewal->due);
    if (due_ms < watchdog->wake_ms)
        (void)pthread_cond_signal(&watchdog->wake);
}

/* A pass, on the thread ----------------------------------------------------- */

/*
 * The server cannot say why a key is gone, but our clock can: it was started
 * before the server's. If by it the lease still runs, the server has not ended
 * it, but lost it.
 */
static enum dlock_loss why_gone(const struct dlock_renewal *renewal,
                                uint64_t now)
{
    if (now < renewal->deadline_ms)
        return DLOCK_LOSS_FLUSHED;
    return renewal->stop_ms <= now ? DLOCK_LOSS_OVERHELD : DLOCK_LOSS_EXPIRED;
}

/* Entries that are not renewed go behind those that are. A lease that was held too
 * long runs out by itself, and then its holder is told. One that ran out while nobody
 * answered is not asked for, because each further pass would wait for a timeout. */
static void put_ended_last(struct dlock_watchdog *pass, uint64_t now)
{
    size_t renewed_n = 0;

    for (size_t i = 0; i < pass->n; i++) {
        struct dlock_renewal *each = pass->entries[i];

        if (each->state == LIVE && each->stop_ms > now &&
            each->deadline_ms > pass->silent_ms) {
            pass->entries[i] = pass->entries[renewed_n];
            pass->entries[renewed_n++] = each;
        }
    }
    pass->renewed_n = renewed_n;
    for (size_t i = renewed_n; i < pass->n; i++) {
        struct dlock_renewal *each = pass->entries[i];

        each->due.at = each->deadline_ms;
        if (each->state == LIVE && each->deadline_ms > now)
            continue;
        each->cut_off = each->state == LIVE && each->stop_ms > now;
        each->state = LOST;
        pass->losses[i] =
            each->cut_off ? DLOCK_LOSS_UNREACHABLE : why_gone(each, now);
    }
}

/* With the mutex: takes what is due out of the queue, into the pass, and marks it.
 * False if nothing is. */
static bool collect(struct dlock_watchdog *pass, uint64_t now)
{
    const struct dlock *client = pass->client;
    /* Entries that are nearly due are taken along, so that leases of about the same
     * age stay together from then on. */
    uint64_t soon = now + client->watchdog_lease_ms / 20;
    struct dlock_due *due = TAILQ_FIRST(&pass->queue), *next;

    pass->n = 0;
    if (due == NULL || due->at > now)
        return false;
    for (; due != NULL && due->at <= soon && pass->n < DLOCK_PASS_MAX;
         due = next) {
        struct dlock_renewal *each = (struct dlock_renewal *)due;

        next = TAILQ_NEXT(due, link);
        if (due->at > now && each->stop_ms <= now)
            continue;
        dlock_due_remove(&pass->queue, due);
        each->in_pass = true;
        pass->losses[pass->n] = DLOCK_LOSS_N;
        pass->entries[pass->n++] = each;
    }
    put_ended_last(pass, now);
    /* The pass must not take longer than a lease that still runs, because its holder
     * must hear of its end in time. */
    pass->limit_ms = now + client->wire.command_timeout_ms;
    for (size_t i = 0; i < pass->renewed_n; i++) {
        uint64_t deadline_ms = pass->entries[i]->deadline_ms;

        if (deadline_ms > now && deadline_ms < pass->limit_ms)
            pass->limit_ms = deadline_ms;
    }
    return true;
}

/* Whether entry number I is lost. Only then the server is asked whether that was
 * somebody's will. */
static bool is_lost(const struct dlock_watchdog *pass, size_t i)
{
    const struct dlock_renew *renew = &pass->renews[i];

    if (i >= pass->renewed_n)
        return pass->losses[i] != DLOCK_LOSS_N;
    return renew->status == DLOCK_OK && renew->answer != 1 &&
           renew->answer != DLOCK_OVERTAKEN;
}

/* Sends the renewals in one go and reads the replies. Blocks. */
static void send_pass(struct dlock_watchdog *pass)
{
    struct dlock *client = pass->client;
    bool silent = true;

    for (size_t i = 0; i < pass->renewed_n; i++)
        pass->renews[i] = (struct dlock_renew){.name = pass->entries[i]->name,
                                               .owner = pass->entries[i]->owner,
                                               .number = dlock_number(client)};
    if (pass->renewed_n > 0)
        client->strategy->renew(client, pass->renews, pass->renewed_n,
                                client->watchdog_lease_ms, pass->limit_ms);
    for (size_t i = 0; i < pass->renewed_n; i++)
        silent = silent && pass->renews[i].status != DLOCK_OK;
    if (pass->renewed_n > 0)
        pass->silent_ms = silent ? dlock_clock_now(client->clock) : 0;
    for (size_t i = 0; i < pass->n; i++) {
        const struct dlock_renewal *each = pass->entries[i];
        uint64_t forced = 0;

        if (is_lost(pass, i) && pass->silent_ms == 0)
            forced = client->strategy->forced(client, each->name, each->owner,
                                              pass->limit_ms);
        if (each->attempt <= forced)
            pass->losses[i] = DLOCK_LOSS_FORCED;
    }
}

/* The end of one renewal: why it is lost, or DLOCK_LOSS_N. */
static enum dlock_loss settle(struct dlock_renewal *renewal,
                              const struct dlock *client,
                              const struct dlock_renew *renew,
                              uint64_t sent_at_ms)
{
    uint64_t deadline_ms =
        sent_at_ms +
        dlock_valid_ms(client->strategy, client->watchdog_lease_ms);
    uint64_t now = dlock_clock_now(client->clock);

    /* No answer, or it came too late: asked again soon, and at the latest when the
     * lease ends. */
    if (renew->status != DLOCK_OK || renew->answer == DLOCK_OVERTAKEN) {
        if (now >= renewal->deadline_ms)
            return DLOCK_LOSS_UNREACHABLE;
        renewal->due.at =
            now + 1 + client->watchdog_lease_ms / RETRIES_PER_LEASE;
        if (renewal->due.at > renewal->deadline_ms)
            renewal->due.at = renewal->deadline_ms;
        return DLOCK_LOSS_N;
    }
    if (renew->answer == 0)
        return why_gone(renewal, now);
    if (renew->answer != 1)
        return DLOCK_LOSS_TAKEN;
    if (renewal->deadline_ms < deadline_ms)
        renewal->deadline_ms = deadline_ms;
    renewal->due.at =
        sent_at_ms + client->watchdog_lease_ms / RENEWALS_PER_LEASE;
    return DLOCK_LOSS_N;
}

/* With the mutex: the replies to what was sent at SENT_AT_MS. */
static void apply(struct dlock_watchdog *pass, uint64_t sent_at_ms)
{
    for (size_t i = 0; i < pass->renewed_n; i++) {
        struct dlock_renewal *each = pass->entries[i];

        /* Outlived while it was being renewed: the next pass is for that. */
        if (each->state != LIVE)
            pass->losses[i] = DLOCK_LOSS_N;
        else if (pass->losses[i] == DLOCK_LOSS_N)
            pass->losses[i] =
                settle(each, pass->client, &pass->renews[i], sent_at_ms);
        each->cut_off = pass->losses[i] == DLOCK_LOSS_UNREACHABLE;
        if (pass->losses[i] != DLOCK_LOSS_N)
            each->state = LOST;
    }
}

/* With the mutex, which is let go of meanwhile: tells the holders of what was lost,
 * once per grant, if they have not given it back since. */
static void tell(struct dlock_watchdog *pass)
{
    const struct dlock *client = pass->client;

    for (size_t i = 0; i < pass->n && client->on_lost != NULL; i++) {
        const struct dlock_renewal *each = pass->entries[i];

        if (pass->losses[i] == DLOCK_LOSS_N || each->state == CANCELLED)
            continue;
        (void)pthread_mutex_unlock(&pass->mutex);
        client->on_lost(client->on_lost_ctx, each->name, each->owner,
                        pass->losses[i]);
        (void)pthread_mutex_lock(&pass->mutex);
    }
}

/* With the mutex, which is let go of meanwhile. */
static void pass_once(struct dlock_watchdog *watchdog, uint64_t now)
{
    watchdog->sending = true;
    (void)pthread_mutex_unlock(&watchdog->mutex);
    send_pass(watchdog);
    (void)pthread_mutex_lock(&watchdog->mutex);
    watchdog->sending = false;
    apply(watchdog, now);
    (void)pthread_cond_broadcast(&watchdog->sent);
    tell(watchdog);
    for (size_t i = 0; i < watchdog->n; i++) {
        struct dlock_renewal *each = watchdog->entries[i];

        each->in_pass = false;
        if (each->state == CANCELLED)
            free(each);
        else
            line_up(watchdog, each, each->due.at);
    }
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
        const struct dlock_due *first;

        if (collect(watchdog, now)) {
            pass_once(watchdog, now);
            continue;
        }
        first = TAILQ_FIRST(&watchdog->queue);
        watchdog->wake_ms = first != NULL ? first->at : UINT64_MAX;
        (void)dlock_clock_wait(watchdog->client->clock, &watchdog->wake,
                               &watchdog->mutex, watchdog->wake_ms);
    }
    (void)pthread_mutex_unlock(&watchdog->mutex);
    return NULL;
}

/* Registering and cancelling --------------------------------------------- */

/* Attempts are numbered through a client: they fill the buckets evenly. */
static struct bucket *bucket_of(struct dlock_watchdog *watchdog,
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
    if (started)
        LIST_INSERT_HEAD(bucket_of(watchdog, attempt), renewal, link);
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
    renewal->state = LIVE;
    renewal->deadline_ms =
        granted_at_ms + dlock_valid_ms(client->strategy, lease_ms);
    renewal->stop_ms =
        max_hold_ms == 0 ? UINT64_MAX : granted_at_ms + max_hold_ms;
    line_up(watchdog, renewal, granted_at_ms + lease_ms / RENEWALS_PER_LEASE);
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
    bool cut_off;

    while (renewal->in_pass && watchdog->sending)
        (void)pthread_cond_wait(&watchdog->sent, &watchdog->mutex);
    cut_off = renewal->cut_off;
    LIST_REMOVE(renewal, link);
    dlock_due_remove(&watchdog->queue, &renewal->due);
    if (renewal->in_pass)
        renewal->state = CANCELLED;
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
    struct dlock_renewal *each = LIST_FIRST(bucket_of(watchdog, attempt));

    while (each != NULL &&
           (each->attempt != attempt || strcmp(each->owner, owner) != 0))
        each = LIST_NEXT(each, link);
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

/* Nothing is registered for OWNER meanwhile: the session is being closed. */
void dlock_watchdog_cancel_owner(struct dlock_watchdog *watchdog,
                                 const char *owner)
{
    struct dlock_renewal *each;

    (void)pthread_mutex_lock(&watchdog->mutex);
    for (size_t i = 0; i < WATCHDOG_BUCKETS; i++)
        for (each = LIST_FIRST(&watchdog->buckets[i]); each != NULL;) {
            bool found = strcmp(each->owner, owner) == 0;

            /* Removing may wait, and the bucket change meanwhile. One that was
             * removed is in no bucket. */
            if (found)
                /* NOLINTNEXTLINE(*unix.Malloc) */
                (void)remove_renewal(watchdog, each);
            each = found ? LIST_FIRST(&watchdog->buckets[i])
                         : LIST_NEXT(each, link);
        }
    (void)pthread_mutex_unlock(&watchdog->mutex);
}

/* Telling is the thread's, and may have to wait for a pass under way. Goes over
 * all there are: it is seldom that a lock is lost and taken anew. */
void dlock_watchdog_supersede(struct dlock_watchdog *watchdog, const char *name,
                              const char *owner, uint64_t attempt)
{
    struct dlock_renewal *each;

    (void)pthread_mutex_lock(&watchdog->mutex);
    for (size_t i = 0; i < WATCHDOG_BUCKETS; i++)
        for (each = LIST_FIRST(&watchdog->buckets[i]); each != NULL;
             each = LIST_NEXT(each, link))
            if (each->state == LIVE && each->attempt < attempt &&
                strcmp(each->owner, owner) == 0 &&
                strcmp(each->name, name) == 0) {
                each->state = UNTOLD;
                line_up(watchdog, each, 0);
            }
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
    if (renewal != NULL && renewal->state == LIVE &&
        (!uncertain || deadline_ms < renewal->deadline_ms)) {
        uint64_t now = dlock_clock_now(watchdog->client->clock);
        uint64_t left = deadline_ms > now ? deadline_ms - now : 0;
        uint64_t third = left / RENEWALS_PER_LEASE;
        uint64_t due_ms = renewal->due.at;

        renewal->deadline_ms = deadline_ms;
        if (left == 0)
            renewal->state = UNTOLD;
        if (due_ms > now + third)
            due_ms = now + third;
        line_up(watchdog, renewal, due_ms);
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
        *deadline_ms = renewal->state == LIVE ? renewal->deadline_ms : 0;
    (void)pthread_mutex_unlock(&watchdog->mutex);
}
