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
#include "server/lab/conform/check.h"

enum {
    LOOK_MS = 25,        /* nobody tells that an election is over */
    ELECTION_MS = 10000, /* that it may take */
    NODES_MIN = 3,       /* two of them are still more than half */
    NODES_MAX = 7,
    HOST_BYTES_MAX = 64,
    ANSWER_S = 2, /* that a server of it may take */
};

/* The servers ---------------------------------------------------------------- */

/* A connection to HOST:PORT, or -1. */
static int reach(const char *at)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    const struct timeval limit = {.tv_sec = ANSWER_S};
    const char *colon = strrchr(at, ':');
    char host[HOST_BYTES_MAX];
    struct addrinfo *found;
    int fd;

    if (!colon)
        return -1;
    (void)snprintf(host, sizeof(host), "%.*s", (int)(colon - at), at);
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0)
        return -1;
    /* The first address is enough: it is a server of a test. */
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
    char answer[2048] = "";
    const char *role;

    if (fd < 0)
        return '\0';
    /* The server closes the connection behind its answer: no length has to be known. */
    if (send(fd, "srvr", 4, MSG_NOSIGNAL) == 4)
        (void)recv(fd, answer, sizeof(answer) - 1, MSG_WAITALL);
    (void)close(fd);
    role = strstr(answer, "Mode: ");
    if (!role)
        return '\0';
    return role[strlen("Mode: ")];
}

/* The check ------------------------------------------------------------------ */

static uint64_t patience(void)
{
    return clock_ms() + (uint64_t)ELECTION_MS * testbed.slow;
}

/* Does ACTION to the server AT, until it serves, or serves no more. */
static void tend(const char *action, const char *at)
{
    bool serves = strcmp(action, "start") == 0;
    uint64_t until_ms = patience();
    char line[1024];
    int len = snprintf(line, sizeof(line), "%s %s %s", suite.servers.zk_node,
                       action, at);

    /* The folder's remover waits for the ends of a socket: a server that outlives us
     * would hold one for ever. */
    (void)close_range(3, UINT_MAX, CLOSE_RANGE_CLOEXEC);
    need(len > 0 && (size_t)len < sizeof(line) && system(line) == 0,
         "%s failed", line);
    /* The command may come back before its server has done so. */
    while ((conform_zk_role(at) != '\0') != serves) {
        need(clock_ms() <= until_ms, "%s %s: nothing happens", action, at);
        clock_sleep_ms(LOOK_MS);
    }
}

/* The servers of "zk:HOST:PORT,HOST:PORT/ROOT"; how many. URL is taken apart. */
static unsigned parse(char *url, const char *nodes[NODES_MAX])
{
    char *rest = NULL, *at;
    unsigned n = 0;

    url += strncmp(url, "zk:", 3) == 0 ? 3 : 0;
    url[strcspn(url, "/")] = '\0';
    at = strtok_r(url, ",", &rest);
    for (; at && n < NODES_MAX; at = strtok_r(NULL, ",", &rest))
        nodes[n++] = at;
    /* More servers than places are as wrong as too few: one that is not known
     * could lead. */
    need(!at && n >= NODES_MIN, "--zk-ensemble takes %d to %d servers",
         NODES_MIN, NODES_MAX);
    return n;
}

/* The one of the N servers that has this role. */
static const char *find(const char *const nodes[], unsigned n, char role)
{
    uint64_t until_ms = patience();

    /* Round and round: who leads may change while it is asked. */
    for (unsigned i = 0;; i = (i + 1) % n) {
        if (conform_zk_role(nodes[i]) == role)
            return nodes[i];
        need(clock_ms() < until_ms, "no server of the ensemble is '%c'", role);
        clock_sleep_ms(LOOK_MS);
    }
}

/* While they elect, there is no answer, not even to one who waits. Then again. */
static enum dlock_status take_hard(unsigned who, const char *name,
                                   unsigned wait_ms)
{
    return cast_insist(who, name, wait_ms, 0, ELECTION_MS * testbed.slow);
}

static enum dlock_status give_hard(unsigned who, const char *name)
{
    uint64_t until_ms = patience();
    enum dlock_status status = cast_give(who, name);

    while (cast_is_silent(status) && clock_ms() < until_ms)
        status = cast_give(who, name);
    return status;
}

/* THIRD asks, and must be told that somebody else has it. */
static void check_taken(const char *name, const char *when)
{
    enum dlock_status status = take_hard(THIRD, name, 0);

    /* A grant in the middle of an election may be late news: so it is asked again. */
    must_in_time(status != DLOCK_OK, "%s: two holders", when);
    must_in_time(status == DLOCK_BUSY, "%s: %s", when,
                 dlock_status_text(status));
}

static void lose(const char *victim, const char *when)
{
    const char *name = cast_begin(0);
    enum dlock_status status;

    cast_tell(NEXT, deed_take, name, testbed.long_ms, 0);
    tend("kill", victim);
    /* While the server is away the lock must be known to those that stay. */
    check_taken(name, when);
    must_in_time(give_hard(HOLDER, name) == DLOCK_OK,
                 "%s: the holder has lost it", when);
    status = cast_hear(NEXT).status;
    if (cast_is_silent(status))
        status = take_hard(NEXT, name, testbed.long_ms);
    must_in_time(status == DLOCK_OK, "%s: who waited does not get it: %s", when,
                 dlock_status_text(status));
    check_taken(name, when);
    tend("start", victim);
    /* A server that comes back must not bring an old state with it. */
    check_taken(name, when);
    must_in_time(give_hard(NEXT, name) == DLOCK_OK,
                 "%s and came back: the holder has lost it", when);
}

void conform_lose_zk(char role, const char *when)
{
    const struct conform_servers *servers = &suite.servers;
    char path[64], url[sizeof(testbed.url)];
    const char *nodes[NODES_MAX];
    unsigned n;
    int fd;

    if (!servers->zk_ensemble || !servers->zk_node)
        check_end(CONFORM_NOT_ASKED, "needs --zk-ensemble and --zk-node");
    /* The lock on the file ends with the check's process. */
    (void)snprintf(path, sizeof(path), "/tmp/stockade-lab-zk-%u.lock",
                   (unsigned)getuid());
    /* A file in /tmp: nobody else's, and no link that a stranger could have
     * left there. */
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    need(fd >= 0 && flock(fd, LOCK_EX) == 0, "%s cannot be locked", path);
    /* The check goes to the ensemble, whatever server was given for the other ones. */
    (void)snprintf(testbed.url, sizeof(testbed.url), "%s",
                   servers->zk_ensemble);
    (void)snprintf(url, sizeof(url), "%s", servers->zk_ensemble);
    n = parse(url, nodes);
    /* A check that ended while a server was away has left it so, and with two away there
     * is no majority. */
    for (unsigned i = 0; i < n; i++)
        if (conform_zk_role(nodes[i]) == '\0')
            tend("start", nodes[i]);
    cast_open(3, testbed.long_ms);
    lose(find(nodes, n, role), when);
    check_holds("of %u servers %s, and came back: one holder", n, when);
}
