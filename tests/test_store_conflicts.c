/*
 * Two instances on a server that has locks for rows: what one does in the middle
 * of the other's transaction. On MariaDB only (tests/full/store-mysql.t); SQLite
 * lets one in at a time. And a COMMIT whose answer got lost, on both.
 */
#include "db/store/committer.h"
#include "tests/support/store_nodes.h"
#include "tests/support/store_rig.h"
#include "tests/support/store_wait.h"

#include <semaphore.h>
#include <stdlib.h>

struct fixture {
    struct store_rig rig; /* first: it is torn down as one */
    struct store *other;  /* the other instance's */
    const char *key;      /* the other is first with it; NULL = not any more */
    unsigned late_ms;     /* and we are stopped for so long then */
    bool closes;          /* and the sale is over */
    bool dearer;          /* the other raises the price before the second lot */
    bool stays;           /* its next COMMIT waits until we do, or have HEARD */
    atomic_bool heard;
    sem_t stands; /* posted when that COMMIT waits */
    bool ends;    /* the server ends the rig's next transaction */
    bool loses;   /* the answer to the rig's next COMMIT gets lost, ... */
    bool undoes;  /* ... and what it has written as well */
    bool moves;   /* ... and the address is another server's */
    int told;     /* calls of on_failure() */
    struct store_write write; /* of the rig's next batch */
    struct store_order orders[2];
    struct store_order *both[2];
    struct store_fence fence;
    struct store_lot lot; /* of both, under the fence */
};

/* When the rig's transaction has looked for its keys, and has not written yet. */
static enum store_verdict on_step(void *ctx, const struct store_step *step)
{
    struct fixture *f = ctx;
    struct store_order order, *orders[] = {&order};
    struct store_product over = {
        .id = 1, .name = "over", .initial = 100, .ends_ms = 1};

    if (f->key && step->phase == STORE_BEFORE &&
        strcmp(step->name, "place") == 0) {
        order = store_rig_ask(step->product_id, 2, 1, f->key);
        f->key = NULL;
        assert_ok(store_place(f->other, orders, 1, NULL, NULL));
        assert_int_equal(order.status, STORE_OK);
        if (f->closes)
            assert_ok(store_product_put(f->other, &over, NULL, NULL));
        (void)usleep(f->late_ms * 1000);
    }
    if (f->dearer && step->phase == STORE_BEFORE && step->product_id == 2) {
        f->dearer = false;
        over.ends_ms = 0;
        over.price_cents = 5;
        assert_ok(store_product_put(f->other, &over, NULL, NULL));
    }
    if (f->ends && step->phase == STORE_AFTER &&
        strcmp(step->name, "place") == 0) {
        f->ends = false;
        assert_ok(sql_run(f->rig.store->db, "ROLLBACK"));
    }
    if (f->loses && step->phase == STORE_AFTER &&
        strcmp(step->name, "commit") == 0) {
        f->loses = false;
        if (f->undoes) {
            assert_ok(sql_run(f->rig.store->db, "DELETE FROM orders"));
            assert_ok(sql_run(f->rig.store->db,
                              "UPDATE segments SET stock = initial"));
            assert_ok(sql_run(f->rig.store->db, "COMMIT"));
        }
        if (f->moves)
            assert_ok(sql_run(f->rig.store->db,
                              "SET GLOBAL server_id = @@server_id + 1"));
        return STORE_FAIL;
    }
    return store_rig_on_step(&f->rig, step);
}

static enum store_verdict on_other_step(void *ctx,
                                        const struct store_step *step)
{
    struct fixture *f = ctx;
    int64_t waits = 0;

    if (!f->stays || step->phase != STORE_BEFORE ||
        strcmp(step->name, "commit") != 0)
        return STORE_GO;
    f->stays = false;
    sem_post(&f->stands);
    while (waits == 0 && !atomic_load(&f->heard)) {
        store_nodes_glance();
        assert_ok(sql_first(
            sql_query(
                f->rig.reader->db,
                "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS "
                "WHERE VARIABLE_NAME = 'INNODB_ROW_LOCK_CURRENT_WAITS'"),
            &waits));
    }
    return STORE_GO;
}

