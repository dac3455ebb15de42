/*
 * redlock while it is held: renewal, extension and tokens by the majority's
 * word. And redlock and multi while many want it at once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/node_rig.h"

enum { LONGEST_MS = NODE_RIG_LONGEST_MS, LEASE_MS = LOCK_RIG_LEASE_MS };

/* While it is held ---------------------------------------------------------------- */

/* On a busy machine votes may come too late to count, which is no yes: so once more. */
static void take(struct node_rig *rig)
{
    uint64_t until_ms = lock_rig_now_ms() + LOCK_RIG_LONG_MS;

    while (node_take(&rig->a, 0, 0) != DLOCK_OK)
        assert_true(lock_rig_now_ms() < until_ms);
}

static void test_renewed_by_the_majority(void **state)
{
    struct node_rig *rig = node_rig_redlock(state, 3, LEASE_MS);

    take(rig);
    node_rig_kill(rig, 0);
    /* It may not have heard of enough votes in time: that is no yes either. */
    assert_int_not_equal(node_take(&rig->b, LEASE_MS + 500, 0), DLOCK_OK);
    assert_int_equal(atomic_load(&rig->lost_n), 0);
    assert_in_range(node_left_ms(&rig->a), 1, LEASE_MS * 99 / 100 - 2);
    /* Hung, not dead: renewals still come in time. */
    node_rig_restart(rig, 0);
    node_rig_pause(rig, 0);
    lock_rig_sleep_ms(LEASE_MS + 500);
    assert_int_equal(atomic_load(&rig->lost_n), 0);
    node_rig_resume(rig, 0);
    /* Without a majority it is lost when its lease is over. */
    node_rig_kill(rig, 0);
    node_rig_kill(rig, 1);
    node_rig_await_lost(rig, 1);
    assert_int_equal(atomic_load(&rig->loss), DLOCK_LOSS_UNREACHABLE);
    assert_int_equal(node_left_ms(&rig->a), 0);
}

/* All servers take part, not the majority only. */
static void take_on_all(struct node_rig *rig)
{
    uint64_t until_ms = lock_rig_now_ms() + LOCK_RIG_LONG_MS;

    take(rig);
    while (node_rig_held(rig) < rig->n && lock_rig_now_ms() < until_ms) {
        assert_int_equal(node_give(&rig->a), DLOCK_OK);
        take(rig);
    }
}

static void test_lost_by_the_majority(void **state)
{
    struct node_rig *rig = node_rig_redlock(state, 3, LEASE_MS);

    take_on_all(rig);
    node_rig_ask(rig, 2, "DEL k");
    lock_rig_sleep_ms(LEASE_MS / 2);
    assert_int_equal(atomic_load(&rig->lost_n), 0);
    node_rig_ask(rig, 0, "DEL k");
    node_rig_await_lost(rig, 1);
    assert_int_equal(atomic_load(&rig->loss), DLOCK_LOSS_FLUSHED);
    assert_int_equal(node_give(&rig->a), DLOCK_LOST);
    assert_int_equal(node_rig_held(rig), 0);
}

/* More locks than go into one round, and a server that says nothing. */
static void test_many_are_renewed(void **state)
{
    struct node_rig *rig = node_rig_redlock(state, 3, LEASE_MS);
    struct dlock_grant grants[80];
    char name[16];

    for (int i = 0; i < 80; i++) {
        (void)snprintf(name, sizeof(name), "k%d", i);
        assert_int_equal(lock_rig_take(rig->a.session, name, 0, 0, &grants[i]),
                         0);
    }
    node_rig_pause(rig, 1);
    lock_rig_sleep_ms(2 * LEASE_MS);
    assert_int_equal(atomic_load(&rig->lost_n), 0);
    node_rig_resume(rig, 1);
    for (int i = 0; i < 80; i++)
        assert_int_equal(dlock_release(rig->a.session, &grants[i], NULL),
                         DLOCK_OK);
}

