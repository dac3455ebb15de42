/*
 * See health.h. Orders and admin calls tell what they have met; success is told
 * once for each lock command and each transaction, never for each order.
 *
 * A thread of its own tries both parts, since each of them may block: every second
 * while one fails, else every ten, and when somebody asks who cannot be answered
 * from what was heard within the last second. It writes the lines about health
 * too, so that no committer waits for a slow terminal.
 */
#include "server/health.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "db/store_async.h"
#include "server/clock.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/order/lock_tasks.h"

#define TRY_EVERY_US 1000000
#define LOG_EVERY_US 10000000
#define IDLE_US      10000000 /* without a try; nobody may have asked */
#define WRITE_US_MAX 3000000  /* then it is taken to hang */
#define ASK_US_MAX   7000000

struct part {
    bool fails;
    bool to_begin;               /* the log does not have this outage yet */
    bool to_end;                 /* it does, and not that it is over */
    uint64_t heard_us;           /* last */
    uint64_t since_us, until_us; /* it fails, or did */
    time_t since;                /* the same; 0 = the start */
    uint64_t logged_us;          /* last; 0 = never */
    uint64_t refused_before;     /* orders */
    char why[180];
};

struct health {
    const struct metrics *metrics;
    struct store *store;
    pthread_t thread;
    bool runs;
    int news_fd;
    atomic_bool needs_restart;
    /* The thread's own: */
    struct dlock_session *session;
    struct dlock_grant grant;
    bool holds; /* it could not be given back */

    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t wanted; /* something has changed for the thread */
    pthread_cond_t passed; /* both were tried */
    struct part parts[HEALTH_PARTS];
    struct store_write write;
    bool writing, asked, stopping, was_ready;
    uint64_t tried_us, try_begun_us; /* when the last try ended, and began */
};

static const struct {
    const char *name, *text;
    enum order_outcome refusal;
} part_rows[HEALTH_PARTS] = {
    [HEALTH_STORE] = {"store", "the database", ORDER_STORE_UNAVAILABLE},
    [HEALTH_LOCK] = {"lock-server", "the lock server", ORDER_LOCK_UNREACHABLE},
};

static uint64_t refused(const struct health *h, enum health_part part)
{
    return metrics_orders(h->metrics, part_rows[part].refusal) -
           h->parts[part].refused_before;
}

static bool any_fails(const struct health *h)
{
    return h->parts[HEALTH_STORE].fails || h->parts[HEALTH_LOCK].fails;
}

/* ---- what is heard -------------------------------------------------------- */

/* See health_heard(); with the mutex held. */
static void hear(struct health *h, enum health_part part, const char *why)
{
    struct part *p = &h->parts[part];

    p->heard_us = clock_us();
    if (why)
        snprintf(p->why, sizeof(p->why), "%s", why);
    /* Counted are the refusals since the last success: the first of them come
     * before the outage is heard of. */
    if (!p->to_begin && !p->to_end) {
        p->refused_before += why ? 0 : refused(h, part);
        p->to_begin = why != NULL;
    }
    if (why && (!p->fails || p->since == 0)) {
        p->since_us = p->heard_us;
        p->since = time(NULL);
    }
    if (!why && p->fails)
        p->until_us = p->heard_us;
    if (p->fails != (why != NULL))
        pthread_cond_signal(&h->wanted);
    p->fails = why != NULL;
}

void health_heard(struct health *h, enum health_part part, const char *why)
{
    if (!h)
        return;
    pthread_mutex_lock(&h->mutex);
    hear(h, part, why);
    pthread_mutex_unlock(&h->mutex);
}

void health_heard_store(void *health, enum store_status status,
                        const struct store_error *error)
{
    struct health *h = health;
    char why[sizeof(error->text) + 80];

    if (!h || status == STORE_CLOSED)
        return;
    snprintf(why, sizeof(why), "%s: %s", store_status_text(status),
             error->text);
    if (status == STORE_GONE) {
        snprintf(why, sizeof(why), "%s", error->text);
        atomic_store(&h->needs_restart, true);
    }
    health_heard(h, HEALTH_STORE, status == STORE_OK ? NULL : why);
}

/* ---- trying --------------------------------------------------------------- */

