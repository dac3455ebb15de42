/*
 * The fair lock: first come, first served, whatever becomes of those in
 * between. The queue is looked at on the server, so that a test knows who is in
 * it before it goes on.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/lock_waiter.h"
#include "tests/support/unit_test.h"

enum {
    HEARTBEAT_MS = 2000,
    KEPT_MS = 10000, /* for those that are silent while all are */
    SLACK_MS = 1000, /* for a machine that has other things to do */
};

/* The order ------------------------------------------------------------------- */

static void test_first_come_first_served(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_held(rig, "fair", 20000);
    struct lock_waiter waiters[16] = {{.wait_ms = 0}};

    for (int i = 0; i < 16; i++)
        lock_waiter_queue_up(rig, &waiters[i], i + 1);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
    for (unsigned i = 0; i < 16; i++) {
        lock_waiter_close(&waiters[i]);
        assert_int_equal(waiters[i].status, DLOCK_OK);
        assert_int_equal(waiters[i].turn, i);
    }
    assert_int_equal(redis_server_number(rig->server, "EXISTS k"), 0);
    lock_pair_close(&pair);
}

/* One of them, and each handed on at once, not at the next heartbeat. */
static void test_only_the_head_is_woken(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_held(rig, "fair", 20000);
    struct lock_waiter waiters[8] = {{.wait_ms = 0}};
    uint64_t released_at_ms;

    for (int i = 0; i < 8; i++)
        lock_waiter_queue_up(rig, &waiters[i], i + 1);
    waiters[0].keep = true;
    lock_rig_sleep_ms(100); /* all of them sleep */
    step_log_reset(&rig->log);
    released_at_ms = lock_rig_now_ms();
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
    lock_waiter_join(&waiters[0]);
    assert_true(waiters[0].done_at_ms - released_at_ms < SLACK_MS);
    assert_in_range(step_log_count(&rig->log, "eval-acquire"), 1, 4);
    assert_int_equal(dlock_release(waiters[0].session, &waiters[0].grant, NULL),
                     DLOCK_OK);
    dlock_session_close(waiters[0].session);
    dlock_close(waiters[0].client);
    for (int i = 1; i < 8; i++)
        lock_waiter_close(&waiters[i]);
    assert_true(waiters[7].done_at_ms - released_at_ms < 600 + SLACK_MS);
    lock_pair_close(&pair);
}

/* The lock is free, but it is somebody else's turn. */
static void test_a_try_does_not_overtake(void **state)
{
    struct lock_rig *rig = *state;

    redis_server_ask(rig->server, "ZADD {k}:dlock-queue 1 somebody", NULL, 0);
    redis_server_ask(rig->server, "ZADD {k}:dlock-beats 9e15 somebody", NULL,
                     0);
    assert_int_equal(lock_rig_probe(rig, "fair", "k"), DLOCK_BUSY);
    assert_int_equal(lock_queue_length(rig), 1);
    redis_server_ask(rig->server, "ZADD {k}:dlock-beats 1 somebody", NULL, 0);
    assert_int_equal(lock_rig_probe(rig, "fair", "k"), DLOCK_OK);
    assert_int_equal(lock_queue_length(rig), 0);
}

static void test_reentry_passes_the_queue(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_held(rig, "fair", 20000);
    struct dlock_grant inner;
    struct lock_waiter waiter = {.wait_ms = 0};

    lock_waiter_queue_up(rig, &waiter, 1);
    assert_int_equal(lock_rig_take(pair.session[0], "k", 0, 0, &inner), 0);
    assert_int_equal(inner.holds, 2);
    assert_int_equal(dlock_release(pair.session[0], &inner, NULL), 0);
    assert_int_equal(lock_queue_length(rig), 1);
    assert_int_equal(lock_pair_give(&pair, 0), 0);
    lock_waiter_close(&waiter);
    assert_int_equal(waiter.status, DLOCK_OK);
    lock_pair_close(&pair);
}

