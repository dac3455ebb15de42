/*
 * Orders that hold their units until they are paid: what comes first decides, and all
 * others hear what that was; and nothing is paid for and given back. The wall clock is
 * the test's, but for MariaDB, whose own counts. All at once, and at a start: e2e/pay.t;
 * how many payments are kept: e2e/http-api.t.
 */
#include "tests/support/store_rig.h"
#include "tests/support/store_wait.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>

#define HOUR_MS INT64_C(3600000)

static atomic_int_fast64_t ahead_ms; /* of the real wall clock */

/* In place of the C library's. */
int clock_gettime(clockid_t id, struct timespec *now)
{
    int64_t ms = id == CLOCK_REALTIME ? atomic_load(&ahead_ms) : 0;
    int rc = (int)syscall(SYS_clock_gettime, id, now);

    ms += now->tv_nsec / 1000000;
    now->tv_sec += ms / 1000;
    now->tv_nsec = ms % 1000 * 1000000 + now->tv_nsec % 1000000;
    return rc;
}

static void put(struct store_rig *rig, struct store_product product)
{
    product.id = 1;
    product.initial = product.initial ? product.initial : 10;
    product.pay_within_s = product.pay_within_s ? product.pay_within_s : 3600;
    store_rig_put(rig, product);
}

static int set_up(void **state)
{
    atomic_store(&ahead_ms, 0);
    store_rig_set_up(state);
    put(*state, (struct store_product){.limit_per_user = 3});
    return 0;
}

static struct store_order look(struct store_rig *rig,
                               const struct store_order *order)
{
    struct store_order found;

    assert_ok(store_order_get(rig->reader, order->id, &found, NULL));
    return found;
}

/* Nothing calls out when a hold has run out but the rows. */
static struct store_order await_expiry(struct store_rig *rig,
                                       const struct store_order *order)
{
    struct store_order found;

    while ((found = look(rig, order)).state == STORE_AWAITING)
        usleep(2000);
    assert_int_equal(found.state, STORE_EXPIRED);
    return found;
}

static void expect(struct store_rig *rig, int64_t stock, int64_t held)
{
    struct store_units units;

    assert_int_equal(store_rig_product(rig, 1).stock, stock);
    assert_int_equal(store_rig_audit(rig).held, held);
    assert_ok(store_units_left(rig->reader, &units, NULL));
    assert_int_equal(units.held, held);
    store_rig_expect_sound(rig);
}

/* The hold must outlive its instance, because that would give it back as well: it
 * lasts for an hour, and the clock leaps when the instance is gone. MariaDB's own
 * clock does not leap. */
static int64_t pay_within_s(const struct store_rig *rig)
{
    return store_rig_on_mysql(rig) ? 3 : 3600;
}

static struct store_order buy(struct store_rig *rig, int64_t quantity)
{
    struct store_order order = store_rig_ask(1, 1, quantity, "");

    store_rig_place(rig, &order);
    assert_ok(order.status);
    return order;
}

static enum store_status pay(struct store_rig *rig,
                             const struct store_order *order, const char *with,
                             bool *replayed)
{
    struct store_pay pay;
    enum store_status status = store_pay(rig->store, order->id, with, &pay);

    if (replayed)
        *replayed = pay.replayed;
    return status;
}

static enum store_status cancel(struct store_rig *rig,
                                const struct store_order *order)
{
    struct store_order found;

    return store_cancel(rig->store, order->id, &found, NULL);
}

static void wait_until_so_many(const struct store_rig *rig, uint64_t expired)
{
    while (store_expired(rig->store) < expired)
        usleep(2000);
}

