/*
 * Orders and locks: which are taken, for how long they are kept, and who has to
 * wait for whom. A lock server that is away: e2e/redis-outage.t.
 */
#include "tests/support/order_rig.h"

#define MANY   200
#define MINUTE 60000

static void sell(struct order_rig *rig, int n)
{
    for (int i = 0; i < n; i++)
        order_rig_expect(rig, 1, 1, "", ORDER_PLACED);
}

/* ---- how long a lock is kept ----------------------------------------------- */

/* It is kept while orders come. When no more come, others can have it. */
ORDER_RIG_TEST(a_lock_is_kept_while_it_is_used, .stock = {1000})
{
    sell(rig, MANY);
    assert_in_range(
        step_log_count_at(&order_steps, "eval-acquire", 1, DLOCK_BEFORE), 1,
        MANY / 4);
    for (int i = 0; i < 2; i++) {
        order_foreign_close(order_foreign_open(1, 1, MINUTE));
        sell(rig, 1);
    }
    order_rig_expect_ledger(rig, 1, MANY + 2);
}

ORDER_RIG_BOTH(a_lock_is_given_back_after_the_commit, .stock = {1})
{
    unsigned written;

    order_rig_expect(rig, 1, 1, "", ORDER_PLACED);
    order_rig_stop(rig);
    written = step_log_last(&order_steps, "commit", DLOCK_AFTER);
    assert_int_not_equal(written, 0);
    assert_int_equal(
        step_log_count_at(&order_steps, "eval-release", 1, DLOCK_BEFORE), 1);
    assert_true(step_log_last(&order_steps, "eval-release", DLOCK_BEFORE) >
                written);
}

ORDER_RIG_TEST(a_lock_is_given_back_by_a_naive_one, .stock = {1},
               .one_by_one = true, .naive = true)
{
    a_lock_is_given_back_after_the_commit(rig);
}

/* A lock is kept for a second, while orders wait. */
#define KEPT_MS 1000

/* The business time is also longer than an order may wait for the lock. */
ORDER_RIG_TEST(business_time_may_be_longer_than_a_lock_is_kept, .stock = {10},
               .lock_wait_ms = INT64_C(2) * KEPT_MS,
               .think_ms = INT64_C(5) * KEPT_MS / 2)
{
    order_rig_expect(rig, 1, 1, "", ORDER_PLACED);
}

/* A business time is that of the orders that are there when it begins: an order that
 * comes meanwhile has one of its own, under the lock taken again. */
ORDER_RIG_TEST(who_comes_in_business_time_waits_for_its_own, .stock = {10},
               .think_ms = 400)
{
    struct rig_order *first = order_rig_submit(rig, 1, 1, 1, ""), *second;

    while (step_log_count_at(&order_steps, "eval-acquire", 1, DLOCK_AFTER) == 0)
        usleep(1000);
    usleep(100000); /* so that it has begun; it is right either way */
    second = order_rig_submit(rig, 1, 2, 1, "");
    assert_int_equal(order_rig_await(rig, first), ORDER_PLACED);
    assert_int_equal(order_rig_await(rig, second), ORDER_PLACED);
    if (second->transaction != first->transaction)
        assert_true(step_log_count_at(&order_steps, "eval-acquire", 1,
                                      DLOCK_BEFORE) > 1);
}

/* Product 2 is waited for while product 1 is on its way to the disk: its lock was
 * not taken for nothing. */
ORDER_RIG_TEST(a_commit_may_take_longer_than_a_lock_is_kept, .stock = {10, 10})
{
    struct rig_order *orders[2];

    step_log_shut_at(&order_steps, "commit", 0, DLOCK_BEFORE);
    orders[0] = order_rig_submit(rig, 1, 1, 1, "");
    step_log_await_gate(&order_steps, 1);
    orders[1] = order_rig_submit(rig, 2, 1, 1, "");
    usleep((KEPT_MS + 200) * 1000); /* the disk is slow */
    step_log_open(&order_steps);
    for (int i = 0; i < 2; i++)
        assert_int_equal(order_rig_await(rig, orders[i]), ORDER_PLACED);
    assert_int_equal(
        step_log_count_at(&order_steps, "eval-acquire", 2, DLOCK_BEFORE), 1);
}

