/*
 * See health.h. Orders tell what they have met, and a thread tries the parts of which
 * no order has told: a try may take seconds, of which the parts have their shares one
 * after the other. The thread writes the lines about health too, so that no committer
 * waits for a slow terminal.
 */
#include "server/base/health.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "db/store_async.h"
#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/base/metrics.h"

#define TRY_EVERY_US 1000000
#define LOG_EVERY_US 10000000
#define IDLE_US      10000000 /* without a try; nobody may have asked */
#define WRITE_US_MAX 3000000  /* then it is taken to hang */
#define STALE_US     30000000 /* what was heard before is not known any more */

struct part {
    bool fails;         /* or was never heard of */
    uint64_t heard_us;  /* last; 0 = never */
    uint64_t failed_us; /* last: an order that began before is no news */
    /* An outage that the log does not have yet, or whose end it does not have. */
    enum { QUIET, TO_BEGIN, TO_END } outage;
    uint64_t since_us, until_us; /* it fails, or did */
    time_t since;                /* the same; 0 = the start */
    uint64_t logged_us;          /* last; 0 = never */
    uint64_t refused;            /* orders, since it began */
    char why[180];
};

struct health {
    struct metrics *metrics;
    pthread_t thread;
    bool runs;
    int news_fd;
    atomic_bool needs_restart;
    /* The thread's own: */
    struct store_reader *reader;   /* NULL: to be opened */
    struct dlock_session *session; /* the same */
    struct dlock_grant grant;
    bool holds; /* it could not be given back */

    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t wanted; /* something has changed for the thread */
    struct store *store;   /* NULL at first, as is the next */
    struct dlock *locks;
    struct part parts[HEALTH_PARTS];
    struct store_write write;
    uint64_t write_begun_us;
    bool writing, asked, stopping, was_ready;
    uint64_t tried_us; /* when the last try ended */
};

static const struct {
    const char *name, *text;
    enum health_part refuses; /* as health_refused() calls it */
} part_rows[HEALTH_PARTS] = {
    [HEALTH_STORE] = {"store", "the database", HEALTH_STORE},
    [HEALTH_READER] = {"reader", "reading the database", HEALTH_STORE},
    [HEALTH_LOCK] = {"lock-server", "the lock server", HEALTH_LOCK},
    [HEALTH_INVENTORY] = {"inventory", "the inventory", HEALTH_INVENTORY},
};

static bool any_fails(const struct health *h)
{
    bool fails = false;

    for (size_t i = 0; i < HEALTH_PARTS; i++)
        fails |= h->parts[i].fails;
    return fails;
}

/* ---- what is heard -------------------------------------------------------- */

/* WHY it fails, or NULL: it works. With the mutex held. */
static void hear(struct health *h, enum health_part part, const char *why)
{
    struct part *p = &h->parts[part];
    uint64_t now_us = clock_us();

    p->heard_us = now_us;
    pthread_cond_signal(&h->wanted);
    if (!why) {
        p->fails = false;
        p->until_us = now_us;
        return;
    }
    snprintf(p->why, sizeof(p->why), "%s", why);
    /* An outage that was not told of yet goes on: a short recovery must not
     * begin a second line. */
    if (p->outage == QUIET) {
        p->refused = 0;
        p->outage = TO_BEGIN;
    }
    /* The part begins as failing, since nobody has heard of it: its first
     * failure still has to set the time. */
    if (!p->fails || p->since == 0) {
        p->since_us = now_us;
        p->since = time(NULL);
    }
    p->fails = true;
    p->failed_us = now_us;
}

void health_heard(struct health *h, enum health_part part, const char *why)
{
    if (!h)
        return;
    pthread_mutex_lock(&h->mutex);
    hear(h, part, why);
    pthread_mutex_unlock(&h->mutex);
}

void health_heard_status(struct health *h, enum health_part part,
                         enum store_status status,
                         const struct store_error *error)
{
    bool for_good = status == STORE_GONE;
    char why[sizeof(error->text) + 80];

    /* A store that is being closed is no outage. */
    if (!h || status == STORE_OK || status == STORE_CLOSED)
        return;
    snprintf(why, sizeof(why), "%s%s%s",
             for_good ? "" : store_status_text(status), for_good ? "" : ": ",
             error->text);
    h->needs_restart |= for_good;
    health_heard(h, for_good ? HEALTH_STORE : part, why);
}

void health_heard_store(void *health, enum store_status status,
                        const struct store_error *error)
{
    health_heard_status(health, HEALTH_STORE, status, error);
}

