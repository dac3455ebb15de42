/*
 * Counters, gauges and histograms, and their text for Prometheus (format 0.0.4).
 * Everything is a relaxed atomic: counting never makes anybody wait.
 */
#ifndef METRICS_H
#define METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "server/base/order_outcome.h"

struct metrics;

#define METRICS_UNKNOWN UINT64_MAX /* of a gauge */

enum metrics_value {
    METRICS_LOCKS_LOST, /* a lock was gone before its holder released it */
    METRICS_REBALANCES, /* units were moved to a segment that had run dry */
    METRICS_CHECKS,     /* orders that memory says are sold out were held
                           against the database */
    METRICS_WRONG,      /* one was refused as sold out, and there was as much */
    METRICS_RETRIES,    /* transactions run once more; the store counts them */
    METRICS_EXPIRED, /* orders that were not paid in time; the store counts */
    METRICS_LATE_PAYMENTS,  /* refused, and on record: to be refunded */
    METRICS_CHANGES_FAILED, /* writes for a request, not orders: a 503 */
    /* From here on gauges, which are set; until then nobody knows. */
    METRICS_WAITING,           /* orders taken in and not answered yet */
    METRICS_WAITING_LIMIT,     /* how many of them there may be */
    METRICS_CONNECTIONS,       /* open; those about to be cut not counted */
    METRICS_CONNECTIONS_LIMIT, /* how many of them there may be */
    METRICS_VIEWERS,           /* of GET /api/events */
    METRICS_READY,             /* 1: an order would succeed; 0 */
    METRICS_STOCK,             /* units left, of all products */
    METRICS_HELD,              /* units sold, and not paid yet */
    METRICS_STRANDED,          /* units that are in retired segments */
    METRICS_AUDITED,  /* when the ledger was added up, in Unix seconds */
    METRICS_OVERSOLD, /* units sold beyond the stock, as it said then */
    METRICS_BALANCED, /* 1: it found nothing wrong; 0 */
    METRICS_VALUE_N
};

enum metrics_histogram {
    METRICS_ORDER,     /* us from taking an order in to its answer */
    METRICS_LOCK_WAIT, /* us of one acquire */
    METRICS_LOCK_HOLD, /* us from grant to release */
    METRICS_COMMIT,    /* us of one guarded batch, commit included */
    METRICS_BATCH,     /* orders placed under one lock in one transaction */
    METRICS_PROBES, /* segments that an order of a split product was sent to */
    METRICS_HISTOGRAM_N
};

struct metrics *metrics_new(void);
void metrics_free(struct metrics *metrics);

void metrics_order(struct metrics *metrics, enum order_outcome outcome);
/* The orders that ended with this outcome. */
uint64_t metrics_orders(const struct metrics *metrics,
                        enum order_outcome outcome);
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
