/*
 * Bounds: how many may wait, and for how long; and the end, which everybody
 * hears of once, whatever hangs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/support/order_rig.h"

#define WAIT_MS  600
#define SLACK_MS 700
#define STOP_MS  5000
#define MANY     50

/* ---- how many -------------------------------------------------------------- */

static void a_full_queue_refuses_at_once(void **state)
{
    const struct order_rig_options options = {.queue_max = 10};
    struct order_rig *rig = order_rig_open(&options);
    struct order_watch *watch = order_rig_watch(rig);
    struct rig_order *orders[MANY];

    (void)state;
    order_rig_put(rig, 1, 1000, 1);
    order_watch_hold(watch, "commit", 0);
    for (int i = 0; i < 5; i++)
        orders[i] = order_rig_submit(rig, 1, i + 1, 1, "");
    for (int i = 5; i < MANY; i++)
        orders[i] = order_rig_make(rig, 1, i + 1, 1, "");
    order_rig_hand_in(rig, &orders[5], MANY - 5);
    order_rig_await_answered(rig, MANY - 10);
    assert_int_equal(order_rig_depth(rig), 10);
    for (int i = 0; i < MANY; i++)
        order_rig_expect_outcome(orders[i],
                                 i < 10 ? ORDER_OUTCOME_N : ORDER_OVERLOADED);
    order_watch_let_go(watch);
    order_rig_await_answered(rig, MANY);
    assert_int_equal(order_rig_count(rig, 1, ORDER_PLACED), 10);
    assert_int_equal(order_rig_depth(rig), 0);
    for (int i = 0; i < 30; i++)
        assert_int_equal(order_rig_buy(rig, 1, 1, 1, ""), ORDER_PLACED);
    order_rig_expect_ledger(rig, 1, 40);
    order_rig_close(rig);
}

/* ---- for how long ---------------------------------------------------------- */

static struct order_rig *open_rig(bool shared, int64_t wait_ms)
{
    const struct order_rig_options options = {.shared = shared,
                                              .lock_wait_ms = wait_ms};
    struct order_rig *rig = order_rig_open(&options);

    order_rig_put(rig, 1, 100000, 1);
    order_rig_put(rig, 2, 100000, 8);
    return rig;
}

/* None of those that were handed in is told anything but "not now", in time. */
static void expect_not_now(struct order_rig *rig)
{
    struct rig_order *orders[MANY];

    for (int i = 0; i < MANY; i++)
        orders[i] = order_rig_submit(rig, 1 + i % 2, i + 1, 1, "");
    for (int i = 0; i < MANY; i++) {
        order_rig_await(rig, orders[i]);
        if (!order_rig_is_not_now(orders[i]->outcome))
            order_rig_expect_outcome(orders[i], ORDER_STORE_UNAVAILABLE);
        if (order_rig_took_ms(orders[i]) >=
            WAIT_MS + SLACK_MS * order_rig_slow())
            fail_msg("%s after %llu ms", order_outcome_slug(orders[i]->outcome),
                     (unsigned long long)order_rig_took_ms(orders[i]));
    }
}

static void who_waits_for_a_lock_is_told_in_time(void **state)
{
    struct order_rig *rig = open_rig(false, WAIT_MS);
    struct order_foreign *other = order_foreign_open(1, 1);
    struct rig_order *orders[MANY];

    (void)state;
    for (int i = 0; i < MANY; i++)
        orders[i] = order_rig_submit(rig, 1, i + 1, 1, "");
    for (int i = 0; i < MANY; i++) {
        order_rig_await(rig, orders[i]);
        order_rig_expect_outcome(orders[i], ORDER_LOCK_TIMEOUT);
        assert_in_range(order_rig_took_ms(orders[i]), WAIT_MS / 4,
                        WAIT_MS + SLACK_MS * order_rig_slow());
    }
    order_foreign_close(other);
    assert_int_equal(order_rig_buy(rig, 1, 1, 1, ""), ORDER_PLACED);
    order_rig_expect_ledger(rig, 1, 1);
    order_rig_close(rig);
}