/* A reader that is known to fail is the reason, and WHY does not count. */
void health_refused(struct health *h, enum health_part part, const char *why)
{
    struct part *p, *reader;

    if (!h)
        return;
    pthread_mutex_lock(&h->mutex);
    p = &h->parts[part];
    reader = &h->parts[HEALTH_READER];
    if (part == HEALTH_STORE && reader->fails && reader->heard_us > 0)
        p = reader;
    else if (!p->fails || p->heard_us == 0)
        hear(h, part, why);
    /* The time moves on with each refusal: an order that began before the last
     * one, and went through, proves nothing. */
    p->failed_us = clock_us();
    for (size_t i = 0; i < HEALTH_PARTS; i++)
        h->parts[i].refused += part_rows[i].refuses == part;
    pthread_mutex_unlock(&h->mutex);
}

void health_worked(struct health *h, enum health_part part, uint64_t begun_us)
{
    struct part *p;

    if (!h)
        return;
    pthread_mutex_lock(&h->mutex);
    p = &h->parts[part];
    if (!p->fails && begun_us > p->heard_us)
        /* Work proves only that the part was well when it began. */
        p->heard_us = begun_us;
    /* Work that began before the last failure says nothing of the time after
     * it. */
    else if (p->fails && begun_us > p->failed_us)
        hear(h, part, NULL);
    pthread_mutex_unlock(&h->mutex);
}

/* ---- trying --------------------------------------------------------------- */

/* A lock that another instance has is an answer as well. */
static void try_lock_server(struct health *h)
{
    uint64_t begun_us = clock_us();
    struct dlock_error error = {""};
    enum dlock_status status = DLOCK_OK;

    if (!h->session)
        status = dlock_session_open(h->locks, &h->session, &error);
    /* A lock that could not be given back last time is still ours, and to take
     * it again would be refused. */
    if (!h->holds && h->session)
        status =
            dlock_try(h->session, HEALTH_PROBE_LOCK, NULL, &h->grant, &error);
    h->holds = status == DLOCK_OK;
    if (h->holds) {
        status = dlock_release(h->session, &h->grant, &error);
        h->holds = health_is_no_answer(status);
    }
    if (health_is_no_answer(status))
        health_heard(h, HEALTH_LOCK, error.text);
    else
        health_worked(h, HEALTH_LOCK, begun_us);
}

/* A connection like those of all readers, so that none of them is taken. */
static void try_reader(struct health *h)
{
    uint64_t begun_us = clock_us();
    struct store_error error = {""};
    struct store_units units;
    enum store_status status = STORE_OK;

    if (!h->reader)
        status = store_reader_open(h->store, &h->reader, &error);
    if (status == STORE_OK)
        status = store_units_left(h->reader, &units, &error);
    if (status == STORE_OK) {
        health_worked(h, HEALTH_READER, begun_us);
    } else {
        health_heard_status(h, HEALTH_READER, status, &error);
        /* The gauges say that nothing is known: the last numbers would look as
         * if they were still true. */
        units.left = units.stranded = units.held = (int64_t)METRICS_UNKNOWN;
    }
    metrics_set(h->metrics, METRICS_STOCK, (uint64_t)units.left);
    metrics_set(h->metrics, METRICS_STRANDED, (uint64_t)units.stranded);
    metrics_set(h->metrics, METRICS_HELD, (uint64_t)units.held);
}

static void write_done(struct store_write *write)
{
    struct health *h = write->owner;

    if (write->status == STORE_OK)
        health_worked(h, HEALTH_STORE, h->write_begun_us);
    else
        health_heard_store(h, write->status, &write->error);
    pthread_mutex_lock(&h->mutex);
    h->writing = false;
    pthread_cond_signal(&h->wanted);
    pthread_mutex_unlock(&h->mutex);
}

/* Waits for news until then. False: it is then. With the mutex held. */
static bool wait_until(struct health *h, uint64_t us)
{
    struct timespec until = {(time_t)(us / 1000000),
                             (long)(us % 1000000) * 1000};

    return pthread_cond_clockwait(&h->wanted, &h->mutex, CLOCK_MONOTONIC,
                                  &until) == 0;
}

/* A write that hangs stays where it is; there is one at a time. With the mutex held,
 * but not while it waits. */
