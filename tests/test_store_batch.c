/*
 * Batches: a source's orders, taken when a transaction begins and answered when
 * it is on disk, each lot on its own; and the writes that share it. Nothing is answered
 * before it is on disk, and what came before the store is closed is.
 */
#include "tests/support/store_rig.h"

#include <stdatomic.h>

#define ORDERS 100 /* more than are written at once */
#define LOT    50  /* orders of each */
#define STOCK  60

struct fixture {
    struct store_rig rig; /* first: it is torn down as one */
    struct store_order orders[ORDERS];
    struct store_order *all[ORDERS];
    struct store_fence fences[2];
    struct store_lot lots[2]; /* of products 1 and 2, each under its lock */
    atomic_int answers;
};

static int set_up(void **state)
{
    bool shared = *state != NULL;
    struct fixture *f = calloc(1, sizeof(*f));
    const char *const locks[] = {"lock:1", "lock:2"};

    store_rig_begin(&f->rig);
    store_rig_open(&f->rig,
                   (struct store_options){.shared = shared, .busy_ms = 10000});
    store_rig_feed(&f->rig);
    store_rig_put(&f->rig, (struct store_product){.id = 1, .initial = STOCK});
    store_rig_put(&f->rig, (struct store_product){.id = 2,
                                                  .price_cents = 5,
                                                  .limit_per_user = 3,
                                                  .initial = STOCK});
    for (int i = 0; i < ORDERS; i++) {
        f->all[i] = &f->orders[i];
        f->orders[i] = store_rig_ask(i < LOT ? 1 : 2, i + 1, 1, "");
    }
    for (size_t i = 0; i < 2; i++) {
        f->fences[i] = (struct store_fence){locks[i], 10 + i, "me", false};
        f->lots[i] = (struct store_lot){
            .orders = f->all + i * LOT, .n = LOT, .fence = &f->fences[i]};
    }
    store_rig_hold(&f->rig, false);
    *state = f;
    return 0;
}

static void go(struct fixture *f)
{
    (void)store_rig_go(&f->rig, f->lots, 2);
}

static int placed(const struct fixture *f)
{
    int n = 0;

    for (int i = 0; i < ORDERS; i++)
        n += f->orders[i].status == STORE_OK && f->orders[i].number > 0;
    return n;
}

static int64_t stock(struct fixture *f, int64_t product_id)
{
    return store_rig_product(&f->rig, product_id).stock;
}

/* ---- lots --------------------------------------------------------------- */

STORE_TEST_OF(struct fixture *f, lots_share_one_commit, set_up, NULL)
{
    struct store_order read;

    go(f);
    assert_int_equal(f->rig.steps.commits, 1);
    assert_int_equal(placed(f), ORDERS);
    for (int i = 0; i < ORDERS; i++) {
        assert_int_equal(f->orders[i].number, i + 1);
        assert_ok(store_order_get(f->rig.reader, f->orders[i].id, &read, NULL));
        assert_int_equal(read.user_id, i + 1);
        assert_int_equal(read.price_cents, i < LOT ? 0 : 5);
        assert_int_equal(read.fence, i < LOT ? 10 : 11);
    }
    assert_int_equal(f->rig.feed.told[0].left, STOCK - LOT);
    assert_int_equal(stock(f, 2), STOCK - LOT);
    store_rig_expect_sound(&f->rig);
}

STORE_TEST_OF(struct fixture *f, a_fence_has_bounds, set_up, NULL)
{
    char name[STORE_FENCE_NAME_BYTES_MAX + 2] = "";
    struct store_fence fence = {name, UINT64_C(1) << 63, "other", false};

    memset(name, 'x', STORE_FENCE_NAME_BYTES_MAX);
    assert_int_equal(store_stamp(f->rig.store, &fence, NULL), STORE_MISUSE);
    fence.token--;
    assert_ok(store_stamp(f->rig.store, &fence, NULL));
    name[STORE_FENCE_NAME_BYTES_MAX] = 'x';
    assert_int_equal(store_stamp(f->rig.store, &fence, NULL), STORE_MISUSE);
}

