/*
 * The thread of all requests to inventory services: calls (calls.c), and probes of
 * /readyz (services.c). It waits for both in one place, in libcurl (tries.c).
 */
#include "server/inventory/inventory.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/base/app.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/log.h"
#include "server/inventory/inventory_private.h"

#define IDLE_US   1000000
#define TICK_US   50000   /* while calls wait */
#define ANSWER_US 1000000 /* for all but an order's wait for its lock */

static void probe_heard(struct inventory *inv, struct http_try *try,
                        uint64_t now_us)
{
    char why[TRY_WHY_BYTES];

    try->service->is_probed = false;
    if (try->end == TRY_ANSWERED && try->reply.status == 200) {
        services_works(try->service, now_us);
        calls_worked(inv, try->begun_us);
        return;
    }
    snprintf(why, sizeof(why), "/readyz answers %u %.200s", try->reply.status,
             try->reply.text ? try->reply.text : "");
    services_fails(try->service, now_us,
                   try->end == TRY_ANSWERED ? why : try->why);
}

static void hear(struct inventory *inv, struct http_try *try)
{
    struct service *service = try->service;
    uint64_t now_us = clock_us();

    if (!try->call) {
        probe_heard(inv, try, now_us);
        return;
    }
    service->flying--;
    /* The first of many that were under way tells. */
    if (try->end != TRY_ANSWERED && atomic_load(&service->is_ready))
        services_fails(service, now_us, try->why);
    calls_heard(inv, try, now_us);
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

static bool would_sell(const struct inventory *inv)
{
    return services_any(&inv->services, NULL) &&
           atomic_load(&inv->failed_us) == 0;
}

/* ---- the thread --------------------------------------------------------------- */

static uint64_t next_us(const struct inventory *inv, uint64_t now_us)
{
    const struct service *service = inv->services.list;
    uint64_t due_us = now_us + IDLE_US;

    if (!TAILQ_EMPTY(&inv->waiting))
        due_us = now_us + TICK_US;
    for (; service < inv->services.list + inv->services.n; service++)
        if (!service->is_probed && service->probe_us < due_us)
            due_us = service->probe_us;
    return due_us > now_us ? due_us : now_us;
}

static bool has_mail(struct inventory *inv)
{
    bool has;

    pthread_mutex_lock(&inv->mutex);
    has = !TAILQ_EMPTY(&inv->inbox);
    pthread_mutex_unlock(&inv->mutex);
    return has;
}

static void *thread_main(void *arg)
{
    struct inventory *inv = arg;
    struct http_try *try;
    uint64_t now_us;
    bool is_ready;

    while (!atomic_load(&inv->closed) || atomic_load(&inv->depth) > 0) {
        atomic_fetch_add(&inv->beat, 1);
        tries_pass(inv->tries);
        while ((try = tries_next(inv->tries))) {
            hear(inv, try);
            tries_free(try);
        }
        now_us = clock_us();
        calls_take(inv, now_us);
        calls_serve(inv, now_us);
        probe_all(inv, now_us);
        is_ready = would_sell(inv);
        if (is_ready != inv->was_ready)
            (void)eventfd_write(inv->news_fd, 1);
        inv->was_ready = is_ready;
        atomic_store(&inv->asleep, true);
        if (!has_mail(inv))
            tries_wait(inv->tries,
                       (next_us(inv, now_us) - now_us + 999) / 1000);
        atomic_store(&inv->asleep, false);
    }
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
    pthread_mutex_lock(&inv->mutex);
    TAILQ_INSERT_TAIL(&inv->inbox, call, place);
    pthread_mutex_unlock(&inv->mutex);
    wake(inv);
    return true;
}

bool inventory_is_ready(const struct inventory *inv)
{
    return !atomic_load(&inv->closed) && would_sell(inv);
}

int inventory_news_fd(const struct inventory *inv)
{
    return inv->news_fd;
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
    const struct service *service = inv->services.list;

    fputs("# HELP stockade_inventory_ready 1 if the inventory service is asked "
          "for orders.\n# TYPE stockade_inventory_ready gauge\n",
          out);
    for (; service < inv->services.list + inv->services.n; service++)
        fprintf(out, "stockade_inventory_ready{inventory=\"%s\"} %d\n",
                service->url, atomic_load(&service->is_ready));
    fprintf(
        out,
        "# HELP stockade_inventory_retries_total Requests that were sent to "
        "another inventory service as well.\n"
        "# TYPE stockade_inventory_retries_total counter\n"
        "stockade_inventory_retries_total %" PRIu64 "\n",
        atomic_load(&inv->retries));
}

bool inventory_check(const struct config *config)
{
    struct services services = {0};

    return services_read(&services, config->inventory);
}

struct inventory *inventory_open(const struct app *app)
{
    struct inventory *inv = calloc(1, sizeof(*inv));

    if (!inv)
        goto err;
    inv->app = app;
    inv->try_us = (uint64_t)app->config->lock_wait_ms * 1000 + ANSWER_US;
    calls_init(inv);
    inv->news_fd = eventfd(0, EFD_CLOEXEC);
    if (services_read(&inv->services, app->config->inventory))
        inv->tries = tries_open(inv->services.n * (SERVICE_FLYING_MAX + 1));
    inv->runs = inv->tries && inv->news_fd >= 0 &&
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
    if (inv->news_fd >= 0)
        close(inv->news_fd);
    pthread_mutex_destroy(&inv->mutex);
    free(inv);
}