/* Three queues with more orders each than it may have of a transaction, whose
 * locks come all at once: together far more than fit into one. */
ORDER_RIG_TEST(more_orders_than_fit_into_a_transaction,
               .stock = {1000, 1000, 1000})
{
    step_log_shut_at(&order_steps, "eval-acquire", 0, DLOCK_BEFORE);
    order_rig_submit_many(rig, NULL, 3 * 600, 3);
    step_log_await_gate(&order_steps, 1);
    step_log_open(&order_steps);
    order_rig_await_answered(rig, 3 * 600);
    for (int64_t product = 1; product <= 3; product++)
        order_rig_expect_ledger(rig, product, 600);
}

/* The lock passes on, and they have to take it again, together: the store has
 * been told of a later holder while they waited for its commit. */
ORDER_RIG_TEST(orders_that_go_on_keep_their_order, .stock = {1000})
{
    struct store_fence later = {
        .name = "lock:{1:0}", .token = UINT64_C(3) << 50, .owner = "later"};
    struct rig_order *orders[50];

    for (int64_t round = 0; round < 10; round++) {
        for (int64_t i = 0; i < 3; i++) /* so that it is kept */
            order_rig_buy(rig, 1, 1 + i, 1, "");
        later.token += 1000;
        assert_int_equal(store_stamp(order_rig_store(rig), &later, NULL),
                         STORE_OK);
        for (int64_t i = 0; i < 50; i++)
            orders[i] = order_rig_make(rig, 1, 1 + i, 1, "");
        order_rig_hand_in(rig, orders, 50);
        for (int64_t i = 0; i < 50; i++)
            assert_int_equal(order_rig_await(rig, orders[i]), ORDER_PLACED);
        for (int64_t i = 1; i < 50; i++)
            assert_true(orders[i - 1]->number < orders[i]->number);
    }
}

struct sale {
    struct order_rig *rig;
    atomic_bool over;
};

static void *sell_until_over(void *arg)
{
    struct sale *sale = arg;

    while (!atomic_load(&sale->over))
        order_rig_buy(sale->rig, 1, 1, 1, "");
    return NULL;
}

/* Orders come all the time; another instance wants the lock, and gets it. */
ORDER_RIG_TEST(who_waits_for_it_elsewhere_gets_it, .stock = {100000000},
               .shared = true, .lock_wait_ms = 30000)
{
    struct sale sale = {.rig = rig};
    pthread_t seller;

    pthread_create(&seller, NULL, sell_until_over, &sale);
    for (int i = 0; i < 3; i++)
        order_foreign_close(order_foreign_open(1, 1, MINUTE));
    atomic_store(&sale.over, true);
    pthread_join(seller, NULL);
    assert_int_equal(order_rig_count(sale.rig, 1, ORDER_PLACED),
                     order_rig_answered(sale.rig));
}

/* Nobody knows then whether another instance waits: better once too often than never. Each
 * time that it is held a look comes, and else it would be kept for a second. */
ORDER_RIG_TEST(a_look_that_fails_gives_the_lock_back, .stock = {100000000},
               .shared = true, .lock_wait_ms = 30000)
{
    struct sale sale = {.rig = rig};
    pthread_t seller;

    step_log_fail(&order_steps, "eval-waiters", DLOCK_BEFORE, STEP_LOG_ALWAYS);
    pthread_create(&seller, NULL, sell_until_over, &sale);
    step_log_await_at(&order_steps, "eval-waiters", 1, DLOCK_BEFORE, 40);
    atomic_store(&sale.over, true);
    pthread_join(seller, NULL);
    assert_true(
        step_log_count_at(&order_steps, "eval-release", 1, DLOCK_BEFORE) > 20);
}

