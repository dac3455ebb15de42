/*
 * See held.h. The watchdog is one thread and one connection for all renewals. All leases
 * that are due go in one pipeline, so that renewing a thousand locks takes some sixteen
 * round trips. A lease is renewed every third of its length: two renewals may fail before
 * it ends. Renewal never makes a lost lock ours again: the command asks for the owner
 * first, and a grant once found lost stays lost.
 *
 * The mutex is never held while a command is on its way. The holds of a pass are marked
 * instead, and a thread that ends the renewal of a marked hold waits until the pass has its
 * answers. The hook comes later, because it may want a mutex that is held by the thread
 * that gives back.
 */
#include "lock/core/held.h"

#include <stdlib.h>
#include <string.h>

#include "lock/core/due.h"

enum {
    RENEWALS_PER_LEASE = 3,
    RETRIES_PER_LEASE = 10, /* how often an unreachable server is asked */
};

/* A grant. Of a re-entered lock each hold has its own: the outer one may be renewed and
 * the inner one not, or the other way round. */
struct dlock_hold {
    struct dlock_due due; /* the next look at it; queued with something to do */
    LIST_ENTRY(dlock_hold) link; /* of its session's */
    uint64_t attempt;            /* of the session, that won it */
    uint64_t release; /* the attempt that gives it back; 0 = it is held */
    bool uncertain;   /* a release of it may have worked */
    bool is_past;     /* the name has been lost, or taken anew, since */
    enum {
        IDLE, /* nobody renews it */
        LIVE,
        UNTOLD, /* lost, and its holder has not been told */
        LOST,
    } state;
    bool is_gone;              /* off the list; the pass that has it frees it */
    bool awaited;              /* its session waits for the end of the pass */
    bool in_pass;              /* the thread works on it, without the mutex: */
    enum dlock_loss loss;      /* DLOCK_LOSS_N = it is not lost */
    struct dlock_renew *renew; /* NULL: it is not renewed, but looked at */
    uint64_t deadline_ms;      /* the lease ends, by our clock */
    uint64_t stop_ms;          /* no renewal from then on */
    char owner[DLOCK_OWNER_BYTES_MAX + 1];
    char name[];
};

/* One per client; made with it. */
struct dlock_watchdog {
    struct dlock *client;
    pthread_mutex_t mutex; /* guards all but the pass, and what sessions hold */
    pthread_cond_t wake;   /* something is due earlier; stop */
    pthread_cond_t sent;   /* a pass has its answers */
    struct dlock_due_queue queue;
    uint64_t wake_ms; /* when the thread will look by itself */
    bool sending;     /* what is in the pass */
    bool started;
    bool stop;
    pthread_t thread;

    /* The pass, the thread's own: what is due, and the renewals of that. */
    size_t n;
    struct dlock_hold *holds[DLOCK_PASS_MAX];
    size_t renewed_n;
    struct dlock_renew renews[DLOCK_PASS_MAX];
    uint64_t limit_ms;  /* of asking the server */
    uint64_t silent_ms; /* nobody answered until then; 0 = somebody has since */
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

/* After the last session, and what it held. */
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
    (void)pthread_cond_destroy(&watchdog->sent);
    (void)pthread_cond_destroy(&watchdog->wake);
    (void)pthread_mutex_destroy(&watchdog->mutex);
    free(watchdog);
}

/* With the mutex, whenever the state of HOLD has changed: it is due at DUE_MS, if there is
 * anything to do, and the thread is told if that is earlier than it would look. */
static void line_up(struct dlock_watchdog *watchdog, struct dlock_hold *hold,
                    uint64_t due_ms)
{
    dlock_due_remove(&watchdog->queue, &hold->due);
    hold->due.at = due_ms;
    if ((hold->state != LIVE && hold->state != UNTOLD) || hold->in_pass ||
        hold->awaited)
        return;
    dlock_due_put(&watchdog->queue, &hold->due);
    if (due_ms < watchdog->wake_ms)
        (void)pthread_cond_signal(&watchdog->wake);
}

