/*
 * The lock server away, killed, frozen, forgetful, out of memory: what a caller
 * is told, how soon, and that everything recovers by itself.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/lock_rig.h"

/* SIGPIPE would end the test program: none of these may raise it. */
static void test_server_away_and_back(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_single party = lock_single_open(rig, "fenced");

    redis_server_kill(rig->server);
    assert_int_equal(lock_single_take(&party, 0), DLOCK_UNREACHABLE);
    redis_server_restart(rig->server);
    assert_int_equal(lock_single_take(&party, 0), DLOCK_OK);
    redis_server_kill(rig->server);
    assert_int_equal(dlock_release(party.session, &party.grant, NULL),
                     DLOCK_UNREACHABLE);
    redis_server_restart(rig->server);
    /* It has lost its data, and so have we the lock. */
    assert_int_equal(dlock_release(party.session, &party.grant, NULL),
                     DLOCK_LOST);
    assert_int_equal(lock_single_take(&party, 0), DLOCK_OK);
    assert_int_equal(dlock_release(party.session, &party.grant, NULL),
                     DLOCK_OK);
    lock_single_close(&party);
}

/* A restart while we were idle is no lost reply: found out before sending. */
static void test_restart_unnoticed(void **state)
{
    static const char *const names[] = {"setnx", "set-nx-px", "token-lua",
                                        "redisson"};
    struct lock_rig *rig = *state;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct lock_single party = lock_single_open(rig, names[i]);

        assert_int_equal(lock_single_take(&party, 0), DLOCK_OK);
        redis_server_kill(rig->server);
        redis_server_restart(rig->server);
        assert_int_equal(lock_single_take(&party, 0), DLOCK_OK);
        lock_single_close(&party);
        redis_server_ask(rig->server, "FLUSHALL", NULL, 0);
    }
}

/* Frozen: the command is sent, nothing comes back, and not for ever. */
static void test_frozen_server(void **state)
{
    static const char *const names[] = {"setnx", "token-lua", "fenced"};
    struct lock_rig *rig = *state;

    rig->command_timeout_ms = LOCK_RIG_TIMEOUT_MS;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct lock_single party = lock_single_open(rig, names[i]);
        uint64_t start_ms;

        assert_int_equal(lock_single_take(&party, 0), DLOCK_OK);
        assert_int_equal(dlock_release(party.session, &party.grant, NULL), 0);
        redis_server_pause(rig->server);
        start_ms = lock_rig_now_ms();
        assert_int_equal(lock_single_take(&party, 0), DLOCK_UNKNOWN);
        assert_in_range(lock_rig_now_ms() - start_ms, LOCK_RIG_TIMEOUT_MS - 5,
                        LOCK_RIG_PROMPT_MS);
        redis_server_resume(rig->server);
        redis_server_ask(rig->server, "FLUSHALL", NULL, 0);
        assert_int_equal(lock_single_take(&party, 0), DLOCK_OK);
        lock_single_close(&party);
        redis_server_ask(rig->server, "FLUSHALL", NULL, 0);
    }
}

