/*
 * M and M2 of locks in ZooKeeper: an ensemble loses the server that leads, or
 * one that follows, while one holds the lock and another waits for it. The
 * sessions go on: the lock stays whole, is handed on while the server is away,
 * and stays with its holder when it comes back.
 *
 * The ensemble is one for all locks, and loses one server at a time: so checks
 * that run at once take turns.
 */

#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/lab/conform/cast.h"

enum {
    LOOK_MS = 25,        /* nobody tells that an election is over */
    ELECTION_MS = 10000, /* that it may take */
    NODES_MIN = 3,       /* two of them are still more than half */
    NODES_MAX = 7,
    NODE_BYTES_MAX = 64, /* "HOST:PORT" */
    ANSWER_S = 2,        /* that a server of it may take */
};

struct nodes {
    unsigned n;
    char at[NODES_MAX][NODE_BYTES_MAX];
};

/* The servers ---------------------------------------------------------------- */

/* Takes "zk:HOST:PORT,HOST:PORT/ROOT" apart. False: too many or too long. */
static bool parse(const char *url, struct nodes *nodes)
{
    nodes->n = 0;
    url += strncmp(url, "zk:", 3) == 0 ? 3 : 0;
    for (;;) {
        size_t len = strcspn(url, ",/");

        if (nodes->n == NODES_MAX || len >= NODE_BYTES_MAX)
            return false;
        (void)snprintf(nodes->at[nodes->n++], NODE_BYTES_MAX, "%.*s", (int)len,
                       url);
        if (url[len] != ',')
            return true;
        url += len + 1;
    }
}

/* A connection to HOST:PORT, or -1. */
static int reach(const char *at)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    const struct timeval limit = {.tv_sec = ANSWER_S};
    const char *colon = strrchr(at, ':');
    char host[NODE_BYTES_MAX];
    struct addrinfo *found;
    int fd;

    if (!colon)
        return -1;
    (void)snprintf(host, sizeof(host), "%.*s", (int)(colon - at), at);
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0)
        return -1;
    fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
        (void)close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

/* The answer to the four letters "srvr" ends with the connection. */
char conform_zk_role(const char *at)
{
    int fd = reach(at);
    char answer[2048];
    const char *role;
    size_t len = 0;
    ssize_t got;

    if (fd < 0)
        return '\0';
    got = send(fd, "srvr", 4, MSG_NOSIGNAL);
    while (got > 0 && len + 1 < sizeof(answer)) {
        got = recv(fd, answer + len, sizeof(answer) - len - 1, 0);
        len += got > 0 ? (size_t)got : 0;
    }
    (void)close(fd);
    answer[len] = '\0';
    role = strstr(answer, "Mode: ");
    if (!role)
        return '\0';
    return role[strlen("Mode: ")];
}

/* The check ------------------------------------------------------------------ */

static uint64_t patience(const struct testbed *testbed)
{
    return clock_ms() + (uint64_t)ELECTION_MS * testbed->slow;
}

/* Does ACTION to the server AT, until it serves, or serves no more. */
static void tend(const struct testbed *testbed, const char *action,
                 const char *at)
{
    bool serves = strcmp(action, "start") == 0;
    uint64_t until_ms = patience(testbed);
    char line[1024];
    int len = snprintf(line, sizeof(line), "%s %s %s",
                       testbed->servers->zk_node, action, at);

    /* A server that it starts must not keep what tells our folder of our end. */
    (void)close_range(3, UINT_MAX, CLOSE_RANGE_CLOEXEC);
    if (len < 0 || (size_t)len >= sizeof(line) || system(line) != 0)
        testbed_broken(testbed, "%s failed", line);
    while ((conform_zk_role(at) != '\0') != serves) {
        if (clock_ms() > until_ms)
            testbed_broken(testbed, "%s %s: nothing happens", action, at);
        clock_sleep_ms(LOOK_MS);
    }
}

