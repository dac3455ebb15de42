/*
 * The textbook ladder, lesson by lesson. Each test shows a failure on the rung
 * that is there to show it, and on the next one that it is gone. The numbers
 * are those of the laboratory's experiments.
 *
 * Nothing here waits for luck: leases are ended by hand, threads are stopped at
 * a step, and a crash is a session that is closed without a release.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/lock_rig.h"

#define NAME "stock:1"

/*
 * A lease that is renewed: long enough for a busy machine to do so in time. A
 * watchdog or guard that has renewed it four times has outlived it.
 */
enum { RENEWED_LEASE_MS = 300, RENEWALS = 4 };

/* Two processes, as far as a lock can tell, and a lease that never ends. */
#define OPEN(pair, strategy)                                                   \
    struct lock_pair pair = lock_pair_open(*state, strategy)

static enum dlock_status take(struct dlock_session *session,
                              struct dlock_grant *grant)
{
    return lock_rig_take(session, NAME, 0, 5000, grant);
}

static enum dlock_status give(struct dlock_session *session,
                              const struct dlock_grant *grant)
{
    return dlock_release(session, grant, NULL);
}

static long long ask(void **state, const char *command)
{
    const struct lock_rig *rig = *state;

    return redis_server_number(rig->server, command);
}

/* What would take a sleep, made by hand. */
static void end_lease(void **state)
{
    assert_int_equal(ask(state, "DEL " NAME), 1);
}

static bool is_held(void **state)
{
    return ask(state, "EXISTS " NAME) == 1;
}

static unsigned steps(void **state, const char *name)
{
    struct lock_rig *rig = *state;

    return step_log_count(&rig->log, name);
}

/* The holder dies: nobody releases. */
static void die(struct lock_pair *pair, int who)
{
    dlock_session_close(pair->session[who]);
    pair->session[who] = lock_rig_session(pair->client[who]);
}

/* 04: an error under the lock ------------------------------------------------- */

static void test_04_the_exception(void **state)
{
    struct dlock_grant grant;
    OPEN(pair, "setnx");

    assert_int_equal(take(pair.session[0], &grant), DLOCK_OK);
    assert_int_equal(dlock_abandon(pair.session[0], &grant, NULL), DLOCK_OK);
    assert_int_equal(steps(state, "del"), 0);
    assert_int_equal(lock_rig_take(pair.session[1], NAME, 150, 50, &grant),
                     DLOCK_TIMEOUT);
    assert_int_equal(ask(state, "PTTL " NAME), -1);
    lock_pair_close(&pair);

    end_lease(state);
    pair = lock_pair_open(*state, "setnx-finally");
    assert_int_equal(take(pair.session[0], &grant), DLOCK_OK);
    assert_int_equal(dlock_abandon(pair.session[0], &grant, NULL), DLOCK_OK);
    assert_int_equal(steps(state, "del"), 1);
    assert_int_equal(take(pair.session[1], &grant), DLOCK_OK);
    lock_pair_close(&pair);
}

/* Every lock but the first gives back when the work has failed. */
static void test_04_abandon_is_release_for_all_others(void **state)
{
    static const char *const names[] = {"setnx-expire", "token", "guard-thread",
                                        "reentrant",    "mkdir", "redisson"};
    struct dlock_grant grant = {.name = ""};

    assert_int_equal(dlock_abandon(NULL, &grant, NULL), DLOCK_MISUSE);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        OPEN(pair, names[i]);

        assert_int_equal(take(pair.session[0], &grant), DLOCK_OK);
        assert_int_equal(dlock_abandon(pair.session[0], &grant, NULL),
                         DLOCK_OK);
        assert_int_equal(take(pair.session[1], &grant), DLOCK_OK);
        assert_int_equal(give(pair.session[1], &grant), DLOCK_OK);
        lock_pair_close(&pair);
    }
}

/* 05: the `finally` of somebody who never had it ------------------------------ */

