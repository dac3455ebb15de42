/*
 * Orders and locks: which are taken, for how long they are kept, and who has to
 * wait for whom.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/order_rig.h"

/* ---- how long a lock is kept ----------------------------------------------- */

#define MANY 200

static void sell(struct order_rig *rig, int64_t product, int n)
{
    for (int i = 0; i < n; i++)
        assert_int_equal(order_rig_buy(rig, product, i + 1, 1, ""),
                         ORDER_PLACED);
}

/* When no orders come any more, others can have it. */
static void a_lock_that_is_not_used_is_given_back(void **state)
{
    struct order_rig *rig = order_rig_open(NULL);

    (void)state;
    order_rig_put(rig, 1, 1000, 1);
    sell(rig, 1, 1);
    order_foreign_close(order_foreign_open(1, 1));
    sell(rig, 1, MANY);
    order_foreign_close(order_foreign_open(1, 1));
    sell(rig, 1, 1);
    order_rig_expect_ledger(rig, 1, MANY + 2);
    order_rig_close(rig);
}

static void a_lock_is_kept_while_orders_come(void **state)
{
    struct order_rig *rig = order_rig_open(NULL);

    (void)state;
    order_rig_put(rig, 1, 1000, 1);
    sell(rig, 1, MANY);
    assert_in_range(order_watch_begun(order_rig_watch(rig), "eval-acquire", 1),
                    1, MANY / 4);
    order_rig_close(rig);
}

struct sale {
    struct order_rig *rig;
    atomic_bool over;
};

static void *sell_until_over(void *arg)
{
    struct sale *sale = arg;
    int64_t user = 1;

    while (!atomic_load(&sale->over))
        order_rig_buy(sale->rig, 1, user++, 1, "");
    return NULL;
}

/* Orders come all the time; another instance wants the lock, and gets it. */
static void who_waits_for_it_elsewhere_gets_it(void **state)
{
    const struct order_rig_options options = {.shared = true,
                                              .lock_wait_ms = 30000};
    struct sale sale = {.rig = order_rig_open(&options)};
    pthread_t seller;

    (void)state;
    order_rig_put(sale.rig, 1, 100000000, 1);
    pthread_create(&seller, NULL, sell_until_over, &sale);
    for (int i = 0; i < 3; i++)
        order_foreign_close(order_foreign_open(1, 1));
    atomic_store(&sale.over, true);
    pthread_join(seller, NULL);
    assert_int_equal(order_rig_count(sale.rig, 1, ORDER_PLACED),
                     order_rig_answered(sale.rig));
    order_rig_close(sale.rig);
}

/* ---- a lock that was lost -------------------------------------------------- */

struct announcement {
    struct store *store;
    struct store_fence fence;
    enum store_status status;
};

static void *announce(void *arg)
{
    struct announcement *it = arg;

    it->status = store_stamp(it->store, &it->fence, NULL);
    return NULL;
}

/*
 * While an order is in the commit the lock passes on: somebody announces a later
 * token. The orders that waited behind are not written under the old one; the
 * lock is taken again, and they are placed.
 */
static void a_lock_that_was_overtaken_is_taken_again(void **state)
{
    struct order_rig *rig = order_rig_open(NULL);
    struct order_watch *watch = order_rig_watch(rig);
    struct announcement next = {
        .store = order_rig_store(rig),
        .fence = {.name = "lock:{1:0}", .token = 100, .owner = "later"}};
    pthread_t announcer;

    (void)state;
    order_rig_put(rig, 1, 1000, 1);
    order_watch_hold(watch, "commit", 0);
    order_rig_submit(rig, 1, 1, 1, "");
    order_watch_await_held(watch, 1);
    pthread_create(&announcer, NULL, announce, &next);
    usleep(20000); /* so that it waits by then; it is right either way */
    for (int i = 0; i < 20; i++)
        order_rig_submit(rig, 1, i + 2, 1, "");
    order_watch_let_go(watch);
    pthread_join(announcer, NULL);
    assert_int_equal(next.status, STORE_OK);
    order_rig_await_answered(rig, 21);
    assert_int_equal(order_rig_count(rig, 1, ORDER_PLACED), 21);
    order_rig_expect_ledger(rig, 1, 21);
    order_rig_close(rig);
}

/* The same when nobody is in a transaction: the lock that is kept for the next
 * order is not ours any more. */
static void a_lock_that_was_kept_too_long_is_taken_again(void **state)
{
    struct order_rig *rig = order_rig_open(NULL);
    struct store_fence fence = {.name = "lock:{1:0}", .owner = "later"};

    (void)state;
    order_rig_put(rig, 1, 1000, 1);
    for (uint64_t round = 1; round <= 20; round++) {
        sell(rig, 1, 20);
        fence.token = 1000 * round;
        assert_int_equal(store_stamp(order_rig_store(rig), &fence, NULL),
                         STORE_OK);
    }
    sell(rig, 1, 20);
    order_rig_expect_ledger(rig, 1, 420);
    order_rig_close(rig);
}

