/*
 * The lock server away, killed, frozen, forgetful, out of memory: what a caller
 * is told, how soon, and that everything recovers by itself.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/lock_rig.h"

struct party {
    struct dlock *client;
    struct dlock_session *session;
    struct dlock_grant grant;
};

static struct party open_party(struct lock_rig *rig, const char *strategy)
{
    struct party party = {.client = lock_rig_client(rig, strategy)};

    party.session = lock_rig_session(party.client);
    return party;
}

static void close_party(struct party *party)
{
    dlock_session_close(party->session);
    dlock_close(party->client);
}

static enum dlock_status take(struct party *party, unsigned wait_ms)
{
    return lock_rig_take(party->session, "k", wait_ms, 0, &party->grant);
}

/* SIGPIPE would end the test program: none of these may raise it. */
static void test_server_away_and_back(void **state)
{
    struct lock_rig *rig = *state;
    struct party party = open_party(rig, "fenced");

    redis_server_kill(rig->server);
    assert_int_equal(take(&party, 0), DLOCK_UNREACHABLE);
    redis_server_restart(rig->server);
    assert_int_equal(take(&party, 0), DLOCK_OK);
    redis_server_kill(rig->server);
    assert_int_equal(dlock_release(party.session, &party.grant, NULL),
                     DLOCK_UNREACHABLE);
    redis_server_restart(rig->server);
    /* It has lost its data, and so have we the lock. */
    assert_int_equal(dlock_release(party.session, &party.grant, NULL),
                     DLOCK_LOST);
    assert_int_equal(take(&party, 0), DLOCK_OK);
    assert_int_equal(dlock_release(party.session, &party.grant, NULL),
                     DLOCK_OK);
    close_party(&party);
}

/* A restart while we were idle is no lost reply: found out before sending. */
static void test_restart_unnoticed(void **state)
{
    static const char *const names[] = {"setnx", "set-nx-px", "token-lua",
                                        "redisson"};
    struct lock_rig *rig = *state;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct party party = open_party(rig, names[i]);

        assert_int_equal(take(&party, 0), DLOCK_OK);
        redis_server_kill(rig->server);
        redis_server_restart(rig->server);
        assert_int_equal(take(&party, 0), DLOCK_OK);
        close_party(&party);
        redis_server_ask(rig->server, "FLUSHALL", NULL, 0);
    }
}

/* Frozen: the command is sent, nothing comes back, and not for ever. */
static void test_frozen_server(void **state)
{
    static const char *const names[] = {"setnx", "token-lua", "fenced"};
    struct lock_rig *rig = *state;

    rig->command_timeout_ms = 150;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct party party = open_party(rig, names[i]);
        uint64_t start_ms;

        assert_int_equal(take(&party, 0), DLOCK_OK);
        assert_int_equal(dlock_release(party.session, &party.grant, NULL), 0);
        redis_server_pause(rig->server);
        start_ms = lock_rig_now_ms();
        assert_int_equal(take(&party, 0), DLOCK_UNKNOWN);
        assert_in_range(lock_rig_now_ms() - start_ms, 145, 1000);
        redis_server_resume(rig->server);
        redis_server_ask(rig->server, "FLUSHALL", NULL, 0);
        assert_int_equal(take(&party, 0), DLOCK_OK);
        close_party(&party);
        redis_server_ask(rig->server, "FLUSHALL", NULL, 0);
    }
}

/* Within wait_ms plus one timeout, also with a wait. */
static void test_frozen_server_while_waiting(void **state)
{
    struct lock_rig *rig = *state;
    struct party party;
    uint64_t start_ms;

    rig->command_timeout_ms = 150;
    party = open_party(rig, "fenced");
    assert_int_equal(take(&party, 0), DLOCK_OK);
    assert_int_equal(dlock_release(party.session, &party.grant, NULL), 0);
    redis_server_pause(rig->server);
    start_ms = lock_rig_now_ms();
    assert_int_equal(take(&party, 200), DLOCK_UNKNOWN);
    assert_in_range(lock_rig_now_ms() - start_ms, 145, 1000);
    redis_server_resume(rig->server);
    close_party(&party);
}