/* Whether a loser's try leaves the winner alone. WAIT_MS: how he tries. */
static bool winner_is_safe(void **state, const char *strategy, unsigned wait_ms)
{
    struct dlock_grant winner;
    struct dlock_grant loser;
    bool safe;
    OPEN(pair, strategy);

    assert_int_equal(take(pair.session[0], &winner), DLOCK_OK);
    assert_int_equal(
        lock_rig_take(pair.session[1], NAME, wait_ms, 5000, &loser),
        wait_ms > 0 ? DLOCK_TIMEOUT : DLOCK_BUSY);
    /* The winner is still inside: is there room for a second one? */
    safe = take(pair.session[1], &loser) == DLOCK_BUSY;
    lock_pair_close(&pair);
    (void)ask(state, "DEL " NAME);
    return safe;
}

static void test_05_the_losers_finally(void **state)
{
    assert_true(winner_is_safe(state, "setnx", 0));
    assert_false(winner_is_safe(state, "setnx-finally", 0));
    assert_false(winner_is_safe(state, "setnx-finally", 20));
    assert_true(winner_is_safe(state, "setnx-expire", 0));
    assert_true(winner_is_safe(state, "setnx-expire", 20));
}

/* A waiter's looks are no failed acquires: the `finally` comes at the end. */
static void test_05_waiting_is_not_losing(void **state)
{
    struct lock_rig *rig = *state;
    struct dlock_grant grant;
    OPEN(pair, "setnx-finally");

    assert_int_equal(take(pair.session[0], &grant), DLOCK_OK);
    step_log_reset(&rig->log);
    assert_int_equal(lock_rig_take(pair.session[1], NAME, 20, 0, &grant),
                     DLOCK_TIMEOUT);
    assert_true(steps(state, "set-nx") > 1);
    assert_int_equal(steps(state, "del"), 1);
    lock_pair_close(&pair);
}

/* 06: the holder crashes ------------------------------------------------------ */

/* Whether somebody gets in after the holder has died, within lease and more. */
static bool outlives_crash(void **state, const char *strategy)
{
    struct dlock_grant grant;
    bool got_in;
    OPEN(pair, strategy);

    assert_int_equal(lock_rig_take(pair.session[0], NAME, 0, 60, &grant),
                     DLOCK_OK);
    die(&pair, 0);
    got_in = lock_rig_take(pair.session[1], NAME, 300, 60, &grant) == DLOCK_OK;
    lock_pair_close(&pair);
    (void)ask(state, "DEL " NAME);
    return got_in;
}

static void test_06_the_crash(void **state)
{
    assert_false(outlives_crash(state, "setnx"));
    assert_false(outlives_crash(state, "setnx-finally"));
    assert_true(outlives_crash(state, "setnx-expire"));
    assert_true(outlives_crash(state, "set-nx-px"));
}

/* 07: between SETNX and EXPIRE ------------------------------------------------ */

/* Dies around STEP of its acquire; whether the lock comes free again. */
static bool outlives_half_a_take(void **state, const char *strategy,
                                 const char *step, enum dlock_phase phase)
{
    struct lock_rig *rig = *state;
    struct dlock_grant grant;
    bool got_in;
    OPEN(pair, strategy);

    step_log_fail(&rig->log, step, phase, 1);
    assert_int_equal(lock_rig_take(pair.session[0], NAME, 0, 60, &grant),
                     DLOCK_UNKNOWN);
    assert_true(is_held(state));
    die(&pair, 0);
    got_in = lock_rig_take(pair.session[1], NAME, 300, 60, &grant) == DLOCK_OK;
    lock_pair_close(&pair);
    (void)ask(state, "DEL " NAME);
    return got_in;
}

static void test_07_between_two_commands(void **state)
{
    const char *two = "setnx-expire";

    assert_false(outlives_half_a_take(state, two, "set-nx", DLOCK_AFTER));
    assert_false(outlives_half_a_take(state, two, "expire", DLOCK_BEFORE));
    assert_true(outlives_half_a_take(state, two, "expire", DLOCK_AFTER));
    assert_true(outlives_half_a_take(state, "setnx-expire-lua", "eval-take",
                                     DLOCK_AFTER));
    assert_true(
        outlives_half_a_take(state, "set-nx-px", "set-nx-px", DLOCK_AFTER));
}