/* A pass, on the thread ----------------------------------------------------- */

/* The server cannot say why a key is gone, but our clock can: it was started before the
 * server's. If by it the lease still runs, the server has not ended it, but lost it. */
static enum dlock_loss why_gone(const struct dlock_hold *hold, uint64_t now)
{
    if (now < hold->deadline_ms)
        return DLOCK_LOSS_FLUSHED;
    return hold->stop_ms <= now ? DLOCK_LOSS_OVERHELD : DLOCK_LOSS_EXPIRED;
}

/* With the mutex: takes what is due into the pass, and marks it. False if nothing is. A
 * lease that was held too long runs out by itself, and then its holder is told. One that
 * ran out while nobody answered is not asked for: each pass would wait for a timeout. */
static bool collect(struct dlock_watchdog *pass, uint64_t now)
{
    struct dlock *client = pass->client;
    /* Those that are nearly due are taken along, so that leases of about the same
     * age stay together from then on. */
    uint64_t soon = now + client->watchdog_lease_ms / 20;
    uint64_t end_ms;
    struct dlock_due *due = TAILQ_FIRST(&pass->queue), *next;

    pass->n = pass->renewed_n = 0;
    pass->limit_ms = now + client->wire.command_timeout_ms;
    if (due == NULL || due->at > now)
        return false;
    /* A lease that still runs must not end before the pass does, because its holder must
     * hear of that in time. Its hold is due by then: it stands before the limit. */
    for (next = due; next != NULL && next->at < pass->limit_ms;
         next = TAILQ_NEXT(next, link)) {
        end_ms = ((struct dlock_hold *)next)->deadline_ms;
        if (end_ms > now && end_ms < pass->limit_ms)
            pass->limit_ms = end_ms;
    }
    for (; due != NULL && due->at <= soon && pass->n < DLOCK_PASS_MAX;
         due = next) {
        struct dlock_hold *each = (struct dlock_hold *)due;

        next = TAILQ_NEXT(due, link);
        /* A lease that is renewed no more gains nothing by an early look. */
        if (due->at > now && each->stop_ms <= now)
            continue;
        dlock_due_remove(&pass->queue, due);
        pass->holds[pass->n++] = each;
        each->in_pass = true;
        each->loss = DLOCK_LOSS_N;
        each->renew = NULL;
        /* settle() may set an earlier look; without an answer to a renewal the end of the
         * lease is the last moment to tell the holder. */
        each->due.at = each->deadline_ms;
        if (each->state == LIVE && each->stop_ms > now &&
            each->deadline_ms > pass->silent_ms) {
            each->renew = &pass->renews[pass->renewed_n++];
            *each->renew = (struct dlock_renew){.name = each->name,
                                                .owner = each->owner,
                                                .number = dlock_number(client)};
        } else if (each->state != LIVE || each->deadline_ms <= now) {
            each->loss = each->state == LIVE && each->stop_ms > now
                             ? DLOCK_LOSS_UNREACHABLE
                             : why_gone(each, now);
            each->state = LOST;
        }
    }
    return true;
}

/* Sends the renewals in one go and reads the replies. Only of a lock that is lost the
 * server is asked whether that was somebody's will. Blocks. */
