/*
 * The thread of all requests to inventory services: calls, and probes of /readyz. It
 * waits for both in one place, in libcurl (server/base/fetch.c).
 *
 * The life of a call:
 *
 *     inbox -> waiting -> a try -> answered
 *                 ^          |
 *                 +----------+  once more, at another inventory service
 *
 * A call waits while no inventory service has room for it. If none is ready it is
 * refused at once; but one that may have been done already waits for somebody who
 * can tell, as long as its time lasts. A first try has its whole time, or is not begun:
 * under load a service would be taken for one that is away.
 *
 * A try that was never sent costs nobody anything, and the next one begins at once.
 * One that was sent and not answered, or answered "not now", is followed by one more
 * at most. A service that did not answer gets no more until it is ready again, so that
 * one which is slow because it has too much to do does not get twice as much.
 *
 * Each service is asked /readyz once a second. One that does not say 200, or that leaves
 * a request unanswered, gets no more requests until it does, and is asked more often.
 */
#include "server/inventory/inventory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/base/app.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/health.h"
#include "server/base/log.h"
#include "server/base/metrics.h"

#define SERVICES_MAX 16

#define PROBE_EVERY_US 1000000 /* one that is ready */
#define PROBE_AGAIN_US 250000  /* one that is not */

#define IDLE_US   1000000
#define TICK_US   50000   /* between two looks at all calls that wait */
#define ANSWER_US 1000000 /* for all but an order's wait for its lock */
#define STOP_US   2000000 /* for those under way at the end */

#define TRIES_MAX 2 /* that were sent */

#define TYPE "\"urn:stockade:problem:" /* of a problem */

TAILQ_HEAD(call_list, inventory_call);

struct service {
    char url[200];        /* without a slash at its end */
    atomic_bool is_ready; /* asked for orders */
    bool is_told;         /* the log has said that it is not ready */
    bool is_probed;       /* a probe is under way */
    unsigned flying;      /* tries under way, without probes */
    uint64_t probe_us;    /* the next probe */
};

struct inventory {
    const struct app *app;
    struct fetches fetches;
    pthread_t thread;
    bool runs;
    uint64_t try_us; /* the longest a try may take */
    /* The thread's own: */
    size_t services_n, turn; /* turn: the service that is asked next */
    struct service services[SERVICES_MAX];
    struct call_list waiting;
    uint64_t swept_us; /* when all that wait were looked at */
    uint64_t stop_us;  /* when all calls end; 0 = it does not close */
    /* Everybody's: */
    pthread_mutex_t mutex; /* guards the inbox */
    struct call_list inbox;
    atomic_size_t depth;
    atomic_bool closed;
    atomic_uint_fast64_t beat;
};

/* ---- the services: whose turn it is, and who is left out -------------------- */

/* False: TEXT is no list of URLs, and the log says why. Two of one name would take turns
 * as two, and have one line of metrics. */
static bool read_services(struct inventory *inv, const char *text)
{
    size_t size = 0, same;

    for (; *text; text += size + (text[size] == ',')) {
        struct service *service = &inv->services[inv->services_n];

        size = strcspn(text, ",");
        if (inv->services_n == SERVICES_MAX || size >= sizeof(service->url))
            break;
        memcpy(service->url, text, size);
        service->url[size] = '\0';
        if (!fetch_is_url(service->url))
            break;
        if (service->url[size - 1] == '/')
            service->url[size - 1] = '\0';
        /* The loop needs no bound: at the latest it finds the new one itself. */
        for (same = 0; strcasecmp(inv->services[same].url, service->url) != 0;)
            same++;
        if (same < inv->services_n)
            break;
        inv->services_n++;
    }
    if (!*text)
        return inv->services_n > 0;
    if (memchr(text, '@', size)) { /* a password may stand before it */
        text = "(hidden)";
        size = strlen(text);
    }
    log_error("inventory",
              "error=\"--inventory takes http://HOST:PORT, up to %d different "
              "ones with commas between, not '%.*s'\"",
              SERVICES_MAX, (int)size, text);
    return false;
}

/* The first from `turn` on that is ready and has room, or even if it has none, but not
 * FAILED, which may be NULL. NULL: none. */
