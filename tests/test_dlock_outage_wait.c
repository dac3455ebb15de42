/*
 * An outage in the middle of a wait, an extend or a release: the wait goes on, what
 * a try has won without an answer is known again, and it ends when it has to.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/lock_rig.h"

/* The wait goes on over an outage, and at its end the true cause is told. */
struct waiting {
    struct lock_single *party;
    unsigned wait_ms;
    enum dlock_status status;
    struct dlock_error error;
    uint64_t done_at_ms;
};

static void *wait_for_it(void *arg)
{
    struct waiting *waiting = arg;
    struct dlock_terms terms = {.wait_ms = waiting->wait_ms};

    waiting->status = dlock_acquire(waiting->party->session, "k", &terms,
                                    &waiting->party->grant, &waiting->error);
    waiting->done_at_ms = lock_rig_now_ms();
    return NULL;
}

/* A waiter begins, and its server is killed. */
static void kill_under(struct lock_single *holder, struct waiting *waiting,
                       pthread_t *thread)
{
    unsigned looks_n;

    assert_int_equal(lock_single_take(holder, 0), DLOCK_OK);
    looks_n = step_log_count(&rig.log, "eval-acquire");
    assert_int_equal(pthread_create(thread, NULL, wait_for_it, waiting), 0);
    step_log_await(&rig.log, "eval-acquire", looks_n + 2);
    redis_server_kill(rig.server);
}

static void test_server_dies_under_a_waiter(NO_STATE)
{
    static const char *const names[] = {"redisson", "fenced", "fair"};

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct lock_single holder = lock_single_open(names[i]);
        struct lock_single waiter = lock_single_open(names[i]);
        struct waiting waiting = {.party = &waiter, .wait_ms = 1500};
        uint64_t began_at_ms = lock_rig_now_ms();
        pthread_t thread;

        kill_under(&holder, &waiting, &thread);
        assert_int_equal(pthread_join(thread, NULL), 0);
        /* Not sent, or sent into a connection that was just breaking. */
        assert_true(waiting.status == DLOCK_UNREACHABLE ||
                    waiting.status == DLOCK_UNKNOWN);
        assert_null(strstr(waiting.error.text, "no time left"));
        assert_non_null(strstr(waiting.error.text, "redis"));
        assert_in_range(waiting.done_at_ms - began_at_ms, 1500,
                        LOCK_RIG_PROMPT_MS);
        redis_server_restart(rig.server);
        lock_single_close(&holder);
        lock_single_close(&waiter);
    }
}

/* And it ends at once when nobody wants it any more. */
static void test_cancel_in_an_outage(NO_STATE)
{
    static const char *const names[] = {"redisson", "fenced", "fair"};

    for (size_t i = 0; i < 2 * COUNT_OF(names); i++) {
        struct lock_single holder = lock_single_open(names[i / 2]);
        struct lock_single waiter = lock_single_open(names[i / 2]);
        struct waiting waiting = {.party = &waiter, .wait_ms = 60000};
        uint64_t ended_at_ms;
        pthread_t thread;

        kill_under(&holder, &waiting, &thread);
        lock_rig_sleep_ms(300);
        ended_at_ms = lock_rig_now_ms();
        if (i % 2 == 0)
            dlock_cancel(waiter.session);
        else
            dlock_end_waits(waiter.client);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(waiting.status == DLOCK_TIMEOUT ||
                    waiting.status == DLOCK_UNKNOWN);
        assert_in_range(waiting.done_at_ms - ended_at_ms, 0,
                        LOCK_RIG_PROMPT_MS);
        redis_server_restart(rig.server);
        lock_single_close(&holder);
        lock_single_close(&waiter);
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
    struct lock_single holder = lock_single_open("redisson");
    struct lock_single waiter = lock_single_open("redisson");

    assert_int_equal(lock_single_take(&holder, 0), DLOCK_OK);
    step_log_fail(&rig.log, "eval-acquire", DLOCK_AFTER, 3);
    assert_int_equal(lock_single_take(&waiter, LOCK_RIG_TIMEOUT_MS),
                     DLOCK_TIMEOUT);
    assert_int_equal(step_log_count(&rig.log, "eval-withdraw"), 1);
    assert_int_equal(lock_single_give(&holder), DLOCK_OK);
}

/* What a server refuses for may pass, or be put right, within the wait. */
static void outlast(const char *wrong, const char *right)
{
    struct lock_single party = lock_single_open("fenced");
    struct waiting waiting = {.party = &party, .wait_ms = 60000};
    pthread_t thread;

    lock_rig_tell(wrong);
    step_log_reset(&rig.log);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_it, &waiting), 0);
    step_log_await(&rig.log, "eval-acquire", 3);
    lock_rig_tell(right);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(waiting.status, DLOCK_OK);
    assert_int_equal(lock_single_give(&party), 0);
}

