/*
 * Waiting: woken at once, without polling, never forgotten, one at a time. The
 * races are made with gates in the step hook, not with sleeps.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "lock/redis/topic.h"
#include "tests/support/lock_waiter.h"

/* Wake-ups -------------------------------------------------------------------- */

/* Try, subscribe, try, sleep, be woken, try: three commands, however long. */
static void test_wakeup_is_prompt(NO_STATE)
{
    struct lock_pair pair = lock_pair_held("redisson", LOCK_RIG_LONG_MS);
    struct lock_waiter waiter = {.session = pair.session[1],
                                 .wait_ms = LOCK_RIG_LONG_MS};
    uint64_t released_at_ms;

    step_log_reset(&rig.log);
    lock_waiter_start(&waiter);
    step_log_await(&rig.log, "eval-acquire", 2);
    lock_rig_sleep_ms(150);
    assert_int_equal(step_log_count(&rig.log, "eval-acquire"), 2);
    assert_int_equal(step_log_count(&rig.log, "subscribe"), 1);
    released_at_ms = lock_rig_now_ms();
    assert_int_equal(lock_pair_give(&pair, 0), 0);
    lock_waiter_join(&waiter);
    assert_int_equal(waiter.status, DLOCK_OK);
    assert_in_range(waiter.done_at_ms - released_at_ms, 0, LOCK_RIG_PROMPT_MS);
    assert_int_equal(step_log_count(&rig.log, "eval-acquire"), 3);
}

/*
 * The lock is given back between the waiter's first try and its subscription:
 * nobody tells it. The second try is what finds out.
 */
static uint64_t miss_a_wakeup(void)
{
    struct lock_pair pair = lock_pair_held("redisson", LOCK_RIG_LONG_MS);
    struct lock_waiter waiter = {.session = pair.session[1],
                                 .wait_ms = LOCK_RIG_LONG_MS};
    uint64_t start_ms;

    step_log_shut(&rig.log, "subscribe", DLOCK_BEFORE);
    start_ms = lock_rig_now_ms();
    lock_waiter_start(&waiter);
    step_log_await_gate(&rig.log, 1);
    assert_int_equal(lock_pair_give(&pair, 0), 0);
    step_log_open(&rig.log);
    lock_waiter_join(&waiter);
    assert_int_equal(waiter.status, DLOCK_OK);
    lock_pair_close(&pair);
    return waiter.done_at_ms - start_ms;
}

static void test_missed_wakeup(NO_STATE)
{
    uint64_t best_ms = UINT64_MAX;

    /* One of many: a busy machine may be late, but not each time. A waiter that only
     * looks by itself takes 100 ms each time. */
    for (int i = 0; i < 50 && best_ms > 80; i++) {
        uint64_t ms = miss_a_wakeup();

        best_ms = ms < best_ms ? ms : best_ms;
    }
    assert_in_range(best_ms, 0, 80);
}

/* The subscriber is stuck altogether: the waiter looks by itself. */
static void test_stuck_subscriber(NO_STATE)
{
    struct lock_pair pair = lock_pair_held("redisson", LOCK_RIG_LONG_MS);
    struct lock_waiter waiter = {.session = pair.session[1],
                                 .wait_ms = LOCK_RIG_LONG_MS};
    uint64_t released_at_ms;

    step_log_shut(&rig.log, "subscribe", DLOCK_BEFORE);
    lock_waiter_start(&waiter);
    step_log_await_gate(&rig.log, 1);
    released_at_ms = lock_rig_now_ms();
    assert_int_equal(lock_pair_give(&pair, 0), 0);
    lock_waiter_join(&waiter);
    step_log_open(&rig.log);
    assert_int_equal(waiter.status, DLOCK_OK);
    assert_in_range(waiter.done_at_ms - released_at_ms, 0, LOCK_RIG_PROMPT_MS);
}

/* The holder dies: nobody publishes, the lease has to do it. */
static void test_waiter_of_a_dead_holder(NO_STATE)
{
    uint64_t start_ms = lock_rig_now_ms();
    struct lock_pair pair = lock_pair_held("redisson", 200);

    step_log_reset(&rig.log);
    assert_int_equal(lock_pair_take(&pair, 1, LOCK_RIG_LONG_MS, 0), 0);
    assert_in_range(lock_rig_now_ms() - start_ms, 195, LOCK_RIG_PROMPT_MS);
    assert_in_range(step_log_count(&rig.log, "eval-acquire"), 3, 5);
}

