/*
 * A table of the products with several segments, and one task for the workers at
 * a time, which writes what has changed and reads what is old. See hints.h.
 *
 * Whatever goes wrong with Redis, its connection is dropped and made anew after a
 * pause, because nobody waits for a hint.
 */
#include "server/order/hints.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <uthash.h>

#include "server/base/app.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/log.h"
#include "server/base/metrics.h"
#include "server/base/values.h"

#define PRODUCTS_MAX 4096 /* more are all forgotten, and learned anew */
#define TASK_HINTS   STORE_SEGMENTS_MAX /* that are written, or read, at once */
#define READ_US      100000 /* keys of a product are read again after that */
#define READ_GAP_US  2000   /* between two products */
#define EVEN_OUT_US  100000 /* a product is dealt out anew after that */
#define TIMEOUT_MS   500    /* of one round trip */
#define PAUSE_MS     500    /* after a failure nothing is tried for so long */

#define HINT_UNKNOWN (-1)

/* stock:{PRODUCT:SEGMENT} */
struct hint {
    int64_t product_id;
    int64_t segment;
    int64_t units; /* HINT_UNKNOWN: there is none */
};

/* A product with several segments. */
struct hint_product {
    int64_t id;
    int64_t n; /* segments */
    struct hint_seg {
        int64_t left;   /* units; HINT_UNKNOWN */
        bool is_dirty;  /* Redis does not know */
        bool is_others; /* another instance has its lock */
    } segments[STORE_SEGMENTS_MAX];
    bool is_dirty; /* some segment is; it is in the list */
    uint64_t read_us;
    uint64_t even_out_us; /* not before that */
    bool evens_out;       /* the store has EVEN_OUT */
    struct store_even_out even_out;
    struct hints *hints;
    struct hint_product *next_dirty;
    UT_hash_handle hh;
};

struct hints {
    const struct app *app;
    pthread_mutex_t mutex; /* guards what is about Redis: */
    struct values *redis;  /* NULL: there is none */
    bool is_away;          /* and that was logged */
    bool refuses;          /* to write, and that was logged */
    uint64_t again_ms;     /* it is not asked before */

    pthread_mutex_t table; /* guards the products, order by order */
    struct hint_product *products;
    struct hint_product *dirty;
    unsigned short random[3]; /* the state of erand48() */
    bool stopping;
    size_t evening_out;    /* writes that the store has */
    uint64_t next_read_us; /* not before that */

    /* The one task; a worker's while UNDER_WAY and not ENDED. */
    struct task task;
    bool under_way;
    atomic_bool ended;
    bool reads;
    size_t hints_n;
    struct hint list[TASK_HINTS];
};

static struct hint_product *find(struct hints *hints, int64_t product_id)
{
    struct hint_product *product;

    HASH_FIND(hh, hints->products, &product_id, sizeof(product_id), product);
    return product;
}

/* A product that the store has a write of stays. */
static void forget_all(struct hints *hints)
{
    struct hint_product *product, *next;

    hints->dirty = NULL;
    HASH_ITER(hh, hints->products, product, next)
    {
        product->is_dirty = false;
        if (product->evens_out)
            continue;
        /* uthash takes it out of the table before it is freed. */
        HASH_DEL(hints->products, product); /* NOLINT(*unix.Malloc) */
        free(product);
    }
}

void hints_taken(struct hints *hints, int64_t product_id, int64_t segment,
                 bool by_others)
{
    /* The mutex is not needed: in batches only the committer's thread uses the
     * table, and order by order nobody comes here. */
    struct hint_product *product = find(hints, product_id);

    if (product && segment < product->n)
        product->segments[segment].is_others = by_others;
}