static void test_refusals_are_outlasted(NO_STATE)
{
    outlast("SET k 1", "DEL k");
    outlast("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE");
    outlast("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0");
}

/* A release and an extend have two command timeouts. */
static void *extend_it(void *arg)
{
    struct waiting *waiting = arg;

    waiting->status =
        dlock_extend(waiting->party->session, &waiting->party->grant, 60000,
                     &waiting->error);
    return NULL;
}

static void test_extend_and_release_over_a_restart(NO_STATE)
{
    struct waiting waiting = {.status = DLOCK_OK};
    struct lock_single party;
    pthread_t thread;

    rig.command_timeout_ms = 5000; /* a busy machine starts it in less */
    party = lock_single_open("fenced");
    waiting.party = &party;
    assert_int_equal(lock_rig_take(party.session, "k", 0, 60000, &party.grant),
                     DLOCK_OK);
    redis_server_kill(rig.server);
    assert_int_equal(pthread_create(&thread, NULL, extend_it, &waiting), 0);
    step_log_await(&rig.log, "eval-renew", 2);
    redis_server_restart(rig.server);
    assert_int_equal(pthread_join(thread, NULL), 0);
    /* It has lost its data: that is an answer. */
    assert_int_equal(waiting.status, DLOCK_LOST);
    step_log_fail(&rig.log, "eval-release", DLOCK_BEFORE, 2);
    assert_int_equal(lock_single_give(&party), DLOCK_LOST);
}

/* Ending a wait while nothing is answered ---------------------------------------- */

struct ended_wait {
    struct lock_single party;
    enum dlock_status status;
};

static void *wait_long(void *arg)
{
    struct ended_wait *wait = arg;

    wait->status = lock_rig_take(wait->party.session, "k", 60000, 60000,
                                 &wait->party.grant);
    return NULL;
}

static void end_by_cancel(struct lock_single *party)
{
    dlock_cancel(party->session);
}

static void end_by_client(struct lock_single *party)
{
    dlock_end_waits(party->client);
}

/* Milliseconds from END to the end of an acquire that a frozen server keeps. */
static uint64_t ends_within(const char *strategy,
                            void (*end)(struct lock_single *party))
{
    struct ended_wait wait = {.party = lock_single_open(strategy)};
    unsigned sent_n;
    uint64_t began_ms;
    pthread_t thread;

    /* Everybody has been here: connections and scripts are there. */
    wait_long(&wait);
    assert_int_equal(dlock_release(wait.party.session, &wait.party.grant, NULL),
                     DLOCK_OK);
    redis_server_pause(rig.server);
    sent_n = step_log_count(&rig.log, "eval-acquire");
    assert_int_equal(pthread_create(&thread, NULL, wait_long, &wait), 0);
    step_log_await(&rig.log, "eval-acquire", sent_n + 1);
    began_ms = lock_rig_now_ms();
    end(&wait.party);
    assert_int_equal(pthread_join(thread, NULL), 0);
    began_ms = lock_rig_now_ms() - began_ms;
    assert_int_equal(wait.status, DLOCK_UNKNOWN);
    redis_server_resume(rig.server);
    lock_single_close(&wait.party);
    return began_ms;
}

/* The try under way is not sent again for somebody who does not want it. */
static void test_a_wait_ends_on_a_frozen_server(NO_STATE)
{
    enum { TIMEOUT_MS = LOCK_RIG_TIMEOUT_MS, LATE_MS = LOCK_RIG_PROMPT_MS };

    rig.command_timeout_ms = TIMEOUT_MS;
    assert_in_range(ends_within("fenced", end_by_cancel), 0,
                    TIMEOUT_MS + LATE_MS);
    assert_in_range(ends_within("fenced", end_by_client), 0,
                    TIMEOUT_MS + LATE_MS);
    assert_in_range(ends_within("fair", end_by_cancel), 0,
                    2 * TIMEOUT_MS + LATE_MS);
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
