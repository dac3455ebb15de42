/*
 * What the committer knows between two transactions is forgotten as soon as
 * anything has changed: each test sells once, so that the product, its stock
 * and its fence are known, lets something change, and sells again.
 */
#include "db/committer.h"
#include "tests/support/store_rig.h"
#include "tests/support/store_wait.h"

#include <limits.h>

#define STOCK 5
#define MANY  9000 /* more products, with two rows each, than are kept */

static struct store_fence fence; /* of product 1's lock, as the buyer has it */

static void put(struct store_rig *rig, struct store_product product)
{
    product.id = 1;
    product.initial = STOCK;
    store_rig_put(rig, product);
}

static int set_up(void **state)
{
    bool shared = *state != NULL;

    store_rig_set_up_dir(state);
    store_rig_open(*state,
                   (struct store_options){.shared = shared, .busy_ms = 200});
    store_rig_feed(*state);
    put(*state, (struct store_product){0});
    fence = (struct store_fence){"lock:1", 10, "me", false};
    return 0;
}

/* An order of product 1 on its own, through the source; how it ended. */
static enum store_status buy_from(struct store_rig *rig, int64_t segment,
                                  int64_t quantity, struct store_order *order)
{
    struct store_order mine = store_rig_ask(1, 7, quantity, "");
    struct store_order *orders[] = {&mine};
    struct store_lot lot = {.orders = orders, .n = 1, .fence = &fence};

    mine.segment = segment;
    store_rig_go(rig, &lot, 1);
    if (order)
        *order = mine;
    return mine.status;
}

static enum store_status buy(struct store_rig *rig, int64_t quantity,
                             struct store_order *order)
{
    return buy_from(rig, 0, quantity, order);
}

/* ---- the stock ---------------------------------------------------------- */

STORE_OWN_TEST(other_writes_are_seen)
{
    struct store_order order;

    assert_int_equal(buy(rig, STOCK, &order), STORE_OK);
    assert_int_equal(buy(rig, 1, NULL), STORE_SOLD_OUT);
    assert_ok(store_cancel(rig->store, order.id, &order, NULL));
    assert_int_equal(buy(rig, STOCK, NULL), STORE_OK);
    store_rig_restock(rig, 3);
    assert_ok(store_rig_buy(rig, 1, 8, 1, ""));
    assert_int_equal(buy(rig, 3, NULL), STORE_SOLD_OUT);
    assert_int_equal(buy(rig, 2, NULL), STORE_OK);
    store_rig_expect_sound(rig);
}

STORE_BOTH_TEST(another_process_is_seen)
{
    assert_int_equal(buy(rig, 1, NULL), STORE_OK);
    store_rig_sql(rig, "UPDATE segments SET stock = stock - 2, "
                       "initial = initial - 2");
    assert_int_equal(buy(rig, STOCK - 2, NULL), STORE_SOLD_OUT);
    store_rig_sql(rig, "UPDATE segments SET stock = stock + 9, "
                       "initial = initial + 9");
    assert_int_equal(buy(rig, STOCK + 6, NULL), STORE_OK);
}

/* Decided, and then the commit fails: nothing of it is so. */
STORE_OWN_TEST(what_was_undone_is_forgotten)
{
    assert_int_equal(buy(rig, 1, NULL), STORE_OK);
    rig->steps.failing = "commit";
    assert_int_equal(buy(rig, STOCK - 1, NULL), STORE_IO);
    rig->steps.failing = NULL;
    assert_int_equal(buy(rig, STOCK - 1, NULL), STORE_OK);
    assert_int_equal(buy(rig, 1, NULL), STORE_SOLD_OUT);
}