static void test_forced(void **state)
{
    struct node_rig *rig = node_rig_redlock(state, 3, LEASE_MS);
    struct dlock_grant before;

    take(rig);
    node_rig_kill(rig, 1);
    assert_int_equal(dlock_force_release(rig->b.session, "k", NULL), DLOCK_OK);
    assert_int_equal(node_rig_held(rig), 0);
    node_rig_await_lost(rig, 1);
    assert_int_equal(atomic_load(&rig->loss), DLOCK_LOSS_FORCED);
    assert_int_equal(node_give(&rig->a), DLOCK_LOST);
    /* The next grant is not ended by it. */
    take(rig);
    node_rig_ask(rig, 0, "DEL k");
    node_rig_ask(rig, 2, "DEL k");
    node_rig_await_lost(rig, 2);
    assert_int_equal(atomic_load(&rig->loss), DLOCK_LOSS_FLUSHED);
    /* Forced, and taken anew before the renewal: that is heard of, too. */
    assert_int_equal(node_give(&rig->a), DLOCK_LOST);
    take(rig);
    assert_int_equal(dlock_force_release(rig->b.session, "k", NULL), DLOCK_OK);
    before = rig->a.grant;
    take(rig);
    node_rig_await_lost(rig, 3);
    assert_int_equal(atomic_load(&rig->loss), DLOCK_LOSS_FORCED);
    assert_int_equal(dlock_release(rig->a.session, &before, NULL), DLOCK_LOST);
    assert_int_equal(node_give(&rig->a), DLOCK_OK);
}

static void test_extended_by_the_majority(void **state)
{
    struct node_rig *rig = node_rig_redlock(state, 3, LEASE_MS);

    assert_int_equal(node_take(&rig->a, 0, 1000), DLOCK_OK);
    node_rig_fail(rig, 0, "eval-renew", DLOCK_BEFORE, 1);
    assert_int_equal(
        dlock_extend(rig->a.session, &rig->a.grant, LONGEST_MS, NULL),
        DLOCK_OK);
    assert_in_range(node_left_ms(&rig->a), 1000, LONGEST_MS * 99 / 100 - 2);
    node_rig_mend(rig);
    node_rig_fail(rig, 0, "eval-renew", DLOCK_BEFORE, STEP_LOG_ALWAYS);
    node_rig_fail(rig, 1, "eval-renew", DLOCK_AFTER, STEP_LOG_ALWAYS);
    assert_int_equal(
        dlock_extend(rig->a.session, &rig->a.grant, LONGEST_MS, NULL),
        DLOCK_UNKNOWN);
    node_rig_mend(rig);
    node_rig_ask(rig, 1, "DEL k");
    node_rig_ask(rig, 2, "DEL k");
    assert_int_equal(
        dlock_extend(rig->a.session, &rig->a.grant, LONGEST_MS, NULL),
        DLOCK_LOST);
}

/*
 * Each time another pair of servers, and each server counts for itself: the
 * token rises only because the pair before has one of them in common.
 */
static void test_tokens_rise(void **state)
{
    struct node_rig *rig = node_rig_redlock(state, 3, LEASE_MS);
    struct dlock_terms terms = {.lease_ms = LONGEST_MS, .fenced = true};
    struct dlock_holder holder;
    struct dlock_grant inner;
    uint64_t last = 0;

    node_rig_ask(rig, 0, "SET {k}:dlock-fence 7");
    for (unsigned i = 0; i < 12; i++) {
        node_rig_fail(rig, (i / 2 + i) % 3, "eval-acquire", DLOCK_BEFORE, 1);
        assert_int_equal(
            dlock_acquire(rig->a.session, "k", &terms, &rig->a.grant, NULL), 0);
        assert_true(rig->a.grant.token > last);
        last = rig->a.grant.token;
        assert_int_equal(
            dlock_acquire(rig->a.session, "k", &terms, &inner, NULL), 0);
        assert_int_equal(inner.token, last);
        assert_int_equal(dlock_inspect(rig->a.session, "k", &holder, NULL), 0);
        assert_int_equal(holder.token, last);
        assert_int_equal(dlock_release(rig->a.session, &inner, NULL), 0);
        assert_int_equal(node_give(&rig->a), 0);
    }
}

/* A server that counts further, and whose answer was lost, goes on from there. */
static void test_a_token_lowers_no_counter(void **state)
{
    struct node_rig *rig = node_rig_redlock(state, 3, LEASE_MS);
    struct dlock_terms terms = {.lease_ms = LONGEST_MS, .fenced = true};

    node_rig_ask(rig, 0, "SET {k}:dlock-fence 6000000000000000");
    node_rig_ask(rig, 1, "SET {k}:dlock-fence 7000000000000000");
    node_rig_ask(rig, 2, "SET {k}:dlock-fence 8000000000000000");
    node_rig_fail(rig, 2, "eval-acquire", DLOCK_AFTER, 1);
    assert_int_equal(
        dlock_acquire(rig->a.session, "k", &terms, &rig->a.grant, NULL), 0);
    assert_true(rig->a.grant.token == 7000000000000001);
    redis_server_await(rig->servers[2], "HGET k token", "7000000000000001");
    assert_int_equal(
        redis_server_number(
            rig->servers[2],
            "EVAL \"return tonumber(redis.call('get', KEYS[1]))\" 1 "
            "{k}:dlock-fence"),
        8000000000000001);
    assert_int_equal(node_give(&rig->a), 0);
}

