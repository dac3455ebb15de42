/*
 * Warm keys: copy, database and Redis together, over a real redis-server.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server/clock.h"
#include "server/metrics.h"
#include "tests/support/warm_rig.h"

static int tear_down(void **state)
{
    if (*state)
        warm_rig_free(*state);
    return 0;
}

static struct warm_rig *begin(void **state, int64_t units, int64_t segments)
{
    struct warm_rig *rig = warm_rig_new(false, true);

    *state = rig;
    warm_rig_put(rig, 1, units, segments);
    warm_rig_warm(rig);
    warm_rig_await_keys(rig, 1);
    return rig;
}

static enum warm_choice take(struct warm_rig *rig, int64_t units,
                             struct warm_ticket *ticket)
{
    return warm_take(rig->app.warm, 1, units, ticket);
}

static struct warm_ticket ticket_for(struct warm_rig *rig, int64_t units)
{
    struct warm_ticket ticket = {0};

    assert_int_equal(take(rig, units, &ticket), WARM_SEGMENT);
    return ticket;
}

/* Puts it back, for the copy to be what it was. */
static bool would_gather(struct warm_rig *rig, int64_t units)
{
    struct warm_ticket ticket = {0};
    enum warm_choice choice = take(rig, units, &ticket);

    if (choice == WARM_SEGMENT)
        warm_settle(rig->app.warm, &ticket, WARM_KEPT);
    return choice == WARM_GATHER;
}

static void ask(struct warm_rig *rig, const char *command)
{
    redis_server_ask(rig->redis, command, NULL, 0);
}

static int64_t epoch_of(struct warm_rig *rig)
{
    return warm_rig_cells(rig, 1).epoch;
}

static void expect_sound(struct warm_rig *rig)
{
    struct store_audit audit;

    assert_int_equal(
        store_audit(rig->reader, NULL, NULL, NULL, 0, &audit, NULL), STORE_OK);
    assert_true(audit.balanced);
}

/* ---- checks to wait for --------------------------------------------------- */

static bool is_cold(struct warm_rig *rig, int64_t product_id)
{
    struct warm_ticket ticket;
    enum warm_choice choice = warm_take(rig->app.warm, product_id, 1, &ticket);

    if (choice == WARM_SEGMENT)
        warm_settle(rig->app.warm, &ticket, WARM_KEPT);
    return choice == WARM_COLD;
}

static bool is_warm(struct warm_rig *rig, int64_t product_id)
{
    return !is_cold(rig, product_id);
}

/* Chosen among segments: known, and warm. */
static bool has_segments(struct warm_rig *rig, int64_t product_id)
{
    struct warm_ticket ticket;
    enum warm_choice choice = warm_take(rig->app.warm, product_id, 1, &ticket);

    if (choice == WARM_SEGMENT)
        warm_settle(rig->app.warm, &ticket, WARM_KEPT);
    return choice == WARM_SEGMENT;
}

static bool is_single(struct warm_rig *rig, int64_t product_id)
{
    struct warm_ticket ticket;

    return warm_take(rig->app.warm, product_id, 1, &ticket) == WARM_SINGLE;
}

static int64_t epoch_before;

static bool has_new_epoch(struct warm_rig *rig, int64_t product_id)
{
    return warm_rig_cells(rig, product_id).epoch > epoch_before;
}

/* ---- keys ----------------------------------------------------------------- */

static void test_keys_are_written_at_the_start(void **state)
{
    struct warm_rig *rig = warm_rig_new(false, true);

    *state = rig;
    warm_rig_put(rig, 1, 10, 4);
    warm_rig_put(rig, 2, 7, 1);
    warm_rig_put(rig, 3, 2, 8); /* six have nothing */
    warm_rig_warm(rig);
    warm_rig_await_keys(rig, 1);
    warm_rig_await_keys(rig, 2);
    warm_rig_await_keys(rig, 3);
    assert_int_equal(redis_server_number(rig->redis, "DBSIZE"), 4 + 1 + 2);
}

