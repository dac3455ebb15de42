/*
 * An outage in the middle of a wait, an extend or a release: the wait goes on, what
 * a try has won without an answer is known again, and it ends when it has to.
 */
#include <string.h>

#include "tests/support/lock_story.h"
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

static const struct lock_story stories[] = {
    {"a wait ends when nobody wants it any more", "redisson fenced fair",
     "a takes; forget; & b takes wait=60000 -> timeout|unknown; "
     "await eval-acquire 2; server kill; sleep 300; clock; b cancels; join; "
     "took 0..prompt; server restart"},
    {"nor any of the client", "redisson fenced fair",
     "a takes; forget; & b takes wait=60000 -> timeout|unknown; "
     "await eval-acquire 2; server kill; sleep 300; clock; b stops; join; "
     "took 0..prompt; server restart"},
    /* The try under way is not sent again for somebody who does not want it. A first
     * acquire, because connections and scripts have to be there. */
    {"a wait ends on a frozen server", "fenced fair",
     "commands timeout; b takes 60000 wait=60000; b gives; server pause; "
     "forget; "
     "& b takes 60000 wait=60000 -> unknown; await eval-acquire 1; clock; "
     "b cancels; join; took 0..prompt+1500; server resume"},
    {"and those of the client", "fenced",
     "commands timeout; b takes 60000 wait=60000; b gives; server pause; "
     "forget; "
     "& b takes 60000 wait=60000 -> unknown; await eval-acquire 1; clock; "
     "b stops; join; took 0..prompt+1500; server resume"},
    {"a lock that counts its takings has counted the lost one: it is not ours",
     "spin",
     "fail eval-take after 2; a takes wait=60000 holds=1; a gives; free"},
    {"the key in the way may be our own: that is no \"no\"", "token-lua",
     "fail set after 1; a takes 60000 wait=100 -> unknown; fail set after 1; "
     "DEL k; a takes 2000 wait=long; a has left=1..2000"},
    {"who was told no after a lost answer leaves nothing behind", "redisson",
     "a takes; fail eval-acquire after 3; b takes wait=timeout -> timeout; "
     "steps eval-withdraw 1; a gives"},
    /* It may pass, or be put right, within the wait. */
    {"what a server refuses for is outlasted", "fenced",
     "SET k 1; & a takes wait=60000; await eval-acquire 3; DEL k; join; a "
     "gives; "
     "REPLICAOF 127.0.0.1 1; forget; & a takes wait=60000; await eval-acquire "
     "3; "
     "REPLICAOF NO ONE; join; a gives; "
     "CONFIG SET maxmemory 1; forget; & a takes wait=60000; "
     "await eval-acquire 3; CONFIG SET maxmemory 0; join; a gives; free"},
    /* They have two command timeouts: a busy machine starts a server in less. It has
     * lost its data, which is an answer. */
    {"an extend and a release over a restart", "fenced",
     "commands 5000; a takes 60000; server kill; & a extends 60000 -> lost; "
     "await eval-renew 2; server restart; join; fail eval-release before 2; "
     "a gives -> lost"},
};
LOCK_STORIES_TEST

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_stories),
    LOCK_TEST(test_server_dies_under_a_waiter),
    LOCK_TEST(test_won_by_a_try_without_an_answer),
};
LOCK_RIG_MAIN(tests)
