/*
 * Coming in again, and waiting without being woken: the last rungs of the
 * ladder and `spin`. Each lesson on the lock that is there to show it, and on
 * the next one that it is gone.
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

#define OPEN(pair, strategy)                                                   \
    struct lock_pair pair = lock_pair_open(*state, strategy)

static enum dlock_status take(struct dlock_session *session, unsigned lease_ms,
                              struct dlock_grant *grant)
{
    return lock_rig_take(session, NAME, 0, lease_ms, grant);
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

static bool is_held(void **state)
{
    return ask(state, "EXISTS " NAME) == 1;
}

/* 16: a method that calls another one with the same lock --------------------- */

static void test_16_locking_yourself_out(void **state)
{
    static const char *const locks[] = {"token-lua", "watchdog",
                                        "reentrant-local", "reentrant", "spin"};

    for (size_t i = 0; i < 5; i++) {
        struct dlock_grant grants[3];
        bool again = i >= 2;
        OPEN(pair, locks[i]);

        assert_int_equal(take(pair.session[0], 5000, &grants[0]), DLOCK_OK);
        assert_int_equal(
            lock_rig_take(pair.session[0], NAME, 20, 5000, &grants[1]),
            again ? DLOCK_OK : DLOCK_TIMEOUT);
        if (again) {
            assert_int_equal(take(pair.session[0], 5000, &grants[2]), DLOCK_OK);
            for (unsigned n = 3; n > 0; n--) {
                assert_int_equal(grants[n - 1].holds, n);
                assert_int_equal(give(pair.session[0], &grants[n - 1]),
                                 DLOCK_OK);
                assert_int_equal(is_held(state), n > 1);
            }
        } else {
            assert_int_equal(give(pair.session[0], &grants[0]), DLOCK_OK);
        }
        assert_int_equal(give(pair.session[0], &grants[0]), DLOCK_LOST);
        lock_pair_close(&pair);
    }
}

/* Another session of the same thread is somebody else. */
static void test_16_another_session_is_not_the_same(void **state)
{
    static const char *const locks[] = {"reentrant-local", "reentrant"};

    for (size_t i = 0; i < 2; i++) {
        struct dlock_grant grants[2];
        struct dlock_session *other;
        OPEN(pair, locks[i]);

        other = lock_rig_session(pair.client[0]);
        assert_int_equal(take(pair.session[0], 5000, &grants[0]), DLOCK_OK);
        assert_int_equal(take(other, 5000, &grants[1]), DLOCK_BUSY);
        assert_int_equal(give(pair.session[0], &grants[0]), DLOCK_OK);
        assert_int_equal(take(other, 5000, &grants[1]), DLOCK_OK);
        assert_int_equal(give(other, &grants[1]), DLOCK_OK);
        dlock_session_close(other);
        lock_pair_close(&pair);
    }
}

/* 17: the inner section gets what is left of the outer one's lease ------------ */

static void test_17_reentry_does_not_renew(void **state)
{
    struct lock_rig *rig = *state;
    struct dlock_grant outer;
    struct dlock_grant inner;
    OPEN(pair, "reentrant-local");

    assert_int_equal(take(pair.session[0], 1000, &outer), DLOCK_OK);
    step_log_reset(&rig->log);
    assert_int_equal(take(pair.session[0], 9000, &inner), DLOCK_OK);
    assert_int_equal(step_log_count(&rig->log, NULL), 0);
    assert_in_range(ask(state, "PTTL " NAME), 0, 1000);
    /* It thinks otherwise. */
    assert_true(inner.deadline_ms > outer.deadline_ms + 7000);
    assert_int_equal(give(pair.session[0], &inner), DLOCK_OK);
    assert_int_equal(give(pair.session[0], &outer), DLOCK_OK);
    lock_pair_close(&pair);

    pair = lock_pair_open(rig, "reentrant");
    assert_int_equal(take(pair.session[0], 1000, &outer), DLOCK_OK);
    assert_int_equal(take(pair.session[0], 9000, &inner), DLOCK_OK);
    assert_in_range(ask(state, "PTTL " NAME), 7000, 9000);
    lock_pair_close(&pair);
}

/* The count is not the lock: it opens a door that is somebody else's. */
static void test_17_a_count_is_not_the_lock(void **state)
{
    static const char *const locks[] = {"reentrant-local", "reentrant"};

    for (size_t i = 0; i < 2; i++) {
        struct dlock_grant outer;
        struct dlock_grant inner;
        struct dlock_grant other;
        OPEN(pair, locks[i]);

        assert_int_equal(take(pair.session[0], 5000, &outer), DLOCK_OK);
        assert_int_equal(ask(state, "DEL " NAME), 1); /* the lease ends */
        assert_int_equal(take(pair.session[1], 5000, &other), DLOCK_OK);
        assert_int_equal(take(pair.session[0], 5000, &inner),
                         i == 0 ? DLOCK_OK : DLOCK_BUSY);
        if (i == 0)
            assert_int_equal(give(pair.session[0], &inner), DLOCK_OK);
        /* What goes to the server is still checked there. */
        assert_int_equal(give(pair.session[0], &outer), DLOCK_LOST);
        assert_true(is_held(state));
        assert_int_equal(give(pair.session[1], &other), DLOCK_OK);
        lock_pair_close(&pair);
    }
}

