/*
 * The stream of orders: taken when a transaction begins, answered when it is on
 * disk, each lot on its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "db/committer.h"
#include "db/store_private.h"
#include "tests/support/store_rig.h"

#define ORDERS 8

struct fixture {
    struct store_rig rig;
    struct store_rig_feed feed;
    struct store_order orders[ORDERS];
    struct store_order *all[ORDERS];
    struct store_fence fences[2];
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int commits;
    bool hold;           /* the next commit waits */
    bool known;          /* that 1 is sold out, at the last commit's end */
    bool restock;        /* in the middle of the next look: at a product, */
    bool restock_key;    /* or for a key */
    const char *failing; /* the step that fails */
    bool closing;        /* the stream; done() wakes it once more */
    bool closed;
    struct committer_job last;
};

static void restock_one(struct fixture *f)
{
    assert_int_equal(
        store_restock(f->rig.store, 1, 1, "", &(struct store_product){0}, NULL),
        STORE_OK);
}

static enum store_verdict on_step(void *ctx, const char *step,
                                  int64_t product_id, enum store_phase phase)
{
    struct fixture *f = ctx;
    bool fails, restock;

    (void)product_id;
    pthread_mutex_lock(&f->mutex);
    if (strcmp(step, "commit") == 0 && phase == STORE_BEFORE) {
        f->commits++;
        pthread_cond_broadcast(&f->changed);
        while (f->hold)
            pthread_cond_wait(&f->changed, &f->mutex);
    }
    if (strcmp(step, "commit") == 0 && phase == STORE_AFTER && f->rig.store)
        f->known = store_knows_sold_out(f->rig.store, 1, 1);
    restock = (strcmp(step, "product-get") == 0 && f->restock) ||
              (strcmp(step, "order-by-key") == 0 && phase == STORE_AFTER &&
               f->restock_key);
    f->restock &= !restock;
    f->restock_key &= !restock;
    fails =
        phase == STORE_BEFORE && f->failing && strcmp(step, f->failing) == 0;
    pthread_mutex_unlock(&f->mutex);
    if (restock)
        restock_one(f);
    return fails ? STORE_FAIL : STORE_GO;
}

/* ---- closing in the middle ------------------------------------------------ */

#define LOOK_MS 200

static enum store_status do_nothing(struct sqlite *db, void *ctx,
                                    struct store_error *error)
{
    (void)db, (void)ctx, (void)error;
    return STORE_OK;
}

/* Time for who closes too early to be done with it. */
static void wait_closed(struct committer_job *job)
{
    struct fixture *f = job->ctx;
    bool closed = false;

    for (int i = 0; i < LOOK_MS && !closed; i++) {
        usleep(1000);
        pthread_mutex_lock(&f->mutex);
        closed = f->closed;
        pthread_mutex_unlock(&f->mutex);
    }
}

/* The stream is being closed, which this call does not know, and wakes it. (That
 * the first of the closer's jobs is in the queue by then nobody tells: if it is
 * not, the test shows nothing.) */
static void wake_once_more(struct fixture *f)
{
    pthread_mutex_lock(&f->mutex);
    while (!f->closing)
        pthread_cond_wait(&f->changed, &f->mutex);
    pthread_mutex_unlock(&f->mutex);
    usleep(LOOK_MS * 1000 / 4);
    f->last = (struct committer_job){
        .run = do_nothing, .done = wait_closed, .ctx = f};
    assert_true(committer_submit(f->rig.store->committer, &f->last));
    assert_true(store_stream_wake(f->feed.stream));
}

