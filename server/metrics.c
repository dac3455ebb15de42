/*
 * Counters and histograms as arrays of relaxed atomics, one slot an outcome or
 * a bucket. There is no maintained Prometheus client for C; the text format is
 * small enough to be written here, and the arrays are all it needs.
 *
 * Bucket bounds double from 100 us on: a percentile read from them is right to
 * a factor of two, which is what a dashboard can use.
 */
#include "server/metrics.h"

#include <stdatomic.h>
#include <stdlib.h>

#define METRICS_BUCKETS    17 /* 100 us, 200 us, ... 3.3 s, 6.6 s */
#define METRICS_FIRST_US   100u
#define METRICS_BATCH_BITS 11 /* batches of 1, 2, 4, ... 1024 */
#define METRICS_PROBE_BITS 4  /* segments probed: 1, 2, 4, 8 */

struct histogram {
    atomic_uint_fast64_t buckets[METRICS_BUCKETS + 1]; /* last: above all */
    atomic_uint_fast64_t sum;
};

struct metrics {
    atomic_uint_fast64_t orders[ORDER_OUTCOME_N];
    atomic_uint_fast64_t http[5]; /* 1xx .. 5xx */
    atomic_uint_fast64_t locks_lost;
    atomic_uint_fast64_t rebalances;
    atomic_uint_fast64_t checked; /* refusals from memory */
    atomic_uint_fast64_t false_sold_out;
    atomic_uint_fast64_t stranded;
    struct histogram timers[METRICS_TIMER_N];
    struct histogram batches; /* buckets are sizes here, sum is orders */
    struct histogram probes;  /* buckets are segments, sum as well */
};

static const struct {
    const char *name;
    const char *help;
} timer_texts[METRICS_TIMER_N] = {
    [METRICS_ORDER] = {"stockade_order_seconds",
                       "From taking an order in to answering it."},
    [METRICS_LOCK_WAIT] = {"stockade_lock_wait_seconds",
                           "One acquire of a lock, granted or not."},
    [METRICS_LOCK_HOLD] = {"stockade_lock_hold_seconds",
                           "From the grant of a lock to its release."},
    [METRICS_COMMIT] = {"stockade_store_write_seconds",
                        "One guarded batch in the store, commit included."},
};

struct metrics *metrics_new(void)
{
    return calloc(1, sizeof(struct metrics));
}

void metrics_free(struct metrics *metrics)
{
    free(metrics);
}