static void test_wait_times_out(NO_STATE)
{
    struct lock_pair pair = lock_pair_held("redisson", LOCK_RIG_LONG_MS);
    uint64_t start_ms = lock_rig_now_ms();

    assert_int_equal(lock_pair_take(&pair, 1, 100, 0), DLOCK_TIMEOUT);
    assert_in_range(lock_rig_now_ms() - start_ms, 100, LOCK_RIG_PROMPT_MS);
}

enum { CROWD_N = 64 };

/* 64 waiters, one subscription, each release wakes one: no herd. */
static void test_crowd(NO_STATE)
{
    struct lock_pair pair = lock_pair_held("redisson", LOCK_RIG_LONG_MS);
    struct lock_waiter waiters[CROWD_N];
    unsigned tries;

    step_log_reset(&rig.log);
    for (int i = 0; i < CROWD_N; i++) {
        waiters[i] = (struct lock_waiter){.wait_ms = LOCK_RIG_LONG_MS};
        waiters[i].session = lock_rig_session(pair.client[1]);
        lock_waiter_start(&waiters[i]);
    }
    /* Two tries each, then all of them sleep. */
    step_log_await(&rig.log, "eval-acquire", 2 * CROWD_N);
    assert_int_equal(lock_pair_give(&pair, 0), 0);
    for (int i = 0; i < CROWD_N; i++) {
        lock_waiter_join(&waiters[i]);
        assert_int_equal(waiters[i].status, DLOCK_OK);
    }
    tries = step_log_count(&rig.log, "eval-acquire");
    /* One more each; a herd would need some 64 * 64 / 2. */
    assert_in_range(tries, 3 * CROWD_N, 3 * CROWD_N + CROWD_N / 2);
    assert_int_equal(step_log_count(&rig.log, "subscribe"), 1);
    assert_in_range(lock_rig_ask("EXISTS k"), 0, 0);
}

/*
 * As many clients as waiters, as in as many processes. redisson wakes them all at
 * each release; fenced wakes one. Tries per hand-over, after the first two.
 */
static unsigned tries_per_handover(const char *strategy)
{
    enum { CLIENTS_N = 32 };
    struct lock_pair pair = lock_pair_held(strategy, 0);
    struct dlock *clients[CLIENTS_N];
    struct lock_waiter waiters[CLIENTS_N];
    unsigned tries;

    step_log_reset(&rig.log);
    for (int i = 0; i < CLIENTS_N; i++) {
        clients[i] = lock_rig_client(strategy);
        waiters[i] = (struct lock_waiter){.wait_ms = LOCK_RIG_LONG_MS};
        waiters[i].session = lock_rig_session(clients[i]);
        lock_waiter_start(&waiters[i]);
    }
    step_log_await(&rig.log, "eval-acquire", 2 * CLIENTS_N);
    tries = step_log_count(&rig.log, "eval-acquire");
    assert_int_equal(lock_pair_give(&pair, 0), 0);
    for (int i = 0; i < CLIENTS_N; i++) {
        lock_waiter_join(&waiters[i]);
        assert_int_equal(waiters[i].status, DLOCK_OK);
    }
    tries = step_log_count(&rig.log, "eval-acquire") - tries;
    for (int i = 0; i < CLIENTS_N; i++)
        lock_rig_close(clients[i]);
    lock_pair_close(&pair);
    return tries / CLIENTS_N;
}

static void test_no_herd(NO_STATE)
{
    /* On a busy machine some come too late to meet the others. */
    assert_in_range(tries_per_handover("redisson"), 1, 32);
    assert_in_range(tries_per_handover("fenced"), 1, 2);
    assert_in_range(tries_per_handover("fair"), 1, 2);
}

/* The first on the list is gone, and nobody listens for it: the next is woken,
 * sooner than it would look by itself. */
