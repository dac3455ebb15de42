/*
 * A lock on all of several servers: taken in one order, given back whole,
 * whatever happens in between.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/node_rig.h"

enum { NODES = 3 };

static int fresh(NO_STATE)
{
    node_rig_fresh(NODES);
    node_rig_open("multi");
    return 0;
}

/* The url's places in the order in which they are taken: of their addresses. */
static void find_order(unsigned order[NODES])
{
    memset(order, 0, NODES * sizeof(order[0]));
    for (unsigned i = 0; i < NODES; i++) {
        unsigned rank = 0;

        for (unsigned k = 0; k < NODES; k++)
            rank += strcmp(redis_server_url(nodes.servers[k]),
                           redis_server_url(nodes.servers[i])) < 0;
        order[rank] = i;
    }
}

static void test_all_or_nothing(NO_STATE)
{
    struct dlock_holder holder;

    assert_int_equal(node_take(&nodes.a, 0, 5000), 0);
    assert_int_equal(node_rig_held(), NODES);
    assert_in_range(node_left_ms(&nodes.a), 4000, 5000 - 52);
    assert_int_equal(dlock_inspect(nodes.b.session, "k", &holder, NULL),
                     DLOCK_OK);
    assert_true(holder.held);
    assert_string_equal(holder.owner, dlock_session_owner(nodes.a.session));
    assert_in_range(holder.remaining_ms, 4000, 5000);
    assert_int_equal(node_take(&nodes.b, 0, 0), DLOCK_BUSY);
    assert_int_equal(node_give(&nodes.a), DLOCK_OK);
    assert_int_equal(node_rig_held(), 0);
    assert_int_equal(node_give(&nodes.a), DLOCK_LOST);
    assert_int_equal(node_take(&nodes.b, 0, 0), DLOCK_OK);
}

static void test_reentry(NO_STATE)
{
    struct dlock_grant outer;

    assert_int_equal(node_take(&nodes.a, 0, 5000), 0);
    outer = nodes.a.grant;
    assert_int_equal(node_take(&nodes.a, 0, 5000), 0);
    assert_int_equal(nodes.a.grant.holds, 2);
    assert_int_equal(node_give(&nodes.a), DLOCK_OK);
    assert_int_equal(node_rig_held(), NODES);
    assert_int_equal(dlock_release(nodes.a.session, &outer, NULL), DLOCK_OK);
    assert_int_equal(node_rig_held(), 0);
}

/* Whatever the url's order, the first one is the same for all. */
static void test_one_order_for_all(NO_STATE)
{
    unsigned order[NODES];

    find_order(order);
    /* The same servers, turned round. */
    (void)snprintf(nodes.url, sizeof(nodes.url), "%s,%s,%s",
                   redis_server_url(nodes.servers[2]),
                   redis_server_url(nodes.servers[1]),
                   redis_server_url(nodes.servers[0]));
    node_user_close(&nodes.b);
    nodes.b = node_rig_user("multi");
    assert_int_equal(node_take(&nodes.a, 0, 0), 0);
    step_log_reset(&nodes.log);
    assert_int_equal(node_take(&nodes.b, 0, 0), DLOCK_BUSY);
    /* b met a at the first one, and had nothing to undo. */
    assert_int_equal(step_log_count(&nodes.log, "eval-acquire"), 1);
    assert_int_equal(step_log_count(&nodes.log, "eval-undo"), 0);
    /* If a has all but the first one, b takes only that, and not for long. */
    node_rig_ask(order[0], "DEL k");
    assert_int_equal(node_take(&nodes.b, 0, 0), DLOCK_BUSY);
    assert_int_equal(step_log_count(&nodes.log, "eval-undo"), 1);
    assert_int_equal(redis_server_number(nodes.servers[order[0]], "EXISTS k"),
                     0);
    assert_int_equal(node_rig_held(), NODES - 1);
}