/* The lease ends before the work does, each time: a no, and not a wait for ever. */
static void a_lease_shorter_than_the_work_ends_in_a_no(void **state)
{
    const struct order_rig_options options = {
        .lock_wait_ms = 1000, .lock_lease_ms = 20, .think_ms = 60};
    struct order_rig *rig = order_rig_open(&options);
    struct rig_order *order;

    (void)state;
    order_rig_put(rig, 1, 1000, 1);
    for (int i = 0; i < 4; i++) {
        order = order_rig_submit(rig, 1, 1, 1, "");
        assert_int_equal(order_rig_await(rig, order), ORDER_LOCK_TIMEOUT);
        assert_in_range(order_rig_took_ms(order), 0,
                        1000 + 300 * order_rig_slow());
    }
    order_rig_expect_ledger(rig, 1, 0);
    order_rig_close(rig);
}

/* Its holder is gone, and nobody tells: who waits has it when the lease ends. */
static void a_lock_whose_lease_ends_is_taken_at_once(void **state)
{
    struct order_rig *rig = order_rig_open(NULL);
    struct order_foreign *dead = order_foreign_open_for(1, 1, 1000);
    struct rig_order *order;

    (void)state;
    order_rig_put(rig, 1, 1000, 1);
    order = order_rig_submit(rig, 1, 1, 1, "");
    assert_int_equal(order_rig_await(rig, order), ORDER_PLACED);
    assert_true(order_rig_took_ms(order) < 1000 + 700 * order_rig_slow());
    order_foreign_close(dead);
    order_rig_expect_ledger(rig, 1, 1);
    order_rig_close(rig);
}

/* ---- who waits for whom ---------------------------------------------------- */

/* One has waited for long and one has just come: only the first hears that the
 * lock could not be had in time. */
static void each_has_a_patience_of_its_own(void **state)
{
    const struct order_rig_options options = {.lock_wait_ms = 2000};
    struct order_rig *rig = order_rig_open(&options);
    struct order_foreign *other = order_foreign_open(1, 1);
    struct rig_order *first, *second;

    (void)state;
    order_rig_put(rig, 1, 1000, 1);
    first = order_rig_submit(rig, 1, 1, 1, "");
    usleep(1000000); /* half of its patience; no event tells that */
    second = order_rig_submit(rig, 1, 2, 1, "");
    assert_int_equal(order_rig_await(rig, first), ORDER_LOCK_TIMEOUT);
    assert_false(order_rig_is_answered(rig, second));
    order_foreign_close(other);
    assert_int_equal(order_rig_await(rig, second), ORDER_PLACED);
    order_rig_expect_ledger(rig, 1, 1);
    order_rig_close(rig);
}

/* Fewer than there are workers. */
static void a_few_locks_that_are_taken_delay_no_other(void **state)
{
    const struct order_rig_options options = {.lock_wait_ms = 20000};
    struct order_rig *rig = order_rig_open(&options);
    struct order_foreign *dead = order_foreign_open(1, 4);
    struct rig_order *order;

    (void)state;
    for (int64_t product = 1; product <= 5; product++)
        order_rig_put(rig, product, 10, 1);
    for (int64_t product = 1; product <= 4; product++)
        order_rig_submit(rig, product, 1, 1, "");
    for (int i = 0; i < 10; i++) {
        order = order_rig_submit(rig, 5, 1, 1, "");
        assert_int_equal(order_rig_await(rig, order), ORDER_PLACED);
        assert_true(order_rig_took_ms(order) < 500 * order_rig_slow());
    }
    order_foreign_close(dead);
    order_rig_await_answered(rig, 14);
    assert_int_equal(order_rig_count(rig, 0, ORDER_PLACED), 14);
    order_rig_close(rig);
}

/* More than there are workers. One of them becomes free: who waits for it has it
 * soon, though all the others never come. */
static void one_of_many_that_are_taken_becomes_free(void **state)
{
    const struct order_rig_options options = {.lock_wait_ms = 30000};
    struct order_rig *rig;
    struct order_foreign *dead, *other;
    struct rig_order *orders[21];
    uint64_t free_ms;

    (void)state;
    order_rig_need(PROMISE_NONE_STARVES);
    rig = order_rig_open(&options);
    dead = order_foreign_open(1, 19);
    other = order_foreign_open(20, 1);
    for (int64_t product = 1; product <= 20; product++) {
        order_rig_put(rig, product, 10, 1);
        orders[product] = order_rig_submit(rig, product, 1, 1, "");
    }
    for (int64_t product = 1; product <= 20; product++)
        order_watch_await_begun(order_rig_watch(rig), "eval-acquire", product,
                                1);
    free_ms = order_rig_now_ms();
    order_foreign_close(other);
    assert_int_equal(order_rig_await(rig, orders[20]), ORDER_PLACED);
    assert_true(order_rig_now_ms() - free_ms < 2000 * order_rig_slow());
    order_foreign_close(dead);
    order_rig_await_answered(rig, 20);
    assert_int_equal(order_rig_count(rig, 0, ORDER_PLACED), 20);
    order_rig_close(rig);
}

