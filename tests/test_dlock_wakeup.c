/*
 * Waiting: woken at once, without polling, never forgotten, one at a time. The
 * races are made with gates in the step hook, not with sleeps.
 */
#include "tests/support/lock_rig.h"
#include "tests/support/unit_test.h"

/* A thread that takes a lock and gives it back again. */
struct buyer {
    pthread_t thread;
    struct dlock_session *session;
    const char *name;
    unsigned wait_ms;
    unsigned lease_ms;
    bool keep;
    enum dlock_status status;
    struct dlock_grant grant;
    uint64_t done_at_ms;
};

static void *buy(void *arg)
{
    struct buyer *buyer = arg;

    buyer->status = lock_rig_take(buyer->session, buyer->name, buyer->wait_ms,
                                  buyer->lease_ms, &buyer->grant);
    buyer->done_at_ms = lock_rig_now_ms();
    if (buyer->status == DLOCK_OK && !buyer->keep)
        (void)dlock_release(buyer->session, &buyer->grant, NULL);
    return NULL;
}

static void start(struct buyer *buyer)
{
    assert_int_equal(pthread_create(&buyer->thread, NULL, buy, buyer), 0);
}

static void join(struct buyer *buyer)
{
    assert_int_equal(pthread_join(buyer->thread, NULL), 0);
}

/* Wake-ups -------------------------------------------------------------------- */

/* Try, subscribe, try, sleep, be woken, try: three commands, however long. */
static void test_wakeup_is_prompt(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "redisson");
    struct buyer buyer = {
        .session = pair.session[1], .name = "k", .wait_ms = 5000};
    struct dlock_grant grant;
    uint64_t released_at_ms;

    assert_int_equal(lock_rig_take(pair.session[0], "k", 0, 0, &grant), 0);
    step_log_reset(&rig->log);
    start(&buyer);
    step_log_await(&rig->log, "eval-acquire", 2);
    lock_rig_sleep_ms(150);
    assert_int_equal(step_log_count(&rig->log, "eval-acquire"), 2);
    assert_int_equal(step_log_count(&rig->log, "subscribe"), 1);
    released_at_ms = lock_rig_now_ms();
    assert_int_equal(dlock_release(pair.session[0], &grant, NULL), 0);
    join(&buyer);
    assert_int_equal(buyer.status, DLOCK_OK);
    assert_in_range(buyer.done_at_ms - released_at_ms, 0, 1000);
    assert_int_equal(step_log_count(&rig->log, "eval-acquire"), 3);
    lock_pair_close(&pair);
}

/*
 * The lock is given back between the waiter's first try and its subscription:
 * nobody tells it. The second try is what finds out.
 */
static uint64_t miss_a_wakeup(struct lock_rig *rig)
{
    struct lock_pair pair = lock_pair_open(rig, "redisson");
    struct buyer buyer = {
        .session = pair.session[1], .name = "k", .wait_ms = 5000};
    struct dlock_grant grant;
    uint64_t start_ms;

    assert_int_equal(lock_rig_take(pair.session[0], "k", 0, 0, &grant), 0);
    step_log_shut(&rig->log, "subscribe", DLOCK_BEFORE);
    start_ms = lock_rig_now_ms();
    start(&buyer);
    step_log_await_gate(&rig->log, 1);
    assert_int_equal(dlock_release(pair.session[0], &grant, NULL), 0);
    step_log_open(&rig->log);
    join(&buyer);
    assert_int_equal(buyer.status, DLOCK_OK);
    lock_pair_close(&pair);
    return buyer.done_at_ms - start_ms;
}

static void test_missed_wakeup(void **state)
{
    uint64_t best_ms = UINT64_MAX;

    /* The best of some: a busy machine may be late, but not each time. */
    for (int i = 0; i < 5; i++) {
        uint64_t ms = miss_a_wakeup(*state);

        best_ms = ms < best_ms ? ms : best_ms;
    }
    assert_in_range(best_ms, 0, 80);
}