static void try_store(struct health *h)
{
    uint64_t until_us = clock_us() + WRITE_US_MAX;

    if (!h->writing) {
        h->writing = true;
        h->write_begun_us = clock_us();
        pthread_mutex_unlock(&h->mutex);
        store_begin(h->store, STORE_PROBE, &h->write);
        pthread_mutex_lock(&h->mutex);
    }
    while (h->writing && !h->stopping && wait_until(h, until_us))
        continue;
    if (h->writing && !h->stopping)
        hear(h, HEALTH_STORE, "a write does not come to its end");
}

/* Parts are tried that fail, or that nobody has heard of within the last second: orders
 * speak for the first and the last. A database that cannot be written need not be read as
 * well. With the mutex held, but not while it waits. */
static void try_all(struct health *h)
{
    const struct part *store = &h->parts[HEALTH_STORE];
    const struct part *lock = &h->parts[HEALTH_LOCK];
    bool tries_lock, tries_reader;

    /* `asked` falls before the try: a question that comes while it runs is for
     * the next one. */
    h->asked = false;
    if (store->fails || store->heard_us + TRY_EVERY_US < clock_us())
        try_store(h);
    tries_lock = lock->fails || lock->heard_us + TRY_EVERY_US < clock_us();
    tries_reader = !store->fails;
    pthread_mutex_unlock(&h->mutex);
    if (tries_lock)
        try_lock_server(h);
    if (tries_reader)
        try_reader(h);
    pthread_mutex_lock(&h->mutex);
    h->tried_us = clock_us();
}

/* ---- the thread ----------------------------------------------------------- */

/* Short outages share their lines. True: it has said something, and the mutex
 * was not held. */
static bool tell(struct health *h, enum health_part part)
{
    struct part *p = &h->parts[part];
    uint64_t now_us = clock_us(), n = p->refused;
    uint64_t every_us = p->outage == TO_BEGIN ? TRY_EVERY_US : LOG_EVERY_US;
    uint64_t until_us = p->fails ? now_us : p->until_us;
    double lasted_s = (double)(until_us - p->since_us) / 1e6;
    bool ends =
        p->outage == TO_END && !p->fails && now_us > until_us + TRY_EVERY_US;
    /* An outage has one line when it begins, unless the last line was a moment
     * ago, one each ten seconds while it lasts, and one when it is over for
     * good. */
    bool begins =
        (p->outage == TO_BEGIN || (p->outage == TO_END && p->fails)) &&
        (p->logged_us == 0 || now_us >= p->logged_us + every_us);
    char why[sizeof(p->why)];

    if (!begins && !ends)
        return false;
    /* The text is copied, because the mutex is let go for the terminal, which
     * may be slow. */
    memcpy(why, p->why, sizeof(why));
    p->outage = begins ? TO_END : QUIET;
    p->logged_us = now_us;
    pthread_mutex_unlock(&h->mutex);
    if (begins)
        log_error("health",
                  "part=%s state=fails for_s=%.1f refused=%" PRIu64
                  " error=\"%s\"",
                  part_rows[part].name, lasted_s, n, why);
    else
        log_warn("health",
                 "part=%s state=works failed_for_s=%.1f refused=%" PRIu64,
                 part_rows[part].name, lasted_s, n);
    (void)eventfd_write(h->news_fd, 1);
    pthread_mutex_lock(&h->mutex);
    return true;
}

static void *thread_main(void *arg)
{
    struct health *h = arg;
    uint64_t now_us, due_us;

    pthread_mutex_lock(&h->mutex);
    while (!h->stopping) {
        if (!any_fails(h) && !h->was_ready)
            h->was_ready = eventfd_write(h->news_fd, 1) == 0;
        /* The mutex was let go for a line: all may have changed, so the pass
         * begins anew. */
        if (tell(h, HEALTH_STORE) || tell(h, HEALTH_READER) ||
            tell(h, HEALTH_LOCK) || tell(h, HEALTH_INVENTORY))
            continue;
        now_us = clock_us();
        due_us =
            h->tried_us + (h->asked || any_fails(h) ? TRY_EVERY_US : IDLE_US);
        if (!h->store || due_us > now_us + TRY_EVERY_US)
            due_us = now_us + TRY_EVERY_US; /* an outage may be told */
        if (now_us >= due_us)
            try_all(h);
        else
            (void)wait_until(h, due_us);
    }
    pthread_mutex_unlock(&h->mutex);
    return NULL;
}

/* ---- from outside --------------------------------------------------------- */

static bool is_known(const struct part *p)
{
    return p->heard_us > 0 && p->heard_us + STALE_US > clock_us();
}

