/* See lane_table.h. */
#include "server/order/lane_table.h"

#include <stdlib.h>

static size_t bucket_of(int64_t product_id, int64_t segment)
{
    uint64_t key =
        (uint64_t)product_id * (STORE_SEGMENTS_MAX + 1) + (uint64_t)segment;

    /* Fibonacci hashing: neighbouring ids end up far apart. */
    return ((key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) % LANE_TABLE_BUCKETS;
}

struct lane *lane_table_find(const struct lane_table *table, int64_t product_id,
                             int64_t segment)
{
    struct lane *lane = table->buckets[bucket_of(product_id, segment)];

    while (lane && (lane->product_id != product_id || lane->segment != segment))
        lane = lane->next_in_bucket;
    return lane;
}

struct lane *lane_table_add(struct lane_table *table, int64_t product_id,
                            int64_t segment)
{
    struct lane **bucket = &table->buckets[bucket_of(product_id, segment)];
    struct lane *lane = calloc(1, sizeof(*lane));

    if (!lane)
        return NULL;
    lane->product_id = product_id;
    lane->segment = segment;
    TAILQ_INIT(&lane->tickets);
    lane->gap_us = UINT64_MAX;
    lane->next_in_bucket = *bucket;
    *bucket = lane;
    return lane;
}

static bool is_needed(const struct lane *lane, uint64_t before_us)
{
    return lane->state != LANE_SHUT || lane_is_waited_for(lane) ||
           lane->pushed_us >= before_us;
}

void lane_table_forget(struct lane_table *table, uint64_t before_us)
{
    struct lane **slot, *lane;

    for (size_t i = 0; i < LANE_TABLE_BUCKETS; i++) {
        slot = &table->buckets[i];
        while ((lane = *slot)) {
            if (is_needed(lane, before_us)) {
                slot = &lane->next_in_bucket;
            } else {
                *slot = lane->next_in_bucket;
                holds_release(&lane->holds);
                free(lane);
            }
        }
    }
}
