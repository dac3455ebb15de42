/*
 * Counters, gauges and histograms as arrays of relaxed atomics; two tables say what they
 * are called. There is no maintained Prometheus client for C; the text format is
 * small enough to be written here, and the arrays are all it needs.
 *
 * Bucket bounds double: a percentile read from them is right to a factor of two,
 * which is what a dashboard can use.
 */
#include "server/base/metrics.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>

#define BUCKETS_MAX 17

#define TEXT(version)  TEXT_(version)
#define TEXT_(version) #version

struct metrics {
    atomic_uint_fast64_t orders[ORDER_OUTCOME_N];
    atomic_uint_fast64_t http[5]; /* 1xx .. 5xx */
    atomic_uint_fast64_t values[METRICS_VALUE_N];
    struct {
        atomic_uint_fast64_t
            buckets[BUCKETS_MAX + 1]; /* the last one in use: above all */
        atomic_uint_fast64_t sum;
    } histograms[METRICS_HISTOGRAM_N];
};

static const struct {
    const char *name, *type, *help;
} value_rows[METRICS_VALUE_N] = {
    [METRICS_LOCKS_LOST] = {"stockade_locks_lost_total", "counter",
                            "Locks found lost while they were held."},
    [METRICS_REBALANCES] = {"stockade_rebalances_total", "counter",
                            "Times that units were moved between a product's "
                            "segments."},
    [METRICS_CHECKS] = {"stockade_sold_out_checks_total", "counter",
                        "Orders decided without a lock, most of them since "
                        "memory says sold out: whether memory is right was "
                        "looked at."},
    [METRICS_WRONG] = {"stockade_false_sold_out_total", "counter",
                       "Refusals of what was there, as far as found: has to be "
                       "0."},
    [METRICS_RETRIES] = {"stockade_store_retries_total", "counter",
                         "Transactions that were run once more: another "
                         "instance was in the way, or the connection was "
                         "lost."},
    [METRICS_EXPIRED] =
        {"stockade_orders_expired_total", "counter",
         "Orders that were not paid in time: their units are on "
         "sale again."},
    [METRICS_LATE_PAYMENTS] =
        {"stockade_late_payments_total", "counter",
         "Payments of orders that were expired, cancelled "
         "or paid by then: to be refunded."},
    [METRICS_CHANGES_FAILED] =
        {"stockade_changes_failed_total", "counter",
         "Cancels, payments, restocks and changes of products "
         "that the database could not do."},
    [METRICS_WAITING] = {"stockade_orders_waiting", "gauge",
                         "Orders taken in and not answered yet."},
    [METRICS_WAITING_LIMIT] = {"stockade_orders_waiting_limit", "gauge",
                               "Orders that may wait; more are refused."},
    [METRICS_CONNECTIONS] = {"stockade_connections", "gauge",
                             "Open HTTP connections."},
    [METRICS_CONNECTIONS_LIMIT] = {"stockade_connections_limit", "gauge",
                                   "Connections that may be open."},
    [METRICS_VIEWERS] = {"stockade_viewers", "gauge",
                         "Open connections of GET /api/events."},
    [METRICS_READY] = {"stockade_ready", "gauge",
                       "1 if an order would succeed, as far as was heard."},
    [METRICS_STOCK] = {"stockade_stock_units", "gauge",
                       "Units left of all products, as of a scrape before."},
    [METRICS_HELD] = {"stockade_held_units", "gauge",
                      "Units sold and not paid yet, as of a scrape before."},
    [METRICS_STRANDED] = {"stockade_stranded_units", "gauge",
                          "Units in retired segments, as of a scrape before: "
                          "has to be 0."},
    [METRICS_AUDITED] = {"stockade_audit_timestamp_seconds", "gauge",
                         "When GET /api/audit was last answered here."},
    [METRICS_OVERSOLD] = {"stockade_audit_oversold_units", "gauge",
                          "Units sold beyond the stock, by that audit: has to "
                          "be 0."},
    [METRICS_BALANCED] = {"stockade_audit_balanced", "gauge",
                          "1 if that audit found nothing wrong."},
};

/* Microseconds are shown as seconds: from 100 us, 200 us, ... to 6.6 s. */
#define SECONDS .first = 100, .n = 17, .scale = 1e-6

static const struct {
    const char *name, *help;
    uint64_t first; /* bound of the first bucket */
    size_t n;       /* buckets, but for that above all */
    double scale;   /* turns what was observed into what is shown */
} histogram_rows[METRICS_HISTOGRAM_N] = {
    [METRICS_ORDER] = {"stockade_order_seconds",
                       "From taking an order in to answering it.", SECONDS},
    [METRICS_LOCK_WAIT] = {"stockade_lock_wait_seconds",
                           "One acquire of a lock, granted or not.", SECONDS},
    [METRICS_LOCK_HOLD] = {"stockade_lock_hold_seconds",
                           "From the grant of a lock to its release.", SECONDS},
    [METRICS_COMMIT] = {"stockade_store_write_seconds",
                        "One guarded batch in the store, commit included.",
                        SECONDS},
    [METRICS_BATCH] = {"stockade_batch_orders",
                       "Orders of one lock that shared a transaction.", 1, 11,
                       1},
    [METRICS_PROBES] = {"stockade_order_probes",
                        "Segments that an order was sent to before it was "
                        "answered, of products with several.",
                        1, 4, 1},
};

