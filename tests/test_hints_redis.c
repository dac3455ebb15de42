/*
 * Stock hints in Redis: what the store has said is written there, by a worker,
 * the last value only. Whatever happens to Redis, the hints go on without it, and
 * are right again afterwards.
 */
#include <pthread.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "tests/support/hints_rig.h"

#define PATIENCE_MS 10000

/* It takes a moment until Redis is tried again after a failure. */
static void await_key(struct hints_rig *rig, int64_t segment, int64_t left)
{
    for (int ms = 0; hints_rig_key(rig, 1, segment) != left; ms += 10) {
        assert_true(ms < PATIENCE_MS);
        hints_rig_note(rig, segment, left);
        hints_rig_settle(rig);
        usleep(10000);
    }
}

/* ---- writing --------------------------------------------------------------- */

static void what_is_noted_is_written(void **state)
{
    struct hints_rig *rig = *state;

    hints_rig_note(rig, 0, 10);
    hints_rig_note(rig, 2, 30);
    hints_note(rig->hints, 2, 2, 1, 0);
    hints_note(rig->hints, 3, 1, 0, 5); /* has no hints: it has one segment */
    hints_rig_settle(rig);
    assert_int_equal(hints_rig_key(rig, 1, 0), 10);
    assert_int_equal(hints_rig_key(rig, 1, 1), HINTS_RIG_NO_KEY);
    assert_int_equal(hints_rig_key(rig, 1, 2), 30);
    assert_int_equal(hints_rig_key(rig, 2, 1), 0);
    assert_int_equal(hints_rig_key(rig, 3, 0), HINTS_RIG_NO_KEY);
    hints_rig_note(rig, 2, 29);
    hints_rig_note(rig, 0, -1); /* nobody knows */
    hints_rig_settle(rig);
    assert_int_equal(hints_rig_key(rig, 1, 0), 10);
    assert_int_equal(hints_rig_key(rig, 1, 2), 29);
}

/* While one is on its way, the next ones become one. */
static void the_last_value_counts(void **state)
{
    struct hints_rig *rig = *state;

    for (int i = 100; i >= 0; i--)
        hints_rig_note(rig, 0, i);
    hints_rig_settle(rig);
    hints_rig_settle(rig);
    assert_int_equal(hints_rig_key(rig, 1, 0), 0);
    assert_int_equal(hints_rig_asked(rig, "set"), 1);
    redis_server_pause(rig->redis);
    for (int i = 100; i >= 7; i--) {
        hints_rig_note(rig, 0, i);
        hints_attend(rig->hints, rig->now_us);
        assert_false(hints_are_idle(rig->hints));
    }
    redis_server_resume(rig->redis);
    hints_rig_settle(rig);
    assert_int_equal(hints_rig_key(rig, 1, 0), 7);
    assert_int_equal(hints_rig_asked(rig, "set"), 3);
}

/* More than one task writes, and more products than are remembered at once. */
static void many_hints(void **state)
{
    struct hints_rig *rig = *state;

    for (int64_t i = 0; i < STORE_SEGMENTS_MAX; i++)
        for (int64_t id = 1; id <= 3; id++)
            hints_note(rig->hints, id, STORE_SEGMENTS_MAX, i, 1000 * id + i);
    hints_rig_settle(rig);
    for (int64_t i = 0; i < STORE_SEGMENTS_MAX; i += 15)
        for (int64_t id = 1; id <= 3; id++)
            assert_int_equal(hints_rig_key(rig, id, i), 1000 * id + i);
    for (int64_t id = 1; id <= 9000; id++)
        hints_note(rig->hints, id, 2, 1, id);
    hints_rig_settle(rig);
    assert_int_equal(hints_rig_key(rig, 9000, 1), 9000);
}

static void *publish_often(void *arg)
{
    struct hints_rig *rig = arg;
    struct store_segments segments = {.n = 50};
    bool written = true;

    for (int i = 0; i < 300; i++) {
        for (int k = 0; k < 50; k++)
            segments.at[k] = (struct store_segment){2L * k, 0, i};
        written &= hints_publish(rig->hints, 5, &segments);
    }
    return written ? rig : NULL;
}

/* From another thread, while the dispatcher's hints are written. */
static void a_product_is_published(void **state)
{
    struct hints_rig *rig = *state;
    const struct store_segments none = {.n = 1};
    pthread_t thread;
    void *written;

    assert_int_equal(pthread_create(&thread, NULL, publish_often, rig), 0);
    for (int i = 0; i < 300; i++) {
        for (int k = 0; k < 50; k++)
            hints_note(rig->hints, 6, 50, k, i);
        hints_rig_settle(rig);
    }
    pthread_join(thread, &written);
    assert_non_null(written);
    for (int k = 0; k < 50; k++) {
        assert_int_equal(hints_rig_key(rig, 5, 2L * k), 299);
        assert_int_equal(hints_rig_key(rig, 6, k), 299);
    }
    redis_server_kill(rig->redis);
    assert_false(hints_publish(rig->hints, 5, &none));
}