static void test_who_waits(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_held(rig, "fair", 20000);
    struct dlock_waiting seen[8];
    struct lock_waiter waiters[7] = {{.wait_ms = 0}};
    size_t n = 0;

    for (int i = 0; i < 7; i++)
        lock_waiter_queue_up(rig, &waiters[i], i + 1);
    assert_int_equal(
        dlock_inspect_waiters(pair.session[1], "k", seen, 8, &n, NULL), 0);
    assert_int_equal(n, 7);
    for (int i = 0; i < 7; i++)
        assert_string_equal(seen[i].owner,
                            dlock_session_owner(waiters[i].session));
    assert_int_equal(
        dlock_inspect_waiters(pair.session[1], "k", seen, 2, &n, NULL), 0);
    assert_int_equal(n, 7);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
    for (int i = 0; i < 7; i++)
        lock_waiter_close(&waiters[i]);
    assert_int_equal(
        dlock_inspect_waiters(pair.session[1], "k", seen, 8, &n, NULL), 0);
    assert_int_equal(n, 0);
    lock_pair_close(&pair);
}

/* The dead and those that give up ------------------------------------------------ */

/* A process that waits, and is killed: SIGKILL leaves it no time for anything. */
static pid_t fork_waiter(struct lock_rig *rig)
{
    pid_t pid = fork();

    if (pid == 0) {
        struct dlock *client = lock_rig_client(rig, "fair");
        struct dlock_grant grant;

        (void)lock_rig_take(lock_rig_session(client), "k", 20000, 0, &grant);
        _exit(0);
    }
    assert_true(pid > 0);
    return pid;
}

static void test_a_dead_waiter_does_not_block(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_held(rig, "fair", 20000);
    struct lock_waiter waiter = {.wait_ms = 0};
    pid_t pid = fork_waiter(rig); /* before there are threads */
    uint64_t killed_at_ms;

    lock_queue_await(rig, 1);
    lock_waiter_queue_up(rig, &waiter, 2);
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    killed_at_ms = lock_rig_now_ms();
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
    lock_waiter_close(&waiter);
    assert_int_equal(waiter.status, DLOCK_OK);
    /* Twice, if this machine had other things to do for half a heartbeat. */
    assert_true(waiter.done_at_ms - killed_at_ms < 2 * HEARTBEAT_MS + SLACK_MS);
    assert_int_equal(lock_queue_length(rig), 0);
    lock_pair_close(&pair);
}

static void test_timed_out_waiter_leaves_no_trace(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_held(rig, "fair", 20000);

    assert_int_equal(lock_pair_take(&pair, 1, 100, 0), DLOCK_TIMEOUT);
    assert_int_equal(redis_server_number(rig->server, "EXISTS {k}:dlock-queue "
                                                      "{k}:dlock-beats"),
                     0);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
    /* And it may come again. */
    assert_int_equal(lock_pair_take(&pair, 1, 100, 0), DLOCK_OK);
    lock_pair_close(&pair);
}

/* Others come and go; nobody's place and nobody's heartbeat moves. */
static void test_giving_up_moves_no_deadline(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_held(rig, "fair", 20000);
    struct lock_waiter first = {.wait_ms = 0};
    char command[200];
    char reply[100];

    lock_waiter_queue_up(rig, &first, 1);
    for (int i = 0; i < 60; i++)
        assert_int_equal(lock_pair_take(&pair, 1, 5, 0), DLOCK_TIMEOUT);
    assert_int_equal(lock_queue_length(rig), 1);
    (void)snprintf(command, sizeof(command), "ZSCORE {k}:dlock-queue %s",
                   dlock_session_owner(first.session));
    redis_server_ask(rig->server, command, reply, sizeof(reply));
    assert_string_equal(reply, "$1\r\n1\r\n");
    assert_in_range(redis_server_number(rig->server, "PTTL {k}:dlock-beats"), 1,
                    KEPT_MS);
    (void)snprintf(
        command, sizeof(command),
        "EVAL \"local t=redis.call('time');return redis.call('zscore'"
        ",'{k}:dlock-beats','%s')-t[1]*1000\" 0",
        dlock_session_owner(first.session));
    assert_in_range(redis_server_number(rig->server, command), 1,
                    HEARTBEAT_MS + 1000);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
    lock_waiter_close(&first);
    assert_int_equal(first.status, DLOCK_OK);
    lock_pair_close(&pair);
}

