/*
 * Segments as the textbooks have them, and as they are here: each way that is
 * known to strand, lose or double a unit is shown to do so, and ours not to.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "db/store.h"
#include "tests/support/segment_rig.h"

#include <inttypes.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANY STORE_SEGMENT_ANY

/* ---- pinned to a segment ------------------------------------------------ */

/* hash(user) mod N, and no other: users whose hashes meet get nothing. */
static void test_pinned_to_a_segment(void **state)
{
    struct segment_rig *rig = *state;
    int refused = 0;

    segment_rig_put(rig, 8, 4);
    for (int64_t user = 0; user < 8; user++)
        refused += segment_rig_buy(rig, (user * 4) % 4, 1) != STORE_OK;
    assert_int_equal(refused, 6);
    assert_int_equal(segment_rig_product(rig).stock, 6);
}

static void test_not_pinned(void **state)
{
    struct segment_rig *rig = *state;
    enum store_status status;
    int refused = 0;

    segment_rig_put(rig, 8, 4);
    for (int64_t user = 0; user < 8; user++) {
        status = segment_rig_buy(rig, (user * 4) % 4, 1);
        if (status == STORE_SHORT) /* which is no "sold out" */
            status = segment_rig_buy(rig, ANY, 1);
        refused += status != STORE_OK;
    }
    assert_int_equal(refused, 0);
    assert_int_equal(segment_rig_product(rig).stock, 0);
}

/* ---- fragments ---------------------------------------------------------- */

/* Even who probes every segment finds no two units in one. */
static void test_fragments_refuse(void **state)
{
    struct segment_rig *rig = *state;

    segment_rig_put(rig, 8, 8);
    for (int64_t i = 0; i < 8; i++)
        assert_int_equal(segment_rig_buy(rig, i, 2), STORE_SHORT);
    assert_int_equal(segment_rig_product(rig).stock, 8);
}

static void test_fragments_are_gathered(void **state)
{
    struct segment_rig *rig = *state;

    segment_rig_put(rig, 8, 8);
    for (int64_t i = 0; i < 4; i++)
        assert_int_equal(segment_rig_buy(rig, ANY, 2), STORE_OK);
    assert_int_equal(segment_rig_buy(rig, ANY, 1), STORE_SOLD_OUT);
    segment_rig_expect_sound(rig);
}

/* ---- the moved unit ----------------------------------------------------- */

static int steps_to_go;

static enum store_verdict die_at_the_step(void *ctx, const char *step,
                                          int64_t product_id,
                                          enum store_phase phase)
{
    const char *deadly = ctx;

    (void)product_id;
    if (phase == STORE_BEFORE && strcmp(step, deadly) == 0 &&
        --steps_to_go == 0)
        raise(SIGKILL);
    return STORE_GO;
}

/* In two steps: off the one cell, on the other; or the other way round. */
static void move_in_two_steps(struct store *store, bool off_first)
{
    if (off_first)
        store_naive_update(store, 1, 0, 5 - 3, NULL, NULL);
    store_naive_update(store, 1, 1, 5 + 3, NULL, NULL);
    store_naive_update(store, 1, 0, 5 - 3, NULL, NULL);
}

static void off_and_on(struct store *store)
{
    move_in_two_steps(store, true);
}

static void on_and_off(struct store *store)
{
    move_in_two_steps(store, false);
}

static void in_one(struct store *store)
{
    struct store_transfer it = {
        .id = "t", .product_id = 1, .from = 0, .to = 1, .units = 3};

    store_rebalance(store, &it, NULL);
}