static void send_pass(struct dlock_watchdog *pass)
{
    struct dlock *client = pass->client;

    if (pass->renewed_n > 0) {
        client->strategy->renew(client, pass->renews, pass->renewed_n,
                                client->watchdog_lease_ms, pass->limit_ms);
        /* Replies below take this back: one answer shows that leases can be renewed
         * again. */
        pass->silent_ms = dlock_clock_now(client->clock);
    }
    for (size_t i = 0; i < pass->renewed_n; i++)
        if (pass->renews[i].status == DLOCK_OK)
            pass->silent_ms = 0;
    for (size_t i = 0; i < pass->n; i++) {
        struct dlock_hold *each = pass->holds[i];
        const struct dlock_renew *renew = each->renew;
        bool is_lost = renew == NULL
                           ? each->loss != DLOCK_LOSS_N
                           : renew->status == DLOCK_OK && renew->answer != 1 &&
                                 renew->answer != DLOCK_OVERTAKEN;

        /* A server that just gave no answer is not asked why, since the pass would wait for
         * it once more and the holder be told later. */
        if (is_lost && pass->silent_ms == 0 &&
            client->strategy->forced != NULL &&
            each->attempt <= client->strategy->forced(client, each->name,
                                                      each->owner,
                                                      pass->limit_ms))
            each->loss = DLOCK_LOSS_FORCED;
    }
}

/* The end of one renewal: why it is lost, or DLOCK_LOSS_N. */
static enum dlock_loss settle(struct dlock_hold *hold,
                              const struct dlock *client, uint64_t sent_at_ms)
{
    uint64_t deadline_ms =
        sent_at_ms +
        dlock_valid_ms(client->strategy, client->watchdog_lease_ms);
    uint64_t now = dlock_clock_now(client->clock);

    /* No answer, or it came too late: asked again soon, and at the latest when the
     * lease ends. */
    if (hold->renew->status != DLOCK_OK ||
        hold->renew->answer == DLOCK_OVERTAKEN) {
        if (now >= hold->deadline_ms)
            return DLOCK_LOSS_UNREACHABLE;
        hold->due.at = now + 1 + client->watchdog_lease_ms / RETRIES_PER_LEASE;
        if (hold->due.at > hold->deadline_ms)
            hold->due.at = hold->deadline_ms;
        return DLOCK_LOSS_N;
    }
    if (hold->renew->answer == 0)
        return why_gone(hold, now);
    if (hold->renew->answer != 1)
        return DLOCK_LOSS_TAKEN;
    /* A renewal never shortens: an extend may have set a later end. */
    if (hold->deadline_ms < deadline_ms)
        hold->deadline_ms = deadline_ms;
    hold->due.at = sent_at_ms + client->watchdog_lease_ms / RENEWALS_PER_LEASE;
    return DLOCK_LOSS_N;
}

/* With the mutex: the replies to what was sent at SENT_AT_MS. */
static void apply(const struct dlock_watchdog *pass, uint64_t sent_at_ms)
{
    for (size_t i = 0; i < pass->n; i++) {
        struct dlock_hold *each = pass->holds[i];

        if (each->renew == NULL)
            continue;
        /* A hold that is not LIVE was lost meanwhile by another way (lose()): the next pass
         * tells its holder. */
        if (each->state != LIVE)
            each->loss = DLOCK_LOSS_N;
        else if (each->loss == DLOCK_LOSS_N)
            each->loss = settle(each, pass->client, sent_at_ms);
        if (each->loss != DLOCK_LOSS_N)
            each->state = LOST;
    }
}

/* With the mutex, which is let go of meanwhile: the holders of what was lost are told,
 * once per grant, if they have not given it back since. */
static void pass_once(struct dlock_watchdog *pass, uint64_t now)
{
    const struct dlock *client = pass->client;

    pass->sending = true;
    (void)pthread_mutex_unlock(&pass->mutex);
    send_pass(pass);
    (void)pthread_mutex_lock(&pass->mutex);
    pass->sending = false;
    apply(pass, now);
    (void)pthread_cond_broadcast(&pass->sent);
    for (size_t i = 0; i < pass->n && client->on_lost != NULL; i++) {
        const struct dlock_hold *each = pass->holds[i];

        if (each->loss == DLOCK_LOSS_N || each->state == IDLE)
            continue;
        (void)pthread_mutex_unlock(&pass->mutex);
        client->on_lost(client->on_lost_ctx, each->name, each->owner,
                        each->loss);
        (void)pthread_mutex_lock(&pass->mutex);
    }
    for (size_t i = 0; i < pass->n; i++) {
        struct dlock_hold *each = pass->holds[i];

        each->in_pass = false;
        if (each->is_gone)
            free(each);
        else
            line_up(pass, each, each->due.at);
    }
}

