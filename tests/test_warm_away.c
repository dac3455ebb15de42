/*
 * Warm keys: Redis loses its data, hangs, or is not there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/clock.h"
#include "tests/support/warm_stage.h"

/* ---- Redis loses its data ------------------------------------------------- */

static void test_flushall(void **state)
{
    struct warm_rig *rig = warm_stage_begin(state, 40, 4);
    struct warm_ticket ticket = warm_stage_ticket(rig, 1);
    int64_t epoch = warm_stage_epoch(rig);

    warm_rig_shut(rig);
    warm_stage_ask(rig, "FLUSHALL");
    warm_rig_stop(rig, "warm-load", WARM_BEFORE, 1);
    warm_rig_await_stop(rig);
    assert_true(warm_stage_is_cold(rig, 1));
    warm_settle(rig->app.warm, &ticket, WARM_KEPT);
    assert_int_equal(warm_rig_buy(rig, 1, 1), STORE_BUSY);
    warm_rig_let_go(rig);
    warm_rig_until(rig, warm_stage_is_warm, 1, "warm");
    warm_rig_await_keys(rig, 1);
    assert_true(warm_stage_epoch(rig) > epoch);
    assert_int_equal(warm_rig_buy(rig, 1, 1), STORE_OK);
    warm_rig_await_keys(rig, 1);
}

/* With orders it is seen by the next telling, without by the next look. */
static void test_flushall_is_seen_soon(void **state)
{
    struct warm_rig *rig = warm_stage_begin(state, 4000, 4);
    int64_t epoch = warm_stage_epoch(rig);
    uint64_t begin_ms;

    assert_int_equal(warm_rig_buy(rig, 1, 1), STORE_OK);
    warm_stage_ask(rig, "FLUSHALL");
    begin_ms = clock_ms();
    while (warm_stage_epoch(rig) == epoch) {
        warm_rig_buy(rig, 1, 1);
        assert_true(clock_ms() < begin_ms + 2000);
    }
    warm_rig_await_keys(rig, 1);
    warm_stage_ask(rig, "FLUSHALL"); /* nobody buys */
    warm_rig_await_keys(rig, 1);
}

/* One of them only: evicted, say. */
static void test_a_key_is_gone(void **state)
{
    struct warm_rig *rig = warm_stage_begin(state, 40, 4);
    int64_t epoch = warm_stage_epoch(rig);

    warm_stage_ask(rig, "DEL stock:{1:2}");
    for (int i = 0; i < 40 && warm_stage_epoch(rig) == epoch; i++) {
        warm_rig_buy(rig, 1, 1);
        warm_rig_await_pass(rig);
    }
    assert_true(warm_stage_epoch(rig) > epoch);
    warm_rig_await_keys(rig, 1);
}

/* Another instance has counted anew, with fewer segments, and has taken the
 * other keys away. We have sold from one of those, and hear that it is missing:
 * nothing is lost, and no order is refused for that. */
static void test_a_segment_that_is_retired_elsewhere(void **state)
{
    struct warm_rig *rig = warm_stage_begin(state, 40, 4);
    struct warm_ticket ticket = {0};
    struct store_cells cells;
    char command[128];

    do {
        if (ticket.units > 0)
            warm_settle(rig->app.warm, &ticket, WARM_KEPT);
        ticket = warm_stage_ticket(rig, 1);
    } while (ticket.segment != 3);
    warm_rig_shut(rig);
    assert_int_equal(warm_rig_place(rig, &ticket), STORE_OK);
    warm_settle(rig->app.warm, &ticket, WARM_SOLD);
    warm_rig_put(rig, 1, 40, 2);
    cells = warm_rig_cells(rig, 1);
    warm_stage_ask(rig, "DEL stock:{1:2}");
    warm_stage_ask(rig, "DEL stock:{1:3}");
    for (int i = 0; i < 2; i++) {
        snprintf(command, sizeof(command),
                 "HMSET stock:{1:%d} epoch %" PRId64 " units %" PRId64
                 " order %" PRId64 " segments 2",
                 i, cells.epoch, cells.cells[i].stock, cells.number);
        warm_stage_ask(rig, command);
    }
    warm_rig_fail(rig, "warm-load", WARM_BEFORE, 2); /* or it would be brief */
    warm_rig_let_go(rig);
    warm_rig_await_pass(rig);
    assert_false(warm_stage_is_cold(rig, 1));
    warm_rig_await_keys(rig, 1);
    assert_int_equal(warm_rig_buy(rig, 1, 1), STORE_OK);
    warm_stage_expect_sound(rig);
}

