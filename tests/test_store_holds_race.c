/*
 * Payment, cancel and expiry of an order at the same moment, ten thousand times, in two
 * instances: all say the same of it, and nothing is paid for and given back.
 */
#include "server/base/clock.h"
#include "tests/support/hold_rig.h"

#include <stdio.h>
#include <stdlib.h>

#define RACES     10000
#define RACES_FAR 500
#define TOGETHER  100 /* are placed, and run out, at one moment */

struct race {
    struct store_order order;
    struct store_pay pay;
    struct store_cancel cancel;
};

static atomic_size_t left; /* answers */

static void on_answer(struct store_write *write)
{
    (void)write;
    atomic_fetch_sub(&left, 1);
}

/* How long the store took, in ms. */
static int64_t place(struct store_rig *rig, struct race races[TOGETHER])
{
    struct store_order *orders[TOGETHER];
    uint64_t began_us = clock_us();

    for (size_t i = 0; i < TOGETHER; i++) {
        orders[i] = &races[i].order;
        *orders[i] = store_rig_ask(1, 1 + (int64_t)i % 7, 1, "");
    }
    assert_ok(store_place(rig->store, orders, TOGETHER, NULL, NULL));
    return (int64_t)(clock_us() - began_us) / 1000;
}

/* Around the orders' last moment a payment and a cancel of each, in any order; two
 * thirds of them in the LEAD_MS before it. */
static void race(struct store_rig *rig, struct store *other,
                 struct race races[TOGETHER], int64_t lead_ms, unsigned *seed)
{
    int64_t from = races[0].order.pay_until_ms - lead_ms;

    if (!hold_rig_is_far(rig)) /* the clock is the test's */
        atomic_fetch_add(&ahead_ms, from - store_rig_wall_ms());
    atomic_store(&left, 2 * (size_t)TOGETHER);
    for (int i = 0; i < TOGETHER; i++) {
        struct race *each = &races[i];
        bool pay_first = rand_r(seed) % 2;

        memcpy(each->pay.id, each->order.id, sizeof(each->order.id));
        memcpy(each->pay.payment, each->order.id, sizeof(each->order.id));
        memcpy(each->cancel.id, each->order.id, sizeof(each->order.id));
        each->pay.write.done = each->cancel.write.done = on_answer;
        while (store_rig_wall_ms() < from + lead_ms * 3 * i / 2 / TOGETHER)
            usleep(200);
        if (pay_first)
            store_pay_begin(rig->store, &each->pay);
        if (rand_r(seed) % 4)
            store_cancel_begin(other, &each->cancel);
        else
            each->cancel.write.status = STORE_CLOSED,
            on_answer(&each->cancel.write);
        if (!pay_first)
            store_pay_begin(rig->store, &each->pay);
    }
    while (atomic_load(&left) > 0)
        usleep(200);
}

/* All say the same of one order. */
static enum store_order_state judge_race(struct store_rig *rig,
                                         const struct race *race)
{
    static const enum store_status told[][2] = {
        [STORE_PAID] = {STORE_OK, STORE_ALREADY_PAID},
        [STORE_CANCELLED] = {STORE_ORDER_CANCELLED, STORE_OK},
        [STORE_EXPIRED] = {STORE_ORDER_EXPIRED, STORE_ORDER_EXPIRED}};
    enum store_order_state state = hold_rig_look(rig, &race->order).state;

    if (state == STORE_AWAITING)
        state = hold_rig_wait(rig, &race->order).state;
    assert_int_equal(race->pay.write.status, told[state][0]);
    if (race->cancel.write.status != STORE_CLOSED)
        assert_int_equal(race->cancel.write.status, told[state][1]);
    return state;
}

/* The clock leaps to the last moment of one group after the other: a slow machine has as
 * much time for each. */
static void test_all_at_once(void **state)
{
    struct store_rig *rig = *state;
    struct store_options options = {.url = rig->dir.url, .shared = true};
    bool far = hold_rig_is_far(rig);
    size_t n = far ? RACES_FAR : RACES, won[STORE_EXPIRED + 1] = {0};
    struct race *races = calloc(n, sizeof(*races));
    struct store *other;
    unsigned seed = 1;

    store_rig_close(rig);
    store_rig_open(rig, (struct store_options){.shared = true});
    assert_ok(store_open(&options, &other, NULL));
    hold_rig_put(rig, (struct store_product){.limit_per_user = STORE_NUMBER_MAX,
                                             .pay_within_s =
                                                 hold_rig_pay_within_s(rig)});
    store_rig_restock(rig, RACES);
    for (size_t i = 0; i < n; i += TOGETHER)
        race(rig, other, races + i, 8 + 4 * place(rig, races + i), &seed);
    for (size_t i = 0; i < n; i++)
        won[judge_race(rig, &races[i])]++;
    print_message("%zu paid, %zu cancelled, %zu expired\n", won[STORE_PAID],
                  won[STORE_CANCELLED], won[STORE_EXPIRED]);
    assert_true(won[STORE_PAID] && won[STORE_CANCELLED] && won[STORE_EXPIRED]);
    hold_rig_expect(rig, 10 + RACES - (int64_t)won[STORE_PAID], 0);
    assert_int_equal(store_rig_audit(rig).late, n - won[STORE_PAID]);
    assert_int_equal(store_rig_audit(rig).expired, won[STORE_EXPIRED]);
    store_close(other);
    free(races);
}

static const struct CMUnitTest tests[] = {
    STORE_RIG_OWN_TEST(test_all_at_once, hold_rig_set_up),
};

TEST_MAIN(tests)