/* A process of its own moves 3 units, and dies before the N-th such step. */
static void move_and_die(struct segment_rig *rig, void (*move)(struct store *),
                         const char *step, int n)
{
    char deadly[32];
    const struct store_options options = {
        .url = rig->dir.url, .on_step = die_at_the_step, .on_step_ctx = deadly};
    struct store *store;
    pid_t child;
    int status;

    store_reader_close(rig->reader);
    store_close(rig->store);
    snprintf(deadly, sizeof(deadly), "%s", step);
    fflush(NULL);
    child = fork();
    if (child == 0) {
        if (store_open(&options, &store, NULL) != STORE_OK)
            _exit(1);
        steps_to_go = n;
        move(store);
        _exit(2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(store_open(&(struct store_options){.url = rig->dir.url},
                                &rig->store, NULL),
                     STORE_OK);
    assert_int_equal(store_reader_open(rig->store, &rig->reader, NULL),
                     STORE_OK);
}

static void test_moved_unit_is_lost(void **state)
{
    struct segment_rig *rig = *state;

    segment_rig_put(rig, 10, 2);
    move_and_die(rig, off_and_on, "naive-update", 2);
    segment_rig_expect(rig, "2 5");
    assert_int_equal(segment_rig_audit(rig).undersold, 3);
}

static void test_moved_unit_is_doubled(void **state)
{
    struct segment_rig *rig = *state;

    segment_rig_put(rig, 10, 2);
    move_and_die(rig, on_and_off, "naive-update", 2);
    segment_rig_expect(rig, "5 8");
    assert_int_equal(segment_rig_audit(rig).phantom, 3);
    assert_int_equal(segment_rig_buy(rig, ANY, 13), STORE_OK); /* of 10 */
    assert_int_equal(segment_rig_audit(rig).oversold, 3);
}

static void test_moved_unit_is_moved(void **state)
{
    struct segment_rig *rig = *state;

    segment_rig_put(rig, 10, 2);
    move_and_die(rig, in_one, "commit", 1);
    segment_rig_expect(rig, "5 5");
    segment_rig_expect_sound(rig);
    in_one(rig->store);
    in_one(rig->store); /* who got no answer asks again */
    segment_rig_expect(rig, "2 8");
    segment_rig_expect_sound(rig);
}

/* ---- a resize in mid-sale ----------------------------------------------- */

/* The textbook's cancel: back to where the order would be put today. */
static void cancel_by_hash(struct segment_rig *rig,
                           const struct store_order *order, int64_t segments)
{
    char sql[300], *error = NULL;
    sqlite3 *db;

    snprintf(sql, sizeof(sql),
             "BEGIN; UPDATE orders SET state = 1, cancelled_ms = 1 "
             "WHERE number = %" PRId64 "; UPDATE cells "
             "SET stock = stock + %" PRId64 " WHERE segment = %" PRId64
             "; COMMIT",
             order->number, order->quantity, order->user_id % segments);
    assert_int_equal(sqlite3_open(rig->dir.db, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &error) != SQLITE_OK)
        fail_msg("%s", error);
    sqlite3_close(db);
}

/* User 7 bought from segment 7 of 8, as his hash says. */
static struct store_order buy_by_hash(struct segment_rig *rig)
{
    struct store_order order = {
        .product_id = 1, .user_id = 7, .segment = 7, .quantity = 2};
    struct store_order *orders[] = {&order};

    assert_int_equal(store_place(rig->store, orders, 1, NULL, NULL), STORE_OK);
    assert_int_equal(order.status, STORE_OK);
    return order;
}

static void test_cancel_by_hash_after_a_resize(void **state)
{
    struct segment_rig *rig = *state;
    struct store_order order;

    segment_rig_put(rig, 16, 8);
    order = buy_by_hash(rig);
    segment_rig_resize(rig, 4);
    cancel_by_hash(rig, &order, 4); /* 7 mod 4: to segment 3 */
    assert_int_equal(segment_rig_audit(rig).phantom, 2);
    assert_int_equal(segment_rig_audit(rig).undersold, 2);
}

static int64_t stranded(struct segment_rig *rig)
{
    int64_t units = -1;

    assert_int_equal(store_stranded(rig->reader, &units, NULL), STORE_OK);
    return units;
}

/* And to the right one, but nobody looks there any more. */
static void test_cancel_by_old_hash_strands(void **state)
{
    struct segment_rig *rig = *state;
    struct store_order order;

    segment_rig_put(rig, 16, 8);
    order = buy_by_hash(rig);
    segment_rig_resize(rig, 4);
    assert_int_equal(stranded(rig), 0);
    cancel_by_hash(rig, &order, 8);
    assert_int_equal(segment_rig_audit(rig).stranded, 2);
    assert_int_equal(stranded(rig), 2);
    assert_int_equal(segment_rig_buy(rig, ANY, 16), STORE_SOLD_OUT);
}

static void test_cancel_by_order_after_a_resize(void **state)
{
    struct segment_rig *rig = *state;
    struct store_order order;

    segment_rig_put(rig, 16, 8);
    order = buy_by_hash(rig);
    segment_rig_resize(rig, 4);
    segment_rig_cancel(rig, &order);
    segment_rig_expect_sound(rig);
    assert_int_equal(segment_rig_buy(rig, ANY, 16), STORE_OK);
}

#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, segment_rig_set_up,                  \
                                    segment_rig_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_pinned_to_a_segment),
        TEST(test_not_pinned),
        TEST(test_fragments_refuse),
        TEST(test_fragments_are_gathered),
        TEST(test_moved_unit_is_lost),
        TEST(test_moved_unit_is_doubled),
        TEST(test_moved_unit_is_moved),
        TEST(test_cancel_by_hash_after_a_resize),
        TEST(test_cancel_by_old_hash_strands),
        TEST(test_cancel_by_order_after_a_resize),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