/* The last one is busy, refuses, or is away: the others are given back. */
static void test_rollback(NO_STATE)
{
    unsigned order[NODES];

    find_order(order);
    node_rig_ask(order[2], "HSET k somebody 1");
    assert_int_equal(node_take(&nodes.a, 0, 0), DLOCK_BUSY);
    assert_int_equal(node_rig_held(), 1);
    assert_int_equal(step_log_count(&nodes.log, "eval-undo"), 2);
    node_rig_ask(order[2], "DEL k");
    node_rig_fail(order[2], "eval-acquire", DLOCK_BEFORE, 1);
    assert_int_equal(node_take(&nodes.a, 0, 0), DLOCK_UNREACHABLE);
    assert_int_equal(node_rig_held(), 0);
    /* No reply at all: it may have it, and is told to forget it. */
    node_rig_fail(order[1], "eval-acquire", DLOCK_AFTER, 3);
    assert_int_equal(node_take(&nodes.a, 0, 0), DLOCK_UNKNOWN);
    assert_int_equal(node_rig_held(), 0);
    assert_int_equal(node_take(&nodes.a, 0, 0), 0);
    assert_int_equal(nodes.a.grant.holds, 1);
}

static void test_one_down_is_unavailable(NO_STATE)
{
    struct dlock_error error;
    struct dlock_terms terms = {.wait_ms = 200};
    unsigned order[NODES];

    find_order(order);
    assert_int_equal(node_take(&nodes.a, 0, 0), 0);
    assert_int_equal(node_give(&nodes.a), 0);
    for (unsigned i = 0; i < NODES; i++) {
        node_rig_kill(order[i]);
        assert_int_equal(
            dlock_acquire(nodes.a.session, "k", &terms, &nodes.a.grant, &error),
            DLOCK_UNREACHABLE);
        assert_non_null(strstr(error.text, "connect"));
        assert_int_equal(node_rig_held(), 0);
        node_rig_restart(order[i]);
        assert_int_equal(node_take(&nodes.a, 0, 0), 0);
        assert_int_equal(node_give(&nodes.a), 0);
    }
}

/* A server that hangs costs one timeout, and when it wakes up, it holds nothing. */
static void test_one_hung(NO_STATE)
{
    unsigned order[NODES];
    uint64_t began_ms;

    find_order(order);
    nodes.command_timeout_ms = LOCK_RIG_TIMEOUT_MS;
    node_rig_open("multi");
    assert_int_equal(node_take(&nodes.a, 0, 0), 0);
    assert_int_equal(node_give(&nodes.a), 0);
    node_rig_pause(order[1]);
    began_ms = lock_rig_now_ms();
    assert_int_equal(node_take(&nodes.a, 0, 0), DLOCK_UNKNOWN);
    assert_in_range(lock_rig_now_ms() - began_ms, LOCK_RIG_TIMEOUT_MS - 50,
                    2 * LOCK_RIG_TIMEOUT_MS - 100);
    assert_int_equal(node_rig_held(), 0);
    node_rig_resume(order[1]);
    lock_rig_sleep_ms(100);
    assert_int_equal(node_rig_held(), 0);
}

/* The release goes on to the others, and says that it is not complete. */
static void test_release_over_errors(NO_STATE)
{
    unsigned order[NODES];
    enum dlock_status status;

    nodes.command_timeout_ms = LOCK_RIG_TIMEOUT_MS;
    node_rig_open("multi");
    find_order(order);
    for (unsigned i = 0; i < NODES; i++) {
        assert_int_equal(node_take(&nodes.a, 0, 0), 0);
        node_rig_fail(order[i], "eval-release", DLOCK_BEFORE, STEP_LOG_ALWAYS);
        assert_int_equal(node_give(&nodes.a), DLOCK_UNREACHABLE);
        node_rig_mend();
        assert_int_equal(node_rig_held(), 1);
        assert_int_equal(node_give(&nodes.a), DLOCK_OK);
        assert_int_equal(node_rig_held(), 0);
    }
    /* The reply is lost: asked again, they answer as they did. */
    assert_int_equal(node_take(&nodes.a, 0, 0), 0);
    node_rig_fail(order[0], "eval-release", DLOCK_AFTER, STEP_LOG_ALWAYS);
    assert_int_equal(node_give(&nodes.a), DLOCK_UNKNOWN);
    node_rig_mend();
    assert_int_equal(node_rig_held(), 0);
    assert_int_equal(node_give(&nodes.a), DLOCK_OK);
    assert_int_equal(node_give(&nodes.a), DLOCK_LOST);
    /* One of them is dead. */
    assert_int_equal(node_take(&nodes.a, 0, 0), 0);
    node_rig_kill(order[1]);
    status = node_give(&nodes.a);
    /* The others are not waited for long: on a busy machine one may answer too late. */
    assert_true(status == DLOCK_UNREACHABLE || status == DLOCK_UNKNOWN);
    for (int i = 0; i < LOCK_RIG_PROMPT_MS && node_rig_held() > 0; i++)
        lock_rig_sleep_ms(1);
    assert_int_equal(node_rig_held(), 0);
}

