/*
 * The thread that has all calls, and what becomes of each:
 *
 *     inbox -> waiting -> a try -> answered
 *                 ^          |
 *                 +----------+  once more, at another inventory service
 *
 * A call waits while no inventory service has room for it. If none is ready it is
 * refused at once; but one that may have been done already waits for somebody who
 * can tell, as long as its time lasts.
 *
 * A try that was never sent costs nobody anything, and the next one begins at once.
 * One that was sent and not answered, or answered "not now", is followed by one more
 * at most; and all of these together are a tenth of all calls, beside a reserve for
 * what one service had under way when it died. So services that are slow because
 * they have too much to do do not get twice as much.
 */
#include "server/inventory/inventory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/app.h"
#include "server/clock.h"
#include "server/config.h"
#include "server/inventory/inventory_private.h"
#include "server/log.h"

#define TRIES_MAX   2 /* that were sent */
#define TICK_US     50000
#define RETRY_PRICE 10 /* what a retry takes from the budget; a call adds 1 */
#define BUDGET_MAX  (SERVICE_FLYING_MAX * RETRY_PRICE)

struct inventory {
    const struct app *app;
    struct tries *tries;
    struct services services;
    struct unknowns unknowns;
    pthread_t thread;
    bool runs;
    int ready_fd;
    uint64_t try_us; /* the longest a try may take */
    /* The thread's own: */
    TAILQ_HEAD(, inventory_call) waiting;
    unsigned budget;
    uint64_t swept_us; /* when all that wait were looked at */
    bool was_ready;
    /* Everybody's: */
    _Atomic(struct inventory_call *) inbox; /* the last one first */
    atomic_size_t depth;
    atomic_bool asleep, closed;
    atomic_uint_fast64_t beat, retries;
};

/* ---- the end of a call ------------------------------------------------------ */

/* What was told no, or not now, may have been placed by an earlier try. */
static void end_call(struct inventory *inv, struct inventory_call *call,
                     enum inventory_end end)
{
    uint64_t now_us = clock_us();

    call->end = end;
    if (call->key) {
        report_order(inv->app->metrics, call, now_us);
        if (call->is_lost && call->reply.status != 201)
            unknowns_add(&inv->unknowns, call->key, now_us);
    }
    atomic_fetch_sub(&inv->depth, 1);
    call->done(call);
}

/* It has no more time, or there is nobody to ask. A "not now" counts only if no
 * other try was lost. */
static void end_without_answer(struct inventory *inv,
                               struct inventory_call *call)
{
    if (call->is_lost)
        end_call(inv, call, INVENTORY_UNKNOWN);
    else
        end_call(inv, call,
                 call->reply.status ? INVENTORY_ANSWERED : INVENTORY_NOT_SENT);
}

/* ---- tries ------------------------------------------------------------------ */

static bool begin_try(struct inventory *inv, struct inventory_call *call,
                      struct service *service, uint64_t now_us)
{
    uint64_t limit_us = call->due_us - now_us;
    struct try *try;

    if (limit_us > inv->try_us)
        limit_us = inv->try_us;
    try = tries_begin(inv->tries, service, call, limit_us / 1000 + 1);
    if (!try)
        return false;
    try->call = call;
    service->flying++;
    inv->services.turn = (size_t)(service - inv->services.list) + 1;
    return true;
}

/* Whether the call may be tried once more; then that is paid for. */
static bool may_retry(struct inventory *inv, const struct inventory_call *call)
{
    if (call->tries >= TRIES_MAX || inv->budget < RETRY_PRICE)
        return false;
    if (call->reply.status && !services_any(&inv->services, call->failed))
        return false;
    inv->budget -= RETRY_PRICE;
    atomic_fetch_add(&inv->retries, 1);
    return true;
}

static bool is_not_now(const struct try *try)
{
    return try->end == TRY_ANSWERED &&
           (try->reply.status == 503 || try->reply.status == 429);
}

/* A proxy in between, or a service with a bug, does not say what was done. */
static bool is_lost(const struct try *try)
{
    return try->end == TRY_LOST ||
           (try->end == TRY_ANSWERED && !is_not_now(try) &&
            try->reply.status >= 500);
}

static void call_heard(struct inventory *inv, struct try *try, uint64_t now_us)
{
    struct inventory_call *call = try->call;
    bool not_now = is_not_now(try), lost = is_lost(try);

    if (try->end != TRY_NOT_SENT)
        call->tries++;
    call->failed = try->service;
    call->is_lost |= lost;
    if (try->end == TRY_ANSWERED) {
        free(call->reply.text);
        call->reply = try->reply;
        try->reply.text = NULL;
    }
    if (try->end == TRY_ANSWERED && !not_now && !lost)
        end_call(inv, call, INVENTORY_ANSWERED);
    else if (now_us < call->due_us &&
             (try->end == TRY_NOT_SENT || may_retry(inv, call)))
        TAILQ_INSERT_HEAD(&inv->waiting, call, place);
    else
        end_without_answer(inv, call);
}