/* That another instance has the lock is an answer as well. */
static void try_lock_server(struct health *h)
{
    struct dlock_error error = {""};
    enum dlock_status status = DLOCK_OK;

    if (!h->holds)
        status =
            dlock_try(h->session, HEALTH_PROBE_LOCK, NULL, &h->grant, &error);
    h->holds = status == DLOCK_OK;
    if (h->holds) {
        status = dlock_release(h->session, &h->grant, &error);
        h->holds = lock_is_no_answer(status);
    }
    health_heard(h, HEALTH_LOCK, lock_is_no_answer(status) ? error.text : NULL);
}

static void write_done(struct store_write *write)
{
    struct health *h = write->owner;

    health_heard_store(h, write->status, &write->error);
    pthread_mutex_lock(&h->mutex);
    h->writing = false;
    pthread_cond_signal(&h->wanted);
    pthread_mutex_unlock(&h->mutex);
}

/* Waits for CHANGED until then. False: it is then. */
static bool wait_until(struct health *h, pthread_cond_t *changed, uint64_t us)
{
    struct timespec until = {(time_t)(us / 1000000),
                             (long)(us % 1000000) * 1000};

    return pthread_cond_clockwait(changed, &h->mutex, CLOCK_MONOTONIC,
                                  &until) == 0;
}

/* With the mutex held, but not while it waits. A write that hangs stays where it
 * is; there is one at a time. */
static void try_both(struct health *h)
{
    uint64_t begun_us = clock_us(), until_us = begun_us + WRITE_US_MAX;
    bool begins = !h->writing;

    h->asked = false;
    h->writing = true;
    pthread_mutex_unlock(&h->mutex);
    if (begins)
        store_probe_begin(h->store, &h->write);
    try_lock_server(h);
    pthread_mutex_lock(&h->mutex);
    while (h->writing && !h->stopping && wait_until(h, &h->wanted, until_us))
        continue;
    if (h->writing)
        hear(h, HEALTH_STORE, "a write does not come to its end");
    h->tried_us = clock_us();
    h->try_begun_us = begun_us;
    pthread_cond_broadcast(&h->passed);
}

/* ---- the thread ----------------------------------------------------------- */

/* Short outages share their lines. True: it has said something, and the mutex
 * was not held. */
static bool tell(struct health *h, enum health_part part)
{
    struct part *p = &h->parts[part], was = *p;
    uint64_t now_us = clock_us(), n = refused(h, part);
    uint64_t every_us = p->to_begin ? TRY_EVERY_US : LOG_EVERY_US;
    uint64_t until_us = p->fails ? now_us : p->until_us;
    double lasted_s = (double)(until_us - p->since_us) / 1e6;
    bool ends = p->to_end && !p->fails;
    bool begins = p->to_begin || (p->to_end && p->fails);

    begins &= p->logged_us == 0 || now_us >= p->logged_us + every_us;
    if (!begins && !ends)
        return false;
    p->to_begin = false;
    p->to_end = begins;
    p->logged_us = now_us;
    pthread_mutex_unlock(&h->mutex);
    if (begins)
        log_error("health",
                  "part=%s state=fails for_s=%.1f refused=%" PRIu64
                  " error=\"%s\"",
                  part_rows[part].name, lasted_s, n, was.why);
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

    pthread_mutex_lock(&h->mutex);
    while (!h->stopping) {
        if (!any_fails(h) && !h->was_ready)
            h->was_ready = eventfd_write(h->news_fd, 1) == 0;
        if (tell(h, HEALTH_STORE) || tell(h, HEALTH_LOCK))
            continue;
        if (h->asked ||
            clock_us() > h->tried_us + (any_fails(h) ? TRY_EVERY_US : IDLE_US))
            try_both(h);
        else
            (void)wait_until(h, &h->wanted, clock_us() + TRY_EVERY_US);
    }
    pthread_mutex_unlock(&h->mutex);
    return NULL;
}

/* ---- from outside --------------------------------------------------------- */

static void describe(const struct health *h, char why[HEALTH_TEXT_BYTES])
{
    bool both = h->parts[HEALTH_STORE].fails && h->parts[HEALTH_LOCK].fails;
    size_t n = 0;

    for (size_t i = 0; i < HEALTH_PARTS; i++) {
        const struct part *p = &h->parts[i];
        struct tm utc;
        char since[32];

        if (!p->fails || n >= HEALTH_TEXT_BYTES)
            continue;
        strftime(since, sizeof(since), "%FT%TZ", gmtime_r(&p->since, &utc));
        n += (size_t)snprintf(why + n, HEALTH_TEXT_BYTES - n,
                              "%s%s fails since %s: %.*s", n > 0 ? "; " : "",
                              part_rows[i].text, p->since ? since : "the start",
                              both ? 70 : (int)sizeof(p->why), p->why);
    }
}