/* ---- Redis is away -------------------------------------------------------- */

/* What the server logs, to be counted. */
static char log_path[] = "/tmp/stockade-warm-XXXXXX";
static int log_was;

static void catch_log(void)
{
    int fd;

    snprintf(log_path, sizeof(log_path), "/tmp/stockade-warm-XXXXXX");
    fd = mkstemp(log_path);
    assert_true(fd >= 0);
    fflush(stderr);
    log_was = dup(STDERR_FILENO);
    dup2(fd, STDERR_FILENO);
    close(fd);
}

static int lines_with(const char *what)
{
    char line[1200];
    FILE *file = fopen(log_path, "r");
    int n = 0;

    assert_non_null(file);
    while (fgets(line, sizeof(line), file))
        n += strstr(line, what) != NULL;
    fclose(file);
    return n;
}

static void release_log(void)
{
    dup2(log_was, STDERR_FILENO);
    close(log_was);
    unlink(log_path);
}

/* Nobody waits for it: that is measured while it hangs. */
static void test_redis_hangs(void **state)
{
    struct warm_rig *rig = warm_stage_begin(state, 4000, 4);
    uint64_t longest = 0;

    catch_log();
    redis_server_pause(rig->redis);
    for (int i = 0; i < 400; i++) {
        struct warm_ticket ticket = {0};
        uint64_t begin_us = clock_us(), took;
        enum warm_choice choice = warm_take(rig->app.warm, 1, 1, &ticket);

        took = clock_us() - begin_us;
        longest = took > longest ? took : longest;
        assert_int_equal(choice, WARM_SEGMENT);
        assert_int_equal(warm_rig_place(rig, &ticket), STORE_OK);
        warm_settle(rig->app.warm, &ticket, WARM_SOLD);
        if (i % 100 == 0)
            warm_rig_await_pass(rig);
    }
    redis_server_resume(rig->redis);
    warm_rig_await_keys(rig, 1);
    assert_true(longest < 200000); /* the timeout of a command */
    assert_int_equal(lines_with("redis=away"), 1);
    assert_int_equal(lines_with("redis=back"), 1);
    release_log();
}

static void test_redis_restarts(void **state)
{
    struct warm_rig *rig = warm_stage_begin(state, 4000, 4);

    catch_log();
    redis_server_kill(rig->redis);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(warm_rig_buy(rig, 1, 1), STORE_OK);
        if (i % 10 == 0)
            warm_rig_await_pass(rig);
    }
    redis_server_restart(rig->redis);
    warm_rig_await_keys(rig, 1);
    assert_int_equal(lines_with("redis=away"), 1);
    assert_int_equal(lines_with("redis=back"), 1);
    release_log();
}

/* While the warmer stands: so the next thing that it tells is a sale. */
static void buy_from_both(struct warm_rig *rig)
{
    warm_rig_shut(rig);
    for (int i = 0; i < 8; i++)
        assert_int_equal(warm_rig_buy(rig, 1, 1), STORE_OK);
}

/* Whether the key knows of it, nobody can say: it is counted anew. */
static void test_an_answer_is_lost(void **state)
{
    struct warm_rig *rig = warm_stage_begin(state, 8, 2);
    int64_t epoch = warm_stage_epoch(rig);

    buy_from_both(rig);
    warm_rig_fail(rig, "warm-take", WARM_AFTER, 1);
    warm_rig_let_go(rig);
    warm_rig_await_keys(rig, 1);
    assert_true(warm_stage_epoch(rig) > epoch);
}