/* Left alone, both of them do set the lease that was asked for. */
static void test_07_lease_is_set(void **state)
{
    static const char *const names[] = {"setnx-expire", "setnx-expire-lua"};

    for (size_t i = 0; i < 2; i++) {
        struct dlock_grant grant;
        OPEN(pair, names[i]);

        assert_int_equal(take(pair.session[0], &grant), DLOCK_OK);
        assert_in_range(ask(state, "PTTL " NAME), 4000, 5000);
        assert_int_equal(take(pair.session[1], &grant), DLOCK_BUSY);
        assert_in_range(ask(state, "PTTL " NAME), 3000, 5000);
        assert_int_equal(give(pair.session[0], &grant), DLOCK_OK);
        assert_false(is_held(state));
        lock_pair_close(&pair);
    }
}

/* 08: work longer than the lease ---------------------------------------------- */

/*
 * Whether a second one gets in while the first one works. RENEWAL is the step
 * that is to prevent it; NULL: nothing does.
 */
static bool let_two_in(void **state, const char *strategy, const char *renewal)
{
    struct lock_rig *rig = *state;
    struct dlock_grant grants[2];
    bool two;

    rig->watchdog_lease_ms = RENEWED_LEASE_MS;
    OPEN(pair, strategy);
    step_log_reset(&rig->log);
    assert_int_equal(lock_rig_take(pair.session[0], NAME, 0, 0, &grants[0]),
                     DLOCK_OK);
    if (renewal != NULL)
        step_log_await(&rig->log, renewal, RENEWALS);
    two = lock_rig_take(pair.session[1], NAME, renewal == NULL ? 2000 : 0, 0,
                        &grants[1]) == DLOCK_OK;
    assert_int_equal(give(pair.session[two], &grants[two]), DLOCK_OK);
    lock_pair_close(&pair);
    return two;
}

static void test_08_longer_than_the_lease(void **state)
{
    assert_true(let_two_in(state, "set-nx-px", NULL));
    assert_true(let_two_in(state, "token", NULL));
    assert_true(let_two_in(state, "token-lua", NULL));
    assert_false(let_two_in(state, "guard-thread", "guard-expire"));
    assert_false(let_two_in(state, "watchdog", "eval-renew"));
    assert_false(let_two_in(state, "reentrant-local", "eval-renew"));
    assert_false(let_two_in(state, "reentrant", "eval-renew"));
    assert_false(let_two_in(state, "spin", "eval-renew"));
}

/* 09: A frees B's, B frees C's ------------------------------------------------ */

static void test_09_down_the_queue(void **state)
{
    struct dlock_session *buyers[3];
    struct dlock_grant grants[3];
    OPEN(pair, "set-nx-px");

    for (int i = 0; i < 3; i++)
        buyers[i] = lock_rig_session(pair.client[0]);
    assert_int_equal(take(buyers[0], &grants[0]), DLOCK_OK);
    end_lease(state); /* the only pause in this story */
    assert_int_equal(take(buyers[1], &grants[1]), DLOCK_OK);
    assert_int_equal(give(buyers[0], &grants[0]), DLOCK_OK); /* B's */
    assert_int_equal(take(buyers[2], &grants[2]), DLOCK_OK); /* B is inside */
    assert_int_equal(give(buyers[1], &grants[1]), DLOCK_OK); /* C's */
    assert_false(is_held(state));                            /* C is inside */
    for (int i = 0; i < 3; i++)
        dlock_session_close(buyers[i]);
    lock_pair_close(&pair);
}

/* 10: the same number in two processes ---------------------------------------- */