/* ---- Redis away, full, empty ----------------------------------------------- */

/* Emptied, then away: what is known is known. */
static void away_it_costs_nothing_and_heals(void **state)
{
    struct hints_rig *rig = *state;
    uint64_t begin_ms;

    for (int i = 0; i < 3; i++)
        hints_rig_note(rig, i, i == 1 ? 1000 : 0);
    hints_rig_settle(rig);
    redis_server_ask(rig->redis, "FLUSHALL", NULL, 0);
    hints_rig_expect_choice(rig, 1, 1);
    hints_rig_note(rig, 1, 9);
    hints_rig_settle(rig);
    assert_int_equal(hints_rig_key(rig, 1, 1), 9);
    assert_int_equal(hints_rig_key(rig, 1, 0), HINTS_RIG_NO_KEY);
    assert_int_equal(hints_rig_logged(rig, "redis="), 0);
    redis_server_kill(rig->redis);
    begin_ms = clock_ms();
    for (int i = 0; clock_ms() < begin_ms + 1200; i++) { /* it is tried again */
        hints_rig_note(rig, 1, 1000 + i);
        hints_rig_settle(rig);
        usleep(1000);
    }
    hints_rig_expect_choice(rig, 1, 1);
    redis_server_restart(rig->redis);
    await_key(rig, 1, 77);
    assert_int_equal(hints_rig_logged(rig, "redis=away"), 1);
    assert_int_equal(hints_rig_logged(rig, "redis=back"), 1);
}

/* The task waits, and nobody else does; and not the next one at once. */
static void hung_it_costs_a_task(void **state)
{
    struct hints_rig *rig = *state;
    uint64_t begin_ms;

    hints_rig_note(rig, 0, 10);
    hints_rig_settle(rig);
    redis_server_pause(rig->redis);
    hints_rig_note(rig, 0, 9);
    begin_ms = clock_ms();
    for (int i = 0; i < 1000; i++)
        hints_attend(rig->hints, rig->now_us);
    assert_true(clock_ms() - begin_ms < PATIENCE_MS);
    hints_rig_settle(rig);
    assert_in_range(clock_ms() - begin_ms, 250, PATIENCE_MS);
    begin_ms = clock_ms();
    for (int i = 0; i < 10; i++) {
        hints_rig_note(rig, 0, i);
        hints_rig_settle(rig);
    }
    assert_true(clock_ms() - begin_ms < 2000);
    redis_server_resume(rig->redis);
    await_key(rig, 0, 8);
}

static void full_it_costs_nothing_and_heals(void **state)
{
    struct hints_rig *rig = *state;
    const struct store_segments segments = {.n = 1, .at = {{.stock = 4}}};

    rig->config.shared = true; /* it reads as well, which is not refused */
    redis_server_ask(rig->redis, "CONFIG SET maxmemory 1", NULL, 0);
    for (int i = 0; i < 50; i++) {
        hints_rig_note(rig, 1, i);
        rig->now_us += 1000000;
        hints_rig_settle(rig);
    }
    assert_int_equal(hints_rig_key(rig, 1, 1), HINTS_RIG_NO_KEY);
    assert_false(hints_publish(rig->hints, 1, &segments));
    assert_int_equal(hints_rig_logged(rig, "redis="), 1);
    redis_server_ask(rig->redis, "CONFIG SET maxmemory 0", NULL, 0);
    hints_rig_note(rig, 1, 50);
    hints_rig_settle(rig);
    assert_int_equal(hints_rig_key(rig, 1, 1), 50);
    assert_int_equal(hints_rig_logged(rig, "redis=refuses"), 1);
    assert_int_equal(hints_rig_logged(rig, "redis=takes-them-again"), 1);
}

/* ---- beginning and end ----------------------------------------------------- */

static void stopped_it_begins_nothing(void **state)
{
    struct hints_rig *rig = *state;

    hints_stop(rig->hints);
    hints_rig_note(rig, 0, 10);
    hints_attend(rig->hints, rig->now_us);
    assert_true(hints_are_idle(rig->hints));
}

static const struct CMUnitTest tests[] = {
    HINTS_RIG_TEST(what_is_noted_is_written),
    HINTS_RIG_TEST(the_last_value_counts),
    HINTS_RIG_TEST(many_hints),
    HINTS_RIG_TEST(a_product_is_published),
    HINTS_RIG_TEST(away_it_costs_nothing_and_heals),
    HINTS_RIG_TEST(hung_it_costs_a_task),
    HINTS_RIG_TEST(full_it_costs_nothing_and_heals),
    HINTS_RIG_TEST(stopped_it_begins_nothing),
};

TEST_MAIN(tests)