/* It knows of nothing: it is told again. */
static void test_a_question_is_lost(void **state)
{
    struct warm_rig *rig = warm_stage_begin(state, 8, 2);
    int64_t epoch = warm_stage_epoch(rig);

    buy_from_both(rig);
    warm_rig_fail(rig, "warm-take", WARM_BEFORE, 3);
    warm_rig_let_go(rig);
    warm_rig_await_keys(rig, 1);
    assert_int_equal(warm_stage_epoch(rig), epoch);
}

/* While it is away units move: the keys are not what they were when it is back. */
static void test_moved_while_redis_is_away(void **state)
{
    struct warm_rig *rig = warm_stage_begin(state, 40, 4);
    int64_t epoch;

    warm_rig_fail(rig, "warm-take", WARM_BEFORE, 1000000);
    assert_int_equal(warm_rig_buy(rig, 1, 1), STORE_OK);
    warm_rig_await_pass(rig);
    warm_rig_put(rig, 1, 40, 2);
    epoch = warm_stage_epoch(rig);
    warm_moved(rig->app.warm, 1);
    warm_rig_await_pass(rig);
    warm_rig_fail(rig, "", WARM_BEFORE, 0);
    warm_rig_await_keys(rig, 1);
    assert_true(warm_stage_epoch(rig) > epoch);
}

/* It comes back empty, and dies for good before the keys are written: orders that
 * get their locks elsewhere, from a quorum of others, go on. */
static void test_redis_dies_while_it_is_rebuilt(void **state)
{
    struct warm_rig *rig = warm_stage_begin(state, 40, 4);

    warm_rig_shut(rig);
    assert_int_equal(warm_rig_buy(rig, 1, 1), STORE_OK);
    warm_stage_ask(rig, "FLUSHALL");
    warm_rig_stop(rig, "warm-load", WARM_BEFORE, 1);
    warm_rig_await_stop(rig);
    assert_true(warm_stage_is_cold(rig, 1));
    redis_server_kill(rig->redis);
    warm_rig_let_go(rig);
    warm_rig_until(rig, warm_stage_is_warm, 1, "warm without Redis");
    assert_int_equal(warm_rig_buy(rig, 1, 1), STORE_OK);
    redis_server_restart(rig->redis);
    warm_rig_await_keys(rig, 1);
}

static void test_without_redis(void **state)
{
    struct warm_rig *rig = warm_rig_new(false, false);
    struct store_cells cells;
    bool in_redis = true;
    int64_t epoch;

    *state = rig;
    warm_rig_put(rig, 1, 12, 4);
    warm_rig_warm(rig);
    epoch = warm_stage_epoch(rig);
    for (int i = 0; i < 12; i++)
        assert_int_equal(warm_rig_buy(rig, 1, 1), STORE_OK);
    assert_int_equal(warm_rig_buy(rig, 1, 1), STORE_SOLD_OUT);
    warm_rig_put(rig, 2, 12, 4);
    warm_moved(rig->app.warm, 2);
    warm_rig_until(rig, warm_stage_has_segments, 2, "four segments");
    assert_int_equal(warm_up(rig->app.warm, 1, &cells, &in_redis, NULL),
                     STORE_OK);
    assert_false(in_redis);
    assert_int_equal(warm_stage_epoch(rig),
                     epoch); /* there is nobody to tell */
}

#define TEST(test) cmocka_unit_test_teardown(test, warm_stage_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_flushall),
        TEST(test_flushall_is_seen_soon),
        TEST(test_a_key_is_gone),
        TEST(test_a_segment_that_is_retired_elsewhere),
        TEST(test_redis_hangs),
        TEST(test_redis_restarts),
        TEST(test_an_answer_is_lost),
        TEST(test_a_question_is_lost),
        TEST(test_moved_while_redis_is_away),
        TEST(test_redis_dies_while_it_is_rebuilt),
        TEST(test_without_redis),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
