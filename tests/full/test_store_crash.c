/*
 * kill -9 at each step of whatever sells or moves units: before each
 * statement that it runs, and around each step that a hook sees. What is found
 * then is as it was before, or as it should be after; and the same request
 * again, as a client sends it that got no answer, ends at the latter.
 *
 * And in the middle of a write, which leaves half a transaction, or an order that
 * no disk has. The death of a whole service: e2e/kill9.t and
 * e2e/two-instances-kill9.t.
 */
#include "tests/support/store_rig.h"
#include "tests/support/store_wait.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <sys/wait.h>

#define BEFORE     "1 4" /* in use, as prepare() leaves it */
#define POINTS_MAX 1000

static bool shared;
static struct store_order gathered; /* from segment 2, which is retired */

/* False: it has ended well. */
static bool is_killed(pid_t child)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(status == 0 ||
                (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
    return status != 0;
}

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

static enum store_verdict on_step(void *ctx, const struct store_step *step)
{
    (void)ctx, (void)step;
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
    return is_killed(store_rig_fork(victim_main, victim));
}

/* ---- what is found ------------------------------------------------------ */

/* The next order is the first one of a bucket, and of a filter: ledger/filter.h. */
static void prepare(struct store_rig *rig)
{
    store_rig_begin(rig);
    store_rig_open(rig, (struct store_options){.shared = shared});
    resize(rig, 4);
    gathered = store_rig_order_at(rig, 2, 12);
    resize(rig, 2); /* 4 4 */
    store_rig_order_at(rig, 0, 3);
    store_rig_close(rig);
    store_rig_sql(rig,
                  "INSERT INTO orders (number, secret, product_id, "
                  "segment, user_id, quantity, price_cents, "
                  "limit_per_user, fence, state, created_ms, cancelled_ms) "
                  "VALUES (1048575, 1, 1, 0, 9, 1, 0, 0, 0, 1, 1, 1)");
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

struct deed {
    const char *name;
    CMUnitTestFunction test;
    void (*run)(struct store_rig *);
    const char *after; /* what is left in the segments in use then */
    bool shared;
};

static void kill_everywhere(void **state)
{
    const struct deed *deed = *state;
    struct victim victim = {.deed = deed->run};
    bool alive = false, is_done = false, was_done = false;
    int undone = 0, done = 0;

    shared = deed->shared;
    for (; !alive && victim.at < POINTS_MAX; victim.at++) {
        is_done = survive(&victim, deed->after, &alive);
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
static void sell_from_what_is_there(void **state)
{
    const struct deed *deed = *state;
    struct victim victim = {.deed = deed->run, .is_new = true};
    bool alive = false;

    shared = deed->shared;
    for (; !alive && victim.at < POINTS_MAX; victim.at++) {
        store_rig_begin(&victim.rig);
        alive = !dies(&victim);
        store_rig_open(&victim.rig, (struct store_options){.shared = shared});
        deed->run(&victim.rig);
        store_rig_order_at(&victim.rig, 0, 20);
        store_rig_expect_sound(&victim.rig);
        store_rig_end(&victim.rig);
    }
    assert_true(alive && victim.at > 10);
}

/* ---- in the middle of a write -------------------------------------------- */

static void open_store(struct store_rig *rig)
{
    store_rig_open(rig, (struct store_options){.shared = shared});
    store_rig_put(rig, (struct store_product){.id = 1, .initial = 1000000});
}

/* Dies with half a transaction in the file and the journal still hot. */
static void die_in_the_write(void *ctx)
{
    store_rig_connect(
        ctx, "PRAGMA cache_size = 1; PRAGMA cache_spill = 1;"
             "BEGIN IMMEDIATE; UPDATE orders SET quantity = quantity + 1;"
             "UPDATE segments SET stock = 0");
    raise(SIGKILL);
}

/* Fills several pages, so that the update above does not fit its cache. */
static void fill(struct store_rig *rig)
{
    struct store_order asked[1000], *orders[1000];

    shared = true;
    open_store(rig);
    for (int i = 0; i < 1000; i++) {
        asked[i] = store_rig_ask(1, 1, 1, "");
        orders[i] = &asked[i];
    }
    assert_ok(store_place(rig->store, orders, 1000, NULL, NULL));
    store_rig_close(rig);
}

STORE_DIR_TEST(test_audit_of_half_a_transaction)
{
    struct store_audit verdict;

    fill(rig);
    assert_true(is_killed(store_rig_fork(die_in_the_write, rig)));
    assert_in_range(store_rig_byte(rig, "-journal", 0), 1, 255); /* hot */
    verdict = store_rig_audit_dir(&rig->dir, NULL, 0);
    assert_int_equal(verdict.sold, 1000);
    assert_true(verdict.balanced);
}

/* One order, acknowledged or not, in the WAL of a process that is dead. */
static void leave_an_order(void *ctx)
{
    shared = false;
    open_store(ctx);
    store_rig_buy(ctx, 1, 1, 1, "");
    raise(SIGKILL);
}

static int64_t orders_without_wal(const struct temp_dir *dir)
{
    const char *path = text_of("%s/alone", dir->path);
    sqlite3 *db = NULL;
    int64_t n;

    assert_int_equal(system(text_of("cp '%s' '%s'", dir->db, path)), 0);
    sqlite3_open(path, &db);
    n = store_rig_number(db, "SELECT count(*) FROM orders");
    sqlite3_close(db);
    return n;
}

/*
 * Killed between its write and its fsync a process leaves an order that all can
 * read and that no disk has; who opens the database next would tell of it, and
 * sync nothing for that. So it is brought to disk before anybody is told: from
 * the WAL into the database, which syncs both.
 */
STORE_DIR_TEST(test_what_is_found_is_brought_to_disk)
{
    assert_true(is_killed(store_rig_fork(leave_an_order, rig)));
    assert_int_not_equal(orders_without_wal(&rig->dir), 1);
    store_rig_open(rig, (struct store_options){0});
    assert_int_equal(orders_without_wal(&rig->dir), 1);
}

/* The other journal has the same statements: four deeds in it are enough. */
static const struct deed deeds[] = {
    {"more", kill_everywhere, more, "1 1 1 1 1", false},
    {"fewer", kill_everywhere, fewer, "5", false},
    {"even out", kill_everywhere, even_out, "3 2", false},
    {"sell", kill_everywhere, sell, "0 4", false},
    {"sell, shared", kill_everywhere, sell, "0 4", true},
    /* Four units are moved. */
    {"gather", kill_everywhere, gather, "0 0", false},
    {"gather, shared", kill_everywhere, gather, "0 0", true},
    /* What was the retired segment's comes to the poorer one. */
    {"cancel", kill_everywhere, cancel, "13 4", false},
    {"cancel, shared", kill_everywhere, cancel, "13 4", true},
    {"restock", kill_everywhere, restock, "6 6", false},
    {"put on sale", sell_from_what_is_there, put_on_sale, NULL, false},
    {"put on sale, shared", sell_from_what_is_there, put_on_sale, NULL, true},
};

int main(void)
{
    for (size_t i = 0; i < COUNT_OF(deeds); i++)
        unit_test_add(&(struct CMUnitTest)CASE_TEST(
                          deeds[i].name, deeds[i].test, (void *)&deeds[i]),
                      0);
    return unit_test_run(NULL, NULL);
}
