/* The source of orders of store_rig.h. */
#include "tests/support/store_rig.h"

#include <string.h>

static bool attend(void *ctx, uint64_t *due_us)
{
    struct store_rig *rig = ctx;
    struct store_rig_feed *feed = &rig->feed;
    void (*on_attend)(void *ctx);
    bool has;

    (void)due_us;
    pthread_mutex_lock(&rig->mutex);
    on_attend = feed->on_attend;
    pthread_mutex_unlock(&rig->mutex);
    if (on_attend)
        on_attend(feed->ctx);
    pthread_mutex_lock(&rig->mutex);
    feed->attends++;
    has = feed->next_n > 0;
    pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->mutex);
    return has;
}

static size_t take(void *ctx, struct store_lot lots[], size_t n_max)
{
    struct store_rig *rig = ctx;
    struct store_rig_feed *feed = &rig->feed;
    size_t n;

    pthread_mutex_lock(&rig->mutex);
    feed->takes++;
    n = feed->next_n;
    assert_true(n <= n_max);
    memcpy(lots, feed->next, n * sizeof(lots[0]));
    feed->next_n = 0;
    pthread_mutex_unlock(&rig->mutex);
    return n;
}

static void done(void *ctx, struct store_lot lots[], size_t n,
                 const struct store_error *error)
{
    struct store_rig *rig = ctx;
    struct store_rig_feed *feed = &rig->feed;

    pthread_mutex_lock(&rig->mutex);
    memcpy(feed->told, lots, n * sizeof(lots[0]));
    feed->why = *error;
    feed->dones++;
    pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->mutex);
}

void store_rig_feed(struct store_rig *rig)
{
    const struct store_source source = {
        .attend = attend, .take = take, .done = done, .ctx = rig};

    store_source_attach(rig->store, &source);
    store_rig_wait(rig, &rig->feed.attends, 1);
}

void store_rig_offer(struct store_rig *rig, const struct store_lot lots[],
                     size_t n)
{
    assert_true(n <= STORE_RIG_LOTS);
    pthread_mutex_lock(&rig->mutex);
    memcpy(rig->feed.next, lots, n * sizeof(lots[0]));
    rig->feed.next_n = n;
    pthread_mutex_unlock(&rig->mutex);
    store_source_wake(rig->store);
}

/* One at a time: between two nothing is under way. */
enum store_status store_rig_go(struct store_rig *rig,
                               const struct store_lot lots[], size_t n)
{
    int before = rig->feed.dones;

    store_rig_offer(rig, lots, n);
    store_rig_wait(rig, &rig->feed.dones, before + 1);
    return rig->feed.told[0].status;
}

enum store_status store_rig_go_order(struct store_rig *rig,
                                     struct store_order *order)
{
    struct store_lot lot = {.orders = &order, .n = 1};
    enum store_status status = store_rig_go(rig, &lot, 1);

    return status == STORE_OK ? order->status : status;
}
