/*
 * Release by force of zk-fair: the next one gets in, the holder is told, and whatever
 * it still does harms nobody. zk cannot.
 */
#include "tests/support/lock_party.h"
#include "tests/support/lock_rig.h"
#include "tests/support/unit_test.h"
#include "tests/support/zookeeper_server.h"

enum {
    SHORT_MS = 600,
    LONG_MS = 60000, /* nobody is told anything within a test */
    SOON_MS = 5000,
};

static int fresh(void **state)
{
    return lock_trio_new(state, the_zookeeper->url, LONG_MS, 1000);
}

static enum dlock_status force(struct lock_party *party, const char *name)
{
    return dlock_force_release(party->session, name, &party->error);
}

/* Nobody has it; then somebody has, and the next one gets it. */
static void test_frees(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 3);
    struct dlock_holder holder;

    assert_int_equal(force(&trio->b, "k"), DLOCK_LOST);
    assert_int_equal(lock_party_take(&trio->a, "k", 0), DLOCK_OK);
    assert_int_equal(force(&trio->b, "k"), DLOCK_OK);
    assert_int_equal(force(&trio->b, "k"), DLOCK_LOST);
    assert_int_equal(dlock_inspect(trio->b.session, "k", &holder, NULL),
                     DLOCK_OK);
    assert_false(holder.held);
    assert_int_equal(lock_party_take(&trio->b, "k", 0), DLOCK_OK);
    /* It does not know yet; what it gives back is not its own any more. */
    assert_int_equal(lock_party_give(&trio->a), DLOCK_LOST);
    assert_int_equal(lock_party_take(&trio->c, "k", 0), DLOCK_BUSY);
    assert_int_equal(dlock_inspect(trio->c.session, "k", &holder, NULL),
                     DLOCK_OK);
    assert_string_equal(holder.owner, dlock_session_owner(trio->b.session));
    assert_int_equal(holder.holds, 1);
    assert_int_equal(lock_party_give(&trio->b), DLOCK_OK);
    assert_int_equal(lock_party_take(&trio->a, "k", 0), DLOCK_OK);
    assert_int_equal(lock_party_give(&trio->a), DLOCK_OK);
}

/* Its own node goes, whatever was done to others before. */
static void test_leaves_others_alone(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 3);

    for (int round = 0; round < 2; round++) {
        assert_int_equal(lock_party_take(&trio->c, "other", 0), DLOCK_OK);
        assert_int_equal(lock_party_take(&trio->a, "k", 0), DLOCK_OK);
        assert_int_equal(force(&trio->b, "other"), DLOCK_OK);
        assert_int_equal(lock_party_give(&trio->a), DLOCK_OK);
        assert_int_equal(lock_party_take(&trio->b, "k", 0), DLOCK_OK);
        assert_int_equal(lock_party_give(&trio->b), DLOCK_OK);
        assert_int_equal(lock_party_give(&trio->c), DLOCK_LOST);
    }
}

/* Within a third of its session's timeout, without a call of its own. */
static void test_holder_is_told(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 3);
    struct dlock_grant kept;

    assert_int_equal(lock_party_take(&trio->a, "kept", 0), DLOCK_OK);
    kept = trio->a.grant;
    assert_int_equal(lock_party_take(&trio->a, "k", 0), DLOCK_OK);
    assert_int_equal(force(&trio->b, "k"), DLOCK_OK);
    assert_int_equal(lock_party_take(&trio->b, "k", 0), DLOCK_OK);
    for (int j = 0; j < 200 && atomic_load(&trio->a.lost_n) == 0; j++)
        lock_rig_sleep_ms(25);
    assert_int_equal(atomic_load(&trio->a.lost_n), 1);
    assert_int_equal(atomic_load(&trio->a.loss), DLOCK_LOSS_FORCED);
    assert_int_equal(dlock_remaining_ms(trio->a.session, &trio->a.grant), 0);
    assert_true(dlock_remaining_ms(trio->a.session, &kept) == UINT64_MAX);
    assert_int_equal(lock_party_give(&trio->a), DLOCK_LOST);
    assert_int_equal(lock_party_take(&trio->c, "k", 0), DLOCK_BUSY);
    assert_int_equal(dlock_release(trio->a.session, &kept, NULL), DLOCK_OK);
    assert_int_equal(atomic_load(&trio->a.lost_n), 1);
}

static void *wait_for_it(void *arg)
{
    struct lock_party *party = arg;

    (void)lock_party_take(party, "k", SOON_MS);
    return NULL;
}

/* Those who wait are next, in their order, with a higher token. */
static void test_waiter_is_next(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 3);
    struct dlock_holder holder;
    pthread_t thread;

    assert_int_equal(lock_party_take(&trio->a, "k", 0), DLOCK_OK);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_it, &trio->b), 0);
    step_log_await(&trio->b.log, "watch", 1);
    assert_int_equal(force(&trio->c, "k"), DLOCK_OK);
    (void)pthread_join(thread, NULL);
    assert_int_equal(dlock_inspect(trio->c.session, "k", &holder, NULL),
                     DLOCK_OK);
    assert_string_equal(holder.owner, dlock_session_owner(trio->b.session));
    assert_true(trio->b.grant.token > trio->a.grant.token);
    assert_int_equal(lock_party_give(&trio->b), DLOCK_OK);
}

static void test_zk_cannot(void **state)
{
    struct lock_trio *trio = lock_trio_open(state, 2);

    assert_int_equal(lock_party_take(&trio->a, "k", 0), DLOCK_OK);
    assert_int_equal(force(&trio->b, "k"), DLOCK_MISUSE);
    assert_int_equal(lock_party_give(&trio->a), DLOCK_OK);
}

static const struct CMUnitTest tests[] = {
    LOCK_TRIO_TEST(test_frees, "zk-fair"),
    LOCK_TRIO_TEST(test_leaves_others_alone, "zk-fair"),
    LOCK_TRIO_TEST(test_holder_is_told, "zk-fair", .lease_ms = SHORT_MS),
    LOCK_TRIO_TEST(test_waiter_is_next, "zk-fair"),
    LOCK_TRIO_TEST(test_zk_cannot, "zk"),
};
TEST_MAIN_WITHIN(tests, zookeeper_server_set_up, zookeeper_server_tear_down)
