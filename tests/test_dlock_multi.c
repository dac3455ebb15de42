/*
 * A lock on all of several servers: taken in one order, given back whole,
 * whatever happens in between.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/node_rig.h"

enum { NODES = 3 };

static int fresh(void **state)
{
    node_rig_fresh(*state, NODES);
    return 0;
}

/* The url's places in the order in which they are taken: of their addresses. */
static void find_order(const struct node_rig *rig, unsigned order[NODES])
{
    memset(order, 0, NODES * sizeof(order[0]));
    for (unsigned i = 0; i < NODES; i++) {
        unsigned rank = 0;

        for (unsigned k = 0; k < NODES; k++)
            rank += strcmp(redis_server_url(rig->servers[k]),
                           redis_server_url(rig->servers[i])) < 0;
        order[rank] = i;
    }
}

static void test_all_or_nothing(void **state)
{
    struct node_rig *rig = *state;
    struct node_user a = node_rig_user(rig, "multi");
    struct node_user b = node_rig_user(rig, "multi");
    struct dlock_grant grant, other;
    struct dlock_holder holder;

    assert_int_equal(lock_rig_take(a.session, "k", 0, 5000, &grant), 0);
    assert_int_equal(node_rig_held(rig), NODES);
    assert_in_range(dlock_remaining_ms(a.session, &grant), 4000, 5000 - 52);
    assert_int_equal(dlock_inspect(b.session, "k", &holder, NULL), DLOCK_OK);
    assert_true(holder.held);
    assert_string_equal(holder.owner, dlock_session_owner(a.session));
    assert_in_range(holder.remaining_ms, 4000, 5000);
    assert_int_equal(lock_rig_take(b.session, "k", 0, 0, &other), DLOCK_BUSY);
    assert_int_equal(dlock_release(a.session, &grant, NULL), DLOCK_OK);
    assert_int_equal(node_rig_held(rig), 0);
    assert_int_equal(dlock_release(a.session, &grant, NULL), DLOCK_LOST);
    assert_int_equal(lock_rig_take(b.session, "k", 0, 0, &other), DLOCK_OK);
    node_user_close(&a);
    node_user_close(&b);
}

static void test_reentry(void **state)
{
    struct node_rig *rig = *state;
    struct node_user a = node_rig_user(rig, "multi");
    struct dlock_grant outer, inner;

    assert_int_equal(lock_rig_take(a.session, "k", 0, 5000, &outer), 0);
    assert_int_equal(lock_rig_take(a.session, "k", 0, 5000, &inner), 0);
    assert_int_equal(inner.holds, 2);
    assert_int_equal(dlock_release(a.session, &inner, NULL), DLOCK_OK);
    assert_int_equal(node_rig_held(rig), NODES);
    assert_int_equal(dlock_release(a.session, &outer, NULL), DLOCK_OK);
    assert_int_equal(node_rig_held(rig), 0);
    node_user_close(&a);
}

/* Whatever the url's order, the first one is the same for all. */
static void test_one_order_for_all(void **state)
{
    struct node_rig *rig = *state;
    struct node_user a = node_rig_user(rig, "multi");
    struct node_user b;
    struct dlock_grant grant, other;
    unsigned order[NODES];

    find_order(rig, order);
    /* The same servers, turned round. */
    (void)snprintf(rig->url, sizeof(rig->url), "%s,%s,%s",
                   redis_server_url(rig->servers[2]),
                   redis_server_url(rig->servers[1]),
                   redis_server_url(rig->servers[0]));
    b = node_rig_user(rig, "multi");
    assert_int_equal(lock_rig_take(a.session, "k", 0, 0, &grant), 0);
    step_log_reset(&rig->log);
    assert_int_equal(lock_rig_take(b.session, "k", 0, 0, &other), DLOCK_BUSY);
    /* b met a at the first one, and had nothing to undo. */
    assert_int_equal(step_log_count(&rig->log, "eval-acquire"), 1);
    assert_int_equal(step_log_count(&rig->log, "eval-undo"), 0);
    /* If a has all but the first one, b takes only that, and not for long. */
    redis_server_ask(rig->servers[order[0]], "DEL k", NULL, 0);
    assert_int_equal(lock_rig_take(b.session, "k", 0, 0, &other), DLOCK_BUSY);
    assert_int_equal(step_log_count(&rig->log, "eval-undo"), 1);
    assert_int_equal(redis_server_number(rig->servers[order[0]], "EXISTS k"),
                     0);
    assert_int_equal(node_rig_held(rig), NODES - 1);
    node_user_close(&a);
    node_user_close(&b);
}

