/*
 * A product whose stock is split: which segment an order goes to, and that it is
 * told "sold out" only when no segment has what it wants. Scenarios 34 and 35 at
 * the desk, both desks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "server/warm/warm.h"
#include "tests/support/desk_rig.h"
#include "tests/support/redis_server.h"

static struct desk_rig *rig_with(enum config_desk desk, int64_t stock,
                                 int64_t segments)
{
    struct config config = {.desk = desk, .lock_wait_ms = 10000};
    struct desk_rig *rig;

    snprintf(config.lock, sizeof(config.lock), "process");
    rig = desk_rig_new(&config, NULL, stock, NULL, NULL);
    desk_rig_split(rig, segments);
    return rig;
}

static struct store_cells cells_of(struct desk_rig *rig)
{
    struct store_reader *reader;
    struct store_cells cells;

    assert_int_equal(store_reader_open(rig->app.store, &reader, NULL),
                     STORE_OK);
    assert_int_equal(store_cells_get(reader, 1, &cells, NULL), STORE_OK);
    store_reader_close(reader);
    return cells;
}

/* Sells behind the desk's back: what it remembers of SEGMENT is wrong now. */
static enum store_status sell_unseen(struct desk_rig *rig, int64_t segment,
                                     int64_t units)
{
    struct store_order order = {.product_id = 1,
                                .user_id = 1000000,
                                .quantity = units,
                                .segment = segment};
    struct store_order *orders[] = {&order};

    assert_int_equal(store_place(rig->app.store, orders, 1, NULL, NULL),
                     STORE_OK);
    return order.status;
}

static void sell(struct desk_rig *rig, int from, int to, int64_t units)
{
    for (int i = from; i < to; i++)
        assert_true(desk_rig_submit_units(rig, i, units));
    desk_rig_wait_answered(rig, to);
}

/* Most tests are of both desks. */
static enum config_desk desks[] = {DESK_COMBINE, DESK_DIRECT};

static enum config_desk desk_of(void **state)
{
    return *(const enum config_desk *)*state;
}

/* 70 units in one of four segments, 10 in each of the others: of the first 50
 * orders 35 go to it, give or take five standard deviations of 2.3. */
static void segments_are_chosen_by_what_they_have(void **state)
{
    struct desk_rig *f = rig_with(DESK_COMBINE, 100, 4);
    struct store_cells cells;
    bool in_redis;

    (void)state;
    for (int64_t i = 1; i < 4; i++) {
        struct store_transfer it = {
            .product_id = 1, .from = i, .to = 0, .units = 15};

        snprintf(it.id, sizeof(it.id), "move-%d", (int)i);
        assert_int_equal(store_rebalance(f->app.store, &it, NULL), STORE_OK);
    }
    assert_int_equal(warm_up(f->app.warm, 1, &cells, &in_redis, NULL),
                     STORE_OK);
    assert_int_equal(cells.cells[0].stock, 70);
    sell(f, 0, 50, 1);
    cells = cells_of(f);
    assert_in_range(70 - cells.cells[0].stock, 23, 47);
    sell(f, 50, 100, 1);
    assert_int_equal(desk_rig_count(f, ORDER_PLACED), 100);
    /* The copy was right all the time: nobody had to be sent on. */
    assert_int_equal((int)desk_rig_metric(f, "stockade_order_probes_sum"), 100);
    assert_int_equal((int)desk_rig_metric(f, "stockade_order_probes_count"),
                     100);
    desk_rig_expect_sold(f, 100);
    desk_rig_free(f);
}

/* Scenario 34, the bug: each user has a segment of his own and asks no other. */
static void pinned_users_are_refused_with_stock_left(void **state)
{
    struct desk_rig *f = rig_with(DESK_COMBINE, 80, 8);
    int refused = 0;

    (void)state;
    for (int64_t user = 1; user <= 80; user++)
        refused += sell_unseen(f, user % 4, 1) != STORE_OK;
    assert_int_equal(refused, 40); /* and 40 units are left */
    desk_rig_expect_sold(f, 40);
    desk_rig_free(f);
}

/* The desk's way, and the same start: four segments are empty, which it does not
 * know; whoever is sent there is sent on, until all is sold. */