/* Two servers fail over to empty copies; the third one still knows. */
static void test_excludes_while_one_knows(NO_STATE)
{
    for (unsigned keeps = 0; keeps < NODES; keeps++) {
        assert_int_equal(node_take(&nodes.a, 0, 5000), 0);
        for (unsigned i = 0; i < NODES; i++)
            if (i != keeps)
                node_rig_ask(i, "FLUSHALL");
        assert_int_equal(node_take(&nodes.b, 100, 0), DLOCK_TIMEOUT);
        assert_int_equal(node_rig_held(), 1);
        assert_int_equal(node_give(&nodes.a), DLOCK_LOST);
        assert_int_equal(node_rig_held(), 0);
    }
}

static void nap(void *ctx)
{
    lock_rig_sleep_ms(*(unsigned *)ctx);
}

/* The lease began with the first server: what takes longer is no grant. */
static void test_one_validity(NO_STATE)
{
    unsigned order[NODES];
    unsigned nap_ms = 200;

    find_order(order);
    assert_int_equal(node_take(&nodes.a, 0, 0), 0);
    assert_int_equal(node_give(&nodes.a), 0);
    node_rig_call(order[2], "eval-acquire", DLOCK_BEFORE, nap, &nap_ms);
    assert_int_equal(node_take(&nodes.a, 0, 10000), 0);
    assert_in_range(node_left_ms(&nodes.a), 3000, 10000 - 102 - 200);
    assert_int_equal(node_give(&nodes.a), 0);
    node_rig_call(order[2], "eval-acquire", DLOCK_AFTER, nap, &nap_ms);
    assert_int_equal(node_take(&nodes.a, 0, 150), DLOCK_LOST);
    assert_int_equal(node_rig_held(), 0);
}

static void test_renewed_on_all(NO_STATE)
{
    nodes.watchdog_lease_ms = LOCK_RIG_LEASE_MS;
    node_rig_open("multi");
    assert_int_equal(node_take(&nodes.a, 0, 0), 0);
    assert_int_equal(node_take(&nodes.b, LOCK_RIG_LEASE_MS + 500, 0),
                     DLOCK_TIMEOUT);
    assert_int_equal(node_rig_held(), NODES);
    assert_int_equal(atomic_load(&nodes.lost_n), 0);
    assert_in_range(node_left_ms(&nodes.a), 1,
                    LOCK_RIG_LEASE_MS * 99 / 100 - 2);
    /* One of them has lost it: that is enough to have lost it. */
    node_rig_ask(1, "DEL k");
    assert_int_equal(node_rig_await_lost(1), DLOCK_LOSS_FLUSHED);
    assert_int_equal(node_give(&nodes.a), DLOCK_LOST);
    assert_int_equal(node_rig_held(), 0);
}

static void test_forced(NO_STATE)
{
    nodes.watchdog_lease_ms = LOCK_RIG_LEASE_MS;
    node_rig_open("multi");
    assert_int_equal(node_take(&nodes.a, 0, 0), 0);
    assert_int_equal(dlock_force_release(nodes.b.session, "k", NULL), DLOCK_OK);
    assert_int_equal(node_rig_held(), 0);
    assert_int_equal(dlock_force_release(nodes.b.session, "k", NULL),
                     DLOCK_LOST);
    assert_int_equal(node_rig_await_lost(1), DLOCK_LOSS_FORCED);
}

static void *resume_late(void *arg)
{
    lock_rig_sleep_ms(300);
    node_rig_resume(2);
    return arg;
}