static void test_what_is_sold_is_told(void **state)
{
    struct warm_rig *rig = begin(state, 20, 4);

    for (int i = 0; i < 9; i++)
        assert_int_equal(warm_rig_buy(rig, 1, 1), STORE_OK);
    warm_rig_await_keys(rig, 1);
    assert_int_equal(epoch_of(rig), 3); /* dealt out, and once at the start */
}

/* Of one that was cut to a few, the others' keys go; of one that grew, come. */
static void test_resize(void **state)
{
    struct warm_rig *rig = begin(state, 40, 16);

    for (int64_t segments = 3; segments < 40; segments *= 3) {
        warm_rig_put(rig, 1, 40, segments);
        warm_moved(rig->app.warm, 1);
        warm_rig_await_keys(rig, 1);
        assert_int_equal(redis_server_number(rig->redis, "DBSIZE"), segments);
    }
}

/* And who has one segment has nothing to choose, and a key all the same. */
static void test_resize_to_one_and_back(void **state)
{
    struct warm_rig *rig = begin(state, 40, 8);

    warm_rig_put(rig, 1, 40, 1);
    warm_moved(rig->app.warm, 1);
    warm_rig_until(rig, is_single, 1, "one segment");
    warm_rig_await_keys(rig, 1);
    assert_int_equal(redis_server_number(rig->redis, "DBSIZE"), 1);
    assert_int_equal(warm_rig_buy(rig, 1, 1), STORE_OK);
    warm_rig_await_keys(rig, 1); /* now and then it is looked after */
    warm_rig_put(rig, 1, 40, 8);
    warm_moved(rig->app.warm, 1);
    warm_rig_until(rig, has_segments, 1, "eight segments");
    warm_rig_await_keys(rig, 1);
}

/* Who cut a product down to one segment died before its keys were told; the
 * next one removes those of the others, though it never knew of them. */
static void test_resized_to_one_and_dead(void **state)
{
    struct warm_rig *rig = begin(state, 40, 8);

    warm_rig_await_keys(rig, 1);
    warm_rig_cool(rig);
    warm_rig_put(rig, 1, 40, 1);
    warm_rig_warm(rig);
    warm_rig_await_keys(rig, 1);
    assert_int_equal(redis_server_number(rig->redis, "DBSIZE"), 1);
}

static void test_what_is_new_is_found(void **state)
{
    struct warm_rig *rig = warm_rig_new(false, true);

    *state = rig;
    warm_rig_warm(rig);
    warm_rig_put(rig, 1, 40, 8);
    warm_rig_put(rig, 2, 3, 1);
    assert_true(is_single(rig, 1));
    warm_moved(rig->app.warm, 1);
    warm_moved(rig->app.warm, 2);
    warm_moved(rig->app.warm, 3); /* there is no such product */
    warm_rig_until(rig, has_segments, 1, "eight segments");
    warm_rig_await_keys(rig, 1);
    warm_rig_await_keys(rig, 2);
    assert_int_equal(redis_server_number(rig->redis, "DBSIZE"), 9);
}

/* More at once than the door can remember one by one. */
static void test_many_new_ones(void **state)
{
    struct warm_rig *rig = warm_rig_new(false, false);

    *state = rig;
    warm_rig_warm(rig);
    warm_rig_shut(rig);
    for (int64_t id = 1; id <= 600; id++) {
        warm_rig_put(rig, id, 4, 2);
        warm_moved(rig->app.warm, id);
    }
    warm_rig_let_go(rig);
    for (int64_t id = 1; id <= 600; id++)
        warm_rig_until(rig, has_segments, id, "two segments");
}

