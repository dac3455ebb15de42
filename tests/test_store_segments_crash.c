/*
 * kill -9 at each step of whatever moves units between cells: before each
 * statement that it runs, and around each step that a hook sees. What is found
 * then is as it was before, or as it should be after; and the same request
 * again, as a client sends it that got no answer, ends at the latter.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "db/store.h"
#include "tests/support/segment_rig.h"

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
static int64_t epoch_before;                  /* as prepare() leaves it */
static char gathered[STORE_ID_BYTES_MAX + 1]; /* 0:5 1:5 2:2, and 2 retired */

/* ---- what is done ------------------------------------------------------- */

static enum store_status resize(struct store *store, int64_t segments)
{
    struct store_product product = {
        .id = 1, .name = "Thing", .initial = 20, .segments = segments};

    return store_product_put(store, &product, NULL, NULL);
}

static enum store_status buy(struct store *store, int64_t segment,
                             int64_t quantity, const char *key, char *id)
{
    struct store_order order = {.product_id = 1,
                                .user_id = 1,
                                .segment = segment,
                                .quantity = quantity};
    struct store_order *orders[] = {&order};
    enum store_status status;

    snprintf(order.key, sizeof(order.key), "%s", key);
    status = store_place(store, orders, 1, NULL, NULL);
    if (id)
        memcpy(id, order.id, sizeof(order.id));
    return status == STORE_OK ? order.status : status;
}

static enum store_status more(struct store *store)
{
    return resize(store, 6);
}

static enum store_status fewer(struct store *store)
{
    return resize(store, 1);
}

static enum store_status even_out(struct store *store)
{
    return store_even_out(store, 1, NULL, NULL);
}

static enum store_status new_epoch(struct store *store)
{
    struct store_cells cells;

    return store_new_epoch(store, 1, 0, &cells, NULL);
}

static enum store_status rebalance(struct store *store)
{
    struct store_transfer transfer = {
        .id = "t", .product_id = 1, .from = 1, .to = 0, .units = 3};

    return store_rebalance(store, &transfer, NULL);
}

static enum store_status gather(struct store *store)
{
    return buy(store, STORE_SEGMENT_ANY, 4, "g", NULL);
}

static enum store_status cancel(struct store *store)
{
    struct store_order order;

    return store_cancel(store, gathered, &order, NULL);
}

static enum store_status restock(struct store *store)
{
    struct store_product product;

    return store_restock(store, 1, 7, "r", &product, NULL);
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
    (void)ctx;
    (void)step;
    (void)product_id;
    (void)phase;
    point();
    return STORE_GO;
}

static int on_statement(unsigned type, void *ctx, void *statement, void *text)
{
    (void)type;
    (void)ctx;
    (void)statement;
    (void)text;
    point();
    return 0;
}

/* For every connection that is opened. */
static int trace(sqlite3 *db, const char **error, const void *api)
{
    (void)error;
    (void)api;
    return sqlite3_trace_v2(db, SQLITE_TRACE_STMT, on_statement, NULL);
}

static void child_main(const struct temp_dir *dir, int at,
                       enum store_status (*deed)(struct store *))
{
    const struct store_options options = {
        .url = dir->url, .shared = shared, .on_step = on_step};
    struct store *store;

    sqlite3_auto_extension((void (*)(void))trace);
    if (store_open(&options, &store, NULL) != STORE_OK)
        _exit(1);
    atomic_store(&to_go, at);
    atomic_store(&armed, true);
    _exit(deed(store) == STORE_OK ? 0 : 2);
}

/* False: it had done all before its time had come. */
static bool dies(const struct temp_dir *dir, int at,
                 enum store_status (*deed)(struct store *))
{
    pid_t child;
    int status;

    fflush(NULL);
    child = fork();
    if (child == 0)
        child_main(dir, at, deed);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status))
        return true;
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    return false;
}

/* ---- what is found ------------------------------------------------------ */

