/* The Prometheus text: histograms add up. What was counted is there: e2e/metrics.t. */
#include "server/base/metrics.h"
#include "tests/support/unit_test.h"

static const char *const lines[] = {
    "stockade_store_write_seconds_bucket{le=\"0.0001\"} 1",
    "stockade_store_write_seconds_bucket{le=\"0.0002\"} 2",
    "stockade_store_write_seconds_bucket{le=\"6.5536\"} 2",
    "stockade_store_write_seconds_bucket{le=\"+Inf\"} 3",
    "stockade_store_write_seconds_sum 3600.000201",
    "stockade_store_write_seconds_count 3",
    "stockade_batch_orders_bucket{le=\"1\"} 1",
    "stockade_batch_orders_bucket{le=\"64\"} 2",
    "stockade_batch_orders_bucket{le=\"1024\"} 2",
    "stockade_batch_orders_sum 5065",
    "stockade_batch_orders_count 3",
    "stockade_order_probes_bucket{le=\"1\"} 1",
    "stockade_order_probes_bucket{le=\"4\"} 2",
    "stockade_order_probes_sum 4",
    "stockade_order_probes_count 2",
};

UNIT_TEST(buckets_are_cumulative_and_bounds_inclusive)
{
    struct metrics *metrics = metrics_new();
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    metrics_observe(metrics, METRICS_COMMIT, 100);
    metrics_observe(metrics, METRICS_COMMIT, 101);
    metrics_observe(metrics, METRICS_COMMIT, 3600000000);
    metrics_observe(metrics, METRICS_BATCH, 1);
    metrics_observe(metrics, METRICS_BATCH, 64);
    metrics_observe(metrics, METRICS_BATCH, 5000);
    metrics_observe(metrics, METRICS_PROBES, 1);
    metrics_observe(metrics, METRICS_PROBES, 3);
    metrics_write(metrics, out);
    fclose(out);
    for (size_t i = 0; i < COUNT_OF(lines); i++)
        if (!strstr(text, text_of("\n%s\n", lines[i])))
            fail_msg("no line \"%s\" in:\n%s", lines[i], text);
    free(text);
    metrics_free(metrics);
}