/* What stands in a key's place, and what another database has left there. */
static void test_keys_of_another_kind(void **state)
{
    struct warm_rig *rig = warm_rig_new(false, true);

    *state = rig;
    warm_rig_put(rig, 1, 40, 6);
    ask(rig, "SET stock:{1:0} nonsense");
    ask(rig, "HSET stock:{1:1} epoch x units y segments z");
    ask(rig, "HSET stock:{1:2} epoch 5000 units 77 segments 9");
    ask(rig, "HSET stock:{1:3} epoch nan units nan order nan segments nan");
    ask(rig, "HSET stock:{1:4} epoch 1e300 units 1e300 segments 1e300");
    ask(rig, "HSET stock:{1:8} epoch 5000 units 77 segments 9");
    warm_rig_warm(rig);
    warm_rig_await_keys(rig, 1);
    assert_true(epoch_of(rig) > 5000);
    assert_int_equal(redis_server_number(rig->redis, "DBSIZE"), 6);
}

/* ---- counting once -------------------------------------------------------- */

/* The copy cannot be taken beyond what it has, whoever holds the tickets. */
static void test_tickets_are_units(void **state)
{
    struct warm_rig *rig = begin(state, 12, 4);
    struct warm_ticket tickets[12];

    for (int i = 0; i < 12; i++)
        tickets[i] = ticket_for(rig, 1);
    assert_true(would_gather(rig, 1));
    for (int i = 0; i < 4; i++)
        warm_settle(rig->app.warm, &tickets[i], WARM_KEPT);
    for (int i = 0; i < 4; i++)
        tickets[i] = ticket_for(rig, 1);
    for (int i = 0; i < 12; i++) {
        assert_int_equal(warm_rig_place(rig, &tickets[i]), STORE_OK);
        warm_settle(rig->app.warm, &tickets[i], WARM_SOLD);
    }
    assert_true(would_gather(rig, 1));
    warm_rig_await_keys(rig, 1);
}

/* Some are placed before the count, some after it; each counts once. */
static void test_count_while_tickets_are_out(void **state)
{
    struct warm_rig *rig = begin(state, 40, 4);
    struct warm_ticket before = ticket_for(rig, 3), after = ticket_for(rig, 5);
    int64_t epoch = epoch_of(rig);

    assert_int_equal(warm_rig_place(rig, &before), STORE_OK);
    warm_moved(rig->app.warm, 1);
    warm_rig_await_keys(rig, 1);
    assert_int_equal(epoch_of(rig), epoch + 1);
    assert_int_equal(warm_rig_place(rig, &after), STORE_OK);
    warm_settle(rig->app.warm, &before, WARM_SOLD);
    warm_settle(rig->app.warm, &after, WARM_SOLD);
    warm_rig_await_keys(rig, 1);
    assert_int_equal(epoch_of(rig), epoch + 1);
}

/* Of which nobody knows the number: an older epoch's are refused. */
static void test_a_ticket_of_an_older_epoch(void **state)
{
    struct warm_rig *rig = begin(state, 40, 4);
    struct warm_ticket old = ticket_for(rig, 5), new;
    char key[WARM_RIG_KEY_BYTES], now[WARM_RIG_KEY_BYTES];

    warm_moved(rig->app.warm, 1);
    epoch_before = old.epoch;
    warm_rig_until(rig, has_new_epoch, 1, "a new epoch");
    warm_rig_await_keys(rig, 1);
    warm_rig_key(rig, 1, old.segment, key);
    warm_settle(rig->app.warm, &old, WARM_SOLD);
    new = ticket_for(rig, 1);
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
    struct warm_rig *rig = begin(state, 64, 16);
    struct warm_ticket tickets[40];

    for (int i = 0; i < 40; i++)
        tickets[i] = ticket_for(rig, 1);
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
    expect_sound(rig);
}

/* ---- Redis loses its data ------------------------------------------------- */

