/*
 * Orders with a key for what is sold out: who has bought before hears so, all
 * others are refused without a transaction.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/clock.h"
#include "server/pool.h"
#include "tests/support/desk_rig.h"

#define STOCK 3
#define MANY  100

struct fixture {
    struct desk_rig *rig;
    int tickets; /* so far */
};

static int open_as(bool shared, void **state)
{
    struct config config = {
        .lock = "process", .desk = DESK_COMBINE, .shared = shared};
    struct fixture *f = calloc(1, sizeof(*f));

    f->rig = desk_rig_new(&config, NULL, STOCK, NULL, NULL);
    f->rig->app.pool = pool_open(&f->rig->app);
    assert_non_null(f->rig->app.pool);
    *state = f;
    return 0;
}

static int set_up(void **state)
{
    return open_as(false, state);
}

static int set_up_shared(void **state)
{
    return open_as(true, state);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    desk_rig_let_go(f->rig); /* a test that failed may have held it */
    pool_close(f->rig->app.pool);
    desk_rig_free(f->rig);
    free(f);
    return 0;
}

/* Hands in a ticket of UNITS with a key, "" = none; each is of another
 * user. */
static void ask(struct fixture *f, const char *key, int64_t units)
{
    assert_true(desk_rig_submit_key(f->rig, f->tickets++, units, key));
}

static enum order_outcome answer_to(struct fixture *f, const char *key,
                                    int64_t units)
{
    ask(f, key, units);
    desk_rig_wait_answered(f->rig, f->tickets);
    return f->rig->tickets[f->tickets - 1].outcome;
}

/* The first with a key, and then all is sold and known to be. */
static void sell_out(struct fixture *f)
{
    assert_int_equal(answer_to(f, "first", 1), ORDER_PLACED);
    for (int i = 1; i < STOCK; i++)
        assert_int_equal(answer_to(f, "", 1), ORDER_PLACED);
    assert_int_equal(answer_to(f, "", 1), ORDER_SOLD_OUT);
    atomic_store(&f->rig->commits, 0);
}

static void expect_commits(const struct fixture *f, int commits)
{
    assert_int_equal(atomic_load(&f->rig->commits), commits);
}

static void an_unknown_key_costs_no_transaction(void **state)
{
    struct fixture *f = *state;

    sell_out(f);
    assert_int_equal(answer_to(f, "late", 1), ORDER_SOLD_OUT);
    assert_int_equal(answer_to(f, "later", 2), ORDER_SOLD_OUT);
    expect_commits(f, 0);
}

static void who_has_bought_hears_so(void **state)
{
    struct fixture *f = *state;
    const struct ticket *first = &f->rig->tickets[0];
    struct ticket again = {0};

    sell_out(f);
    again.order = first->order;
    again.done = first->done;
    again.owner = first->owner;
    assert_null(desk_submit(f->rig->app.desk, &again));
    desk_rig_wait_answered(f->rig, f->tickets + 1);
    assert_int_equal(again.outcome, ORDER_REPLAYED);
    assert_string_equal(again.order.id, first->order.id);
}

static void a_key_of_another_order_is_told(void **state)
{
    struct fixture *f = *state;

    sell_out(f);
    assert_int_equal(answer_to(f, "first", 1), ORDER_KEY_REUSED); /* a user's */
}

/* All that come at once are looked up, and each is answered. */
static void many_at_once(void **state)
{
    struct fixture *f = *state;
    char key[20];

    sell_out(f);
    for (int i = 0; i < MANY; i++) {
        snprintf(key, sizeof(key), "%d", i);
        ask(f, i % 10 == 0 ? "first" : key, 1);
    }
    desk_rig_wait_answered(f->rig, f->tickets);
    assert_int_equal(desk_rig_count(f->rig, ORDER_KEY_REUSED), MANY / 10);
    assert_int_equal(desk_rig_count(f->rig, ORDER_SOLD_OUT), MANY * 9 / 10 + 1);
}

static void what_comes_back_is_sold(void **state)
{
    struct fixture *f = *state;
    struct store_order order;

    sell_out(f);
    assert_int_equal(answer_to(f, "late", 1), ORDER_SOLD_OUT);
    assert_int_equal(store_cancel(f->rig->app.store,
                                  f->rig->tickets[1].order.id, &order, NULL),
                     STORE_OK);
    assert_int_equal(answer_to(f, "late", 1), ORDER_PLACED);
    assert_int_equal(answer_to(f, "later", 1), ORDER_SOLD_OUT);
    desk_rig_expect_sold(f->rig, STOCK);
}

