/*
 * Counters, gauges and histograms, and their text for Prometheus (format 0.0.4).
 * Everything is a relaxed atomic: counting never makes anybody wait.
 */
#ifndef METRICS_H
#define METRICS_H

#include <stdint.h>
#include <stdio.h>

#include "server/base/order_outcome.h"

struct metrics;

#define METRICS_UNKNOWN UINT64_MAX /* of a gauge */

/* Values are set and counted by the names of metrics.txt. */
enum metrics_value {
#define ROW(type, name, ...) METRICS_##name,
#include "server/base/metrics.inc"
    METRICS_VALUE_N
};

enum metrics_histogram {
#define ROW(name, ...) METRICS_##name,
#include "server/base/histograms.inc"
    METRICS_HISTOGRAM_N
};

struct metrics *metrics_new(void);
void metrics_free(struct metrics *metrics);

void metrics_order(struct metrics *metrics, enum order_outcome outcome);
/* One HTTP reply; STATUS is 100 .. 599. */
void metrics_http(struct metrics *metrics, unsigned status);
void metrics_count(struct metrics *metrics, enum metrics_value which,
                   uint64_t n);
void metrics_set(struct metrics *metrics, enum metrics_value which,
                 uint64_t value);
void metrics_observe(struct metrics *metrics, enum metrics_histogram histogram,
                     uint64_t value);

void metrics_write(const struct metrics *metrics, FILE *out);

#endif