struct metrics *metrics_new(void)
{
    struct metrics *metrics = calloc(1, sizeof(*metrics));

    for (int i = METRICS_WAITING; metrics && i < METRICS_VALUE_N; i++)
        metrics_set(metrics, (enum metrics_value)i, METRICS_UNKNOWN);
    return metrics;
}

void metrics_free(struct metrics *metrics)
{
    free(metrics);
}

static void add(atomic_uint_fast64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static uint64_t value_of(const atomic_uint_fast64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void metrics_order(struct metrics *metrics, enum order_outcome outcome)
{
    add(&metrics->orders[outcome], 1);
}

uint64_t metrics_orders(const struct metrics *metrics,
                        enum order_outcome outcome)
{
    return value_of(&metrics->orders[outcome]);
}

void metrics_http(struct metrics *metrics, unsigned status)
{
    if (status >= 100 && status < 600)
        add(&metrics->http[status / 100 - 1], 1);
}

void metrics_count(struct metrics *metrics, enum metrics_value which,
                   uint64_t n)
{
    add(&metrics->values[which], n);
}

void metrics_set(struct metrics *metrics, enum metrics_value which,
                 uint64_t value)
{
    atomic_store_explicit(&metrics->values[which], value, memory_order_relaxed);
}

void metrics_observe(struct metrics *metrics, enum metrics_histogram histogram,
                     uint64_t value)
{
    uint64_t bound = histogram_rows[histogram].first;
    size_t i = 0;

    for (; i < histogram_rows[histogram].n && value > bound; bound *= 2)
        i++;
    add(&metrics->histograms[histogram].buckets[i], 1);
    add(&metrics->histograms[histogram].sum, value);
}

static void write_head(FILE *out, const char *name, const char *help,
                       const char *type)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void write_histogram(const struct metrics *metrics, size_t i, FILE *out)
{
    const char *name = histogram_rows[i].name;
    const atomic_uint_fast64_t *buckets = metrics->histograms[i].buckets;
    double scale = histogram_rows[i].scale;
    uint64_t bound = histogram_rows[i].first, total = 0;
    size_t n = histogram_rows[i].n;

    write_head(out, name, histogram_rows[i].help, "histogram");
    for (size_t k = 0; k < n; k++, bound *= 2) {
        total += value_of(&buckets[k]);
        fprintf(out, "%s_bucket{le=\"%.10g\"} %" PRIu64 "\n", name,
                (double)bound * scale, total);
    }
    total += value_of(&buckets[n]);
    fprintf(out, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, total);
    fprintf(out, "%s_sum %.10g\n%s_count %" PRIu64 "\n", name,
            (double)value_of(&metrics->histograms[i].sum) * scale, name, total);
}

static void write_value(const struct metrics *metrics, size_t i, FILE *out)
{
    uint64_t value = value_of(&metrics->values[i]);

    write_head(out, value_rows[i].name, value_rows[i].help, value_rows[i].type);
    if (value == METRICS_UNKNOWN)
        fprintf(out, "%s NaN\n", value_rows[i].name);
    else
        fprintf(out, "%s %" PRIu64 "\n", value_rows[i].name, value);
}

void metrics_write(const struct metrics *metrics, FILE *out)
{
    write_head(out, "stockade_build_info", "Which program this is.", "gauge");
    fprintf(out, "stockade_build_info{version=\"%s\"} 1\n",
            TEXT(STOCKADE_VERSION));
    write_head(out, "stockade_orders_total", "Orders answered, by outcome.",
               "counter");
    for (size_t i = 0; i < ORDER_OUTCOME_N; i++)
        fprintf(out, "stockade_orders_total{outcome=\"%s\"} %" PRIu64 "\n",
                order_outcome_slug((enum order_outcome)i),
                value_of(&metrics->orders[i]));
    write_head(out, "stockade_http_responses_total",
               "HTTP replies, by class of status.", "counter");
    for (size_t i = 0; i < 5; i++)
        fprintf(out,
                "stockade_http_responses_total{class=\"%zuxx\"} %" PRIu64 "\n",
                i + 1, value_of(&metrics->http[i]));
    for (size_t i = 0; i < METRICS_VALUE_N; i++)
        write_value(metrics, i, out);
    for (size_t i = 0; i < METRICS_HISTOGRAM_N; i++)
        write_histogram(metrics, i, out);
}