/* Another instance wants the lock while orders think under it: it gets it after them,
 * because orders that gave way each time would never be placed. */
ORDER_RIG_TEST(who_has_not_sold_yet_gives_no_lock_away, .stock = {10},
               .shared = true, .think_ms = 1000, .lock_wait_ms = 30000)
{
    struct rig_order *order;

    order_rig_expect(rig, 1, 1, "", ORDER_PLACED);
    order = order_rig_submit(rig, 1, 1, 1, "");
    step_log_await_at(&order_steps, "eval-acquire", 1, DLOCK_AFTER, 2);
    order_foreign_close(order_foreign_open(1, 1, MINUTE));
    assert_int_equal(atomic_load(&order->answers), 1);
}

/* ---- a lock that was lost -------------------------------------------------- */

/* A token in somebody else's name does not hold. */
ORDER_RIG_BOTH(the_store_knows_whose_lock_it_is, .stock = {10})
{
    struct store_fence fence = {.name = "lock:{1:0}", .owner = "somebody"};
    struct store_order order;

    order_rig_expect(rig, 1, 1, "k", ORDER_PLACED);
    assert_int_equal(order_rig_find_key(rig, "k", &order), STORE_OK);
    fence.token = order.fence;
    assert_int_equal(store_stamp(order_rig_store(rig), &fence, NULL),
                     STORE_STALE_FENCE);
    fence.owner = NULL;
    assert_int_equal(store_stamp(order_rig_store(rig), &fence, NULL),
                     STORE_STALE_FENCE);
}

/* An order that comes after a try began does not hear that it failed. */
ORDER_RIG_TEST(a_lock_that_is_not_had_is_tried_for_the_next, .stock = {10})
{
    struct rig_order *first, *second;

    step_log_shut_at(&order_steps, "eval-acquire", 1, DLOCK_BEFORE);
    first = order_rig_submit(rig, 1, 1, 1, "");
    step_log_await_gate(&order_steps, 1);
    second = order_rig_submit(rig, 1, 2, 1, "");
    step_log_fail(&order_steps, "eval-acquire", DLOCK_BEFORE, 1);
    step_log_open(&order_steps);
    assert_int_equal(order_rig_await(rig, first), ORDER_LOCK_UNREACHABLE);
    assert_int_equal(order_rig_await(rig, second), ORDER_PLACED);
}

/* Somebody announces a later token. */
static void *announce(void *rig)
{
    /* Above what the lock's server gives, which is the time in microseconds. */
    static struct store_fence fence = {
        .name = "lock:{1:0}", .owner = "later", .token = UINT64_C(3) << 50};

    fence.token += 1000;
    if (store_stamp(order_rig_store(rig), &fence, NULL) != STORE_OK)
        server_proc_die("store_stamp", "refused");
    return NULL;
}

/*
 * While an order is in the commit the lock passes on. The orders that waited
 * behind are not written under the old token; the lock is taken again, and they
 * are placed.
 */
ORDER_RIG_TEST(a_lock_that_was_overtaken_is_taken_again, .stock = {1000})
{
    pthread_t announcer;

    step_log_shut_at(&order_steps, "commit", 0, DLOCK_BEFORE);
    order_rig_submit(rig, 1, 1, 1, "");
    step_log_await_gate(&order_steps, 1);
    pthread_create(&announcer, NULL, announce, rig);
    usleep(20000); /* so that it waits by then; it is right either way */
    order_rig_submit_many(rig, NULL, 20, 1);
    step_log_open(&order_steps);
    pthread_join(announcer, NULL);
    order_rig_await_answered(rig, 21);
    assert_int_equal(order_rig_count(rig, 1, ORDER_PLACED), 21);
    order_rig_expect_ledger(rig, 1, 21);
}

