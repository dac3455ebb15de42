/*
 * Release by force of zk and zk-fair: the next one gets in, the holder is told,
 * and whatever it still does harms nobody.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/lock_party.h"
#include "tests/support/lock_rig.h"
#include "tests/support/zookeeper_server.h"

enum {
    SHORT_MS = 600,
    LONG_MS = 60000, /* nobody is told anything within a test */
    SOON_MS = 5000,
    STRATEGIES_N = 2,
};

static const char *const names[] = {"zk", "zk-fair"};

static int setup(void **state)
{
    *state = zookeeper_server_start();
    return 0;
}

static int teardown(void **state)
{
    zookeeper_server_stop(*state);
    return 0;
}

static struct lock_party_terms terms(const struct zookeeper_server *server,
                                     const char *strategy, unsigned lease_ms)
{
    return (struct lock_party_terms){.strategy = strategy,
                                     .url = zookeeper_server_url(server),
                                     .lease_ms = lease_ms,
                                     .timeout_ms = 1000};
}

struct trio {
    struct lock_party a;
    struct lock_party b;
    struct lock_party c;
};

static void open_trio(struct trio *trio, const struct lock_party_terms *how)
{
    lock_party_open(&trio->a, how);
    lock_party_open(&trio->b, how);
    lock_party_open(&trio->c, how);
}

static void close_trio(struct trio *trio)
{
    lock_party_close(&trio->a);
    lock_party_close(&trio->b);
    lock_party_close(&trio->c);
}

static enum dlock_status force(struct lock_party *party, const char *name)
{
    return dlock_force_release(party->session, name, &party->error);
}

/* Nobody has it; then somebody has, and the next one gets it. */
static void test_frees(void **state)
{
    for (size_t i = 0; i < STRATEGIES_N; i++) {
        struct lock_party_terms how = terms(*state, names[i], LONG_MS);
        struct dlock_holder holder;
        struct trio trio;

        open_trio(&trio, &how);
        assert_int_equal(force(&trio.b, "k"), DLOCK_LOST);
        assert_int_equal(lock_party_take(&trio.a, "k", 0), DLOCK_OK);
        assert_int_equal(force(&trio.b, "k"), DLOCK_OK);
        assert_int_equal(force(&trio.b, "k"), DLOCK_LOST);
        assert_int_equal(dlock_inspect(trio.b.session, "k", &holder, NULL),
                         DLOCK_OK);
        assert_false(holder.held);
        assert_int_equal(lock_party_take(&trio.b, "k", 0), DLOCK_OK);
        /* It does not know yet; what it gives back is not its own any more. */
        assert_int_equal(lock_party_give(&trio.a), DLOCK_LOST);
        assert_int_equal(lock_party_take(&trio.c, "k", 0), DLOCK_BUSY);
        assert_int_equal(dlock_inspect(trio.c.session, "k", &holder, NULL),
                         DLOCK_OK);
        assert_string_equal(holder.owner, dlock_session_owner(trio.b.session));
        assert_int_equal(holder.holds, 1);
        assert_int_equal(lock_party_give(&trio.b), DLOCK_OK);
        assert_int_equal(lock_party_take(&trio.a, "k", 0), DLOCK_OK);
        assert_int_equal(lock_party_give(&trio.a), DLOCK_OK);
        close_trio(&trio);
    }
}

/* Its own node goes, whatever was done to others before. */
static void test_leaves_others_alone(void **state)
{
    for (size_t i = 0; i < STRATEGIES_N; i++) {
        struct lock_party_terms how = terms(*state, names[i], LONG_MS);
        struct trio trio;

        open_trio(&trio, &how);
        for (int round = 0; round < 2; round++) {
            assert_int_equal(lock_party_take(&trio.c, "other", 0), DLOCK_OK);
            assert_int_equal(lock_party_take(&trio.a, "k", 0), DLOCK_OK);
            assert_int_equal(force(&trio.b, "other"), DLOCK_OK);
            assert_int_equal(lock_party_give(&trio.a), DLOCK_OK);
            assert_int_equal(lock_party_take(&trio.b, "k", 0), DLOCK_OK);
            assert_int_equal(lock_party_give(&trio.b), DLOCK_OK);
            assert_int_equal(lock_party_give(&trio.c), DLOCK_LOST);
        }
        close_trio(&trio);
    }
}

/* Within a third of its session's timeout, without a call of its own. */
static void test_holder_is_told(void **state)
{
    for (size_t i = 0; i < STRATEGIES_N; i++) {
        struct lock_party_terms how = terms(*state, names[i], SHORT_MS);
        struct dlock_grant kept;
        struct trio trio;

        open_trio(&trio, &how);
        assert_int_equal(lock_party_take(&trio.a, "kept", 0), DLOCK_OK);
        kept = trio.a.grant;
        assert_int_equal(lock_party_take(&trio.a, "k", 0), DLOCK_OK);
        assert_int_equal(force(&trio.b, "k"), DLOCK_OK);
        assert_int_equal(lock_party_take(&trio.b, "k", 0), DLOCK_OK);
        for (int j = 0; j < 200 && atomic_load(&trio.a.lost_n) == 0; j++)
            lock_rig_sleep_ms(25);
        assert_int_equal(atomic_load(&trio.a.lost_n), 1);
        assert_int_equal(atomic_load(&trio.a.loss), DLOCK_LOSS_FORCED);
        assert_int_equal(dlock_remaining_ms(trio.a.session, &trio.a.grant), 0);
        assert_true(dlock_remaining_ms(trio.a.session, &kept) == UINT64_MAX);
        assert_int_equal(lock_party_give(&trio.a), DLOCK_LOST);
        assert_int_equal(lock_party_take(&trio.c, "k", 0), DLOCK_BUSY);
        assert_int_equal(dlock_release(trio.a.session, &kept, NULL), DLOCK_OK);
        assert_int_equal(atomic_load(&trio.a.lost_n), 1);
        close_trio(&trio);
    }
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
    for (size_t i = 0; i < STRATEGIES_N; i++) {
        struct lock_party_terms how = terms(*state, names[i], LONG_MS);
        struct dlock_holder holder;
        struct trio trio;
        pthread_t thread;

        open_trio(&trio, &how);
        assert_int_equal(lock_party_take(&trio.a, "k", 0), DLOCK_OK);
        assert_int_equal(pthread_create(&thread, NULL, wait_for_it, &trio.b),
                         0);
        step_log_await(&trio.b.log, "watch", 1);
        assert_int_equal(force(&trio.c, "k"), DLOCK_OK);
        (void)pthread_join(thread, NULL);
        assert_int_equal(dlock_inspect(trio.c.session, "k", &holder, NULL),
                         DLOCK_OK);
        assert_string_equal(holder.owner, dlock_session_owner(trio.b.session));
        assert_true(i == 0 || trio.b.grant.token > trio.a.grant.token);
        assert_int_equal(lock_party_give(&trio.b), DLOCK_OK);
        close_trio(&trio);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frees),
        cmocka_unit_test(test_leaves_others_alone),
        cmocka_unit_test(test_holder_is_told),
        cmocka_unit_test(test_waiter_is_next),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