static void probe_heard(struct try *try, uint64_t now_us)
{
    char why[40];

    try->service->is_probed = false;
    if (try->end == TRY_ANSWERED && try->reply.status == 200) {
        service_works(try->service, now_us);
        return;
    }
    snprintf(why, sizeof(why), "/readyz answers %u", try->reply.status);
    service_fails(try->service, now_us,
                  try->end == TRY_ANSWERED ? why : try->why);
}

static void hear(struct inventory *inv, struct try *try)
{
    struct service *service = try->service;
    uint64_t now_us = clock_us();

    if (!try->call && !try->unknown) {
        probe_heard(try, now_us);
        return;
    }
    service->flying--;
    atomic_fetch_add(&service->tries, 1);
    atomic_fetch_add(&service->time_us, now_us - try->begun_us);
    if (try->end != TRY_ANSWERED) {
        atomic_fetch_add(&service->failures, 1);
        service_fails(service, now_us, try->why);
    }
    if (try->call)
        call_heard(inv, try, now_us);
    else
        unknowns_heard(&inv->unknowns, try, now_us);
}

/* ---- what is to be sent ------------------------------------------------------ */

static void take_inbox(struct inventory *inv, uint64_t now_us)
{
    struct inventory_call *list = atomic_exchange(&inv->inbox, NULL), *next;
    struct inventory_call *turned = NULL;

    for (; list; list = next) {
        next = list->next;
        list->next = turned;
        turned = list;
    }
    for (; turned; turned = turned->next) {
        turned->begun_us = now_us;
        turned->due_us = now_us + 2 * inv->try_us;
        TAILQ_INSERT_TAIL(&inv->waiting, turned, place);
        if (inv->budget < BUDGET_MAX)
            inv->budget++;
    }
}

/* Where CALL is to be tried: for the second time elsewhere; but if it was lost, and
 * the others are away, where it was, which may have come back. */
static struct service *choose(struct inventory *inv,
                              const struct inventory_call *call)
{
    bool same = call->is_lost && !services_any(&inv->services, call->failed);

    return services_choose(&inv->services, same ? NULL : call->failed);
}

/* As far as there is room; now and then all, for those that have no more time. */
static void serve_waiting(struct inventory *inv, uint64_t now_us)
{
    bool sweeps = now_us >= inv->swept_us + TICK_US;
    struct inventory_call *call, *next;
    struct service *service;

    if (sweeps)
        inv->swept_us = now_us;
    for (call = TAILQ_FIRST(&inv->waiting); call; call = next) {
        next = TAILQ_NEXT(call, place);
        service = now_us < call->due_us ? choose(inv, call) : NULL;
        if (!service && now_us < call->due_us &&
            (call->is_lost || services_any(&inv->services, call->failed))) {
            if (!sweeps && !services_choose(&inv->services, NULL))
                break;
            continue;
        }
        TAILQ_REMOVE(&inv->waiting, call, place);
        if (!service || !begin_try(inv, call, service, now_us))
            end_without_answer(inv, call);
    }
}

static void probe_all(struct inventory *inv, uint64_t now_us)
{
    static const struct inventory_call what = {.method = "GET",
                                               .target = "/readyz"};
    struct service *service = inv->services.list;

    for (; service < inv->services.list + inv->services.n; service++)
        if (!service->is_probed && now_us >= service->probe_us)
            service->is_probed =
                tries_begin(inv->tries, service, &what, inv->try_us / 1000);
}

static void look_for_unknown(struct inventory *inv, uint64_t now_us)
{
    char target[sizeof("/api/orders?key=") + 3 * STORE_KEY_BYTES_MAX];
    const struct inventory_call what = {.method = "GET", .target = target};
    struct service *service;
    struct unknown *unknown;
    struct try *try;

    unknowns_tend(&inv->unknowns, now_us);
    while ((service = services_choose(&inv->services, NULL)) &&
           (unknown = unknowns_next(&inv->unknowns, now_us))) {
        char *end = stpcpy(target, "/api/orders?key=");

        for (const char *c = unknown->key; *c; c++)
            end += sprintf(end, "%%%02x", (unsigned)(unsigned char)*c);
        try = tries_begin(inv->tries, service, &what, inv->try_us / 1000);
        if (!try) {
            unknowns_put_back(&inv->unknowns, unknown);
            break;
        }
        try->unknown = unknown;
        service->flying++;
    }
}

/* ---- the thread --------------------------------------------------------------- */

