/*
 * Orders and the store's transactions: what gathers while the disk is busy is
 * decided together and in turn; what fails hurts nobody else; and nobody is left in
 * doubt who need not be: their keys are looked up. Cancels in a sale, and after a
 * resize: e2e/segments.t and e2e/segment-sale.t; of one order at once:
 * test_store_meet.c.
 */
#include "server/order/lock_tasks.h"
#include "tests/support/order_rig.h"
#include "tests/support/store_wait.h"

#define MANY 100

static bool says_nothing_ordered(const struct rig_order *order)
{
    return strstr(order->detail, "nothing was ordered") != NULL;
}

/* An order is in a transaction, which is held up. */
static struct rig_order *order_in_transaction(struct order_rig *rig)
{
    struct rig_order *first;

    step_log_shut_at(&order_steps, "place", 1, DLOCK_BEFORE);
    first = order_rig_submit(rig, 1, 1, 1, "");
    step_log_await_gate(&order_steps, 1);
    return first;
}

ORDER_RIG_TEST(what_comes_meanwhile_is_one_transaction, .stock = {1000})
{
    struct rig_order *first = order_in_transaction(rig), *orders[MANY];

    order_rig_submit_many(rig, orders, MANY, 1);
    assert_int_equal(order_rig_answered(rig), 0);
    step_log_open(&order_steps);
    order_rig_await_answered(rig, MANY + 1);
    for (int i = 0; i < MANY; i++) {
        order_rig_expect_outcome(orders[i], ORDER_PLACED);
        assert_int_equal(orders[i]->transaction, orders[0]->transaction);
    }
    assert_true(orders[0]->transaction > first->transaction);
    order_rig_expect_ledger(rig, 1, MANY + 1);
}

/* Half of them can be served, and these are the ones that came first. */
ORDER_RIG_TEST(first_come_first_served, .stock = {1 + MANY / 2})
{
    struct rig_order *first = order_in_transaction(rig), *orders[MANY];

    for (int i = 0; i < MANY; i++)
        orders[i] = order_rig_make(rig, 1, i + 2, 1, "");
    for (int i = 0; i < MANY; i += 4) { /* some singly, some together */
        order_rig_hand_in(rig, &orders[i], 2);
        order_rig_hand_in(rig, &orders[i + 2], 1);
        order_rig_hand_in(rig, &orders[i + 3], 1);
    }
    step_log_open(&order_steps);
    order_rig_await_answered(rig, MANY + 1);
    order_rig_expect_outcome(first, ORDER_PLACED);
    for (int i = 0; i < MANY; i++)
        order_rig_expect_outcome(orders[i],
                                 i < MANY / 2 ? ORDER_PLACED : ORDER_SOLD_OUT);
    for (int i = 0; i + 1 < MANY / 2; i++)
        assert_true(orders[i]->number < orders[i + 1]->number);
    order_rig_expect_ledger(rig, 1, 1 + MANY / 2);
}

/* A write fails, and a commit: nothing of the order is there, and the next one is
 * placed. */
ORDER_RIG_TEST(what_fails_leaves_nothing, .stock = {10, 10})
{
    static const char *const steps[] = {"place", "commit"};
    struct store_order stored;

    for (int i = 0; i < 2; i++) {
        step_log_fail(&order_steps, steps[i], DLOCK_BEFORE, 1);
        order_rig_expect(rig, 1, 1, steps[i], ORDER_STORE_UNAVAILABLE);
        assert_int_equal(order_rig_find_key(rig, steps[i], &stored),
                         STORE_NO_ORDER);
        order_rig_expect(rig, 2, 1, "", ORDER_PLACED);
        order_rig_expect(rig, 1, 1, steps[i], ORDER_PLACED);
        order_rig_expect_ledger(rig, 1, i + 1);
        order_rig_expect_ledger(rig, 2, i + 1);
    }
}