static void done_while_closing(void *ctx)
{
    struct fixture *f = ctx;

    pthread_mutex_lock(&f->mutex);
    assert_false(f->closed);
    pthread_mutex_unlock(&f->mutex);
    if (f->feed.dones == 0)
        wake_once_more(f);
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    const struct store_options options = {.on_step = on_step, .on_step_ctx = f};

    store_rig_begin(&f->rig);
    pthread_mutex_init(&f->mutex, NULL);
    pthread_cond_init(&f->changed, NULL);
    store_rig_open(&f->rig, options);
    store_rig_feed_open(&f->feed, &f->rig);
    store_rig_put(&f->rig, (struct store_product){.id = 1, .initial = 5});
    store_rig_put(&f->rig, (struct store_product){.id = 2, .initial = 5});
    for (int i = 0; i < ORDERS; i++) {
        f->all[i] = &f->orders[i];
        f->orders[i] = (struct store_order){
            .product_id = i < ORDERS / 2 ? 1 : 2,
            .user_id = i + 1,
            .quantity = 1,
        };
    }
    f->fences[0] = (struct store_fence){"lock:1", 10, "me", false, NULL};
    f->fences[1] = (struct store_fence){"lock:2", 10, "me", false, NULL};
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    store_rig_feed_close(&f->feed);
    store_rig_end(&f->rig);
    free(f);
    return 0;
}

/* Orders of product 1, and of product 2, each under its lock. */
static void lots_of_both(struct fixture *f, struct store_lot lots[2])
{
    for (size_t i = 0; i < 2; i++)
        lots[i] = (struct store_lot){.orders = f->all + i * ORDERS / 2,
                                     .n = ORDERS / 2,
                                     .fence = &f->fences[i]};
}

static void hold(struct fixture *f, bool on)
{
    pthread_mutex_lock(&f->mutex);
    f->hold = on;
    f->commits = 0;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->mutex);
}

static void go(struct fixture *f)
{
    struct store_lot lots[2];

    lots_of_both(f, lots);
    store_rig_feed_go(&f->feed, lots, 2);
}

static int placed(const struct fixture *f)
{
    int n = 0;

    for (int i = 0; i < ORDERS; i++)
        n += f->orders[i].status == STORE_OK && f->orders[i].number > 0;
    return n;
}

static void two_lots_share_one_commit(void **state)
{
    struct fixture *f = *state;

    f->commits = 0;
    go(f);
    assert_int_equal(placed(f), ORDERS);
    assert_int_equal(f->feed.told[0], STORE_OK);
    assert_int_equal(f->feed.told[1], STORE_OK);
    assert_int_equal(f->commits, 1);
}

/* Woken any number of times while a batch is on its way: one more take(). */
static void many_wakes_are_one_take(void **state)
{
    struct fixture *f = *state;
    struct store_lot lots[2];

    hold(f, true);
    lots_of_both(f, lots);
    store_rig_feed_offer(&f->feed, lots, 2);
    assert_true(store_stream_wake(f->feed.stream));
    pthread_mutex_lock(&f->mutex);
    while (f->commits == 0)
        pthread_cond_wait(&f->changed, &f->mutex);
    pthread_mutex_unlock(&f->mutex);
    for (int i = 0; i < 100; i++)
        assert_true(store_stream_wake(f->feed.stream));
    assert_int_equal(f->feed.takes, 1);
    hold(f, false);
    store_rig_feed_wait(&f->feed, 1);
}

static void a_stale_lot_does_not_hurt_the_other(void **state)
{
    struct fixture *f = *state;
    struct store_fence newer = {"lock:1", 11, "other", false, NULL};

    assert_int_equal(store_stamp(f->rig.store, &newer, NULL), STORE_OK);
    go(f);
    assert_int_equal(f->feed.told[0], STORE_STALE_FENCE);
    assert_int_equal(f->feed.told[1], STORE_OK);
    assert_int_equal(placed(f), ORDERS / 2);
    assert_int_equal(f->orders[0].status, STORE_STALE_FENCE);
    assert_non_null(
        strstr(f->feed.why.text, "token 10 came, 11 was announced"));
}