enum health_answer health_look(struct health *h, char why[HEALTH_TEXT_BYTES])
{
    enum health_answer answer = HEALTH_READY;
    uint64_t fresh_us = clock_us() - TRY_EVERY_US;

    pthread_mutex_lock(&h->mutex);
    if (h->stopping) {
        snprintf(why, HEALTH_TEXT_BYTES, "the service is shutting down");
        answer = HEALTH_NOT_READY;
    } else if (any_fails(h)) {
        describe(h, why);
        answer = HEALTH_NOT_READY;
    } else if (h->parts[HEALTH_STORE].heard_us < fresh_us ||
               h->parts[HEALTH_LOCK].heard_us < fresh_us) {
        answer = HEALTH_UNKNOWN;
    }
    pthread_mutex_unlock(&h->mutex);
    return answer;
}

void health_try(struct health *h)
{
    char why[HEALTH_TEXT_BYTES];

    if (health_look(h, why) != HEALTH_UNKNOWN)
        return;
    pthread_mutex_lock(&h->mutex);
    h->asked = true;
    pthread_cond_signal(&h->wanted);
    pthread_mutex_unlock(&h->mutex);
}

bool health_ask(struct health *h, char why[HEALTH_TEXT_BYTES])
{
    uint64_t begin_us = clock_us();
    bool tried;

    pthread_mutex_lock(&h->mutex);
    h->asked = true;
    pthread_cond_signal(&h->wanted);
    while (h->try_begun_us < begin_us && !h->stopping &&
           wait_until(h, &h->passed, begin_us + ASK_US_MAX))
        continue;
    tried = h->try_begun_us >= begin_us;
    pthread_mutex_unlock(&h->mutex);
    if (tried)
        return health_look(h, why) != HEALTH_NOT_READY;
    snprintf(why, HEALTH_TEXT_BYTES, "the last try has not come to its end");
    return false;
}

bool health_needs_restart(const struct health *h)
{
    return atomic_load(&h->needs_restart);
}

int health_news_fd(const struct health *h)
{
    return h->news_fd;
}

struct health *health_new(const struct metrics *metrics)
{
    struct health *h = calloc(1, sizeof(*h));

    if (!h)
        return NULL;
    h->metrics = metrics;
    h->news_fd = eventfd(0, EFD_CLOEXEC);
    h->write = (struct store_write){.done = write_done, .owner = h};
    pthread_mutex_init(&h->mutex, NULL);
    pthread_cond_init(&h->wanted, NULL);
    pthread_cond_init(&h->passed, NULL);
    for (size_t i = 0; i < HEALTH_PARTS; i++)
        h->parts[i] = (struct part){.fails = true, .why = "not tried yet"};
    return h;
}

bool health_start(struct health *h, struct store *store, struct dlock *locks)
{
    struct dlock_error error = {""};

    h->store = store;
    h->runs = h->news_fd >= 0 &&
              dlock_session_open(locks, &h->session, &error) == DLOCK_OK &&
              pthread_create(&h->thread, NULL, thread_main, h) == 0;
    if (h->runs)
        (void)pthread_setname_np(h->thread, "health");
    else
        log_error("health", "error=\"cannot start its thread: %s\"",
                  error.text);
    return h->runs;
}

void health_stop(struct health *h)
{
    if (!h)
        return;
    pthread_mutex_lock(&h->mutex);
    h->stopping = true;
    pthread_cond_signal(&h->wanted);
    pthread_cond_broadcast(&h->passed);
    pthread_mutex_unlock(&h->mutex);
    if (h->runs)
        pthread_join(h->thread, NULL);
    h->runs = false;
    dlock_session_close(h->session);
    h->session = NULL;
}

void health_free(struct health *h)
{
    if (!h)
        return;
    if (h->news_fd >= 0)
        close(h->news_fd);
    pthread_cond_destroy(&h->passed);
    pthread_cond_destroy(&h->wanted);
    pthread_mutex_destroy(&h->mutex);
    free(h);
}