/* Each time that its lock is had, a later holder is announced before the order is
 * written: it is tried as often as is said, and is refused then. */
ORDER_RIG_TEST(an_order_is_not_tried_for_ever, .stock = {1000}, .shared = true,
               .lock_wait_ms = 60000)
{
    struct rig_order *order;

    order_rig_expect(rig, 1, 1, "", ORDER_PLACED);
    step_log_shut_at(&order_steps, "begin", 0, DLOCK_BEFORE);
    order = order_rig_submit(rig, 1, 1, 1, "");
    for (int i = 0; i < ORDER_TRIES_MAX; i++) {
        step_log_await_gate(&order_steps, 1);
        order_rig_child(rig, ORDER_RIG_OVERTAKE);
        step_log_pass(&order_steps);
    }
    step_log_open(&order_steps);
    order_rig_await(rig, order);
    order_rig_expect_not_now(order, UINT32_MAX);
    order_rig_expect(rig, 1, 1, "", ORDER_PLACED);
    order_rig_expect_ledger(rig, 1, 2);
}

/* The lease ends before the work does, each time: a no, and not a wait for ever. */
ORDER_RIG_TEST(a_lease_shorter_than_the_work_ends_in_a_no, .stock = {1000},
               .lock_wait_ms = 1000, .lock_lease_ms = 20, .think_ms = 60)
{
    for (int i = 0; i < 4; i++) {
        struct rig_order *order = order_rig_submit(rig, 1, 1, 1, "");

        order_rig_await(rig, order);
        order_rig_expect_not_now(order, 20000 * order_rig_slow());
    }
    order_rig_expect_ledger(rig, 1, 0);
    assert_int_equal(order_rig_metric(rig, "store_write_seconds_count"), 0);
}

/* Its holder is gone, and nobody tells: who waits has it when the lease ends. */
ORDER_RIG_TEST(a_lock_whose_lease_ends_is_taken_at_once, .stock = {1000})
{
    struct order_foreign *dead = order_foreign_open(1, 1, 1000);
    struct rig_order *order = order_rig_expect(rig, 1, 1, "", ORDER_PLACED);

    assert_true(order->took_ms < 4000 * order_rig_slow());
    order_foreign_close(dead);
    order_rig_expect_ledger(rig, 1, 1);
}

/* Who has the lock of a product while an order for it is in the commit. */
static struct dlock_holder holder_in_commit(struct order_rig *rig,
                                            int64_t product)
{
    struct dlock_holder holder;
    struct rig_order *order;

    step_log_shut_at(&order_steps, "commit", 0, DLOCK_BEFORE);
    order = order_rig_submit(rig, product, 1, 1, "");
    step_log_await_gate(&order_steps, 1);
    holder = order_rig_holder(product, 0);
    step_log_open(&order_steps);
    assert_int_equal(order_rig_await(rig, order), ORDER_PLACED);
    return holder;
}

/* Nobody knows what the server believes of an owner whose releases got no answer: it
 * takes no more locks, though it has another one yet. */
ORDER_RIG_TEST(who_could_not_give_back_takes_no_more, .stock = {10})
{
    struct dlock_holder first, other;
    int64_t product = 1;
    uint64_t left_us;

    step_log_fail(&order_steps, "eval-release", DLOCK_BEFORE, STEP_LOG_ALWAYS);
    first = holder_in_commit(rig, 1);
    step_log_await_at(&order_steps, "eval-release", 1, DLOCK_BEFORE, 2);
    left_us = clock_us() + 11500000; /* GIVE_US_MAX, and a try after that */
    step_log_await_at(&order_steps, "eval-release", 1, DLOCK_BEFORE, 30);
    do { /* while it tries to give back it takes nothing */
        order_rig_put(rig, ++product, 10, 1);
        other = holder_in_commit(rig, product);
    } while (strcmp(first.owner, other.owner) != 0 && product < 50);
    assert_string_equal(first.owner, other.owner);
    while (clock_us() < left_us)
        usleep(10000);
    for (int others = 0; others < 20; others++) { /* it may be giving back */
        order_rig_put(rig, ++product, 10, 1);
        other = holder_in_commit(rig, product);
        assert_string_not_equal(first.owner, other.owner);
    }
}

