/*
 * A store with one product, number 1, whose stock is split over segments.
 */
#ifndef SEGMENT_RIG_H
#define SEGMENT_RIG_H

#include "db/store.h"
#include "tests/support/temp_dir.h"

struct segment_rig {
    struct temp_dir dir;
    struct store *store;
    struct store_reader *reader;
};

/* For cmocka: *state becomes a rig with an open store, without the product. */
int segment_rig_set_up(void **state);
int segment_rig_tear_down(void **state);

/* Creates the product, or resizes it. UNITS are its first ones. */
void segment_rig_put(struct segment_rig *rig, int64_t units, int64_t segments);
void segment_rig_resize(struct segment_rig *rig, int64_t segments);

/* Places one order of user 1; how it ended. */
enum store_status segment_rig_buy(struct segment_rig *rig, int64_t segment,
                                  int64_t quantity);

/* The same, which has to end well. */
struct store_order segment_rig_order(struct segment_rig *rig, int64_t segment,
                                     int64_t quantity);

void segment_rig_cancel(struct segment_rig *rig, const struct store_order *it);

struct store_product segment_rig_product(struct segment_rig *rig);
struct store_cells segment_rig_cells(struct segment_rig *rig);

/* The stock of the cells in use: "3 3 2 2". */
#define SEGMENT_RIG_TEXT_BYTES 4096
void segment_rig_stock(struct segment_rig *rig,
                       char text[SEGMENT_RIG_TEXT_BYTES]);

/* It is exactly that. */
void segment_rig_expect(struct segment_rig *rig, const char *stock);

/* What an order took from where: "0:3 2:1". */
void segment_rig_expect_parts(struct segment_rig *rig,
                              const struct store_order *order,
                              const char *parts);

struct store_audit segment_rig_audit(struct segment_rig *rig);
void segment_rig_expect_sound(struct segment_rig *rig);

#endif