static void another_process_keeps_the_database(bool shared)
{
    struct order_rig *rig = open_rig(shared, WAIT_MS);
    const char *db = order_rig_db(rig);
    struct server_proc *keeper;

    assert_int_equal(order_rig_buy(rig, 1, 1, 1, ""), ORDER_PLACED);
    keeper = order_rig_child("keep-database", &db, 1);
    expect_not_now(rig);
    expect_not_now(rig);
    server_proc_kill(keeper);
    /* What was under way when it ended may still be told no. */
    while (order_rig_buy(rig, 1, 1, 1, "") != ORDER_PLACED)
        assert_true(order_rig_answered(rig) < 10 * MANY);
    order_rig_expect_ledger(rig, 1, 2);
    order_rig_expect_ledger(rig, 2, 0);
    order_rig_close(rig);
}

static void who_waits_for_the_database_is_told_in_time(void **state)
{
    (void)state;
    another_process_keeps_the_database(false);
    another_process_keeps_the_database(true);
}

/* ---- the end --------------------------------------------------------------- */

static const bool one_by_one = true, batched = false;

static struct order_rig *open_in_mode(void **state, int64_t wait_ms,
                                      int64_t think_ms)
{
    const struct order_rig_options options = {.one_by_one =
                                                  *(const bool *)*state,
                                              .lock_wait_ms = wait_ms,
                                              .think_ms = think_ms};
    struct order_rig *rig = order_rig_open(&options);

    order_rig_put(rig, 1, 100000, 1);
    order_rig_put(rig, 2, 100000, 8);
    return rig;
}

static void expect_stops(struct order_rig *rig)
{
    uint64_t took_ms = order_rig_stop(rig);
    struct rig_order *late = order_rig_submit(rig, 1, 1, 1, "");

    if (took_ms >= STOP_MS * order_rig_slow())
        fail_msg("stopping took %llu ms", (unsigned long long)took_ms);
    assert_int_equal(order_rig_await(rig, late), ORDER_SHUTTING_DOWN);
    assert_int_equal(order_rig_depth(rig), 0);
    for (int64_t product = 1; product <= 2; product++)
        order_rig_expect_ledger(rig, product, order_rig_units(rig, product));
}

/* Of N orders. Not now: it ends, or its lock was not to be had by then. */
static void expect_yes_or_not_now(struct order_rig *rig, unsigned n)
{
    assert_int_equal(order_rig_count(rig, 0, ORDER_PLACED) +
                         order_rig_count(rig, 0, ORDER_SHUTTING_DOWN) +
                         order_rig_count(rig, 0, ORDER_LOCK_TIMEOUT),
                     n);
}

static void expect_locks_free(void)
{
    assert_false(order_rig_lock_is_held(1, 0));
    for (int64_t segment = 0; segment < 8; segment++)
        assert_false(order_rig_lock_is_held(2, segment));
}

/* A minute's wait, for a lock that never comes. */
static void stopping_does_not_wait_for_locks(void **state)
{
    struct order_rig *rig = open_in_mode(state, 60000, 0);
    struct order_foreign *other = order_foreign_open(1, 1);
    struct rig_order *orders[MANY];

    for (int i = 0; i < MANY; i++)
        orders[i] = order_rig_submit(rig, 1, i + 1, 1, "");
    order_watch_await_begun(order_rig_watch(rig), "eval-acquire", 1, 1);
    expect_stops(rig);
    for (int i = 0; i < MANY; i++)
        assert_true(orders[i]->outcome == ORDER_SHUTTING_DOWN ||
                    orders[i]->outcome == ORDER_LOCK_TIMEOUT);
    assert_true(order_rig_lock_is_held(1, 0)); /* it is not ours */
    order_foreign_close(other);
    expect_locks_free();
    order_rig_close(rig);
}

static void *stop_main(void *rig)
{
    order_rig_stop(rig);
    return NULL;
}