/* However often its release is tried. */
ORDER_RIG_BOTH(a_hold_is_counted_once, .stock = {10})
{
    step_log_fail(&order_steps, "eval-release", DLOCK_BEFORE, STEP_LOG_ALWAYS);
    order_rig_expect(rig, 1, 1, "", ORDER_PLACED);
    step_log_await_at(&order_steps, "eval-release", 1, DLOCK_BEFORE, 30);
    order_rig_stop(rig);
    assert_int_equal(order_rig_metric(rig, "lock_hold_seconds_count"), 1);
}

/* Locks that cannot be given back keep no other from being taken. */
ORDER_RIG_TEST(who_cannot_give_back_sells_on, .stock = {10},
               .lock_wait_ms = 2000)
{
    for (int64_t id = 1; id <= 41; id++)
        order_rig_put(rig, id, 10, 1);
    step_log_fail(&order_steps, "eval-release", DLOCK_BEFORE, STEP_LOG_ALWAYS);
    order_rig_submit_many(rig, NULL, 40, 40);
    order_rig_await_answered(rig, 40);
    order_rig_expect(rig, 41, 1, "", ORDER_PLACED);
}

#define STUCK_US 1000000u /* a store that has not gone on for so long */

/* The store hangs in its commit, while another instance's might not: the lock goes
 * to who waits for it, though not at once, and the orders are decided when the store
 * goes on. */
ORDER_RIG_TEST(a_stuck_store_keeps_no_lock, .stock = {1000}, .shared = true,
               .lock_wait_ms = 10000, .busy_ms = 60000)
{
    struct server_proc *reader = order_rig_child(rig, ORDER_RIG_READ);
    struct rig_order *order = order_rig_submit(rig, 1, 1, 1, "");
    struct order_foreign *other;

    while (!order_rig_lock_is_held(1, 0))
        usleep(1000);
    other = order_foreign_open(1, 1, MINUTE);
    assert_in_range(clock_us() - order->asked_us, STUCK_US,
                    (uint64_t)30 * STUCK_US * order_rig_slow());
    assert_int_equal(atomic_load(&order->answers), 0);
    server_proc_kill(reader);
    assert_int_equal(order_rig_await(rig, order), ORDER_PLACED);
    order_foreign_close(other);
    order_rig_expect(rig, 1, 1, "", ORDER_PLACED);
    order_rig_expect_ledger(rig, 1, 2);
}

/* A later holder is announced when an order comes to a step. */
static enum order_outcome overtake_at(struct order_rig *rig, const char *step,
                                      const char *key)
{
    struct rig_order *order;

    step_log_shut_at(&order_steps, step, 0, DLOCK_BEFORE);
    order = order_rig_submit(rig, 1, 1, 1, key);
    step_log_await_gate(&order_steps, 1);
    order_rig_child(rig, ORDER_RIG_OVERTAKE);
    step_log_open(&order_steps);
    return order_rig_await(rig, order);
}

/* Once its stock is written an order is not tried again, which would take the units
 * twice; nor when it was placed. */
ORDER_RIG_TEST(a_naive_order_is_tried_again_in_time, .stock = {10},
               .shared = true, .one_by_one = true, .naive = true)
{
    order_rig_expect(rig, 1, 1, "", ORDER_PLACED);
    assert_int_equal(overtake_at(rig, "stamp", "k"), ORDER_PLACED);
    order_rig_expect(rig, 1, 1, "k", ORDER_REPLAYED);
    order_rig_expect_ledger(rig, 1, 2);
    assert_int_equal(overtake_at(rig, "naive-insert", ""),
                     ORDER_STORE_UNAVAILABLE);
}