static void count(atomic_uint_fast64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static uint64_t value_of(const atomic_uint_fast64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* Index of the first bucket whose bound, FIRST doubled that often, holds it. */
static size_t bucket_of(uint64_t value, uint64_t first, size_t buckets)
{
    uint64_t bound = first;
    size_t i;

    for (i = 0; i < buckets && value > bound; i++)
        bound *= 2;
    return i;
}

void metrics_order(struct metrics *metrics, enum order_outcome outcome)
{
    count(&metrics->orders[outcome], 1);
}

void metrics_time(struct metrics *metrics, enum metrics_timer timer,
                  uint64_t us)
{
    struct histogram *h = &metrics->timers[timer];

    count(&h->buckets[bucket_of(us, METRICS_FIRST_US, METRICS_BUCKETS)], 1);
    count(&h->sum, us);
}

/* Buckets of 1, 2, 4, ... */
static void count_size(struct histogram *h, size_t buckets, uint64_t size)
{
    count(&h->buckets[bucket_of(size, 1, buckets)], 1);
    count(&h->sum, size);
}

void metrics_batch(struct metrics *metrics, size_t orders)
{
    count_size(&metrics->batches, METRICS_BATCH_BITS, orders);
}

void metrics_probes(struct metrics *metrics, size_t segments)
{
    count_size(&metrics->probes, METRICS_PROBE_BITS, segments);
}

void metrics_http(struct metrics *metrics, unsigned status)
{
    if (status >= 100 && status < 600)
        count(&metrics->http[status / 100 - 1], 1);
}

void metrics_lock_lost(struct metrics *metrics)
{
    count(&metrics->locks_lost, 1);
}

void metrics_rebalance(struct metrics *metrics)
{
    count(&metrics->rebalances, 1);
}

void metrics_false_sold_out(struct metrics *metrics)
{
    count(&metrics->false_sold_out, 1);
}

void metrics_sold_out_checked(struct metrics *metrics)
{
    count(&metrics->checked, 1);
}

void metrics_stranded(struct metrics *metrics, int64_t units)
{
    atomic_store_explicit(&metrics->stranded, (uint64_t)units,
                          memory_order_relaxed);
}

static void write_head(FILE *out, const char *name, const char *help,
                       const char *type)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void write_number(FILE *out, const char *name, const char *help,
                         const char *type, uint64_t value)
{
    write_head(out, name, help, type);
    fprintf(out, "%s %llu\n", name, (unsigned long long)value);
}

/* SCALE turns what was observed into the unit that is shown. */
static void write_histogram(FILE *out, const char *name,
                            const struct histogram *h, size_t buckets,
                            double first, double scale)
{
    uint64_t total = 0;
    double bound = first;
    size_t i;

    for (i = 0; i < buckets; i++, bound *= 2) {
        total += value_of(&h->buckets[i]);
        fprintf(out, "%s_bucket{le=\"%.10g\"} %llu\n", name, bound * scale,
                (unsigned long long)total);
    }
    total += value_of(&h->buckets[buckets]);
    fprintf(out, "%s_bucket{le=\"+Inf\"} %llu\n", name,
            (unsigned long long)total);
    fprintf(out, "%s_sum %.10g\n%s_count %llu\n", name,
            (double)value_of(&h->sum) * scale, name, (unsigned long long)total);
}

static void write_orders(const struct metrics *metrics, FILE *out)
{
    int i;

    write_head(out, "stockade_orders_total", "Orders answered, by outcome.",
               "counter");
    for (i = 0; i < ORDER_OUTCOME_N; i++)
        fprintf(out, "stockade_orders_total{outcome=\"%s\"} %llu\n",
                order_outcome_slug((enum order_outcome)i),
                (unsigned long long)value_of(&metrics->orders[i]));
}

static void write_http(const struct metrics *metrics, FILE *out)
{
    int i;

    write_head(out, "stockade_http_responses_total",
               "HTTP replies, by class of status.", "counter");
    for (i = 0; i < 5; i++)
        fprintf(out, "stockade_http_responses_total{class=\"%dxx\"} %llu\n",
                i + 1, (unsigned long long)value_of(&metrics->http[i]));
}

/* What selfcheck.h watches. */
static void write_promises(const struct metrics *metrics, FILE *out)
{
    write_number(out, "stockade_sold_out_checks_total",
                 "Refusals from memory that were held against the database.",
                 "counter", value_of(&metrics->checked));
    write_number(out, "stockade_false_sold_out_total",
                 "Refusals of what was there, as far as found: has to be 0.",
                 "counter", value_of(&metrics->false_sold_out));
    write_number(out, "stockade_stranded_units",
                 "Units in retired cells, as of a scrape before: has to be "
                 "0.",
                 "gauge", value_of(&metrics->stranded));
}

void metrics_write(const struct metrics *metrics, size_t desk_depth, FILE *out)
{
    int i;

    write_orders(metrics, out);
    write_http(metrics, out);
    write_number(out, "stockade_locks_lost_total",
                 "Locks found lost while they were held.", "counter",
                 value_of(&metrics->locks_lost));
    write_number(out, "stockade_rebalances_total",
                 "Times that units were moved between a product's segments.",
                 "counter", value_of(&metrics->rebalances));
    write_number(out, "stockade_desk_depth",
                 "Orders taken in and not answered yet.", "gauge", desk_depth);
    write_promises(metrics, out);
    for (i = 0; i < METRICS_TIMER_N; i++) {
        write_head(out, timer_texts[i].name, timer_texts[i].help, "histogram");
        write_histogram(out, timer_texts[i].name, &metrics->timers[i],
                        METRICS_BUCKETS, METRICS_FIRST_US, 1e-6);
    }
    write_head(out, "stockade_batch_orders",
               "Orders that shared one lock cycle and one transaction.",
               "histogram");
    write_histogram(out, "stockade_batch_orders", &metrics->batches,
                    METRICS_BATCH_BITS, 1, 1);
    write_head(out, "stockade_order_probes",
               "Segments that an order was sent to before it was answered, of "
               "products with several.",
               "histogram");
    write_histogram(out, "stockade_order_probes", &metrics->probes,
                    METRICS_PROBE_BITS, 1, 1);
}