/* Nor for the time that business takes under the lock. */
static void stopping_does_not_wait_for_thinking(void **state)
{
    struct order_rig *rig = open_in_mode(state, 60000, 60000);

    for (int i = 0; i < MANY; i++)
        order_rig_submit(rig, 1, i + 1, 1, "");
    order_watch_await_begun(order_rig_watch(rig), "eval-acquire", 1, 1);
    expect_stops(rig);
    expect_locks_free();
    order_rig_close(rig);
}

static void *restock_main(void *rig)
{
    order_rig_restock(rig, 2, 1);
    return NULL;
}

/* The lock is won, and nobody has heard of it yet, since a write of another
 * product is on its way to the disk. Then comes the end: nobody begins to think. */
static void stopping_when_a_lock_was_just_taken(void **state)
{
    struct order_rig *rig = open_in_mode(state, 60000, 60000);
    struct order_watch *watch = order_rig_watch(rig);
    pthread_t writer, stopper;
    uint64_t begin_ms;

    order_watch_hold(watch, "eval-acquire", 1);
    for (int i = 0; i < MANY; i++)
        order_rig_submit(rig, 1, i + 1, 1, "");
    order_watch_await_held(watch, 1);
    redis_server_pause(order_rig_redis());
    order_watch_let_go(watch);
    order_watch_hold(watch, "commit", 0);
    pthread_create(&writer, NULL, restock_main, rig);
    order_watch_await_held(watch, 1);
    redis_server_resume(order_rig_redis());
    while (order_watch_ended(watch, "eval-acquire", 1) == 0)
        usleep(1000);
    usleep(20000); /* so that the result is handed over; right either way */
    begin_ms = order_rig_now_ms();
    pthread_create(&stopper, NULL, stop_main, rig);
    usleep(100000); /* so that it has begun; it is right either way */
    order_watch_let_go(watch);
    pthread_join(stopper, NULL);
    pthread_join(writer, NULL);
    assert_in_range(order_rig_now_ms() - begin_ms, 0,
                    STOP_MS * order_rig_slow());
    expect_yes_or_not_now(rig, MANY);
    expect_stops(rig);
    expect_locks_free();
    order_rig_close(rig);
}

/* What is in a transaction ends well; what waits behind it is answered, too. */
static void stopping_in_mid_transaction(void **state)
{
    struct order_rig *rig = open_in_mode(state, 20000, 0);
    struct order_watch *watch = order_rig_watch(rig);
    struct rig_order *first;
    pthread_t stopper;

    order_watch_hold(watch, "place", 1);
    first = order_rig_submit(rig, 1, 1, 1, "");
    order_watch_await_held(watch, 1);
    for (int i = 0; i < MANY; i++)
        order_rig_submit(rig, 1 + i % 2, i + 2, 1, "");
    pthread_create(&stopper, NULL, stop_main, rig);
    usleep(50000); /* so that it has begun; it is right either way */
    order_watch_let_go(watch);
    pthread_join(stopper, NULL);
    assert_int_equal(first->outcome, ORDER_PLACED);
    expect_yes_or_not_now(rig, MANY + 1);
    expect_stops(rig);
    expect_locks_free();
    order_rig_close(rig);
}

struct sale {
    struct order_rig *rig;
    atomic_bool over;
};

/* Orders come up to the end, and a bit longer; but not more than can wait. */
static void *buy_until_over(void *arg)
{
    struct sale *sale = arg;
    int64_t user = 1;

    while (!atomic_load(&sale->over)) {
        order_rig_submit(sale->rig, 1 + user % 2, user, user % 3 + 1, "");
        while (order_rig_depth(sale->rig) > 4000 && !atomic_load(&sale->over))
            usleep(200);
        if (user++ % 8 == 0)
            usleep(200);
    }
    return NULL;
}

static void stopping_in_mid_sale(void **state)
{
    struct sale sale = {.rig = open_in_mode(state, 20000, 0)};
    pthread_t buyers[4];

    for (int i = 0; i < 4; i++)
        pthread_create(&buyers[i], NULL, buy_until_over, &sale);
    order_rig_await_answered(sale.rig, 200);
    assert_true(order_rig_stop(sale.rig) < STOP_MS * order_rig_slow());
    atomic_store(&sale.over, true);
    for (int i = 0; i < 4; i++)
        pthread_join(buyers[i], NULL);
    expect_yes_or_not_now(sale.rig, order_rig_answered(sale.rig));
    expect_stops(sale.rig);
    expect_locks_free();
    order_rig_close(sale.rig);
}

