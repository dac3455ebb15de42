/*
 * Scenario 39: a process dies between Redis and SQL.
 *
 * The textbook's way takes from the key first, and the database hears of it
 * after: whoever dies in between has taken a unit that nobody has bought, and
 * nobody can. Here the database is the truth: killed at any step, after the
 * restart the keys say what the database says, and all that was there is sold.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/warm_rig.h"

#define UNITS     40
#define ACKED_MAX 64

static struct redis_server *redis;
static struct temp_dir dir;

static void prepare(int64_t segments)
{
    struct warm_rig *rig;

    temp_dir_make(&dir);
    redis_server_ask(redis, "FLUSHALL", NULL, 0);
    rig = warm_rig_guest(&dir, redis, false, NULL);
    warm_rig_put(rig, 1, UNITS, segments);
    warm_rig_free(rig);
}

/* ---- with the bug --------------------------------------------------------- */

/* One unit off the key, then one order; "sold out" is what the key says. */
static bool textbook_buys(struct warm_rig *rig, bool dies_between)
{
    struct warm_ticket ticket = {.product_id = 1, .segment = 0, .units = 1};

    if (redis_server_number(rig->redis, "HINCRBY stock:{1:0} units -1") < 0)
        return false;
    if (dies_between)
        raise(SIGKILL);
    assert_int_equal(warm_rig_place(rig, &ticket), STORE_OK);
    return true;
}

static void wait_for(pid_t child, bool killed)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status) != killed || (!killed && WEXITSTATUS(status) != 0))
        fail_msg("the child has ended with status %x", (unsigned)status);
}

static void test_the_textbook_loses_a_unit(void **state)
{
    struct warm_rig *rig;
    pid_t child;
    int sold = 0;

    (void)state;
    prepare(1);
    redis_server_ask(redis, "HSET stock:{1:0} units 40", NULL, 0);
    fflush(NULL);
    child = fork();
    if (child == 0) {
        rig = warm_rig_guest(&dir, redis, false, NULL);
        textbook_buys(rig, false);
        textbook_buys(rig, true);
    }
    wait_for(child, true);
    rig = warm_rig_guest(&dir, redis, false, NULL);
    while (textbook_buys(rig, false))
        sold++;
    assert_int_equal(1 + sold, UNITS - 1); /* and all are told "sold out" */
    assert_int_equal(warm_rig_cells(rig, 1).cells[0].stock, 1);
    warm_rig_free(rig);
    temp_dir_remove(&dir);
}

/* ---- how it dies ---------------------------------------------------------- */

static struct {
    const char *step;
    enum warm_phase phase;
    atomic_int to_go; /* how often it comes by before it dies */
} death;

static void on_point(const char *step, enum warm_phase phase)
{
    if (death.step && phase == death.phase && strcmp(step, death.step) == 0 &&
        atomic_fetch_sub(&death.to_go, 1) == 1)
        raise(SIGKILL);
}

/* ---- what it was doing ---------------------------------------------------- */

static void ack(int fd, const struct store_order *order)
{
    if (write(fd, order->id, sizeof(order->id)) != sizeof(order->id))
        _exit(3);
}

/* Of any segment, or of one. */
static struct store_order order(struct warm_rig *rig, int64_t segment,
                                int64_t quantity, int acked)
{
    struct store_order it = {.product_id = 1,
                             .user_id = 1,
                             .segment = segment,
                             .quantity = quantity};
    struct store_order *orders[] = {&it};

    if (store_place(rig->app.store, orders, 1, NULL, NULL) != STORE_OK ||
        it.status != STORE_OK)
        _exit(4);
    ack(acked, &it);
    return it;
}

/* What the keys said before is known to be wrong: the segment is dry now. */
static void hear_short(struct warm_rig *rig)
{
    struct warm_ticket ticket = {0};

    do {
        if (ticket.units > 0)
            warm_settle(rig->app.warm, &ticket, WARM_KEPT);
        if (warm_take(rig->app.warm, 1, 1, &ticket) != WARM_SEGMENT)
            _exit(5);
    } while (ticket.segment != 1);
    if (warm_rig_place(rig, &ticket) != STORE_SHORT)
        _exit(6);
    warm_settle(rig->app.warm, &ticket, WARM_SHORT);
}

