/*
 * What a holder is told when its lock is lost: why, once, and at once; and that
 * nothing of the lost grant is done to the next one. Sleeps are used where time
 * itself is what is tested.
 */
#include <stdatomic.h>
#include <stdio.h>

#include "tests/support/lock_rig.h"
#include "tests/support/unit_test.h"

struct lost_note {
    atomic_uint n;
    enum dlock_loss reason;
    char name[64];
};

static struct lost_note lost;

static void note_lost(void *ctx, const char *name, const char *owner,
                      enum dlock_loss reason)
{
    struct lost_note *note = ctx;

    (void)owner;
    (void)snprintf(note->name, sizeof(note->name), "%s", name);
    note->reason = reason;
    (void)atomic_fetch_add(&note->n, 1);
}

static void await_lost(void)
{
    uint64_t until = lock_rig_now_ms() + LOCK_RIG_LONG_MS;

    while (atomic_load(&lost.n) == 0 && lock_rig_now_ms() < until)
        lock_rig_sleep_ms(1);
    assert_int_equal(atomic_load(&lost.n), 1);
}

/* What both are told is noted. */
static struct lock_pair open_watched(struct lock_rig *rig, const char *strategy,
                                     unsigned lease_ms)
{
    atomic_store(&lost.n, 0);
    rig->watchdog_lease_ms = lease_ms;
    rig->on_lost = note_lost;
    rig->on_lost_ctx = &lost;
    return lock_pair_open(rig, strategy);
}

static void test_max_hold(void **state)
{
    struct lock_rig *rig = *state;
    struct dlock_terms terms = {.max_hold_ms = LOCK_RIG_LEASE_MS + 400};
    struct lock_pair pair = open_watched(rig, "redisson", LOCK_RIG_LEASE_MS);
    uint64_t start_ms = lock_rig_now_ms();

    assert_int_equal(
        dlock_acquire(pair.session[0], "k", &terms, &pair.grant[0], NULL), 0);
    assert_int_equal(lock_pair_take(&pair, 1, LOCK_RIG_LONG_MS, 0), 0);
    assert_in_range(lock_rig_now_ms() - start_ms, terms.max_hold_ms - 10,
                    LOCK_RIG_PROMPT_MS);
    await_lost();
    assert_int_equal(lost.reason, DLOCK_LOSS_OVERHELD);
    assert_int_equal(lock_pair_left_ms(&pair, 0), 0);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_LOST);
    lock_pair_close(&pair);
}

static void lose(struct lock_rig *rig, const char *command,
                 enum dlock_loss reason)
{
    struct lock_pair pair = open_watched(rig, "redisson", LOCK_RIG_LEASE_MS);

    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), 0);
    redis_server_ask(rig->server, command, NULL, 0);
    await_lost();
    assert_int_equal(lost.reason, reason);
    assert_string_equal(lost.name, "k");
    assert_int_equal(lock_pair_left_ms(&pair, 0), 0);
    lock_rig_sleep_ms(LOCK_RIG_LEASE_MS / 2); /* one renewal more */
    assert_int_equal(atomic_load(&lost.n), 1);
    lock_pair_close(&pair);
}

/* Gone although our clock says that the lease runs: the server lost it. */
static void test_lost_flushed(void **state)
{
    lose(*state, "FLUSHALL", DLOCK_LOSS_FLUSHED);
}

/* The holder slept through its lease: the clock has gone on without it. */
static void test_lost_expired(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = open_watched(rig, "redisson", LOCK_RIG_LEASE_MS);

    step_log_shut(&rig->log, "eval-renew", DLOCK_BEFORE);
    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), 0);
    step_log_await_gate(&rig->log, 1);
    lock_rig_sleep_ms(LOCK_RIG_LEASE_MS + 30);
    step_log_open(&rig->log);
    await_lost();
    assert_int_equal(lost.reason, DLOCK_LOSS_EXPIRED);
    lock_pair_close(&pair);
}

static void test_lost_taken(void **state)
{
    struct lock_rig *rig = *state;

    redis_server_ask(rig->server, "HSET strangers x 1", NULL, 0);
    lose(rig, "RENAME strangers k", DLOCK_LOSS_TAKEN);
}

/*
 * The lock is lost while nobody looks, and the session takes it anew: the
 * renewals of the first grant would find the session's own id there.
 */
static void test_lost_and_taken_anew(void **state)
{
    struct lock_rig *rig = *state;
    struct dlock_grant first, second;
    struct lock_pair pair = open_watched(rig, "redisson", LOCK_RIG_LEASE_MS);

    assert_int_equal(lock_hold_take(&pair, "k", 0, &first), 0);
    redis_server_ask(rig->server, "DEL k", NULL, 0);
    assert_int_equal(lock_hold_take(&pair, "k", 0, &second), 0);
    assert_int_equal(second.holds, 1);
    assert_int_equal(lock_hold_left_ms(&pair, &first), 0);
    await_lost();
    assert_int_equal(lost.reason, DLOCK_LOSS_FLUSHED);
    /* What is done with the first one is not done to the second. */
    assert_int_equal(dlock_extend(pair.session[0], &first, 60000, NULL),
                     DLOCK_LOST);
    assert_int_equal(lock_hold_give(&pair, &first), DLOCK_LOST);
    step_log_reset(&rig->log);
    step_log_await(&rig->log, "eval-renew", 4);
    assert_in_range(redis_server_number(rig->server, "PTTL k"), 1,
                    LOCK_RIG_LEASE_MS);
    assert_in_range(lock_hold_left_ms(&pair, &second), 1, LOCK_RIG_LEASE_MS);
    assert_int_equal(lock_hold_give(&pair, &second), DLOCK_OK);
    assert_int_equal(atomic_load(&lost.n), 1);
    lock_pair_close(&pair);
}

