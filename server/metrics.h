/*
 * Counters and histograms, and their text for Prometheus (format 0.0.4).
 * Everything is a relaxed atomic: counting never makes anybody wait.
 */
#ifndef METRICS_H
#define METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "server/order/order.h"

struct metrics;

/* Histograms of durations, in microseconds when observed. */
enum metrics_timer {
    METRICS_ORDER,     /* from the desk's door to the answer */
    METRICS_LOCK_WAIT, /* one acquire */
    METRICS_LOCK_HOLD, /* from grant to release */
    METRICS_COMMIT,    /* one guarded placing of a batch, commit included */
    METRICS_TIMER_N
};

struct metrics *metrics_new(void);
void metrics_free(struct metrics *metrics);

void metrics_order(struct metrics *metrics, enum order_outcome outcome);
void metrics_time(struct metrics *metrics, enum metrics_timer timer,
                  uint64_t us);
/* Orders that went through one lock cycle together. */
void metrics_batch(struct metrics *metrics, size_t orders);
/* Segments that an order was sent to, of a product with several. */
void metrics_probes(struct metrics *metrics, size_t segments);
/* One HTTP reply; STATUS is 100 .. 599. */
void metrics_http(struct metrics *metrics, unsigned status);
/* A lock was gone before its holder released it. */
void metrics_lock_lost(struct metrics *metrics);
/* Units were moved to a segment that had run dry. */
void metrics_rebalance(struct metrics *metrics);

/* An order was refused as sold out, and there was as much. */
void metrics_false_sold_out(struct metrics *metrics);
/* A refusal from memory was held against the database. */
void metrics_sold_out_checked(struct metrics *metrics);
/* UNITS are in retired cells now. */
void metrics_stranded(struct metrics *metrics, int64_t units);

/* Writes all of them, plus the gauges given by the caller. */
void metrics_write(const struct metrics *metrics, size_t desk_depth, FILE *out);

#endif