/* It is on disk, and nobody was told: so it may have been ordered, and a key finds it. */
ORDER_RIG_TEST(a_commit_whose_answer_is_lost_is_found_by_its_key, .stock = {10})
{
    struct rig_order *order;
    struct store_order stored;

    step_log_fail(&order_steps, "commit", DLOCK_AFTER, 1);
    order = order_rig_expect(rig, 1, 1, "", ORDER_STORE_UNAVAILABLE);
    assert_non_null(strstr(order->detail, "; it may have been ordered"));
    assert_null(strstr(order->detail, "key")); /* it has none */
    step_log_fail(&order_steps, "commit", DLOCK_AFTER, 1);
    order = order_rig_expect(rig, 1, 1, "k", ORDER_STORE_UNAVAILABLE);
    assert_non_null(strstr(order->detail, "ordered: look for it by its key"));
    assert_int_equal(order_rig_find_key(rig, "k", &stored), STORE_OK);
    order = order_rig_expect(rig, 1, 1, "k", ORDER_REPLAYED);
    assert_string_equal(order->id, stored.id);
    order_rig_expect_ledger(rig, 1, 2);
}

/* A transaction fails: its order hears so. Those that came while it was under way
 * are in another one, and are placed. */
ORDER_RIG_TEST(a_batch_that_fails_hurts_no_other, .stock = {1000, 1000},
               .segments = {1, 4})
{
    struct rig_order *first = order_in_transaction(rig);

    order_rig_submit_many(rig, NULL, MANY, 2);
    step_log_fail(&order_steps, "commit", DLOCK_BEFORE, 1);
    step_log_open(&order_steps);
    order_rig_await_answered(rig, MANY + 1);
    order_rig_expect_outcome(first, ORDER_STORE_UNAVAILABLE);
    assert_int_equal(order_rig_count(rig, 0, ORDER_PLACED), MANY);
    order_rig_expect_ledger(rig, 1, MANY / 2);
    order_rig_expect_ledger(rig, 2, MANY / 2);
}

struct cancel {
    struct order_rig *rig;
    const char *id;
    enum store_status status;
};

static void *cancel_one(void *arg)
{
    struct cancel *cancel = arg;
    struct store_order order;

    cancel->status =
        store_cancel(order_rig_store(cancel->rig), cancel->id, &order, NULL);
    return NULL;
}

/* An order finds its segment short, since the units lie elsewhere: it is placed there, and
 * they are dealt out anew. */
ORDER_RIG_TEST(what_was_found_short_is_dealt_out, .stock = {100},
               .segments = {2}, .shared = true)
{
    order_rig_expect(rig, 1, 1, "", ORDER_PLACED);
    order_rig_child(rig, "UPDATE segments SET stock = 99 * segment");
    for (int i = 0; i < 50; i++)
        order_rig_expect(rig, 1, 1, "", ORDER_PLACED);
    step_log_await_at(&order_steps, "even-out", 1, DLOCK_AFTER, 1);
}

/* The first of a batch is replayed, and the others go on to another segment: as they
 * came. */
ORDER_RIG_TEST(what_goes_on_behind_a_replay_keeps_its_order, .stock = {100},
               .segments = {2})
{
    struct store_order known = {
        .product_id = 1, .user_id = 1, .quantity = 50, .key = "k"};
    struct store_order *const all = &known;
    struct rig_order *orders[50];

    assert_int_equal(store_place(order_rig_store(rig), &all, 1, NULL, NULL),
                     STORE_OK);
    orders[0] = order_rig_make(rig, 1, 1, 50, "k");
    for (int i = 1; i < 50; i++)
        orders[i] = order_rig_make(rig, 1, i, 1, "");
    order_rig_hand_in(rig, orders, 50);
    assert_int_equal(order_rig_await(rig, orders[0]), ORDER_REPLAYED);
    for (int i = 1; i < 50; i++)
        assert_int_equal(order_rig_await(rig, orders[i]), ORDER_PLACED);
    for (int i = 2; i < 50; i++)
        assert_true(orders[i - 1]->number < orders[i]->number);
}

