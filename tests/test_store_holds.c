/*
 * Orders that hold their units until they are paid: what comes first decides, and all
 * others hear what that was; and nothing is paid for and given back. The wall clock is
 * the test's, but for MariaDB, whose own counts.
 */
#include "server/base/clock.h"
#include "tests/support/store_rig.h"
#include "tests/support/store_wait.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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

static bool is_far(const struct store_rig *rig)
{
    return strncmp(rig->dir.url, "mysql:", 6) == 0;
}

static struct store_order buy(struct store_rig *rig, int64_t quantity)
{
    struct store_order order = store_rig_ask(1, 1, quantity, "");

    store_rig_place(rig, &order);
    assert_ok(order.status);
    return order;
}

static struct store_order look(struct store_rig *rig,
                               const struct store_order *order)
{
    struct store_order found;

    assert_ok(store_order_get(rig->reader, order->id, &found, NULL));
    return found;
}

/* How it ended; of one that came too late, what came first. */
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

/* Nothing calls out when a hold has run out but the rows. */
static struct store_order wait_until_expired(struct store_rig *rig,
                                             const struct store_order *order)
{
    struct store_order found;

    while ((found = look(rig, order)).state == STORE_AWAITING)
        usleep(2000);
    assert_int_equal(found.state, STORE_EXPIRED);
    return found;
}

