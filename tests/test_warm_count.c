/*
 * Warm keys: every unit counts once, whoever counts anew while orders are on
 * their way; and units move to where they are wanted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/clock.h"
#include "server/metrics.h"
#include "tests/support/warm_stage.h"

static int64_t epoch_before;

static bool has_new_epoch(struct warm_rig *rig, int64_t product_id)
{
    return warm_rig_cells(rig, product_id).epoch > epoch_before;
}

/* ---- counting once -------------------------------------------------------- */

/* The copy cannot be taken beyond what it has, whoever holds the tickets. */
static void test_tickets_are_units(void **state)
{
    struct warm_rig *rig = warm_stage_begin(state, 12, 4);
    struct warm_ticket tickets[12];

    for (int i = 0; i < 12; i++)
        tickets[i] = warm_stage_ticket(rig, 1);
    assert_true(warm_stage_gathers(rig, 1));
    for (int i = 0; i < 4; i++)
        warm_settle(rig->app.warm, &tickets[i], WARM_KEPT);
    for (int i = 0; i < 4; i++)
        tickets[i] = warm_stage_ticket(rig, 1);
    for (int i = 0; i < 12; i++) {
        assert_int_equal(warm_rig_place(rig, &tickets[i]), STORE_OK);
        warm_settle(rig->app.warm, &tickets[i], WARM_SOLD);
    }
    assert_true(warm_stage_gathers(rig, 1));
    warm_rig_await_keys(rig, 1);
}

/* Some are placed before the count, some after it; each counts once. */
static void test_count_while_tickets_are_out(void **state)
{
    struct warm_rig *rig = warm_stage_begin(state, 40, 4);
    struct warm_ticket before = warm_stage_ticket(rig, 3),
                       after = warm_stage_ticket(rig, 5);
    int64_t epoch = warm_stage_epoch(rig);

    assert_int_equal(warm_rig_place(rig, &before), STORE_OK);
    warm_moved(rig->app.warm, 1);
    warm_rig_await_keys(rig, 1);
    assert_int_equal(warm_stage_epoch(rig), epoch + 1);
    assert_int_equal(warm_rig_place(rig, &after), STORE_OK);
    warm_settle(rig->app.warm, &before, WARM_SOLD);
    warm_settle(rig->app.warm, &after, WARM_SOLD);
    warm_rig_await_keys(rig, 1);
    assert_int_equal(warm_stage_epoch(rig), epoch + 1);
}

/* Of which nobody knows the number: an older epoch's are refused. */
static void test_a_ticket_of_an_older_epoch(void **state)
{
    struct warm_rig *rig = warm_stage_begin(state, 40, 4);
    struct warm_ticket old = warm_stage_ticket(rig, 5), new;
    char key[WARM_RIG_KEY_BYTES], now[WARM_RIG_KEY_BYTES];

    warm_moved(rig->app.warm, 1);
    epoch_before = old.epoch;
    warm_rig_until(rig, has_new_epoch, 1, "a new epoch");
    warm_rig_await_keys(rig, 1);
    warm_rig_key(rig, 1, old.segment, key);
    warm_settle(rig->app.warm, &old, WARM_SOLD);
    new = warm_stage_ticket(rig, 1);
    assert_int_equal(warm_rig_place(rig, &new), STORE_OK);
    warm_settle(rig->app.warm, &new, WARM_SOLD);
    warm_rig_await_keys(rig, 1);
    warm_rig_key(rig, 1, old.segment, now);
    if (new.segment != old.segment)
        assert_string_equal(now, key);
}

/* Fewer segments than tickets were taken of, and more again. */
static void test_resize_while_tickets_are_out(void **state)
{
    struct warm_rig *rig = warm_stage_begin(state, 64, 16);
    struct warm_ticket tickets[40];

    for (int i = 0; i < 40; i++)
        tickets[i] = warm_stage_ticket(rig, 1);
    for (int i = 0; i < 40; i++) {
        enum store_status status = warm_rig_place(rig, &tickets[i]);

        warm_settle(rig->app.warm, &tickets[i],
                    status == STORE_OK ? WARM_SOLD : WARM_SHORT);
        if (i % 13 == 12) {
            warm_rig_put(rig, 1, 64, i == 25 ? 16 : 2 + i / 13);
            warm_moved(rig->app.warm, 1);
            warm_rig_await_keys(rig, 1);
        }
    }
    warm_rig_await_keys(rig, 1);
    for (int i = 0; i < 24; i++)
        warm_rig_buy(rig, 1, 1);
    warm_rig_await_keys(rig, 1);
    warm_stage_expect_sound(rig);
}

/* ---- moving --------------------------------------------------------------- */

static struct store_order gather(struct warm_rig *rig, int64_t units)
{
    struct store_order order = {.product_id = 1,
                                .user_id = 1,
                                .segment = STORE_SEGMENT_ANY,
                                .quantity = units};
    struct store_order *orders[] = {&order};

    assert_int_equal(store_place(rig->app.store, orders, 1, NULL, NULL),
                     STORE_OK);
    assert_int_equal(order.status, STORE_OK);
    return order;
}

