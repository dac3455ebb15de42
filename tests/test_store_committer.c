/*
 * The committer: nothing is answered before it is on disk, and what came before
 * the store is closed is.
 *
 * The committer is held just before a commit, so that what gathers behind it is
 * known and not a matter of luck.
 */
#include "tests/support/store_rig.h"

#include <stdatomic.h>
#include <unistd.h>

#define WRITES 12

static struct store_restock writes[WRITES];
static atomic_int answers;

static void on_answer(struct store_write *write)
{
    (void)write;
    atomic_fetch_add(&answers, 1);
}

/* N restocks of one unit: the first waits in its commit, the others behind it. */
static void crowd(struct store_rig *rig, int n)
{
    store_rig_hold(rig, true);
    for (int i = 0; i < n; i++) {
        writes[i] = (struct store_restock){
            .write = {.done = on_answer}, .product_id = 1, .quantity = 1};
        store_restock_begin(rig->store, &writes[i]);
        store_rig_wait(rig, &rig->steps.held, 1);
    }
}

static int set_up(void **state)
{
    struct store_rig *rig;

    store_rig_set_up(state);
    rig = *state;
    store_rig_put(rig, (struct store_product){.id = 1, .initial = 100});
    atomic_store(&answers, 0);
    return 0;
}

static void test_nothing_is_answered_before_the_commit(void **state)
{
    struct store_rig *rig = *state;

    crowd(rig, 1);
    assert_int_equal(store_rig_product(rig, 1).stock, 100);
    usleep(20000);
    assert_int_equal(atomic_load(&answers), 0);
    store_rig_hold(rig, false);
    store_rig_restock(rig, 1);
    assert_int_equal(atomic_load(&answers), 1);
    assert_int_equal(writes[0].write.status, STORE_OK);
    assert_int_equal(writes[0].product.stock, 101);
}

/* The sale ends while the order stands in the queue: too late. */
static void test_window_is_tested_at_the_commit(void **state)
{
    struct store_rig *rig = *state;
    struct store_order late = store_rig_ask(2, 1, 1, ""), *orders[] = {&late};
    struct store_lot lot = {.orders = orders, .n = 1};
    int64_t ends_ms = store_rig_wall_ms() + 1500;

    store_rig_put(
        rig, (struct store_product){.id = 2, .initial = 9, .ends_ms = ends_ms});
    store_rig_feed(rig);
    crowd(rig, 1);
    store_rig_offer(rig, &lot, 1);
    assert_true(store_rig_wall_ms() < ends_ms);
    while (store_rig_wall_ms() <= ends_ms)
        usleep(10000);
    store_rig_hold(rig, false);
    store_rig_wait(rig, &rig->feed.dones, 1);
    assert_int_equal(rig->feed.told[0].status, STORE_OK);
    assert_int_equal(late.status, STORE_ENDED);
}

static void *closer_main(void *arg)
{
    store_close(arg);
    return NULL;
}

static void on_late_answer(struct store_write *write)
{
    write->owner = NULL;
}

static void test_close_finishes_what_is_queued(void **state)
{
    static struct store_cancel late[10000];
    struct store_rig *rig = *state;
    pthread_t closer;
    int n = 0;

    crowd(rig, WRITES);
    store_reader_close(rig->reader);
    rig->reader = NULL;
    pthread_create(&closer, NULL, closer_main, rig->store);
    /* Until it has begun to close, what comes waits with the others. */
    do {
        usleep(1000);
        late[n].write.done = on_late_answer;
        late[n].write.owner = rig;
        store_cancel_begin(rig->store, &late[n]);
    } while (late[n].write.owner && ++n < 10000); /* not answered in the call */
    assert_in_range(n, 0, 9999);
    assert_int_equal(late[n].write.status, STORE_CLOSED);
    store_rig_hold(rig, false);
    pthread_join(closer, NULL);
    rig->store = NULL;
    assert_int_equal(atomic_load(&answers), WRITES);
    for (int i = 0; i < WRITES; i++)
        assert_int_equal(writes[i].write.status, STORE_OK);
    assert_ok(store_reader_open_url(rig->dir.url, &rig->reader, NULL));
    assert_int_equal(store_rig_product(rig, 1).stock, 100 + WRITES);
}

static const struct CMUnitTest tests[] = {
    STORE_RIG_OWN_TEST(test_nothing_is_answered_before_the_commit, set_up),
    STORE_RIG_OWN_TEST(test_window_is_tested_at_the_commit, set_up),
    STORE_RIG_OWN_TEST(test_close_finishes_what_is_queued, set_up),
};

TEST_MAIN(tests)
