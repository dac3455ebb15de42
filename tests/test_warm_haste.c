/*
 * Warm keys: much to do, or nobody to ask. Nothing is forgotten, and nothing is
 * asked for without pause.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "server/clock.h"
#include "server/warm/warmer.h"
#include "tests/support/warm_stage.h"

/* ---- without pause -------------------------------------------------------- */

/* All pages are wanted at once, since the connection is new; and none can be
 * had. It is tried again from time to time. */
static void test_pages_that_cannot_be_read(void **state)
{
    struct warm_rig *rig = warm_rig_new(false, true);
    uint64_t begin_ms;

    *state = rig;
    warm_rig_put(rig, 1, 5, 1);
    warm_rig_count(rig, "product-list");
    warm_rig_fail(rig, "product-list", WARM_BEFORE, 1000000);
    begin_ms = clock_ms();
    warm_rig_warm(rig);
    for (int i = 0; i < 3; i++)
        warm_rig_await_pass(rig);
    assert_in_range(warm_rig_counted(rig), 1,
                    1 + (clock_ms() - begin_ms) / 100);
    warm_rig_fail(rig, "product-list", WARM_BEFORE, 0);
    warm_rig_await_keys(rig, 1);
}

/* Somebody else writes keys that we cannot take over, as often as he likes: a
 * database of its own on the same Redis, say. */
static void test_counts_that_cannot_be_taken_over(void **state)
{
    struct warm_rig *rig = warm_stage_begin(state, 4000, 2);
    uint64_t begin_ms = clock_ms();

    warm_rig_count(rig, "new-epoch");
    for (int i = 0; i < 40; i++) {
        warm_stage_ask(rig, "HSET stock:{1:0} epoch 1");
        warm_stage_ask(rig, "HSET stock:{1:1} epoch 1");
        assert_int_equal(warm_rig_buy(rig, 1, 1), STORE_OK);
        warm_rig_await_pass(rig);
    }
    assert_in_range(warm_rig_counted(rig), 1,
                    2 + (clock_ms() - begin_ms) / 100);
    warm_rig_await_keys(rig, 1);
}

/* ---- forgotten ------------------------------------------------------------ */

/* More than the door can remember one by one, and then nobody says what they
 * are, for some passes. */
static void test_moved_and_not_to_be_read(void **state)
{
    struct warm_rig *rig = warm_rig_new(false, false);

    *state = rig;
    warm_rig_warm(rig);
    warm_rig_shut(rig);
    for (int64_t id = 1; id <= WARMER_MOVED_MAX + 2; id++) {
        warm_rig_put(rig, id, 4, 2);
        warm_moved(rig->app.warm, id);
    }
    warm_rig_fail(rig, "split-list", WARM_BEFORE, 2);
    warm_rig_let_go(rig);
    for (int64_t id = 1; id <= WARMER_MOVED_MAX + 2; id++)
        warm_rig_until(rig, warm_stage_has_segments, id, "two segments");
}

#define TEST(test) cmocka_unit_test_teardown(test, warm_stage_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_pages_that_cannot_be_read),
        TEST(test_counts_that_cannot_be_taken_over),
        TEST(test_moved_and_not_to_be_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
