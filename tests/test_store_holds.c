/*
 * Orders that hold their units until they are paid: what comes first decides, and all
 * others hear what that was; and nothing is paid for and given back. The wall clock is
 * the test's, but for MariaDB, whose own counts. All at once, and at a start: e2e/pay.t;
 * how many payments are kept: e2e/http-api.t.
 */
#include "tests/support/store_story.h"
#include "tests/support/store_wait.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>

#define HOUR_MS INT64_C(3600000)

static atomic_int_fast64_t ahead_ms;     /* of the real wall clock */
static atomic_int_fast64_t stands_at_ms; /* 0 = it goes */

/* In place of the C library's. */
int clock_gettime(clockid_t id, struct timespec *now)
{
    int64_t ms = id == CLOCK_REALTIME ? atomic_load(&ahead_ms) : 0;
    int rc = (int)syscall(SYS_clock_gettime, id, now);

    if (id == CLOCK_REALTIME && atomic_load(&stands_at_ms)) {
        ms = atomic_load(&stands_at_ms);
        *now = (struct timespec){0};
    }
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

static void wait_until_so_many(const struct store_rig *rig, uint64_t expired)
{
    while (store_expired(rig->store) < expired)
        usleep(2000);
}

/* More than share a transaction; in segments, one of which has gone since. There is no
 * pause between two transactions. */
STORE_OWN_TEST(test_many_expire)
{
    enum { N = 600, PAID = N / 6 };
    static struct store_order orders[N], *all[N];
    int64_t ended_ms, before_ms = 0, gap_ms = INT64_MAX;
    struct store_order last;
    struct store_pay pay;

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
    for (int i = 0; i < N; i += N / PAID)
        assert_ok(store_pay(rig->store, orders[i].id, orders[i].id, &pay));
    atomic_store(&ahead_ms, 6000);
    last = await_expiry(rig, &orders[N - 1]);
    wait_until_so_many(rig, N - PAID);
    assert_true(last.cancelled_ms >= last.pay_until_ms);
    for (int i = 0; i < N; i++) {
        last = look(rig, &orders[i]);
        assert_int_equal(last.state,
                         i % (N / PAID) ? STORE_EXPIRED : STORE_PAID);
        ended_ms = last.cancelled_ms;
        if (ended_ms > before_ms && before_ms > 0 &&
            ended_ms - before_ms < gap_ms)
            gap_ms = ended_ms - before_ms;
        before_ms = ended_ms > before_ms ? ended_ms : before_ms;
    }
    if (!store_rig_on_mysql(rig)) /* where a transaction takes as long */
        assert_in_range(gap_ms, 1, 400);
    expect(rig, N - PAID, 0);
    assert_int_equal(store_expired(rig->store), N - PAID);
    assert_int_equal(store_rig_audit(rig).expired, N - PAID);
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

/* A hold is over at the millisecond that was told, and not one before. */
STORE_OWN_TEST(test_last_millisecond)
{
    struct store_order in_time, late;
    enum store_status status;
    struct store_pay pay;

    store_rig_sqlite_only(rig);
    atomic_store(&stands_at_ms, HOUR_MS);
    put(rig, (struct store_product){0});
    in_time = buy(rig, 1);
    late = buy(rig, 1);
    assert_int_equal(late.pay_until_ms, 2 * HOUR_MS);
    atomic_store(&stands_at_ms, in_time.pay_until_ms - 1);
    assert_ok(store_pay(rig->store, in_time.id, "p", &pay));
    atomic_store(&stands_at_ms, late.pay_until_ms);
    status = store_pay(rig->store, late.id, "q", &pay);
    /* The clock goes on first: else a hold that is left would be looked at for ever. */
    atomic_store(&stands_at_ms, 0);
    assert_int_equal(status, STORE_ORDER_EXPIRED);
    expect(rig, 9, 0);
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

/* ---- stories ---------------------------------------------------------------- */

static void set_clock(int64_t ms)
{
    atomic_store(&ahead_ms, ms);
}

__attribute__((constructor)) static void give_clock(void)
{
    store_story_clock = set_clock;
}

#define PUT "put units=10 pay=3600 limit=3; "

/* MariaDB's clock does not leap: there seconds have to be waited for. */
static const struct store_story stories[] = {
    {"paid",
     PUT "a buys 2 -> within=3540000..3660000; a is awaiting; b buys 1; "
         "c buys 1 -> limit; left 7 held=3; a pays p; left 7 held=1; "
         "a pays p -> again; left 7 held=1; "
         "a is paid payment=p early=0..3600000 within=3540000..3660000; "
         "a cancels -> already-paid; b pays p -> payment-reused again; "
         "b is awaiting late=0; a pays -> range; z pays q -> no-order; "
         "left 7 held=1"},
    /* It is no order's second payment that is kept from being seen. */
    {"paid twice",
     PUT "a buys 1; a pays p; a pays q -> already-paid; "
         "a pays q -> already-paid again; clock 1; a pays a -> already-paid; "
         "a is paid payment=p latest=a late=2; audit late=2; left 9 held=0"},
    {"paid at once, beside one that is not",
     PUT "put of=2 units=1; a asks 1 of=2; b asks 1; go; a was -> until=0; "
         "b is awaiting; a pays p -> already-paid; "
         "a is placed late=1 latest=p; a cancels; audit"},
    {"cancelled",
     PUT "a buys 3; a cancels; left 10 held=0; a cancels -> again; "
         "left 10 held=0; a pays p -> order-cancelled; "
         "a is cancelled late=1; b buys 3; audit cancelled=1"},
    {"the same key has the same answer, also when it is over",
     PUT "a buys 1 key=k; a pays p; "
         "b buys 1 key=k -> again same=a within=3540000..3660000; "
         "left 9 held=0"},
    /* At the moment, without anybody asking; and then it is too late for all else. */
    {"expired",
     PUT "put pay=3; a buys 3; b buys 8 user=2 -> sold-out; clock 3000; "
         "a becomes expired over=0..30000; left 10 held=0; expired 1; "
         "a cancels -> order-expired; a pays p -> order-expired; "
         "a pays p -> order-expired again; a is expired late=1 latest=p; "
         "audit expired=1 cancelled=0; b buys 3 -> later=a"},
    /* Nobody else has told the committer that there is a hold. */
    {"expired, of the naive way",
     "put units=10 pay=1; write 9; a inserts 1; clock 1000; "
     "a becomes expired; left 10 held=0"},
    /* From pay_until on it is too late, even where nothing can be given back by itself.
     * Who hears so, payment or cancel, has given it back: what was told stays true,
     * although the clock is set back then. */
    {"what was told stays",
     PUT "put pay=1; failing expire; a buys 2; b buys 1; clock 1000; fails 3; "
         "a is awaiting; a pays p -> order-expired; "
         "b cancels -> order-expired; expired 2; clock -3600000; "
         "a cancels -> order-expired; b pays q -> order-expired; "
         "a is expired late=1 over=0..max; b is expired late=1 over=0..max; "
         "mend; left 10 held=0; c buys 3"},
    /* The finder of an overdue hold. */
    {"a product that was known to be sold out sells what has come back",
     "sqlite; open fed; put units=10 pay=3600; a buys 1 alone; "
     "b buys 1 alone; c buys 1 alone; d buys 1 alone; x buys 6; "
     "x buys 1 -> sold-out; known 1; a pays p; known 1; failing expire; "
     "clock 3600000; b pays q -> order-expired; unknown 1; x buys 1; "
     "x buys 1 -> sold-out; known 1; c cancels -> order-expired; unknown 1; "
     "x buys 1; x buys 1 -> sold-out; known 1; a pays late -> already-paid; "
     "known 1; mend; d becomes expired; unknown 1; d buys 1 alone"},

    /* Two looks in a second, which must not find anything. */
    {"a clock that is set moves the deadlines by as much, and loses nothing",
     "sqlite; put units=10 pay=3000; a buys 1; put pay=10800; b buys 1; "
     "clock -3600000; sleep 1200; a is awaiting; clock 3600000; "
     "a becomes expired; b is awaiting; clock -3600000; a is expired; "
     "b pays p; clock 14400000; a pays q -> order-expired; b is paid; "
     "left 9 held=0"},
    {"another process has the database when a hold runs out: a later look",
     "sqlite; open shared; " PUT
     "a buys 1; busy BEGIN EXCLUSIVE; clock 3600000; sleep 1200; free; "
     "a becomes expired"},
    /* Where several hosts sell, theirs do not count. */
    {"the server's clock counts",
     "mysql; clock -3600000; put units=10 pay=600; "
     "a buys 1 -> within=4140000..4260000; clock 3600000; a pays p"},
};
STORE_STORIES(stories)