/* What fails is a cancel's transaction: the orders were never tried. */
ORDER_RIG_TEST(a_cancel_that_fails_hurts_no_order, .stock = {1000})
{
    struct rig_order *first = order_rig_expect(rig, 1, 1, "", ORDER_PLACED);
    struct cancel cancel = {.rig = rig, .id = first->id};
    pthread_t thread;

    step_log_shut_at(&order_steps, "commit", 0, DLOCK_BEFORE);
    pthread_create(&thread, NULL, cancel_one, &cancel);
    step_log_await_gate(&order_steps, 1);
    order_rig_submit_many(rig, NULL, MANY, 1);
    step_log_fail(&order_steps, "commit", DLOCK_BEFORE, 1);
    step_log_open(&order_steps);
    pthread_join(thread, NULL);
    assert_int_not_equal(cancel.status, STORE_OK);
    order_rig_await_answered(rig, MANY + 1);
    assert_int_equal(order_rig_count(rig, 1, ORDER_PLACED), MANY + 1);
    order_rig_expect_ledger(rig, 1, MANY + 1);
}

/* Another process keeps the database: nothing was tried, so nothing can have
 * been ordered, and the answer says so. */
ORDER_RIG_TEST(what_was_not_tried_was_not_ordered, .stock = {1000, 1000},
               .segments = {1, 4}, .shared = true, .busy_ms = 200)
{
    struct server_proc *keeper;
    struct rig_order *orders[MANY];

    order_rig_expect(rig, 1, 1, "", ORDER_PLACED);
    keeper = order_rig_child(rig, ORDER_RIG_KEEP);
    order_rig_submit_many(rig, orders, MANY, 2);
    for (int i = 0; i < MANY; i++) {
        order_rig_await(rig, orders[i]);
        order_rig_expect_not_now(orders[i], UINT32_MAX);
        if (!says_nothing_ordered(orders[i]))
            fail_msg("%s", orders[i]->detail);
    }
    server_proc_kill(keeper);
    order_rig_expect(rig, 1, 1, "", ORDER_PLACED);
    order_rig_expect_ledger(rig, 1, 2);
}

/* "Another has it" is for a while; of a server that is away nobody knows for how long. */
UNIT_TEST(each_end_at_the_lock_has_its_answer)
{
    static const enum dlock_status ends[] = {DLOCK_BUSY, DLOCK_TIMEOUT,
                                             DLOCK_LOST, DLOCK_UNREACHABLE,
                                             DLOCK_UNKNOWN};
    const char *why;

    for (size_t i = 0; i < 5; i++)
        assert_int_equal(
            lock_task_outcome(&(struct lock_task){.status = ends[i]}, &why),
            i < 3 ? ORDER_LOCK_TIMEOUT : ORDER_LOCK_UNREACHABLE);
}

/* ---- who has bought before ------------------------------------------------- */

/* ORDER was placed with the key "mine": another order with it is refused; also one of
 * another product. */
static void expect_known(struct order_rig *rig, const struct rig_order *order)
{
    struct rig_order *again = order_rig_submit(rig, 1, 1, 2, "mine");
    const struct rig_order *others[] = {
        order_rig_submit(rig, 1, 1, 1, "mine"),
        order_rig_submit(rig, 1, 2, 2, "mine"), /* another user's */
        order_rig_submit(rig, 2, 1, 2, "mine")};

    assert_int_equal(order_rig_await(rig, again), ORDER_REPLAYED);
    assert_string_equal(again->id, order->id);
    assert_true(again->took_ms < 7200 * order_rig_slow());
    for (size_t i = 0; i < COUNT_OF(others); i++)
        assert_int_equal(order_rig_await(rig, others[i]), ORDER_KEY_REUSED);
}

