/*
 * Workers that take and give back, with every strategy, over an outage.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "tests/support/lock_rig.h"

static const char *const steady[] = {"redisson",  "fenced",   "fair", "spin",
                                     "token-lua", "watchdog", "multi"};
enum {
    STEADY_N = COUNT_OF(steady),
    WORKERS_N = 8, /* of each */
    OUTAGE_MS = 1000,
};

/* What the workers of one strategy do, with a lock of its name. */
struct works {
    const char *strategy;
    struct dlock *client;
    atomic_bool stop;
    atomic_uint inside_n;
    atomic_uint together_n; /* how often there was company inside */
    atomic_uint failed_n;
    atomic_uint done_n;
    struct worker {
        pthread_t thread;
        struct works *works;
        struct dlock_session *session;
        struct dlock_error error;
    } workers[WORKERS_N];
};

static void *work(void *arg)
{
    struct worker *worker = arg;
    struct works *works = worker->works;
    struct dlock_terms terms = {.wait_ms = 60000};
    struct dlock_grant grant;

    while (!atomic_load(&works->stop)) {
        if (dlock_acquire(worker->session, works->strategy, &terms, &grant,
                          &worker->error) != DLOCK_OK) {
            (void)atomic_fetch_add(&works->failed_n, 1);
            break;
        }
        if (atomic_fetch_add(&works->inside_n, 1) != 0)
            (void)atomic_fetch_add(&works->together_n, 1);
        lock_rig_sleep_ms(1);
        (void)atomic_fetch_sub(&works->inside_n, 1);
        (void)dlock_release(worker->session, &grant, NULL);
        (void)atomic_fetch_add(&works->done_n, 1);
    }
    return NULL;
}

static void begin_work(const char *strategy, struct works *works)
{
    works->strategy = strategy;
    works->client = lock_rig_client(strategy);
    for (size_t i = 0; i < WORKERS_N; i++) {
        struct worker *worker = &works->workers[i];

        worker->works = works;
        worker->session = lock_rig_session(works->client);
        assert_int_equal(pthread_create(&worker->thread, NULL, work, worker),
                         0);
    }
}

/* Until all have had it, and some more. */
static void await_work(struct works works[STEADY_N])
{
    uint64_t until_ms = lock_rig_now_ms() + 30000;

    for (size_t i = 0; i < STEADY_N; i++) {
        unsigned goal = atomic_load(&works[i].done_n) + 2 * WORKERS_N;

        while (atomic_load(&works[i].done_n) < goal &&
               atomic_load(&works[i].failed_n) == 0 &&
               lock_rig_now_ms() < until_ms)
            lock_rig_sleep_ms(1);
        if (atomic_load(&works[i].done_n) < goal)
            print_message("# %s stands still\n", steady[i]);
    }
}

static void end_work(struct works *works)
{
    atomic_store(&works->stop, true);
    for (size_t i = 0; i < WORKERS_N; i++) {
        assert_int_equal(pthread_join(works->workers[i].thread, NULL), 0);
        assert_string_equal(works->workers[i].error.text, "");
    }
    lock_rig_close(works->client);
    assert_int_equal(atomic_load(&works->failed_n), 0);
    assert_int_equal(atomic_load(&works->together_n), 0);
    assert_true(atomic_load(&works->done_n) >= 4 * WORKERS_N);
}

static void work_over_an_outage(void (*begin)(struct redis_server *server),
                                void (*end)(struct redis_server *server))
{
    struct works *works = calloc(STEADY_N, sizeof(*works));

    assert_non_null(works);
    for (size_t i = 0; i < STEADY_N; i++)
        begin_work(steady[i], &works[i]);
    await_work(works);
    begin(rig.server);
    lock_rig_sleep_ms(OUTAGE_MS);
    end(rig.server);
    await_work(works);
    for (size_t i = 0; i < STEADY_N; i++)
        end_work(&works[i]);
    free(works);
}

/* It comes back without data, and nobody is inside any more by then. */
static void test_workers_over_a_restart(NO_STATE)
{
    rig.watchdog_lease_ms = 1500;
    work_over_an_outage(redis_server_kill, redis_server_restart);
}

/* Tries get no answer, several times each: what they ask for is asked once. */
static void test_workers_over_a_freeze(NO_STATE)
{
    rig.watchdog_lease_ms = 1500;
    rig.command_timeout_ms = 200;
    work_over_an_outage(redis_server_pause, redis_server_resume);
}

static const struct CMUnitTest tests[] = {
    LOCK_TEST(test_workers_over_a_restart),
    LOCK_TEST(test_workers_over_a_freeze),
};
LOCK_RIG_MAIN(tests)
