/*
 * The table of lanes: by product and segment. Private to lane.c.
 *
 * A lane is kept for a while after its last order, for what it knows about how
 * soon the next one comes. There are never more lanes than orders came in that
 * time.
 */
#ifndef LANE_TABLE_H
#define LANE_TABLE_H

#include "server/order/lane.h"

#define LANE_TABLE_BUCKETS 1024 /* a power of two */

/* All zero is an empty one. */
struct lane_table {
    struct lane *buckets[LANE_TABLE_BUCKETS];
};

/* NULL: there is none. */
struct lane *lane_table_find(const struct lane_table *table, int64_t product_id,
                             int64_t segment);

/* One that was not there: shut, and without orders. NULL: no memory. */
struct lane *lane_table_add(struct lane_table *table, int64_t product_id,
                            int64_t segment);

/* Frees those that are shut and empty, and had no order since BEFORE_US. */
void lane_table_forget(struct lane_table *table, uint64_t before_us);

#endif