/* The last one is busy, refuses, or is away: the others are given back. */
static void test_rollback(void **state)
{
    struct node_rig *rig = *state;
    struct node_user a = node_rig_user(rig, "multi");
    struct dlock_grant grant;
    unsigned order[NODES];

    find_order(rig, order);
    redis_server_ask(rig->servers[order[2]], "HSET k somebody 1", NULL, 0);
    assert_int_equal(lock_rig_take(a.session, "k", 0, 0, &grant), DLOCK_BUSY);
    assert_int_equal(node_rig_held(rig), 1);
    assert_int_equal(step_log_count(&rig->log, "eval-undo"), 2);
    redis_server_ask(rig->servers[order[2]], "DEL k", NULL, 0);
    node_rig_fail(rig, order[2], "eval-acquire", DLOCK_BEFORE, 1);
    assert_int_equal(lock_rig_take(a.session, "k", 0, 0, &grant),
                     DLOCK_UNREACHABLE);
    assert_int_equal(node_rig_held(rig), 0);
    /* No reply at all: it may have it, and is told to forget it. */
    node_rig_fail(rig, order[1], "eval-acquire", DLOCK_AFTER, 3);
    assert_int_equal(lock_rig_take(a.session, "k", 0, 0, &grant),
                     DLOCK_UNKNOWN);
    assert_int_equal(node_rig_held(rig), 0);
    assert_int_equal(lock_rig_take(a.session, "k", 0, 0, &grant), 0);
    assert_int_equal(grant.holds, 1);
    node_user_close(&a);
}

static void test_one_down_is_unavailable(void **state)
{
    struct node_rig *rig = *state;
    struct node_user a = node_rig_user(rig, "multi");
    struct dlock_error error;
    struct dlock_terms terms = {.wait_ms = 200};
    struct dlock_grant grant;
    unsigned order[NODES];

    find_order(rig, order);
    assert_int_equal(lock_rig_take(a.session, "k", 0, 0, &grant), 0);
    assert_int_equal(dlock_release(a.session, &grant, NULL), 0);
    for (unsigned i = 0; i < NODES; i++) {
        node_rig_kill(rig, order[i]);
        assert_int_equal(dlock_acquire(a.session, "k", &terms, &grant, &error),
                         DLOCK_UNREACHABLE);
        assert_non_null(strstr(error.text, "connect"));
        assert_int_equal(node_rig_held(rig), 0);
        node_rig_restart(rig, order[i]);
        assert_int_equal(lock_rig_take(a.session, "k", 0, 0, &grant), 0);
        assert_int_equal(dlock_release(a.session, &grant, NULL), 0);
    }
    node_user_close(&a);
}

/* A server that hangs costs one timeout, and when it wakes up, it holds nothing. */
static void test_one_hung(void **state)
{
    struct node_rig *rig = *state;
    struct node_user a;
    struct dlock_grant grant;
    unsigned order[NODES];
    uint64_t began_ms;

    find_order(rig, order);
    rig->command_timeout_ms = 300;
    a = node_rig_user(rig, "multi");
    assert_int_equal(lock_rig_take(a.session, "k", 0, 0, &grant), 0);
    assert_int_equal(dlock_release(a.session, &grant, NULL), 0);
    node_rig_pause(rig, order[1]);
    began_ms = lock_rig_now_ms();
    assert_int_equal(lock_rig_take(a.session, "k", 0, 0, &grant),
                     DLOCK_UNKNOWN);
    assert_in_range(lock_rig_now_ms() - began_ms, 250, 900);
    assert_int_equal(node_rig_held(rig), 0);
    node_rig_resume(rig, order[1]);
    lock_rig_sleep_ms(100);
    assert_int_equal(node_rig_held(rig), 0);
    node_user_close(&a);
}