/* The first lot's rows wait when the second turns out not to count. */
STORE_TEST_OF(struct fixture *f, a_lot_that_does_not_count, set_up, NULL)
{
    struct store_fence newer = {"lock:2", 12, "other", false};

    assert_ok(store_stamp(f->rig.store, &newer, NULL));
    go(f);
    assert_int_equal(f->rig.feed.told[0].status, STORE_OK);
    assert_int_equal(f->rig.feed.told[1].status, STORE_STALE_FENCE);
    assert_non_null(
        strstr(f->rig.feed.why.text, "token 11 came, 12 was announced"));
    f->fences[1].name = "";
    go(f);
    assert_int_equal(f->rig.feed.told[1].status, STORE_MISUSE);
    assert_int_equal(f->orders[LOT].status, STORE_MISUSE);
    assert_int_equal(stock(f, 1), 0);
    assert_int_equal(stock(f, 2), STOCK);
    store_rig_expect_sound(&f->rig);
}

/* How the second lot ends, with an order of its own. */
static enum store_status go_second(struct fixture *f)
{
    f->lots[1].n = 1;
    return store_rig_go(&f->rig, &f->lots[1], 1);
}

/* Announced in a transaction that was not kept, it is announced by the next one. */
STORE_TEST_OF(struct fixture *f, a_fence_that_was_not_kept, set_up,
              STORE_SHARED)
{
    sqlite3 *other;

    store_rig_sqlite_only(&f->rig);
    other = store_rig_connect(&f->rig, "BEGIN; SELECT * FROM orders");
    store_end_waits(f->rig.store);
    assert_int_equal(go_second(f), STORE_BUSY);
    sqlite3_close(other);
    assert_ok(go_second(f));
    other = store_rig_connect(&f->rig, "SELECT 1");
    assert_int_equal(store_rig_number(other, "SELECT token FROM fences"), 11);
    sqlite3_close(other);
}

/* The row that has the key is not in the table yet. */
STORE_TEST_OF(struct fixture *f, a_key_in_two_lots, set_up, NULL)
{
    f->orders[0] = store_rig_ask(1, 7, 1, "same");
    f->orders[LOT] = f->orders[0];
    f->orders[LOT + 1] = store_rig_ask(2, 7, 1, "same");
    go(f);
    assert_int_equal(f->orders[LOT].status, STORE_OK);
    assert_true(f->orders[LOT].replayed);
    assert_string_equal(f->orders[LOT].id, f->orders[0].id);
    assert_int_equal(f->orders[LOT + 1].status, STORE_KEY_REUSED);
    assert_int_equal(stock(f, 1), STOCK - LOT);
    assert_int_equal(stock(f, 2), STOCK - LOT + 2);
}

/* What is left in a segment after all lots: the second takes from the first. */
STORE_TEST_OF(struct fixture *f, left_is_what_is_left_in_the_end, set_up, NULL)
{
    store_rig_put(&f->rig, (struct store_product){
                               .id = 1, .initial = STOCK, .segments = 2});
    f->orders[1] = store_rig_ask(1, 7, 31, "");
    f->orders[1].segment = 1;
    f->lots[0] = (struct store_lot){.orders = f->all, .n = 1};
    f->lots[1] = (struct store_lot){.orders = f->all + 1, .n = 1};
    go(f);
    assert_int_equal(f->orders[1].status, STORE_OK);
    assert_int_equal(f->orders[1].segments, 2);
    assert_int_equal(f->rig.feed.told[0].left, 28); /* 30, 1 sold, 1 moved */
    assert_int_equal(f->rig.feed.told[1].left, 0);
    store_rig_expect(&f->rig, "28 0");
    f->orders[0].product_id = 9;
    f->orders[1].segment = 7;
    go(f);
    assert_int_equal(f->rig.feed.told[0].left, -1); /* no such product */
    assert_int_equal(f->rig.feed.told[1].left, 0);  /* not in use */
    store_rig_expect_sound(&f->rig);
}

