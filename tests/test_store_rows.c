/*
 * What the committer knows between two transactions is forgotten as soon as
 * anything has changed: each test sells once, so that the product, its stock
 * and its fence are known, lets something change, and sells again.
 */
#include "db/store/committer.h"
#include "tests/support/store_story.h"

#include <limits.h>

#define STOCK 5
#define MANY  9000 /* more products, with two rows each, than are kept */

static int set_up(void **state)
{
    store_rig_set_up(state);
    store_rig_feed(*state);
    store_rig_put(*state, (struct store_product){.id = 1, .initial = STOCK});
    return 0;
}

/* An order of product 1 on its own, through the source; how it ended. */
static enum store_status buy(struct store_rig *rig, int64_t quantity)
{
    struct store_order order = store_rig_ask(1, 7, quantity, "");

    (void)store_rig_go_order(rig, &order);
    return order.status;
}

/* Journals of the database that this process has open. */
static unsigned journals_open(const struct store_rig *rig)
{
    char path[PATH_MAX];
    unsigned n = 0;

    for (int fd = 0; fd < 1024; fd++) {
        ssize_t length =
            readlink(text_of("/proc/self/fd/%d", fd), path, sizeof(path) - 1);

        path[length > 0 ? length : 0] = '\0';
        n += strcmp(path, text_of("%s-wal", rig->dir.db)) == 0;
    }
    return n;
}

/* The connection of a commit that failed is not trusted again. */
STORE_OWN_TEST(what_failed_costs_the_connection)
{
    unsigned before;

    store_rig_sqlite_only(rig);
    assert_int_equal(buy(rig, 1), STORE_OK);
    before = journals_open(rig);
    rig->steps.failing = "commit";
    assert_int_equal(buy(rig, 1), STORE_IO);
    assert_int_equal(journals_open(rig), before - 1);
    rig->steps.failing = NULL;
    assert_int_equal(buy(rig, 1), STORE_OK);
    assert_int_equal(journals_open(rig), before);
}

/* Without a lock an order hears what its user has had, or that it needs one. */
STORE_OWN_TEST(a_limit_needs_no_lock)
{
    struct store_order order = store_rig_ask(1, 7, 1, ""), *one = &order;
    struct store_lot lot = {.orders = &one, .n = 1, .unlocked = true};

    store_rig_put(rig, (struct store_product){
                           .id = 1, .initial = STOCK, .limit_per_user = 2});
    assert_int_equal(buy(rig, 1), STORE_OK);
    assert_ok(store_rig_go(rig, &lot, 1));
    assert_int_equal(order.status, STORE_NEEDS_LOCK);
    assert_int_equal(buy(rig, 1), STORE_OK);
    assert_ok(store_rig_go(rig, &lot, 1));
    assert_int_equal(order.status, STORE_LIMIT);
    store_rig_expect_sound(rig);
}

/* They are known in their own transaction, and forgotten in the next one. */
STORE_OWN_TEST(more_products_than_are_kept)
{
    struct store_order *orders = calloc(MANY, sizeof(*orders));
    struct store_order **all = calloc(MANY, sizeof(struct store_order *));
    struct store_lot lot = {.orders = all, .n = MANY};

    for (int n = 1; n < MANY; n *= 2)
        store_rig_sql(
            rig, text_of("INSERT INTO products (id, name, price_cents, "
                         "limit_per_user, opens_ms, ends_ms, first_units, "
                         "created_ms) SELECT id + %d, 'x', 0, 0, 0, 0, 5, 1 "
                         "FROM products WHERE id + %d <= %d",
                         n, n, MANY));
    store_rig_sql(rig, "INSERT INTO segments SELECT id, 0, 5, 5, 1, 0 "
                       "FROM products WHERE id > 1");
    for (int i = 0; i < MANY; i++) {
        orders[i] = store_rig_ask(i + 1, 7, STOCK, "");
        all[i] = &orders[i];
    }
    for (int round = 0; round < 2; round++) {
        assert_ok(store_rig_go(rig, &lot, 1));
        for (int i = 0; i < MANY; i++)
            assert_int_equal(orders[i].status,
                             round == 0 ? STORE_OK : STORE_SOLD_OUT);
    }
    assert_int_equal(buy(rig, 1), STORE_SOLD_OUT);
    assert_int_equal(rig->store->place.rows.n, 2);
    store_rig_expect_sound(rig);
    free(all);
    free(orders);
}

/* ---- stories ------------------------------------------------------------- */

#define FED    "open fed; put units=5; "
#define SHARED "open fed shared busy=200; put units=5; "
#define ME     " under=lock:1/10/me"

#define ANOTHER_PROCESS                                                        \
    "a buys 1" ME "; sql UPDATE segments SET stock = stock - 2, "              \
    "initial = initial - 2; b buys 3" ME " -> sold-out; sql UPDATE segments "  \
    "SET stock = stock + 9, initial = initial + 9; b buys 11" ME
#define NEW_HOLDER                                                             \
    "a buys 1" ME "; sql UPDATE fences SET token = 12; a buys 1" ME            \
    " -> stale-fence"

static const struct store_story stories[] = {
    {"other writes are seen",
     FED "a buys 5" ME "; b buys 1" ME " -> sold-out; a cancels; a buys 5" ME
         "; restock 3; b buys 1 alone; b buys 3" ME " -> sold-out; b buys 2" ME
         "; left 0"},
    {"another process is seen", FED ANOTHER_PROCESS},
    {"another process is seen, shared", SHARED ANOTHER_PROCESS},
    /* Decided, and then the commit fails: nothing of it is so. */
    {"what was undone is forgotten",
     FED "a buys 1" ME "; failing commit; b buys 4" ME
         " -> io; mend; b buys 4" ME "; b buys 1" ME " -> sold-out"},
    /* The same with a connection that lives on: a reader keeps the commit out. The next
     * order gets the number of the one before. */
    {"what was too busy is forgotten", SHARED
     "sqlite; a buys 1" ME "; busy SELECT * FROM segments; b buys 4" ME
     " -> busy; free; b buys 4" ME " -> number=2; b buys 1" ME " -> sold-out"},
    {"segments are told apart, and what was moved, and from where",
     FED "put segs=2; a buys 1" ME "; b buys 1 seg=1" ME
         "; segments 2 1; b buys 2 seg=1" ME " -> short; b buys 3 seg=1" ME
         "; b buys 1" ME " -> sold-out; segments 0 0; even; b buys 1 seg=1" ME
         " -> sold-out; audit"},
    {"new terms are seen",
     FED "a buys 1" ME " -> price=0; put price=99; a buys 1" ME
         " -> price=99; put limit=3; a buys 2" ME
         " -> limit; put ends=1; a buys 1" ME " -> ended"},

    /* Another lock with the same token, and another owner. */
    {"a new holder is seen",
     FED "stamp lock:2/11/me; a buys 1" ME
         "; a buys 1 under=lock:2/10/me -> stale-fence; "
         "a buys 1 under=lock:1/10/else -> stale-fence; "
         "a buys 1 under=lock:1/11/other; a buys 1" ME " -> stale-fence; "
         "stamp lock:1/12/other; "
         "a buys 1 under=lock:1/11/other -> stale-fence"},
    {"a new holder elsewhere is seen", FED NEW_HOLDER},
    {"a new holder elsewhere is seen, shared", SHARED NEW_HOLDER},
};
STORE_STORIES(stories)
