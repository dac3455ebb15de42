/*
 * Counters, gauges and histograms as arrays of relaxed atomics; metrics.txt and
 * histograms.txt say what they are called. There is no maintained Prometheus client for
 * C; the text format is small enough to be written here, and the arrays are all it needs.
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
#define ROW(type, name, shown, help) {shown, #type, help},
#include "server/base/metrics.inc"
};

static const struct {
    uint64_t first;
    size_t n;
    double scale;
    const char *name, *help;
} histogram_rows[METRICS_HISTOGRAM_N] = {
#define ROW(name, ...) {__VA_ARGS__},
#include "server/base/histograms.inc"
};

struct metrics *metrics_new(void)
{
    struct metrics *metrics = calloc(1, sizeof(*metrics));

    /* A gauge that nobody has set yet is not 0 but not known; the counters
     * before begin at 0. */
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

    /* A value above the last bound ends at N, the bucket +Inf. */
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
    /* Prometheus's buckets are cumulative, ours are not: so that an observation
     * raises one counter and not all above. */
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

void metrics_write(const struct metrics *metrics, FILE *out)
{
    uint64_t value;

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
    for (size_t i = 0; i < METRICS_VALUE_N; i++) {
        value = value_of(&metrics->values[i]);
        write_head(out, value_rows[i].name, value_rows[i].help,
                   value_rows[i].type);
        if (value == METRICS_UNKNOWN)
            fprintf(out, "%s NaN\n", value_rows[i].name);
        else
            fprintf(out, "%s %" PRIu64 "\n", value_rows[i].name, value);
    }
    for (size_t i = 0; i < METRICS_HISTOGRAM_N; i++)
        write_histogram(metrics, i, out);
}
