/*
 * Some strategies against the properties of shared/locks.md that threads and
 * step hooks can test within one process; `stockade lab locks` measures all of
 * them, with processes. The table says which ones a lock must have; the others
 * it must FAIL: a wrong lock that passes by accident would be of no use in the
 * lab, and is a test failure like any other.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/lock_rig.h"

static const struct {
    const char *name;
    const char *has; /* letters of the properties below */
} expected[] = {
    {"none", ""},
    {"process", "XPLW"},
    {"setnx", "X2L"},
    {"set-nx-px", "X2CA"},
    {"token-lua", "X2CAPR"},
    {"redisson", "X2CAPRLNW"},
    {"fenced", "X2CAPRLNWT"},
    {"fenced-late", "X2CAPRLNWT"},
};

/* Two sessions of two clients, as in two processes. */
struct duel {
    struct lock_rig *rig;
    const char *strategy;
    char name[64]; /* its own for each duel: "process" never forgets a crash */
    struct dlock *client[2];
    struct dlock_session *session[2];
    struct dlock_grant grant[2];
};

static struct duel open_duel(struct lock_rig *rig, const char *strategy)
{
    static unsigned n;
    struct duel duel = {.rig = rig, .strategy = strategy};

    (void)snprintf(duel.name, sizeof(duel.name), "duel:%u", n++);
    for (int i = 0; i < 2; i++) {
        duel.client[i] = lock_rig_client(rig, strategy);
        duel.session[i] = lock_rig_session(duel.client[i]);
    }
    return duel;
}

static void close_duel(struct duel *duel)
{
    for (int i = 0; i < 2; i++) {
        dlock_session_close(duel->session[i]);
        dlock_close(duel->client[i]);
    }
}

static enum dlock_status take(struct duel *duel, int who, unsigned wait_ms,
                              unsigned lease_ms)
{
    return lock_rig_take(duel->session[who], duel->name, wait_ms, lease_ms,
                         &duel->grant[who]);
}

static enum dlock_status give(struct duel *duel, int who)
{
    return dlock_release(duel->session[who], &duel->grant[who], NULL);
}

static bool is_free(struct duel *duel)
{
    return lock_rig_probe(duel->rig, duel->strategy, duel->name) == DLOCK_OK;
}

/* The lease ends now: what would take a sleep, made by hand. */
static void end_lease(struct duel *duel)
{
    char command[80];

    (void)snprintf(command, sizeof(command), "DEL %s", duel->name);
    redis_server_ask(duel->rig->server, command, NULL, 0);
}

static bool can(const struct duel *duel, unsigned capability)
{
    return (dlock_strategy_find(duel->strategy)->capabilities & capability) !=
           0;
}

/* X: mutual exclusion under contention ---------------------------------------- */

struct contention {
    struct duel *duel;
    atomic_int inside;
    atomic_bool violated;
    atomic_int entered;
};

static void *contend(void *arg)
{
    struct contention *contention = arg;
    struct duel *duel = contention->duel;
    struct dlock_session *session = lock_rig_session(duel->client[0]);
    struct dlock_grant grant;

    for (int i = 0; i < 25; i++) {
        if (lock_rig_take(session, duel->name, 10000, 0, &grant) != DLOCK_OK)
            continue;
        if (atomic_fetch_add(&contention->inside, 1) != 0)
            atomic_store(&contention->violated, true);
        (void)atomic_fetch_add(&contention->entered, 1);
        (void)atomic_fetch_sub(&contention->inside, 1);
        if (dlock_release(session, &grant, NULL) != DLOCK_OK)
            atomic_store(&contention->violated, true);
    }
    dlock_session_close(session);
    return NULL;
}

static bool has_x(struct duel *duel)
{
    struct contention contention = {.duel = duel};
    pthread_t threads[4];
    bool alone;

    assert_int_equal(take(duel, 0, 0, 0), DLOCK_OK);
    alone = take(duel, 1, 0, 0) == DLOCK_BUSY;
    (void)give(duel, 0);
    if (!alone)
        return false;
    for (int i = 0; i < 4; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, contend, &contention), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&contention.entered), 100);
    return !atomic_load(&contention.violated);
}

