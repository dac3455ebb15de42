/*
 * The probe that stands for an order: it fails where one fails, and leaves nothing
 * behind that anybody can see.
 */
#include "tests/support/store_rig.h"
#include "tests/support/store_wait.h"

#include <signal.h>
#include <sys/resource.h>

#define PAGE  4096
#define SIZES 20

static bool shared; /* as the test is to open the store */

/* All that a verb or the ledger tells is as if no probe had been. */
STORE_TEST(test_it_leaves_nothing)
{
    struct store_order before, after;

    assert_ok(store_probe(rig->store, NULL)); /* there is no product */
    store_rig_put(rig, (struct store_product){
                           .id = 1, .initial = 3, .limit_per_user = 2});
    before = store_rig_ask(1, 1, 1, "a");
    after = store_rig_ask(1, 1, 1, "b");
    store_rig_place(rig, &before);
    for (int i = 0; i < 3; i++)
        assert_ok(store_probe(rig->store, NULL));
    store_rig_place(rig, &after);
    assert_ok(after.status);
    /* A MariaDB leaves one number out when it sees the first one below zero. */
    assert_in_range(after.number - before.number, 1,
                    store_rig_on_mysql(rig) ? 2 : 1);
    assert_int_equal(store_rig_buy(rig, 1, 1, 1, ""), STORE_LIMIT);
    assert_int_equal(store_rig_buy(rig, 1, 2, 1, ""), STORE_OK);
    assert_ok(
        store_probe(rig->store, NULL)); /* sold out, and could be written */
    assert_int_equal(store_rig_product(rig, 1).stock, 0);
    assert_int_equal(store_rig_audit(rig).orders, 3);
    store_rig_expect_sound(rig);
}

/* Each table that an order writes. */
STORE_TEST(test_it_fails_where_a_trigger_raises)
{
    static const char *const writes[] = {
        "INSERT ON orders", "INSERT ON purchases", "UPDATE ON purchases",
        "INSERT ON fences", "UPDATE ON fences",    "UPDATE ON segments",
        "INSERT ON holds"};
    const char *raise = store_rig_on_mysql(rig)
                            ? "FOR EACH ROW SIGNAL SQLSTATE '45000'"
                            : "BEGIN SELECT RAISE(ABORT, 'no'); END";

    store_rig_put(rig, (struct store_product){.id = 1, .initial = 2});
    for (size_t i = 0; i < COUNT_OF(writes); i++) {
        store_rig_sql(
            rig, text_of("CREATE TRIGGER no BEFORE %s %s", writes[i], raise));
        assert_int_equal(store_probe(rig->store, NULL), STORE_IO);
        store_rig_sql(rig, "DROP TRIGGER no");
        assert_ok(store_probe(rig->store, NULL));
    }
    store_rig_expect_sound(rig);
}

/* A ledger may forbid it, and keep its own book of what was ordered: no order deletes,
 * and what was only tried is in no book. */
STORE_TEST(test_nothing_is_deleted)
{
    static const char *const tables[] = {"orders", "purchases"};
    bool mysql = store_rig_on_mysql(rig);

    store_rig_put(rig, (struct store_product){
                           .id = 1, .initial = 2, .limit_per_user = 2});
    for (size_t i = 0; i < COUNT_OF(tables); i++)
        store_rig_sql(rig,
                      text_of("CREATE TRIGGER keep_%zu BEFORE DELETE ON %s %s",
                              i, tables[i],
                              mysql ? "FOR EACH ROW SIGNAL SQLSTATE '45000'"
                                    : "BEGIN SELECT RAISE(ABORT, 'no'); END"));
    /* Of its entries the second would be refused. */
    store_rig_sql(rig, "CREATE TABLE book (entry INT PRIMARY KEY)");
    store_rig_sql(rig, mysql ? "CREATE TRIGGER note AFTER INSERT ON orders "
                               "FOR EACH ROW INSERT INTO book VALUES (1)"
                             : "CREATE TRIGGER note AFTER INSERT ON orders "
                               "BEGIN INSERT INTO book VALUES (1); END");
    for (int i = 0; i < 2; i++)
        assert_ok(store_probe(rig->store, NULL));
    assert_int_equal(store_rig_buy(rig, 1, 1, 1, ""), STORE_OK);
    store_rig_sql(rig, "DROP TRIGGER note");
    store_rig_sql(rig, "DROP TABLE book");
    store_rig_expect_sound(rig);
}

/* ---- a full disk -------------------------------------------------------- */

/* No file of this process may grow beyond BYTES; writing on fails. */
static void limit_files(rlim_t bytes)
{
    const struct rlimit limit = {bytes, RLIM_INFINITY};

    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
}

/* Keys go into any page of their index. */
static enum store_status buy(struct store_rig *rig)
{
    static unsigned n;
    const char *key = text_of("%08x", ++n * 2654435761u);
    struct store_order order = store_rig_ask(1, n, 1, key),
                       *orders[] = {&order};

    return store_place(rig->store, orders, 1, NULL, NULL);
}

/* At each size a full disk may have: once an order has failed, a probe fails, or
 * room was found, and then an order ends well. (Not the first one, if a WAL ended with
 * the probe: it begins anew after a failure.) */
static void fill_up(void *ctx)
{
    struct store_rig *rig = ctx;
    int failed = 0;

    store_rig_open(rig, (struct store_options){.shared = shared});
    store_rig_put(rig, (struct store_product){
                           .id = 1, .initial = 1000000, .limit_per_user = 9});
    assert_ok(store_probe(rig->store, NULL));
    for (rlim_t pages = 32; pages < 32 + SIZES * 3; pages += 3) {
        limit_files(pages * PAGE);
        while (buy(rig) == STORE_OK)
            continue;
        for (int i = 0; i < 5; i++) {
            bool probed = store_probe(rig->store, NULL) == STORE_OK;

            failed += !probed;
            if (probed && buy(rig) != STORE_OK && buy(rig) != STORE_OK)
                fail_msg("%d pages: a probe, but no order", (int)pages);
        }
    }
    assert_true(failed > 0);
    limit_files(RLIM_INFINITY);
    assert_ok(store_probe(rig->store, NULL));
    store_rig_expect_sound(rig);
}

static int set_up(void **state)
{
    shared = *state != NULL;
    return store_rig_set_up_dir(state);
}

/* In a process of its own: the limit is the whole process's. */
STORE_BOTH_TEST(test_it_fails_where_the_disk_is_full)
{
    store_rig_sqlite_only(rig);
    store_rig_join(store_rig_fork(fill_up, rig));
}
