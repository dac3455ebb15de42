/*
 * A store in a directory of its own, and a reader of it: what a test of the
 * store begins with. And a stream of orders into it, a transaction at a time.
 * Whatever is not as it has to be fails the test.
 */
#ifndef STORE_RIG_H
#define STORE_RIG_H

#include <pthread.h>

#include "db/store.h"
#include "tests/support/temp_dir.h"

struct store_rig {
    struct temp_dir dir;
    struct store *store;
    struct store_reader *reader;
};

/* For cmocka: *state becomes a rig with an open store, without a product. */
int store_rig_set_up(void **state);
int store_rig_tear_down(void **state);

#define STORE_RIG_TEST(test)                                                   \
    cmocka_unit_test_setup_teardown(test, store_rig_set_up, store_rig_tear_down)

/*
 * The same in steps, for a fixture that has a rig and more: makes the directory;
 * opens the store and a reader there, by OPTIONS, whose url is the rig's; closes
 * what is open, and removes the directory.
 */
void store_rig_begin(struct store_rig *rig);
void store_rig_open(struct store_rig *rig, struct store_options options);
void store_rig_end(struct store_rig *rig);

/* Puts PRODUCT on sale, or changes it. It needs no name. */
void store_rig_put(struct store_rig *rig, struct store_product product);
struct store_product store_rig_product(struct store_rig *rig, int64_t id);

/* An order to be placed. KEY is "" for none. */
struct store_order store_rig_ask(int64_t product_id, int64_t user_id,
                                 int64_t quantity, const char *key);

/* Places it alone and unfenced; order->status says how that ended. */
void store_rig_place(struct store_rig *rig, struct store_order *order);

/* Both; how it ended. */
enum store_status store_rig_buy(struct store_rig *rig, int64_t product_id,
                                int64_t user_id, int64_t quantity,
                                const char *key);

struct store_audit store_rig_audit(struct store_rig *rig);
void store_rig_expect_sound(struct store_rig *rig);

/* ---- a stream of orders --------------------------------------------------- */

#define STORE_RIG_LOTS 2

/* A stream, and the source of it: what a test offers is one transaction. */
struct store_rig_feed {
    struct store_stream *stream;
    void (*on_done)(void *ctx); /* at the beginning of done(); NULL = nothing */
    void *ctx;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    struct store_lot next[STORE_RIG_LOTS]; /* what take() hands out */
    size_t next_n;
    enum store_status told[STORE_RIG_LOTS]; /* what done() was told of each */
    struct store_error why;
    int takes, dones;
};

/* *feed is zero, and stays where it is until _close. */
void store_rig_feed_open(struct store_rig_feed *feed, struct store_rig *rig);
void store_rig_feed_close(struct store_rig_feed *feed);

/* The next transaction is to have these; it takes a wake for one to begin. */
void store_rig_feed_offer(struct store_rig_feed *feed,
                          const struct store_lot lots[], size_t n);

/* Waits until there were so many transactions in all. */
void store_rig_feed_wait(struct store_rig_feed *feed, int dones);

/* One transaction of these, and its end; how that was for the first of them. */
enum store_status store_rig_feed_go(struct store_rig_feed *feed,
                                    const struct store_lot lots[], size_t n);

#endif
