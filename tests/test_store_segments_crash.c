/*
 * kill -9 at each step of whatever sells or moves units: before each
 * statement that it runs, and around each step that a hook sees. What is found
 * then is as it was before, or as it should be after; and the same request
 * again, as a client sends it that got no answer, ends at the latter.
 */
#include "tests/support/store_rig.h"
#include "tests/support/store_wait.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BEFORE     "1 4" /* in use, as prepare() leaves it */
#define POINTS_MAX 1000

static bool shared;
static struct store_order gathered; /* from segment 2, which is retired */

/* ---- what is done ------------------------------------------------------- */

static void resize(struct store_rig *rig, int64_t segments)
{
    store_rig_split(rig, 20, segments);
}

static void more(struct store_rig *rig)
{
    resize(rig, 6);
}

static void fewer(struct store_rig *rig)
{
    resize(rig, 1);
}

static void even_out(struct store_rig *rig)
{
    assert_ok(store_even_out(rig->store, 1, NULL, NULL));
}

static void sell(struct store_rig *rig)
{
    assert_int_equal(store_rig_buy(rig, 1, 1, 1, "s"), STORE_OK);
}

static void gather(struct store_rig *rig)
{
    assert_ok(store_rig_buy(rig, 1, 1, 5, "g"));
}

static void cancel(struct store_rig *rig)
{
    store_rig_cancel(rig, &gathered);
}

static void restock(struct store_rig *rig)
{
    struct store_product product;

    assert_ok(store_restock(rig->store, 1, 7, "r", &product, NULL));
}

/* ---- how it dies -------------------------------------------------------- */

static atomic_int to_go; /* points until death */
static atomic_bool armed;

static void point(void)
{
    if (atomic_load(&armed) && atomic_fetch_sub(&to_go, 1) == 0)
        raise(SIGKILL);
}

static enum store_verdict on_step(void *ctx, const char *step,
                                  int64_t product_id, enum store_phase phase)
{
    (void)ctx, (void)step, (void)product_id, (void)phase;
    point();
    return STORE_GO;
}

static int on_statement(unsigned type, void *ctx, void *statement, void *text)
{
    (void)type, (void)ctx, (void)statement, (void)text;
    point();
    return 0;
}

/* For every connection that is opened. */
static int trace(sqlite3 *db, const char **error, const void *api)
{
    (void)error, (void)api;
    return sqlite3_trace_v2(db, SQLITE_TRACE_STMT, on_statement, NULL);
}

struct victim {
    struct store_rig rig;
    int at; /* point of its death */
    void (*deed)(struct store_rig *);
    bool is_new; /* it may die while it makes the database */
};

static void victim_main(void *ctx)
{
    struct victim *victim = ctx;

    sqlite3_auto_extension((void (*)(void))trace);
    atomic_store(&to_go, victim->at);
    atomic_store(&armed, victim->is_new);
    store_rig_open(&victim->rig, (struct store_options){.shared = shared,
                                                        .on_step = on_step});
    atomic_store(&armed, true);
    victim->deed(&victim->rig);
}

/* False: it had done all before its time had come. */
static bool dies(struct victim *victim)
{
    pid_t child = store_rig_fork(victim_main, victim);
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(status == 0 ||
                (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
    return status != 0;
}

/* ---- what is found ------------------------------------------------------ */

static void prepare(struct store_rig *rig)
{
    store_rig_begin(rig);
    store_rig_open(rig, (struct store_options){.shared = shared});
    resize(rig, 4);
    gathered = store_rig_order_at(rig, 2, 12);
    resize(rig, 2); /* 4 4 */
    store_rig_order_at(rig, 0, 3);
    store_rig_close(rig);
}

/* Sound, and BEFORE or AFTER. True: it is AFTER. Nobody has opened it to write
 * since. */
static bool look(struct store_rig *rig, int at, const char *after)
{
    char stock[STORE_RIG_TEXT_BYTES] = "";

    assert_ok(store_reader_open_url(rig->dir.url, &rig->reader, NULL));
    store_rig_expect_sound(rig);
    store_rig_stock(rig, stock);
    store_reader_close(rig->reader);
    if (strcmp(stock, BEFORE) != 0 && strcmp(stock, after) != 0)
        fail_msg("killed at point %d: %s", at, stock);
    return strcmp(stock, after) == 0;
}

/* Whether death came after the commit; *alive: it did not come. */
static bool survive(struct victim *victim, const char *after, bool *alive)
{
    struct store_rig *rig = &victim->rig;
    bool is_done;

    prepare(rig);
    *alive = !dies(victim);
    is_done = look(rig, victim->at, after);
    store_rig_open(rig, (struct store_options){.shared = shared});
    victim->deed(rig);
    store_rig_close(rig);
    assert_true(look(rig, victim->at, after));
    rig->reader = NULL;
    store_rig_end(rig);
    return is_done;
}

static void kill_everywhere(void (*deed)(struct store_rig *), const char *after)
{
    struct victim victim = {.deed = deed};
    bool alive = false, is_done = false, was_done = false;
    int undone = 0, done = 0;

    for (; !alive && victim.at < POINTS_MAX; victim.at++) {
        is_done = survive(&victim, after, &alive);
        assert_true(is_done || !was_done); /* done stays done */
        was_done = is_done;
        done += is_done && !alive;
        undone += !is_done;
    }
    assert_true(alive && is_done);
    assert_true(undone > 5); /* statements, before the commit */
    assert_true(done >= 1);  /* after it: the answer got lost */
}

static void put_on_sale(struct store_rig *rig)
{
    store_rig_split(rig, 20, 4);
}

/* Whatever is there of a new database, the next process sells from it. */
static void test_new_database(void **state)
{
    struct victim victim = {.deed = put_on_sale, .is_new = true};
    bool alive = false;

    shared = *state != NULL;
    for (; !alive && victim.at < POINTS_MAX; victim.at++) {
        store_rig_begin(&victim.rig);
        alive = !dies(&victim);
        store_rig_open(&victim.rig, (struct store_options){.shared = shared});
        put_on_sale(&victim.rig);
        store_rig_order_at(&victim.rig, 0, 20);
        store_rig_expect_sound(&victim.rig);
        store_rig_end(&victim.rig);
    }
    assert_true(alive && victim.at > 10);
}

#define KILL(deed, after)                                                      \
    static void test_##deed(void **state)                                      \
    {                                                                          \
        shared = *state != NULL;                                               \
        kill_everywhere(deed, after);                                          \
    }

KILL(more, "1 1 1 1 1")
KILL(fewer, "5")
KILL(even_out, "3 2")
KILL(sell, "0 4")
KILL(gather, "0 0")  /* four units are moved */
KILL(cancel, "13 4") /* what was the retired segment's, to the poorer */
KILL(restock, "6 6")

static char in_shared_mode;

#define BOTH(test)                                                             \
    cmocka_unit_test(test),                                                    \
        cmocka_unit_test_prestate(test, (void *)&in_shared_mode)

static const struct CMUnitTest tests[] = {
    BOTH(test_more),   BOTH(test_fewer),   BOTH(test_even_out),
    BOTH(test_sell),   BOTH(test_gather),  BOTH(test_new_database),
    BOTH(test_cancel), BOTH(test_restock),
};

TEST_MAIN(tests)