static struct service *choose(struct inventory *inv,
                              const struct service *failed, bool or_none)
{
    struct service *service;

    for (size_t i = 0; i < inv->services_n; i++) {
        service = &inv->services[(inv->turn + i) % inv->services_n];
        if (service != failed && atomic_load(&service->is_ready) &&
            (or_none || service->flying < CONFIG_FLYING_MAX))
            return service;
    }
    return NULL;
}

static void on_failure(struct inventory *inv, struct service *service,
                       uint64_t now_us, const char *why)
{
    atomic_store(&service->is_ready, false);
    /* One service that is away is no outage, as long as another one is ready. */
    if (!choose(inv, NULL, true))
        health_heard(inv->app->health, HEALTH_INVENTORY, why);
    if (!service->is_told)
        log_warn("inventory", "url=%s state=away error=\"%s\"", service->url,
                 why);
    service->is_told = true;
    service->probe_us = now_us + PROBE_AGAIN_US;
}

/* ---- the end of a call ------------------------------------------------------ */

/* A reply as the outcome of an order; ORDER_OUTCOME_N: none of these. A reply
 * that was taken has a text: see is_verdict(). */
static enum order_outcome outcome_of(const struct inventory_call *call)
{
    const struct fetch_reply *reply = &call->reply;
    char type[64];

    if (call->end != FETCH_ANSWERED)
        return call->refusal;
    if (reply->status == 201)
        return reply->replayed ? ORDER_REPLAYED : ORDER_PLACED;
    for (unsigned i = 0; i < ORDER_OUTCOME_N; i++) {
        snprintf(type, sizeof(type), TYPE "%s\"",
                 order_outcome_slug((enum order_outcome)i));
        if (strstr(reply->text, type))
            return (enum order_outcome)i;
    }
    return strstr(reply->text, TYPE) ? ORDER_OUTCOME_N
                                     : ORDER_STORE_UNAVAILABLE;
}

/* A cancel or a payment that was not done, or of which nobody knows, is counted. An order
 * that was told not now may have been placed by an earlier try. */
static void end_call(struct inventory *inv, struct inventory_call *call,
                     enum fetch_end end)
{
    struct metrics *metrics = inv->app->metrics;
    struct health *health = inv->app->health;

    call->end = end;
    /* A call with a key is an order, and is counted as the dispatcher would
     * count it. */
    if (call->request.key) {
        const enum order_outcome outcome = outcome_of(call);

        if (outcome == ORDER_STORE_UNAVAILABLE ||
            outcome == ORDER_LOCK_UNREACHABLE)
            health_refused(health, HEALTH_INVENTORY,
                           order_outcome_slug(outcome));
        else if (outcome == ORDER_PLACED)
            health_worked(health, HEALTH_INVENTORY, call->begun_us);
        if (outcome != ORDER_OUTCOME_N)
            metrics_order(metrics, outcome);
        metrics_observe(metrics, METRICS_ORDER, clock_us() - call->begun_us);
        if ((call->is_lost || call->is_open) && call->reply.status != 201)
            log_warn("unknown-order", "key=%s", call->request.key);
    } else if (strcmp(call->request.method, "GET") != 0 &&
               (end != FETCH_ANSWERED || call->reply.status == 503) &&
               outcome_of(call) == ORDER_STORE_UNAVAILABLE) {
        metrics_count(metrics, METRICS_CHANGES_FAILED, 1);
    }
    /* The depth falls before done(), after which the call may be gone. */
    atomic_fetch_sub(&inv->depth, 1);
    call->done(call);
}

/* It has no more time, or there is nobody to ask. A "not now" counts only if no
 * other try was lost. */
static void end_without_answer(struct inventory *inv,
                               struct inventory_call *call)
{
    /* A service that is ready had no room for it, which is no outage. */
    bool was_full = !call->is_lost && choose(inv, NULL, true);

    call->refusal = was_full ? ORDER_OVERLOADED : ORDER_STORE_UNAVAILABLE;
    call->why = was_full        ? "the inventory services have too much to do"
                : call->is_lost ? "no inventory service has answered"
                                : "no inventory service is ready";
    if (call->is_lost)
        end_call(inv, call, FETCH_LOST);
    else
        end_call(inv, call,
                 call->reply.status ? FETCH_ANSWERED : FETCH_NOT_SENT);
}