/* Within wait_ms plus one timeout, also with a wait. */
static void test_frozen_server_while_waiting(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_single party;
    uint64_t start_ms;

    rig->command_timeout_ms = LOCK_RIG_TIMEOUT_MS;
    party = lock_single_open(rig, "fenced");
    assert_int_equal(lock_single_take(&party, 0), DLOCK_OK);
    assert_int_equal(dlock_release(party.session, &party.grant, NULL), 0);
    redis_server_pause(rig->server);
    start_ms = lock_rig_now_ms();
    assert_int_equal(lock_single_take(&party, 200), DLOCK_UNKNOWN);
    assert_in_range(lock_rig_now_ms() - start_ms, LOCK_RIG_TIMEOUT_MS - 5,
                    LOCK_RIG_PROMPT_MS);
    redis_server_resume(rig->server);
    lock_single_close(&party);
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
    struct lock_single party;
    pthread_t thread;

    rig->command_timeout_ms = LOCK_RIG_TIMEOUT_MS;
    party = lock_single_open(rig, "fenced");
    assert_int_equal(lock_single_take(&party, 0), DLOCK_OK);
    assert_int_equal(dlock_release(party.session, &party.grant, NULL), 0);
    assert_int_equal(lock_single_take(&party, 0), DLOCK_OK);
    step_log_reset(&rig->log);
    redis_server_pause(rig->server);
    assert_int_equal(pthread_create(&thread, NULL, thaw, rig), 0);
    assert_int_equal(dlock_release(party.session, &party.grant, NULL),
                     DLOCK_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(redis_server_number(rig->server, "EXISTS k"), 0);
    lock_single_close(&party);
}

/*
 * A process that was stopped for long, before its command, goes on where it
 * stopped: the command goes out. (The lab's pauses work like this.)
 */
static void *open_late(void *arg)
{
    struct lock_rig *rig = arg;

    step_log_await_gate(&rig->log, 1);
    lock_rig_sleep_ms(2 * LOCK_RIG_TIMEOUT_MS);
    step_log_open(&rig->log);
    return NULL;
}

static void test_pause_before_a_command(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_single party;
    pthread_t thread;

    rig->command_timeout_ms = LOCK_RIG_TIMEOUT_MS;
    party = lock_single_open(rig, "set-nx-px");
    step_log_shut(&rig->log, "set", DLOCK_BEFORE);
    assert_int_equal(pthread_create(&thread, NULL, open_late, rig), 0);
    assert_int_equal(lock_single_take(&party, 0), DLOCK_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    step_log_shut(&rig->log, "del", DLOCK_BEFORE);
    assert_int_equal(pthread_create(&thread, NULL, open_late, rig), 0);
    assert_int_equal(dlock_release(party.session, &party.grant, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(redis_server_number(rig->server, "EXISTS k"), 0);
    lock_single_close(&party);
}

static void test_script_flush(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_single party = lock_single_open(rig, "fenced");
    struct lock_single other = lock_single_open(rig, "token-lua");

    assert_int_equal(lock_single_take(&party, 0), DLOCK_OK);
    redis_server_ask(rig->server, "SCRIPT FLUSH", NULL, 0);
    assert_int_equal(dlock_release(party.session, &party.grant, NULL), 0);
    redis_server_ask(rig->server, "SCRIPT FLUSH", NULL, 0);
    step_log_reset(&rig->log);
    assert_int_equal(lock_single_take(&party, 0), DLOCK_OK);
    assert_int_equal(party.grant.holds, 1);
    /* One step, and the script was not loaded by a command of its own. */
    assert_int_equal(step_log_count(&rig->log, NULL), 1);
    redis_server_ask(rig->server, "SCRIPT FLUSH", NULL, 0);
    assert_int_equal(dlock_release(party.session, &party.grant, NULL), 0);
    assert_int_equal(lock_single_take(&other, 0), DLOCK_OK);
    assert_int_equal(dlock_release(other.session, &other.grant, NULL), 0);
    redis_server_ask(rig->server, "SCRIPT FLUSH", NULL, 0);
    assert_int_equal(lock_single_take(&other, 0), DLOCK_OK);
    assert_int_equal(dlock_release(other.session, &other.grant, NULL), 0);
    lock_single_close(&party);
    lock_single_close(&other);
}

/* Renewals in a pipeline, and the script is gone for all of them. */
static void test_script_flush_under_the_watchdog(void **state)
{
    struct lock_rig *rig = *state;
    struct dlock_grant grant[8];
    struct lock_single party;
    char name[16];

    rig->watchdog_lease_ms = LOCK_RIG_LEASE_MS;
    party = lock_single_open(rig, "fenced");
    for (int i = 0; i < 8; i++) {
        (void)snprintf(name, sizeof(name), "n%d", i);
        assert_int_equal(lock_rig_take(party.session, name, 0, 0, &grant[i]),
                         0);
    }
    step_log_await(&rig->log, "eval-renew", 8);
    redis_server_ask(rig->server, "SCRIPT FLUSH", NULL, 0);
    step_log_await(&rig->log, "eval-renew", 24);
    for (int i = 0; i < 8; i++)
        assert_int_equal(dlock_release(party.session, &grant[i], NULL),
                         DLOCK_OK);
    lock_single_close(&party);
}

/* A refusal is not "don't know": nothing is held, and the text says why. */
static void refuse(struct lock_rig *rig, const char *strategy,
                   const char *prepare, const char *text)
{
    struct lock_single party = lock_single_open(rig, strategy);
    struct dlock_terms terms = {.wait_ms = 100};
    struct dlock_error error = {""};

    redis_server_ask(rig->server, prepare, NULL, 0);
    assert_int_equal(
        dlock_acquire(party.session, "k", &terms, &party.grant, &error),
        DLOCK_UNREACHABLE);
    assert_non_null(strstr(error.text, "acquire: redis refused: "));
    assert_non_null(strstr(error.text, text));
    lock_single_close(&party);
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
    struct lock_single party = lock_single_open(rig, "fenced");

    assert_int_equal(lock_single_take(&party, 0), DLOCK_OK);
    redis_server_ask(rig->server, "CONFIG SET maxmemory 1", NULL, 0);
    assert_int_equal(dlock_release(party.session, &party.grant, NULL), 0);
    assert_int_equal(redis_server_number(rig->server, "EXISTS k"), 0);
    redis_server_ask(rig->server, "CONFIG SET maxmemory 0", NULL, 0);
    lock_single_close(&party);
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

        options.command_timeout_ms = LOCK_RIG_TIMEOUT_MS;
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
        TEST(test_script_flush),
        TEST(test_script_flush_under_the_watchdog),
        TEST(test_refusals),
        TEST(test_release_without_memory),
        TEST(test_nonsense),
    };

    return cmocka_run_group_tests(tests, lock_rig_setup, lock_rig_teardown);
}