STORE_OWN_TEST(test_paid)
{
    struct store_order order = buy(rig, 2), other = buy(rig, 1), found;
    bool replayed;

    assert_int_equal(order.state, STORE_AWAITING);
    assert_in_range(order.pay_until_ms - order.created_ms, HOUR_MS - 60000,
                    HOUR_MS + 60000);
    assert_int_equal(store_rig_buy(rig, 1, 1, 1, ""), STORE_LIMIT);
    expect(rig, 7, 3);
    for (int again = 0; again < 2; again++) {
        assert_ok(pay(rig, &order, "p", &replayed));
        assert_int_equal(replayed, again);
        expect(rig, 7, 1);
    }
    found = look(rig, &order);
    assert_int_equal(found.state, STORE_PAID);
    assert_string_equal(found.payment, "p");
    assert_in_range(found.paid_ms, found.pay_until_ms - HOUR_MS,
                    found.pay_until_ms);
    assert_int_equal(found.pay_until_ms, order.pay_until_ms);
    assert_int_equal(cancel(rig, &order), STORE_ALREADY_PAID);
    assert_int_equal(pay(rig, &other, "p", NULL), STORE_PAYMENT_REUSED);
    assert_int_equal(look(rig, &other).late, 0);
    assert_int_equal(pay(rig, &order, "", NULL), STORE_RANGE);
    strcpy(order.id, "1-0123456789abcdef");
    assert_int_equal(pay(rig, &order, "q", NULL), STORE_NO_ORDER);
    expect(rig, 7, 1);
}

/* It is no order's second payment that is kept from being seen. */
STORE_OWN_TEST(test_paid_twice)
{
    struct store_order order = buy(rig, 1), found;
    bool replayed;

    assert_ok(pay(rig, &order, "p", NULL));
    for (int again = 0; again < 2; again++) {
        assert_int_equal(pay(rig, &order, "q", &replayed), STORE_ALREADY_PAID);
        assert_int_equal(replayed, again);
    }
    atomic_store(&ahead_ms, 1);
    assert_int_equal(pay(rig, &order, "a", NULL), STORE_ALREADY_PAID);
    found = look(rig, &order);
    assert_string_equal(found.payment, "p");
    assert_string_equal(found.late_payment, "a");
    assert_int_equal(found.late, 2);
    assert_int_equal(store_rig_audit(rig).late, 2);
    expect(rig, 9, 0);
}

/* Beside one that is not. */
STORE_OWN_TEST(test_paid_at_once)
{
    struct store_order order = store_rig_ask(2, 1, 1, ""), found;
    struct store_order other = store_rig_ask(1, 1, 1, "");
    struct store_order *both[] = {&order, &other};

    store_rig_put(rig, (struct store_product){.id = 2, .initial = 1});
    assert_ok(store_place(rig->store, both, 2, NULL, NULL));
    assert_int_equal(order.pay_until_ms, 0);
    assert_int_equal(look(rig, &other).state, STORE_AWAITING);
    assert_int_equal(pay(rig, &order, "p", NULL), STORE_ALREADY_PAID);
    found = look(rig, &order);
    assert_int_equal(found.state, STORE_PLACED);
    assert_int_equal(found.late, 1);
    assert_string_equal(found.late_payment, "p");
    assert_ok(cancel(rig, &order));
    store_rig_expect_sound(rig);
}

STORE_OWN_TEST(test_cancelled)
{
    struct store_order order = buy(rig, 3), found;

    for (int again = 0; again < 2; again++) {
        assert_ok(store_cancel(rig->store, order.id, &found, NULL));
        assert_int_equal(found.replayed, again);
        assert_int_equal(found.state, STORE_CANCELLED);
        expect(rig, 10, 0);
    }
    assert_int_equal(pay(rig, &order, "p", NULL), STORE_ORDER_CANCELLED);
    found = look(rig, &order);
    assert_int_equal(found.state, STORE_CANCELLED);
    assert_int_equal(found.late, 1);
    buy(rig, 3);
    assert_int_equal(store_rig_audit(rig).cancelled, 1);
}

/* The same key has the same answer, also when it is over. */
STORE_OWN_TEST(test_replayed)
{
    struct store_order order = store_rig_ask(1, 1, 1, "k"), again;

    store_rig_place(rig, &order);
    assert_ok(pay(rig, &order, "p", NULL));
    again = store_rig_ask(1, 1, 1, "k");
    store_rig_place(rig, &again);
    assert_true(again.replayed);
    assert_int_equal(again.pay_until_ms, order.pay_until_ms);
    expect(rig, 9, 0);
}

