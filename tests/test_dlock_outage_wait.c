/*
 * An outage in the middle of a wait, an extend or a release: the wait goes on, what
 * a try has won without an answer is known again, and it ends when it has to.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/lock_waiter.h"

static struct lock_pair pair;
static struct lock_waiter waiter;

/* The second of the pair begins to wait for what the first has, and the server is
 * killed. The wait goes on, and at its end the true cause is told. */
static void kill_under(const char *strategy, unsigned wait_ms)
{
    unsigned looks_n;

    pair = lock_pair_held(strategy, 0);
    waiter = (struct lock_waiter){
        .session = pair.session[1], .wait_ms = wait_ms, .keep = true};
    looks_n = step_log_count(&rig.log, "eval-acquire");
    lock_waiter_start(&waiter);
    step_log_await(&rig.log, "eval-acquire", looks_n + 2);
    redis_server_kill(rig.server);
}

static void test_server_dies_under_a_waiter(NO_STATE)
{
    static const char *const names[] = {"redisson", "fenced", "fair"};

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        uint64_t began_at_ms = lock_rig_now_ms();

        kill_under(names[i], 1500);
        lock_waiter_join(&waiter);
        /* Not sent, or sent into a connection that was just breaking. */
        assert_true(waiter.status == DLOCK_UNREACHABLE ||
                    waiter.status == DLOCK_UNKNOWN);
        assert_null(strstr(waiter.error.text, "no time left"));
        assert_non_null(strstr(waiter.error.text, "redis"));
        assert_in_range(waiter.done_at_ms - began_at_ms, 1500,
                        LOCK_RIG_PROMPT_MS);
        redis_server_restart(rig.server);
        lock_pair_close(&pair);
    }
}

/* By the session, or by its client. */
static void end_wait(bool by_client)
{
    if (by_client)
        dlock_end_waits(pair.client[1]);
    else
        dlock_cancel(pair.session[1]);
}

/* And it ends at once when nobody wants it any more. */
static void test_cancel_in_an_outage(NO_STATE)
{
    static const char *const names[] = {"redisson", "fenced", "fair"};

    for (size_t i = 0; i < 2 * COUNT_OF(names); i++) {
        uint64_t ended_at_ms;

        kill_under(names[i / 2], 60000);
        lock_rig_sleep_ms(300);
        ended_at_ms = lock_rig_now_ms();
        end_wait(i % 2 != 0);
        lock_waiter_join(&waiter);
        assert_true(waiter.status == DLOCK_TIMEOUT ||
                    waiter.status == DLOCK_UNKNOWN);
        assert_in_range(waiter.done_at_ms - ended_at_ms, 0, LOCK_RIG_PROMPT_MS);
        redis_server_restart(rig.server);
        lock_pair_close(&pair);
    }
}

/* A try without an answer, and the next one --------------------------------------- */

/* What the first try has won is known again, and counts from the first one. */
static void test_won_by_a_try_without_an_answer(NO_STATE)
{
    static const char *const names[] = {"redisson", "fenced", "fair"};

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct lock_single party = lock_single_open(names[i]);
        long long server_ms;

        step_log_fail(&rig.log, "eval-acquire", DLOCK_AFTER, 9);
        assert_int_equal(
            lock_rig_take(party.session, "k", 60000, 20000, &party.grant),
            DLOCK_OK);
        server_ms = lock_rig_ask("PTTL k");
        /* Three tries, and pauses of 15 ms at least; two clocks of whole ms. */
        assert_in_range(dlock_remaining_ms(party.session, &party.grant), 1,
                        server_ms + 2);
        assert_int_equal(party.grant.holds, 1);
        assert_int_equal(step_log_count(&rig.log, "eval-withdraw"), 0);
        assert_int_equal(lock_single_give(&party), 0);
        assert_false(lock_rig_is_held());
        lock_single_close(&party);
    }
}

/* A lock that counts its takings has counted the lost one: it is not ours. */
static void test_counted_without_an_answer(NO_STATE)
{
    struct lock_single party = lock_single_open("spin");

    step_log_fail(&rig.log, "eval-take", DLOCK_AFTER, 2);
    assert_int_equal(lock_single_take(&party, 60000), DLOCK_OK);
    assert_int_equal(party.grant.holds, 1);
    assert_int_equal(lock_single_give(&party), DLOCK_OK);
    assert_false(lock_rig_is_held());
}

/* The key in the way may be our own: that is a "don't know", not a "no". */
static void test_in_its_own_way(NO_STATE)
{
    struct lock_single party = lock_single_open("token-lua");

    step_log_fail(&rig.log, "set", DLOCK_AFTER, 1);
    assert_int_equal(
        lock_rig_take(party.session, "k", 100, 60000, &party.grant),
        DLOCK_UNKNOWN);
    step_log_fail(&rig.log, "set", DLOCK_AFTER, 1);
    lock_rig_tell("DEL k");
    assert_int_equal(
        lock_rig_take(party.session, "k", LOCK_RIG_LONG_MS, 2000, &party.grant),
        DLOCK_OK);
    assert_in_range(dlock_remaining_ms(party.session, &party.grant), 1, 2000);
}