/* The thread. A pass may take long, or not have room for all: so it looks after each. */
static void *watch(void *arg)
{
    struct dlock_watchdog *watchdog = arg;
    DLOCK_LOCKED(&watchdog->mutex);

    while (!watchdog->stop) {
        uint64_t now = dlock_clock_now(watchdog->client->clock);
        const struct dlock_due *first;

        if (collect(watchdog, now)) {
            pass_once(watchdog, now);
            continue;
        }
        /* During a pass wake_ms is in the past, so nobody signals: the thread looks at the
         * queue again before it sleeps. */
        first = TAILQ_FIRST(&watchdog->queue);
        watchdog->wake_ms = first != NULL ? first->at : UINT64_MAX;
        (void)dlock_clock_wait(watchdog->client->clock, &watchdog->wake,
                               &watchdog->mutex, watchdog->wake_ms);
    }
    return NULL;
}

/* The holds of a session ------------------------------------------------------ */

/* A list, because a session rarely has more than two or three. */
static struct dlock_hold *find(const struct dlock_session *session,
                               uint64_t attempt)
{
    struct dlock_hold *hold = LIST_FIRST(&session->holds);

    while (hold != NULL && hold->attempt != attempt)
        hold = LIST_NEXT(hold, link);
    return hold;
}

/* With the mutex: takes HOLD, which is not being sent, off the list, and frees it, or
 * leaves that to the pass. */
static void forget(struct dlock_watchdog *watchdog, struct dlock_hold *hold)
{
    LIST_REMOVE(hold, link);
    hold->state = IDLE;
    line_up(watchdog, hold, 0);
    hold->is_gone = hold->in_pass;
    if (!hold->is_gone)
        free(hold);
}

/* With the mutex: waits for a pass that is sending HOLD. The next pass must not take HOLD,
 * or this would never end where a renewal takes a third of the lease. Nobody forgets HOLD
 * meanwhile, because its session is busy. */
static void await_pass(struct dlock_watchdog *watchdog, struct dlock_hold *hold)
{
    hold->awaited = true;
    while (hold->in_pass && watchdog->sending)
        (void)pthread_cond_wait(&watchdog->sent, &watchdog->mutex);
    hold->awaited = false;
    line_up(watchdog, hold, hold->due.at);
}

/* With the mutex. A grant that is renewed is remembered until it is given back; TELLS:
 * its holder is told now. A release that got no answer may still be repeated. */
static void lose(struct dlock_session *session, const char *name, bool tells)
{
    struct dlock_watchdog *watchdog = session->client->watchdog;
    struct dlock_hold *next;

    for (struct dlock_hold *each = LIST_FIRST(&session->holds); each != NULL;
         each = next) {
        next = LIST_NEXT(each, link);
        if (strcmp(each->name, name) != 0)
            continue;
        each->is_past = true;
        if (each->state == LIVE && tells) {
            each->state = UNTOLD;
            line_up(watchdog, each, 0);
        } else if (each->state == IDLE && each->release == 0) {
            forget(watchdog, each);
        }
    }
}