static void test_who_is_gone_is_passed_over(NO_STATE)
{
    uint64_t best_ms = UINT64_MAX;

    for (int i = 0; i < 5; i++) {
        struct lock_pair pair = lock_pair_open("fenced");
        struct lock_waiter waiter = {.session = pair.session[1],
                                     .wait_ms = LOCK_RIG_LONG_MS};
        struct dlock_grant grant;
        uint64_t released_at_ms;
        size_t n;

        assert_int_equal(lock_hold_take(&pair, "k", 0, &grant), 0);
        step_log_reset(&rig.log);
        lock_waiter_start(&waiter);
        step_log_await(&rig.log, "eval-acquire", 2);
        /* No waiter alive has so early an end; in milliseconds, it is far away. */
        lock_rig_tell("EVAL \"local t = redis.call('time') return "
                      "redis.call('zadd', KEYS[1], t[1] * 1000 + "
                      "1500, 'gone')\" 1 {k}:dlock-waiters");
        assert_int_equal(
            dlock_inspect_waiters(pair.session[0], "k", NULL, 0, &n, NULL), 0);
        assert_int_equal(n, 2);
        released_at_ms = lock_rig_now_ms();
        assert_int_equal(lock_hold_give(&pair, &grant), 0);
        lock_waiter_join(&waiter);
        assert_int_equal(waiter.status, DLOCK_OK);
        if (waiter.done_at_ms - released_at_ms < best_ms)
            best_ms = waiter.done_at_ms - released_at_ms;
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
static void test_permit_is_passed_on(NO_STATE)
{
    struct lock_pair pair = lock_pair_held("redisson", LOCK_RIG_LONG_MS);
    struct lock_waiter first = {.session = pair.session[1],
                                .wait_ms = LOCK_RIG_LONG_MS};
    struct lock_waiter second = {.wait_ms = LOCK_RIG_LONG_MS};
    uint64_t released_at_ms;

    second.session = lock_rig_session(pair.client[1]);
    step_log_reset(&rig.log);
    lock_waiter_start(&first);
    step_log_await(&rig.log, "eval-acquire", 2);
    lock_waiter_start(&second);
    step_log_await(&rig.log, "eval-acquire", 4);
    step_log_fail(&rig.log, "eval-acquire", DLOCK_BEFORE, 1);
    released_at_ms = lock_rig_now_ms();
    assert_int_equal(lock_pair_give(&pair, 0), 0);
    lock_waiter_join(&first);
    lock_waiter_join(&second);
    assert_int_equal(first.status, DLOCK_OK);
    assert_int_equal(second.status, DLOCK_OK);
    assert_in_range(first.done_at_ms - released_at_ms, 0, LOCK_RIG_PROMPT_MS);
    assert_in_range(second.done_at_ms - released_at_ms, 0, LOCK_RIG_PROMPT_MS);
}

static void count(void *n)
{
    ++*(unsigned *)n;
}

/* A second message, before the first one that was woken has tried, is for another. */
static void test_each_permit_wakes_another(NO_STATE)
{
    struct dlock_topic *topics = NULL;
    struct dlock_topic *topic = dlock_topic_need(&topics, "k", "k:freed");
    struct dlock_waiter waiters[3] = {{.permit = false}};
    unsigned told_n[3] = {0};

    for (int i = 0; i < 3; i++) {
        dlock_topic_join(topic, &waiters[i]);
        waiters[i].call = (struct dlock_wake_call){count, &told_n[i]};
    }
    for (unsigned n = 1; n <= 3; n++) {
        dlock_topic_wake_one(topic);
        for (unsigned i = 0; i < 3; i++) {
            assert_int_equal(waiters[i].permit, i < n);
            assert_int_equal(told_n[i], i < n);
        }
    }
    free(topic);
}

/* The subscriber's connection breaks: the waiter notices and goes on. */
static void test_broken_subscriber(NO_STATE)
{
    struct lock_pair pair = lock_pair_held("redisson", LOCK_RIG_LONG_MS);
    struct lock_waiter waiter = {.session = pair.session[1],
                                 .wait_ms = LOCK_RIG_LONG_MS};
    uint64_t released_at_ms;

    step_log_reset(&rig.log);
    lock_waiter_start(&waiter);
    step_log_await(&rig.log, "eval-acquire", 2);
    step_log_fail(&rig.log, "subscribe", DLOCK_BEFORE, 1000);
    lock_rig_tell("CLIENT KILL TYPE pubsub");
    /* Without one, it looks by itself now and then. */
    step_log_await(&rig.log, "eval-acquire", 4);
    released_at_ms = lock_rig_now_ms();
    assert_int_equal(lock_pair_give(&pair, 0), 0);
    lock_waiter_join(&waiter);
    assert_int_equal(waiter.status, DLOCK_OK);
    assert_in_range(waiter.done_at_ms - released_at_ms, 0, LOCK_RIG_PROMPT_MS);
}

static void test_subscriber_comes_back(NO_STATE)
{
    struct lock_pair pair = lock_pair_held("redisson", LOCK_RIG_LONG_MS);
    struct lock_waiter waiter = {.session = pair.session[1],
                                 .wait_ms = LOCK_RIG_LONG_MS};

    step_log_reset(&rig.log);
    lock_waiter_start(&waiter);
    step_log_await(&rig.log, "eval-acquire", 2);
    lock_rig_tell("CLIENT KILL TYPE pubsub");
    step_log_await(&rig.log, "subscribe", 2);
    assert_int_equal(lock_pair_give(&pair, 0), 0);
    lock_waiter_join(&waiter);
    assert_int_equal(waiter.status, DLOCK_OK);
}

/* A connection that dies in silence: the subscriber asks, and makes another. */
static void test_subscriber_hears_nothing(NO_STATE)
{
    struct sockaddr_in at = lock_rig_at();
    struct lock_pair pair = lock_pair_held("redisson", 60000);
    struct dlock_options options = {.strategy = "redisson",
                                    .on_step = step_log_hook,
                                    .on_step_ctx = &rig.log};
    struct lock_waiter waiter = {.wait_ms = 60000};
    struct dlock *client;
    char url[64];

    (void)snprintf(url, sizeof(url), "redis://127.0.0.1:%d",
                   ntohs(at.sin_port));
    options.url = url;
    client = lock_rig_open(&options);
    waiter.session = lock_rig_session(client);
    step_log_reset(&rig.log);
    lock_waiter_start(&waiter);
    step_log_await(&rig.log, "eval-acquire", 2);
    redis_server_pause(rig.server);
    for (int i = 0; i < 6000 && step_log_count(&rig.log, "subscribe") < 2; i++)
        lock_rig_sleep_ms(5);
    redis_server_resume(rig.server);
    assert_true(step_log_count(&rig.log, "subscribe") >= 2);
    assert_int_equal(lock_pair_give(&pair, 0), 0);
    lock_waiter_join(&waiter);
    assert_int_equal(waiter.status, DLOCK_OK);
    dlock_close(client);
}

/* Whatever a lock waits by, its waiters come back when waits are ended. */
static void test_ended_waits_return_at_once(NO_STATE)
{
    static const char *const names[] = {"process", "token-lua", "fenced"};

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct lock_pair pair = lock_pair_held(names[i], 0);
        struct lock_waiter waiter = {.session = pair.session[1],
                                     .wait_ms = 60000};
        uint64_t ended_at_ms;

        lock_waiter_start(&waiter);
        lock_rig_sleep_ms(30); /* waits, or is about to: both have to work */
        ended_at_ms = lock_rig_now_ms();
        dlock_end_waits(pair.client[1]);
        lock_waiter_join(&waiter);
        assert_int_equal(waiter.status, DLOCK_TIMEOUT);
        assert_in_range(waiter.done_at_ms - ended_at_ms, 0, LOCK_RIG_PROMPT_MS);
        /* What is free is still to be had. */
        assert_int_equal(lock_pair_give(&pair, 0), 0);
        assert_int_equal(lock_pair_take(&pair, 1, 60000, 0), DLOCK_OK);
        assert_int_equal(lock_pair_give(&pair, 1), 0);
        lock_pair_close(&pair);
    }
}

static const struct CMUnitTest tests[] = {
    LOCK_TEST(test_wakeup_is_prompt),
    LOCK_TEST(test_missed_wakeup),
    LOCK_TEST(test_stuck_subscriber),
    LOCK_TEST(test_waiter_of_a_dead_holder),
    LOCK_TEST(test_wait_times_out),
    LOCK_TEST(test_crowd),
    LOCK_TEST(test_no_herd),
    LOCK_TEST(test_who_is_gone_is_passed_over),
    LOCK_TEST(test_permit_is_passed_on),
    LOCK_TEST(test_each_permit_wakes_another),
    LOCK_TEST(test_broken_subscriber),
    LOCK_TEST(test_subscriber_comes_back),
    LOCK_TEST(test_subscriber_hears_nothing),
    LOCK_TEST(test_ended_waits_return_at_once),
};
LOCK_RIG_MAIN(tests)