static void wait_until_so_many(const struct store_rig *rig, uint64_t expired)
{
    while (store_expired(rig->store) < expired)
        usleep(2000);
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

static void test_paid(void **state)
{
    struct store_rig *rig = *state;
    struct store_order order = buy(rig, 2), other = buy(rig, 1), found;
    bool replayed;

    assert_int_equal(order.state, STORE_AWAITING);
    assert_in_range(order.pay_until_ms - order.created_ms, HOUR_MS - 500,
                    HOUR_MS + 500);
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
static void test_paid_twice(void **state)
{
    struct store_rig *rig = *state;
    struct store_order order = buy(rig, 1), found;
    bool replayed;

    assert_ok(pay(rig, &order, "p", NULL));
    for (int again = 0; again < 2; again++) {
        assert_int_equal(pay(rig, &order, "q", &replayed), STORE_ALREADY_PAID);
        assert_int_equal(replayed, again);
    }
    assert_int_equal(pay(rig, &order, "r", NULL), STORE_ALREADY_PAID);
    found = look(rig, &order);
    assert_string_equal(found.payment, "p");
    assert_int_equal(found.late, 2);
    assert_int_equal(store_rig_audit(rig).late, 2);
    expect(rig, 9, 0);
}

static void test_paid_at_once(void **state)
{
    struct store_rig *rig = *state;
    struct store_order order = store_rig_ask(2, 1, 1, ""), found;

    store_rig_put(rig, (struct store_product){.id = 2, .initial = 1});
    store_rig_place(rig, &order);
    assert_int_equal(order.pay_until_ms, 0);
    assert_int_equal(pay(rig, &order, "p", NULL), STORE_ALREADY_PAID);
    found = look(rig, &order);
    assert_int_equal(found.state, STORE_PLACED);
    assert_int_equal(found.late, 1);
    assert_string_equal(found.late_payment, "p");
    assert_ok(cancel(rig, &order));
    store_rig_expect_sound(rig);
}

static void test_cancelled(void **state)
{
    struct store_rig *rig = *state;
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
static void test_replayed(void **state)
{
    struct store_rig *rig = *state;
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
static void test_expired(void **state)
{
    struct store_rig *rig = *state;
    struct store_order order, found;

    put(rig, (struct store_product){.limit_per_user = 3, .pay_within_s = 1});
    order = buy(rig, 3);
    assert_int_equal(store_rig_buy(rig, 1, 2, 8, ""), STORE_SOLD_OUT);
    found = wait_until_expired(rig, &order);
    assert_in_range(found.cancelled_ms - order.pay_until_ms, 0, 1000);
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
    buy(rig, 3);
}

static void on_failure(void *ctx, enum store_status status,
                       const struct store_error *error)
{
    (void)error;
    assert_int_equal(status, STORE_IO);
    atomic_fetch_add((atomic_int *)ctx, 1);
}

static void set_failing(struct store_rig *rig, const char *step)
{
    pthread_mutex_lock(&rig->mutex);
    rig->steps.failing = step;
    pthread_mutex_unlock(&rig->mutex);
}

/* From pay_until on it is too late, even where nothing can be given back yet. That is
 * told, and tried again. */
static void test_too_late_before_it_has_expired(void **state)
{
    struct store_rig *rig = *state;
    struct store_order order, found;
    static atomic_int failures;

    store_rig_close(rig);
    store_rig_open(rig, (struct store_options){.on_failure = on_failure,
                                               .on_failure_ctx = &failures});
    put(rig, (struct store_product){.limit_per_user = 3, .pay_within_s = 1});
    set_failing(rig, "expire");
    order = buy(rig, 2);
    while (atomic_load(&failures) < 2)
        usleep(2000);
    assert_int_equal(look(rig, &order).state, STORE_AWAITING);
    assert_int_equal(pay(rig, &order, "p", NULL), STORE_ORDER_EXPIRED);
    assert_int_equal(cancel(rig, &order), STORE_ORDER_EXPIRED);
    found = look(rig, &order);
    assert_int_equal(found.state, STORE_AWAITING);
    assert_int_equal(found.late, 1);
    set_failing(rig, NULL);
    wait_until_expired(rig, &order);
    assert_int_equal(pay(rig, &order, "p", NULL), STORE_ORDER_EXPIRED);
    expect(rig, 10, 0);
}

/* More than share a transaction; in segments, one of which has gone since. */
static void test_many_expire(void **state)
{
    struct store_rig *rig = *state;
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
    last = wait_until_expired(rig, &orders[N - 1]);
    wait_until_so_many(rig, N / 2);
    assert_true(last.cancelled_ms >= last.pay_until_ms);
    for (int i = 0; i < N; i++)
        assert_int_equal(look(rig, &orders[i]).state,
                         i % 2 ? STORE_EXPIRED : STORE_PAID);
    expect(rig, N / 2, 0);
    assert_int_equal(store_rig_audit(rig).expired, N / 2);
}

/* A product that was known to be sold out sells what has come back. */
static void test_sold_out_is_forgotten(void **state)
{
    struct store_rig *rig = *state;
    struct store_order order, all[10], one = store_rig_ask(1, 99, 1, "");

    store_rig_sqlite_only(rig);
    store_rig_feed(rig);
    put(rig, (struct store_product){.pay_within_s = 2});
    for (int i = 0; i < 10; i++) {
        all[i] = store_rig_ask(1, 1 + i, 1, "");
        store_rig_place(rig, &all[i]);
        assert_ok(all[i].status);
    }
    assert_int_equal(store_rig_go_order(rig, &one), STORE_SOLD_OUT);
    assert_true(store_knows_sold_out(rig->store, 1, 1));
    assert_ok(pay(rig, &all[0], "p", NULL));
    assert_true(store_knows_sold_out(rig->store, 1, 1));
    order = wait_until_expired(rig, &all[9]);
    assert_false(store_knows_sold_out(rig->store, 1, 1));
    assert_int_equal(store_rig_buy(rig, 1, 50, order.quantity, ""), STORE_OK);
}

/* ---- clocks --------------------------------------------------------------- */

/* A clock that is set moves the deadlines by as much, and loses nothing. */
static void test_clock_is_set(void **state)
{
    struct store_rig *rig = *state;
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
    wait_until_expired(rig, &soon);
    assert_int_equal(look(rig, &late).state, STORE_AWAITING);
    atomic_store(&ahead_ms, -HOUR_MS);
    assert_int_equal(look(rig, &soon).state, STORE_EXPIRED);
    assert_ok(pay(rig, &late, "p", NULL));
    atomic_store(&ahead_ms, 4 * HOUR_MS);
    assert_int_equal(pay(rig, &soon, "q", NULL), STORE_ORDER_EXPIRED);
    assert_int_equal(look(rig, &late).state, STORE_PAID);
    expect(rig, 9, 0);
}

/* Where several hosts sell, theirs do not count. */
static void test_servers_clock_counts(void **state)
{
    struct store_rig *rig = *state;
    struct store_order order;

    store_rig_mysql_only(rig);
    atomic_store(&ahead_ms, -HOUR_MS);
    put(rig, (struct store_product){.pay_within_s = 600});
    order = buy(rig, 1);
    assert_in_range(order.pay_until_ms - order.created_ms, HOUR_MS + 599000,
                    HOUR_MS + 601000);
    atomic_store(&ahead_ms, HOUR_MS);
    assert_ok(pay(rig, &order, "p", NULL));
}

/* What runs out while nobody is there expires with the start. */
static void test_expired_at_the_start(void **state)
{
    struct store_rig *rig = *state;
    struct store_order order, paid;

    put(rig, (struct store_product){.pay_within_s = 1});
    order = buy(rig, 1);
    paid = buy(rig, 1);
    assert_ok(pay(rig, &paid, "p", NULL));
    store_rig_close(rig);
    usleep(1100 * 1000);
    store_rig_open(rig, (struct store_options){0});
    wait_until_expired(rig, &order);
    expect(rig, 9, 0);
}

/* ---- two instances -------------------------------------------------------- */

/* The hold must outlive its instance, because that would give it back as well: it
 * lasts for an hour, and the clock leaps when the instance is gone. MariaDB's own
 * clock does not leap. */
static int64_t pay_within_s(const struct store_rig *rig)
{
    return is_far(rig) ? 3 : 3600;
}

static void sell_and_die(void *ctx)
{
    struct store_rig *rig = ctx;

    store_rig_open(rig, (struct store_options){.shared = true});
    put(rig, (struct store_product){.pay_within_s = pay_within_s(rig)});
    (void)buy(rig, 1);
}

/* The other one has not sold of it, and knows of nothing. */
static void test_holder_dies(void **state)
{
    struct store_rig *rig = *state;
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

/* It was there before the other one sold. */
static void test_holder_dies_later(void **state)
{
    struct store_rig *rig = *state;
    struct store_options options = {.url = rig->dir.url, .shared = true};
    struct store_rig dead = {.dir = rig->dir};

    atomic_store(&ahead_ms, 0);
    store_rig_open(rig, (struct store_options){.shared = true, .look_ms = 50});
    assert_ok(store_open(&options, &dead.store, NULL));
    put(&dead, (struct store_product){.pay_within_s = pay_within_s(rig)});
    (void)buy(&dead, 1);
    store_close(dead.store);
    atomic_store(&ahead_ms, HOUR_MS);
    wait_until_so_many(rig, 1);
    expect(rig, 10, 0);
}

/* ---- all at the same moment ------------------------------------------------ */

#define RACES     10000
#define RACES_FAR 500
#define TOGETHER  100 /* are placed, and run out, at one moment */

struct race {
    struct store_order order;
    struct store_pay pay;
    struct store_cancel cancel;
};

static atomic_size_t left; /* answers */

static void on_answer(struct store_write *write)
{
    (void)write;
    atomic_fetch_sub(&left, 1);
}

/* How long the store took, in ms. */
static int64_t place(struct store_rig *rig, struct race races[TOGETHER])
{
    struct store_order *orders[TOGETHER];
    uint64_t began_us = clock_us();

    for (size_t i = 0; i < TOGETHER; i++) {
        orders[i] = &races[i].order;
        *orders[i] = store_rig_ask(1, 1 + (int64_t)i % 7, 1, "");
    }
    assert_ok(store_place(rig->store, orders, TOGETHER, NULL, NULL));
    return (int64_t)(clock_us() - began_us) / 1000;
}

/* Around the orders' last moment a payment and a cancel of each, in any order; two
 * thirds of them in the LEAD_MS before it. */
static void race(struct store_rig *rig, struct store *other,
                 struct race races[TOGETHER], int64_t lead_ms, unsigned *seed)
{
    int64_t from = races[0].order.pay_until_ms - lead_ms;

    if (other == rig->store) /* the clock is the test's */
        atomic_fetch_add(&ahead_ms, from - store_rig_wall_ms());
    atomic_store(&left, 2 * (size_t)TOGETHER);
    for (int i = 0; i < TOGETHER; i++) {
        struct race *each = &races[i];
        bool pay_first = rand_r(seed) % 2;

        memcpy(each->pay.id, each->order.id, sizeof(each->order.id));
        memcpy(each->pay.payment, each->order.id, sizeof(each->order.id));
        memcpy(each->cancel.id, each->order.id, sizeof(each->order.id));
        each->pay.write.done = each->cancel.write.done = on_answer;
        while (store_rig_wall_ms() < from + 3L * i * lead_ms / 2 / TOGETHER)
            usleep(200);
        if (pay_first)
            store_pay_begin(rig->store, &each->pay);
        if (rand_r(seed) % 4)
            store_cancel_begin(other, &each->cancel);
        else
            each->cancel.write.status = STORE_CLOSED,
            on_answer(&each->cancel.write);
        if (!pay_first)
            store_pay_begin(rig->store, &each->pay);
    }
    while (atomic_load(&left) > 0)
        usleep(200);
}

/* All say the same of one order. */
static enum store_order_state judge_race(struct store_rig *rig,
                                         const struct race *race)
{
    static const enum store_status told[][2] = {
        [STORE_PAID] = {STORE_OK, STORE_ALREADY_PAID},
        [STORE_CANCELLED] = {STORE_ORDER_CANCELLED, STORE_OK},
        [STORE_EXPIRED] = {STORE_ORDER_EXPIRED, STORE_ORDER_EXPIRED}};
    enum store_order_state state = look(rig, &race->order).state;

    if (state == STORE_AWAITING)
        state = wait_until_expired(rig, &race->order).state;
    assert_ok(race->pay.write.status);
    assert_int_equal(race->pay.late, told[state][0]);
    if (race->cancel.write.status != STORE_CLOSED)
        assert_int_equal(race->cancel.write.status, told[state][1]);
    return state;
}

/* The clock leaps to the last moment of one group after the other: a slow machine has as
 * much time for each. */
static void test_all_at_once(void **state)
{
    struct store_rig *rig = *state;
    struct store_options options = {.url = rig->dir.url, .shared = true};
    bool far = is_far(rig);
    size_t n = far ? RACES_FAR : RACES, won[STORE_EXPIRED + 1] = {0};
    struct race *races = calloc(n, sizeof(*races));
    struct store *other;
    unsigned seed = 1;

    store_rig_close(rig);
    store_rig_open(rig, (struct store_options){.shared = far});
    other = rig->store;
    if (far)
        assert_ok(store_open(&options, &other, NULL));
    put(rig, (struct store_product){.limit_per_user = STORE_NUMBER_MAX,
                                    .pay_within_s = pay_within_s(rig)});
    store_rig_restock(rig, RACES);
    for (size_t i = 0; i < n; i += TOGETHER)
        race(rig, other, races + i, 8 + 4 * place(rig, races + i), &seed);
    for (size_t i = 0; i < n; i++)
        won[judge_race(rig, &races[i])]++;
    print_message("%zu paid, %zu cancelled, %zu expired\n", won[STORE_PAID],
                  won[STORE_CANCELLED], won[STORE_EXPIRED]);
    assert_true(won[STORE_PAID] && won[STORE_CANCELLED] && won[STORE_EXPIRED]);
    expect(rig, 10 + RACES - (int64_t)won[STORE_PAID], 0);
    assert_int_equal(store_rig_audit(rig).late, n - won[STORE_PAID]);
    assert_int_equal(store_rig_audit(rig).expired, won[STORE_EXPIRED]);
    if (far)
        store_close(other);
    free(races);
}

static const struct CMUnitTest tests[] = {
    STORE_RIG_OWN_TEST(test_paid, set_up),
    STORE_RIG_OWN_TEST(test_paid_twice, set_up),
    STORE_RIG_OWN_TEST(test_paid_at_once, set_up),
    STORE_RIG_OWN_TEST(test_cancelled, set_up),
    STORE_RIG_OWN_TEST(test_replayed, set_up),
    STORE_RIG_OWN_TEST(test_expired, set_up),
    STORE_RIG_OWN_TEST(test_too_late_before_it_has_expired, set_up),
    STORE_RIG_OWN_TEST(test_many_expire, set_up),
    STORE_RIG_OWN_TEST(test_sold_out_is_forgotten, set_up),
    STORE_RIG_OWN_TEST(test_clock_is_set, set_up),
    STORE_RIG_OWN_TEST(test_servers_clock_counts, set_up),
    STORE_RIG_OWN_TEST(test_expired_at_the_start, set_up),
    STORE_RIG_DIR_TEST(test_holder_dies),
    STORE_RIG_DIR_TEST(test_holder_dies_later),
    STORE_RIG_OWN_TEST(test_all_at_once, set_up),
};

TEST_MAIN(tests)