/* As a pool that is closing does: the order goes the usual way. */
static void without_the_pool_it_is_decided_all_the_same(void **state)
{
    struct fixture *f = *state;

    sell_out(f);
    pool_close(f->rig->app.pool);
    f->rig->app.pool = NULL;
    assert_int_equal(answer_to(f, "late", 1), ORDER_SOLD_OUT);
    expect_commits(f, 1);
}

/* Nothing can be read while somebody has the database for himself; then it is
 * for the desk to wait. */
static void what_cannot_be_looked_up_goes_the_usual_way(void **state)
{
    struct fixture *f = *state;
    sqlite3 *db;

    sell_out(f);
    store_end_waits(f->rig->app.store);
    assert_int_equal(sqlite3_open(f->rig->dir.db, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN EXCLUSIVE", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(answer_to(f, "late", 1), ORDER_STORE_UNAVAILABLE);
    assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    assert_int_equal(answer_to(f, "late", 1), ORDER_SOLD_OUT);
}

/* Whose key is being looked up waits like all others: there is no room at the
 * desk beside the desk. */
static void who_is_looked_up_has_a_place(void **state)
{
    struct fixture *f = *state;

    sell_out(f);
    f->rig->config.queue_max = 3;
    atomic_store(&f->rig->hold_reads, true);
    ask(f, "a", 1);
    desk_rig_wait_read(f->rig);
    ask(f, "b", 1);
    ask(f, "c", 1);
    assert_int_equal(desk_depth(f->rig->app.desk), 3);
    assert_false(desk_rig_submit_key(f->rig, f->tickets, 1, "d"));
    assert_int_equal(f->rig->tickets[f->tickets].outcome, ORDER_OVERLOADED);
    desk_rig_let_go(f->rig);
    desk_rig_wait_answered(f->rig, f->tickets);
    assert_int_equal(desk_depth(f->rig->app.desk), 0);
    ask(f, "d", 1);
    desk_rig_wait_answered(f->rig, f->tickets);
    expect_commits(f, 0);
}

/* The time that the looking up took counts: for who is refused for having waited
 * too long, and for what is told of waiting times. And the place is kept, though
 * by now there is no other. */
static void who_is_handed_on_has_waited_before(void **state)
{
    struct fixture *f = *state;
    uint64_t before_us;

    sell_out(f);
    f->rig->config.queue_max = 1;
    atomic_store(&f->rig->hold_reads, true);
    ask(f, "first", 1);
    desk_rig_wait_read(f->rig);
    before_us = clock_us();
    desk_rig_let_go(f->rig);
    desk_rig_wait_answered(f->rig, f->tickets);
    assert_int_equal(f->rig->tickets[f->tickets - 1].outcome, ORDER_KEY_REUSED);
    assert_true(f->rig->tickets[f->tickets - 1].submitted_us <= before_us);
    assert_int_equal(desk_depth(f->rig->app.desk), 0);
}

/* Each read succeeds, late; many such in a row would keep the last for minutes:
 * they are not waited for. */
static void slow_reads_do_not_add_up(void **state)
{
    struct fixture *f = *state;

    sell_out(f);
    atomic_store(&f->rig->hold_reads, true);
    ask(f, "a", 1);
    desk_rig_wait_read(f->rig); /* the others gather */
    for (int i = 0; i < MANY; i++)
        ask(f, "b", 1);
    f->rig->read_ms = 60;
    atomic_store(&f->rig->reads, 0);
    desk_rig_let_go(f->rig);
    desk_rig_wait_answered(f->rig, f->tickets);
    assert_int_equal(atomic_load(&f->rig->reads), 1);
    assert_int_equal(desk_rig_count(f->rig, ORDER_SOLD_OUT), MANY + 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define SHARED(name)                                                           \
    cmocka_unit_test_setup_teardown(name, set_up_shared, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_unknown_key_costs_no_transaction),
        SHARED(an_unknown_key_costs_no_transaction),
        TEST(who_has_bought_hears_so),
        SHARED(who_has_bought_hears_so),
        TEST(a_key_of_another_order_is_told),
        TEST(many_at_once),
        SHARED(many_at_once),
        TEST(what_comes_back_is_sold),
        SHARED(what_comes_back_is_sold),
        TEST(without_the_pool_it_is_decided_all_the_same),
        TEST(who_is_looked_up_has_a_place),
        TEST(who_is_handed_on_has_waited_before),
        TEST(slow_reads_do_not_add_up),
        SHARED(what_cannot_be_looked_up_goes_the_usual_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