static struct store *open_store(const struct temp_dir *dir)
{
    const struct store_options options = {.url = dir->url, .shared = shared};
    struct store *store;

    assert_int_equal(store_open(&options, &store, NULL), STORE_OK);
    return store;
}

static int64_t epoch_of(const struct temp_dir *dir)
{
    struct segment_rig rig = {.dir = *dir};
    int64_t epoch;

    assert_int_equal(store_reader_open_url(dir->url, &rig.reader, NULL),
                     STORE_OK);
    epoch = segment_rig_product(&rig).epoch;
    store_reader_close(rig.reader);
    return epoch;
}

static void prepare(const struct temp_dir *dir)
{
    struct store *store = open_store(dir);

    assert_int_equal(resize(store, 4), STORE_OK);
    assert_int_equal(buy(store, STORE_SEGMENT_ANY, 12, "", gathered), STORE_OK);
    assert_int_equal(resize(store, 2), STORE_OK); /* 4 4 */
    assert_int_equal(buy(store, 0, 3, "", NULL), STORE_OK);
    store_close(store);
    epoch_before = epoch_of(dir);
}

/* Sound, and BEFORE or AFTER. True: it is AFTER; of a deed that moves nothing,
 * and has only begun an epoch: it has. */
static bool look(const struct temp_dir *dir, int at, const char *after)
{
    struct segment_rig rig = {.dir = *dir};
    char stock[SEGMENT_RIG_TEXT_BYTES] = "";

    assert_int_equal(store_reader_open_url(dir->url, &rig.reader, NULL),
                     STORE_OK);
    segment_rig_expect_sound(&rig);
    segment_rig_stock(&rig, stock);
    store_reader_close(rig.reader);
    if (strcmp(stock, BEFORE) != 0 && strcmp(stock, after) != 0)
        fail_msg("killed at point %d: %s", at, stock);
    if (strcmp(after, BEFORE) == 0)
        return epoch_of(dir) > epoch_before;
    return strcmp(stock, after) == 0;
}

/* Whether death came after the commit; *alive: it did not come. */
static bool survive(int at, enum store_status (*deed)(struct store *),
                    const char *after, bool *alive)
{
    struct temp_dir dir = {0};
    struct store *store;
    bool is_done;

    temp_dir_make(&dir);
    prepare(&dir);
    *alive = !dies(&dir, at, deed);
    is_done = look(&dir, at, after);
    store = open_store(&dir);
    assert_int_equal(deed(store), STORE_OK);
    store_close(store);
    assert_true(look(&dir, at, after));
    temp_dir_remove(&dir);
    return is_done;
}

static void kill_everywhere(enum store_status (*deed)(struct store *),
                            const char *after)
{
    bool alive = false, is_done = false, was_done = false;
    int undone = 0, done = 0;

    for (int at = 0; !alive && at < POINTS_MAX; at++) {
        is_done = survive(at, deed, after, &alive);
        assert_true(is_done || !was_done); /* done stays done */
        was_done = is_done;
        done += is_done && !alive;
        undone += !is_done;
    }
    assert_true(alive && is_done);
    assert_true(undone > 5); /* statements, before the commit */
    assert_true(done >= 2);  /* after it: the answer got lost */
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
KILL(new_epoch, BEFORE)
KILL(rebalance, "4 1")
KILL(gather, "0 1")
KILL(cancel, "8 9") /* 5 and 5; what was the retired cell's 2 to the poorer */
KILL(restock, "6 6")

static char in_shared_mode;

#define BOTH(test)                                                             \
    cmocka_unit_test(test),                                                    \
        cmocka_unit_test_prestate(test, (void *)&in_shared_mode)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_more),      BOTH(test_fewer),     BOTH(test_even_out),
        BOTH(test_rebalance), BOTH(test_gather),    BOTH(test_cancel),
        BOTH(test_restock),   BOTH(test_new_epoch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