/* 2: the same across two processes -------------------------------------------- */

/* This program once more, as the other process: see main(). */
static int other_process(const struct duel *duel)
{
    char self[256];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    pid_t pid;
    int status;

    assert_true(len > 0);
    self[len] = '\0';
    pid = fork();
    if (pid == 0) {
        execl(self, self, "try", duel->strategy,
              redis_server_url(duel->rig->server), duel->name, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int try_as_other_process(char *argv[])
{
    struct dlock_options options = {.strategy = argv[2], .url = argv[3]};
    struct dlock *client = NULL;
    struct dlock_session *session = NULL;
    struct dlock_grant grant;
    enum dlock_status status;

    if (dlock_open(&options, &client, NULL) != DLOCK_OK ||
        dlock_session_open(client, &session, NULL) != DLOCK_OK)
        return 126;
    status = lock_rig_take(session, argv[4], 0, 5000, &grant);
    dlock_session_close(session);
    dlock_close(client);
    return (int)status;
}

static bool has_2(struct duel *duel)
{
    int status;

    assert_int_equal(take(duel, 0, 0, 0), DLOCK_OK);
    status = other_process(duel);
    assert_true(status == DLOCK_OK || status == DLOCK_BUSY);
    return status == DLOCK_BUSY;
}

/* C: the holder crashes, others get in within the lease ----------------------- */

static bool has_c(struct duel *duel)
{
    assert_int_equal(take(duel, 0, 0, 150), DLOCK_OK);
    dlock_session_close(duel->session[0]);
    duel->session[0] = lock_rig_session(duel->client[0]);
    if (take(duel, 1, 0, 150) == DLOCK_OK)
        return false; /* it never was alone */
    return take(duel, 1, 400, 150) == DLOCK_OK;
}

/* A: the same, if it crashes after any of the commands of its acquire --------- */

static bool has_a(struct duel *duel)
{
    /* All of today's locks take with one command; it fails after that one. */
    static const char *const steps[] = {"set-nx", "set-nx-px", "eval-acquire"};

    if (!can(duel, DLOCK_CAP_REMOTE))
        return false;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        step_log_fail(&duel->rig->log, steps[i], DLOCK_AFTER, 3);
        (void)take(duel, 0, 0, 150);
        step_log_fail(&duel->rig->log, "", DLOCK_AFTER, 0);
        dlock_session_close(duel->session[0]);
        duel->session[0] = lock_rig_session(duel->client[0]);
        if (take(duel, 1, 400, 150) != DLOCK_OK)
            return false;
        (void)give(duel, 1);
    }
    return true;
}

/* P: who pauses beyond its lease cannot free another's lock ------------------- */

static bool has_p(struct duel *duel)
{
    assert_int_equal(take(duel, 0, 0, 5000), DLOCK_OK);
    if (!can(duel, DLOCK_CAP_LEASE)) {
        /* Without a lease: somebody who never had it gives it back. */
        duel->grant[1] = duel->grant[0];
        lock_rig_pass_off(duel->session[1], &duel->grant[1]);
        (void)give(duel, 1);
        return !is_free(duel);
    }
    end_lease(duel);
    assert_int_equal(take(duel, 1, 0, 5000), DLOCK_OK);
    (void)give(duel, 0);
    return !is_free(duel);
}

/* R: the same, however the release is cut into pieces ------------------------- */

static void *give_slowly(void *arg)
{
    (void)give(arg, 0);
    return NULL;
}

static bool has_r(struct duel *duel)
{
    static const char *const steps[] = {"del", "get", "eval-release"};
    bool held = true;

    if (!can(duel, DLOCK_CAP_LEASE))
        return false;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        pthread_t thread;

        assert_int_equal(take(duel, 0, 0, 5000), DLOCK_OK);
        /* The releaser stops before the step, and its lease ends there. */
        step_log_shut(&duel->rig->log, steps[i], DLOCK_BEFORE);
        assert_int_equal(pthread_create(&thread, NULL, give_slowly, duel), 0);
        lock_rig_sleep_ms(10);
        end_lease(duel);
        assert_int_equal(take(duel, 1, 0, 5000), DLOCK_OK);
        step_log_open(&duel->rig->log);
        assert_int_equal(pthread_join(thread, NULL), 0);
        held = held && !is_free(duel);
        end_lease(duel);
    }
    return held;
}

/* L: work longer than the lease is still alone, while the holder lives -------- */

static bool has_l(struct duel *duel)
{
    assert_int_equal(take(duel, 0, 0, 0), DLOCK_OK);
    lock_rig_sleep_ms(250); /* the rig's lease is 100 ms */
    return !is_free(duel);
}

/* N: the same session may come in again, and has to leave as often ------------ */

static bool has_n(struct duel *duel)
{
    struct dlock_grant inner;

    assert_int_equal(take(duel, 0, 0, 5000), DLOCK_OK);
    if (lock_rig_take(duel->session[0], duel->name, 0, 5000, &inner) !=
        DLOCK_OK)
        return false;
    if (is_free(duel))
        return false;
    if (dlock_release(duel->session[0], &inner, NULL) != DLOCK_OK)
        return false;
    if (is_free(duel))
        return false;
    return give(duel, 0) == DLOCK_OK && is_free(duel);
}

/* W: a waiter gets it promptly, without polling ------------------------------- */

static void *wait_for_it(void *arg)
{
    struct duel *duel = arg;

    return take(duel, 1, 5000, 5000) == DLOCK_OK ? duel : NULL;
}

static bool has_w(struct duel *duel)
{
    struct step_log *log = &duel->rig->log;
    pthread_t thread;
    void *got;
    unsigned steps;
    uint64_t polled_at_ms, given_at_ms;

    assert_int_equal(take(duel, 0, 0, 5000), DLOCK_OK);
    if (is_free(duel))
        return false; /* nobody ever waits */
    step_log_reset(log);
    polled_at_ms = lock_rig_now_ms() + 200;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_it, duel), 0);
    while ((steps = step_log_count(log, NULL)) <= 6 &&
           lock_rig_now_ms() < polled_at_ms)
        lock_rig_sleep_ms(10);
    given_at_ms = lock_rig_now_ms();
    (void)give(duel, 0);
    assert_int_equal(pthread_join(thread, &got), 0);
    assert_ptr_equal(got, duel);
    /* Who is not woken sleeps until the lease would have ended. */
    return steps <= 6 && lock_rig_now_ms() - given_at_ms < 2000;
}