/* ---- tries ------------------------------------------------------------------ */

/* Asks a service; CALL, for which, is NULL of a probe. False: no memory. */
static bool ask(struct inventory *inv, struct service *service,
                struct fetch_request request, uint64_t limit_ms,
                struct inventory_call *call)
{
    struct fetch *try;

    request.url = service->url;
    request.limit_ms = limit_ms;
    try = fetch_begin(&inv->fetches, &request);
    if (!try)
        return false;
    try->owner = call;
    try->peer = service;
    try->number = limit_ms;
    return true;
}

/* The reply is an inventory service's own: it is what was asked for, and says of an
 * order where that is, or it names a problem. */
static bool is_verdict(const struct inventory_call *call,
                       const struct fetch_reply *reply)
{
    bool is_order = call->request.key != NULL;
    bool yes = reply->status == (is_order ? 201 : 200);
    const char *type = yes ? "application/json" : "application/problem+json";

    return reply->text && strcmp(reply->type, type) == 0 &&
           (!yes || !is_order ||
            strncmp(reply->location, "/api/orders/", 12) == 0);
}

/* A try of a call has ended. It is lost as well if a proxy in between has answered, a
 * service with a bug, or with a reply that is cut in its head, which libcurl takes:
 * that does not say what was done. If an earlier try was left open, only a yes of
 * another service settles it, because the one that hangs may still sell after the
 * other one's no. */
static void try_heard(struct inventory *inv, struct fetch *try, uint64_t now_us)
{
    struct inventory_call *call = try->owner;
    unsigned status = try->reply.status;
    bool answered = try->end == FETCH_ANSWERED;
    /* The reply is sorted first: a verdict, a "not now", one that leaves the
     * order open, or none that says what was done. */
    bool verdict = answered && is_verdict(call, &try->reply);
    bool not_now = verdict && (status == 503 || status == 429);
    bool in_doubt =
        call->request.key && status != 201 && (call->is_lost || call->is_open);
    bool lost = try->end == FETCH_LOST ||
                (answered && !not_now && (status >= 500 || !verdict));

    if (try->end != FETCH_NOT_SENT)
        call->tries++;
    call->failed = try->peer;
    call->is_lost |= lost;
    call->is_open |=
        not_now && strstr(try->reply.text, "\"" ORDER_OPEN_MEMBER "\":true");
    if (answered && !(in_doubt && call->is_open)) {
        /* The last answer is the one to be told; but not if an earlier try may
         * have ordered, and said so: that must not be forgotten for a later no. */
        free(call->reply.text);
        call->reply = try->reply;
        try->reply.text = NULL;
    }
    if (answered && !not_now && !lost && !in_doubt) {
        end_call(inv, call, FETCH_ANSWERED);
    } else if (now_us < call->due_us &&
               (try->end == FETCH_NOT_SENT ||
                (call->tries < TRIES_MAX &&
                 (!call->reply.status || choose(inv, call->failed, true))))) {
        metrics_count(inv->app->metrics, METRICS_SECOND_TRIES,
                      try->end != FETCH_NOT_SENT);
        TAILQ_INSERT_HEAD(&inv->waiting, call, place);
    } else {
        end_without_answer(inv, call);
    }
}

/* ---- calls that wait ------------------------------------------------------ */

/* Begins tries of those that wait, as far as there is room; now and then looks at
 * all, for those that have no more time. A second try goes elsewhere; but if the first
 * was lost, and the others are away, it goes to the same one, which may have come back. */