static void a_commit_that_fails_fails_all(void **state)
{
    struct fixture *f = *state;

    f->failing = "commit";
    go(f);
    assert_int_equal(f->feed.told[0], STORE_IO);
    assert_int_equal(f->feed.told[1], STORE_IO);
    assert_int_equal(placed(f), 0);
    assert_string_equal(f->feed.why.text, "the commit failed on purpose");
    f->failing = NULL;
    go(f);
    assert_int_equal(placed(f), ORDERS);
}

static void a_place_that_fails_fails_all(void **state)
{
    struct fixture *f = *state;

    f->failing = "place";
    go(f);
    assert_int_equal(f->feed.told[1], STORE_IO);
    assert_int_equal(placed(f), 0);
}

static void what_is_sold_out_is_known_until_a_cancel(void **state)
{
    struct fixture *f = *state;
    struct store_order cancelled;
    char id[STORE_ID_BYTES_MAX + 1];

    assert_false(store_knows_sold_out(f->rig.store, 1, 1));
    go(f);
    assert_false(store_knows_sold_out(f->rig.store, 1, 1));
    memcpy(id, f->orders[0].id, sizeof(id));
    go(f); /* 5 units, 8 orders */
    assert_int_equal(placed(f), 2);
    assert_true(store_knows_sold_out(f->rig.store, 1, 1));
    assert_true(store_knows_sold_out(f->rig.store, 2, 7));
    assert_false(store_knows_sold_out(f->rig.store, 3, 1));
    assert_int_equal(store_cancel(f->rig.store, id, &cancelled, NULL),
                     STORE_OK);
    assert_false(store_knows_sold_out(f->rig.store, 1, 1));
    go(f);
    assert_int_equal(placed(f), 1);
    assert_true(store_knows_sold_out(f->rig.store, 1, 1));
    restock_one(f);
    assert_false(f->known); /* nor when it was committed and not yet told */
    assert_false(store_knows_sold_out(f->rig.store, 1, 1));
}

static enum store_check check(struct fixture *f, int64_t quantity)
{
    enum store_check found;

    assert_int_equal(store_check_sold_out(f->rig.store, f->rig.reader, 1,
                                          quantity, &found, NULL),
                     STORE_OK);
    return found;
}

/* A lie is planted: the product has five, and is said to have none. */
static void what_is_known_wrongly_is_found(void **state)
{
    struct fixture *f = *state;
    struct soldout *soldout = &f->rig.store->soldout;

    assert_int_equal(check(f, 1), STORE_CHECK_NOTHING);
    soldout_note(soldout, 1, 1, soldout_generation(soldout));
    assert_true(store_knows_sold_out(f->rig.store, 1, 1));
    assert_int_equal(check(f, 1), STORE_CHECK_WRONG);
    assert_int_equal(check(f, 5), STORE_CHECK_WRONG);
    assert_int_equal(check(f, 6), STORE_CHECK_RIGHT);
    restock_one(f);
    assert_int_equal(check(f, 1),
                     STORE_CHECK_NOTHING); /* it is not said any more */
}

/* What was true when it was said is not wrong because stock has come since. */
static void what_was_known_rightly_is_not_wrong(void **state)
{
    struct fixture *f = *state;

    go(f);
    go(f);
    assert_true(store_knows_sold_out(f->rig.store, 1, 1));
    assert_int_equal(check(f, 1), STORE_CHECK_RIGHT);
    f->restock = true;
    assert_int_equal(check(f, 1), STORE_CHECK_NOTHING);
    assert_false(f->restock);
    assert_false(store_knows_sold_out(f->rig.store, 1, 1));
}

/* Whether an order of one unit with KEY is sure to be refused. */
static bool is_hopeless(struct fixture *f, const char *key)
{
    const struct store_order order = store_rig_ask(1, 1, 1, key);
    enum store_status status;
    bool sold_out;

    status = store_look_sold_out(f->rig.store, f->rig.reader, &order, &sold_out,
                                 NULL);
    assert_true(status == STORE_OK || !sold_out);
    return sold_out;
}

