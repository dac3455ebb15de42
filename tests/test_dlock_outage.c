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
#include "tests/support/lock_story.h"

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

static const struct lock_story stories[] = {
    /* SIGPIPE would end the test program: none of these may raise it. It has lost its
     * data, and so have we the lock. */
    {"the server is away, and comes back", "fenced",
     "server kill; a takes -> unreachable; server restart; a takes; server "
     "kill; "
     "a gives -> unreachable; server restart; a gives -> lost; a takes; a "
     "gives"},
    /* Found out before sending. */
    {"a restart while we were idle is no lost reply",
     "setnx set-nx-px token-lua redisson",
     "a takes; server kill; server restart; a takes"},
    /* The command is sent, nothing comes back, and not for ever. */
    {"it is frozen", "setnx token-lua fenced",
     "commands timeout; a takes; a gives; server pause; clock; "
     "a takes -> unknown; took 1495..prompt; server resume; FLUSHALL; a takes"},
    {"within the wait and one timeout", "fenced",
     "commands timeout; a takes; a gives; server pause; clock; "
     "a takes wait=200 -> unknown; took 1495..prompt; server resume; FLUSHALL; "
     "a takes"},
    /* For longer than one timeout: the release is sent again and both copies arrive. The
     * owner must not be told that it lost the lock. */
    {"a release over a freeze", "fenced",
     "commands timeout; a takes; a gives; a takes; forget; server pause; "
     "& a gives; await eval-release 1; server resume; join; free"},
    /* A process that was stopped goes on where it stopped: the command goes out. (The
     * lab's pauses work like this.) */
    {"a long pause before a command", "set-nx-px",
     "commands timeout; shut set before; & a takes; gate; sleep 3000; open; "
     "join; shut del before; & a gives; gate; sleep 3000; open; join; free"},
    /* One step, and the script was not loaded by a command of its own. */
    {"scripts are forgotten", "fenced",
     "a takes; SCRIPT FLUSH; a gives; SCRIPT FLUSH; forget; a takes holds=1; "
     "steps all 1; SCRIPT FLUSH; a gives"},
    {"also those of the textbook", "token-lua",
     "a takes; a gives; SCRIPT FLUSH; a takes; a gives"},
    {"and by all renewals of a pipeline", "fenced",
     "watchdog lease; a takes one name=1; a takes two name=2; "
     "a takes three name=3; a takes four name=4; await eval-renew 4; "
     "SCRIPT FLUSH; await eval-renew 12; a gives one; a gives two; "
     "a gives three; a gives four"},
    /* A refusal is not "don't know": nothing is held, and the text says why. */
    {"the key is of another kind", "fenced",
     "SET k 1; a takes wait=100 -> unreachable "
     "'..acquire: redis refused: WRONGTYPE'"},
    {"it is a replica", "set-nx-px redisson",
     "REPLICAOF 127.0.0.1 1; a takes wait=100 -> unreachable "
     "'..acquire: redis refused: READONLY'; REPLICAOF NO ONE"},
    {"it is out of memory", "setnx fenced",
     "CONFIG SET maxmemory 1; a takes wait=100 -> unreachable "
     "'..acquire: redis refused: OOM'; free; CONFIG SET maxmemory 0"},
    {"then a lock can still be given back", "fenced",
     "a takes; CONFIG SET maxmemory 1; a gives; free; CONFIG SET maxmemory 0"},
};
LOCK_STORIES_TEST

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_stories),
    LOCK_TEST(test_nonsense),
};
LOCK_RIG_MAIN(tests)