/* A's lease ends, B takes it, A gives back: does B still have it? */
static bool b_is_safe(void **state, const char *strategy, bool same_process)
{
    struct dlock_session *a;
    struct dlock_session *b;
    struct dlock_grant grants[2];
    bool safe;
    OPEN(pair, strategy);

    a = pair.session[0];
    b = same_process ? lock_rig_session(pair.client[0]) : pair.session[1];
    assert_int_equal(take(a, &grants[0]), DLOCK_OK);
    end_lease(state);
    assert_int_equal(take(b, &grants[1]), DLOCK_OK);
    safe = give(a, &grants[0]) == DLOCK_LOST;
    assert_int_equal(is_held(state), safe);
    if (same_process)
        dlock_session_close(b);
    lock_pair_close(&pair);
    (void)ask(state, "DEL " NAME);
    return safe;
}

static void test_10_same_name_in_two_houses(void **state)
{
    assert_false(b_is_safe(state, "set-nx-px", true));
    assert_true(b_is_safe(state, "token-thread", true));
    assert_false(b_is_safe(state, "token-thread", false));
    assert_true(b_is_safe(state, "token", true));
    assert_true(b_is_safe(state, "token", false));
}

/* A token tells on the way what the key says: a number, or 128 random bits. */
static void test_10_what_is_in_the_lock(void **state)
{
    struct dlock_holder holder;
    struct dlock_grant grant;
    OPEN(pair, "token-thread");

    assert_int_equal(take(pair.session[1], &grant), DLOCK_OK);
    assert_int_equal(dlock_inspect(pair.session[0], NAME, &holder, NULL),
                     DLOCK_OK);
    assert_string_equal(holder.owner, "1");
    assert_int_equal(give(pair.session[1], &grant), DLOCK_OK);
    lock_pair_close(&pair);
}

/* 11: between GET and DEL ----------------------------------------------------- */

struct slow_release {
    struct dlock_session *session;
    const struct dlock_grant *grant;
    enum dlock_status status;
};

static void *release_slowly(void *arg)
{
    struct slow_release *release = arg;

    release->status = give(release->session, release->grant);
    return NULL;
}

/* A stops before STEP of its release; there the lease ends, and B comes. */
static bool survives_cut(void **state, const char *strategy, const char *step)
{
    struct lock_rig *rig = *state;
    struct dlock_grant grants[2];
    struct slow_release release;
    pthread_t thread;
    bool safe;
    OPEN(pair, strategy);

    assert_int_equal(take(pair.session[0], &grants[0]), DLOCK_OK);
    release = (struct slow_release){pair.session[0], &grants[0], DLOCK_OK};
    step_log_shut(&rig->log, step, DLOCK_BEFORE);
    assert_int_equal(pthread_create(&thread, NULL, release_slowly, &release),
                     0);
    step_log_await_gate(&rig->log, 1);
    end_lease(state);
    assert_int_equal(take(pair.session[1], &grants[1]), DLOCK_OK);
    step_log_open(&rig->log);
    assert_int_equal(pthread_join(thread, NULL), 0);
    safe = is_held(state);
    assert_int_equal(release.status, safe ? DLOCK_LOST : DLOCK_OK);
    lock_pair_close(&pair);
    (void)ask(state, "DEL " NAME);
    return safe;
}

static void test_11_between_get_and_del(void **state)
{
    assert_true(survives_cut(state, "token", "get"));
    assert_false(survives_cut(state, "token", "del"));
    assert_true(survives_cut(state, "token-lua", "eval-release"));
}