bool dlock_held_reserve(struct dlock_session *session, const char *name,
                        bool renewed)
{
    size_t size = strlen(name) + 1;
    struct dlock_hold *hold = realloc(session->reserved, sizeof(*hold) + size);
    struct dlock_watchdog *watchdog = session->client->watchdog;
    DLOCK_LOCKED(&watchdog->mutex);

    /* A grant that was reserved for an acquire without success is still there, and is used
     * again. */
    if (hold == NULL)
        return false;
    session->reserved = hold;
    *hold = (struct dlock_hold){.state = renewed ? LIVE : IDLE};
    memcpy(hold->owner, session->owner, sizeof(hold->owner));
    memcpy(hold->name, name, size);
    if (renewed && !watchdog->started)
        watchdog->started =
            dlock_clock_thread(&watchdog->thread, "dlock-watchdog", watch,
                               watchdog) == 0;
    return !renewed || watchdog->started;
}

/* A lock that counts by itself (textbook) may say more than one hold to a session that
 * knows of none: only a count that begins anew shows a loss. */
void dlock_held_add(struct dlock_session *session,
                    const struct dlock_grant *grant, uint64_t granted_at_ms,
                    unsigned max_hold_ms)
{
    const struct dlock *client = session->client;
    unsigned lease_ms = client->watchdog_lease_ms;
    struct dlock_hold *hold = session->reserved;
    struct dlock_watchdog *watchdog = client->watchdog;
    bool held_before = dlock_held_count(session, hold->name) > 0;
    bool anew = held_before && grant->holds == 1;
    DLOCK_LOCKED(&watchdog->mutex);

    /* lose() comes before the new hold is in the list, because it would lose that one as
     * well. */
    if (anew || !held_before)
        lose(session, hold->name, anew);
    hold->attempt = grant->attempt;
    hold->deadline_ms =
        granted_at_ms + dlock_valid_ms(client->strategy, lease_ms);
    hold->stop_ms = max_hold_ms == 0 ? UINT64_MAX : granted_at_ms + max_hold_ms;
    LIST_INSERT_HEAD(&session->holds, hold, link);
    session->reserved = NULL;
    line_up(watchdog, hold, granted_at_ms + lease_ms / RENEWALS_PER_LEASE);
}

void dlock_held_lost(struct dlock_session *session, const char *name)
{
    DLOCK_LOCKED(&session->client->watchdog->mutex);

    lose(session, name, false);
}

unsigned dlock_held_count(const struct dlock_session *session, const char *name)
{
    const struct dlock_hold *each;
    unsigned n = 0;

    LIST_FOREACH(each, &session->holds, link)
        n += each->release == 0 && !each->is_past &&
             strcmp(each->name, name) == 0;
    return n;
}

/* With the mutex: given back, with an answer, or lost. A lock that knows no owner may be
 * held all the same. */
static bool is_over(const struct dlock_session *session,
                    const struct dlock_hold *hold)
{
    unsigned capabilities = session->client->strategy->info.capabilities;

    return (capabilities & DLOCK_CAP_OWNER) != 0 &&
           (hold == NULL || hold->is_past);
}

/* Giving back ------------------------------------------------------------------ */

/* With the mutex. A caller that never repeats a release would fill the memory. */
static void limit_releases(struct dlock_session *session)
{
    struct dlock_hold *oldest = NULL, *each;
    unsigned n = 0;

    LIST_FOREACH(each, &session->holds, link)
        if (each->release != 0) {
            n++;
            if (oldest == NULL || each->release < oldest->release)
                oldest = each;
        }
    if (n > DLOCK_HELD_RELEASES_MAX)
        forget(session->client->watchdog, oldest);
}

bool dlock_held_give(struct dlock_session *session,
                     const struct dlock_grant *grant,
                     struct dlock_attempt *attempt, bool *cut_off)
{
    struct dlock_watchdog *watchdog = session->client->watchdog;
    struct dlock_hold *hold = find(session, grant->attempt);
    DLOCK_LOCKED(&watchdog->mutex);
    bool good;