/* T: grants carry a token that only rises ------------------------------------- */

static bool has_t(struct duel *duel)
{
    uint64_t last = 0;

    for (int i = 0; i < 6; i++) {
        assert_int_equal(take(duel, i % 2, 0, 5000), DLOCK_OK);
        if (duel->grant[i % 2].token <= last)
            return false;
        last = duel->grant[i % 2].token;
        (void)give(duel, i % 2);
    }
    return true;
}

static const struct {
    char letter;
    bool (*has)(struct duel *duel);
} properties[] = {
    {'X', has_x}, {'2', has_2}, {'C', has_c}, {'A', has_a}, {'P', has_p},
    {'R', has_r}, {'L', has_l}, {'N', has_n}, {'W', has_w}, {'T', has_t},
};

/* One test per strategy: compares what it has with what it must have. */
static void check_strategy(void **state, const char *name, const char *must)
{
    struct lock_rig *rig = *state;

    for (size_t i = 0; i < sizeof(properties) / sizeof(properties[0]); i++) {
        char letter = properties[i].letter;
        bool has;
        struct duel duel;

        rig->watchdog_lease_ms = letter == 'L' ? 100 : 0;
        duel = open_duel(rig, name);
        has = properties[i].has(&duel);
        close_duel(&duel);
        if (has != (strchr(must, letter) != NULL))
            fail_msg("%s %s property %c", name,
                     has ? "has by accident" : "has lost", letter);
    }
}

#define STRATEGY(index)                                                        \
    static void test_strategy_##index(void **state)                            \
    {                                                                          \
        check_strategy(state, expected[index].name, expected[index].has);      \
    }

STRATEGY(0)
STRATEGY(1)
STRATEGY(2)
STRATEGY(3)
STRATEGY(4)
STRATEGY(5)
STRATEGY(6)