static void test_flushall(void **state)
{
    struct warm_rig *rig = begin(state, 40, 4);
    struct warm_ticket ticket = ticket_for(rig, 1);
    int64_t epoch = epoch_of(rig);

    /* Rebuilding fails at first, so that the time in between can be seen. */
    warm_rig_shut(rig);
    ask(rig, "FLUSHALL");
    warm_rig_fail(rig, "warm-load", WARM_BEFORE, 2);
    warm_rig_let_go(rig);
    warm_rig_until(rig, is_cold, 1, "cold");
    warm_settle(rig->app.warm, &ticket, WARM_KEPT);
    assert_int_equal(warm_rig_buy(rig, 1, 1), STORE_BUSY);
    warm_rig_until(rig, is_warm, 1, "warm");
    warm_rig_await_keys(rig, 1);
    assert_true(epoch_of(rig) > epoch);
    assert_int_equal(warm_rig_buy(rig, 1, 1), STORE_OK);
    warm_rig_await_keys(rig, 1);
}

/* With orders it is seen by the next telling, without by the next look. */
static void test_flushall_is_seen_soon(void **state)
{
    struct warm_rig *rig = begin(state, 4000, 4);
    int64_t epoch = epoch_of(rig);
    uint64_t begin_ms;

    assert_int_equal(warm_rig_buy(rig, 1, 1), STORE_OK);
    ask(rig, "FLUSHALL");
    begin_ms = clock_ms();
    while (epoch_of(rig) == epoch) {
        warm_rig_buy(rig, 1, 1);
        assert_true(clock_ms() < begin_ms + 2000);
    }
    warm_rig_await_keys(rig, 1);
    ask(rig, "FLUSHALL"); /* nobody buys */
    warm_rig_await_keys(rig, 1);
}

/* One of them only: evicted, say. */
static void test_a_key_is_gone(void **state)
{
    struct warm_rig *rig = begin(state, 40, 4);
    int64_t epoch = epoch_of(rig);

    ask(rig, "DEL stock:{1:2}");
    for (int i = 0; i < 40 && epoch_of(rig) == epoch; i++) {
        warm_rig_buy(rig, 1, 1);
        warm_rig_await_pass(rig);
    }
    assert_true(epoch_of(rig) > epoch);
    warm_rig_await_keys(rig, 1);
}

/* Another instance has counted anew, with fewer segments, and has taken the
 * other keys away. We have sold from one of those, and hear that it is missing:
 * nothing is lost, and no order is refused for that. */
