/* The Prometheus text: histograms add up. What was counted is there: e2e/metrics.t. */
#include "server/base/metrics.h"
#include "tests/support/unit_test.h"

/* To be freed. */
static char *written(const struct metrics *metrics)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    metrics_write(metrics, out);
    fclose(out);
    return text;
}

static void expect_line(const char *text, const char *line)
{
    const char *at = strstr(text, line);

    if (!at || (at != text && at[-1] != '\n') || at[strlen(line)] != '\n')
        fail_msg("no line \"%s\" in:\n%s", line, text);
}

UNIT_TEST(buckets_are_cumulative_and_bounds_inclusive)
{
    struct metrics *metrics = metrics_new();
    char *text;

    metrics_observe(metrics, METRICS_COMMIT, 100);
    metrics_observe(metrics, METRICS_COMMIT, 101);
    metrics_observe(metrics, METRICS_COMMIT, 3600000000);
    metrics_observe(metrics, METRICS_BATCH, 1);
    metrics_observe(metrics, METRICS_BATCH, 64);
    metrics_observe(metrics, METRICS_BATCH, 5000);
    metrics_observe(metrics, METRICS_PROBES, 1);
    metrics_observe(metrics, METRICS_PROBES, 3);
    text = written(metrics);
    expect_line(text, "stockade_store_write_seconds_bucket{le=\"0.0001\"} 1");
    expect_line(text, "stockade_store_write_seconds_bucket{le=\"0.0002\"} 2");
    expect_line(text, "stockade_store_write_seconds_bucket{le=\"6.5536\"} 2");
    expect_line(text, "stockade_store_write_seconds_bucket{le=\"+Inf\"} 3");
    expect_line(text, "stockade_store_write_seconds_sum 3600.000201");
    expect_line(text, "stockade_store_write_seconds_count 3");
    expect_line(text, "stockade_batch_orders_bucket{le=\"1\"} 1");
    expect_line(text, "stockade_batch_orders_bucket{le=\"64\"} 2");
    expect_line(text, "stockade_batch_orders_bucket{le=\"1024\"} 2");
    expect_line(text, "stockade_batch_orders_sum 5065");
    expect_line(text, "stockade_batch_orders_count 3");
    expect_line(text, "stockade_order_probes_bucket{le=\"1\"} 1");
    expect_line(text, "stockade_order_probes_bucket{le=\"4\"} 2");
    expect_line(text, "stockade_order_probes_sum 4");
    expect_line(text, "stockade_order_probes_count 2");
    free(text);
    metrics_free(metrics);
}