/*
 * Frozen for longer than one timeout, then back: the release is sent again and
 * both copies arrive. The owner must not be told that it lost the lock.
 */
static void *thaw(void *arg)
{
    struct lock_rig *rig = arg;

    step_log_await(&rig->log, "eval-release", 1);
    redis_server_resume(rig->server);
    return NULL;
}

static void test_release_over_a_freeze(void **state)
{
    struct lock_rig *rig = *state;
    struct party party;
    pthread_t thread;

    rig->command_timeout_ms = 200;
    party = open_party(rig, "fenced");
    assert_int_equal(take(&party, 0), DLOCK_OK);
    assert_int_equal(dlock_release(party.session, &party.grant, NULL), 0);
    assert_int_equal(take(&party, 0), DLOCK_OK);
    step_log_reset(&rig->log);
    redis_server_pause(rig->server);
    assert_int_equal(pthread_create(&thread, NULL, thaw, rig), 0);
    assert_int_equal(dlock_release(party.session, &party.grant, NULL),
                     DLOCK_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(redis_server_number(rig->server, "EXISTS k"), 0);
    close_party(&party);
}

/*
 * A process that was stopped for long, before its command, goes on where it
 * stopped: the command goes out. (The lab's pauses work like this.)
 */
static void *open_late(void *arg)
{
    struct lock_rig *rig = arg;

    step_log_await_gate(&rig->log, 1);
    lock_rig_sleep_ms(500);
    step_log_open(&rig->log);
    return NULL;
}

static void test_pause_before_a_command(void **state)
{
    struct lock_rig *rig = *state;
    struct party party;
    pthread_t thread;

    rig->command_timeout_ms = 150;
    party = open_party(rig, "set-nx-px");
    step_log_shut(&rig->log, "set-nx-px", DLOCK_BEFORE);
    assert_int_equal(pthread_create(&thread, NULL, open_late, rig), 0);
    assert_int_equal(take(&party, 0), DLOCK_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    step_log_shut(&rig->log, "del", DLOCK_BEFORE);
    assert_int_equal(pthread_create(&thread, NULL, open_late, rig), 0);
    assert_int_equal(dlock_release(party.session, &party.grant, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(redis_server_number(rig->server, "EXISTS k"), 0);
    close_party(&party);
}

/* The wait goes on over an outage, and at its end the true cause is told. */
struct waiting {
    struct party *party;
    unsigned wait_ms;
    enum dlock_status status;
    struct dlock_error error;
    uint64_t done_at_ms;
};

static void *wait_for_it(void *arg)
{
    struct waiting *waiting = arg;
    struct dlock_terms terms = {.wait_ms = waiting->wait_ms};

    waiting->status = dlock_acquire(waiting->party->session, "k", &terms,
                                    &waiting->party->grant, &waiting->error);
    waiting->done_at_ms = lock_rig_now_ms();
    return NULL;
}

/* A waiter begins, and its server is killed. */
static void kill_under(struct lock_rig *rig, struct party *holder,
                       struct waiting *waiting, pthread_t *thread)
{
    unsigned looks_n;

    assert_int_equal(take(holder, 0), DLOCK_OK);
    looks_n = step_log_count(&rig->log, "eval-acquire");
    assert_int_equal(pthread_create(thread, NULL, wait_for_it, waiting), 0);
    step_log_await(&rig->log, "eval-acquire", looks_n + 2);
    redis_server_kill(rig->server);
}

static void test_server_dies_under_a_waiter(void **state)
{
    static const char *const names[] = {"redisson", "fenced", "fair"};
    struct lock_rig *rig = *state;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct party holder = open_party(rig, names[i]);
        struct party waiter = open_party(rig, names[i]);
        struct waiting waiting = {.party = &waiter, .wait_ms = 1500};
        uint64_t began_at_ms = lock_rig_now_ms();
        pthread_t thread;

        kill_under(rig, &holder, &waiting, &thread);
        assert_int_equal(pthread_join(thread, NULL), 0);
        /* Not sent, or sent into a connection that was just breaking. */
        assert_true(waiting.status == DLOCK_UNREACHABLE ||
                    waiting.status == DLOCK_UNKNOWN);
        assert_null(strstr(waiting.error.text, "no time left"));
        assert_non_null(strstr(waiting.error.text, "redis"));
        assert_in_range(waiting.done_at_ms - began_at_ms, 1500, 3500);
        redis_server_restart(rig->server);
        close_party(&holder);
        close_party(&waiter);
    }
}

/* And it ends at once when nobody wants it any more. */
static void test_cancel_in_an_outage(void **state)
{
    static const char *const names[] = {"redisson", "fenced", "fair"};
    struct lock_rig *rig = *state;

    for (size_t i = 0; i < 2 * sizeof(names) / sizeof(names[0]); i++) {
        struct party holder = open_party(rig, names[i / 2]);
        struct party waiter = open_party(rig, names[i / 2]);
        struct waiting waiting = {.party = &waiter, .wait_ms = 60000};
        uint64_t ended_at_ms;
        pthread_t thread;

        kill_under(rig, &holder, &waiting, &thread);
        lock_rig_sleep_ms(300);
        ended_at_ms = lock_rig_now_ms();
        if (i % 2 == 0)
            dlock_cancel(waiter.session);
        else
            dlock_end_waits(waiter.client);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(waiting.status == DLOCK_TIMEOUT ||
                    waiting.status == DLOCK_UNKNOWN);
        assert_in_range(waiting.done_at_ms - ended_at_ms, 0, 400);
        redis_server_restart(rig->server);
        close_party(&holder);
        close_party(&waiter);
    }
}

/* A try without an answer, and the next one --------------------------------------- */

/* What the first try has won is known again, and counts from the first one. */
static void test_won_by_a_try_without_an_answer(void **state)
{
    static const char *const names[] = {"redisson", "fenced", "fair"};
    struct lock_rig *rig = *state;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct party party = open_party(rig, names[i]);
        long long server_ms;

        step_log_fail(&rig->log, "eval-acquire", DLOCK_AFTER, 9);
        assert_int_equal(
            lock_rig_take(party.session, "k", 60000, 20000, &party.grant),
            DLOCK_OK);
        server_ms = redis_server_number(rig->server, "PTTL k");
        /* Three tries, and pauses of 15 ms at least; two clocks of whole ms. */
        assert_in_range(dlock_remaining_ms(party.session, &party.grant), 1,
                        server_ms + 2);
        assert_int_equal(party.grant.holds, 1);
        assert_int_equal(step_log_count(&rig->log, "eval-withdraw"), 0);
        assert_int_equal(dlock_release(party.session, &party.grant, NULL), 0);
        assert_int_equal(redis_server_number(rig->server, "EXISTS k"), 0);
        close_party(&party);
    }
}

/* A lock that counts its takings has counted the lost one: it is not ours. */
static void test_counted_without_an_answer(void **state)
{
    struct lock_rig *rig = *state;
    struct party party = open_party(rig, "spin");

    step_log_fail(&rig->log, "eval-take", DLOCK_AFTER, 2);
    assert_int_equal(take(&party, 60000), DLOCK_OK);
    assert_int_equal(party.grant.holds, 1);
    assert_int_equal(dlock_release(party.session, &party.grant, NULL),
                     DLOCK_OK);
    assert_int_equal(redis_server_number(rig->server, "EXISTS k"), 0);
    close_party(&party);
}

/* The key in the way may be our own: that is a "don't know", not a "no". */
static void test_in_its_own_way(void **state)
{
    struct lock_rig *rig = *state;
    struct party party = open_party(rig, "token-lua");

    step_log_fail(&rig->log, "set-nx-px", DLOCK_AFTER, 1);
    assert_int_equal(
        lock_rig_take(party.session, "k", 100, 60000, &party.grant),
        DLOCK_UNKNOWN);
    step_log_fail(&rig->log, "set-nx-px", DLOCK_AFTER, 1);
    redis_server_ask(rig->server, "DEL k", NULL, 0);
    assert_int_equal(lock_rig_take(party.session, "k", 5000, 100, &party.grant),
                     DLOCK_OK);
    assert_in_range(dlock_remaining_ms(party.session, &party.grant), 1, 100);
    close_party(&party);
}

/* Whoever was told no after that has asked in vain, and leaves nothing behind. */
static void test_no_after_a_try_without_an_answer(void **state)
{
    struct lock_rig *rig = *state;
    struct party holder = open_party(rig, "redisson");
    struct party waiter = open_party(rig, "redisson");

    assert_int_equal(take(&holder, 0), DLOCK_OK);
    step_log_fail(&rig->log, "eval-acquire", DLOCK_AFTER, 3);
    assert_int_equal(take(&waiter, 200), DLOCK_TIMEOUT);
    assert_int_equal(step_log_count(&rig->log, "eval-withdraw"), 1);
    assert_int_equal(dlock_release(holder.session, &holder.grant, NULL),
                     DLOCK_OK);
    close_party(&holder);
    close_party(&waiter);
}

/* What a server refuses for may pass, or be put right, within the wait. */
static void outlast(struct lock_rig *rig, const char *wrong, const char *right)
{
    struct party party = open_party(rig, "fenced");
    struct waiting waiting = {.party = &party, .wait_ms = 60000};
    pthread_t thread;

    redis_server_ask(rig->server, wrong, NULL, 0);
    step_log_reset(&rig->log);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_it, &waiting), 0);
    step_log_await(&rig->log, "eval-acquire", 3);
    redis_server_ask(rig->server, right, NULL, 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(waiting.status, DLOCK_OK);
    assert_int_equal(dlock_release(party.session, &party.grant, NULL), 0);
    close_party(&party);
}

static void test_refusals_are_outlasted(void **state)
{
    outlast(*state, "SET k 1", "DEL k");
    outlast(*state, "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE");
    outlast(*state, "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0");
}

/* A release and an extend have two command timeouts. */
static void *extend_it(void *arg)
{
    struct waiting *waiting = arg;

    waiting->status =
        dlock_extend(waiting->party->session, &waiting->party->grant, 60000,
                     &waiting->error);
    return NULL;
}

static void test_extend_and_release_over_a_restart(void **state)
{
    struct lock_rig *rig = *state;
    struct waiting waiting = {.status = DLOCK_OK};
    struct party party;
    pthread_t thread;

    rig->command_timeout_ms = 5000; /* a busy machine starts it in less */
    party = open_party(rig, "fenced");
    waiting.party = &party;
    assert_int_equal(lock_rig_take(party.session, "k", 0, 60000, &party.grant),
                     DLOCK_OK);
    redis_server_kill(rig->server);
    assert_int_equal(pthread_create(&thread, NULL, extend_it, &waiting), 0);
    step_log_await(&rig->log, "eval-renew", 2);
    redis_server_restart(rig->server);
    assert_int_equal(pthread_join(thread, NULL), 0);
    /* It has lost its data: that is an answer. */
    assert_int_equal(waiting.status, DLOCK_LOST);
    step_log_fail(&rig->log, "eval-release", DLOCK_BEFORE, 2);
    assert_int_equal(dlock_release(party.session, &party.grant, NULL),
                     DLOCK_LOST);
    close_party(&party);
}

/* Workers that take and give back, over an outage ------------------------------------ */

static const char *const steady[] = {"redisson",  "fenced",   "fair", "spin",
                                     "token-lua", "watchdog", "multi"};
enum {
    STEADY_N = sizeof(steady) / sizeof(steady[0]),
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

static void begin_work(struct lock_rig *rig, const char *strategy,
                       struct works *works)
{
    works->strategy = strategy;
    works->client = lock_rig_client(rig, strategy);
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
    dlock_close(works->client);
    assert_int_equal(atomic_load(&works->failed_n), 0);
    assert_int_equal(atomic_load(&works->together_n), 0);
    assert_true(atomic_load(&works->done_n) >= 4 * WORKERS_N);
}

static void work_over_an_outage(struct lock_rig *rig,
                                void (*begin)(struct redis_server *server),
                                void (*end)(struct redis_server *server))
{
    struct works *works = calloc(STEADY_N, sizeof(*works));

    assert_non_null(works);
    for (size_t i = 0; i < STEADY_N; i++)
        begin_work(rig, steady[i], &works[i]);
    await_work(works);
    begin(rig->server);
    lock_rig_sleep_ms(OUTAGE_MS);
    end(rig->server);
    await_work(works);
    for (size_t i = 0; i < STEADY_N; i++)
        end_work(&works[i]);
    free(works);
}

/* It comes back without data, and nobody is inside any more by then. */
static void test_workers_over_a_restart(void **state)
{
    struct lock_rig *rig = *state;

    rig->watchdog_lease_ms = 1500;
    work_over_an_outage(rig, redis_server_kill, redis_server_restart);
}

/* Tries get no answer, several times each: what they ask for is asked once. */
static void test_workers_over_a_freeze(void **state)
{
    struct lock_rig *rig = *state;

    rig->watchdog_lease_ms = 1500;
    rig->command_timeout_ms = 200;
    work_over_an_outage(rig, redis_server_pause, redis_server_resume);
}

static void test_script_flush(void **state)
{
    struct lock_rig *rig = *state;
    struct party party = open_party(rig, "fenced");
    struct party other = open_party(rig, "token-lua");

    assert_int_equal(take(&party, 0), DLOCK_OK);
    redis_server_ask(rig->server, "SCRIPT FLUSH", NULL, 0);
    assert_int_equal(dlock_release(party.session, &party.grant, NULL), 0);
    redis_server_ask(rig->server, "SCRIPT FLUSH", NULL, 0);
    step_log_reset(&rig->log);
    assert_int_equal(take(&party, 0), DLOCK_OK);
    assert_int_equal(party.grant.holds, 1);
    /* One step, and the script was not loaded by a command of its own. */
    assert_int_equal(step_log_count(&rig->log, NULL), 1);
    redis_server_ask(rig->server, "SCRIPT FLUSH", NULL, 0);
    assert_int_equal(dlock_release(party.session, &party.grant, NULL), 0);
    assert_int_equal(take(&other, 0), DLOCK_OK);
    assert_int_equal(dlock_release(other.session, &other.grant, NULL), 0);
    redis_server_ask(rig->server, "SCRIPT FLUSH", NULL, 0);
    assert_int_equal(take(&other, 0), DLOCK_OK);
    assert_int_equal(dlock_release(other.session, &other.grant, NULL), 0);
    close_party(&party);
    close_party(&other);
}

/* Renewals in a pipeline, and the script is gone for all of them. */
static void test_script_flush_under_the_watchdog(void **state)
{
    struct lock_rig *rig = *state;
    struct dlock_grant grant[8];
    struct party party;
    char name[16];

    rig->watchdog_lease_ms = 150;
    party = open_party(rig, "fenced");
    for (int i = 0; i < 8; i++) {
        (void)snprintf(name, sizeof(name), "n%d", i);
        assert_int_equal(lock_rig_take(party.session, name, 0, 0, &grant[i]),
                         0);
    }
    step_log_await(&rig->log, "eval-renew", 8);
    redis_server_ask(rig->server, "SCRIPT FLUSH", NULL, 0);
    step_log_await(&rig->log, "eval-renew", 40);
    for (int i = 0; i < 8; i++)
        assert_int_equal(dlock_release(party.session, &grant[i], NULL),
                         DLOCK_OK);
    close_party(&party);
}

/* A refusal is not "don't know": nothing is held, and the text says why. */
static void refuse(struct lock_rig *rig, const char *strategy,
                   const char *prepare, const char *text)
{
    struct party party = open_party(rig, strategy);
    struct dlock_terms terms = {.wait_ms = 100};
    struct dlock_error error = {""};

    redis_server_ask(rig->server, prepare, NULL, 0);
    assert_int_equal(
        dlock_acquire(party.session, "k", &terms, &party.grant, &error),
        DLOCK_UNREACHABLE);
    assert_non_null(strstr(error.text, "acquire: redis refused: "));
    assert_non_null(strstr(error.text, text));
    close_party(&party);
}

static void test_refusals(void **state)
{
    struct lock_rig *rig = *state;

    refuse(rig, "fenced", "SET k 1", "WRONGTYPE");
    redis_server_ask(rig->server, "DEL k", NULL, 0);
    refuse(rig, "set-nx-px", "REPLICAOF 127.0.0.1 1", "READONLY");
    refuse(rig, "redisson", "REPLICAOF 127.0.0.1 1", "READONLY");
    redis_server_ask(rig->server, "REPLICAOF NO ONE", NULL, 0);
    refuse(rig, "setnx", "CONFIG SET maxmemory 1", "OOM");
    refuse(rig, "fenced", "CONFIG SET maxmemory 1", "OOM");
    assert_int_equal(redis_server_number(rig->server, "EXISTS k"), 0);
    redis_server_ask(rig->server, "CONFIG SET maxmemory 0", NULL, 0);
}

/* Out of memory, a lock can still be given back. */
static void test_release_without_memory(void **state)
{
    struct lock_rig *rig = *state;
    struct party party = open_party(rig, "fenced");

    assert_int_equal(take(&party, 0), DLOCK_OK);
    redis_server_ask(rig->server, "CONFIG SET maxmemory 1", NULL, 0);
    assert_int_equal(dlock_release(party.session, &party.grant, NULL), 0);
    assert_int_equal(redis_server_number(rig->server, "EXISTS k"), 0);
    redis_server_ask(rig->server, "CONFIG SET maxmemory 0", NULL, 0);
    close_party(&party);
}

/* Something listens that never answers, or answers nonsense. */
static int listen_at(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
    (void)unlink(path);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(fd, 8), 0);
    return fd;
}

struct impostor {
    int fd;
    const char *says;
};

static void *answer(void *arg)
{
    struct impostor *impostor = arg;
    char buffer[4096];
    int fd = accept(impostor->fd, NULL, NULL);

    if (fd >= 0 && read(fd, buffer, sizeof(buffer)) > 0)
        (void)!write(fd, impostor->says, strlen(impostor->says));
    (void)close(fd);
    return NULL;
}

static void test_nonsense(void **state)
{
    static const char *const lines[] = {
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "$99999999999\r\n",
        ":12",
        "*2\r\n:1\r\n",
        "*-5\r\n",
    };
    struct lock_rig *rig = *state;
    char path[64];
    char url[80];

    (void)rig;
    (void)snprintf(path, sizeof(path), "/tmp/stockade-%d.sock", (int)getpid());
    (void)snprintf(url, sizeof(url), "unix:%s", path);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct dlock_options options = {.strategy = "setnx", .url = url};
        struct impostor impostor = {.fd = listen_at(path), .says = lines[i]};
        struct dlock *client = NULL;
        struct dlock_session *session;
        struct dlock_grant grant;
        pthread_t thread;

        options.command_timeout_ms = 300;
        assert_int_equal(dlock_open(&options, &client, NULL), 0);
        session = lock_rig_session(client);
        assert_int_equal(pthread_create(&thread, NULL, answer, &impostor), 0);
        assert_int_equal(lock_rig_take(session, "k", 0, 1000, &grant),
                         DLOCK_UNKNOWN);
        assert_int_equal(pthread_join(thread, NULL), 0);
        (void)close(impostor.fd);
        dlock_session_close(session);
        dlock_close(client);
    }
    (void)unlink(path);
}