static void on_failure(void *ctx, enum store_status status,
                       const struct store_error *error)
{
    struct fixture *f = ctx;

    f->told++;
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct store_options other = {.shared = true,
                                  .busy_ms = 1,
                                  .on_step = on_other_step,
                                  .on_step_ctx = f};

    *state = f;
    sem_init(&f->stands, 0, 0);
    store_rig_begin(&f->rig);
    store_rig_open(&f->rig, (struct store_options){.shared = true,
                                                   .on_step = on_step,
                                                   .on_step_ctx = f,
                                                   .on_failure = on_failure,
                                                   .on_failure_ctx = f});
    store_rig_feed(&f->rig);
    store_rig_put(&f->rig, (struct store_product){.id = 1, .initial = 100});
    other.url = f->rig.dir.url;
    assert_ok(store_open(&other, &f->other, NULL));
    f->fence = (struct store_fence){"lock:1", 10, "me", false};
    f->both[0] = &f->orders[0];
    f->both[1] = &f->orders[1];
    f->lot = (struct store_lot){.orders = f->both, .n = 2, .fence = &f->fence};
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    store_close(f->other);
    return store_rig_tear_down(state);
}

/* A batch of two orders; how it ended. */
static enum store_status go(struct fixture *f, const char *key,
                            const char *last)
{
    f->orders[0] = store_rig_ask(1, 1, 1, key);
    f->orders[1] = store_rig_ask(1, 2, 1, last);
    return store_rig_go(&f->rig, &f->lot, 1);
}

/* The INSERT of both rows fails at the second one, when the server has told the
 * number of the first. The batch is tried again, and so is the statement. */
UNIT_TEST_OF(struct fixture *f, another_was_first_with_a_key)
{
    store_rig_mysql_only(&f->rig);
    f->key = "b";
    assert_int_equal(go(f, "a", "b"), STORE_OK);
    assert_int_equal(f->orders[0].status, STORE_OK);
    assert_false(f->orders[0].replayed);
    assert_true(f->orders[1].replayed);
    assert_int_equal(store_retries(f->rig.store), 1);
    assert_int_equal(go(f, "c", "d"), STORE_OK);
    assert_true(f->orders[1].number > f->orders[0].number);
    assert_int_equal(store_rig_product(&f->rig, 1).stock, 96);
    f->orders[0] =
        store_rig_ask(1, 1, 1, "a"); /* alone, its key is looked up */
    assert_ok(store_place(f->rig.store, f->both, 1, NULL, NULL));
    assert_true(f->orders[0].replayed);
    assert_int_equal(store_retries(f->rig.store), 1);
    store_rig_expect_sound(&f->rig);
}

/* By what was read of the product before nothing is sold. */
UNIT_TEST_OF(struct fixture *f, a_price_that_rises_meanwhile_counts)
{
    struct store_lot lots[] = {{.orders = &f->both[0], .n = 1},
                               {.orders = &f->both[1], .n = 1}};

    store_rig_mysql_only(&f->rig);
    store_rig_put(&f->rig, (struct store_product){.id = 2, .initial = 100});
    f->orders[0] = store_rig_ask(1, 1, 1, "");
    f->orders[1] = store_rig_ask(2, 1, 1, "");
    f->dearer = true;
    assert_int_equal(store_rig_go(&f->rig, lots, 2), STORE_OK);
    assert_int_equal(f->orders[0].price_cents, 5);
    assert_int_equal(store_retries(f->rig.store), 1);
    store_rig_expect_sound(&f->rig);
}

static enum store_status refuse_once(struct store *store,
                                     struct store_write *write)
{
    bool *refused = write->what;

    if (*refused)
        return STORE_OK;
    *refused = true;
    write->no = STORE_ALREADY_PAID;
    return sql_conflict(store->db, "another one was first");
}

/* Another try begins anew, and has a no of its own. */
UNIT_TEST_OF(struct fixture *f, a_no_is_that_of_the_last_try)
{
    bool refused = false;

    store_rig_mysql_only(&f->rig);
    assert_ok(write_step(f->rig.store, refuse_once, &refused, "x", 0, NULL));
    assert_true(refused);
}

/* A key that is taken is an answer, however late it comes. */
UNIT_TEST_OF(struct fixture *f, a_key_is_found_when_the_time_is_up)
{
    unsigned busy_ms = f->rig.store->writer.busy_ms;

    store_rig_mysql_only(&f->rig);
    f->rig.store->writer.busy_ms = 1;
    f->late_ms = 5;
    f->key = "b";
    assert_int_equal(go(f, "a", "b"), STORE_OK);
    assert_int_equal(f->orders[0].status, STORE_OK);
    assert_true(f->orders[1].replayed);
    f->rig.store->writer.busy_ms = busy_ms;
    store_rig_expect_sound(&f->rig);
}