void hints_note(struct hints *hints, int64_t product_id, int64_t segments,
                int64_t segment, int64_t left)
{
    struct hint_product *product;
    struct hint_seg *at;

    pthread_mutex_lock(&hints->table);
    product = find(hints, product_id);
    if (!product && segments > 1) {
        /* All are forgotten rather than the oldest, which would have to be
         * found: a hint that is missing costs one probe. */
        if (HASH_COUNT(hints->products) >= PRODUCTS_MAX)
            forget_all(hints);
        product = calloc(1, sizeof(*product));
        if (product) {
            product->id = product_id;
            product->hints = hints;
            HASH_ADD(hh, hints->products, id, sizeof(product->id), product);
        }
        if (product && !product->hh.tbl) { /* the table has no memory */
            free(product);
            product = NULL;
        }
    }
    /* Segments that came back after they were retired begin as unknown: what
     * they had before is old. */
    for (; product && product->n < segments; product->n++)
        product->segments[product->n] = (struct hint_seg){.left = HINT_UNKNOWN};
    if (product && segments > 0)
        product->n = segments;
    if (product && segment < product->n) {
        at = &product->segments[segment];
        /* LEFT is -1 if no order was new: then the hint must become HINT_UNKNOWN, because
         * hints_choose() has taken units off. */
        at->left = left;
        at->is_dirty = left >= 0;
        /* A product that stands in the list must not be put into it again, or
         * the list would become a circle. */
        if (at->is_dirty && !product->is_dirty) {
            product->next_dirty = hints->dirty;
            hints->dirty = product;
        }
        product->is_dirty |= at->is_dirty;
    }
    pthread_mutex_unlock(&hints->table);
}

/* How likely each segment is to be chosen, and the sum of that. One of which nothing is
 * known weighs as much as the average. OTHERS: those count as well whose lock another
 * instance has. */
static uint64_t weigh(const struct hint_product *product, int64_t quantity,
                      bool others, uint64_t weights[])
{
    uint64_t sum = 0, known = 0, average;

    for (int64_t i = 0; i < product->n; i++) {
        const struct hint_seg *at = &product->segments[i];
        bool counts = at->left >= quantity && (others || !at->is_others);

        weights[i] = counts ? (uint64_t)at->left : 0;
        known += counts;
        sum += weights[i];
    }
    /* With nothing known all segments weigh the same, so that the first orders
     * learn about each. */
    average = known > 0 ? sum / known : 1;
    for (int64_t i = 0; i < product->n; i++) {
        if (product->segments[i].left == HINT_UNKNOWN &&
            (others || !product->segments[i].is_others)) {
            weights[i] = average;
            sum += average;
        }
    }
    return sum;
}

static int64_t choose(struct hints *hints, struct hint_product *product,
                      int64_t quantity)
{
    uint64_t weights[STORE_SEGMENTS_MAX], sum, dice;
    int64_t at = 0;

    /* A segment is chosen as often as it has units, so that all of them run dry
     * together, and few orders probe in vain. */
    sum = weigh(product, quantity, false, weights);
    if (sum == 0)
        sum = weigh(product, quantity, true, weights);
    if (sum == 0) { /* the richest */
        for (int64_t i = 1; i < product->n; i++)
            if (product->segments[i].left > product->segments[at].left)
                at = i;
        return at;
    }
    /* The product of the two may be rounded up to the sum itself: the last
     * segment is taken then, and the loop stays inside. */
    dice = (uint64_t)(erand48(hints->random) * (double)sum);
    for (; at < product->n - 1 && dice >= weights[at]; at++)
        dice -= weights[at];
    /* The units are taken off now, since the store tells what is left only
     * after the batch: else all of its orders would choose the same. */
    if (product->segments[at].left != HINT_UNKNOWN)
        product->segments[at].left -= quantity;
    return at;
}

int64_t hints_choose(struct hints *hints, int64_t product_id, int64_t quantity)
{
    struct hint_product *product;
    int64_t segment = 0;

    pthread_mutex_lock(&hints->table);
    product = find(hints, product_id);
    if (product && product->n > 1)
        segment = choose(hints, product, quantity);
    pthread_mutex_unlock(&hints->table);
    return segment;
}

static void evened_out(struct store_write *write)
{
    struct hint_product *product = write->owner;
    struct hints *hints = product->hints;

    /* From here on the product may be forgotten again, and hints_are_idle() may
     * say yes, which the end of the service waits for: hence the wake. */
    product->evens_out = false;
    hints->evening_out--;
    store_source_wake(hints->app->store);
    if (write->status != STORE_OK || !product->even_out.moved)
        return;
    metrics_count(hints->app->metrics, METRICS_REBALANCES, 1);
    /* Units were moved, nobody here knows between which segments: all are
     * unknown until the store or Redis has told. */
    for (int64_t i = 0; i < product->n; i++) {
        product->segments[i].left = HINT_UNKNOWN;
        product->segments[i].is_dirty = false;
    }
}

