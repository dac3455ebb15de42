/*
 * Bounds: how many may wait, and for how long; and the end, which everybody
 * hears of once, whatever hangs. The end in the middle of a sale: e2e/shutdown.t.
 */
#include "server/base/app.h"
#include "server/base/config.h"
#include "server/order/lock_tasks.h"
#include "tests/support/order_rig.h"

/* Bounds that bear a machine that stalls us for a second, or two. */
#define WAIT_MS   4000
#define WITHIN_MS (WAIT_MS * 9 / 5 * order_rig_slow())
#define STOP_MS   (20000 * order_rig_slow())
#define MANY      50

#define TWO .stock = {100000, 100000}, .segments = {1, 8}

/* ---- how many -------------------------------------------------------------- */

ORDER_RIG_TEST(a_full_queue_refuses_at_once, .stock = {1000}, .queue_max = 10)
{
    struct rig_order *orders[MANY];

    step_log_shut_at(&order_steps, "commit", 0, DLOCK_BEFORE);
    order_rig_submit_many(rig, orders, 5, 1);
    for (int i = 5; i < MANY; i++)
        orders[i] = order_rig_make(rig, 1, i + 1, 1, "");
    order_rig_hand_in(rig, &orders[5], MANY - 5);
    order_rig_await_answered(rig, MANY - 10);
    assert_int_equal(order_rig_depth(rig), 10);
    for (int i = 0; i < MANY; i++)
        order_rig_expect_outcome(orders[i],
                                 i < 10 ? ORDER_OUTCOME_N : ORDER_OVERLOADED);
    step_log_open(&order_steps);
    order_rig_await_answered(rig, MANY);
    assert_int_equal(order_rig_count(rig, 1, ORDER_PLACED), 10);
    assert_int_equal(order_rig_depth(rig), 0);
    for (int i = 0; i < 30; i++)
        order_rig_expect(rig, 1, 1, "", ORDER_PLACED);
    order_rig_expect_ledger(rig, 1, 40);
}

/* ---- for how long ---------------------------------------------------------- */

ORDER_RIG_TEST(who_waits_for_a_lock_is_told_in_time, TWO,
               .lock_wait_ms = WAIT_MS)
{
    struct order_foreign *other = order_foreign_open(1, 1, 120000);
    struct rig_order *orders[MANY];

    order_rig_submit_many(rig, orders, MANY, 1);
    for (int i = 0; i < MANY; i++) {
        order_rig_await(rig, orders[i]);
        order_rig_expect_outcome(orders[i], ORDER_LOCK_TIMEOUT);
        assert_in_range(orders[i]->took_ms, WAIT_MS / 4, WITHIN_MS);
    }
    order_foreign_close(other);
    order_rig_expect(rig, 1, 1, "", ORDER_PLACED);
    order_rig_expect_ledger(rig, 1, 1);
}

/* A dead one's lock is freed at the end of the wait, and is another's at once: it is
 * not waited for again. */
ORDER_RIG_TEST(who_has_waited_for_a_dead_one_waits_no_more, .stock = {10},
               .shared = true, .one_by_one = true,
               .lock_wait_ms = INT64_C(2) * WAIT_MS)
{
    struct order_foreign *other;
    struct rig_order *order;
    unsigned asked;

    redis_server_tell(order_rig_redis(),
                      "HSET lock:{1:0} 0123456789abcdef-1 1 attempt 1 token 1");
    step_log_shut_at(&order_steps, "eval-force", 1, DLOCK_AFTER);
    order = order_rig_submit(rig, 1, 1, 1, "");
    step_log_await_gate(&order_steps, 1);
    step_log_pass(&order_steps); /* the first only says whose it is */
    step_log_await_gate(&order_steps, 1);
    asked = step_log_count_at(&order_steps, "eval-acquire", 1, DLOCK_BEFORE);
    other = order_foreign_open(1, 1, 60000);
    step_log_open(&order_steps);
    assert_int_equal(order_rig_await(rig, order), ORDER_LOCK_TIMEOUT);
    assert_int_equal(
        step_log_count_at(&order_steps, "eval-acquire", 1, DLOCK_BEFORE),
        asked + 1);
    order_foreign_close(other);
}

/* The answer must come before the request ends. */
ORDER_RIG_TEST(who_may_wait_for_long_is_told_in_half_the_deadline, TWO,
               .lock_wait_ms = 120000, .deadline_ms = INT64_C(2) * WAIT_MS)
{
    who_waits_for_a_lock_is_told_in_time(rig);
}