/* Ending a wait while nothing is answered ---------------------------------------- */

struct ended_wait {
    struct party party;
    enum dlock_status status;
};

static void *wait_long(void *arg)
{
    struct ended_wait *wait = arg;

    wait->status = lock_rig_take(wait->party.session, "k", 60000, 60000,
                                 &wait->party.grant);
    return NULL;
}

static void end_by_cancel(struct party *party)
{
    dlock_cancel(party->session);
}

static void end_by_client(struct party *party)
{
    dlock_end_waits(party->client);
}

/* Milliseconds from END to the end of an acquire that a frozen server keeps. */
static uint64_t ends_within(struct lock_rig *rig, const char *strategy,
                            void (*end)(struct party *party))
{
    struct ended_wait wait = {.party = open_party(rig, strategy)};
    unsigned sent_n;
    uint64_t began_ms;
    pthread_t thread;

    /* Everybody has been here: connections and scripts are there. */
    wait_long(&wait);
    assert_int_equal(dlock_release(wait.party.session, &wait.party.grant, NULL),
                     DLOCK_OK);
    redis_server_pause(rig->server);
    sent_n = step_log_count(&rig->log, "eval-acquire");
    assert_int_equal(pthread_create(&thread, NULL, wait_long, &wait), 0);
    step_log_await(&rig->log, "eval-acquire", sent_n + 1);
    began_ms = lock_rig_now_ms();
    end(&wait.party);
    assert_int_equal(pthread_join(thread, NULL), 0);
    began_ms = lock_rig_now_ms() - began_ms;
    assert_int_equal(wait.status, DLOCK_UNKNOWN);
    redis_server_resume(rig->server);
    close_party(&wait.party);
    return began_ms;
}