/* Many that want it --------------------------------------------------------------- */

struct rival {
    pthread_t thread;
    struct node_user user;
    atomic_int *inside;
    atomic_uint *turns_n;
    atomic_uint *crowds_n;
};

enum { TURNS_EACH = 10, RIVALS = 5 };

static void *compete(void *arg)
{
    struct rival *rival = arg;

    for (int turns = 0, tries = 0; turns < TURNS_EACH; turns++) {
        /* An answer that was lost on a busy machine is no turn. */
        while (node_take(&rival->user, 60000, 0) != DLOCK_OK)
            if (++tries > TURNS_EACH)
                return NULL;
        if (atomic_fetch_add(rival->inside, 1) != 0)
            atomic_fetch_add(rival->crowds_n, 1);
        lock_rig_sleep_ms(1);
        atomic_fetch_sub(rival->inside, 1);
        atomic_fetch_add(rival->turns_n, 1);
        (void)node_give(&rival->user);
    }
    return NULL;
}

/* One at a time, and all of them get it. */
static void contend(struct node_rig *rig, const char *strategy)
{
    atomic_int inside = 0;
    atomic_uint turns_n = 0, crowds_n = 0;
    struct rival rivals[RIVALS];

    for (int i = 0; i < RIVALS; i++) {
        rivals[i] = (struct rival){.user = node_rig_user(rig, strategy),
                                   .inside = &inside,
                                   .turns_n = &turns_n,
                                   .crowds_n = &crowds_n};
        assert_int_equal(
            pthread_create(&rivals[i].thread, NULL, compete, &rivals[i]), 0);
    }
    for (int i = 0; i < RIVALS; i++) {
        assert_int_equal(pthread_join(rivals[i].thread, NULL), 0);
        node_user_close(&rivals[i].user);
    }
    assert_int_equal(atomic_load(&crowds_n), 0);
    assert_int_equal(atomic_load(&turns_n), RIVALS * TURNS_EACH);
    assert_int_equal(node_rig_held(rig), 0);
}

static void test_contention(void **state)
{
    contend(node_rig_redlock(state, 5, LEASE_MS), "redlock");
    contend(node_rig_redlock(state, 3, LEASE_MS), "multi");
}

static void test_contention_with_one_down(void **state)
{
    struct node_rig *rig = node_rig_redlock(state, 3, LEASE_MS);

    node_rig_kill(rig, 0);
    contend(rig, "redlock");
}

/* Of two and of four, half is not enough; but it ends all the same. */
static void test_even_numbers_settle(void **state)
{
    struct node_rig *rig = node_rig_redlock(state, 4, LEASE_MS);

    contend(rig, "redlock");
    node_rig_ask(rig, 0, "HSET k somebody 1");
    node_rig_ask(rig, 3, "HSET k somebody 1");
    assert_int_equal(node_take(&rig->a, 300, 0), DLOCK_TIMEOUT);
    assert_int_equal(node_rig_held(rig), 2);
    node_rig_ask(rig, 3, "DEL k");
    assert_int_equal(node_take(&rig->a, 300, 0), DLOCK_OK);
    contend(node_rig_redlock(state, 2, LEASE_MS), "redlock");
}

enum { LONGEST_PAUSE_MS = 33, UNDO_MS = 60, WAIT_MS = 1500 };

/* The tries of one who gets one vote of three each time. */
struct tries {
    struct node_rig *rig;
    uint64_t undone_at_ms; /* 0 = not yet */
    unsigned n;
    uint64_t until_ms; /* the end of the wait cuts the last pause short, ... */
    uint64_t shortest_ms; /* ... and the beginning of watching the first ones */
};

static void note_try(void *ctx)
{
    struct tries *tries = ctx;
    uint64_t now_ms = lock_rig_now_ms();
    uint64_t pause_ms = now_ms - tries->undone_at_ms;

    tries->n++;
    if (tries->n > 3 && now_ms < tries->until_ms &&
        pause_ms < tries->shortest_ms)
        tries->shortest_ms = pause_ms;
    node_rig_call(tries->rig, 1, "eval-acquire", DLOCK_BEFORE, note_try, tries);
}