static void test_a_segment_that_is_retired_elsewhere(void **state)
{
    struct warm_rig *rig = begin(state, 40, 4);
    struct warm_ticket ticket = {0};
    struct store_cells cells;
    char command[128];

    do {
        if (ticket.units > 0)
            warm_settle(rig->app.warm, &ticket, WARM_KEPT);
        ticket = ticket_for(rig, 1);
    } while (ticket.segment != 3);
    warm_rig_shut(rig);
    assert_int_equal(warm_rig_place(rig, &ticket), STORE_OK);
    warm_settle(rig->app.warm, &ticket, WARM_SOLD);
    warm_rig_put(rig, 1, 40, 2);
    cells = warm_rig_cells(rig, 1);
    ask(rig, "DEL stock:{1:2}");
    ask(rig, "DEL stock:{1:3}");
    for (int i = 0; i < 2; i++) {
        snprintf(command, sizeof(command),
                 "HMSET stock:{1:%d} epoch %" PRId64 " units %" PRId64
                 " order %" PRId64 " segments 2",
                 i, cells.epoch, cells.cells[i].stock, cells.number);
        ask(rig, command);
    }
    warm_rig_fail(rig, "warm-load", WARM_BEFORE, 2); /* or it would be brief */
    warm_rig_let_go(rig);
    warm_rig_await_pass(rig);
    assert_false(is_cold(rig, 1));
    warm_rig_await_keys(rig, 1);
    assert_int_equal(warm_rig_buy(rig, 1, 1), STORE_OK);
    expect_sound(rig);
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
    struct warm_rig *rig = begin(state, 4000, 4);
    uint64_t longest = 0;

    catch_log();
    redis_server_pause(rig->redis);
    for (int i = 0; i < 400; i++) {
        struct warm_ticket ticket = {0};
        uint64_t begin_us = clock_us(), took;
        enum warm_choice choice = take(rig, 1, &ticket);

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
    struct warm_rig *rig = begin(state, 4000, 4);

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
    struct warm_rig *rig = begin(state, 8, 2);
    int64_t epoch = epoch_of(rig);

    buy_from_both(rig);
    warm_rig_fail(rig, "warm-take", WARM_AFTER, 1);
    warm_rig_let_go(rig);
    warm_rig_await_keys(rig, 1);
    assert_true(epoch_of(rig) > epoch);
}

/* It knows of nothing: it is told again. */
static void test_a_question_is_lost(void **state)
{
    struct warm_rig *rig = begin(state, 8, 2);
    int64_t epoch = epoch_of(rig);

    buy_from_both(rig);
    warm_rig_fail(rig, "warm-take", WARM_BEFORE, 3);
    warm_rig_let_go(rig);
    warm_rig_await_keys(rig, 1);
    assert_int_equal(epoch_of(rig), epoch);
}

/* While it is away units move: the keys are not what they were when it is back. */
static void test_moved_while_redis_is_away(void **state)
{
    struct warm_rig *rig = begin(state, 40, 4);
    int64_t epoch;

    warm_rig_fail(rig, "warm-take", WARM_BEFORE, 1000000);
    assert_int_equal(warm_rig_buy(rig, 1, 1), STORE_OK);
    warm_rig_await_pass(rig);
    warm_rig_put(rig, 1, 40, 2);
    epoch = epoch_of(rig);
    warm_moved(rig->app.warm, 1);
    warm_rig_await_pass(rig);
    warm_rig_fail(rig, "", WARM_BEFORE, 0);
    warm_rig_await_keys(rig, 1);
    assert_true(epoch_of(rig) > epoch);
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
    epoch = epoch_of(rig);
    for (int i = 0; i < 12; i++)
        assert_int_equal(warm_rig_buy(rig, 1, 1), STORE_OK);
    assert_int_equal(warm_rig_buy(rig, 1, 1), STORE_SOLD_OUT);
    warm_rig_put(rig, 2, 12, 4);
    warm_moved(rig->app.warm, 2);
    warm_rig_until(rig, has_segments, 2, "four segments");
    assert_int_equal(warm_up(rig->app.warm, 1, &cells, &in_redis, NULL),
                     STORE_OK);
    assert_false(in_redis);
    assert_int_equal(epoch_of(rig), epoch); /* there is nobody to tell */
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
    struct warm_rig *rig = begin(state, 12, 4);
    struct store_order order = gather(rig, 12);
    int64_t epoch;
    uint64_t begin_ms, took_ms;

    warm_moved(rig->app.warm, 1);
    warm_rig_await_keys(rig, 1);
    assert_true(would_gather(rig, 1));
    assert_int_equal(store_cancel(rig->app.store, order.id, &order, NULL),
                     STORE_OK);
    epoch = epoch_of(rig);
    begin_ms = clock_ms();
    warm_moved(rig->app.warm, 1);
    warm_rig_until(rig, has_segments, 1, "units again");
    for (int i = 0; i < 2000; i++) {
        warm_moved(rig->app.warm, 1);
        if (i % 100 == 0)
            warm_rig_await_pass(rig);
    }
    warm_rig_await_keys(rig, 1);
    took_ms = clock_ms() - begin_ms;
    assert_in_range(epoch_of(rig) - epoch, 1, 2 + took_ms / 100);
}

/* One segment has nothing any more, by whatever way; the others have to give. */
static void test_a_dry_segment_is_filled(void **state)
{
    struct warm_rig *rig = begin(state, 40, 4);
    struct store_order order = {
        .product_id = 1, .user_id = 1, .segment = 2, .quantity = 10};
    struct store_order *orders[] = {&order};
    struct warm_ticket ticket = {0};
    char *text = NULL;
    size_t size;
    FILE *out;

    assert_int_equal(store_place(rig->app.store, orders, 1, NULL, NULL),
                     STORE_OK); /* another instance did */
    do {
        if (ticket.units > 0)
            warm_settle(rig->app.warm, &ticket, WARM_KEPT);
        ticket = ticket_for(rig, 2);
    } while (ticket.segment != 2);
    assert_int_equal(warm_rig_place(rig, &ticket), STORE_SHORT);
    warm_settle(rig->app.warm, &ticket, WARM_SHORT);
    for (int i = 0; i < 20; i++) { /* it is not asked again, filled or not */
        ticket = ticket_for(rig, 2);
        assert_int_equal(warm_rig_place(rig, &ticket), STORE_OK);
        warm_settle(rig->app.warm, &ticket, WARM_KEPT); /* as if; see below */
        if (i == 4)
            break;
    }
    warm_moved(rig->app.warm, 1);
    warm_rig_await_keys(rig, 1);
    assert_int_equal(warm_rig_cells(rig, 1).n, 4);
    assert_true(warm_rig_cells(rig, 1).cells[2].stock > 0);
    out = open_memstream(&text, &size);
    metrics_write(rig->app.metrics, 0, out);
    fclose(out);
    assert_non_null(strstr(text, "\nstockade_rebalances_total 1\n"));
    free(text);
    expect_sound(rig);
}

/* Nobody said "short": the weights keep all away from it. */
static void test_a_dry_segment_that_nobody_asks(void **state)
{
    struct warm_rig *rig = begin(state, 400, 4);
    struct warm_ticket tickets[400];
    int n = 0;

    /* All of segment 1, and one of another. */
    warm_rig_shut(rig);
    for (int i = 0; i < 400; i++)
        tickets[n++] = ticket_for(rig, 1);
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

/* ---- the door ------------------------------------------------------------- */

static void test_warming_up(void **state)
{
    struct warm_rig *rig = begin(state, 40, 4);
    struct store_error error = {""};
    struct store_cells cells;
    bool in_redis = false;
    int64_t epoch = epoch_of(rig);

    assert_int_equal(warm_up(rig->app.warm, 1, &cells, &in_redis, &error),
                     STORE_OK);
    assert_true(in_redis);
    assert_int_equal(cells.epoch, epoch + 1);
    assert_int_equal(cells.n, 4);
    assert_int_equal(cells.cells[3].stock, 10);
    warm_rig_await_keys(rig, 1);
    assert_int_equal(warm_up(rig->app.warm, 2, &cells, &in_redis, &error),
                     STORE_NO_PRODUCT);
    assert_string_equal(error.text, "there is no product 2");
    warm_rig_put(rig, 2, 5, 1);
    assert_int_equal(warm_up(rig->app.warm, 2, &cells, &in_redis, &error),
                     STORE_OK);
    assert_true(in_redis);
    warm_rig_await_keys(rig, 2);
    redis_server_kill(rig->redis);
    assert_int_equal(warm_up(rig->app.warm, 1, &cells, &in_redis, &error),
                     STORE_OK);
    assert_false(in_redis);
    redis_server_restart(rig->redis);
    warm_rig_await_keys(rig, 1);
}

/* Just after a pass: the next one would gather for a while. */
static void test_closing_tells_the_rest(void **state)
{
    struct warm_rig *rig = begin(state, 40, 4);

    warm_rig_await_pass(rig);
    for (int i = 0; i < 9; i++)
        assert_int_equal(warm_rig_buy(rig, 1, 1), STORE_OK);
    warm_rig_cool(rig);
    for (int64_t i = 0; i < 4; i++) {
        struct store_cells cells = warm_rig_cells(rig, 1);
        char found[WARM_RIG_KEY_BYTES], wanted[WARM_RIG_KEY_BYTES];

        warm_rig_key(rig, 1, i, found);
        snprintf(wanted, sizeof(wanted), "%" PRId64 " %" PRId64 " 4",
                 cells.epoch, cells.cells[i].stock);
        assert_string_equal(found, wanted);
    }
}

static void test_closing_while_redis_hangs(void **state)
{
    struct warm_rig *rig = begin(state, 40, 4);
    uint64_t begin_ms;

    assert_int_equal(warm_rig_buy(rig, 1, 1), STORE_OK);
    redis_server_pause(rig->redis);
    begin_ms = clock_ms();
    warm_rig_cool(rig);
    assert_true(clock_ms() < begin_ms + 5000);
    redis_server_resume(rig->redis);
}

/* ---- two instances -------------------------------------------------------- */

struct pair {
    struct warm_rig *a, *b;
};

/* Where B stops, in its Nth load from now. */
static pthread_mutex_t stop_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t stop_changed = PTHREAD_COND_INITIALIZER;
static int stop_in; /* 0 = it does not */
static bool stopped;

static void at_step(const char *step, enum warm_phase phase)
{
    if (phase != WARM_BEFORE || strcmp(step, "warm-load") != 0)
        return;
    pthread_mutex_lock(&stop_mutex);
    if (stop_in > 0 && --stop_in == 0) {
        stopped = true;
        pthread_cond_broadcast(&stop_changed);
        while (stopped)
            pthread_cond_wait(&stop_changed, &stop_mutex);
    }
    pthread_mutex_unlock(&stop_mutex);
}

static void stop_in_load(int n)
{
    pthread_mutex_lock(&stop_mutex);
    stop_in = n;
    pthread_mutex_unlock(&stop_mutex);
}

static void await_stop(void)
{
    pthread_mutex_lock(&stop_mutex);
    while (!stopped)
        pthread_cond_wait(&stop_changed, &stop_mutex);
    pthread_mutex_unlock(&stop_mutex);
}

static void go_on(void)
{
    pthread_mutex_lock(&stop_mutex);
    stopped = false;
    pthread_cond_broadcast(&stop_changed);
    pthread_mutex_unlock(&stop_mutex);
}

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
    pair->b = warm_rig_guest(&pair->a->dir, pair->a->redis, true, at_step);
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
    return would_gather(rig, 1);
}

/* A sells all that there is: B hears of it by the keys alone. */
static void test_what_the_other_sells_is_heard(void **state)
{
    struct pair *pair = begin_pair(state, 200, 4);

    warm_rig_until(pair->a, has_segments, 1, "segments");
    while (warm_rig_buy(pair->a, 1, 1) == STORE_OK)
        ;
    warm_rig_until(pair->b, gathers, 1, "sold out at the other");
    warm_rig_await_keys(pair->b, 1);
    expect_sound(pair->a);
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
    warm_rig_until(pair->b, is_single, 1, "one segment");
    warm_rig_put(pair->a, 2, 9, 3);
    warm_moved(pair->a->app.warm, 2);
    warm_rig_until(pair->b, has_segments, 2, "a new product");
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
    struct warm_ticket early = ticket_for(pair->b, 7);
    struct warm_ticket late = ticket_for(pair->b, 9);
    int64_t epoch;

    warm_rig_shut(pair->b);
    assert_int_equal(warm_rig_place(pair->b, &early), STORE_OK);
    warm_moved(pair->a->app.warm, 1);
    warm_rig_await_keys(pair->a, 1);
    epoch = epoch_of(pair->a);
    assert_int_equal(warm_rig_place(pair->b, &late), STORE_OK);
    warm_settle(pair->b->app.warm, &early, WARM_SOLD);
    warm_settle(pair->b->app.warm, &late, WARM_SOLD);
    warm_rig_let_go(pair->b);
    warm_rig_await_keys(pair->b, 1);
    assert_int_equal(epoch_of(pair->a), epoch); /* taken over, not anew */
}

/* B writes keys of segments that A has done away with meanwhile: and removes
 * them, when it hears of that. */
static void test_keys_written_too_late(void **state)
{
    struct pair *pair = begin_pair(state, 200, 4);

    warm_rig_put(pair->b, 1, 200, 16);
    stop_in_load(11);
    warm_moved(pair->b->app.warm, 1);
    await_stop();
    warm_rig_put(pair->a, 1, 200, 3);
    warm_moved(pair->a->app.warm, 1);
    warm_rig_await_keys(pair->a, 1);
    go_on();
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
            ask(pair->a, "FLUSHALL");
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        bought += buyers[i].bought;
    }
    assert_int_equal(bought, UNITS);
    warm_rig_await_keys(pair->a, 1);
    warm_rig_await_keys(pair->b, 1);
    expect_sound(pair->a);
}