static void serve(struct inventory *inv, uint64_t now_us)
{
    bool sweeps = now_us >= inv->swept_us + TICK_US, in_time;
    struct inventory_call *call, *next;
    const struct service *but, *others;
    struct service *service;
    uint64_t limit_us;

    if (sweeps)
        inv->swept_us = now_us;
    for (call = TAILQ_FIRST(&inv->waiting); call; call = next) {
        next = TAILQ_NEXT(call, place);
        in_time = now_us < call->due_us - (call->failed ? 0 : inv->try_us);
        others = choose(inv, call->failed, true);
        but = call->is_lost && !others ? NULL : call->failed;
        service = in_time ? choose(inv, but, false) : NULL;
        if (!service && in_time && (call->is_lost || others)) {
            /* No service has room: those behind it need not be looked at, but
             * for their time now and then. */
            if (!sweeps && !choose(inv, NULL, false))
                break;
            continue;
        }
        TAILQ_REMOVE(&inv->waiting, call, place);
        /* The difference wraps for a call without time, which gets no service. */
        limit_us = call->due_us - now_us;
        if (limit_us > inv->try_us)
            limit_us = inv->try_us;
        if (!service ||
            !ask(inv, service, call->request, limit_us / 1000 + 1, call)) {
            end_without_answer(inv, call);
            continue;
        }
        service->flying++;
        /* The next call begins at the next service: so they take turns, however
         * long their answers take. */
        inv->turn = (size_t)(service - inv->services) + 1;
    }
}

/* Nobody waits for an inventory service that hangs. A call that is
 * under way may have been done: nobody knows. */
static void end_all(struct inventory *inv)
{
    struct inventory_call *call;
    struct fetch *try;

    LIST_FOREACH(try, &inv->fetches.list, place) {
        call = try->owner;
        /* The call is answered, and may be gone: what still comes of its try
         * belongs to nobody. */
        try->owner = NULL;
        if (!call)
            continue;
        call->is_lost = true;
        end_without_answer(inv, call);
    }
    serve(inv, UINT64_MAX); /* none of those that wait has time left */
}

/* ---- the thread --------------------------------------------------------------- */

static void hear(struct inventory *inv, struct fetch *try)
{
    struct service *service = try->peer;
    bool answered = try->end == FETCH_ANSWERED;
    uint64_t now_us = clock_us();
    /* The rest of a call's time was too short, which says nothing of the service.
     * libcurl may end a try a moment early. */
    bool was_cut = try->number < inv->try_us / 1000 &&
                   now_us + TICK_US >= try->begun_us + try->number * 1000;
    char why[FETCH_WHY_BYTES];

    /* A request for a customer says by its failure alone that the service is
     * away; only a probe says that it is back. */
    if (try->owner) {
        service->flying--;
        /* The first of many that were under way tells. */
        if (!answered && !was_cut && atomic_load(&service->is_ready))
            on_failure(inv, service, now_us, try->why);
        try_heard(inv, try, now_us);
        return;
    }
    service->is_probed = false;
    if (answered && try->reply.status == 200) {
        health_worked(inv->app->health, HEALTH_INVENTORY, try->begun_us);
        if (!atomic_exchange(&service->is_ready, true))
            log_info("inventory", "url=%s state=ready", service->url);
        service->is_told = false;
        service->probe_us = now_us + PROBE_EVERY_US;
        return;
    }
    snprintf(why, sizeof(why), "/readyz answers %u %.200s", try->reply.status,
             try->reply.text ? try->reply.text : "");
    on_failure(inv, service, now_us, answered ? why : try->why);
}

/* Begins the probes that are due; says when to look again. */
static uint64_t probe_all(struct inventory *inv, uint64_t now_us)
{
    const struct fetch_request what = {.method = "GET", .target = "/readyz"};
    bool waits = !TAILQ_EMPTY(&inv->waiting) || inv->stop_us > 0;
    uint64_t due_us = now_us + (waits ? TICK_US : IDLE_US);

    for (size_t i = 0; i < inv->services_n; i++) {
        struct service *service = &inv->services[i];

        if (!service->is_probed && now_us >= service->probe_us)
            service->is_probed =
                ask(inv, service, what, inv->try_us / 1000, NULL);
        if (!service->is_probed && service->probe_us < due_us)
            due_us = service->probe_us;
    }
    return due_us > now_us ? due_us : now_us;
}