/* The release goes on to the others, and says that it is not complete. */
static void test_release_over_errors(void **state)
{
    struct node_rig *rig = *state;
    struct node_user a = node_rig_user(rig, "multi");
    struct dlock_grant grant;
    unsigned order[NODES];

    find_order(rig, order);
    for (unsigned i = 0; i < NODES; i++) {
        assert_int_equal(lock_rig_take(a.session, "k", 0, 0, &grant), 0);
        node_rig_fail(rig, order[i], "eval-release", DLOCK_BEFORE, 1);
        assert_int_equal(dlock_release(a.session, &grant, NULL),
                         DLOCK_UNREACHABLE);
        assert_int_equal(node_rig_held(rig), 1);
        assert_int_equal(dlock_release(a.session, &grant, NULL), DLOCK_OK);
        assert_int_equal(node_rig_held(rig), 0);
    }
    /* The reply is lost: asked again, they answer as they did. */
    assert_int_equal(lock_rig_take(a.session, "k", 0, 0, &grant), 0);
    node_rig_fail(rig, order[0], "eval-release", DLOCK_AFTER, 1);
    assert_int_equal(dlock_release(a.session, &grant, NULL), DLOCK_UNKNOWN);
    assert_int_equal(node_rig_held(rig), 0);
    assert_int_equal(dlock_release(a.session, &grant, NULL), DLOCK_OK);
    assert_int_equal(dlock_release(a.session, &grant, NULL), DLOCK_LOST);
    /* One of them is dead. */
    assert_int_equal(lock_rig_take(a.session, "k", 0, 0, &grant), 0);
    node_rig_kill(rig, order[1]);
    assert_int_equal(dlock_release(a.session, &grant, NULL), DLOCK_UNREACHABLE);
    assert_int_equal(node_rig_held(rig), 0);
    node_user_close(&a);
}

/* Two servers fail over to empty copies; the third one still knows. */
static void test_excludes_while_one_knows(void **state)
{
    struct node_rig *rig = *state;
    struct node_user a = node_rig_user(rig, "multi");
    struct node_user b = node_rig_user(rig, "multi");
    struct dlock_grant grant, other;

    for (unsigned keeps = 0; keeps < NODES; keeps++) {
        assert_int_equal(lock_rig_take(a.session, "k", 0, 5000, &grant), 0);
        for (unsigned i = 0; i < NODES; i++)
            if (i != keeps)
                redis_server_ask(rig->servers[i], "FLUSHALL", NULL, 0);
        assert_int_equal(lock_rig_take(b.session, "k", 100, 0, &other),
                         DLOCK_TIMEOUT);
        assert_int_equal(node_rig_held(rig), 1);
        assert_int_equal(dlock_release(a.session, &grant, NULL), DLOCK_LOST);
        assert_int_equal(node_rig_held(rig), 0);
    }
    node_user_close(&a);
    node_user_close(&b);
}

static void nap(void *ctx)
{
    lock_rig_sleep_ms(*(unsigned *)ctx);
}

/* The lease began with the first server: what takes longer is no grant. */
static void test_one_validity(void **state)
{
    struct node_rig *rig = *state;
    struct node_user a = node_rig_user(rig, "multi");
    struct dlock_grant grant;
    unsigned order[NODES];
    unsigned nap_ms = 200;

    find_order(rig, order);
    assert_int_equal(lock_rig_take(a.session, "k", 0, 0, &grant), 0);
    assert_int_equal(dlock_release(a.session, &grant, NULL), 0);
    node_rig_call(rig, order[2], "eval-acquire", DLOCK_BEFORE, nap, &nap_ms);
    assert_int_equal(lock_rig_take(a.session, "k", 0, 1000, &grant), 0);
    assert_in_range(dlock_remaining_ms(a.session, &grant), 300,
                    1000 - 12 - 200);
    assert_int_equal(dlock_release(a.session, &grant, NULL), 0);
    node_rig_call(rig, order[2], "eval-acquire", DLOCK_AFTER, nap, &nap_ms);
    assert_int_equal(lock_rig_take(a.session, "k", 0, 150, &grant), DLOCK_LOST);
    assert_int_equal(node_rig_held(rig), 0);
    node_user_close(&a);
}