/* It has what the limit lets its user buy; or the sale is over by now. */
UNIT_TEST_OF(struct fixture *f, what_another_was_first_with_is_not_refused)
{
    store_rig_mysql_only(&f->rig);
    store_rig_put(&f->rig, (struct store_product){
                               .id = 1, .initial = 100, .limit_per_user = 1});
    f->key = "b";
    assert_int_equal(go(f, "", "b"), STORE_OK);
    assert_int_equal(f->orders[1].status, STORE_OK);
    assert_true(f->orders[1].replayed);
    store_rig_put(&f->rig, (struct store_product){.id = 1, .initial = 100});
    f->closes = true;
    f->key = "d";
    assert_int_equal(go(f, "c", "d"), STORE_OK);
    assert_int_equal(f->orders[0].status, STORE_ENDED);
    assert_int_equal(f->orders[1].status, STORE_OK);
    assert_true(f->orders[1].replayed);
    store_rig_expect_sound(&f->rig);
}

/* Nor is it another one's conflict, which would end a batch by its time, and again. */
UNIT_TEST_OF(struct fixture *f, a_key_is_refused_and_sold_in_one_batch)
{
    store_rig_mysql_only(&f->rig);
    f->orders[0] = store_rig_ask(1, 1, 1000, "k");
    f->orders[1] = store_rig_ask(1, 1, 1, "k");
    assert_int_equal(store_rig_go(&f->rig, &f->lot, 1), STORE_OK);
    assert_int_equal(f->orders[0].status, STORE_KEY_REUSED);
    assert_int_equal(f->orders[1].status, STORE_OK);
    assert_false(f->orders[1].replayed);
    assert_int_equal(store_retries(f->rig.store), 0);
    store_rig_expect_sound(&f->rig);
}

static void *buy_elsewhere(void *ctx)
{
    struct fixture *f = ctx;
    struct store_order order = store_rig_ask(1, 2, 1, "b"),
                       *orders[] = {&order};

    assert_ok(store_place(f->other, orders, 1, NULL, NULL));
    assert_int_equal(order.status, STORE_OK);
    return NULL;
}

/* The same if that is in its COMMIT yet; and who asks what became of an order hears no
 * "no" either. */
static void wait_for_a_commit(struct fixture *f, bool asks)
{
    struct store_reader *reader;
    struct store_order found;
    enum store_status status;
    pthread_t buyer;

    store_rig_mysql_only(&f->rig);
    /* On a busy machine it takes long to see that somebody waits. */
    f->rig.store->writer.busy_ms = f->rig.store->db->options.busy_ms = 60000;
    assert_ok(
        sql_run(f->rig.store->db, "SET SESSION innodb_lock_wait_timeout = 60"));
    assert_ok(
        sql_run(f->other->db, "SET SESSION idle_transaction_timeout = 60"));
    assert_ok(store_reader_open(f->rig.store, &reader, NULL));
    f->stays = true;
    assert_int_equal(pthread_create(&buyer, NULL, buy_elsewhere, f), 0);
    sem_wait(&f->stands);
    assert_ok(sql_run(f->rig.store->db, "UPDATE products SET ends_ms = 1"));
    assert_ok(sql_run(f->rig.store->db, "COMMIT"));
    status =
        asks ? store_order_by_key(reader, "b", &found, NULL) : go(f, "", "b");
    atomic_store(&f->heard, true);
    pthread_join(buyer, NULL);
    store_reader_close(reader);
    assert_int_equal(status, STORE_OK);
    assert_int_equal(f->orders[0].status, asks ? STORE_OK : STORE_ENDED);
    assert_int_equal(f->orders[1].replayed, !asks);
}

UNIT_TEST_OF(struct fixture *f, a_no_waits_for_a_commit_with_its_key)
{
    wait_for_a_commit(f, false);
}

UNIT_TEST_OF(struct fixture *f, a_look_waits_for_a_commit_with_its_key)
{
    wait_for_a_commit(f, true);
}

/*
 * The holder's token was announced before, so this transaction only looks at it;
 * that has to keep the next holder out until it ends. Or its orders were
 * committed under a token that another one has superseded.
 */
UNIT_TEST_OF(struct fixture *f, nobody_passes_a_fence_that_is_looked_at)
{
    struct store_fence next = {"lock:1", 11, "you", false};

    store_rig_mysql_only(&f->rig);
    assert_int_equal(go(f, "a", "b"), STORE_OK);
    store_rig_hold(&f->rig, true);
    f->orders[0] = store_rig_ask(1, 1, 1, "c");
    f->orders[1] = store_rig_ask(1, 2, 1, "d");
    store_rig_offer(&f->rig, &f->lot, 1);
    store_rig_wait(&f->rig, &f->rig.steps.held, 1);
    assert_int_equal(store_stamp(f->other, &next, NULL), STORE_BUSY);
    store_rig_hold(&f->rig, false);
    store_rig_wait(&f->rig, &f->rig.feed.dones, 2);
    assert_int_equal(f->rig.feed.told[0].status, STORE_OK);

    assert_ok(store_stamp(f->other, &next, NULL));
    assert_int_equal(go(f, "e", "f"), STORE_STALE_FENCE);
    assert_int_equal(store_rig_audit(&f->rig).fence_regressions, 0);
    store_rig_expect_sound(&f->rig);
}