/* Another process keeps it: nobody is told anything but "not now", in time. */
ORDER_RIG_TEST(who_waits_for_the_database_is_told_in_time, TWO,
               .lock_wait_ms = WAIT_MS)
{
    struct rig_order *orders[MANY];
    struct server_proc *keeper;

    order_rig_expect(rig, 1, 1, "", ORDER_PLACED);
    keeper = order_rig_child(rig, ORDER_RIG_KEEP);
    for (int times = 0; times < 2; times++) {
        order_rig_submit_many(rig, orders, MANY, 2);
        for (int i = 0; i < MANY; i++) {
            order_rig_await(rig, orders[i]);
            order_rig_expect_not_now(orders[i], WITHIN_MS);
        }
    }
    server_proc_kill(keeper);
    /* What was under way when it ended may still be told no. */
    while (order_rig_buy(rig, 1, 1, 1, "") != ORDER_PLACED)
        assert_true(order_rig_answered(rig) < 10 * MANY);
    order_rig_expect_ledger(rig, 1, 2);
    order_rig_expect_ledger(rig, 2, 0);
}

ORDER_RIG_TEST(who_waits_for_a_shared_database_as_well, TWO,
               .lock_wait_ms = WAIT_MS, .shared = true)
{
    who_waits_for_the_database_is_told_in_time(rig);
}

/* The last try of a wait begins when the wait is over, and must be answered in time. */
UNIT_TEST(a_wait_leaves_time_for_a_command)
{
    static const unsigned waits_ms[][2] = {
        {0, 0}, {50, 0}, {1000, 750}, {3000, 2250}, {20000, 19000}};

    for (size_t i = 0; i < COUNT_OF(waits_ms); i++) {
        struct config config = {.lock_wait_ms = waits_ms[i][0]};

        assert_int_equal(lock_wait_ms(&(struct app){.config = &config}),
                         waits_ms[i][1]);
    }
}

/* ---- the end --------------------------------------------------------------- */

static void expect_stops(struct order_rig *rig)
{
    assert_in_range(order_rig_stop(rig), 0, STOP_MS);
    order_rig_expect(rig, 1, 1, "", ORDER_SHUTTING_DOWN);
    assert_int_equal(order_rig_depth(rig), 0);
    for (int64_t product = 1; product <= 2; product++)
        order_rig_expect_ledger(rig, product, order_rig_units(rig, product));
}

/* Of N orders each hears yes or not now: it ends, or its lock was not to be had
 * by then. And no lock is left. */
static void expect_stopped_well(struct order_rig *rig, unsigned n)
{
    assert_int_equal(order_rig_count(rig, 0, ORDER_PLACED) +
                         order_rig_count(rig, 0, ORDER_SHUTTING_DOWN) +
                         order_rig_count(rig, 0, ORDER_LOCK_TIMEOUT),
                     n);
    expect_stops(rig);
    assert_false(order_rig_lock_is_held(1, 0));
    for (int64_t segment = 0; segment < 8; segment++)
        assert_false(order_rig_lock_is_held(2, segment));
}

static void *stop_main(void *rig)
{
    order_rig_stop(rig);
    return NULL;
}

/* Stops while a thread is held; that is let go after a moment, so that the stop
 * has begun; it is right either way. */
static void stop_and_let_go(struct order_rig *rig, useconds_t moment_us)
{
    pthread_t stopper;

    pthread_create(&stopper, NULL, stop_main, rig);
    usleep(moment_us);
    step_log_open(&order_steps);
    pthread_join(stopper, NULL);
}

/* A minute's wait, for a lock that never comes. */
ORDER_RIG_BOTH(stopping_does_not_wait_for_locks, TWO, .lock_wait_ms = 60000)
{
    struct order_foreign *other = order_foreign_open(1, 1, 120000);

    order_rig_submit_many(rig, NULL, MANY, 1);
    step_log_await_at(&order_steps, "eval-acquire", 1, DLOCK_BEFORE, 1);
    assert_in_range(order_rig_stop(rig), 0, STOP_MS);
    assert_int_equal(order_rig_count(rig, 1, ORDER_PLACED), 0);
    assert_true(order_rig_lock_is_held(1, 0)); /* it is not ours */
    order_foreign_close(other);
    expect_stopped_well(rig, MANY);
}