/* A release that never left may be called again; the count waits for that. */
static void test_17_failed_release_of_a_count(void **state)
{
    struct lock_rig *rig = *state;
    struct dlock_grant grant;
    OPEN(pair, "reentrant-local");

    assert_int_equal(take(pair.session[0], 5000, &grant), DLOCK_OK);
    step_log_fail(&rig->log, "eval-release", DLOCK_BEFORE, 1);
    assert_int_equal(give(pair.session[0], &grant), DLOCK_UNREACHABLE);
    assert_true(is_held(state));
    assert_int_equal(give(pair.session[0], &grant), DLOCK_OK);
    assert_false(is_held(state));
    lock_pair_close(&pair);
}

/* 18: the tutorial that never ran --------------------------------------------- */

static void test_18_wrongtype(void **state)
{
    struct dlock_terms terms = {.lease_ms = 50};
    struct dlock_grant grant = {.name = NAME};
    struct dlock_error error = {""};
    OPEN(pair, "reentrant-broken");

    assert_int_equal(
        dlock_acquire(pair.session[0], NAME, &terms, &grant, &error),
        DLOCK_UNKNOWN);
    assert_non_null(strstr(error.text, "WRONGTYPE"));
    /* And what it leaves behind is a lock that nobody has, without an end. */
    assert_int_equal(ask(state, "PTTL " NAME), -1);
    for (int i = 0; i < 2; i++) {
        terms.wait_ms = 100;
        error.text[0] = '\0';
        assert_int_equal(
            dlock_acquire(pair.session[i], NAME, &terms, &grant, &error),
            DLOCK_UNREACHABLE);
        assert_non_null(strstr(error.text, "WRONGTYPE"));
        error.text[0] = '\0';
        lock_rig_pass_off(pair.session[i], &grant);
        assert_int_equal(dlock_release(pair.session[i], &grant, &error),
                         DLOCK_UNREACHABLE);
        assert_non_null(strstr(error.text, "WRONGTYPE"));
    }
    assert_int_equal(ask(state, "PTTL " NAME), -1);
    lock_pair_close(&pair);
}

/* With the hash that its author had in mind, the rest of it would have run. */
static void test_18_what_was_meant(void **state)
{
    char command[160];
    struct dlock_grant grant = {.name = NAME};
    OPEN(pair, "reentrant-broken");

    (void)snprintf(command, sizeof(command), "HSET " NAME " %s 2",
                   dlock_session_owner(pair.session[0]));
    assert_int_equal(ask(state, command), 1);
    lock_rig_pass_off(pair.session[1], &grant);
    assert_int_equal(give(pair.session[1], &grant), DLOCK_LOST);
    lock_rig_pass_off(pair.session[0], &grant);
    assert_int_equal(give(pair.session[0], &grant), DLOCK_OK);
    assert_true(is_held(state));
    assert_int_equal(give(pair.session[0], &grant), DLOCK_OK);
    assert_false(is_held(state));
    lock_pair_close(&pair);
}

/* 20: how often a waiter looks ------------------------------------------------ */

/* Looks of a waiter in WAIT_MS. */
static unsigned looks(void **state, const char *strategy, unsigned wait_ms)
{
    struct lock_rig *rig = *state;
    struct dlock_grant grant;
    unsigned n;
    OPEN(pair, strategy);

    assert_int_equal(take(pair.session[0], 5000, &grant), DLOCK_OK);
    step_log_reset(&rig->log);
    assert_int_equal(lock_rig_take(pair.session[1], NAME, wait_ms, 0, &grant),
                     DLOCK_TIMEOUT);
    n = step_log_count(&rig->log, "eval-take");
    lock_pair_close(&pair);
    assert_int_equal(ask(state, "DEL " NAME), 1);
    return n;
}

/* Half of 1, 2, 4 ... 64, 128, 128 ms at least: that is how many at most. */
static void test_20_spin_looks_less_and_less(void **state)
{
    unsigned polls = looks(state, "reentrant", 500);
    unsigned spins = looks(state, "spin", 500);

    assert_in_range(spins, 3, 15);
    assert_true(polls > 2 * spins);
}

struct waiter {
    struct dlock_session *session;
    struct dlock_grant grant;
    enum dlock_status status;
};