/* The head was to have it, and does not want it any more: the next is told. */
static void test_a_head_that_gives_up_passes_the_turn_on(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_held(rig, "fair", 20000);
    struct lock_waiter first = {.wait_ms = 0}, second = {.wait_ms = 0};
    uint64_t passed_at_ms;

    lock_waiter_queue_up(rig, &first, 1);
    lock_waiter_queue_up(rig, &second, 2);
    lock_rig_sleep_ms(50);
    /* No message: as if the head had got it and not come for it yet. */
    redis_server_ask(rig->server, "DEL k", NULL, 0);
    passed_at_ms = lock_rig_now_ms();
    dlock_cancel(first.session);
    lock_waiter_close(&first);
    assert_int_equal(first.status, DLOCK_TIMEOUT);
    lock_waiter_close(&second);
    assert_int_equal(second.status, DLOCK_OK);
    assert_true(second.done_at_ms - passed_at_ms < SLACK_MS);
    lock_pair_close(&pair);
}

/* As redisson ------------------------------------------------------------------- */

/* Also with somebody waiting, and also if nobody has taken it yet. */
static void test_release_of_an_expired_lock(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "fair");
    struct lock_waiter waiter = {.keep = true};

    assert_int_equal(lock_pair_take(&pair, 0, 0, 30), 0);
    lock_rig_sleep_ms(60);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_LOST);
    assert_int_equal(lock_pair_take(&pair, 0, 0, 150), 0);
    lock_waiter_queue_up(rig, &waiter, 1);
    lock_waiter_join(&waiter);
    assert_int_equal(waiter.status, DLOCK_OK);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_LOST);
    assert_int_equal(dlock_release(waiter.session, &waiter.grant, NULL), 0);
    dlock_session_close(waiter.session);
    dlock_close(waiter.client);
    lock_pair_close(&pair);
}

/* Whatever is sent twice counts once: tries that wait, too. */
static void test_lost_replies(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "fair");

    step_log_fail(&rig->log, "eval-acquire", DLOCK_AFTER, 2);
    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), 0);
    assert_int_equal(pair.grant[0].holds, 1);
    step_log_fail(&rig->log, "eval-acquire", DLOCK_AFTER, 2);
    assert_int_equal(lock_pair_take(&pair, 1, 50, 0), DLOCK_TIMEOUT);
    step_log_fail(&rig->log, "eval-release", DLOCK_AFTER, 2);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
    assert_int_equal(redis_server_number(rig->server, "EXISTS k"), 0);
    assert_int_equal(lock_pair_take(&pair, 1, 0, 0), 0);
    lock_pair_close(&pair);
}

/* "Don't know" leaves neither a lock nor a place in the queue. */
static void test_unknown_acquire(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "fair");

    step_log_fail(&rig->log, "eval-acquire", DLOCK_AFTER, STEP_LOG_ALWAYS);
    assert_int_equal(lock_pair_take(&pair, 0, 100, 0), DLOCK_UNKNOWN);
    step_log_fail(&rig->log, "eval-acquire", DLOCK_AFTER, 0);
    assert_int_equal(lock_pair_take(&pair, 1, 0, 0), 0);
    step_log_fail(&rig->log, "eval-acquire", DLOCK_AFTER, STEP_LOG_ALWAYS);
    assert_int_equal(lock_pair_take(&pair, 0, 100, 0), DLOCK_UNKNOWN);
    step_log_fail(&rig->log, "eval-acquire", DLOCK_AFTER, 0);
    assert_int_equal(lock_queue_length(rig), 0);
    assert_int_equal(lock_pair_give(&pair, 1), 0);
    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), 0);
    lock_pair_close(&pair);
}