/* An order that is replayed names the segment that it was placed in. */
STORE_TEST_OF(struct fixture *f, left_is_what_is_left_where_the_lot_is, set_up,
              NULL)
{
    store_rig_put(&f->rig, (struct store_product){
                               .id = 1, .initial = STOCK, .segments = 2});
    f->orders[0] = store_rig_ask(1, 7, 10, "k");
    assert_ok(store_rig_go_order(&f->rig, &f->orders[0]));
    f->orders[0] = store_rig_ask(1, 7, 10, "k");
    f->orders[1] = store_rig_ask(1, 8, 1, "");
    f->orders[0].segment = f->orders[1].segment = 1;
    f->lots[0] = (struct store_lot){.orders = f->all, .n = 2};
    assert_ok(store_rig_go(&f->rig, f->lots, 1));
    assert_true(f->orders[0].replayed);
    assert_int_equal(f->rig.feed.told[0].left, 29);
    assert_int_equal(f->rig.feed.told[0].segments, 2);
    f->lots[0].n = 1;
    assert_ok(store_rig_go(&f->rig, f->lots, 1));
    assert_int_equal(f->rig.feed.told[0].left, -1);
    assert_int_equal(f->rig.feed.told[0].segments, 0);
}

/* ---- writes in the same transaction ------------------------------------- */

static void on_answer(struct store_write *write)
{
    struct fixture *f = write->owner;

    atomic_fetch_add(&f->answers, 1);
}

static struct store_cancel cancel_of(struct fixture *f, const char *id)
{
    struct store_cancel cancel = {.write = {.done = on_answer, .owner = f}};

    memcpy(cancel.id, id, sizeof(cancel.id));
    return cancel;
}

/* Behind a commit that waits: orders, two cancels and a restock. */
static void all_at_once(struct fixture *f, struct store_cancel cancels[2],
                        struct store_restock *restock)
{
    *restock = (struct store_restock){.write = {.done = on_answer, .owner = f},
                                      .product_id = 1,
                                      .quantity = 7};
    store_rig_hold(&f->rig, true);
    store_rig_offer(&f->rig, f->lots, 1);
    store_rig_wait(&f->rig, &f->rig.steps.held, 1);
    for (int i = 0; i < 2; i++)
        store_begin(f->rig.store, STORE_CANCEL, &cancels[i].write);
    store_begin(f->rig.store, STORE_RESTOCK, &restock->write);
    store_rig_offer(&f->rig, f->lots + 1, 1);
    store_rig_hold(&f->rig, false);
    while (atomic_load(&f->answers) < 3)
        usleep(100);
}

/* The second cancel fails in its second step: only its own first is undone. */
STORE_TEST_OF(struct fixture *f, orders_and_writes_share_one_fsync, set_up,
              NULL)
{
    struct store_order first = store_rig_ask(2, 900, 2, ""),
                       second = store_rig_ask(3, 901, 2, ""), read;
    struct store_cancel cancels[2];
    struct store_restock restock;

    store_rig_put(&f->rig, (struct store_product){.id = 3, .initial = 2});
    store_rig_place(&f->rig, &first);
    store_rig_place(&f->rig, &second);
    assert_ok(
        store_naive_update(f->rig.store, 3, 0, STORE_NUMBER_MAX, NULL, NULL));
    cancels[0] = cancel_of(f, first.id);
    cancels[1] = cancel_of(f, second.id);
    all_at_once(f, cancels, &restock);
    assert_int_equal(f->rig.steps.commits, 1);
    assert_int_equal(placed(f), ORDERS);
    assert_int_equal(cancels[0].write.status, STORE_OK);
    assert_int_equal(cancels[0].order.state, STORE_CANCELLED);
    assert_int_equal(cancels[1].write.status, STORE_RANGE);
    assert_int_equal(restock.write.status, STORE_OK);
    assert_int_equal(restock.product.stock, STOCK - LOT + 7);
    assert_ok(store_order_get(f->rig.reader, second.id, &read, NULL));
    assert_int_equal(read.state, STORE_PLACED);
    assert_int_equal(stock(f, 2), STOCK - LOT);
    assert_ok(store_naive_update(f->rig.store, 3, 0, 0, NULL, NULL));
    store_rig_expect_sound(&f->rig);
}