struct entry {
    struct order_rig *rig;
    struct rig_order *orders[2];
};

static void *hand_in_main(void *arg)
{
    struct entry *entry = arg;

    order_rig_hand_in(entry->rig, entry->orders, 2);
    return NULL;
}

/* Two orders are handed in, and there is room for one: the thread that does so is
 * stopped when the other is told so. Then comes the end. */
static void who_is_on_the_way_in_is_answered_too(void **state)
{
    const struct order_rig_options options = {
        .one_by_one = *(const bool *)*state, .queue_max = 1};
    struct entry entry = {.rig = order_rig_open(&options)};
    struct order_watch *watch = order_rig_watch(entry.rig);
    pthread_t customer, stopper;

    order_rig_put(entry.rig, 1, 10, 1);
    order_rig_put(entry.rig, 2, 10, 1);
    for (int i = 0; i < 2; i++)
        entry.orders[i] = order_rig_make(entry.rig, 1 + i, 1, 1, "");
    order_watch_hold(watch, "answer", 2);
    pthread_create(&customer, NULL, hand_in_main, &entry);
    order_watch_await_held(watch, 1);
    pthread_create(&stopper, NULL, stop_main, entry.rig);
    usleep(200000); /* so that it has ended, if it does not wait for them */
    order_watch_let_go(watch);
    pthread_join(customer, NULL);
    pthread_join(stopper, NULL);
    order_rig_expect_outcome(entry.orders[1], ORDER_OVERLOADED);
    if (!order_rig_is_answered(entry.rig, entry.orders[0]))
        fail_msg("an order is never answered");
    if (!order_rig_is_not_now(entry.orders[0]->outcome))
        order_rig_expect_outcome(entry.orders[0], ORDER_PLACED);
    order_rig_close(entry.rig);
}

/* It hangs while locks are held and others are waited for: a command or two is
 * waited for, not one for each. */
static void stopping_while_redis_hangs(void **state)
{
    struct order_rig *rig = open_in_mode(state, 2000, 0);
    struct order_watch *watch = order_rig_watch(rig);

    for (int i = 0; i < MANY; i++)
        order_rig_submit(rig, 1 + i % 2, i + 1, 1, "");
    order_rig_await_answered(rig, MANY / 2);
    order_watch_hold(watch, "commit", 0);
    for (int i = 0; i < MANY; i++)
        order_rig_submit(rig, 1 + i % 2, i + 100, 1, "");
    order_watch_await_held(watch, 1);
    redis_server_pause(order_rig_redis());
    order_watch_let_go(watch);
    expect_stops(rig);
    redis_server_resume(order_rig_redis());
    order_rig_close(rig);
}

#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, order_rig_setup, order_rig_teardown)

#define WITH(name, mode)                                                       \
    {                                                                          \
#name " (" #mode ")", name, order_rig_setup, order_rig_teardown,       \
            (void *)&(mode)                                                    \
    }
#define BOTH(name) WITH(name, batched), WITH(name, one_by_one)

int main(int argc, char *argv[])
{
    const struct CMUnitTest tests[] = {
        TEST(a_full_queue_refuses_at_once),
        TEST(who_waits_for_a_lock_is_told_in_time),
        TEST(who_waits_for_the_database_is_told_in_time),
        BOTH(stopping_does_not_wait_for_locks),
        BOTH(stopping_does_not_wait_for_thinking),
        BOTH(stopping_when_a_lock_was_just_taken),
        BOTH(stopping_in_mid_transaction),
        BOTH(stopping_in_mid_sale),
        BOTH(who_is_on_the_way_in_is_answered_too),
        BOTH(stopping_while_redis_hangs),
    };

    if (argc > 1)
        order_rig_child_main(argc, argv);
    alarm(500);
    return cmocka_run_group_tests(tests, order_rig_group_setup,
                                  order_rig_group_teardown);
}