static void others_are_asked_before_anybody_hears_sold_out(void **state)
{
    struct desk_rig *f = rig_with(desk_of(state), 80, 8);

    for (int64_t segment = 0; segment < 4; segment++)
        assert_int_equal(sell_unseen(f, segment, 10), STORE_OK);
    sell(f, 0, 40, 1);
    assert_int_equal(desk_rig_count(f, ORDER_PLACED), 40);
    sell(f, 40, 50, 1);
    assert_int_equal(desk_rig_count(f, ORDER_SOLD_OUT), 10);
    assert_true(desk_rig_metric(f, "stockade_order_probes_sum") >
                desk_rig_metric(f, "stockade_order_probes_count"));
    desk_rig_expect_sold(f, 80);
    desk_rig_free(f);
}

/* One unit, in one of 64 segments, and the desk thinks that all have some. */
static void the_last_unit_is_found(void **state)
{
    struct desk_rig *f = rig_with(desk_of(state), 64, 64);

    for (int64_t segment = 0; segment < 64; segment++)
        if (segment != 37)
            assert_int_equal(sell_unseen(f, segment, 1), STORE_OK);
    sell(f, 0, 1, 1);
    assert_int_equal(f->tickets[0].outcome, ORDER_PLACED);
    sell(f, 1, 2, 1);
    assert_int_equal(f->tickets[1].outcome, ORDER_SOLD_OUT);
    desk_rig_expect_sold(f, 64);
    desk_rig_free(f);
}

/* Scenario 35: eight segments of one, and everybody wants two or three. */
static void fragments_are_gathered(void **state)
{
    struct desk_rig *f = rig_with(desk_of(state), 8, 8);

    sell(f, 0, 3, 2);
    assert_int_equal(desk_rig_count(f, ORDER_PLACED), 3);
    sell(f, 3, 4, 3); /* two are left */
    assert_int_equal(f->tickets[3].outcome, ORDER_SOLD_OUT);
    sell(f, 4, 5, 2);
    assert_int_equal(f->tickets[4].outcome, ORDER_PLACED);
    assert_int_equal(f->tickets[4].order.from_segment, STORE_SEGMENT_ANY);
    sell(f, 5, 6, 1);
    assert_int_equal(f->tickets[5].outcome, ORDER_SOLD_OUT);
    desk_rig_expect_sold(f, 8);
    desk_rig_free(f);
}

/* Both kinds at once, so that those who gather and those who do not have to make
 * way for each other; nobody is refused but for want of units. */
static void gathering_and_selling_at_once(void **state)
{
    struct desk_rig *f = rig_with(desk_of(state), 400, 16);
    int64_t placed = 0;

    for (int i = 0; i < DESK_RIG_TICKETS; i++)
        assert_true(desk_rig_submit_units(f, i, i % 5 == 0 ? 26 : 1));
    desk_rig_wait_answered(f, DESK_RIG_TICKETS);
    for (int i = 0; i < DESK_RIG_TICKETS; i++) {
        assert_true(f->tickets[i].outcome == ORDER_PLACED ||
                    f->tickets[i].outcome == ORDER_SOLD_OUT);
        if (f->tickets[i].outcome == ORDER_PLACED)
            placed += f->tickets[i].order.quantity;
    }
    assert_in_range(placed, 375, 400); /* no room for one more of 26 */
    desk_rig_expect_sold(f, placed);
    assert_int_equal(atomic_load(&f->answered), DESK_RIG_TICKETS);
    desk_rig_free(f);
}

static void *resize(void *arg)
{
    static const int64_t widths[] = {3, 16, 1, 64, 2, 8, 256, 5};
    struct desk_rig *rig = arg;

    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++)
        desk_rig_split(rig, widths[i]);
    return NULL;
}

static void resized_in_mid_sale(void **state)
{
    struct desk_rig *f = rig_with(desk_of(state), 150, 8);
    pthread_t resizer;

    pthread_create(&resizer, NULL, resize, f);
    for (int i = 0; i < DESK_RIG_TICKETS; i++) {
        assert_true(desk_rig_submit(f, i));
        if (i % 10 == 0) /* so that it lasts */
            desk_rig_wait_answered(f, i);
    }
    desk_rig_wait_answered(f, DESK_RIG_TICKETS);
    pthread_join(resizer, NULL);
    assert_int_equal(desk_rig_count(f, ORDER_PLACED), 150);
    assert_int_equal(desk_rig_count(f, ORDER_SOLD_OUT), 50);
    assert_int_equal(atomic_load(&f->answered), DESK_RIG_TICKETS);
    desk_rig_expect_sold(f, 150);
    desk_rig_free(f);
}

