/*
 * A look is an errand in the pool. There is one of each kind, which is either
 * free or under way; whoever finds it under way does without.
 */
#include "server/selfcheck.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "server/app.h"
#include "server/clock.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/pool.h"

#define SELFCHECK_EVERY_MS 1000 /* of a product, and of all stranded units */
#define SELFCHECK_SLOTS    1024 /* products that meet share their second */

struct look {
    struct errand errand;
    const struct app *app;
    atomic_bool under_way;
    int64_t product_id, quantity; /* that were refused */
};

struct selfcheck {
    struct look refusal, stranded;
    /* When the next look is due. */
    atomic_uint_fast64_t refusal_due_ms[SELFCHECK_SLOTS], stranded_due_ms;
};

static void end(struct errand *errand)
{
    struct look *look = errand->owner;

    atomic_store(&look->under_way, false);
}

/* Whether a look may be made now. Then it is the caller's, who has to begin it.
 * Who moves the time on is the only one, whoever else has seen it pass. */
static bool claim(struct look *look, atomic_uint_fast64_t *due_ms)
{
    uint64_t now_ms = clock_ms();
    uint_fast64_t due = atomic_load_explicit(due_ms, memory_order_relaxed);

    if (now_ms < due || atomic_exchange(&look->under_way, true))
        return false;
    if (atomic_compare_exchange_strong(due_ms, &due,
                                       now_ms + SELFCHECK_EVERY_MS))
        return true;
    atomic_store(&look->under_way, false);
    return false;
}

/* The pool may have no time for it. */
static void begin(struct look *look)
{
    if (!pool_submit(look->app->pool, &look->errand))
        end(&look->errand);
}

/* ---- refusals ------------------------------------------------------------- */

static void tell_false_refusal(const struct look *look)
{
    metrics_false_sold_out(look->app->metrics);
    log_error("selfcheck",
              "product=%" PRId64 " quantity=%" PRId64
              " error=\"refused as sold out, and there are as many\"",
              look->product_id, look->quantity);
}

static void look_at_refusal(struct errand *errand, struct store_reader *reader)
{
    struct look *look = errand->owner;
    enum store_check found;

    (void)store_check_sold_out(look->app->store, reader, look->product_id,
                               look->quantity, &found, NULL);
    if (found != STORE_CHECK_NOTHING)
        metrics_sold_out_checked(look->app->metrics);
    if (found == STORE_CHECK_WRONG)
        tell_false_refusal(look);
    end(errand);
}

static size_t slot_of(int64_t product_id)
{
    return (uint64_t)product_id % SELFCHECK_SLOTS;
}

void selfcheck_refused(struct selfcheck *selfcheck, int64_t product_id,
                       int64_t quantity)
{
    struct look *look;

    if (!selfcheck || !claim(&selfcheck->refusal,
                             &selfcheck->refusal_due_ms[slot_of(product_id)]))
        return;
    look = &selfcheck->refusal;
    look->product_id = product_id;
    look->quantity = quantity;
    begin(look);
}

/* ---- stranded units ------------------------------------------------------- */

static void look_at_stranded(struct errand *errand, struct store_reader *reader)
{
    struct look *look = errand->owner;
    int64_t units;

    if (store_stranded(reader, &units, NULL) == STORE_OK)
        metrics_stranded(look->app->metrics, units);
    end(errand);
}

void selfcheck_stranded(struct selfcheck *selfcheck)
{
    if (claim(&selfcheck->stranded, &selfcheck->stranded_due_ms))
        begin(&selfcheck->stranded);
}

/* ---- opening and closing -------------------------------------------------- */

static void look_init(struct look *look, const struct app *app,
                      void (*run)(struct errand *, struct store_reader *))
{
    look->app = app;
    look->errand = (struct errand){.run = run, .refuse = end, .owner = look};
}

struct selfcheck *selfcheck_new(const struct app *app)
{
    struct selfcheck *selfcheck = calloc(1, sizeof(*selfcheck));

    if (!selfcheck)
        return NULL;
    look_init(&selfcheck->refusal, app, look_at_refusal);
    look_init(&selfcheck->stranded, app, look_at_stranded);
    selfcheck_stranded(selfcheck);
    return selfcheck;
}

void selfcheck_free(struct selfcheck *selfcheck)
{
    free(selfcheck);
}