/* Several that fail have to share WHY. */
enum health_answer health_look(struct health *h, char why[HEALTH_TEXT_BYTES])
{
    enum health_answer answer = HEALTH_READY;
    size_t n = 0, failing = 0;
    char since[32];
    struct tm utc;

    pthread_mutex_lock(&h->mutex);
    for (size_t i = 0; i < HEALTH_PARTS; i++)
        failing += h->parts[i].fails && is_known(&h->parts[i]);
    if (h->stopping || failing > 0)
        answer = HEALTH_NOT_READY;
    if (h->stopping)
        snprintf(why, HEALTH_TEXT_BYTES, "the service is shutting down");
    /* A failure is a certain no, and beats a part of which nothing is known. */
    for (size_t i = 0; i < HEALTH_PARTS && !h->stopping; i++) {
        const struct part *p = &h->parts[i];

        if (!is_known(p) && answer == HEALTH_READY) {
            snprintf(why, HEALTH_TEXT_BYTES,
                     "nobody knows: of %s nothing was heard %s",
                     part_rows[i].text,
                     p->heard_us == 0 ? "yet" : "for half a minute");
            answer = HEALTH_UNKNOWN;
        }
        if (!is_known(p) || !p->fails || n >= HEALTH_TEXT_BYTES)
            continue;
        strftime(since, sizeof(since), "%FT%TZ", gmtime_r(&p->since, &utc));
        n += (size_t)snprintf(why + n, HEALTH_TEXT_BYTES - n,
                              "%s%s fails since %s: %.*s", n > 0 ? "; " : "",
                              part_rows[i].text, since,
                              failing > 1 ? 70 : (int)sizeof(p->why), p->why);
    }
    pthread_mutex_unlock(&h->mutex);
    return answer;
}

void health_try(struct health *h)
{
    pthread_mutex_lock(&h->mutex);
    if (!h->asked)
        pthread_cond_signal(&h->wanted);
    h->asked = true;
    pthread_mutex_unlock(&h->mutex);
}

bool health_needs_restart(const struct health *h)
{
    return atomic_load(&h->needs_restart);
}

int health_news_fd(const struct health *h)
{
    return h->news_fd;
}

/* A part that the service does not have works for ever. */
struct health *health_new(struct metrics *metrics, bool is_order_service)
{
    struct health *h = calloc(1, sizeof(*h));

    if (!h)
        return NULL;
    h->metrics = metrics;
    h->news_fd = eventfd(0, EFD_CLOEXEC);
    h->write = (struct store_write){.done = write_done, .owner = h};
    pthread_mutex_init(&h->mutex, NULL);
    pthread_cond_init(&h->wanted, NULL);
    for (size_t i = 0; i < HEALTH_PARTS; i++)
        if ((i == HEALTH_INVENTORY) == is_order_service)
            h->parts[i].fails = true;
        else
            /* Half of the largest number, because is_known() adds to it. */
            h->parts[i].heard_us = UINT64_MAX / 2;
    h->runs = h->news_fd >= 0 &&
              pthread_create(&h->thread, NULL, thread_main, h) == 0;
    if (h->runs) {
        (void)pthread_setname_np(h->thread, "health");
        return h;
    }
    log_error("health", "error=\"cannot start its thread\"");
    health_free(h);
    return NULL;
}

void health_watch(struct health *h, struct store *store, struct dlock *locks)
{
    pthread_mutex_lock(&h->mutex);
    h->locks = locks;
    h->store = store;
    pthread_cond_signal(&h->wanted);
    pthread_mutex_unlock(&h->mutex);
}

void health_stop(struct health *h)
{
    if (!h)
        return;
    pthread_mutex_lock(&h->mutex);
    h->stopping = true;
    pthread_cond_signal(&h->wanted);
    pthread_mutex_unlock(&h->mutex);
    /* The thread may wait for the database, and would see only then that it is
     * to end. */
    if (h->store) /* nobody sets it any more */
        store_end_waits(h->store);
    if (h->runs)
        pthread_join(h->thread, NULL);
    h->runs = false;
    store_reader_close(h->reader);
    h->reader = NULL;
    dlock_session_close(h->session);
    h->session = NULL;
}

void health_free(struct health *h)
{
    if (!h)
        return;
    if (h->news_fd >= 0)
        close(h->news_fd);
    pthread_cond_destroy(&h->wanted);
    pthread_mutex_destroy(&h->mutex);
    free(h);
}