static uint64_t next_us(const struct inventory *inv, uint64_t now_us)
{
    const struct service *service = inv->services.list;
    uint64_t due_us = now_us + 20 * TICK_US;

    if (!TAILQ_EMPTY(&inv->waiting) || !TAILQ_EMPTY(&inv->unknowns.list))
        due_us = now_us + TICK_US;
    for (; service < inv->services.list + inv->services.n; service++)
        if (!service->is_probed && service->probe_us < due_us)
            due_us = service->probe_us;
    return due_us > now_us ? due_us : now_us;
}

static void *thread_main(void *arg)
{
    struct inventory *inv = arg;
    struct try *try;
    uint64_t now_us;

    while (!atomic_load(&inv->closed) || atomic_load(&inv->depth) > 0) {
        atomic_fetch_add(&inv->beat, 1);
        tries_pass(inv->tries);
        while ((try = tries_next(inv->tries))) {
            hear(inv, try);
            tries_give_back(inv->tries, try);
        }
        now_us = clock_us();
        take_inbox(inv, now_us);
        serve_waiting(inv, now_us);
        probe_all(inv, now_us);
        look_for_unknown(inv, now_us);
        if (!inv->was_ready && services_any(&inv->services, NULL))
            inv->was_ready = eventfd_write(inv->ready_fd, 1) == 0;
        atomic_store(&inv->asleep, true);
        if (!atomic_load(&inv->inbox))
            tries_wait(inv->tries,
                       (next_us(inv, now_us) - now_us + 999) / 1000);
        atomic_store(&inv->asleep, false);
    }
    unknowns_end(&inv->unknowns);
    return NULL;
}

/* ---- from outside -------------------------------------------------------------- */

static void wake(struct inventory *inv)
{
    if (atomic_load(&inv->asleep) && atomic_exchange(&inv->asleep, false))
        tries_wake(inv->tries);
}

/* A depth that was counted keeps the thread running until the call is answered. */
bool inventory_submit(struct inventory *inv, struct inventory_call *call)
{
    size_t most = (size_t)inv->app->config->queue_max;

    if (atomic_fetch_add(&inv->depth, 1) >= most || atomic_load(&inv->closed)) {
        atomic_fetch_sub(&inv->depth, 1);
        wake(inv);
        return false;
    }
    call->next = atomic_load(&inv->inbox);
    while (!atomic_compare_exchange_weak(&inv->inbox, &call->next, call))
        continue;
    wake(inv);
    return true;
}

bool inventory_is_ready(const struct inventory *inv)
{
    return !atomic_load(&inv->closed) && services_any(&inv->services, NULL);
}

int inventory_ready_fd(const struct inventory *inv)
{
    return inv->ready_fd;
}

size_t inventory_depth(const struct inventory *inv)
{
    return atomic_load(&inv->depth);
}

uint64_t inventory_beat(struct inventory *inv)
{
    uint64_t beat = atomic_load(&inv->beat);

    wake(inv);
    return beat;
}

void inventory_metrics(const struct inventory *inv, FILE *out)
{
    report_write(&inv->services, &inv->unknowns, atomic_load(&inv->retries),
                 out);
}

bool inventory_check(const struct config *config, char *error,
                     size_t error_size)
{
    struct services services = {0};

    return services_read(&services, config->inventory, error, error_size);
}

struct inventory *inventory_open(const struct app *app, char *error,
                                 size_t error_size)
{
    struct inventory *inv = calloc(1, sizeof(*inv));

    snprintf(error, error_size, "no memory, or no thread");
    if (!inv)
        return NULL;
    inv->app = app;
    inv->try_us = (uint64_t)app->config->inventory_timeout_ms * 1000;
    inv->budget = BUDGET_MAX;
    TAILQ_INIT(&inv->waiting);
    TAILQ_INIT(&inv->unknowns.list);
    inv->ready_fd = eventfd(0, EFD_CLOEXEC);
    if (services_read(&inv->services, app->config->inventory, error,
                      error_size))
        inv->tries = tries_open(inv->services.n * (SERVICE_FLYING_MAX + 1));
    inv->runs = inv->tries && inv->ready_fd >= 0 &&
                pthread_create(&inv->thread, NULL, thread_main, inv) == 0;
    if (inv->runs) {
        (void)pthread_setname_np(inv->thread, "inventory");
        return inv;
    }
    inventory_close(inv);
    return NULL;
}

void inventory_stop(struct inventory *inv)
{
    if (!inv->runs)
        return;
    atomic_store(&inv->closed, true);
    tries_wake(inv->tries);
    pthread_join(inv->thread, NULL);
    inv->runs = false;
}

void inventory_close(struct inventory *inv)
{
    if (!inv)
        return;
    inventory_stop(inv);
    tries_close(inv->tries);
    if (inv->ready_fd >= 0)
        close(inv->ready_fd);
    free(inv);
}