/* The first at once, however many follow; and those not one by one. */
static void test_cancels_in_thousands(void **state)
{
    struct warm_rig *rig = warm_stage_begin(state, 12, 4);
    struct store_order order = gather(rig, 12);
    int64_t epoch;
    uint64_t begin_ms, took_ms;

    warm_moved(rig->app.warm, 1);
    warm_rig_await_keys(rig, 1);
    assert_true(warm_stage_gathers(rig, 1));
    assert_int_equal(store_cancel(rig->app.store, order.id, &order, NULL),
                     STORE_OK);
    epoch = warm_stage_epoch(rig);
    begin_ms = clock_ms();
    warm_moved(rig->app.warm, 1);
    warm_rig_until(rig, warm_stage_has_segments, 1, "units again");
    for (int i = 0; i < 2000; i++) {
        warm_moved(rig->app.warm, 1);
        if (i % 100 == 0)
            warm_rig_await_pass(rig);
    }
    warm_rig_await_keys(rig, 1);
    took_ms = clock_ms() - begin_ms;
    assert_in_range(warm_stage_epoch(rig) - epoch, 1, 2 + took_ms / 100);
}

/* One segment has nothing any more, by whatever way; the others have to give. */
static void test_a_dry_segment_is_filled(void **state)
{
    struct warm_rig *rig = warm_stage_begin(state, 40, 4);
    struct store_order order = {
        .product_id = 1, .user_id = 1, .segment = 2, .quantity = 10};
    struct store_order *orders[] = {&order};
    struct warm_ticket ticket = {0};
    char *text = NULL;
    size_t size;
    FILE *out;

    warm_rig_shut(rig); /* or the key would be looked at, which knows nothing */
    assert_int_equal(store_place(rig->app.store, orders, 1, NULL, NULL),
                     STORE_OK); /* another instance did */
    do {
        if (ticket.units > 0)
            warm_settle(rig->app.warm, &ticket, WARM_KEPT);
        ticket = warm_stage_ticket(rig, 2);
    } while (ticket.segment != 2);
    assert_int_equal(warm_rig_place(rig, &ticket), STORE_SHORT);
    warm_settle(rig->app.warm, &ticket, WARM_SHORT);
    for (int i = 0; i < 5; i++) { /* it is not asked again */
        ticket = warm_stage_ticket(rig, 2);
        assert_int_equal(warm_rig_place(rig, &ticket), STORE_OK);
        warm_settle(rig->app.warm, &ticket, WARM_KEPT); /* as if; see below */
    }
    warm_rig_let_go(rig);
    warm_moved(rig->app.warm, 1);
    warm_rig_await_keys(rig, 1);
    assert_int_equal(warm_rig_cells(rig, 1).n, 4);
    assert_true(warm_rig_cells(rig, 1).cells[2].stock > 0);
    out = open_memstream(&text, &size);
    metrics_write(rig->app.metrics, 0, out);
    fclose(out);
    assert_non_null(strstr(text, "\nstockade_rebalances_total 1\n"));
    free(text);
    warm_stage_expect_sound(rig);
}

/* Nobody said "short": the weights keep all away from it. */
static void test_a_dry_segment_that_nobody_asks(void **state)
{
    struct warm_rig *rig = warm_stage_begin(state, 400, 4);
    struct warm_ticket tickets[400];
    int n = 0;

    /* All of segment 1, and one of another. */
    warm_rig_shut(rig);
    for (int i = 0; i < 400; i++)
        tickets[n++] = warm_stage_ticket(rig, 1);
    for (int i = 0, others = 0; i < n; i++) {
        bool buys = tickets[i].segment == 1 || others++ == 0;

        if (buys)
            assert_int_equal(warm_rig_place(rig, &tickets[i]), STORE_OK);
        warm_settle(rig->app.warm, &tickets[i], buys ? WARM_SOLD : WARM_KEPT);
    }
    warm_rig_let_go(rig);
    warm_rig_await_pass(rig);
    warm_rig_await_keys(rig, 1);
    assert_int_equal(warm_rig_cells(rig, 1).cells[1].stock, 75);
}

static bool has_all_ten(struct warm_rig *rig, int64_t product_id)
{
    return warm_rig_cells(rig, product_id).n == 10;
}

/* At the end of a sale most segments are retired; what comes back then is sold
 * by all of them again, though no order says "short". */
static void test_cancels_bring_the_segments_back(void **state)
{
    struct warm_rig *rig = warm_stage_begin(state, 1000, 10);
    struct store_order order = gather(rig, 500);
    bool moved;

    gather(rig, 499);
    assert_int_equal(store_even_out(rig->app.store, 1, &moved, NULL), STORE_OK);
    assert_int_equal(warm_rig_cells(rig, 1).n, 1);
    gather(rig, 1);
    warm_moved(rig->app.warm, 1);
    warm_rig_await_keys(rig, 1);
    assert_int_equal(store_cancel(rig->app.store, order.id, &order, NULL),
                     STORE_OK);
    warm_moved(rig->app.warm, 1);
    warm_rig_until(rig, has_all_ten, 1, "all segments in use");
    warm_rig_await_keys(rig, 1);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(warm_rig_cells(rig, 1).cells[i].stock, 50);
    for (int i = 0; i < 500; i++)
        assert_int_equal(warm_rig_buy(rig, 1, 1), STORE_OK);
    assert_true(warm_stage_gathers(rig, 1));
    warm_stage_expect_sound(rig);
}

#define TEST(test) cmocka_unit_test_teardown(test, warm_stage_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_tickets_are_units),
        TEST(test_count_while_tickets_are_out),
        TEST(test_a_ticket_of_an_older_epoch),
        TEST(test_resize_while_tickets_are_out),
        TEST(test_cancels_in_thousands),
        TEST(test_a_dry_segment_is_filled),
        TEST(test_a_dry_segment_that_nobody_asks),
        TEST(test_cancels_bring_the_segments_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