/* A worker that waited in vain for another one's lock does not take it from it. */
ORDER_RIG_TEST(a_lock_of_our_own_is_no_dead_ones, .stock = {10}, .shared = true,
               .one_by_one = true, .lock_wait_ms = 1000)
{
    struct rig_order *first, *second;

    step_log_shut_at(&order_steps, "place", 0, DLOCK_BEFORE);
    first = order_rig_submit(rig, 1, 1, 1, "");
    step_log_await_gate(&order_steps, 1);
    second = order_rig_submit(rig, 1, 2, 1, "");
    order_rig_await(rig, second);
    order_rig_expect_not_now(second, UINT32_MAX);
    step_log_open(&order_steps);
    assert_int_equal(order_rig_await(rig, first), ORDER_PLACED);
}

/* ---- who waits for whom ---------------------------------------------------- */

/* One has waited for long and one has just come: only the first hears that the
 * lock could not be had in time. */
ORDER_RIG_TEST(each_has_a_patience_of_its_own, .stock = {1000},
               .lock_wait_ms = 8000)
{
    struct order_foreign *other = order_foreign_open(1, 1, MINUTE);
    struct rig_order *first, *second;

    first = order_rig_submit(rig, 1, 1, 1, "");
    usleep(4000000); /* half of its patience; no event tells that */
    second = order_rig_submit(rig, 1, 2, 1, "");
    assert_int_equal(order_rig_await(rig, first), ORDER_LOCK_TIMEOUT);
    assert_int_equal(atomic_load(&second->answers), 0);
    order_foreign_close(other);
    assert_int_equal(order_rig_await(rig, second), ORDER_PLACED);
    order_rig_expect_ledger(rig, 1, 1);
}

#define WORKERS 8

/* An order that waits for a worker waits no longer for its lock than one that got a
 * worker at once. */
ORDER_RIG_TEST(to_wait_for_a_worker_counts, .stock = {10, 10},
               .one_by_one = true, .lock_wait_ms = 6000)
{
    struct order_foreign *other = order_foreign_open(1, 1, MINUTE);
    struct rig_order *first, *second;

    step_log_shut_at(&order_steps, "place", 2, DLOCK_BEFORE);
    for (int i = 1; i < WORKERS; i++)
        order_rig_submit(rig, 2, i, 1, "");
    first = order_rig_submit(rig, 1, 1, 1, "");
    second = order_rig_submit(rig, 1, 2, 1, "");
    usleep(3000000); /* half of their patience; no event tells that */
    step_log_open(&order_steps);
    assert_int_equal(order_rig_await(rig, first), ORDER_LOCK_TIMEOUT);
    usleep(1500000); /* both began at once */
    order_foreign_close(other);
    assert_int_equal(order_rig_await(rig, second), ORDER_LOCK_TIMEOUT);
}

#define BATCH_MS 250

/* A batch may be ahead of an order: it has time for one, however short the wait for a
 * lock may be. */
ORDER_RIG_TEST(a_short_wait_has_time_for_a_batch, .stock = {1000},
               .shared = true, .lock_wait_ms = 1, .busy_ms = 60000)
{
    struct server_proc *reader = order_rig_child(rig, ORDER_RIG_READ);
    struct rig_order *first, *behind;

    do { /* on a busy machine its own time may end before the store has it */
        first = order_rig_submit(rig, 1, 1, 1, "");
        while (atomic_load(&first->answers) == 0 &&
               step_log_count_at(&order_steps, "place", 1, DLOCK_BEFORE) == 0)
            usleep(1000);
    } while (step_log_count_at(&order_steps, "place", 1, DLOCK_BEFORE) == 0);
    behind = order_rig_submit(rig, 1, 2, 1, "");
    order_rig_await(rig, behind);
    order_rig_expect_outcome(behind, ORDER_STORE_UNAVAILABLE);
    assert_true(behind->took_ms >= BATCH_MS);
    server_proc_kill(reader);
    assert_int_equal(order_rig_await(rig, first), ORDER_PLACED);
}