/* The subscriber is stuck altogether: the waiter looks by itself. */
static void test_stuck_subscriber(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "redisson");
    struct buyer buyer = {
        .session = pair.session[1], .name = "k", .wait_ms = 5000};
    struct dlock_grant grant;
    uint64_t released_at_ms;

    assert_int_equal(lock_rig_take(pair.session[0], "k", 0, 0, &grant), 0);
    step_log_shut(&rig->log, "subscribe", DLOCK_BEFORE);
    start(&buyer);
    step_log_await_gate(&rig->log, 1);
    released_at_ms = lock_rig_now_ms();
    assert_int_equal(dlock_release(pair.session[0], &grant, NULL), 0);
    join(&buyer);
    step_log_open(&rig->log);
    assert_int_equal(buyer.status, DLOCK_OK);
    assert_in_range(buyer.done_at_ms - released_at_ms, 0, 1000);
    lock_pair_close(&pair);
}

/* The holder dies: nobody publishes, the lease has to do it. */
static void test_waiter_of_a_dead_holder(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "redisson");
    struct dlock_grant grant;
    uint64_t start_ms = lock_rig_now_ms();

    assert_int_equal(lock_rig_take(pair.session[0], "k", 0, 200, &grant), 0);
    step_log_reset(&rig->log);
    assert_int_equal(lock_rig_take(pair.session[1], "k", 5000, 0, &grant), 0);
    assert_in_range(lock_rig_now_ms() - start_ms, 195, 2000);
    assert_in_range(step_log_count(&rig->log, "eval-acquire"), 3, 5);
    lock_pair_close(&pair);
}

static void test_wait_times_out(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "redisson");
    struct dlock_grant grant;
    uint64_t start_ms;

    assert_int_equal(lock_rig_take(pair.session[0], "k", 0, 0, &grant), 0);
    start_ms = lock_rig_now_ms();
    assert_int_equal(lock_rig_take(pair.session[1], "k", 100, 0, &grant),
                     DLOCK_TIMEOUT);
    assert_in_range(lock_rig_now_ms() - start_ms, 100, 2000);
    lock_pair_close(&pair);
}

enum { CROWD_N = 64 };

/* 64 waiters, one subscription, each release wakes one: no herd. */
static void test_crowd(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "redisson");
    struct buyer buyers[CROWD_N];
    struct dlock_grant grant;
    unsigned tries;

    assert_int_equal(lock_rig_take(pair.session[0], "k", 0, 0, &grant), 0);
    step_log_reset(&rig->log);
    for (int i = 0; i < CROWD_N; i++) {
        buyers[i] = (struct buyer){.name = "k", .wait_ms = 9000};
        buyers[i].session = lock_rig_session(pair.client[1]);
        start(&buyers[i]);
    }
    /* Two tries each, then all of them sleep. */
    step_log_await(&rig->log, "eval-acquire", 2 * CROWD_N);
    assert_int_equal(dlock_release(pair.session[0], &grant, NULL), 0);
    for (int i = 0; i < CROWD_N; i++) {
        join(&buyers[i]);
        assert_int_equal(buyers[i].status, DLOCK_OK);
        dlock_session_close(buyers[i].session);
    }
    tries = step_log_count(&rig->log, "eval-acquire");
    /* One more each; a herd would need some 64 * 64 / 2. */
    assert_in_range(tries, 3 * CROWD_N, 3 * CROWD_N + CROWD_N / 2);
    assert_int_equal(step_log_count(&rig->log, "subscribe"), 1);
    assert_in_range(redis_server_number(rig->server, "EXISTS k"), 0, 0);
    lock_pair_close(&pair);
}

/*
 * As many clients as waiters, as in as many processes. redisson wakes them all at
 * each release; fenced wakes one. Tries per hand-over, after the first two.
 */
