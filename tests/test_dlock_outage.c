/*
 * The lock server away, killed, frozen, forgetful, out of memory: what a caller
 * is told, how soon, and that everything recovers by itself.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/deaf_server.h"
#include "tests/support/lock_rig.h"

/* SIGPIPE would end the test program: none of these may raise it. */
static void test_server_away_and_back(NO_STATE)
{
    struct lock_single party = lock_single_open("fenced");

    redis_server_kill(rig.server);
    assert_int_equal(lock_single_take(&party, 0), DLOCK_UNREACHABLE);
    redis_server_restart(rig.server);
    assert_int_equal(lock_single_take(&party, 0), DLOCK_OK);
    redis_server_kill(rig.server);
    assert_int_equal(lock_single_give(&party), DLOCK_UNREACHABLE);
    redis_server_restart(rig.server);
    /* It has lost its data, and so have we the lock. */
    assert_int_equal(lock_single_give(&party), DLOCK_LOST);
    assert_int_equal(lock_single_take(&party, 0), DLOCK_OK);
    assert_int_equal(lock_single_give(&party), DLOCK_OK);
}

/* A restart while we were idle is no lost reply: found out before sending. */
static void test_restart_unnoticed(NO_STATE)
{
    static const char *const names[] = {"setnx", "set-nx-px", "token-lua",
                                        "redisson"};

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct lock_single party = lock_single_open(names[i]);

        assert_int_equal(lock_single_take(&party, 0), DLOCK_OK);
        redis_server_kill(rig.server);
        redis_server_restart(rig.server);
        assert_int_equal(lock_single_take(&party, 0), DLOCK_OK);
        lock_single_close(&party);
        lock_rig_tell("FLUSHALL");
    }
}

/* Frozen: the command is sent, nothing comes back, and not for ever: within the
 * wait and one timeout. */
static void test_frozen_server(NO_STATE)
{
    static const struct {
        const char *name;
        unsigned wait_ms;
    } rows[] = {{"setnx", 0}, {"token-lua", 0}, {"fenced", 0}, {"fenced", 200}};

    rig.command_timeout_ms = LOCK_RIG_TIMEOUT_MS;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct lock_single party = lock_single_open(rows[i].name);
        uint64_t start_ms;

        assert_int_equal(lock_single_take(&party, 0), DLOCK_OK);
        assert_int_equal(lock_single_give(&party), 0);
        redis_server_pause(rig.server);
        start_ms = lock_rig_now_ms();
        assert_int_equal(lock_single_take(&party, rows[i].wait_ms),
                         DLOCK_UNKNOWN);
        assert_in_range(lock_rig_now_ms() - start_ms, LOCK_RIG_TIMEOUT_MS - 5,
                        LOCK_RIG_PROMPT_MS);
        redis_server_resume(rig.server);
        lock_rig_tell("FLUSHALL");
        assert_int_equal(lock_single_take(&party, 0), DLOCK_OK);
        lock_single_close(&party);
        lock_rig_tell("FLUSHALL");
    }
}

/*
 * Frozen for longer than one timeout, then back: the release is sent again and
 * both copies arrive. The owner must not be told that it lost the lock.
 */
static void *thaw(void *arg)
{
    step_log_await(&rig.log, "eval-release", 1);
    redis_server_resume(rig.server);
    return arg;
}

