/*
 * Warm keys: two instances on one database and one Redis.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <time.h>

#include "tests/support/warm_stage.h"

/* ---- two instances -------------------------------------------------------- */

struct pair {
    struct warm_rig *a, *b;
};

static int tear_down_pair(void **state)
{
    struct pair *pair = *state;

    warm_rig_free(pair->b);
    warm_rig_free(pair->a);
    free(pair);
    return 0;
}

static struct pair *begin_pair(void **state, int64_t units, int64_t segments)
{
    struct pair *pair = calloc(1, sizeof(*pair));

    pair->a = warm_rig_new(true, true);
    pair->b = warm_rig_guest(&pair->a->dir, pair->a->redis, true, NULL);
    warm_rig_put(pair->a, 1, units, segments);
    *state = pair;
    warm_rig_warm(pair->a);
    warm_rig_await_pass(pair->a);
    warm_rig_warm(pair->b);
    warm_rig_await_pass(pair->b); /* which writes the keys anew, as A did */
    warm_rig_await_keys(pair->a, 1);
    return pair;
}

static bool gathers(struct warm_rig *rig, int64_t product_id)
{
    (void)product_id;
    return warm_stage_gathers(rig, 1);
}

/* A sells all that there is: B hears of it by the keys alone. */
static void test_what_the_other_sells_is_heard(void **state)
{
    struct pair *pair = begin_pair(state, 200, 4);

    warm_rig_until(pair->a, warm_stage_has_segments, 1, "segments");
    while (warm_rig_buy(pair->a, 1, 1) == STORE_OK)
        ;
    warm_rig_until(pair->b, gathers, 1, "sold out at the other");
    warm_rig_await_keys(pair->b, 1);
    warm_stage_expect_sound(pair->a);
}

static bool chooses_beyond_4(struct warm_rig *rig, int64_t product_id)
{
    struct warm_ticket ticket = {0};

    if (warm_take(rig->app.warm, product_id, 1, &ticket) == WARM_SEGMENT)
        warm_settle(rig->app.warm, &ticket, WARM_KEPT);
    return ticket.segment >= 4;
}

static void test_what_the_other_resizes(void **state)
{
    struct pair *pair = begin_pair(state, 200, 4);

    warm_rig_put(pair->a, 1, 200, 16);
    warm_moved(pair->a->app.warm, 1);
    warm_rig_until(pair->b, chooses_beyond_4, 1, "more segments");
    for (int i = 0; i < 50; i++)
        assert_int_equal(warm_rig_buy(pair->b, 1, 1), STORE_OK);
    warm_rig_await_keys(pair->b, 1);
    warm_rig_put(pair->a, 1, 200, 1);
    warm_moved(pair->a->app.warm, 1);
    warm_rig_until(pair->b, warm_stage_is_single, 1, "one segment");
    warm_rig_put(pair->a, 2, 9, 3);
    warm_moved(pair->a->app.warm, 2);
    warm_rig_until(pair->b, warm_stage_has_segments, 2, "a new product");
    warm_rig_await_keys(pair->b, 2);
    warm_rig_await_keys(pair->b, 1);
}

/*
 * B sells on while it has not heard of A's count yet: that is not in it, and has
 * to be told to it.
 */
static void test_sold_while_the_other_counted(void **state)
{
    struct pair *pair = begin_pair(state, 200, 4);
    struct warm_ticket early = warm_stage_ticket(pair->b, 7);
    struct warm_ticket late = warm_stage_ticket(pair->b, 9);
    int64_t epoch;

    warm_rig_shut(pair->b);
    assert_int_equal(warm_rig_place(pair->b, &early), STORE_OK);
    warm_moved(pair->a->app.warm, 1);
    warm_rig_await_keys(pair->a, 1);
    epoch = warm_stage_epoch(pair->a);
    assert_int_equal(warm_rig_place(pair->b, &late), STORE_OK);
    warm_settle(pair->b->app.warm, &early, WARM_SOLD);
    warm_settle(pair->b->app.warm, &late, WARM_SOLD);
    warm_rig_let_go(pair->b);
    warm_rig_await_keys(pair->b, 1);
    assert_int_equal(warm_stage_epoch(pair->a),
                     epoch); /* taken over, not anew */
}

/* B writes keys of segments that A has done away with meanwhile: and removes
 * them, when it hears of that. */
static void test_keys_written_too_late(void **state)
{
    struct pair *pair = begin_pair(state, 200, 4);

    warm_rig_put(pair->b, 1, 200, 16);
    warm_rig_stop(pair->b, "warm-load", WARM_BEFORE, 1);
    warm_moved(pair->b->app.warm, 1);
    warm_rig_await_stop(pair->b);
    warm_rig_put(pair->a, 1, 200, 3);
    warm_moved(pair->a->app.warm, 1);
    warm_rig_await_keys(pair->a, 1);
    warm_rig_let_go(pair->b);
    warm_rig_await_pass(pair->b);
    warm_rig_await_keys(pair->b, 1);
    assert_int_equal(redis_server_number(pair->a->redis, "DBSIZE"), 3);
}

/* ---- all at once ---------------------------------------------------------- */

struct buyer {
    struct warm_rig *rig;
    unsigned seed;
    int64_t bought;
};

/* Until the sale is over. Some cancel. */
static void *buy_all(void *arg)
{
    struct buyer *buyer = arg;
    enum store_status status = STORE_OK;

    while (status != STORE_SOLD_OUT) {
        int64_t units = 1 + (int64_t)(buyer->seed++ % 3);

        status = warm_rig_buy(buyer->rig, 1, units);
        if (status == STORE_SOLD_OUT && units > 1)
            status = warm_rig_buy(buyer->rig, 1, units = 1);
        if (status == STORE_OK)
            buyer->bought += units;
        if (status == STORE_BUSY)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return NULL;
}

static void test_a_sale(void **state)
{
    enum { UNITS = 3000 };
    struct pair *pair = begin_pair(state, UNITS, 8);
    const int64_t segments[] = {16, 3, 8};
    pthread_t threads[4];
    struct buyer buyers[4];
    int64_t bought = 0;

    for (unsigned i = 0; i < 4; i++) {
        buyers[i] = (struct buyer){.rig = i % 2 ? pair->a : pair->b, .seed = i};
        assert_int_equal(pthread_create(&threads[i], NULL, buy_all, &buyers[i]),
                         0);
    }
    for (int i = 0; i < 3; i++) {
        warm_rig_await_pass(pair->a);
        warm_rig_put(pair->a, 1, UNITS, segments[i]);
        warm_moved(pair->a->app.warm, 1);
        if (i < 2)
            warm_stage_ask(pair->a, "FLUSHALL");
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        bought += buyers[i].bought;
    }
    assert_int_equal(bought, UNITS);
    warm_rig_await_keys(pair->a, 1);
    warm_rig_await_keys(pair->b, 1);
    warm_stage_expect_sound(pair->a);
}

#define TEST_PAIR(test) cmocka_unit_test_teardown(test, tear_down_pair)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_PAIR(test_what_the_other_sells_is_heard),
        TEST_PAIR(test_what_the_other_resizes),
        TEST_PAIR(test_sold_while_the_other_counted),
        TEST_PAIR(test_keys_written_too_late),
        TEST_PAIR(test_a_sale),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