/* The same hole where the lease is lengthened: it lengthens another's. */
static void test_11_extend_looks_first(void **state)
{
    struct dlock_grant grants[2];
    OPEN(pair, "token");

    assert_int_equal(take(pair.session[0], &grants[0]), DLOCK_OK);
    assert_int_equal(dlock_extend(pair.session[0], &grants[0], 9000, NULL),
                     DLOCK_OK);
    assert_in_range(ask(state, "PTTL " NAME), 8000, 9000);
    end_lease(state);
    assert_int_equal(take(pair.session[1], &grants[1]), DLOCK_OK);
    assert_int_equal(dlock_extend(pair.session[0], &grants[0], 9000, NULL),
                     DLOCK_LOST);
    assert_in_range(ask(state, "PTTL " NAME), 3000, 5000);
    lock_pair_close(&pair);
    pair = lock_pair_open(*state, "set-nx-px");
    lock_rig_pass_off(pair.session[0], &grants[0]);
    assert_int_equal(dlock_extend(pair.session[0], &grants[0], 9000, NULL),
                     DLOCK_OK);
    assert_in_range(ask(state, "PTTL " NAME), 8000, 9000);
    lock_pair_close(&pair);
}

/* 14: the eternal lock -------------------------------------------------------- */

/* Waits for N more renewals by the guard: three of them are a lease. */
static void await_guard(struct lock_rig *rig, unsigned n)
{
    step_log_await(&rig->log, "guard-expire",
                   step_log_ended(&rig->log, "guard-expire") + n);
}

static void test_14_the_eternal_lock(void **state)
{
    struct lock_rig *rig = *state;
    struct dlock_terms terms = {.max_hold_ms = 1};
    struct dlock_grant grant;

    rig->watchdog_lease_ms = RENEWED_LEASE_MS;
    OPEN(pair, "guard-thread");
    assert_int_equal(dlock_acquire(pair.session[0], NAME, &terms, &grant, NULL),
                     DLOCK_OK);
    die(&pair, 0); /* the worker; its process lives */
    await_guard(rig, RENEWALS);
    assert_int_equal(take(pair.session[1], &grant), DLOCK_BUSY);
    lock_pair_close(&pair); /* only the end of the process is an end */
    pair = lock_pair_open(rig, "watchdog");
    assert_int_equal(lock_rig_take(pair.session[1], NAME, 1000, 0, &grant),
                     DLOCK_OK);

    die(&pair, 1);
    assert_int_equal(lock_rig_take(pair.session[0], NAME, 1000, 5000, &grant),
                     DLOCK_OK);
    lock_pair_close(&pair);
}

/* The watchdog's other answer: who holds too long is not renewed. */
static void test_14_max_hold(void **state)
{
    struct lock_rig *rig = *state;
    struct dlock_terms terms = {.max_hold_ms = 1};
    struct dlock_grant grant;

    rig->watchdog_lease_ms = RENEWED_LEASE_MS;
    OPEN(pair, "watchdog");
    assert_int_equal(dlock_acquire(pair.session[0], NAME, &terms, &grant, NULL),
                     DLOCK_OK);
    assert_int_equal(lock_rig_take(pair.session[1], NAME, 1000, 5000, &grant),
                     DLOCK_OK);
    lock_pair_close(&pair);
}

/* It does not ask whose lock it renews. */
static void test_14_guard_renews_anothers(void **state)
{
    struct lock_rig *rig = *state;
    struct dlock_grant grants[2];

    rig->watchdog_lease_ms = RENEWED_LEASE_MS;
    OPEN(pair, "guard-thread");
    assert_int_equal(lock_rig_take(pair.session[0], NAME, 0, 0, &grants[0]),
                     DLOCK_OK);
    await_guard(rig, 1);
    end_lease(state);
    /* B wants it for one lease, and dies. */
    assert_int_equal(
        lock_rig_take(pair.session[1], NAME, 0, RENEWED_LEASE_MS, &grants[1]),
        DLOCK_OK);
    die(&pair, 1);
    await_guard(rig, RENEWALS);
    assert_int_equal(take(pair.session[1], &grants[1]), DLOCK_BUSY);
    /* A can at least not delete it: that much token-lua was worth. */
    assert_int_equal(give(pair.session[0], &grants[0]), DLOCK_LOST);
    assert_int_equal(lock_rig_take(pair.session[1], NAME, 1000, 60, &grants[1]),
                     DLOCK_OK);
    lock_pair_close(&pair);
}

