/*
 * A store with a reader, and a stream into it. See store_rig.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/support/store_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void store_rig_begin(struct store_rig *rig)
{
    *rig = (struct store_rig){0};
    temp_dir_make(&rig->dir);
}

void store_rig_open(struct store_rig *rig, struct store_options options)
{
    options.url = rig->dir.url;
    assert_int_equal(store_open(&options, &rig->store, NULL), STORE_OK);
    assert_int_equal(store_reader_open(rig->store, &rig->reader, NULL),
                     STORE_OK);
}

void store_rig_end(struct store_rig *rig)
{
    store_reader_close(rig->reader);
    store_close(rig->store);
    temp_dir_remove(&rig->dir);
}

int store_rig_set_up(void **state)
{
    struct store_rig *rig = calloc(1, sizeof(*rig));

    store_rig_begin(rig);
    store_rig_open(rig, (struct store_options){0});
    *state = rig;
    return 0;
}

int store_rig_tear_down(void **state)
{
    store_rig_end(*state);
    free(*state);
    return 0;
}

void store_rig_put(struct store_rig *rig, struct store_product product)
{
    if (!product.name[0])
        snprintf(product.name, sizeof(product.name), "Thing");
    assert_int_equal(store_product_put(rig->store, &product, NULL, NULL),
                     STORE_OK);
}

struct store_product store_rig_product(struct store_rig *rig, int64_t id)
{
    struct store_product product;

    assert_int_equal(store_product_get(rig->reader, id, &product, NULL),
                     STORE_OK);
    return product;
}

struct store_order store_rig_ask(int64_t product_id, int64_t user_id,
                                 int64_t quantity, const char *key)
{
    struct store_order order = {
        .product_id = product_id, .user_id = user_id, .quantity = quantity};

    snprintf(order.key, sizeof(order.key), "%s", key);
    return order;
}

void store_rig_place(struct store_rig *rig, struct store_order *order)
{
    struct store_order *orders[] = {order};

    assert_int_equal(store_place(rig->store, orders, 1, NULL, NULL), STORE_OK);
}

enum store_status store_rig_buy(struct store_rig *rig, int64_t product_id,
                                int64_t user_id, int64_t quantity,
                                const char *key)
{
    struct store_order order =
        store_rig_ask(product_id, user_id, quantity, key);

    store_rig_place(rig, &order);
    return order.status;
}

struct store_audit store_rig_audit(struct store_rig *rig)
{
    struct store_audit verdict;

    assert_int_equal(
        store_audit(rig->reader, NULL, NULL, NULL, 0, &verdict, NULL),
        STORE_OK);
    return verdict;
}

void store_rig_expect_sound(struct store_rig *rig)
{
    assert_true(store_rig_audit(rig).balanced);
}

/* ---- a stream of orders --------------------------------------------------- */

static size_t take(void *ctx, struct store_lot lots[], size_t n_max)
{
    struct store_rig_feed *feed = ctx;
    size_t n;

    pthread_mutex_lock(&feed->mutex);
    feed->takes++;
    n = feed->next_n;
    assert_true(n <= n_max);
    memcpy(lots, feed->next, n * sizeof(lots[0]));
    feed->next_n = 0;
    pthread_mutex_unlock(&feed->mutex);
    return n;
}

static void done(void *ctx, struct store_lot lots[], size_t n,
                 const struct store_error *error)
{
    struct store_rig_feed *feed = ctx;

    if (feed->on_done)
        feed->on_done(feed->ctx);
    pthread_mutex_lock(&feed->mutex);
    for (size_t i = 0; i < n; i++)
        feed->told[i] = lots[i].status;
    feed->why = *error;
    feed->dones++;
    pthread_cond_broadcast(&feed->changed);
    pthread_mutex_unlock(&feed->mutex);
}

void store_rig_feed_open(struct store_rig_feed *feed, struct store_rig *rig)
{
    const struct store_source source = {
        .take = take, .done = done, .ctx = feed};

    pthread_mutex_init(&feed->mutex, NULL);
    pthread_cond_init(&feed->changed, NULL);
    assert_int_equal(
        store_stream_open(rig->store, &source, &feed->stream, NULL), STORE_OK);
}

void store_rig_feed_close(struct store_rig_feed *feed)
{
    store_stream_close(feed->stream);
    pthread_cond_destroy(&feed->changed);
    pthread_mutex_destroy(&feed->mutex);
}

void store_rig_feed_offer(struct store_rig_feed *feed,
                          const struct store_lot lots[], size_t n)
{
    assert_true(n <= STORE_RIG_LOTS);
    pthread_mutex_lock(&feed->mutex);
    memcpy(feed->next, lots, n * sizeof(lots[0]));
    feed->next_n = n;
    pthread_mutex_unlock(&feed->mutex);
}

void store_rig_feed_wait(struct store_rig_feed *feed, int dones)
{
    pthread_mutex_lock(&feed->mutex);
    while (feed->dones < dones)
        pthread_cond_wait(&feed->changed, &feed->mutex);
    pthread_mutex_unlock(&feed->mutex);
}

enum store_status store_rig_feed_go(struct store_rig_feed *feed,
                                    const struct store_lot lots[], size_t n)
{
    int before;

    store_rig_feed_offer(feed, lots, n);
    pthread_mutex_lock(&feed->mutex);
    before = feed->dones;
    pthread_mutex_unlock(&feed->mutex);
    assert_true(store_stream_wake(feed->stream));
    store_rig_feed_wait(feed, before + 1);
    return feed->told[0];
}