static unsigned tries_per_handover(struct lock_rig *rig, const char *strategy)
{
    enum { CLIENTS_N = 32 };
    struct lock_pair pair = lock_pair_open(rig, strategy);
    struct dlock *clients[CLIENTS_N];
    struct buyer buyers[CLIENTS_N];
    struct dlock_grant grant;
    unsigned tries;

    assert_int_equal(lock_rig_take(pair.session[0], "k", 0, 0, &grant), 0);
    step_log_reset(&rig->log);
    for (int i = 0; i < CLIENTS_N; i++) {
        clients[i] = lock_rig_client(rig, strategy);
        buyers[i] = (struct buyer){.name = "k", .wait_ms = 9000};
        buyers[i].session = lock_rig_session(clients[i]);
        start(&buyers[i]);
    }
    step_log_await(&rig->log, "eval-acquire", 2 * CLIENTS_N);
    tries = step_log_count(&rig->log, "eval-acquire");
    assert_int_equal(dlock_release(pair.session[0], &grant, NULL), 0);
    for (int i = 0; i < CLIENTS_N; i++) {
        join(&buyers[i]);
        assert_int_equal(buyers[i].status, DLOCK_OK);
    }
    tries = step_log_count(&rig->log, "eval-acquire") - tries;
    for (int i = 0; i < CLIENTS_N; i++) {
        dlock_session_close(buyers[i].session);
        dlock_close(clients[i]);
    }
    lock_pair_close(&pair);
    return tries / CLIENTS_N;
}

static void test_no_herd(void **state)
{
    assert_in_range(tries_per_handover(*state, "redisson"), 3, 32);
    assert_in_range(tries_per_handover(*state, "fenced"), 1, 2);
    assert_in_range(tries_per_handover(*state, "fair"), 1, 2);
}

/* The first on the list is gone, and nobody listens for it: the next is woken,
 * sooner than it would look by itself. */
static void test_who_is_gone_is_passed_over(void **state)
{
    struct lock_rig *rig = *state;
    uint64_t best_ms = UINT64_MAX;

    for (int i = 0; i < 5; i++) {
        struct lock_pair pair = lock_pair_open(rig, "fenced");
        struct buyer buyer = {
            .session = pair.session[1], .name = "k", .wait_ms = 5000};
        struct dlock_grant grant;
        uint64_t released_at_ms;
        size_t n;

        assert_int_equal(lock_rig_take(pair.session[0], "k", 0, 0, &grant), 0);
        step_log_reset(&rig->log);
        start(&buyer);
        step_log_await(&rig->log, "eval-acquire", 2);
        /* No waiter alive has so early an end; in milliseconds, it is far away. */
        redis_server_ask(rig->server,
                         "EVAL \"local t = redis.call('time') return "
                         "redis.call('zadd', KEYS[1], t[1] * 1000 + "
                         "1500, 'gone')\" 1 {k}:dlock-waiters",
                         NULL, 0);
        assert_int_equal(
            dlock_inspect_waiters(pair.session[0], "k", NULL, 0, &n, NULL), 0);
        assert_int_equal(n, 2);
        released_at_ms = lock_rig_now_ms();
        assert_int_equal(dlock_release(pair.session[0], &grant, NULL), 0);
        join(&buyer);
        assert_int_equal(buyer.status, DLOCK_OK);
        if (buyer.done_at_ms - released_at_ms < best_ms)
            best_ms = buyer.done_at_ms - released_at_ms;
        assert_int_equal(
            dlock_inspect_waiters(pair.session[0], "k", NULL, 0, &n, NULL), 0);
        assert_int_equal(n, 0);
        lock_pair_close(&pair);
    }
    assert_in_range(best_ms, 0, 50);
}

/*
 * A waiter is woken, but its try fails: the permit has to go to the next one,
 * who would otherwise sleep beside a free lock. The first one comes again.
 */
static void test_permit_is_passed_on(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "redisson");
    struct buyer first = {
        .session = pair.session[1], .name = "k", .wait_ms = 5000};
    struct buyer second = {.name = "k", .wait_ms = 5000};
    struct dlock_grant grant;
    uint64_t released_at_ms;

    second.session = lock_rig_session(pair.client[1]);
    assert_int_equal(lock_rig_take(pair.session[0], "k", 0, 0, &grant), 0);
    step_log_reset(&rig->log);
    start(&first);
    step_log_await(&rig->log, "eval-acquire", 2);
    start(&second);
    step_log_await(&rig->log, "eval-acquire", 4);
    step_log_fail(&rig->log, "eval-acquire", DLOCK_BEFORE, 1);
    released_at_ms = lock_rig_now_ms();
    assert_int_equal(dlock_release(pair.session[0], &grant, NULL), 0);
    join(&first);
    join(&second);
    assert_int_equal(first.status, DLOCK_OK);
    assert_int_equal(second.status, DLOCK_OK);
    assert_in_range(first.done_at_ms - released_at_ms, 0, 1000);
    assert_in_range(second.done_at_ms - released_at_ms, 0, 1000);
    dlock_session_close(second.session);
    lock_pair_close(&pair);
}