/* At the moment, without anybody asking; and then it is too late for all else. */
STORE_OWN_TEST(test_expired)
{
    struct store_order order, found;

    put(rig, (struct store_product){.limit_per_user = 3, .pay_within_s = 3});
    order = buy(rig, 3);
    assert_int_equal(store_rig_buy(rig, 1, 2, 8, ""), STORE_SOLD_OUT);
    found = await_expiry(rig, &order);
    assert_in_range(found.cancelled_ms - order.pay_until_ms, 0, 30000);
    expect(rig, 10, 0);
    assert_int_equal(store_expired(rig->store), 1);
    assert_int_equal(cancel(rig, &order), STORE_ORDER_EXPIRED);
    for (int again = 0; again < 2; again++)
        assert_int_equal(pay(rig, &order, "p", NULL), STORE_ORDER_EXPIRED);
    found = look(rig, &order);
    assert_int_equal(found.late, 1);
    assert_string_equal(found.late_payment, "p");
    assert_int_equal(store_rig_audit(rig).expired, 1);
    assert_int_equal(store_rig_audit(rig).cancelled, 0);
    assert_true(buy(rig, 3).pay_until_ms > order.pay_until_ms);
}

/* Nobody else has told the committer that there is a hold. */
STORE_OWN_TEST(test_expired_of_the_naive_way)
{
    struct store_order order = store_rig_ask(1, 1, 1, "");

    put(rig, (struct store_product){.pay_within_s = 1});
    assert_ok(store_naive_update(rig->store, 1, 0, 9, NULL, NULL));
    assert_ok(store_naive_insert(rig->store, &order, NULL, NULL));
    await_expiry(rig, &order);
    expect(rig, 10, 0);
}

static void on_failure(void *ctx, enum store_status status,
                       const struct store_error *error)
{
    assert_int_equal(status, STORE_IO);
    atomic_fetch_add((atomic_int *)ctx, 1);
}

static void set_failing(struct store_rig *rig, const char *step)
{
    pthread_mutex_lock(&rig->mutex);
    rig->steps.failing = step;
    pthread_mutex_unlock(&rig->mutex);
}

/* From pay_until on it is too late, even where nothing can be given back by itself. Who
 * hears so, payment or cancel, has given it back: what was told stays true, although the
 * clock is set back then. */
STORE_OWN_TEST(test_what_was_told_stays)
{
    struct store_order paid, cancelled, found;
    static atomic_int failures;

    store_rig_close(rig);
    store_rig_open(rig, (struct store_options){.on_failure = on_failure,
                                               .on_failure_ctx = &failures});
    put(rig, (struct store_product){.limit_per_user = 3, .pay_within_s = 1});
    set_failing(rig, "expire");
    paid = buy(rig, 2);
    cancelled = buy(rig, 1);
    while (atomic_load(&failures) < 3)
        usleep(2000);
    assert_int_equal(look(rig, &paid).state, STORE_AWAITING);
    assert_int_equal(pay(rig, &paid, "p", NULL), STORE_ORDER_EXPIRED);
    assert_int_equal(cancel(rig, &cancelled), STORE_ORDER_EXPIRED);
    assert_int_equal(store_expired(rig->store), 2);
    atomic_store(&ahead_ms, -HOUR_MS);
    assert_int_equal(cancel(rig, &paid), STORE_ORDER_EXPIRED);
    assert_int_equal(pay(rig, &cancelled, "q", NULL), STORE_ORDER_EXPIRED);
    for (int i = 0; i < 2; i++) {
        found = look(rig, i ? &paid : &cancelled);
        assert_int_equal(found.state, STORE_EXPIRED);
        assert_true(found.cancelled_ms >= found.pay_until_ms);
        assert_int_equal(found.late, 1);
    }
    set_failing(rig, NULL);
    expect(rig, 10, 0);
    buy(rig, 3);
}