/* An explicit lease is nobody's to renew. */
static void test_14_guard_leaves_leases_alone(void **state)
{
    struct dlock_grant grant;
    OPEN(pair, "guard-thread");

    assert_int_equal(lock_rig_take(pair.session[0], NAME, 0, 60, &grant),
                     DLOCK_OK);
    assert_int_equal(lock_rig_take(pair.session[1], NAME, 1000, 60, &grant),
                     DLOCK_OK);
    assert_int_equal(steps(state, "guard-ttl"), 0);
    lock_pair_close(&pair);
}

/* 15: one stop flag for all --------------------------------------------------- */

/*
 * One client holds two locks and gives one back: is the other one renewed? By
 * RENEWAL, the step; NULL: by nobody.
 */
static bool keeps_the_other(void **state, const char *strategy,
                            const char *renewal)
{
    struct lock_rig *rig = *state;
    struct dlock_grant grants[2];
    struct dlock_session *second;
    struct dlock_grant grant;
    bool kept;

    rig->watchdog_lease_ms = RENEWED_LEASE_MS;
    OPEN(pair, strategy);
    second = lock_rig_session(pair.client[0]);
    assert_int_equal(lock_rig_take(pair.session[0], NAME, 0, 0, &grants[0]),
                     DLOCK_OK);
    assert_int_equal(lock_rig_take(second, "stock:2", 0, 0, &grants[1]),
                     DLOCK_OK);
    assert_int_equal(give(second, &grants[1]), DLOCK_OK);
    step_log_reset(&rig->log);
    if (renewal != NULL)
        step_log_await(&rig->log, renewal, RENEWALS);
    kept = lock_rig_take(pair.session[1], NAME, renewal == NULL ? 5000 : 0,
                         5000, &grant) == DLOCK_BUSY;
    dlock_session_close(second);
    lock_pair_close(&pair);
    (void)ask(state, "DEL " NAME);
    return kept;
}

static void test_15_one_flag_for_all(void **state)
{
    assert_false(keeps_the_other(state, "guard-thread", NULL));
    assert_true(keeps_the_other(state, "watchdog", "eval-renew"));
}

/* The flag is set again by the next one who takes a lock, and by nobody else. */
static void test_15_guard_starts_again(void **state)
{
    struct lock_rig *rig = *state;
    struct dlock_grant grant;

    rig->watchdog_lease_ms = RENEWED_LEASE_MS;
    OPEN(pair, "guard-thread");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(lock_rig_take(pair.session[0], NAME, 0, 0, &grant),
                         DLOCK_OK);
        await_guard(rig, RENEWALS);
        assert_int_equal(give(pair.session[0], &grant), DLOCK_OK);
    }
    step_log_reset(&rig->log);
    lock_rig_sleep_ms(RENEWED_LEASE_MS);
    assert_int_equal(step_log_count(&rig->log, NULL), 0);
    lock_pair_close(&pair);
}

/*
 * Many take and give back at once: stopping and starting do not deadlock. That
 * a lease ends in between is no surprise: renewal hardly ever runs.
 */
static void *take_and_give(void *arg)
{
    struct dlock_session *session = arg;

    for (int i = 0; i < 200; i++) {
        const char *name = dlock_session_owner(session);
        struct dlock_grant grant;
        enum dlock_status status;

        if (lock_rig_take(session, name, 0, 0, &grant) != DLOCK_OK)
            return NULL;
        status = give(session, &grant);
        if (status != DLOCK_OK && status != DLOCK_LOST)
            return NULL;
    }
    return session;
}