/* A node says nothing, and the statements after that go well. What they wrote must not
 * stay: stock without orders, or orders that are then written once more. */
UNIT_TEST_OF(struct fixture *f, a_node_ends_a_transaction_in_silence)
{
    store_rig_mysql_only(&f->rig);
    if (!f->rig.store->db->cluster)
        skip();
    f->ends = true;
    assert_int_equal(go(f, "a", "b"), STORE_OK);
    assert_false(f->ends);
    assert_int_equal(f->orders[0].status, STORE_OK);
    assert_false(f->orders[0].replayed);
    assert_int_equal(store_retries(f->rig.store), 1);
    assert_int_equal(store_rig_product(&f->rig, 1).stock, 98);
    assert_int_equal(store_rig_audit(&f->rig).fence_regressions, 0);
    store_rig_expect_sound(&f->rig);
}

/* It is stopped, or its host has lost power: its rows must not stay locked. If it goes on
 * its orders have waited for too long, and nothing of them is kept. */
UNIT_TEST_OF(struct fixture *f, a_transaction_that_stands_still_is_ended)
{
    struct store_order order, *orders[] = {&order};
    enum store_status status = STORE_BUSY;

    store_rig_mysql_only(&f->rig);
    store_rig_hold(&f->rig, true);
    f->orders[0] = store_rig_ask(1, 1, 1, "");
    f->orders[1] = store_rig_ask(1, 2, 1, "");
    store_rig_offer(&f->rig, &f->lot, 1);
    store_rig_wait(&f->rig, &f->rig.steps.held, 1);
    for (int tries = 0; tries < 60 && status != STORE_OK; tries++) {
        order = store_rig_ask(1, 3, 1, "");
        status = store_place(f->other, orders, 1, NULL, NULL);
    }
    assert_int_equal(status, STORE_OK);
    store_rig_hold(&f->rig, false);
    store_rig_wait(&f->rig, &f->rig.feed.dones, 1);
    assert_int_equal(f->rig.feed.told[0].status, STORE_IO);
    assert_int_equal(go(f, "", ""), STORE_OK);
    assert_int_equal(store_rig_product(&f->rig, 1).stock, 97);
    store_rig_expect_sound(&f->rig);
}

#define OTHERS_AT_WORK                                                         \
    "SELECT COUNT(*) FROM information_schema.processlist WHERE db = "          \
    "DATABASE() AND command <> 'Sleep' AND id <> CONNECTION_ID()"

/* A backup, or an ALTER, has a table for itself: who has waited in vain leaves nothing in
 * the server that waits on, or there would be no place for connections soon. */
UNIT_TEST_OF(struct fixture *f, nobody_stays_behind_a_table)
{
    struct store_order order = store_rig_ask(1, 3, 1, ""), *orders[] = {&order};
    struct sql *db = f->rig.store->db;
    int64_t n = 1;

    store_rig_mysql_only(&f->rig);
    if (db->cluster)
        skip();
    assert_ok(sql_run(db, "LOCK TABLES orders WRITE"));
    assert_int_equal(store_place(f->other, orders, 1, NULL, NULL), STORE_BUSY);
    for (int looks = 0; looks < 1000 && n > 0; looks++) {
        store_nodes_glance();
        assert_ok(sql_first(sql_query(db, OTHERS_AT_WORK), &n));
    }
    assert_int_equal(n, 0);
    assert_ok(sql_run(db, "UNLOCK TABLES"));
    assert_ok(store_place(f->other, orders, 1, NULL, NULL));
}

static enum store_status count_products(struct store *store,
                                        struct store_write *write)
{
    int64_t n = 0;

    assert_ok(
        sql_first(sql_query(store->db, "SELECT COUNT(*) FROM products"), &n));
    return n == 1 ? STORE_OK : STORE_MISUSE;
}

/* It is in one that nobody has begun: what that has done is not seen, and not
 * kept. */