#define PROMPT_MS 30000 /* as it would be minutes */

/* A dead instance has the locks of many products, for all of which orders wait:
 * nobody else is kept. One lock becomes free: who waits for it has it soon,
 * though the others do not come. And all are served when all locks are free. */
static void locks_that_are_taken_delay_no_other(struct order_rig *rig,
                                                int taken)
{
    const unsigned all = (unsigned)taken + 10;
    struct order_foreign *dead, *other;
    struct rig_order *last = NULL;
    uint64_t free_ms;

    for (unsigned id = 1; id <= all; id++)
        order_rig_put(rig, id, 10, 1);
    dead = order_foreign_open(1, taken - 1, 10 * MINUTE);
    other = order_foreign_open(taken, 1, 10 * MINUTE);
    for (int product = 1; product <= taken; product++)
        last = order_rig_submit(rig, product, 1, 1, "");
    for (int product = taken + 1; product <= taken + 10; product++)
        assert_in_range(
            order_rig_expect(rig, product, 1, "", ORDER_PLACED)->took_ms, 0,
            PROMPT_MS * order_rig_slow());
    step_log_await_at(&order_steps, "eval-acquire", taken, DLOCK_BEFORE, 1);
    free_ms = clock_ms();
    order_foreign_close(other);
    assert_int_equal(order_rig_await(rig, last), ORDER_PLACED);
    assert_in_range(clock_ms() - free_ms, 0, PROMPT_MS * order_rig_slow());
    order_foreign_close(dead);
    order_rig_await_answered(rig, all);
    assert_int_equal(order_rig_count(rig, 0, ORDER_PLACED), all);
    order_rig_expect_ledger(rig, 1, 1);
}

/* Fewer than there are workers, and very many. */
ORDER_RIG_TEST(a_few_taken_locks_delay_no_other,
               .lock_wait_ms = INT64_C(5) * MINUTE)
{
    locks_that_are_taken_delay_no_other(rig, 4);
}

ORDER_RIG_TEST(a_thousand_taken_locks_delay_no_other,
               .lock_wait_ms = INT64_C(5) * MINUTE)
{
    locks_that_are_taken_delay_no_other(rig, 1000);
}

/* ---- products that there are not ------------------------------------------- */

#define ABSENT 1000000

static void expect_no_product(struct order_rig *rig, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const struct rig_order *order = order_rig_expect(
            rig, ABSENT + i, 1, i % 2 ? text_of("key-%lld", (long long)i) : "",
            ORDER_NO_PRODUCT);

        /* A no, and not "not now". */
        assert_string_equal(order->detail, store_status_text(STORE_NO_PRODUCT));
    }
}

/* They never reach Redis; one is for sale as soon as somebody puts it there. */
ORDER_RIG_TEST(products_that_there_are_not, .stock = {100})
{
    char reply[64];

    expect_no_product(rig, 100);
    for (int64_t i = 0; i < 100; i++)
        assert_int_equal(step_log_count_at(&order_steps, "command", ABSENT + i,
                                           DLOCK_BEFORE),
                         0);
    redis_server_ask(order_rig_redis(), "KEYS *1000*", reply, sizeof(reply));
    assert_string_equal(reply, "*0\r\n");
    order_rig_put(rig, ABSENT, 1, 1);
    order_rig_expect(rig, ABSENT, 1, "mine", ORDER_PLACED);
    order_rig_expect(rig, ABSENT + 1, 1, "mine", ORDER_KEY_REUSED);
    order_rig_expect_ledger(rig, ABSENT, 1);
    redis_server_kill(order_rig_redis());
    order_rig_expect(rig, ABSENT + 1, 1, "", ORDER_NO_PRODUCT);
}

ORDER_RIG_MAIN