/* More than share a transaction; in segments, one of which has gone since. */
STORE_OWN_TEST(test_many_expire)
{
    enum { N = 200 };
    struct store_order orders[N], *all[N], last;

    put(rig, (struct store_product){
                 .segments = 4, .initial = 10, .pay_within_s = 6});
    store_rig_restock(rig, N - 10);
    for (int i = 0; i < N; i++) {
        orders[i] = store_rig_ask(1, 1 + i, 1, "");
        orders[i].segment = i % 4;
        orders[i].gather = true;
        all[i] = &orders[i];
    }
    assert_ok(store_place(rig->store, all, N, NULL, NULL));
    store_rig_resize(rig, 1);
    for (int i = 0; i < N; i += 2)
        assert_ok(pay(rig, &orders[i], orders[i].id, NULL));
    last = await_expiry(rig, &orders[N - 1]);
    wait_until_so_many(rig, N / 2);
    assert_true(last.cancelled_ms >= last.pay_until_ms);
    for (int i = 0; i < N; i++)
        assert_int_equal(look(rig, &orders[i]).state,
                         i % 2 ? STORE_EXPIRED : STORE_PAID);
    expect(rig, N / 2, 0);
    assert_int_equal(store_expired(rig->store), N / 2);
    assert_int_equal(store_rig_audit(rig).expired, N / 2);
}

/* CTX counts the expiries: only the first one does anything. */
static enum store_verdict expire_once(void *ctx, const struct store_step *step)
{
    bool again = step->phase == STORE_BEFORE &&
                 strcmp(step->name, "expire") == 0 &&
                 atomic_fetch_add((atomic_int *)ctx, 1) > 0;

    return again ? STORE_FAIL : STORE_GO;
}

/* As many as share a transaction are due as well. */
STORE_OWN_TEST(test_longest_overdue_first)
{
    enum { N = 64 };
    struct store_order orders[N], *all[N], first;
    static atomic_int expiries;

    store_rig_sqlite_only(rig);
    store_rig_close(rig);
    store_rig_open(rig, (struct store_options){.on_step = expire_once,
                                               .on_step_ctx = &expiries});
    put(rig, (struct store_product){0});
    store_rig_restock(rig, N);
    first = buy(rig, 1);
    atomic_store(&ahead_ms, 1000);
    for (int i = 0; i < N; i++) {
        orders[i] = store_rig_ask(1, 1 + i, 1, "");
        all[i] = &orders[i];
    }
    assert_ok(store_place(rig->store, all, N, NULL, NULL));
    atomic_store(&ahead_ms, 2 * HOUR_MS);
    wait_until_so_many(rig, N);
    assert_int_equal(look(rig, &first).state, STORE_EXPIRED);
    expect(rig, 9 + N, 1);
}

static void sell_out(struct store_rig *rig)
{
    struct store_order one = store_rig_ask(1, 99, 1, "");

    while (store_rig_go_order(rig, &one) == STORE_OK)
        continue;
    assert_int_equal(one.status, STORE_SOLD_OUT);
    assert_true(store_knows_sold_out(rig->store, 1, 1));
}

/* A product that was known to be sold out sells what has come back, whoever finds that
 * it is overdue. */
STORE_OWN_TEST(test_sold_out_is_forgotten)
{
    struct store_order all[4];

    store_rig_sqlite_only(rig);
    store_rig_feed(rig);
    put(rig, (struct store_product){0});
    for (int i = 0; i < 4; i++)
        all[i] = buy(rig, 1);
    sell_out(rig);
    assert_ok(pay(rig, &all[0], "p", NULL));
    assert_true(store_knows_sold_out(rig->store, 1, 1));
    set_failing(rig, "expire");
    atomic_store(&ahead_ms, HOUR_MS);
    assert_int_equal(pay(rig, &all[1], "q", NULL), STORE_ORDER_EXPIRED);
    assert_false(store_knows_sold_out(rig->store, 1, 1));
    sell_out(rig);
    assert_int_equal(cancel(rig, &all[2]), STORE_ORDER_EXPIRED);
    assert_false(store_knows_sold_out(rig->store, 1, 1));
    sell_out(rig);
    assert_int_equal(pay(rig, &all[0], "late", NULL), STORE_ALREADY_PAID);
    assert_true(store_knows_sold_out(rig->store, 1, 1));
    set_failing(rig, NULL);
    await_expiry(rig, &all[3]);
    assert_false(store_knows_sold_out(rig->store, 1, 1));
    buy(rig, 1);
}