/* The try under way is not sent again for somebody who does not want it. */
static void test_a_wait_ends_on_a_frozen_server(void **state)
{
    enum { TIMEOUT_MS = 500, LATE_MS = 200 }; /* a busy machine's lateness */
    struct lock_rig *rig = *state;

    rig->command_timeout_ms = TIMEOUT_MS;
    assert_in_range(ends_within(rig, "fenced", end_by_cancel), 0,
                    TIMEOUT_MS + LATE_MS);
    assert_in_range(ends_within(rig, "fenced", end_by_client), 0,
                    TIMEOUT_MS + LATE_MS);
    assert_in_range(ends_within(rig, "fair", end_by_cancel), 0,
                    2 * TIMEOUT_MS + LATE_MS);
}

#define TEST(name) cmocka_unit_test_setup(name, lock_rig_fresh)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_server_away_and_back),
        TEST(test_restart_unnoticed),
        TEST(test_frozen_server),
        TEST(test_frozen_server_while_waiting),
        TEST(test_release_over_a_freeze),
        TEST(test_pause_before_a_command),
        TEST(test_server_dies_under_a_waiter),
        TEST(test_cancel_in_an_outage),
        TEST(test_won_by_a_try_without_an_answer),
        TEST(test_counted_without_an_answer),
        TEST(test_in_its_own_way),
        TEST(test_no_after_a_try_without_an_answer),
        TEST(test_refusals_are_outlasted),
        TEST(test_extend_and_release_over_a_restart),
        TEST(test_workers_over_a_restart),
        TEST(test_workers_over_a_freeze),
        TEST(test_script_flush),
        TEST(test_script_flush_under_the_watchdog),
        TEST(test_refusals),
        TEST(test_release_without_memory),
        TEST(test_nonsense),
        TEST(test_a_wait_ends_on_a_frozen_server),
    };

    return cmocka_run_group_tests(tests, lock_rig_setup, lock_rig_teardown);
}