static void *wait_for_it(void *arg)
{
    struct waiter *waiter = arg;

    waiter->status =
        lock_rig_take(waiter->session, NAME, 5000, 0, &waiter->grant);
    return NULL;
}

/* Sooner or later the waiter looks, and then the lock is free. */
static void test_20_spin_gets_it(void **state)
{
    struct lock_rig *rig = *state;
    struct dlock_grant grant;
    struct waiter waiter;
    pthread_t thread;
    OPEN(pair, "spin");

    assert_int_equal(take(pair.session[0], 5000, &grant), DLOCK_OK);
    waiter = (struct waiter){.session = pair.session[1]};
    assert_int_equal(pthread_create(&thread, NULL, wait_for_it, &waiter), 0);
    step_log_await(&rig->log, "eval-take", 6);
    assert_int_equal(give(pair.session[0], &grant), DLOCK_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(waiter.status, DLOCK_OK);
    assert_int_equal(give(pair.session[1], &waiter.grant), DLOCK_OK);
    lock_pair_close(&pair);
}

static uint64_t real_now(void *ctx)
{
    (void)ctx;
    return lock_rig_now_ms();
}

/*
 * Dice that always give the longest pause: 1, 2, 4 ... 128, 128 ms. The longer
 * throws are owner ids, and have to differ.
 */
static void long_pauses(void *ctx, void *bytes, size_t len)
{
    if (len > sizeof(uint16_t))
        memset(bytes, ++*(unsigned char *)ctx, len);
    else
        memset(bytes, 0xff, len);
}

/* A pause does not outlast the wait: the ninth would end after 383 ms. */
static void test_20_spin_ends_in_time(void **state)
{
    unsigned char throws = 0;
    struct dlock_clock clock = {real_now, long_pauses, &throws};
    struct lock_rig *rig = *state;
    struct dlock_grant grant;
    uint64_t best_ms = UINT64_MAX;

    rig->clock = &clock;
    OPEN(pair, "spin");
    assert_int_equal(take(pair.session[0], 20000, &grant), DLOCK_OK);
    /* The best of some: a busy machine may be late, but not each time. */
    for (int i = 0; i < 5; i++) {
        uint64_t start_ms = lock_rig_now_ms(), took_ms;

        assert_int_equal(lock_rig_take(pair.session[1], NAME, 260, 0, &grant),
                         DLOCK_TIMEOUT);
        took_ms = lock_rig_now_ms() - start_ms;
        best_ms = took_ms < best_ms ? took_ms : best_ms;
    }
    assert_in_range(best_ms, 259, 360);
    lock_pair_close(&pair);
}

/* Renewal of the hash asks for the owner, as everything else does. */
static void test_reentrant_inspect_extend_renew(void **state)
{
    struct lock_rig *rig = *state;
    struct dlock_holder holder;
    struct dlock_grant grant;

    rig->watchdog_lease_ms = 300;
    OPEN(pair, "reentrant");
    assert_int_equal(take(pair.session[0], 0, &grant), DLOCK_OK);
    step_log_await(&rig->log, "eval-renew", 4);
    assert_int_equal(dlock_inspect(pair.session[1], NAME, &holder, NULL),
                     DLOCK_OK);
    assert_true(holder.held);
    assert_int_equal(holder.holds, 1);
    assert_string_equal(holder.owner, dlock_session_owner(pair.session[0]));
    assert_in_range(holder.remaining_ms, 1, 300);
    assert_int_equal(dlock_extend(pair.session[0], &grant, 9000, NULL),
                     DLOCK_OK);
    assert_in_range(ask(state, "PTTL " NAME), 8000, 9000);
    lock_rig_pass_off(pair.session[1], &grant);
    assert_int_equal(dlock_extend(pair.session[1], &grant, 9000, NULL),
                     DLOCK_LOST);
    lock_rig_pass_off(pair.session[0], &grant);
    assert_int_equal(give(pair.session[0], &grant), DLOCK_OK);
    assert_int_equal(dlock_inspect(pair.session[1], NAME, &holder, NULL),
                     DLOCK_OK);
    assert_false(holder.held);
    lock_pair_close(&pair);
}

#define TEST(name) cmocka_unit_test_setup(name, lock_rig_fresh)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_16_locking_yourself_out),
        TEST(test_16_another_session_is_not_the_same),
        TEST(test_17_reentry_does_not_renew),
        TEST(test_17_a_count_is_not_the_lock),
        TEST(test_17_failed_release_of_a_count),
        TEST(test_18_wrongtype),
        TEST(test_18_what_was_meant),
        TEST(test_20_spin_looks_less_and_less),
        TEST(test_20_spin_gets_it),
        TEST(test_20_spin_ends_in_time),
        TEST(test_reentrant_inspect_extend_renew),
    };

    return cmocka_run_group_tests(tests, lock_rig_setup, lock_rig_teardown);
}
