/* See hold.h. Locks are taken and given back here, and nowhere else. */
#include "server/order/hold.h"

#include <poll.h>
#include <string.h>

#include "server/app.h"
#include "server/clock.h"
#include "server/config.h"
#include "server/config_rules.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/order/outcome.h"

/* A lock that cannot be given back is tried so often. */
#define HOLD_RETRY_MS 100

/* ---- taking --------------------------------------------------------------- */

static uint64_t longest_wait_ms(const struct app *app)
{
    uint64_t most = (uint64_t)app->config->lock_wait_ms;
    uint64_t command = config_rules_command_timeout_ms(app->config);

    return most > command ? most - command : 0;
}

unsigned hold_patience_ms(const struct app *app, uint64_t submitted_us)
{
    uint64_t spent = (clock_us() - submitted_us) / 1000;
    uint64_t most = longest_wait_ms(app);

    return (unsigned)(spent < most ? most - spent : 0);
}

/* To the millisecond: a wait of 0 is none, and would be asked for again. */
uint64_t hold_impatient_us(const struct app *app, uint64_t now_us)
{
    uint64_t wait_us = longest_wait_ms(app) * 1000;

    return now_us + 1000 > wait_us ? now_us + 1000 - wait_us : 0;
}

static unsigned capabilities(const struct worker *worker)
{
    return dlock_strategy_find(worker->app->config->lock)->capabilities;
}

/* Tokens of a lock server that lost its data go on from the store's. */
static bool terms_fill(struct worker *worker, const char *name,
                       unsigned wait_ms, struct dlock_terms *terms,
                       struct store_error *error)
{
    const struct config *config = worker->app->config;

    *terms = (struct dlock_terms){
        .wait_ms = wait_ms,
        .lease_ms = (unsigned)config->lock_lease_ms,
        .max_hold_ms = (unsigned)config->lock_max_hold_ms,
    };
    return !(capabilities(worker) & DLOCK_CAP_FENCED) ||
           store_fence_get(worker->reader, name, &terms->fence_floor, error) ==
               STORE_OK;
}

/* For those who wait behind us and will want to know why. */
static bool note_away(struct worker *worker, enum dlock_status status)
{
    bool away = status == DLOCK_UNREACHABLE || status == DLOCK_UNKNOWN;

    atomic_store(worker->lock_away, away);
    return away;
}

enum order_outcome hold_take(struct worker *worker, const char *name,
                             unsigned wait_ms, struct hold *hold,
                             struct dlock_error *error)
{
    struct store_error store_error = {""};
    struct dlock_terms terms;
    uint64_t begin = clock_us();
    enum dlock_status status;
    bool has_terms;

    atomic_store(&worker->at_store, true);
    has_terms = terms_fill(worker, name, wait_ms, &terms, &store_error);
    atomic_store(&worker->at_store, false);
    if (!has_terms) {
        snprintf(error->text, sizeof(error->text), "%s", store_error.text);
        return ORDER_STORE_UNAVAILABLE;
    }
    status = dlock_acquire(worker->session, name, &terms, &hold->grant, error);
    hold->granted_us = clock_us();
    hold->failed = false;
    metrics_time(worker->app->metrics, METRICS_LOCK_WAIT,
                 hold->granted_us - begin);
    note_away(worker, status);
    return status == DLOCK_OK ? ORDER_PLACED : outcome_of_lock(status);
}

/* ---- while it is held ------------------------------------------------------ */

/* The lock says how its tokens are to be used; to be wrong is its lesson. */
struct store_fence hold_fence(const struct worker *worker,
                              const struct hold *hold)
{
    return (struct store_fence){
        .name = hold->grant.name,
        .token = hold->grant.token,
        .owner = hold->grant.owner,
        .late = (capabilities(worker) & DLOCK_CAP_FENCED_LATE) != 0,
    };
}

/* False when the service ends meanwhile. */
static bool pause_ms(const struct worker *worker, int ms)
{
    struct pollfd stop = {.fd = worker->stop_fd, .events = POLLIN};

    return poll(&stop, 1, ms) == 0;
}

void hold_think(const struct worker *worker)
{
    if (worker->app->config->think_ms > 0)
        pause_ms(worker, (int)worker->app->config->think_ms);
}

/* ---- leaving -------------------------------------------------------------- */

static enum dlock_status release(struct worker *worker, const struct hold *hold,
                                 bool first)
{
    struct dlock_error error = {""};
    char text[220];
    enum dlock_status status =
        hold->failed ? dlock_abandon(worker->session, &hold->grant, &error)
                     : dlock_release(worker->session, &hold->grant, &error);

    if (status == DLOCK_LOST)
        metrics_lock_lost(worker->app->metrics);
    if (status != DLOCK_OK && first)
        log_warn("release", "lock=%s error=%s", hold->grant.name,
                 log_quote(error.text, text, sizeof(text)));
    return status;
}

/* It belonged to an owner that the worker is no more. */
static bool is_given_up(const struct worker *worker, const struct hold *hold)
{
    return strcmp(hold->grant.owner, dlock_session_owner(worker->session)) != 0;
}

/*
 * A lock server that cannot take a lock back may be there again in a moment;
 * until then the product is blocked for everybody, and this worker with it.
 * What cannot be given back at all ends with its lease.
 */
bool hold_leave(struct worker *worker, const struct hold *hold,
                uint64_t give_up_us)
{
    bool away;

    metrics_time(worker->app->metrics, METRICS_LOCK_HOLD,
                 clock_us() - hold->granted_us);
    if (is_given_up(worker, hold))
        return true;
    away = note_away(worker, release(worker, hold, true));
    while (away && clock_us() < give_up_us && pause_ms(worker, HOLD_RETRY_MS))
        away = note_away(worker, release(worker, hold, false));
    return !away;
}

void hold_give_up(struct worker *worker)
{
    struct dlock_session *old = worker->session, *fresh;

    log_warn("release", "error=\"the lock server is away: what is held ends "
                        "with its lease\"");
    if (dlock_session_open(worker->app->locks, &fresh, NULL) != DLOCK_OK)
        return;
    pthread_mutex_lock(worker->mutex);
    worker->session = fresh;
    pthread_mutex_unlock(worker->mutex);
    dlock_session_close(old);
}