/* ---- many products -------------------------------------------------------- */

/* Past the store, for it takes its time for each. */
static void put_ten_thousand(struct warm_rig *rig)
{
    const char *sql =
        "BEGIN;"
        "WITH RECURSIVE ids (id) AS "
        "  (SELECT 1 UNION ALL SELECT id + 1 FROM ids WHERE id < 10000) "
        "INSERT INTO products (id, name, price_cents, limit_per_user, opens_ms,"
        "  ends_ms, first_units, created_ms) "
        "  SELECT id, 'Thing', 0, 0, 0, 0, 5, 0 FROM ids;"
        "INSERT INTO cells (product_id, segment, initial, stock) "
        "  SELECT id, 0, 5, 5 FROM products;"
        "COMMIT";
    sqlite3 *db;

    assert_int_equal(sqlite3_open(rig->dir.db, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* The keys come from the warmer, in a pipeline; the start does not wait. */
static void test_ten_thousand_products(void **state)
{
    struct warm_rig *rig = warm_rig_new(false, true);
    uint64_t opened_ms, begin_ms;

    *state = rig;
    put_ten_thousand(rig);
    warm_rig_put(rig, 10001, 16, 16);
    begin_ms = clock_ms();
    rig->app.warm = warm_open(&rig->app, redis_server_url(rig->redis));
    assert_non_null(rig->app.warm);
    opened_ms = clock_ms();
    while (redis_server_number(rig->redis, "DBSIZE") < 10016) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        assert_true(clock_ms() < begin_ms + 20000);
    }
    print_message("# open: %" PRIu64 " ms, all keys: %" PRIu64 " ms\n",
                  opened_ms - begin_ms, clock_ms() - begin_ms);
}

#define TEST(test)      cmocka_unit_test_teardown(test, tear_down)
#define TEST_PAIR(test) cmocka_unit_test_teardown(test, tear_down_pair)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_keys_are_written_at_the_start),
        TEST(test_what_is_sold_is_told),
        TEST(test_resize),
        TEST(test_resize_to_one_and_back),
        TEST(test_resized_to_one_and_dead),
        TEST(test_what_is_new_is_found),
        TEST(test_many_new_ones),
        TEST(test_keys_of_another_kind),
        TEST(test_tickets_are_units),
        TEST(test_count_while_tickets_are_out),
        TEST(test_a_ticket_of_an_older_epoch),
        TEST(test_resize_while_tickets_are_out),
        TEST(test_flushall),
        TEST(test_flushall_is_seen_soon),
        TEST(test_a_key_is_gone),
        TEST(test_a_segment_that_is_retired_elsewhere),
        TEST(test_redis_hangs),
        TEST(test_redis_restarts),
        TEST(test_an_answer_is_lost),
        TEST(test_a_question_is_lost),
        TEST(test_moved_while_redis_is_away),
        TEST(test_without_redis),
        TEST(test_cancels_in_thousands),
        TEST(test_a_dry_segment_is_filled),
        TEST(test_a_dry_segment_that_nobody_asks),
        TEST(test_warming_up),
        TEST(test_closing_tells_the_rest),
        TEST(test_closing_while_redis_hangs),
        TEST_PAIR(test_what_the_other_sells_is_heard),
        TEST_PAIR(test_what_the_other_resizes),
        TEST_PAIR(test_sold_while_the_other_counted),
        TEST_PAIR(test_keys_written_too_late),
        TEST_PAIR(test_a_sale),
        TEST(test_ten_thousand_products),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
