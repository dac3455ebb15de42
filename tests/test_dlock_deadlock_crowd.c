/*
 * Deadlocks in a crowd of processes that take two of three locks each, again and
 * again: who takes them in order is told of none, and without order all come to
 * their end as well.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lock/dlock_deadlock.h"
#include "tests/support/lock_party.h"
#include "tests/support/redis_server.h"
#include "tests/support/unit_test.h"

enum {
    LONG_MS = 60000, /* nobody waits for so long */
    CROWD = 8,
    LOCKS = 3,
};

static struct redis_server *server;

static const char *const names[LOCKS] = {"A", "B", "C"};

static int begin_all(NO_STATE)
{
    dlock_deadlock_register();
    server = redis_server_start();
    return 0;
}

static int end_all(NO_STATE)
{
    redis_server_stop(server);
    return 0;
}

static int set_up(NO_STATE)
{
    redis_server_ask(server, "FLUSHALL", NULL, 0);
    return 0;
}

/* Takes two of three locks again and again; ORDERED: always the lower one first. The
 * exit status: how often it was told of a deadlock, 255 = something went wrong. */
static _Noreturn void go_round(const char *strategy, unsigned seed,
                               bool ordered)
{
    const struct lock_party_terms how = {.strategy = strategy,
                                         .url = redis_server_url(server),
                                         .label = "crowd"};
    const struct dlock_terms terms = {.wait_ms = LONG_MS, .deadlock_ms = 1};
    int deadlocks = 0;
    struct lock_party party;

    lock_party_open(&party, &how);
    for (int round = 0; round < (ordered ? 50 : 3);) {
        unsigned first = (unsigned)rand_r(&seed) % LOCKS;
        unsigned second =
            (first + 1 + (unsigned)rand_r(&seed) % (LOCKS - 1)) % LOCKS;
        struct dlock_grant grants[2];
        enum dlock_status status;

        if (ordered && second < first) {
            unsigned swap = first;

            first = second;
            second = swap;
        }
        status = dlock_acquire(party.session, names[first], &terms, &grants[0],
                               NULL);
        if (status != DLOCK_OK)
            _exit(255);
        status = dlock_acquire(party.session, names[second], &terms, &grants[1],
                               NULL);
        if (status != DLOCK_OK && status != DLOCK_DEADLOCK)
            _exit(255);
        if (status == DLOCK_OK &&
            dlock_release(party.session, &grants[1], NULL) != DLOCK_OK)
            _exit(255);
        if (dlock_release(party.session, &grants[0], NULL) != DLOCK_OK)
            _exit(255);
        deadlocks += status == DLOCK_DEADLOCK;
        round += status == DLOCK_OK;
    }
    _exit(deadlocks < 255 ? deadlocks : 254);
}

static int crowd(const char *strategy, bool ordered)
{
    pid_t pids[CROWD], parent = getpid();
    unsigned n = ordered ? CROWD : LOCKS; /* a cycle takes half a second */
    int deadlocks = 0, status;

    for (unsigned i = 0; i < n; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() == parent)
                go_round(strategy, i + 1, ordered);
            _exit(255);
        }
    }
    for (unsigned i = 0; i < n; i++) {
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status));
        assert_int_not_equal(WEXITSTATUS(status), 255);
        deadlocks += WEXITSTATUS(status);
    }
    return deadlocks;
}

static void a_crowd_in_order_hears_nothing(void **state)
{
    assert_int_equal(crowd(*state, true), 0);
}

/* Without order all come to their end as well, since one of each cycle gives way. */
static void a_crowd_without_order_comes_through(void **state)
{
    (void)crowd(*state, false);
}

/* The state is the lock's name. */
static const struct CMUnitTest tests[] = {
    {"in order (fenced)", a_crowd_in_order_hears_nothing, set_up, NULL,
     (char[]){"fenced"}},
    {"in order (redisson)", a_crowd_in_order_hears_nothing, set_up, NULL,
     (char[]){"redisson"}},
    {"without order (fenced)", a_crowd_without_order_comes_through, set_up,
     NULL, (char[]){"fenced"}},
    {"without order (fair)", a_crowd_without_order_comes_through, set_up, NULL,
     (char[]){"fair"}},
};
TEST_MAIN_WITHIN(tests, begin_all, end_all)