/* Whoever was told no after that has asked in vain, and leaves nothing behind. */
static void test_no_after_a_try_without_an_answer(NO_STATE)
{
    pair = lock_pair_held("redisson", 0);
    step_log_fail(&rig.log, "eval-acquire", DLOCK_AFTER, 3);
    assert_int_equal(lock_pair_take(&pair, 1, LOCK_RIG_TIMEOUT_MS, 0),
                     DLOCK_TIMEOUT);
    assert_int_equal(step_log_count(&rig.log, "eval-withdraw"), 1);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
}

/* What a server refuses for may pass, or be put right, within the wait. */
static void outlast(const char *wrong, const char *right)
{
    struct lock_single party = lock_single_open("fenced");

    waiter = (struct lock_waiter){.session = party.session, .wait_ms = 60000};
    lock_rig_tell(wrong);
    step_log_reset(&rig.log);
    lock_waiter_start(&waiter);
    step_log_await(&rig.log, "eval-acquire", 3);
    lock_rig_tell(right);
    lock_waiter_join(&waiter);
    assert_int_equal(waiter.status, DLOCK_OK);
    assert_false(lock_rig_is_held());
}

static void test_refusals_are_outlasted(NO_STATE)
{
    outlast("SET k 1", "DEL k");
    outlast("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE");
    outlast("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0");
}

/* A release and an extend have two command timeouts. */
static void *extend_it(void *status)
{
    *(enum dlock_status *)status = lock_pair_extend(&pair, 0, 60000);
    return NULL;
}

static void test_extend_and_release_over_a_restart(NO_STATE)
{
    enum dlock_status status = DLOCK_OK;
    pthread_t thread;

    rig.command_timeout_ms = 5000; /* a busy machine starts it in less */
    pair = lock_pair_held("fenced", 60000);
    redis_server_kill(rig.server);
    assert_int_equal(pthread_create(&thread, NULL, extend_it, &status), 0);
    step_log_await(&rig.log, "eval-renew", 2);
    redis_server_restart(rig.server);
    assert_int_equal(pthread_join(thread, NULL), 0);
    /* It has lost its data: that is an answer. */
    assert_int_equal(status, DLOCK_LOST);
    step_log_fail(&rig.log, "eval-release", DLOCK_BEFORE, 2);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_LOST);
}

/* Ending a wait while nothing is answered ---------------------------------------- */

/* Milliseconds from the end of a wait to that of its acquire, which a frozen server
 * keeps. */
static uint64_t ends_within(const char *strategy, bool by_client)
{
    uint64_t began_ms;
    unsigned sent_n;

    pair = lock_pair_open(strategy);
    waiter = (struct lock_waiter){
        .session = pair.session[1], .wait_ms = 60000, .lease_ms = 60000};
    /* Everybody has been here: connections and scripts are there. */
    assert_int_equal(lock_pair_take(&pair, 1, 60000, 60000), DLOCK_OK);
    assert_int_equal(lock_pair_give(&pair, 1), DLOCK_OK);
    redis_server_pause(rig.server);
    sent_n = step_log_count(&rig.log, "eval-acquire");
    lock_waiter_start(&waiter);
    step_log_await(&rig.log, "eval-acquire", sent_n + 1);
    began_ms = lock_rig_now_ms();
    end_wait(by_client);
    lock_waiter_join(&waiter);
    assert_int_equal(waiter.status, DLOCK_UNKNOWN);
    redis_server_resume(rig.server);
    lock_pair_close(&pair);
    return waiter.done_at_ms - began_ms;
}

/* The try under way is not sent again for somebody who does not want it. */
static void test_a_wait_ends_on_a_frozen_server(NO_STATE)
{
    enum { TIMEOUT_MS = LOCK_RIG_TIMEOUT_MS, LATE_MS = LOCK_RIG_PROMPT_MS };

    rig.command_timeout_ms = TIMEOUT_MS;
    assert_in_range(ends_within("fenced", false), 0, TIMEOUT_MS + LATE_MS);
    assert_in_range(ends_within("fenced", true), 0, TIMEOUT_MS + LATE_MS);
    assert_in_range(ends_within("fair", false), 0, 2 * TIMEOUT_MS + LATE_MS);
}

static const struct CMUnitTest tests[] = {
    LOCK_TEST(test_server_dies_under_a_waiter),
    LOCK_TEST(test_cancel_in_an_outage),
    LOCK_TEST(test_won_by_a_try_without_an_answer),
    LOCK_TEST(test_counted_without_an_answer),
    LOCK_TEST(test_in_its_own_way),
    LOCK_TEST(test_no_after_a_try_without_an_answer),
    LOCK_TEST(test_refusals_are_outlasted),
    LOCK_TEST(test_extend_and_release_over_a_restart),
    LOCK_TEST(test_a_wait_ends_on_a_frozen_server),
};
LOCK_RIG_MAIN(tests)