static void test_15_guard_under_load(void **state)
{
    struct lock_rig *rig = *state;
    pthread_t threads[4];
    struct dlock_session *sessions[4];

    rig->watchdog_lease_ms = RENEWED_LEASE_MS;
    OPEN(pair, "guard-thread");
    for (int i = 0; i < 4; i++) {
        sessions[i] = lock_rig_session(pair.client[0]);
        assert_int_equal(
            pthread_create(&threads[i], NULL, take_and_give, sessions[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *done;

        assert_int_equal(pthread_join(threads[i], &done), 0);
        assert_ptr_equal(done, sessions[i]);
        dlock_session_close(sessions[i]);
    }
    lock_pair_close(&pair);
}

/* What all rungs have --------------------------------------------------------- */

/* A lost reply is "don't know" where the command cannot be sent twice. */
static void test_lost_reply_is_not_sent_again(void **state)
{
    static const struct {
        const char *name, *step;
    } rows[] = {{"setnx", "set-nx"},
                {"set-nx-px", "set-nx-px"},
                {"token-lua", "set-nx-px"}};
    struct lock_rig *rig = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlock_grant grant;
        OPEN(pair, rows[i].name);

        step_log_reset(&rig->log);
        step_log_fail(&rig->log, rows[i].step, DLOCK_AFTER, 1);
        assert_int_equal(take(pair.session[0], &grant), DLOCK_UNKNOWN);
        assert_int_equal(steps(state, rows[i].step), 1);
        assert_int_equal(take(pair.session[1], &grant), DLOCK_BUSY);
        lock_pair_close(&pair);
        end_lease(state);
    }
}

static void test_inspect_and_extend(void **state)
{
    struct dlock_holder holder;
    struct dlock_grant grant;
    OPEN(pair, "token-lua");

    assert_int_equal(dlock_inspect(pair.session[0], NAME, &holder, NULL), 0);
    assert_false(holder.held);
    assert_int_equal(take(pair.session[0], &grant), DLOCK_OK);
    assert_int_equal(dlock_inspect(pair.session[1], NAME, &holder, NULL), 0);
    assert_true(holder.held);
    assert_string_equal(holder.owner, dlock_session_owner(pair.session[0]));
    assert_in_range(holder.remaining_ms, 4000, 5000);
    assert_int_equal(dlock_extend(pair.session[0], &grant, 9000, NULL), 0);
    assert_int_equal(dlock_inspect(pair.session[1], NAME, &holder, NULL), 0);
    assert_in_range(holder.remaining_ms, 8000, 9000);
    end_lease(state);
    assert_int_equal(dlock_extend(pair.session[0], &grant, 9000, NULL),
                     DLOCK_LOST);
    assert_int_equal(give(pair.session[0], &grant), DLOCK_LOST);
    lock_pair_close(&pair);

    pair = lock_pair_open(*state, "setnx");
    assert_int_equal(take(pair.session[0], &grant), DLOCK_OK);
    assert_int_equal(grant.deadline_ms, UINT64_MAX);
    assert_int_equal(dlock_inspect(pair.session[1], NAME, &holder, NULL), 0);
    assert_true(holder.held && holder.remaining_ms == UINT64_MAX);
    assert_int_equal(give(pair.session[0], &grant), DLOCK_OK);
    lock_pair_close(&pair);
}

#define TEST(name) cmocka_unit_test_setup(name, lock_rig_fresh)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_04_the_exception),
        TEST(test_04_abandon_is_release_for_all_others),
        TEST(test_05_the_losers_finally),
        TEST(test_05_waiting_is_not_losing),
        TEST(test_06_the_crash),
        TEST(test_07_between_two_commands),
        TEST(test_07_lease_is_set),
        TEST(test_08_longer_than_the_lease),
        TEST(test_09_down_the_queue),
        TEST(test_10_same_name_in_two_houses),
        TEST(test_10_what_is_in_the_lock),
        TEST(test_11_between_get_and_del),
        TEST(test_11_extend_looks_first),
        TEST(test_14_the_eternal_lock),
        TEST(test_14_max_hold),
        TEST(test_14_guard_renews_anothers),
        TEST(test_14_guard_leaves_leases_alone),
        TEST(test_15_one_flag_for_all),
        TEST(test_15_guard_starts_again),
        TEST(test_15_guard_under_load),
        TEST(test_lost_reply_is_not_sent_again),
        TEST(test_inspect_and_extend),
    };

    return cmocka_run_group_tests(tests, lock_rig_setup, lock_rig_teardown);
}