/* A write is not blamed for an order that broke their transaction. */
STORE_TEST_OF(struct fixture *f, a_batch_that_fails_blames_no_write, set_up,
              NULL)
{
    struct store_cancel cancels[2];
    struct store_restock restock;

    store_rig_sqlite_only(&f->rig);
    cancels[0] = cancels[1] = cancel_of(f, f->orders[0].id);
    store_rig_sql(&f->rig, "PRAGMA ignore_check_constraints = ON;"
                           "UPDATE products SET price_cents = -1 WHERE id = 2");
    all_at_once(f, cancels, &restock);
    assert_int_equal(f->orders[LOT].status, STORE_IO);
    assert_int_equal(restock.write.status, STORE_IO);
}

/* ---- when the source is asked ------------------------------------------- */

static void nap(void *ctx)
{
    int *in_call = ctx;

    __atomic_store_n(in_call, 1, __ATOMIC_SEQ_CST);
    usleep(50000);
    __atomic_store_n(in_call, 0, __ATOMIC_SEQ_CST);
}

/* When it returns no call is under way, and none will be. */
STORE_TEST_OF(struct fixture *f, detach_waits_for_the_call, set_up, NULL)
{
    int in_call = 0, attends;

    pthread_mutex_lock(&f->rig.mutex);
    f->rig.feed.ctx = &in_call;
    f->rig.feed.on_attend = nap;
    pthread_mutex_unlock(&f->rig.mutex);
    store_source_wake(f->rig.store);
    while (!__atomic_load_n(&in_call, __ATOMIC_SEQ_CST))
        usleep(100);
    store_source_detach(f->rig.store);
    assert_int_equal(__atomic_load_n(&in_call, __ATOMIC_SEQ_CST), 0);
    f->rig.feed.on_attend = NULL;
    attends = f->rig.feed.attends;
    store_source_wake(f->rig.store);
    assert_ok(store_rig_buy(&f->rig, 1, 1, 1, ""));
    assert_int_equal(f->rig.feed.attends, attends);
}

/* Time limits go on while a commit waits for another process: the source is asked
 * now and then, though not for orders. */
STORE_TEST_OF(struct fixture *f, a_source_is_asked_while_another_reads_on,
              set_up, STORE_SHARED)
{
    sqlite3 *other;
    int attends;

    other = store_rig_connect(&f->rig, "BEGIN; SELECT * FROM orders");
    attends = f->rig.feed.attends;
    store_rig_offer(&f->rig, f->lots, 2);
    store_rig_wait(&f->rig, &f->rig.feed.attends, attends + 5);
    assert_int_equal(f->rig.feed.dones, 0);
    sqlite3_close(other);
    store_rig_wait(&f->rig, &f->rig.feed.dones, 1);
    assert_int_equal(f->rig.feed.takes, 1);
    assert_int_equal(placed(f), ORDERS);
}

/* The wake-up of orders was used up while a write waited, and counts nonetheless. */
STORE_TEST_OF(struct fixture *f, orders_come_while_a_write_waits, set_up,
              STORE_SHARED)
{
    struct store_restock restock = {.write = {.done = on_answer, .owner = f},
                                    .product_id = 1,
                                    .quantity = 7};
    sqlite3 *other;
    int attends;

    other = store_rig_connect(&f->rig, "BEGIN; SELECT * FROM orders");
    attends = f->rig.feed.attends;
    store_begin(f->rig.store, STORE_RESTOCK, &restock.write);
    store_rig_wait(&f->rig, &f->rig.feed.attends, attends + 5);
    store_rig_offer(&f->rig, f->lots, 2);
    attends = f->rig.feed.attends;
    store_rig_wait(&f->rig, &f->rig.feed.attends, attends + 5);
    sqlite3_close(other);
    store_rig_wait(&f->rig, &f->rig.feed.dones, 1);
    assert_int_equal(placed(f), ORDERS);
}

/* The source is asked once more after a batch, because nobody wakes the committer for
 * orders that came meanwhile. */
STORE_TEST_OF(struct fixture *f, a_source_is_asked_after_its_batch, set_up,
              NULL)
{
    int attends = f->rig.feed.attends;

    go(f);
    store_rig_wait(&f->rig, &f->rig.feed.attends, attends + 2);
}