/* Nor for the time that business takes under the lock. */
ORDER_RIG_BOTH(stopping_does_not_wait_for_thinking, TWO, .lock_wait_ms = 60000,
               .think_ms = 60000)
{
    order_rig_submit_many(rig, NULL, MANY, 1);
    step_log_await_at(&order_steps, "eval-acquire", 1, DLOCK_BEFORE, 1);
    assert_in_range(order_rig_stop(rig), 0, STOP_MS);
    expect_stopped_well(rig, MANY);
}

static void *restock_main(void *rig)
{
    order_rig_restock(rig, 2, 1);
    return NULL;
}

/* The lock is won, and nobody has heard of it yet, since a write of another
 * product is on its way to the disk. Then comes the end: nobody begins to think. */
ORDER_RIG_BOTH(stopping_when_a_lock_was_just_taken, TWO, .lock_wait_ms = 60000,
               .think_ms = 60000)
{
    pthread_t writer;
    uint64_t begin_ms;

    step_log_shut_at(&order_steps, "eval-acquire", 1, DLOCK_BEFORE);
    order_rig_submit_many(rig, NULL, MANY, 1);
    step_log_await_gate(&order_steps, 1);
    redis_server_pause(order_rig_redis());
    step_log_open(&order_steps);
    step_log_shut_at(&order_steps, "commit", 0, DLOCK_BEFORE);
    pthread_create(&writer, NULL, restock_main, rig);
    step_log_await_gate(&order_steps, 1);
    redis_server_resume(order_rig_redis());
    while (step_log_count_at(&order_steps, "eval-acquire", 1, DLOCK_AFTER) == 0)
        usleep(1000);
    usleep(20000); /* so that the result is handed over; right either way */
    begin_ms = clock_ms();
    stop_and_let_go(rig, 100000);
    pthread_join(writer, NULL);
    assert_in_range(clock_ms() - begin_ms, 0, STOP_MS);
    expect_stopped_well(rig, MANY);
}

/* An order's time is up when the end comes: its key was not looked up. */
ORDER_RIG_TEST(a_key_that_nobody_looks_up_any_more, .stock = {10, 10},
               .deadline_ms = 2)
{
    struct rig_order *order, *late;
    pthread_t writer, stopper;

    step_log_shut_at(&order_steps, "commit", 0, DLOCK_BEFORE);
    pthread_create(&writer, NULL, restock_main, rig);
    step_log_await_gate(&order_steps, 1);
    order = order_rig_submit(rig, 1, 1, 1, "new");
    pthread_create(&stopper, NULL, stop_main, rig);
    do { /* the first that is refused says that the end has begun */
        usleep(1000);
        late = order_rig_submit(rig, 1, 1, 1, "");
    } while (atomic_load(&late->answers) == 0);
    step_log_open(&order_steps);
    pthread_join(stopper, NULL);
    pthread_join(writer, NULL);
    order_rig_expect_outcome(order, ORDER_SHUTTING_DOWN);
    assert_non_null(strstr(order->detail, "with this key may have ordered"));
}

