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

/* One row: the name, what Prometheus calls it, and the help. */
#define METRICS_COUNTER_MAP(X)                                                 \
    X(LOCKS_LOST, "stockade_locks_lost_total",                                 \
      "Locks found lost while they were held.")                                \
    X(REBALANCES, "stockade_rebalances_total",                                 \
      "Times that units were moved between a product's segments.")             \
    X(CHECKS, "stockade_sold_out_checks_total",                                \
      "Orders decided without a lock, most of them since memory says sold "    \
      "out: whether memory is right was looked at.")                           \
    X(WRONG, "stockade_false_sold_out_total",                                  \
      "Refusals of what was there, as far as found: has to be 0.")             \
    X(RETRIES, "stockade_store_retries_total",                                 \
      "Transactions that were run once more: another instance was in the "     \
      "way, or the connection was lost.")                                      \
    X(EXPIRED, "stockade_orders_expired_total",                                \
      "Orders that were not paid in time: their units are on sale again.")     \
    X(LATE_PAYMENTS, "stockade_late_payments_total",                           \
      "Payments of orders that were expired, cancelled or paid by then: to "   \
      "be refunded.")                                                          \
    X(CHANGES_FAILED, "stockade_changes_failed_total",                         \
      "Cancels, payments, restocks and changes of products that the "          \
      "database could not do.")

/* Gauges are set; until then nobody knows. */
#define METRICS_GAUGE_MAP(X)                                                   \
    X(WAITING, "stockade_orders_waiting",                                      \
      "Orders taken in and not answered yet.")                                 \
    X(WAITING_LIMIT, "stockade_orders_waiting_limit",                          \
      "Orders that may wait; more are refused.")                               \
    X(CONNECTIONS, "stockade_connections", "Open HTTP connections.")           \
    X(CONNECTIONS_LIMIT, "stockade_connections_limit",                         \
      "Connections that may be open.")                                         \
    X(VIEWERS, "stockade_viewers", "Open connections of GET /api/events.")     \
    X(READY, "stockade_ready",                                                 \
      "1 if an order would succeed, as far as was heard.")                     \
    X(STOCK, "stockade_stock_units",                                           \
      "Units left of all products, as of a scrape before.")                    \
    X(HELD, "stockade_held_units",                                             \
      "Units sold and not paid yet, as of a scrape before.")                   \
    X(STRANDED, "stockade_stranded_units",                                     \
      "Units in retired segments, as of a scrape before: has to be 0.")        \
    X(AUDITED, "stockade_audit_timestamp_seconds",                             \
      "When GET /api/audit was last answered here.")                           \
    X(OVERSOLD, "stockade_audit_oversold_units",                               \
      "Units sold beyond the stock, by that audit: has to be 0.")              \
    X(BALANCED, "stockade_audit_balanced",                                     \
      "1 if that audit found nothing wrong.")

enum metrics_value {
#define METRICS_ENUM(name, ...) METRICS_##name,
    METRICS_COUNTER_MAP(METRICS_ENUM) METRICS_GAUGE_MAP(METRICS_ENUM)
        METRICS_VALUE_N
};

/*
 * Behind the help stand the bound of the first bucket, how many there are but for that
 * above all, and what turns the number that was observed into the one that is shown:
 * microseconds are shown as seconds, from 100 us, 200 us, ... to 6.6 s.
 */
#define METRICS_HISTOGRAM_MAP(X)                                               \
    X(ORDER, "stockade_order_seconds",                                         \
      "From taking an order in to answering it.", 100, 17, 1e-6)               \
    X(LOCK_WAIT, "stockade_lock_wait_seconds",                                 \
      "One acquire of a lock, granted or not.", 100, 17, 1e-6)                 \
    X(LOCK_HOLD, "stockade_lock_hold_seconds",                                 \
      "From the grant of a lock to its release.", 100, 17, 1e-6)               \
    X(COMMIT, "stockade_store_write_seconds",                                  \
      "One guarded batch in the store, commit included.", 100, 17, 1e-6)       \
    X(BATCH, "stockade_batch_orders",                                          \
      "Orders of one lock that shared a transaction.", 1, 11, 1)               \
    X(PROBES, "stockade_order_probes",                                         \
      "Segments that an order was sent to before it was answered, "            \
      "of products with several.",                                             \
      1, 4, 1)

enum metrics_histogram {
    METRICS_HISTOGRAM_MAP(METRICS_ENUM)
#undef METRICS_ENUM
        METRICS_HISTOGRAM_N
};

struct metrics *metrics_new(void);
void metrics_free(struct metrics *metrics);

void metrics_order(struct metrics *metrics, enum order_outcome outcome);
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