void hints_uneven(struct hints *hints, int64_t product_id, uint64_t now_us)
{
    struct hint_product *product = find(hints, product_id);

    /* The write is part of the product, and the store's until it is done: there
     * is one at a time. */
    if (!product || product->evens_out || hints->stopping ||
        now_us < product->even_out_us)
        return;
    product->evens_out = true;
    product->even_out_us = now_us + EVEN_OUT_US;
    product->even_out =
        (struct store_even_out){.write = {.done = evened_out, .owner = product},
                                .product_id = product_id};
    /* The count is raised before the write is handed in: a store that is
     * closing answers inside store_begin(). */
    hints->evening_out++;
    store_begin(hints->app->store, STORE_EVEN_OUT, &product->even_out.write);
}

/* ---- Redis ---------------------------------------------------------------- */

/* A value that is no number of units is no hint. */
static int64_t units_of(const char *text)
{
    char *end;
    long long units = strtoll(text, &end, 10);

    return end > text && *end == '\0' && units >= 0 && units <= STORE_NUMBER_MAX
               ? units
               : HINT_UNKNOWN;
}

/* Each change has a line in the log. A server that is full answers reads as before, so
 * only a write tells. */
static void note_redis(struct hints *hints, bool is_away, bool is_write,
                       bool is_refused, const char *why)
{
    if (is_away && !hints->is_away)
        log_warn("hints", "redis=away error=\"%s\"", why);
    else if (!is_away && hints->is_away)
        log_info("hints", "redis=back");
    hints->is_away = is_away;
    if (is_away)
        hints->again_ms = clock_ms() + PAUSE_MS;
    if (is_away || !is_write || is_refused == hints->refuses)
        return;
    hints->refuses = is_refused;
    if (is_refused)
        log_warn("hints", "redis=refuses error=\"%s\"", why);
    else
        log_info("hints", "redis=takes-them-again");
}

/* Writes or reads N hints, whose units are HINT_UNKNOWN before they are read. False:
 * Redis is away, or has refused some. */
static bool ask_redis(struct hints *hints, struct hint asked[], size_t n,
                      bool is_write)
{
    struct value list[TASK_HINTS];
    char keys[TASK_HINTS][64];
    struct dlock_error error = {""};
    enum dlock_status status = DLOCK_UNREACHABLE;
    bool is_refused = false;

    for (size_t i = 0; i < n; i++) {
        snprintf(keys[i], sizeof(keys[i]), "stock:{%" PRId64 ":%" PRId64 "}",
                 asked[i].product_id, asked[i].segment);
        list[i] = (struct value){.key = keys[i]};
        if (is_write)
            snprintf(list[i].text, sizeof(list[i].text), "%" PRId64,
                     asked[i].units);
    }
    /* The mutex is held for the round trip: the connection does one thing at a
     * time, and hints_publish() calls from other threads. */
    pthread_mutex_lock(&hints->mutex);
    /* In the pause after a failure nothing is asked, so that no worker and no
     * reader waits for a dead server's timeout each time. */
    if (clock_ms() >= hints->again_ms) {
        status = is_write ? values_set(hints->redis, list, n, &error)
                          : values_get(hints->redis, list, n, &error);
        for (size_t i = 0; i < n; i++) {
            is_refused |= list[i].refused;
            if (!is_write)
                asked[i].units = units_of(list[i].text);
        }
        note_redis(hints, status != DLOCK_OK && !is_refused, is_write,
                   is_refused, error.text);
    }
    pthread_mutex_unlock(&hints->mutex);
    return status == DLOCK_OK;
}

/* Once it has ENDED, HINTS may be closed by others. */
static void run(struct task *task, struct worker *worker)
{
    struct hints *hints = task->owner;
    struct store *store = hints->app->store;

    if (worker &&
        !ask_redis(hints, hints->list, hints->hints_n, !hints->reads) &&
        hints->reads)
        hints->hints_n = 0; /* what is known stays */
    atomic_store(&hints->ended, true);
    store_source_wake(store);
}

/* A hint that is not written now stays dirty. One that got lost on its way to Redis is
 * written again with its next change. */