/* A server that is slow to name the holder is waited for: the others do not free. */
static void test_forced_on_a_slow_server(NO_STATE)
{
    pthread_t thread;

    nodes.command_timeout_ms = LOCK_RIG_PROMPT_MS;
    node_rig_open("multi");
    assert_int_equal(node_take(&nodes.a, 0, LOCK_RIG_LONG_MS), 0);
    assert_int_equal(node_take(&nodes.b, 0, 0), DLOCK_BUSY);
    node_rig_pause(2);
    assert_int_equal(pthread_create(&thread, NULL, resume_late, NULL), 0);
    assert_int_equal(dlock_force_release(nodes.b.session, "k", NULL), DLOCK_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(node_rig_held(), 0);
}

static void test_extend(NO_STATE)
{
    assert_int_equal(node_take(&nodes.a, 0, 5000), 0);
    assert_int_equal(node_extend(&nodes.a, 9000), DLOCK_OK);
    for (unsigned i = 0; i < NODES; i++)
        assert_in_range(redis_server_number(nodes.servers[i], "PTTL k"), 5001,
                        9000);
    assert_in_range(node_left_ms(&nodes.a), 5001, 9000 - 92);
    node_rig_ask(2, "DEL k");
    assert_int_equal(node_extend(&nodes.a, 9000), DLOCK_LOST);
}

/* A waiter sleeps, is woken, and the lock is its. */
static void test_woken(NO_STATE)
{
    assert_in_range(node_rig_wait_ms(), 250, LOCK_RIG_PROMPT_MS);
    /* Try, try again when subscribed, and once woken: few, not hundreds. */
    assert_in_range(step_log_count(&nodes.log, "eval-acquire"), 3, 14);
}

/* The holder is dead, and tells nobody: its lease ends, and that is enough. */
static void test_dead_holder(NO_STATE)
{
    uint64_t began_ms = lock_rig_now_ms();

    assert_int_equal(node_take(&nodes.a, 0, 150), 0);
    assert_int_equal(node_take(&nodes.b, LOCK_RIG_LONG_MS, 0), 0);
    assert_in_range(lock_rig_now_ms() - began_ms, 140, LOCK_RIG_PROMPT_MS);
}

static void test_urls(NO_STATE)
{
    struct dlock_options options = {.strategy = "multi"};
    static const struct {
        const char *url;
        const char *text;
    } wrong[] = {
        {NULL, "url"},
        {"", "url"},
        {"unix:/a,", "url"},
        {"unix:/a,bla", "url"},
        {"unix:/a,unix:/b,unix:/a", "twice"},
        {"redis://h:1,redis://h:2,redis://h:1", "twice"},
        {"redis://h:1,redis://h:2,redis://h:3,redis://h:4,redis://h:5,"
         "redis://h:6,redis://h:7,redis://h:8,redis://h:9,redis://h:10",
         "more than 9"},
    };
    struct dlock *client = NULL;
    struct dlock_error error;

    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        options.url = wrong[i].url;
        assert_int_equal(dlock_open(&options, &client, &error), DLOCK_MISUSE);
        assert_non_null(strstr(error.text, wrong[i].text));
    }
    options.url = "redis://h:1,redis://h:2,unix:/c";
    assert_int_equal(dlock_open(&options, &client, &error), DLOCK_OK);
    dlock_close(client);
}

static void test_tokens_rise(NO_STATE)
{
    struct dlock_terms terms = {.fenced = true};
    uint64_t last = 0;

    for (unsigned i = 0; i < 5; i++) {
        /* One counts higher than the others; another has lost its count. */
        node_rig_ask(i % 3, "SET {k}:dlock-fence 10");
        node_rig_ask((i + 1) % 3, "DEL {k}:dlock-fence");
        assert_int_equal(
            dlock_acquire(nodes.a.session, "k", &terms, &nodes.a.grant, NULL),
            0);
        assert_true(nodes.a.grant.token > last);
        last = nodes.a.grant.token;
        assert_int_equal(node_give(&nodes.a), 0);
    }
}

#define TEST(name) cmocka_unit_test_setup(name, fresh)

static const struct CMUnitTest tests[] = {
    TEST(test_all_or_nothing),
    TEST(test_reentry),
    TEST(test_one_order_for_all),
    TEST(test_rollback),
    TEST(test_one_down_is_unavailable),
    TEST(test_one_hung),
    TEST(test_release_over_errors),
    TEST(test_excludes_while_one_knows),
    TEST(test_one_validity),
    TEST(test_renewed_on_all),
    TEST(test_forced),
    TEST(test_forced_on_a_slow_server),
    TEST(test_extend),
    TEST(test_woken),
    TEST(test_dead_holder),
    TEST(test_urls),
    TEST(test_tokens_rise),
};
TEST_MAIN_WITHIN(tests, node_rig_setup, node_rig_teardown)
