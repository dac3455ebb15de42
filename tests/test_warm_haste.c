/*
 * Warm keys: much to do, or nobody to ask. Who waits for one product does not
 * wait for all of them, nothing is forgotten, and nothing is asked for without
 * pause.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "server/clock.h"
#include "server/warm/warmer.h"
#include "tests/support/warm_stage.h"

#define MANY 100 /* products, of two segments each */

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

/* ---- many of them --------------------------------------------------------- */

/* All have their keys; the warmer stands before a pass. */
static struct warm_rig *begin_many(void **state)
{
    struct warm_rig *rig = warm_rig_new(false, true);

    *state = rig;
    for (int64_t id = 1; id <= MANY; id++)
        warm_rig_put(rig, id, 10, 2);
    warm_rig_warm(rig);
    for (int64_t id = 1; id <= MANY; id++)
        warm_rig_await_keys(rig, id);
    warm_rig_shut(rig);
    return rig;
}

/* And now all but the last are to be counted anew: it stands in the first. */
static void begin_to_count_all(struct warm_rig *rig)
{
    for (int64_t id = 1; id < MANY; id++)
        warm_moved(rig->app.warm, id);
    warm_rig_count(rig, "new-epoch");
    warm_rig_stop(rig, "new-epoch", WARM_BEFORE, 1);
    warm_rig_await_stop(rig);
}

/* What another thread does to the warmer, and whether it has. */
static struct {
    pthread_t thread;
    struct warm *warm;
    atomic_bool done;
} caller;

static void *ask_for_the_last(void *arg)
{
    struct store_cells cells;
    bool in_redis;

    (void)arg;
    (void)warm_up(caller.warm, MANY, &cells, &in_redis, NULL);
    atomic_store(&caller.done, true);
    return NULL;
}

static void *close_it(void *arg)
{
    (void)arg;
    warm_close(caller.warm);
    atomic_store(&caller.done, true);
    return NULL;
}

static bool is_called(struct warm *warm)
{
    bool called;

    pthread_mutex_lock(&warm->mutex);
    called = warm->requests || warm->closing;
    pthread_mutex_unlock(&warm->mutex);
    return called;
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void call(struct warm_rig *rig, void *what(void *))
{
    caller.warm = rig->app.warm;
    atomic_store(&caller.done, false);
    assert_int_equal(pthread_create(&caller.thread, NULL, what, NULL), 0);
    while (!is_called(caller.warm))
        nap();
}

/* The next but one to be counted is the one that is asked for. */
static void test_asked_for_while_all_are_counted(void **state)
{
    struct warm_rig *rig = begin_many(state);
    uint64_t until_ms;

    begin_to_count_all(rig);
    call(rig, ask_for_the_last);
    warm_rig_stop(rig, "new-epoch", WARM_BEFORE, 2);
    warm_rig_await_stop(rig);
    until_ms = clock_ms() + 5000;
    while (!atomic_load(&caller.done) && clock_ms() < until_ms)
        nap();
    assert_true(atomic_load(&caller.done));
    warm_rig_let_go(rig);
    pthread_join(caller.thread, NULL);
    for (int64_t id = 1; id <= MANY; id++)
        warm_rig_await_keys(rig, id);
}

/* What was sold is told all the same. */
static void test_closed_while_all_are_counted(void **state)
{
    struct warm_rig *rig = begin_many(state);
    struct warm_ticket ticket = {0};
    char key[WARM_RIG_KEY_BYTES], wanted[WARM_RIG_KEY_BYTES];
    struct store_cells cells;

    assert_int_equal(warm_take(rig->app.warm, MANY, 3, &ticket), WARM_SEGMENT);
    assert_int_equal(warm_rig_place(rig, &ticket), STORE_OK);
    warm_settle(rig->app.warm, &ticket, WARM_SOLD);
    begin_to_count_all(rig);
    call(rig, close_it);
    rig->app.warm = NULL;
    warm_rig_let_go(rig);
    pthread_join(caller.thread, NULL);
    assert_int_equal(warm_rig_counted(rig), 1);
    cells = warm_rig_cells(rig, MANY);
    snprintf(wanted, sizeof(wanted), "%lld 2 2", (long long)cells.epoch);
    warm_rig_key(rig, MANY, ticket.segment, key);
    assert_string_equal(key, wanted);
}

/* Takes all there is of a product, as orders do; the database does not matter. */
static void sell_out(struct warm_rig *rig, int64_t product_id)
{
    struct warm_ticket ticket = {0};

    while (warm_take(rig->app.warm, product_id, 2, &ticket) == WARM_SEGMENT)
        warm_settle(rig->app.warm, &ticket, WARM_SOLD);
}

/* Redis takes more than a second over the first of six products, which go to it
 * in batches of four: the second batch has begun by then, the rest stays. */
static void test_closed_while_redis_is_slow(void **state)
{
    const int64_t products = 6, segments = STORE_SEGMENTS_MAX;
    struct warm_rig *rig = warm_rig_new(false, true);

    *state = rig;
    for (int64_t id = 1; id <= products; id++)
        warm_rig_put(rig, id, 2 * segments, segments);
    warm_rig_warm(rig);
    for (int64_t id = 1; id <= products; id++)
        warm_rig_await_keys(rig, id);
    warm_rig_shut(rig);
    for (int64_t id = 1; id <= products; id++)
        sell_out(rig, id);
    call(rig, close_it);
    rig->app.warm = NULL;
    warm_rig_count(rig, "warm-take");
    warm_rig_stop(rig, "warm-take", WARM_BEFORE, 1);
    warm_rig_await_stop(rig);
    while (clock_ms() < caller.warm->closing_ms + 1000)
        nap();
    warm_rig_let_go(rig);
    pthread_join(caller.thread, NULL);
    assert_int_equal(warm_rig_counted(rig), WARMER_BATCH_MAX + segments);
}

#define TEST(test) cmocka_unit_test_teardown(test, warm_stage_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_pages_that_cannot_be_read),
        TEST(test_counts_that_cannot_be_taken_over),
        TEST(test_moved_and_not_to_be_read),
        TEST(test_asked_for_while_all_are_counted),
        TEST(test_closed_while_all_are_counted),
        TEST(test_closed_while_redis_is_slow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