/* ---- clocks --------------------------------------------------------------- */

/* A clock that is set moves the deadlines by as much, and loses nothing. */
STORE_OWN_TEST(test_clock_is_set)
{
    struct store_order soon, late;

    store_rig_sqlite_only(rig);
    put(rig, (struct store_product){.pay_within_s = 3000});
    soon = buy(rig, 1);
    put(rig, (struct store_product){.pay_within_s = 10800});
    late = buy(rig, 1);
    atomic_store(&ahead_ms, -HOUR_MS);
    usleep(1200 * 1000); /* two looks, which must not find anything */
    assert_int_equal(look(rig, &soon).state, STORE_AWAITING);
    atomic_store(&ahead_ms, HOUR_MS);
    await_expiry(rig, &soon);
    assert_int_equal(look(rig, &late).state, STORE_AWAITING);
    atomic_store(&ahead_ms, -HOUR_MS);
    assert_int_equal(look(rig, &soon).state, STORE_EXPIRED);
    assert_ok(pay(rig, &late, "p", NULL));
    atomic_store(&ahead_ms, 4 * HOUR_MS);
    assert_int_equal(pay(rig, &soon, "q", NULL), STORE_ORDER_EXPIRED);
    assert_int_equal(look(rig, &late).state, STORE_PAID);
    expect(rig, 9, 0);
}

/* Another process has the database when a hold runs out: a later look finds it. */
STORE_OWN_TEST(test_a_look_in_vain)
{
    struct store_order order;
    sqlite3 *other;

    store_rig_sqlite_only(rig);
    store_rig_close(rig);
    store_rig_open(rig, (struct store_options){.shared = true});
    order = buy(rig, 1);
    other = store_rig_connect(rig, "BEGIN EXCLUSIVE");
    atomic_store(&ahead_ms, HOUR_MS);
    usleep(1200 * 1000); /* two looks; it is right either way */
    sqlite3_close(other);
    await_expiry(rig, &order);
}

/* Where several hosts sell, theirs do not count. */
STORE_OWN_TEST(test_servers_clock_counts)
{
    struct store_order order;

    store_rig_mysql_only(rig);
    atomic_store(&ahead_ms, -HOUR_MS);
    put(rig, (struct store_product){.pay_within_s = 600});
    order = buy(rig, 1);
    assert_in_range(order.pay_until_ms - order.created_ms, HOUR_MS + 540000,
                    HOUR_MS + 660000);
    atomic_store(&ahead_ms, HOUR_MS);
    assert_ok(pay(rig, &order, "p", NULL));
}

/* ---- two instances -------------------------------------------------------- */

static void sell_and_die(void *ctx)
{
    struct store_rig *rig = ctx;

    store_rig_open(rig, (struct store_options){.shared = true});
    put(rig, (struct store_product){.pay_within_s = pay_within_s(rig)});
    (void)buy(rig, 1);
}

/* The other one has not sold of it, and knows of nothing. */
STORE_DIR_TEST(test_holder_dies)
{
    pid_t child;

    atomic_store(&ahead_ms, 0);
    child = store_rig_fork(sell_and_die, rig);
    store_rig_join(child);
    store_rig_open(rig, (struct store_options){.shared = true, .look_ms = 50});
    store_rig_put(rig, (struct store_product){.id = 2, .initial = 1});
    atomic_store(&ahead_ms, HOUR_MS);
    wait_until_so_many(rig, 1);
    expect(rig, 10, 0);
}