struct news {
    atomic_uint lost_n;
    atomic_int reason;
};

static void note_loss(void *ctx, const char *name, const char *owner,
                      enum dlock_loss reason)
{
    struct news *news = ctx;

    (void)name;
    (void)owner;
    atomic_store(&news->reason, (int)reason);
    atomic_fetch_add(&news->lost_n, 1);
}

static void test_renewed_on_all(void **state)
{
    struct node_rig *rig = *state;
    struct news news = {.lost_n = 0};
    struct dlock_grant grant, other;
    struct node_user a, b;

    rig->watchdog_lease_ms = 600;
    rig->on_lost = note_loss;
    rig->on_lost_ctx = &news;
    a = node_rig_user(rig, "multi");
    b = node_rig_user(rig, "multi");
    assert_int_equal(lock_rig_take(a.session, "k", 0, 0, &grant), 0);
    assert_int_equal(lock_rig_take(b.session, "k", 1500, 0, &other),
                     DLOCK_TIMEOUT);
    assert_int_equal(node_rig_held(rig), NODES);
    assert_int_equal(atomic_load(&news.lost_n), 0);
    assert_in_range(dlock_remaining_ms(a.session, &grant), 100, 600 - 8);
    /* One of them has lost it: that is enough to have lost it. */
    redis_server_ask(rig->servers[1], "DEL k", NULL, 0);
    lock_rig_sleep_ms(500);
    assert_int_equal(atomic_load(&news.lost_n), 1);
    assert_int_equal(atomic_load(&news.reason), DLOCK_LOSS_FLUSHED);
    assert_int_equal(dlock_release(a.session, &grant, NULL), DLOCK_LOST);
    assert_int_equal(node_rig_held(rig), 0);
    node_user_close(&a);
    node_user_close(&b);
}

static void test_forced(void **state)
{
    struct node_rig *rig = *state;
    struct news news = {.lost_n = 0};
    struct dlock_grant grant;
    struct node_user a, b;

    rig->watchdog_lease_ms = 300;
    rig->on_lost = note_loss;
    rig->on_lost_ctx = &news;
    a = node_rig_user(rig, "multi");
    b = node_rig_user(rig, "multi");
    assert_int_equal(lock_rig_take(a.session, "k", 0, 0, &grant), 0);
    assert_int_equal(dlock_force_release(b.session, "k", NULL), DLOCK_OK);
    assert_int_equal(node_rig_held(rig), 0);
    assert_int_equal(dlock_force_release(b.session, "k", NULL), DLOCK_LOST);
    lock_rig_sleep_ms(300);
    assert_int_equal(atomic_load(&news.lost_n), 1);
    assert_int_equal(atomic_load(&news.reason), DLOCK_LOSS_FORCED);
    node_user_close(&a);
    node_user_close(&b);
}

static void test_extend(void **state)
{
    struct node_rig *rig = *state;
    struct node_user a = node_rig_user(rig, "multi");
    struct dlock_grant grant;

    assert_int_equal(lock_rig_take(a.session, "k", 0, 1000, &grant), 0);
    assert_int_equal(dlock_extend(a.session, &grant, 9000, NULL), DLOCK_OK);
    for (unsigned i = 0; i < NODES; i++)
        assert_in_range(redis_server_number(rig->servers[i], "PTTL k"), 8000,
                        9000);
    assert_in_range(dlock_remaining_ms(a.session, &grant), 8000, 9000 - 92);
    redis_server_ask(rig->servers[2], "DEL k", NULL, 0);
    assert_int_equal(dlock_extend(a.session, &grant, 9000, NULL), DLOCK_LOST);
    node_user_close(&a);
}