static void *thread_main(void *arg)
{
    struct inventory *inv = arg;
    struct fetch *try;
    uint64_t now_us;

    while (!atomic_load(&inv->closed) || atomic_load(&inv->depth) > 0) {
        atomic_fetch_add(&inv->beat, 1);
        /* A pass: what has ended, what came in, what can begin; then the wait
         * in libcurl, which fetch_wake() ends. */
        while ((try = fetch_next(&inv->fetches))) {
            hear(inv, try);
            fetch_free(try);
        }
        now_us = clock_us();
        pthread_mutex_lock(&inv->mutex);
        TAILQ_CONCAT(&inv->waiting, &inv->inbox, place);
        pthread_mutex_unlock(&inv->mutex);
        serve(inv, now_us);
        if (atomic_load(&inv->closed) && inv->stop_us == 0)
            inv->stop_us = now_us + STOP_US;
        else if (inv->stop_us > 0 && now_us >= inv->stop_us)
            end_all(inv);
        fetch_wait(&inv->fetches, NULL, 0,
                   (probe_all(inv, now_us) - now_us + 999) / 1000);
    }
    return NULL;
}

/* ---- from outside -------------------------------------------------------------- */

/* A depth that was counted keeps the thread running until the call is answered. */
bool inventory_submit(struct inventory *inv, struct inventory_call *call)
{
    size_t most = (size_t)inv->app->config->queue_max;

    /* The depth is raised before `closed` is read: the thread that ends reads
     * them the other way round, so that no call is left behind. */
    if (atomic_fetch_add(&inv->depth, 1) >= most || atomic_load(&inv->closed)) {
        atomic_fetch_sub(&inv->depth, 1);
        fetch_wake(&inv->fetches); /* it may wait for a depth of 0 */
        if (call->request.key)
            metrics_order(inv->app->metrics, ORDER_OVERLOADED);
        return false;
    }
    call->begun_us = clock_us();
    /* Two tries, each of which may take its whole time. */
    call->due_us = call->begun_us + 2 * inv->try_us;
    pthread_mutex_lock(&inv->mutex);
    TAILQ_INSERT_TAIL(&inv->inbox, call, place);
    pthread_mutex_unlock(&inv->mutex);
    fetch_wake(&inv->fetches);
    return true;
}

size_t inventory_depth(const struct inventory *inv)
{
    return atomic_load(&inv->depth);
}

uint64_t inventory_beat(struct inventory *inv)
{
    fetch_wake(&inv->fetches);
    return atomic_load(&inv->beat);
}

void inventory_metrics(const struct inventory *inv, FILE *out)
{
    const struct service *service = inv->services;

    fputs("# HELP stockade_inventory_ready 1 if the inventory service is asked "
          "for orders.\n# TYPE stockade_inventory_ready gauge\n",
          out);
    for (; service < inv->services + inv->services_n; service++)
        fprintf(out, "stockade_inventory_ready{inventory=\"%s\"} %d\n",
                service->url, atomic_load(&service->is_ready));
}

bool inventory_check(const struct config *config)
{
    struct inventory inv = {0};

    return read_services(&inv, config->inventory);
}

struct inventory *inventory_open(const struct app *app)
{
    struct inventory *inv = calloc(1, sizeof(*inv));

    if (!inv)
        goto err;
    inv->app = app;
    inv->try_us = (uint64_t)app->config->lock_wait_ms * 1000 + ANSWER_US;
    TAILQ_INIT(&inv->waiting);
    TAILQ_INIT(&inv->inbox);
    pthread_mutex_init(&inv->mutex, NULL);
    inv->runs =
        read_services(inv, app->config->inventory) &&
        fetch_open(&inv->fetches, inv->services_n * (CONFIG_FLYING_MAX + 1)) &&
        pthread_create(&inv->thread, NULL, thread_main, inv) == 0;
    if (inv->runs) {
        (void)pthread_setname_np(inv->thread, "inventory");
        return inv;
    }

err:
    log_error("inventory", "error=\"no memory, or no thread\"");
    inventory_close(inv);
    return NULL;
}

void inventory_stop(struct inventory *inv)
{
    if (!inv->runs)
        return;
    atomic_store(&inv->closed, true);
    fetch_wake(&inv->fetches);
    pthread_join(inv->thread, NULL);
    inv->runs = false;
}

void inventory_close(struct inventory *inv)
{
    if (!inv)
        return;
    inventory_stop(inv);
    fetch_close(&inv->fetches);
    pthread_mutex_destroy(&inv->mutex);
    free(inv);
}