static size_t gather_dirty(struct hints *hints)
{
    struct hint_product *product;
    size_t n = 0;

    while ((product = hints->dirty)) {
        for (int64_t i = 0; i < product->n && n < TASK_HINTS; i++) {
            if (!product->segments[i].is_dirty)
                continue;
            product->segments[i].is_dirty = false;
            hints->list[n++] =
                (struct hint){product->id, i, product->segments[i].left};
        }
        /* The list of one task is full: the product stays in the list of those
         * dirty, with what was not written. */
        if (n == TASK_HINTS)
            break;
        product->is_dirty = false;
        hints->dirty = product->next_dirty;
    }
    return n;
}

/* One product whose hints are old, where other instances sell as well. */
static size_t gather_old(struct hints *hints, uint64_t now_us)
{
    struct hint_product *product, *next, *oldest = NULL;

    if (!hints->app->config->shared || now_us < hints->next_read_us)
        return 0;
    hints->next_read_us = now_us + READ_GAP_US;
    HASH_ITER(hh, hints->products, product, next)
    {
        if (!oldest || product->read_us < oldest->read_us)
            oldest = product;
    }
    if (!oldest || oldest->read_us + READ_US > now_us)
        return 0;
    /* The time of the try counts, not that of the answer: a server that is away
     * is not asked in each turn. */
    oldest->read_us = now_us;
    for (int64_t i = 0; i < oldest->n; i++)
        hints->list[i] = (struct hint){oldest->id, i, HINT_UNKNOWN};
    return (size_t)oldest->n;
}

/* A hint that was read counts, unless this process has changed its segment meanwhile. */
void hints_attend(struct hints *hints, uint64_t now_us)
{
    if (hints->under_way && atomic_exchange(&hints->ended, false)) {
        hints->under_way = false;
        for (size_t i = 0; hints->reads && i < hints->hints_n; i++) {
            const struct hint *hint = &hints->list[i];
            struct hint_product *product = find(hints, hint->product_id);

            if (product && hint->segment < product->n &&
                !product->segments[hint->segment].is_dirty)
                product->segments[hint->segment].left = hint->units;
        }
    }
    if (hints->under_way || hints->stopping || !hints->redis)
        return;
    /* First what is due, which is seldom: there may always be something to be
     * written. */
    hints->hints_n = gather_old(hints, now_us);
    hints->reads = hints->hints_n > 0;
    if (!hints->reads)
        hints->hints_n = gather_dirty(hints);
    hints->task = (struct task){.run = run, .owner = hints};
    hints->under_way = hints->hints_n > 0;
    if (hints->under_way)
        tasks_submit(hints->app->workers, &hints->task);
}

bool hints_publish(struct hints *hints, int64_t product_id,
                   const struct store_segments *segments)
{
    struct hint list[STORE_SEGMENTS_MAX];

    /* The table is left alone: this is a reader's thread, and what it writes
     * comes straight from the database. */
    for (size_t i = 0; i < segments->n; i++)
        list[i] = (struct hint){product_id, segments->at[i].segment,
                                segments->at[i].stock};
    return hints->redis && ask_redis(hints, list, segments->n, true);
}

struct hints *hints_open(const struct app *app, const char *redis_url)
{
    struct hints *hints = calloc(1, sizeof(*hints));

    if (!hints)
        return NULL;
    hints->app = app;
    (void)getrandom(hints->random, sizeof(hints->random), 0);
    pthread_mutex_init(&hints->mutex, NULL);
    pthread_mutex_init(&hints->table, NULL);
    if (!redis_url ||
        values_open(redis_url, TIMEOUT_MS, &hints->redis, NULL) == DLOCK_OK)
        return hints;
    log_error("hints", "error=\"the Redis url makes no sense\"");
    hints_close(hints);
    return NULL;
}

void hints_stop(struct hints *hints)
{
    hints->stopping = true;
}

bool hints_are_idle(const struct hints *hints)
{
    return !hints->under_way && hints->evening_out == 0;
}

void hints_close(struct hints *hints)
{
    if (!hints)
        return;
    forget_all(hints);
    if (hints->redis)
        values_close(hints->redis);
    pthread_mutex_destroy(&hints->table);
    pthread_mutex_destroy(&hints->mutex);
    free(hints);
}