/* A key is looked for before it is told that all is sold, or that there is no lock. */
ORDER_RIG_TEST(a_known_key_when_all_is_sold, .stock = {1000, 1000},
               .lock_wait_ms = 4000)
{
    struct rig_order *order = order_rig_expect(rig, 1, 2, "mine", ORDER_PLACED);

    order_rig_expect(rig, 1, 998, "", ORDER_PLACED);
    expect_known(rig, order);
    order_rig_expect(rig, 1, 1, "", ORDER_SOLD_OUT);
    expect_known(rig, order);
    order_rig_expect(rig, 1, 1, "new", ORDER_SOLD_OUT);
    order_rig_expect_ledger(rig, 1, 1000);
}

ORDER_RIG_BOTH(a_known_key_when_another_has_the_lock, .stock = {1000, 1000},
               .lock_wait_ms = 4000)
{
    struct rig_order *order = order_rig_expect(rig, 1, 2, "mine", ORDER_PLACED);
    struct order_foreign *other = order_foreign_open(1, 2, 120000);
    struct rig_order *unknown = order_rig_submit(rig, 1, 1, 1, "new");

    expect_known(rig, order);
    assert_int_equal(order_rig_await(rig, unknown), ORDER_LOCK_TIMEOUT);
    order_foreign_close(other);
    order_rig_expect_ledger(rig, 1, 2);
}

/* An order that is refused has its key looked up. It is not placed then, although the
 * lock could be had by now. */
ORDER_RIG_TEST(a_refused_order_with_a_new_key_is_not_placed, .stock = {1000},
               .lock_wait_ms = 60000)
{
    struct rig_order *order;

    step_log_fail(&order_steps, "eval-acquire", DLOCK_BEFORE, 1);
    order = order_rig_submit(rig, 1, 1, 1, "new");
    order_rig_await(rig, order);
    order_rig_expect_not_now(order, UINT32_MAX);
    assert_true(says_nothing_ordered(order));
    order_rig_expect(rig, 1, 1, "new", ORDER_PLACED);
    order_rig_expect_ledger(rig, 1, 1);
}

/* ORDER hears why it was refused, and that nobody knows what its key has ordered. */
static void expect_not_looked_up(struct order_rig *rig,
                                 const struct rig_order *order)
{
    order_rig_await(rig, order);
    order_rig_expect_outcome(order, ORDER_LOCK_UNREACHABLE);
    if (!strstr(order->detail, "an earlier try with this key may have ordered"))
        fail_msg("%s", order->detail);
}

ORDER_RIG_TEST(a_key_that_cannot_be_looked_up, .stock = {1000},
               .lock_wait_ms = 60000)
{
    step_log_fail(&order_steps, "eval-acquire", DLOCK_BEFORE, 1);
    step_log_fail_also(&order_steps, "commit", DLOCK_BEFORE, 1);
    expect_not_looked_up(rig, order_rig_submit(rig, 1, 1, 1, "new"));
}

static void *restock_main(void *rig)
{
    order_rig_restock(rig, 2, 1);
    return NULL;
}

/* A write hangs in its commit. */
ORDER_RIG_TEST(a_key_that_cannot_be_looked_up_in_time, .stock = {10, 10},
               .shared = true, .lock_wait_ms = 60000, .busy_ms = 60000)
{
    struct server_proc *reader;
    struct rig_order *order;
    pthread_t writer;

    step_log_shut_at(&order_steps, "eval-acquire", 1, DLOCK_BEFORE);
    order = order_rig_submit(rig, 1, 1, 1, "new");
    step_log_await_gate(&order_steps, 1);
    reader = order_rig_child(rig, ORDER_RIG_READ);
    pthread_create(&writer, NULL, restock_main, rig);
    step_log_await_at(&order_steps, "restock", 2, DLOCK_BEFORE, 1);
    step_log_fail(&order_steps, "eval-acquire", DLOCK_BEFORE, 1);
    step_log_open(&order_steps);
    order_rig_await(rig, order);
    server_proc_kill(reader);
    pthread_join(writer, NULL);
    expect_not_looked_up(rig, order);
}

ORDER_RIG_MAIN