#define DEAD 1000

struct shelf {
    struct order_rig *rig;
    int64_t products;
};

/* Of several threads at once, so that they share commits. */
static void put_some(void *ctx, size_t i)
{
    const struct shelf *shelf = ctx;

    for (int64_t id = 1 + (int64_t)i; id <= shelf->products; id += 16)
        order_rig_put(shelf->rig, id, 10, 1);
}

/* A dead instance has the locks of a thousand products, for all of which orders
 * wait: nobody else is kept. And those are served when their locks are free. */
static void a_thousand_locks_that_are_taken_delay_no_other(void **state)
{
    const struct order_rig_options options = {.lock_wait_ms = 60000};
    struct shelf shelf = {.products = DEAD + 10};
    struct order_rig *rig;
    struct order_foreign *dead;
    struct rig_order *order;

    (void)state;
    order_rig_need(PROMISE_NONE_STARVES);
    rig = shelf.rig = order_rig_open(&options);
    order_rig_in_threads(16, put_some, &shelf);
    dead = order_foreign_open(1, DEAD);
    for (int64_t product = 1; product <= DEAD; product++)
        order_rig_submit(rig, product, 1, 1, "");
    for (int64_t product = DEAD + 1; product <= DEAD + 10; product++) {
        order = order_rig_submit(rig, product, 1, 1, "");
        assert_int_equal(order_rig_await(rig, order), ORDER_PLACED);
        if (order_rig_took_ms(order) >= 500 * order_rig_slow())
            fail_msg("it took %llu ms",
                     (unsigned long long)order_rig_took_ms(order));
    }
    order_foreign_close(dead);
    order_rig_await_answered(rig, DEAD + 10);
    assert_int_equal(order_rig_count(rig, 0, ORDER_PLACED), DEAD + 10);
    order_rig_expect_ledger(rig, 1, 1);
    order_rig_close(rig);
}

/* ---- products that there are not ------------------------------------------- */

#define ABSENT 1000000

static void expect_no_product(struct order_rig *rig, int64_t n)
{
    char key[32];

    for (int64_t i = 0; i < n; i++) {
        snprintf(key, sizeof(key), "key-%lld", (long long)i);
        assert_int_equal(order_rig_buy(rig, ABSENT + i, 1, 1, i % 2 ? key : ""),
                         ORDER_NO_PRODUCT);
    }
}

/* It is for sale as soon as somebody puts it there. */
static void a_product_that_comes_later_is_sold(void **state)
{
    struct order_rig *rig = order_rig_open(NULL);

    (void)state;
    expect_no_product(rig, 10);
    order_rig_put(rig, ABSENT, 1, 1);
    assert_int_equal(order_rig_buy(rig, ABSENT, 1, 1, ""), ORDER_PLACED);
    order_rig_expect_ledger(rig, ABSENT, 1);
    order_rig_close(rig);
}

static void products_that_there_are_not_never_reach_redis(void **state)
{
    struct order_rig *rig;
    char reply[64];

    (void)state;
    order_rig_need(PROMISE_UNKNOWN_UNSENT);
    rig = order_rig_open(NULL);
    order_rig_put(rig, 1, 100, 1);
    expect_no_product(rig, 100);
    for (int64_t i = 0; i < 100; i++)
        assert_int_equal(order_watch_commands(order_rig_watch(rig), ABSENT + i),
                         0);
    redis_server_ask(order_rig_redis(), "KEYS *1000*", reply, sizeof(reply));
    assert_string_equal(reply, "*0\r\n");
    redis_server_kill(order_rig_redis());
    expect_no_product(rig, 100);
    order_rig_close(rig);
}

#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, order_rig_setup, order_rig_teardown)

int main(int argc, char *argv[])
{
    const struct CMUnitTest tests[] = {
        TEST(a_lock_that_is_not_used_is_given_back),
        TEST(a_lock_is_kept_while_orders_come),
        TEST(who_waits_for_it_elsewhere_gets_it),
        TEST(a_lock_that_was_overtaken_is_taken_again),
        TEST(a_lock_that_was_kept_too_long_is_taken_again),
        TEST(a_lease_shorter_than_the_work_ends_in_a_no),
        TEST(a_lock_whose_lease_ends_is_taken_at_once),
        TEST(each_has_a_patience_of_its_own),
        TEST(a_few_locks_that_are_taken_delay_no_other),
        TEST(one_of_many_that_are_taken_becomes_free),
        TEST(a_thousand_locks_that_are_taken_delay_no_other),
        TEST(a_product_that_comes_later_is_sold),
        TEST(products_that_there_are_not_never_reach_redis),
    };

    if (argc > 1)
        order_rig_child_main(argc, argv);
    alarm(500);
    return cmocka_run_group_tests(tests, order_rig_group_setup,
                                  order_rig_group_teardown);
}