/* The subscriber's connection breaks: the waiter notices and goes on. */
static void test_broken_subscriber(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "redisson");
    struct buyer buyer = {
        .session = pair.session[1], .name = "k", .wait_ms = 5000};
    struct dlock_grant grant;
    uint64_t released_at_ms;

    assert_int_equal(lock_rig_take(pair.session[0], "k", 0, 0, &grant), 0);
    step_log_reset(&rig->log);
    start(&buyer);
    step_log_await(&rig->log, "eval-acquire", 2);
    step_log_fail(&rig->log, "subscribe", DLOCK_BEFORE, 1000);
    redis_server_ask(rig->server, "CLIENT KILL TYPE pubsub", NULL, 0);
    /* Without one, it looks by itself now and then. */
    step_log_await(&rig->log, "eval-acquire", 4);
    released_at_ms = lock_rig_now_ms();
    assert_int_equal(dlock_release(pair.session[0], &grant, NULL), 0);
    join(&buyer);
    assert_int_equal(buyer.status, DLOCK_OK);
    assert_in_range(buyer.done_at_ms - released_at_ms, 0, 1000);
    lock_pair_close(&pair);
}

static void test_subscriber_comes_back(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "redisson");
    struct buyer buyer = {
        .session = pair.session[1], .name = "k", .wait_ms = 5000};
    struct dlock_grant grant;

    assert_int_equal(lock_rig_take(pair.session[0], "k", 0, 0, &grant), 0);
    step_log_reset(&rig->log);
    start(&buyer);
    step_log_await(&rig->log, "eval-acquire", 2);
    redis_server_ask(rig->server, "CLIENT KILL TYPE pubsub", NULL, 0);
    step_log_await(&rig->log, "subscribe", 2);
    assert_int_equal(dlock_release(pair.session[0], &grant, NULL), 0);
    join(&buyer);
    assert_int_equal(buyer.status, DLOCK_OK);
    lock_pair_close(&pair);
}

#define TEST(name) cmocka_unit_test_setup(name, lock_rig_fresh)

/* Whatever a lock waits by, its waiters come back when waits are ended. */
static void test_ended_waits_return_at_once(void **state)
{
    static const char *const names[] = {"process", "token-lua", "fenced"};
    struct lock_rig *rig = *state;

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct lock_pair pair = lock_pair_open(rig, names[i]);
        struct buyer buyer = {
            .session = pair.session[1], .name = "k", .wait_ms = 60000};
        struct dlock_grant grant;
        uint64_t ended_at_ms;

        assert_int_equal(lock_rig_take(pair.session[0], "k", 0, 0, &grant), 0);
        start(&buyer);
        lock_rig_sleep_ms(30); /* waits, or is about to: both have to work */
        ended_at_ms = lock_rig_now_ms();
        dlock_end_waits(pair.client[1]);
        join(&buyer);
        assert_int_equal(buyer.status, DLOCK_TIMEOUT);
        assert_in_range(buyer.done_at_ms - ended_at_ms, 0, 1000);
        /* What is free is still to be had. */
        assert_int_equal(dlock_release(pair.session[0], &grant, NULL), 0);
        assert_int_equal(lock_rig_take(pair.session[1], "k", 60000, 0, &grant),
                         DLOCK_OK);
        assert_int_equal(dlock_release(pair.session[1], &grant, NULL), 0);
        lock_pair_close(&pair);
    }
}

static const struct CMUnitTest tests[] = {
    TEST(test_wakeup_is_prompt),
    TEST(test_missed_wakeup),
    TEST(test_stuck_subscriber),
    TEST(test_waiter_of_a_dead_holder),
    TEST(test_wait_times_out),
    TEST(test_crowd),
    TEST(test_no_herd),
    TEST(test_who_is_gone_is_passed_over),
    TEST(test_permit_is_passed_on),
    TEST(test_broken_subscriber),
    TEST(test_subscriber_comes_back),
    cmocka_unit_test_setup(test_ended_waits_return_at_once, lock_rig_fresh),
};
TEST_MAIN_WITHIN(tests, lock_rig_setup, lock_rig_teardown)