/* What is in a transaction ends well; what waits behind it is answered, too. */
ORDER_RIG_BOTH(stopping_in_mid_transaction, TWO, .lock_wait_ms = 20000)
{
    struct rig_order *first;

    step_log_shut_at(&order_steps, "place", 1, DLOCK_BEFORE);
    first = order_rig_submit(rig, 1, 1, 1, "");
    step_log_await_gate(&order_steps, 1);
    order_rig_submit_many(rig, NULL, MANY, 2);
    stop_and_let_go(rig, 50000);
    order_rig_expect_outcome(first, ORDER_PLACED);
    expect_stopped_well(rig, MANY + 1);
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
 * stopped when the other is told so. Then comes the end, which waits for it. */
ORDER_RIG_BOTH(who_is_on_the_way_in_is_answered_too, .stock = {10, 10},
               .queue_max = 1)
{
    struct entry entry = {
        rig,
        {order_rig_make(rig, 1, 1, 1, ""), order_rig_make(rig, 2, 1, 1, "")}};
    pthread_t customer;

    step_log_shut_at(&order_steps, "answer", 2, DLOCK_BEFORE);
    pthread_create(&customer, NULL, hand_in_main, &entry);
    step_log_await_gate(&order_steps, 1);
    stop_and_let_go(rig, 200000);
    pthread_join(customer, NULL);
    order_rig_expect_outcome(entry.orders[1], ORDER_OVERLOADED);
    if (entry.orders[0]->outcome != ORDER_PLACED)
        order_rig_expect_not_now(entry.orders[0], UINT32_MAX);
}

/* It hangs while locks are held and others are waited for: a command or two is
 * waited for, not one for each. */
ORDER_RIG_BOTH(stopping_while_redis_hangs, TWO, .lock_wait_ms = 2000)
{
    order_rig_submit_many(rig, NULL, MANY, 2);
    order_rig_await_answered(rig, MANY / 2);
    step_log_shut_at(&order_steps, "commit", 0, DLOCK_BEFORE);
    order_rig_submit_many(rig, NULL, MANY, 2);
    step_log_await_gate(&order_steps, 1);
    redis_server_pause(order_rig_redis());
    step_log_open(&order_steps);
    expect_stops(rig);
    redis_server_resume(order_rig_redis());
}

/* Nor for one for each lock that is held. */
ORDER_RIG_TEST(stopping_with_many_locks_while_redis_hangs, .lock_wait_ms = 8000)
{
    for (int64_t id = 1; id <= MANY; id++)
        order_rig_put(rig, id, 10, 1);
    step_log_shut_at(&order_steps, "eval-release", 0, DLOCK_BEFORE);
    order_rig_submit_many(rig, NULL, MANY, MANY);
    order_rig_await_answered(rig, MANY);
    step_log_await_gate(&order_steps, 1);
    redis_server_pause(order_rig_redis());
    step_log_open(&order_steps);
    expect_stops(rig);
    redis_server_resume(order_rig_redis());
}

#define TRIES_MAX 16 /* locks that are asked for at once */

/* The lock server answers nobody: who has not been asked for yet is told so. */
ORDER_RIG_TEST(who_waits_for_a_turn_hears_so, .lock_wait_ms = 1000)
{
    for (int64_t id = 1; id <= TRIES_MAX + 8; id++)
        order_rig_put(rig, id, 10, 1);
    step_log_shut_at(&order_steps, "eval-acquire", 0, DLOCK_BEFORE);
    order_rig_submit_many(rig, NULL, TRIES_MAX + 8, TRIES_MAX + 8);
    order_rig_await_answered(rig, TRIES_MAX + 8);
    assert_int_equal(order_rig_count(rig, 0, ORDER_OVERLOADED), 8);
    step_log_open(&order_steps);
}

/* The reply of a take is lost, and so is what takes it back: only its own session can go
 * on with the lock, though others are free. */
ORDER_RIG_TEST(a_lost_take_is_taken_over_by_its_session, .stock = {10, 10, 10},
               .lock_wait_ms = 20000, .lock_lease_ms = 60000)
{
    struct order_foreign *other = order_foreign_open(1, 2, 60000);
    struct rig_order *orders[3];
    uint64_t refused_us;

    for (int64_t id = 1; id <= 2; id++) /* two sessions wait */
        orders[id] = order_rig_submit(rig, id, 1, 1, "");
    order_rig_expect(rig, 3, 1, "", ORDER_PLACED); /* by a third one */
    order_foreign_close(other);
    for (int64_t id = 1; id <= 2; id++)
        assert_int_equal(order_rig_await(rig, orders[id]), ORDER_PLACED);
    for (int64_t id = 1; id <= 3; id++)
        step_log_await_at(&order_steps, "eval-release", id, DLOCK_AFTER, 1);
    step_log_fail(&order_steps, "eval-acquire", DLOCK_AFTER, STEP_LOG_ALWAYS);
    order_steps.faults[0].at.id = 2;
    step_log_fail_also(&order_steps, "eval-withdraw", DLOCK_BEFORE, 1);
    for (int i = 0; i < 3; i++) /* the last session takes the last lock */
        orders[i] = order_rig_make(rig, (i + 2) % 3 + 1, 1, 1, "");
    order_rig_hand_in(rig, orders, 3);
    assert_int_equal(order_rig_await(rig, orders[2]), ORDER_LOCK_UNREACHABLE);
    refused_us = clock_us();
    for (int64_t id = 1; id <= 3; id += 2) /* two sessions hold nothing */
        step_log_await_at(&order_steps, "eval-release", id, DLOCK_AFTER, 2);
    step_log_fail(&order_steps, "", DLOCK_AFTER, 0);
    if (clock_us() - refused_us < 1000000) /* or its queue may be forgotten */
        order_rig_expect(rig, 2, 1, "", ORDER_PLACED);
}

ORDER_RIG_MAIN