/* A lost reply is "don't know" where the command cannot be sent twice. */
static void test_lost_reply_of_the_ladder(void **state)
{
    static const struct {
        const char *name, *step;
    } rows[] = {{"setnx", "set-nx"},
                {"set-nx-px", "set-nx-px"},
                {"token-lua", "set-nx-px"}};
    struct lock_rig *rig = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct duel duel = open_duel(rig, rows[i].name);

        step_log_reset(&rig->log);
        step_log_fail(&rig->log, rows[i].step, DLOCK_AFTER, 1);
        assert_int_equal(take(&duel, 0, 0, 5000), DLOCK_UNKNOWN);
        assert_int_equal(step_log_count(&rig->log, rows[i].step), 1);
        assert_false(is_free(&duel));
        close_duel(&duel);
    }
}

/* Rungs answer inspect and extend as far as they can. */
static void test_ladder_inspect_and_extend(void **state)
{
    struct lock_rig *rig = *state;
    struct duel duel = open_duel(rig, "token-lua");
    struct dlock_holder holder;

    assert_int_equal(dlock_inspect(duel.session[0], duel.name, &holder, NULL),
                     DLOCK_OK);
    assert_false(holder.held);
    assert_int_equal(take(&duel, 0, 0, 5000), DLOCK_OK);
    assert_int_equal(dlock_inspect(duel.session[1], duel.name, &holder, NULL),
                     DLOCK_OK);
    assert_true(holder.held);
    assert_string_equal(holder.owner, dlock_session_owner(duel.session[0]));
    assert_in_range(holder.remaining_ms, 4000, 5000);
    assert_int_equal(dlock_extend(duel.session[0], &duel.grant[0], 9000, NULL),
                     DLOCK_OK);
    assert_int_equal(dlock_inspect(duel.session[1], duel.name, &holder, NULL),
                     DLOCK_OK);
    assert_in_range(holder.remaining_ms, 8000, 9000);
    end_lease(&duel);
    assert_int_equal(dlock_extend(duel.session[0], &duel.grant[0], 9000, NULL),
                     DLOCK_LOST);
    assert_int_equal(give(&duel, 0), DLOCK_LOST);
    close_duel(&duel);

    duel = open_duel(rig, "setnx");
    assert_int_equal(take(&duel, 0, 0, 5000), DLOCK_OK);
    assert_int_equal(duel.grant[0].deadline_ms, UINT64_MAX);
    assert_int_equal(dlock_inspect(duel.session[1], duel.name, &holder, NULL),
                     DLOCK_OK);
    assert_true(holder.held && holder.remaining_ms == UINT64_MAX);
    assert_int_equal(give(&duel, 0), DLOCK_OK);
    close_duel(&duel);
}

/* A crashed holder of "process" blocks for ever; a bounded wait ends anyway. */
static void test_process_crash(void **state)
{
    struct lock_rig *rig = *state;
    struct duel duel = open_duel(rig, "process");
    uint64_t start_ms;

    assert_int_equal(take(&duel, 0, 0, 0), DLOCK_OK);
    dlock_session_close(duel.session[0]);
    duel.session[0] = NULL;
    start_ms = lock_rig_now_ms();
    assert_int_equal(take(&duel, 1, 100, 0), DLOCK_TIMEOUT);
    assert_in_range(lock_rig_now_ms() - start_ms, 100, 2000);
    close_duel(&duel);
}

#define TEST(name) cmocka_unit_test_setup(name, lock_rig_fresh)
#define NAMED(index)                                                           \
    {                                                                          \
        expected[index].name, test_strategy_##index, lock_rig_fresh, NULL,     \
            NULL                                                               \
    }

int main(int argc, char *argv[])
{
    const struct CMUnitTest tests[] = {
        NAMED(0),
        NAMED(1),
        NAMED(2),
        NAMED(3),
        NAMED(4),
        NAMED(5),
        NAMED(6),
        TEST(test_lost_reply_of_the_ladder),
        TEST(test_ladder_inspect_and_extend),
        TEST(test_process_crash),
    };

    if (argc == 5 && strcmp(argv[1], "try") == 0)
        return try_as_other_process(argv);
    return cmocka_run_group_tests(tests, lock_rig_setup, lock_rig_teardown);
}