    if (hold != NULL) {
        /* The wait comes first: no renewal of this grant may reach the server after the
         * release, because a lock without numbers would take it for one of the next
         * grant. */
        await_pass(watchdog, hold);
        /* IDLE ends the renewal, and forgets why the hold was lost: so that is read
         * before. */
        *cut_off = hold->state == LOST && hold->loss == DLOCK_LOSS_UNREACHABLE;
        hold->state = IDLE;
        line_up(watchdog, hold, 0);
    }
    good =
        !is_over(session, hold) || dlock_held_count(session, grant->name) == 0;
    if (good && hold != NULL) {
        attempt->uncertain = hold->uncertain;
        attempt->repeats = hold->release;
    }
    if (hold != NULL && hold->release == 0 && hold->is_past) {
        forget(watchdog, hold); /* it was remembered for this */
    } else if (hold != NULL && hold->release == 0) {
        hold->release = attempt->number;
        limit_releases(session);
    }
    attempt->holds = dlock_held_count(session, grant->name);
    return good;
}

/* DLOCK_UNREACHABLE settles nothing, because the release was not carried out. */
void dlock_held_given(struct dlock_session *session, uint64_t attempt,
                      enum dlock_status status)
{
    struct dlock_watchdog *watchdog = session->client->watchdog;
    struct dlock_hold *hold = find(session, attempt);
    DLOCK_LOCKED(&watchdog->mutex);

    if (hold != NULL && status == DLOCK_UNKNOWN)
        hold->uncertain = true;
    else if (hold != NULL && status != DLOCK_UNREACHABLE)
        forget(watchdog, hold);
}

/* A renewal under way may be older or younger than the new lease, so its answer
 * must not overwrite the new end. A shorter lease may need the next one sooner than
 * was planned; one that is over is not renewed, but told. */
void dlock_held_reset(const struct dlock_session *session, uint64_t attempt,
                      uint64_t deadline_ms, enum dlock_status status)
{
    struct dlock_watchdog *watchdog = session->client->watchdog;
    struct dlock_hold *hold = find(session, attempt);
    DLOCK_LOCKED(&watchdog->mutex);

    if (hold != NULL)
        await_pass(watchdog, hold);
    if (hold != NULL && hold->state == LIVE &&
        (status == DLOCK_OK || deadline_ms < hold->deadline_ms)) {
        uint64_t now = dlock_clock_now(session->client->clock);
        uint64_t left = deadline_ms > now ? deadline_ms - now : 0;
        uint64_t third = left / RENEWALS_PER_LEASE;
        uint64_t due_ms = hold->due.at;

        /* The end of a lost lease stays, because why_gone() tells by it. */
        if (status != DLOCK_LOST)
            hold->deadline_ms = deadline_ms;
        if (left == 0)
            hold->state = UNTOLD;
        if (due_ms > now + third)
            due_ms = now + third;
        line_up(watchdog, hold, due_ms);
    }
}

uint64_t dlock_held_deadline(const struct dlock_session *session,
                             const struct dlock_grant *grant)
{
    DLOCK_LOCKED(&session->client->watchdog->mutex);
    const struct dlock_hold *hold = find(session, grant->attempt);

    if (is_over(session, hold))
        return 0;
    if (hold == NULL || hold->state == IDLE)
        return grant->deadline_ms;
    return hold->state == LIVE ? hold->deadline_ms : 0;
}

/* A child of fork(2) has no watchdog. */
void dlock_held_close(struct dlock_session *session)
{
    struct dlock_watchdog *watchdog = session->client->watchdog;
    bool ours = dlock_is_ours(session->client);
    struct dlock_hold *each;

    free(session->reserved);
    while (!ours && (each = LIST_FIRST(&session->holds)) != NULL) {
        LIST_REMOVE(each, link);
        free(each);
    }
    if (!ours)
        return;
    DLOCK_LOCKED(&watchdog->mutex);
    while ((each = LIST_FIRST(&session->holds)) != NULL) {
        /* One that was forgotten is on no list. NOLINTNEXTLINE(*unix.Malloc) */
        await_pass(watchdog, each);
        forget(watchdog, each);
    }
}
