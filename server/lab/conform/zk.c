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
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/lab/conform/cast.h"
#include "server/lab/conform/zk_ensemble.h"

enum {
    LOOK_MS = 25,        /* nobody tells that an election is over */
    ELECTION_MS = 10000, /* that it may take */
    NODES_MIN = 3,       /* two of them are still more than half */
};

/* Ends with the check's process. */
static void take_turns(const struct testbed *testbed)
{
    char path[64];
    int fd;

    (void)snprintf(path, sizeof(path), "/tmp/stockade-lab-zk-%u.lock",
                   (unsigned)getuid());
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) != 0)
        testbed_broken(testbed, "%s cannot be locked", path);
}

static uint64_t patience(const struct testbed *testbed)
{
    return clock_ms() + (uint64_t)ELECTION_MS * testbed->slow;
}

/* The server that is ROLE. */
static const char *await_role(const struct testbed *testbed,
                              const struct zk_nodes *nodes, char role)
{
    uint64_t until_ms = patience(testbed);

    do {
        for (unsigned i = 0; i < nodes->n; i++)
            if (zk_node_role(nodes->at[i]) == role)
                return nodes->at[i];
        clock_sleep_ms(LOOK_MS);
    } while (clock_ms() < until_ms);
    testbed_broken(testbed, "no server of the ensemble is '%c'", role);
}

/* Does ACTION to the server AT, until it serves, or serves no more. */
static void tend(const struct testbed *testbed, const char *action,
                 const char *at)
{
    bool serves = strcmp(action, "start") == 0;
    uint64_t until_ms = patience(testbed);

    if (!zk_node_do(testbed->servers->zk_node, action, at))
        testbed_broken(testbed, "%s %s %s failed", testbed->servers->zk_node,
                       action, at);
    while ((zk_node_role(at) != '\0') != serves) {
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

static void lose(struct cast *cast, const struct zk_nodes *nodes, char role,
                 const char *when)
{
    struct testbed *testbed = cast->testbed;
    const char *victim = await_role(testbed, nodes, role);
    const char *name = testbed_name(when);
    enum dlock_status status;

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
    struct zk_nodes nodes;
    struct cast cast;

    if (!servers->zk_ensemble || !servers->zk_node)
        testbed_not_asked(testbed, "needs --zk-ensemble and --zk-node");
    if (!zk_nodes_parse(servers->zk_ensemble, &nodes) || nodes.n < NODES_MIN)
        testbed_broken(testbed, "--zk-ensemble takes %d to %d servers",
                       NODES_MIN, ZK_NODES_MAX);
    take_turns(testbed);
    (void)snprintf(testbed->url, sizeof(testbed->url), "%s",
                   servers->zk_ensemble);
    cast_open(&cast, testbed, 3, testbed->long_ms);
    lose(&cast, &nodes, role, when);
    testbed_holds(testbed, "of %u servers %s, and came back: one holder",
                  nodes.n, when);
}