static void undo_slowly(void *ctx)
{
    struct tries *tries = ctx;

    lock_rig_sleep_ms(UNDO_MS);
    tries->undone_at_ms = lock_rig_now_ms();
    node_rig_call(tries->rig, 1, "eval-undo", DLOCK_AFTER, undo_slowly, tries);
}

/* A try that took longer than the pause would leave nothing of it. */
static void test_pause_follows_the_try(void **state)
{
    struct node_rig *rig = node_rig_redlock(state, 3, LEASE_MS);
    struct tries tries = {.rig = rig, .shortest_ms = UINT64_MAX};

    rig->clock = &lock_rig_long_pauses;
    node_rig_open(rig, "redlock");
    node_rig_ask(rig, 0, "HSET k somebody 1");
    node_rig_ask(rig, 2, "HSET k somebody 1");
    node_rig_call(rig, 1, "eval-acquire", DLOCK_BEFORE, note_try, &tries);
    node_rig_call(rig, 1, "eval-undo", DLOCK_AFTER, undo_slowly, &tries);
    tries.until_ms = lock_rig_now_ms() + WAIT_MS;
    assert_int_equal(node_take(&rig->a, WAIT_MS, 0), DLOCK_TIMEOUT);
    assert_in_range(tries.n, 5, WAIT_MS / (UNDO_MS + LONGEST_PAUSE_MS) + 4);
    assert_in_range(tries.shortest_ms, LONGEST_PAUSE_MS, LOCK_RIG_PROMPT_MS);
}

/* Woken by the first server; if that hangs, after a while. */
static void test_woken(void **state)
{
    struct node_rig *rig = node_rig_redlock(state, 3, LEASE_MS);

    assert_in_range(node_rig_wait_ms(rig), 250, LOCK_RIG_PROMPT_MS);
    /* Three servers a try, and a try or two more until all have let go. */
    assert_in_range(step_log_count(&rig->log, "eval-acquire"), 9, 24);
    for (unsigned i = 0; i < 3; i++) {
        node_rig_pause(rig, i);
        assert_in_range(node_rig_wait_ms(rig), 250, LOCK_RIG_PROMPT_MS);
        node_rig_resume(rig, i);
    }
}

/* A wait holds through an outage of more servers than may be away. */
struct quorum_wait {
    struct node_user *user;
    enum dlock_status status;
};

static void *wait_for_quorum(void *arg)
{
    struct quorum_wait *wait = arg;

    wait->status = node_take(wait->user, 60000, 0);
    return NULL;
}

static void take_over_an_outage(struct node_rig *rig)
{
    struct quorum_wait wait = {.user = &rig->a};
    pthread_t thread;

    node_rig_pause(rig, 0);
    node_rig_pause(rig, 1);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_quorum, &wait), 0);
    lock_rig_sleep_ms(1000);
    node_rig_resume(rig, 0);
    node_rig_resume(rig, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(wait.status, DLOCK_OK);
    assert_int_equal(node_give(&rig->a), DLOCK_OK);
    assert_int_equal(node_take(&rig->b, LOCK_RIG_LONG_MS, 0), DLOCK_OK);
    assert_int_equal(node_give(&rig->b), DLOCK_OK);
}

static void test_wait_over_an_outage(void **state)
{
    struct node_rig *rig = node_rig_redlock(state, 3, LEASE_MS);

    rig->command_timeout_ms = 150;
    node_rig_open(rig, "redlock");
    take_over_an_outage(rig);
    node_rig_open(rig, "multi");
    take_over_an_outage(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_renewed_by_the_majority),
        cmocka_unit_test(test_lost_by_the_majority),
        cmocka_unit_test(test_many_are_renewed),
        cmocka_unit_test(test_forced),
        cmocka_unit_test(test_extended_by_the_majority),
        cmocka_unit_test(test_tokens_rise),
        cmocka_unit_test(test_a_token_lowers_no_counter),
        cmocka_unit_test(test_contention),
        cmocka_unit_test(test_contention_with_one_down),
        cmocka_unit_test(test_even_numbers_settle),
        cmocka_unit_test(test_pause_follows_the_try),
        cmocka_unit_test(test_woken),
        cmocka_unit_test(test_wait_over_an_outage),
    };

    return cmocka_run_group_tests(tests, node_rig_setup, node_rig_teardown);
}