/* What is sold out is known, and a cancel is heard of at once. */
static void a_cancel_makes_it_sellable_again(void **state)
{
    struct desk_rig *f = rig_with(DESK_COMBINE, 8, 8);
    struct ticket late = {
        .order = {.product_id = 1, .user_id = 9, .quantity = 1}};
    struct store_order order;

    (void)state;
    sell(f, 0, 9, 1);
    assert_int_equal(f->tickets[8].outcome, ORDER_SOLD_OUT);
    atomic_store(&f->commits, 0);
    assert_true(desk_foresees(f->app.desk, &late));
    assert_int_equal(late.outcome, ORDER_SOLD_OUT);
    assert_int_equal(atomic_load(&f->commits), 0);
    assert_int_equal(
        store_cancel(f->app.store, f->tickets[3].order.id, &order, NULL),
        STORE_OK);
    /* Whether the warm keys have heard of it or not. */
    assert_false(desk_foresees(f->app.desk, &late));
    sell(f, 9, 10, 1);
    assert_int_equal(f->tickets[9].outcome, ORDER_PLACED);
    desk_rig_expect_sold(f, 8);
    desk_rig_free(f);
}

/* The warm keys are lost, and nothing can be written: they cannot be rebuilt. */
static void await_cold(struct desk_rig *rig)
{
    struct warm_ticket ticket;
    enum warm_choice choice;

    do {
        choice = warm_take(rig->app.warm, 1, 1, &ticket);
        if (choice == WARM_SEGMENT)
            warm_settle(rig->app.warm, &ticket, WARM_KEPT);
        sched_yield();
    } while (choice != WARM_COLD);
}

/* Who comes while the keys are rebuilt is told so at the door, and owes nobody
 * anything; afterwards the sale goes on. */
static void while_the_keys_are_rebuilt_nothing_is_taken_in(void **state)
{
    struct config config = {.desk = desk_of(state), .lock_wait_ms = 10000};
    struct redis_server *redis = redis_server_start();
    struct desk_rig *f;
    struct store_cells cells;
    bool in_redis;

    snprintf(config.lock, sizeof(config.lock), "process");
    f = desk_rig_new(&config, redis_server_url(redis), 8, NULL, NULL);
    desk_rig_split(f, 4);
    sell(f, 0, 1, 1);
    atomic_store(&f->hold, true);
    redis_server_ask(redis, "FLUSHALL", NULL, 0);
    await_cold(f);
    assert_false(desk_rig_submit(f, 1));
    assert_int_equal(f->tickets[1].outcome, ORDER_WARMING_UP);
    assert_int_equal(desk_depth(f->app.desk), 0);
    desk_rig_let_go(f);
    assert_int_equal(warm_up(f->app.warm, 1, &cells, &in_redis, NULL),
                     STORE_OK);
    assert_true(in_redis);
    assert_true(desk_rig_submit(f, 2));
    desk_rig_wait_answered(f, 2);
    assert_int_equal(f->tickets[2].outcome, ORDER_PLACED);
    desk_rig_expect_sold(f, 2);
    desk_rig_free(f);
    redis_server_stop(redis);
}

#define BOTH(name)                                                             \
    {#name " (combine)", name, NULL, NULL, &desks[0]},                         \
    {                                                                          \
#name " (direct)", name, NULL, NULL, &desks[1]                         \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments_are_chosen_by_what_they_have),
        cmocka_unit_test(pinned_users_are_refused_with_stock_left),
        BOTH(others_are_asked_before_anybody_hears_sold_out),
        BOTH(the_last_unit_is_found),
        BOTH(fragments_are_gathered),
        BOTH(gathering_and_selling_at_once),
        BOTH(resized_in_mid_sale),
        cmocka_unit_test(a_cancel_makes_it_sellable_again),
        BOTH(while_the_keys_are_rebuilt_nothing_is_taken_in),
    };

    alarm(120); /* who hangs has failed */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