static void test_release_over_a_freeze(NO_STATE)
{
    struct lock_single party;
    pthread_t thread;

    rig.command_timeout_ms = LOCK_RIG_TIMEOUT_MS;
    party = lock_single_open("fenced");
    assert_int_equal(lock_single_take(&party, 0), DLOCK_OK);
    assert_int_equal(lock_single_give(&party), 0);
    assert_int_equal(lock_single_take(&party, 0), DLOCK_OK);
    step_log_reset(&rig.log);
    redis_server_pause(rig.server);
    assert_int_equal(pthread_create(&thread, NULL, thaw, NULL), 0);
    assert_int_equal(lock_single_give(&party), DLOCK_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(lock_rig_is_held());
}

/*
 * A process that was stopped for long, before its command, goes on where it
 * stopped: the command goes out. (The lab's pauses work like this.)
 */
static void *open_late(void *arg)
{
    step_log_await_gate(&rig.log, 1);
    lock_rig_sleep_ms(2 * LOCK_RIG_TIMEOUT_MS);
    step_log_open(&rig.log);
    return arg;
}

static void test_pause_before_a_command(NO_STATE)
{
    struct lock_single party;
    pthread_t thread;

    rig.command_timeout_ms = LOCK_RIG_TIMEOUT_MS;
    party = lock_single_open("set-nx-px");
    step_log_shut(&rig.log, "set", DLOCK_BEFORE);
    assert_int_equal(pthread_create(&thread, NULL, open_late, NULL), 0);
    assert_int_equal(lock_single_take(&party, 0), DLOCK_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    step_log_shut(&rig.log, "del", DLOCK_BEFORE);
    assert_int_equal(pthread_create(&thread, NULL, open_late, NULL), 0);
    assert_int_equal(lock_single_give(&party), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(lock_rig_is_held());
}

static void test_script_flush(NO_STATE)
{
    struct lock_single party = lock_single_open("fenced");
    struct lock_single other = lock_single_open("token-lua");

    assert_int_equal(lock_single_take(&party, 0), DLOCK_OK);
    lock_rig_tell("SCRIPT FLUSH");
    assert_int_equal(lock_single_give(&party), 0);
    lock_rig_tell("SCRIPT FLUSH");
    step_log_reset(&rig.log);
    assert_int_equal(lock_single_take(&party, 0), DLOCK_OK);
    assert_int_equal(party.grant.holds, 1);
    /* One step, and the script was not loaded by a command of its own. */
    assert_int_equal(step_log_count(&rig.log, NULL), 1);
    lock_rig_tell("SCRIPT FLUSH");
    assert_int_equal(lock_single_give(&party), 0);
    assert_int_equal(lock_single_take(&other, 0), DLOCK_OK);
    assert_int_equal(lock_single_give(&other), 0);
    lock_rig_tell("SCRIPT FLUSH");
    assert_int_equal(lock_single_take(&other, 0), DLOCK_OK);
    assert_int_equal(lock_single_give(&other), 0);
}

/* Renewals in a pipeline, and the script is gone for all of them. */
static void test_script_flush_under_the_watchdog(NO_STATE)
{
    struct dlock_grant grant[8];
    struct lock_single party;
    char name[16];

    rig.watchdog_lease_ms = LOCK_RIG_LEASE_MS;
    party = lock_single_open("fenced");
    for (int i = 0; i < 8; i++) {
        (void)snprintf(name, sizeof(name), "n%d", i);
        assert_int_equal(lock_rig_take(party.session, name, 0, 0, &grant[i]),
                         0);
    }
    step_log_await(&rig.log, "eval-renew", 8);
    lock_rig_tell("SCRIPT FLUSH");
    step_log_await(&rig.log, "eval-renew", 24);
    for (int i = 0; i < 8; i++)
        assert_int_equal(dlock_release(party.session, &grant[i], NULL),
                         DLOCK_OK);
}

/* A refusal is not "don't know": nothing is held, and the text says why. */
static void refuse(const char *strategy, const char *prepare, const char *text)
{
    struct lock_single party = lock_single_open(strategy);
    struct dlock_terms terms = {.wait_ms = 100};
    struct dlock_error error = {""};

    lock_rig_tell(prepare);
    assert_int_equal(
        dlock_acquire(party.session, "k", &terms, &party.grant, &error),
        DLOCK_UNREACHABLE);
    assert_non_null(strstr(error.text, "acquire: redis refused: "));
    assert_non_null(strstr(error.text, text));
}

static void test_refusals(NO_STATE)
{
    refuse("fenced", "SET k 1", "WRONGTYPE");
    lock_rig_tell("DEL k");
    refuse("set-nx-px", "REPLICAOF 127.0.0.1 1", "READONLY");
    refuse("redisson", "REPLICAOF 127.0.0.1 1", "READONLY");
    lock_rig_tell("REPLICAOF NO ONE");
    refuse("setnx", "CONFIG SET maxmemory 1", "OOM");
    refuse("fenced", "CONFIG SET maxmemory 1", "OOM");
    assert_false(lock_rig_is_held());
    lock_rig_tell("CONFIG SET maxmemory 0");
}

/* Out of memory, a lock can still be given back. */
static void test_release_without_memory(NO_STATE)
{
    struct lock_single party = lock_single_open("fenced");

    assert_int_equal(lock_single_take(&party, 0), DLOCK_OK);
    lock_rig_tell("CONFIG SET maxmemory 1");
    assert_int_equal(lock_single_give(&party), 0);
    assert_false(lock_rig_is_held());
    lock_rig_tell("CONFIG SET maxmemory 0");
}

/* Something listens that answers nonsense. */
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

static void test_nonsense(NO_STATE)
{
    static const char *const lines[] = {
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "$99999999999\r\n",
        ":12",
        "*2\r\n:1\r\n",
        "*-5\r\n",
    };
    struct sockaddr_in at;
    struct impostor impostor = {.fd = deaf_server_bind(&at, 8)};
    char url[40];

    (void)snprintf(url, sizeof(url), "redis://127.0.0.1:%d",
                   ntohs(at.sin_port));
    rig.url = url;
    rig.command_timeout_ms = LOCK_RIG_TIMEOUT_MS;
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        struct lock_single party = lock_single_open("setnx");
        pthread_t thread;

        impostor.says = lines[i];
        assert_int_equal(pthread_create(&thread, NULL, answer, &impostor), 0);
        assert_int_equal(lock_single_take(&party, 0), DLOCK_UNKNOWN);
        assert_int_equal(pthread_join(thread, NULL), 0);
        lock_single_close(&party);
    }
    (void)close(impostor.fd);
}

static const struct CMUnitTest tests[] = {
    LOCK_TEST(test_server_away_and_back),
    LOCK_TEST(test_restart_unnoticed),
    LOCK_TEST(test_frozen_server),
    LOCK_TEST(test_release_over_a_freeze),
    LOCK_TEST(test_pause_before_a_command),
    LOCK_TEST(test_script_flush),
    LOCK_TEST(test_script_flush_under_the_watchdog),
    LOCK_TEST(test_refusals),
    LOCK_TEST(test_release_without_memory),
    LOCK_TEST(test_nonsense),
};
LOCK_RIG_MAIN(tests)