static void who_has_a_key_is_looked_up(void **state)
{
    struct fixture *f = *state;

    strcpy(f->orders[0].key, "bought");
    assert_false(is_hopeless(f, ""));
    go(f);
    f->orders[0].key[0] = '\0';
    go(f);
    assert_true(is_hopeless(f, ""));
    assert_true(is_hopeless(f, "late"));
    assert_false(is_hopeless(f, "bought"));
    f->failing = "order-by-key";
    assert_false(is_hopeless(f, "late"));
    f->failing = NULL;
    assert_true(is_hopeless(f, "late"));
}

/* A unit comes when the key has been looked up and nothing is said yet. */
static void what_comes_during_the_look_is_not_denied(void **state)
{
    struct fixture *f = *state;

    go(f);
    go(f);
    assert_true(is_hopeless(f, "late"));
    f->restock_key = true;
    assert_false(is_hopeless(f, "late"));
    assert_false(f->restock_key);
}

/* Two cells of 3 and 2: what one is short of the other may have. */
static void what_is_short_is_not_known_as_sold_out(void **state)
{
    struct fixture *f = *state;
    const struct store_product product = {.id = 1, .initial = 5, .segments = 2};

    store_rig_put(&f->rig, product);
    go(f); /* 4 units wanted from the cell with 3 */
    assert_int_equal(f->orders[3].status, STORE_SHORT);
    assert_false(store_knows_sold_out(f->rig.store, 1, 1));
    f->orders[0].segment = STORE_SEGMENT_ANY;
    f->orders[1].segment = STORE_SEGMENT_ANY;
    go(f);
    assert_int_equal(f->orders[0].from_segment, 1);
    assert_int_equal(f->orders[3].status, STORE_SOLD_OUT);
    assert_true(store_knows_sold_out(f->rig.store, 1, 1));
    /* It may have brought back what lay in a cell out of use. */
    assert_int_equal(store_even_out(f->rig.store, 1, NULL, NULL), STORE_OK);
    assert_false(store_knows_sold_out(f->rig.store, 1, 1));
}

/* Nothing was sold out: the transaction that said so never was. */
static void a_refusal_that_was_not_committed_is_not_known(void **state)
{
    struct fixture *f = *state;

    f->failing = "commit";
    f->orders[0].quantity = 5;
    go(f);
    f->failing = NULL;
    assert_false(store_knows_sold_out(f->rig.store, 1, 1));
}

/* When it returns the last done() has, also of a batch that a done() under way
 * has asked for meanwhile. */
static void closing_waits_for_what_a_done_has_woken(void **state)
{
    struct fixture *f = *state;
    int dones;

    f->feed.on_done = done_while_closing;
    f->feed.ctx = f;
    assert_true(store_stream_wake(f->feed.stream));
    pthread_mutex_lock(&f->mutex);
    f->closing = true;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->mutex);
    store_stream_close(f->feed.stream);
    pthread_mutex_lock(&f->mutex);
    f->feed.stream = NULL;
    f->closed = true;
    dones = f->feed.dones;
    pthread_mutex_unlock(&f->mutex);
    assert_int_equal(dones, 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(two_lots_share_one_commit),
        TEST(many_wakes_are_one_take),
        TEST(a_stale_lot_does_not_hurt_the_other),
        TEST(a_commit_that_fails_fails_all),
        TEST(a_place_that_fails_fails_all),
        TEST(what_is_sold_out_is_known_until_a_cancel),
        TEST(what_is_known_wrongly_is_found),
        TEST(what_was_known_rightly_is_not_wrong),
        TEST(who_has_a_key_is_looked_up),
        TEST(what_comes_during_the_look_is_not_denied),
        TEST(what_is_short_is_not_known_as_sold_out),
        TEST(a_refusal_that_was_not_committed_is_not_known),
        TEST(closing_waits_for_what_a_done_has_woken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