/* While they elect, there is no answer, not even to one who waits. Then again. */
static enum dlock_status take_hard(struct cast *cast, unsigned who,
                                   const char *name, unsigned wait_ms)
{
    return cast_insist(cast, who, name, wait_ms, 0,
                       ELECTION_MS * cast->testbed->slow);
}

static enum dlock_status give_hard(struct cast *cast, unsigned who,
                                   const char *name)
{
    uint64_t until_ms = patience(cast->testbed);
    enum dlock_status status = cast_give(cast, who, name);

    while (cast_is_silent(status) && clock_ms() < until_ms)
        status = cast_do(cast, who, deed_give_anyway, name);
    return status;
}

/* THIRD asks, and must be told that somebody else has it. */
static void check_taken(struct cast *cast, const char *name, const char *when)
{
    enum dlock_status status = take_hard(cast, CAST_THIRD, name, 0);

    if (status == DLOCK_OK)
        testbed_fails(cast->testbed, "%s: two holders", when);
    if (status != DLOCK_BUSY)
        testbed_fails(cast->testbed, "%s: %s", when, dlock_status_text(status));
}

static void lose(struct cast *cast, const struct nodes *nodes, char role,
                 const char *when)
{
    struct testbed *testbed = cast->testbed;
    uint64_t until_ms = patience(testbed);
    const char *victim = "", *name = testbed_name(when);
    bool is_found = false;
    enum dlock_status status;

    while (!is_found && clock_ms() < until_ms) {
        for (unsigned i = 0; i < nodes->n && !is_found; i++) {
            victim = nodes->at[i];
            is_found = conform_zk_role(victim) == role;
        }
        if (!is_found)
            clock_sleep_ms(LOOK_MS);
    }
    if (!is_found)
        testbed_broken(testbed, "no server of the ensemble is '%c'", role);

    cast_begin(cast, name, 0);
    cast_tell(cast, CAST_NEXT,
              cast_order(deed_take, name, testbed->long_ms, 0));
    tend(testbed, "kill", victim);
    check_taken(cast, name, when);
    if (give_hard(cast, CAST_HOLDER, name) != DLOCK_OK)
        testbed_fails(testbed, "%s: the holder has lost it", when);
    status = cast_hear(cast, CAST_NEXT).status;
    if (cast_is_silent(status))
        status = take_hard(cast, CAST_NEXT, name, testbed->long_ms);
    if (status != DLOCK_OK)
        testbed_fails(testbed, "%s: who waited does not get it: %s", when,
                      dlock_status_text(status));
    check_taken(cast, name, when);
    tend(testbed, "start", victim);
    check_taken(cast, name, when);
    if (give_hard(cast, CAST_NEXT, name) != DLOCK_OK)
        testbed_fails(testbed, "%s and came back: the holder has lost it",
                      when);
}

void conform_lose_zk(struct testbed *testbed, char role, const char *when)
{
    const struct conform_servers *servers = testbed->servers;
    struct nodes nodes;
    struct cast cast;
    char path[64];
    int fd;

    if (!servers->zk_ensemble || !servers->zk_node)
        testbed_not_asked(testbed, "needs --zk-ensemble and --zk-node");
    if (!parse(servers->zk_ensemble, &nodes) || nodes.n < NODES_MIN)
        testbed_broken(testbed, "--zk-ensemble takes %d to %d servers",
                       NODES_MIN, NODES_MAX);
    /* The lock on the file ends with the check's process. */
    (void)snprintf(path, sizeof(path), "/tmp/stockade-lab-zk-%u.lock",
                   (unsigned)getuid());
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) != 0)
        testbed_broken(testbed, "%s cannot be locked", path);
    (void)snprintf(testbed->url, sizeof(testbed->url), "%s",
                   servers->zk_ensemble);
    cast_open(&cast, testbed, 3, testbed->long_ms);
    lose(&cast, &nodes, role, when);
    testbed_holds(testbed, "of %u servers %s, and came back: one holder",
                  nodes.n, when);
}