/* ---- writes behind a commit that waits: what gathers is known, and no luck ----- */

#define WRITES 12

static struct store_restock writes[WRITES];
static atomic_int answers;

static void on_write(struct store_write *write)
{
    atomic_fetch_add(&answers, 1);
}

/* N restocks of one unit: the first waits in its commit, the others behind it. */
static void crowd(struct store_rig *rig, int n)
{
    store_rig_hold(rig, true);
    for (int i = 0; i < n; i++) {
        writes[i] = (struct store_restock){
            .write = {.done = on_write}, .product_id = 1, .quantity = 1};
        store_begin(rig->store, STORE_RESTOCK, &writes[i].write);
        store_rig_wait(rig, &rig->steps.held, 1);
    }
}

static int set_up_crowd(void **state)
{
    struct store_rig *rig;

    store_rig_set_up(state);
    rig = *state;
    store_rig_put(rig, (struct store_product){.id = 1, .initial = 100});
    atomic_store(&answers, 0);
    return 0;
}

STORE_TEST_OF(struct store_rig *rig, test_nothing_is_answered_before_the_commit,
              set_up_crowd, NULL)
{
    crowd(rig, 1);
    assert_int_equal(store_rig_product(rig, 1).stock, 100);
    usleep(20000);
    assert_int_equal(atomic_load(&answers), 0);
    store_rig_hold(rig, false);
    store_rig_restock(rig, 1);
    assert_int_equal(atomic_load(&answers), 1);
    assert_int_equal(writes[0].write.status, STORE_OK);
    assert_int_equal(writes[0].product.stock, 101);
}

/* The sale ends while the order stands in the queue: too late. */
STORE_TEST_OF(struct store_rig *rig, test_window_is_tested_at_the_commit,
              set_up_crowd, NULL)
{
    struct store_order late = store_rig_ask(2, 1, 1, ""), *orders[] = {&late};
    struct store_lot lot = {.orders = orders, .n = 1};
    int64_t ends_ms = store_rig_wall_ms() + 1500;

    store_rig_put(
        rig, (struct store_product){.id = 2, .initial = 9, .ends_ms = ends_ms});
    store_rig_feed(rig);
    crowd(rig, 1);
    store_rig_offer(rig, &lot, 1);
    assert_true(store_rig_wall_ms() < ends_ms);
    while (store_rig_wall_ms() <= ends_ms)
        usleep(10000);
    store_rig_hold(rig, false);
    store_rig_wait(rig, &rig->feed.dones, 1);
    assert_int_equal(rig->feed.told[0].status, STORE_OK);
    assert_int_equal(late.status, STORE_ENDED);
}

static void *closer_main(void *arg)
{
    store_close(arg);
    return NULL;
}

static void on_late_answer(struct store_write *write)
{
    write->owner = NULL;
}

STORE_TEST_OF(struct store_rig *rig, test_close_finishes_what_is_queued,
              set_up_crowd, NULL)
{
    static struct store_cancel late[10000];
    pthread_t closer;
    int n = 0;

    crowd(rig, WRITES);
    store_reader_close(rig->reader);
    rig->reader = NULL;
    pthread_create(&closer, NULL, closer_main, rig->store);
    /* Until it has begun to close, what comes waits with the others. */
    do {
        usleep(1000);
        late[n].write.done = on_late_answer;
        late[n].write.owner = rig;
        store_begin(rig->store, STORE_CANCEL, &late[n].write);
    } while (late[n].write.owner && ++n < 10000); /* not answered in the call */
    assert_in_range(n, 0, 9999);
    assert_int_equal(late[n].write.status, STORE_CLOSED);
    store_rig_hold(rig, false);
    pthread_join(closer, NULL);
    rig->store = NULL;
    assert_int_equal(atomic_load(&answers), WRITES);
    for (int i = 0; i < WRITES; i++)
        assert_int_equal(writes[i].write.status, STORE_OK);
    assert_ok(store_reader_open_url(rig->dir.url, &rig->reader, NULL));
    assert_int_equal(store_rig_product(rig, 1).stock, 100 + WRITES);
}