/*
 * A release of which nothing was heard is asked for again: not before the session has
 * waited for the lock in vain, or has taken back an acquire.
 */
static void test_a_release_is_repeated_behind_another_command(void **state)
{
    static const char *const lost[] = {NULL, "eval-acquire"};
    struct lock_rig *rig = *state;

    for (size_t i = 0; i < COUNT_OF(lost); i++) {
        struct lock_pair pair = lock_pair_held(rig, "fair", 0);
        struct dlock_grant first = pair.grant[0];

        step_log_fail(&rig->log, "eval-release", DLOCK_AFTER, STEP_LOG_ALWAYS);
        assert_int_equal(lock_pair_give(&pair, 0), DLOCK_UNKNOWN);
        step_log_fail(&rig->log, "eval-release", DLOCK_AFTER, 0);
        assert_int_equal(lock_pair_take(&pair, 1, 0, 0), DLOCK_OK);
        if (lost[i] != NULL)
            step_log_fail(&rig->log, lost[i], DLOCK_AFTER, STEP_LOG_ALWAYS);
        assert_int_equal(lock_pair_take(&pair, 0, 50, 0),
                         lost[i] == NULL ? DLOCK_TIMEOUT : DLOCK_UNKNOWN);
        if (lost[i] != NULL)
            step_log_fail(&rig->log, lost[i], DLOCK_AFTER, 0);
        assert_int_equal(dlock_release(pair.session[0], &first, NULL),
                         DLOCK_OK);
        assert_int_equal(lock_pair_give(&pair, 1), DLOCK_OK);
        lock_pair_close(&pair);
    }
}

static void test_renewed_while_held(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair;

    rig->watchdog_lease_ms = LOCK_RIG_LEASE_MS;
    pair = lock_pair_open(rig, "fair");
    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), 0);
    assert_int_equal(lock_pair_take(&pair, 1, LOCK_RIG_LEASE_MS + 500, 0),
                     DLOCK_TIMEOUT);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
    lock_pair_close(&pair);
}

static void test_tokens_if_the_terms_ask(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "fair");
    uint64_t floor = UINT64_C(3) << 50; /* above the time */
    struct dlock_terms terms = {.fenced = true, .fence_floor = floor};
    struct dlock_grant grant;

    for (uint64_t i = 0; i < 6; i++) {
        struct dlock_session *session = pair.session[i % 2];

        assert_int_equal(dlock_acquire(session, "k", &terms, &grant, NULL), 0);
        assert_true(grant.token == floor + 1 + i);
        assert_int_equal(dlock_release(session, &grant, NULL), 0);
    }
    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), 0);
    assert_int_equal(pair.grant[0].token, 0);
    lock_pair_close(&pair);
}

#define TEST(name) cmocka_unit_test_setup(name, lock_rig_fresh)

static const struct CMUnitTest tests[] = {
    TEST(test_first_come_first_served),
    TEST(test_only_the_head_is_woken),
    TEST(test_a_try_does_not_overtake),
    TEST(test_reentry_passes_the_queue),
    TEST(test_who_waits),
    TEST(test_a_dead_waiter_does_not_block),
    TEST(test_timed_out_waiter_leaves_no_trace),
    TEST(test_giving_up_moves_no_deadline),
    TEST(test_a_head_that_gives_up_passes_the_turn_on),
    TEST(test_release_of_an_expired_lock),
    TEST(test_lost_replies),
    TEST(test_unknown_acquire),
    TEST(test_a_release_is_repeated_behind_another_command),
    TEST(test_renewed_while_held),
    TEST(test_tokens_if_the_terms_ask),
};
TEST_MAIN_WITHIN(tests, lock_rig_setup, lock_rig_teardown)