/* Taken anew for a while only: no renewal of the first grant prolongs that. */
static void test_lost_grant_renews_nothing(void **state)
{
    struct lock_rig *rig = *state;
    struct dlock_grant first, second;
    struct lock_pair pair = open_watched(rig, "redisson", LOCK_RIG_LEASE_MS);

    assert_int_equal(lock_hold_take(&pair, "k", 0, &first), 0);
    redis_server_ask(rig->server, "DEL k", NULL, 0);
    assert_int_equal(lock_hold_take(&pair, "k", 2000, &second), 0);
    assert_int_equal(lock_pair_take(&pair, 1, LOCK_RIG_LONG_MS, 0), 0);
    await_lost();
    assert_int_equal(lock_hold_give(&pair, &first), DLOCK_LOST);
    assert_int_equal(lock_hold_give(&pair, &second), DLOCK_LOST);
    assert_int_equal(lock_pair_give(&pair, 1), DLOCK_OK);
    lock_pair_close(&pair);
}

/* A renewal of the first grant is on its way when the second one comes. */
static void test_lost_in_the_middle_of_a_renewal(void **state)
{
    struct lock_rig *rig = *state;
    struct dlock_grant first, second;
    struct lock_pair pair = open_watched(rig, "redisson", LOCK_RIG_LEASE_MS);

    step_log_shut(&rig->log, "eval-renew", DLOCK_BEFORE);
    assert_int_equal(lock_hold_take(&pair, "k", 0, &first), 0);
    step_log_await_gate(&rig->log, 1);
    redis_server_ask(rig->server, "DEL k", NULL, 0);
    assert_int_equal(lock_hold_take(&pair, "k", LOCK_RIG_LONG_MS, &second), 0);
    step_log_open(&rig->log);
    await_lost();
    assert_int_equal(lock_hold_left_ms(&pair, &first), 0);
    assert_int_equal(lock_hold_give(&pair, &first), DLOCK_LOST);
    assert_int_equal(lock_hold_give(&pair, &second), DLOCK_OK);
    lock_pair_close(&pair);
}

static void test_lost_unreachable(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair;
    uint64_t start_ms;

    rig->command_timeout_ms = LOCK_RIG_LONG_MS;
    pair = open_watched(rig, "redisson", LOCK_RIG_LEASE_MS);
    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), 0);
    start_ms = lock_rig_now_ms();
    redis_server_pause(rig->server);
    await_lost();
    redis_server_resume(rig->server);
    /* At the end of the lease, not a command timeout later. */
    assert_in_range(lock_rig_now_ms() - start_ms, LOCK_RIG_LEASE_MS / 2,
                    LOCK_RIG_PROMPT_MS);
    assert_int_equal(lost.reason, DLOCK_LOSS_UNREACHABLE);
    assert_int_equal(lock_pair_left_ms(&pair, 0), 0);
    lock_pair_close(&pair);
}

/* It was told that the server cannot be reached: no need to find that out twice. */
static void test_release_after_unreachable(void **state)
{
    struct lock_rig *rig = *state;
    enum dlock_status status;
    struct lock_pair pair;
    uint64_t start_ms;

    rig->command_timeout_ms = 2 * LOCK_RIG_TIMEOUT_MS;
    pair = open_watched(rig, "fenced", LOCK_RIG_LEASE_MS);
    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), 0);
    redis_server_pause(rig->server);
    await_lost();
    assert_int_equal(lost.reason, DLOCK_LOSS_UNREACHABLE);
    start_ms = lock_rig_now_ms();
    status = lock_pair_give(&pair, 0);
    assert_true(status == DLOCK_UNKNOWN || status == DLOCK_UNREACHABLE);
    assert_in_range(lock_rig_now_ms() - start_ms, 0,
                    4 * LOCK_RIG_TIMEOUT_MS - 100);
    redis_server_resume(rig->server);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_LOST);
    lock_pair_close(&pair);
}

/* A short outage of the server costs nothing: two thirds are in reserve. */
static void test_renewal_survives_a_lost_reply(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = open_watched(rig, "redisson", LOCK_RIG_LEASE_MS);

    step_log_fail(&rig->log, "eval-renew", DLOCK_AFTER, 2);
    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), 0);
    step_log_await(&rig->log, "eval-renew", 5);
    assert_int_equal(atomic_load(&lost.n), 0);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
    lock_pair_close(&pair);
}

#define TEST(name) cmocka_unit_test_setup(name, lock_rig_fresh)

static const struct CMUnitTest tests[] = {
    TEST(test_max_hold),
    TEST(test_lost_flushed),
    TEST(test_lost_expired),
    TEST(test_lost_taken),
    TEST(test_lost_and_taken_anew),
    TEST(test_lost_grant_renews_nothing),
    TEST(test_lost_in_the_middle_of_a_renewal),
    TEST(test_lost_unreachable),
    TEST(test_release_after_unreachable),
    TEST(test_renewal_survives_a_lost_reply),
};
TEST_MAIN_WITHIN(tests, lock_rig_setup, lock_rig_teardown)