/* Sells, cancels, resizes, hears "short", loses Redis' data. */
static void live(int acked)
{
    struct warm_rig *rig = warm_rig_guest(&dir, redis, false, on_point);
    struct store_order bought;

    warm_rig_warm(rig);
    warm_rig_await_keys(rig, 1);
    for (int i = 0; i < 6; i++) {
        struct warm_ticket ticket;

        if (warm_take(rig->app.warm, 1, 1, &ticket) != WARM_SEGMENT)
            _exit(7);
        ticket.number = order(rig, ticket.segment, 1, acked).number;
        warm_settle(rig->app.warm, &ticket, WARM_SOLD);
    }
    warm_rig_await_keys(rig, 1);
    bought = order(rig, STORE_SEGMENT_ANY, 12, acked);
    if (store_cancel(rig->app.store, bought.id, &bought, NULL) != STORE_OK)
        _exit(8);
    warm_moved(rig->app.warm, 1);
    warm_rig_await_keys(rig, 1);
    warm_rig_put(rig, 1, UNITS, 3);
    warm_moved(rig->app.warm, 1);
    warm_rig_await_keys(rig, 1);
    order(rig, 1, warm_rig_cells(rig, 1).cells[1].stock, acked);
    hear_short(rig);
    warm_rig_await_keys(rig, 1);
    redis_server_ask(redis, "FLUSHALL", NULL, 0);
    warm_rig_await_keys(rig, 1);
    warm_rig_free(rig);
    _exit(0);
}

/* ---- what is found -------------------------------------------------------- */

static char ids[ACKED_MAX][STORE_ID_BYTES_MAX + 1];

/* Acknowledged orders are there, and nothing else is wrong either. */
static void look(struct warm_rig *rig, int acked)
{
    const char *list[ACKED_MAX];
    struct store_audit audit;
    size_t n = 0;

    while (n < ACKED_MAX && read(acked, ids[n], sizeof(ids[n])) > 0) {
        list[n] = ids[n];
        n++;
    }
    assert_int_equal(
        store_audit(rig->reader, NULL, NULL, list, n, &audit, NULL), STORE_OK);
    assert_int_equal(audit.lost, 0);
    assert_true(audit.balanced);
}

/* After the restart: keys are what the database is, and all of it is sold. */
static void restart(int acked)
{
    struct warm_rig *rig = warm_rig_guest(&dir, redis, false, NULL);
    struct store_product product;
    enum store_status status;

    look(rig, acked);
    warm_rig_warm(rig);
    warm_rig_await_keys(rig, 1);
    while ((status = warm_rig_buy(rig, 1, 1)) != STORE_SOLD_OUT)
        assert_int_equal(status, STORE_OK);
    assert_int_equal(store_product_get(rig->reader, 1, &product, NULL),
                     STORE_OK);
    assert_int_equal(product.stock, 0);
    look(rig, acked);
    warm_rig_await_keys(rig, 1);
    warm_rig_free(rig);
}

/* False: it came to the end before it came by so often. */
static bool dies(const char *step, enum warm_phase phase, int times)
{
    int acked[2], status;
    pid_t child;

    prepare(4);
    assert_int_equal(pipe(acked), 0);
    fflush(NULL);
    child = fork();
    if (child == 0) {
        death.step = step;
        death.phase = phase;
        atomic_store(&death.to_go, times);
        live(acked[1]);
    }
    close(acked[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSIGNALED(status) && WEXITSTATUS(status) != 0)
        fail_msg("the child has ended with %d", WEXITSTATUS(status));
    restart(acked[0]);
    close(acked[0]);
    temp_dir_remove(&dir);
    return WIFSIGNALED(status);
}

/* At its first time, its second, its fourth, ... */
static void kill_at(const char *step, enum warm_phase phase, int at_least)
{
    int deaths = 0;

    for (int times = 1; dies(step, phase, times); times *= 2)
        deaths++;
    if (deaths < at_least)
        fail_msg("only %d deaths at %s", deaths, step);
}

#define KILL(name, step, at_least)                                             \
    static void test_##name(void **state)                                      \
    {                                                                          \
        (void)state;                                                           \
        kill_at(step, WARM_BEFORE, at_least);                                  \
        kill_at(step, WARM_AFTER, at_least);                                   \
    }

KILL(warm_load, "warm-load", 3)
KILL(warm_take, "warm-take", 2)
KILL(new_epoch, "new-epoch", 3)
KILL(even_out, "even-out", 1)
KILL(place, "place", 3)
KILL(cancel, "cancel", 1)
KILL(put, "product-put", 1)
KILL(commit, "commit", 4)

static int start_redis(void **state)
{
    (void)state;
    redis = redis_server_start();
    return 0;
}

static int stop_redis(void **state)
{
    (void)state;
    redis_server_stop(redis);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_textbook_loses_a_unit),
        cmocka_unit_test(test_warm_load),
        cmocka_unit_test(test_warm_take),
        cmocka_unit_test(test_new_epoch),
        cmocka_unit_test(test_even_out),
        cmocka_unit_test(test_place),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_put),
        cmocka_unit_test(test_commit),
    };

    return cmocka_run_group_tests(tests, start_redis, stop_redis);
}