UNIT_TEST_OF(struct fixture *f, a_transaction_begins_on_a_connection_in_none)
{
    store_rig_mysql_only(&f->rig);
    assert_ok(write_step(f->rig.store, count_products, NULL, "count", 0, NULL));
    assert_ok(sql_run(f->rig.store->db, "DELETE FROM segments"));
    assert_ok(sql_run(f->rig.store->db, "DELETE FROM products"));
    assert_ok(write_step(f->rig.store, count_products, NULL, "count", 0, NULL));
    assert_int_equal(store_rig_product(&f->rig, 1).stock, 100);
}

/* ---- a COMMIT without an answer ------------------------------------------ */

/* A server can be asked by another connection; whether SQLite's fsync was done
 * cannot. The second time it is a connection's first COMMIT. */
UNIT_TEST_OF(struct fixture *f, an_answer_that_got_lost_is_looked_up)
{
    bool is_server = f->rig.store->writer.engine->far;
    struct store_order cancelled;
    int64_t changes;

    f->told = 0;
    for (int i = 1; i <= 2; i++) {
        f->loses = true;
        assert_int_equal(go(f, "", ""), is_server ? STORE_OK : STORE_UNKNOWN);
        assert_int_equal(f->told, is_server ? 0 : i);
        assert_int_equal(store_rig_audit(&f->rig).orders, 2 * i);
    }
    assert_int_equal(store_retries(f->rig.store), 0);
    store_rig_expect_sound(&f->rig);
    if (!is_server)
        return;
    /* A look keeps nobody waiting. A yes that is said once more is written down, too:
     * only then it is on disk. */
    assert_ok(store_cancel(f->other, f->orders[1].id, &cancelled, NULL));
    changes = f->other->db->changes;
    assert_ok(store_cancel(f->other, f->orders[1].id, &cancelled, NULL));
    assert_true(cancelled.replayed);
    assert_true(f->other->db->changes > changes);
    /* Orders of an earlier batch say nothing of this one. */
    f->loses = true;
    assert_int_equal(
        store_cancel(f->rig.store, f->orders[0].id, &cancelled, NULL),
        STORE_UNKNOWN);
    store_rig_expect_sound(&f->rig);
}

/* In a cluster another node may have it: only a yes is certain. */
UNIT_TEST_OF(struct fixture *f, what_was_not_kept_is_written_again)
{
    store_rig_mysql_only(&f->rig);
    if (f->rig.store->db->cluster)
        skip();
    f->loses = f->undoes = true;
    assert_int_equal(go(f, "", ""), STORE_OK);
    assert_int_equal(store_retries(f->rig.store), 1);
    assert_int_equal(store_rig_audit(&f->rig).orders, 2);
    store_rig_expect_sound(&f->rig);
}

/* A replica that was promoted may have it in its relay log. */
UNIT_TEST_OF(struct fixture *f, what_another_server_lacks_is_not_written_again)
{
    store_rig_mysql_only(&f->rig);
    if (f->rig.store->db->cluster)
        skip();
    f->loses = f->undoes = f->moves = true;
    assert_int_equal(go(f, "", ""), STORE_UNKNOWN);
    assert_int_equal(store_retries(f->rig.store), 0);
    assert_int_equal(store_rig_audit(&f->rig).orders, 0);
}

static enum store_status place_in_vain(struct store *store,
                                       struct store_write *write)
{
    struct store_order order = store_rig_ask(1, 3, 1, ""), *orders[] = {&order};

    assert_ok(place_alone(&store->place, store->db,
                          &(struct store_lot){.orders = orders, .n = 1}));
    assert_int_equal(order.status, STORE_OK);
    return sql_fail(store->db, STORE_RANGE, "what it wrote is undone");
}

static void on_done(struct store_write *write)
{
    assert_int_equal(write->status, STORE_RANGE);
}

static void join_batch(void *ctx)
{
    struct fixture *f = ctx;

    if (f->write.owner)
        return;
    f->write =
        (struct store_write){.run = place_in_vain, .done = on_done, .owner = f};
    committer_submit(f->rig.store, &f->write);
}

/* Its last order was undone alone: that it is not there says nothing. */
UNIT_TEST_OF(struct fixture *f, it_is_looked_up_by_an_order_that_was_kept)
{
    store_rig_mysql_only(&f->rig);
    pthread_mutex_lock(&f->rig.mutex);
    f->rig.feed.ctx = f;
    f->rig.feed.on_attend = join_batch;
    pthread_mutex_unlock(&f->rig.mutex);
    f->loses = true;
    assert_int_equal(go(f, "", ""), STORE_OK);
    assert_int_equal(store_retries(f->rig.store), 0);
    assert_int_equal(store_rig_audit(&f->rig).orders, 2);
    store_rig_expect_sound(&f->rig);
}