/* The same with a connection that lives on: a reader keeps the commit out. */
STORE_SHARED_TEST(what_was_too_busy_is_forgotten)
{
    struct store_order order;
    sqlite3 *reader;

    assert_int_equal(buy(rig, 1, NULL), STORE_OK);
    reader = store_rig_connect(rig, "BEGIN; SELECT * FROM segments");
    assert_int_equal(buy(rig, STOCK - 1, NULL), STORE_BUSY);
    sqlite3_close(reader);
    assert_int_equal(buy(rig, STOCK - 1, &order), STORE_OK);
    assert_int_equal(order.number, 2); /* that of the one before */
    assert_int_equal(buy(rig, 1, NULL), STORE_SOLD_OUT);
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
    assert_int_equal(buy(rig, 1, NULL), STORE_OK);
    before = journals_open(rig);
    rig->steps.failing = "commit";
    assert_int_equal(buy(rig, 1, NULL), STORE_IO);
    assert_int_equal(journals_open(rig), before - 1);
    rig->steps.failing = NULL;
    assert_int_equal(buy(rig, 1, NULL), STORE_OK);
    assert_int_equal(journals_open(rig), before);
}

/* What was moved, and from where, is known as well. */
STORE_OWN_TEST(segments_are_told_apart)
{
    put(rig, (struct store_product){.segments = 2});
    assert_int_equal(buy_from(rig, 0, 1, NULL), STORE_OK);
    assert_int_equal(buy_from(rig, 1, 1, NULL), STORE_OK);
    store_rig_expect(rig, "2 1");
    assert_int_equal(buy_from(rig, 1, 2, NULL), STORE_SHORT);
    assert_int_equal(buy_from(rig, 1, 3, NULL), STORE_OK);
    assert_int_equal(buy_from(rig, 0, 1, NULL), STORE_SOLD_OUT);
    store_rig_expect(rig, "0 0");
    assert_ok(store_even_out(rig->store, 1, NULL, NULL));
    assert_int_equal(buy_from(rig, 1, 1, NULL), STORE_SOLD_OUT);
    store_rig_expect_sound(rig);
}

STORE_OWN_TEST(new_terms_are_seen)
{
    struct store_order order;

    assert_int_equal(buy(rig, 1, &order), STORE_OK);
    assert_int_equal(order.price_cents, 0);
    put(rig, (struct store_product){.price_cents = 99});
    assert_int_equal(buy(rig, 1, &order), STORE_OK);
    assert_int_equal(order.price_cents, 99);
    put(rig, (struct store_product){.limit_per_user = 3});
    assert_int_equal(buy(rig, 2, NULL), STORE_LIMIT);
    put(rig, (struct store_product){.ends_ms = 1});
    assert_int_equal(buy(rig, 1, NULL), STORE_ENDED);
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
    assert_int_equal(buy(rig, 1, NULL), STORE_SOLD_OUT);
    assert_int_equal(rig->store->place.rows.n, 2);
    store_rig_expect_sound(rig);
    free(all);
    free(orders);
}

/* ---- the fence ---------------------------------------------------------- */

STORE_OWN_TEST(new_holder_is_seen)
{
    const struct store_fence first = fence,
                             newer = {"lock:1", 11, "other", false},
                             of_another = {"lock:2", 11, "me", false};

    assert_ok(store_stamp(rig->store, &of_another, NULL));
    assert_int_equal(buy(rig, 1, NULL), STORE_OK);
    fence.name = of_another.name; /* with the same token */
    assert_int_equal(buy(rig, 1, NULL), STORE_STALE_FENCE);
    fence = first;
    fence.owner = "somebody else with the same token";
    assert_int_equal(buy(rig, 1, NULL), STORE_STALE_FENCE);
    fence = newer;
    assert_int_equal(buy(rig, 1, NULL), STORE_OK);
    fence = first;
    assert_int_equal(buy(rig, 1, NULL), STORE_STALE_FENCE);
    fence = newer;
    fence.token = 12;
    assert_ok(store_stamp(rig->store, &fence, NULL));
    fence = newer;
    assert_int_equal(buy(rig, 1, NULL), STORE_STALE_FENCE);
}

STORE_BOTH_TEST(new_holder_elsewhere_is_seen)
{
    assert_int_equal(buy(rig, 1, NULL), STORE_OK);
    store_rig_sql(rig, "UPDATE fences SET token = 12");
    assert_int_equal(buy(rig, 1, NULL), STORE_STALE_FENCE);
}
