/* The Prometheus text: what was counted is there, histograms add up. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/metrics.h"
#include "tests/support/unit_test.h"

static int set_up(void **state)
{
    return (*state = metrics_new()) ? 0 : -1;
}

static int tear_down(void **state)
{
    metrics_free(*state);
    return 0;
}

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

static void counts_appear(void **state)
{
    struct metrics *metrics = *state;
    char *text;

    metrics_order(metrics, ORDER_SOLD_OUT);
    metrics_order(metrics, ORDER_SOLD_OUT);
    metrics_http(metrics, 409);
    metrics_http(metrics, 700); /* no such status: not counted, no crash */
    metrics_count(metrics, METRICS_LOCKS_LOST, 1);
    metrics_count(metrics, METRICS_REBALANCES, 1);
    metrics_count(metrics, METRICS_REBALANCES, 1);
    metrics_count(metrics, METRICS_CHECKS, 5);
    metrics_count(metrics, METRICS_WRONG, 0);
    metrics_count(metrics, METRICS_CHECKS, 3);
    metrics_count(metrics, METRICS_WRONG, 1);
    metrics_count(metrics, METRICS_WRONG, 1);
    text = written(metrics);
    expect_line(text, "stockade_stranded_units NaN");
    free(text);
    metrics_set(metrics, METRICS_WAITING, 5);
    metrics_set(metrics, METRICS_STRANDED, 7);
    metrics_set(metrics, METRICS_STRANDED, 3);
    text = written(metrics);
    expect_line(text, "stockade_orders_total{outcome=\"sold-out\"} 2");
    for (int i = 0; i < ORDER_OUTCOME_N; i++)
        assert_non_null(
            strstr(text, order_outcome_slug((enum order_outcome)i)));
    expect_line(text, "stockade_orders_total{outcome=\"placed\"} 0");
    expect_line(text, "stockade_http_responses_total{class=\"4xx\"} 1");
    expect_line(text, "stockade_locks_lost_total 1");
    expect_line(text, "stockade_rebalances_total 2");
    expect_line(text, "stockade_orders_waiting 5");
    expect_line(text, "stockade_sold_out_checks_total 8");
    expect_line(text, "stockade_false_sold_out_total 2");
    expect_line(text, "stockade_stranded_units 3");
    free(text);
}

static void buckets_are_cumulative_and_bounds_inclusive(void **state)
{
    struct metrics *metrics = *state;
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
}

static const struct CMUnitTest tests[] = {
    FIXTURE_TEST(counts_appear),
    FIXTURE_TEST(buckets_are_cumulative_and_bounds_inclusive),
};

TEST_MAIN(tests)