/* A waiter sleeps, is woken, and the lock is its. */
struct held {
    const struct node_user *user;
    struct dlock_grant grant;
};

static void *release_soon(void *arg)
{
    const struct held *held = arg;

    lock_rig_sleep_ms(300);
    (void)dlock_release(held->user->session, &held->grant, NULL);
    return NULL;
}

static void test_woken(void **state)
{
    struct node_rig *rig = *state;
    struct node_user a = node_rig_user(rig, "multi");
    struct node_user b = node_rig_user(rig, "multi");
    struct held held = {.user = &a};
    struct dlock_grant grant;
    pthread_t thread;
    uint64_t began_ms;

    assert_int_equal(lock_rig_take(a.session, "k", 0, 20000, &held.grant), 0);
    assert_int_equal(pthread_create(&thread, NULL, release_soon, &held), 0);
    began_ms = lock_rig_now_ms();
    step_log_reset(&rig->log);
    assert_int_equal(lock_rig_take(b.session, "k", 5000, 0, &grant), 0);
    assert_in_range(lock_rig_now_ms() - began_ms, 250, 2000);
    /* Try, try again when subscribed, and once woken: few, not hundreds. */
    assert_in_range(step_log_count(&rig->log, "eval-acquire"), 3, 14);
    assert_int_equal(pthread_join(thread, NULL), 0);
    node_user_close(&a);
    node_user_close(&b);
}

/* The holder is dead, and tells nobody: its lease ends, and that is enough. */
static void test_dead_holder(void **state)
{
    struct node_rig *rig = *state;
    struct node_user a = node_rig_user(rig, "multi");
    struct node_user b = node_rig_user(rig, "multi");
    struct dlock_grant grant;
    uint64_t began_ms = lock_rig_now_ms();

    assert_int_equal(lock_rig_take(a.session, "k", 0, 150, &grant), 0);
    assert_int_equal(lock_rig_take(b.session, "k", 5000, 0, &grant), 0);
    assert_in_range(lock_rig_now_ms() - began_ms, 140, 2000);
    node_user_close(&a);
    node_user_close(&b);
}

static void test_urls(void **state)
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

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        options.url = wrong[i].url;
        assert_int_equal(dlock_open(&options, &client, &error), DLOCK_MISUSE);
        assert_non_null(strstr(error.text, wrong[i].text));
    }
    options.url = "redis://h:1,redis://h:2,unix:/c";
    assert_int_equal(dlock_open(&options, &client, &error), DLOCK_OK);
    dlock_close(client);
}

static void test_tokens_rise(void **state)
{
    struct node_rig *rig = *state;
    struct node_user a = node_rig_user(rig, "multi");
    struct dlock_terms terms = {.fenced = true};
    struct dlock_grant grant;
    uint64_t last = 0;

    for (int i = 0; i < 5; i++) {
        /* One counts higher than the others; another has lost its count. */
        redis_server_ask(rig->servers[i % 3], "SET {k}:dlock-fence 10", NULL,
                         0);
        redis_server_ask(rig->servers[(i + 1) % 3], "DEL {k}:dlock-fence", NULL,
                         0);
        assert_int_equal(dlock_acquire(a.session, "k", &terms, &grant, NULL),
                         0);
        assert_true(grant.token > last);
        last = grant.token;
        assert_int_equal(dlock_release(a.session, &grant, NULL), 0);
    }
    node_user_close(&a);
}

#define TEST(name) cmocka_unit_test_setup(name, fresh)

int main(void)
{
    const struct CMUnitTest tests[] = {
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
        TEST(test_extend),
        TEST(test_woken),
        TEST(test_dead_holder),
        TEST(test_urls),
        TEST(test_tokens_rise),
    };

    return cmocka_run_group_tests(tests, node_rig_setup, node_rig_teardown);
}
