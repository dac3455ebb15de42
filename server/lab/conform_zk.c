/*
 * M and M2 of locks in ZooKeeper: an ensemble loses the server that leads, or
 * one that follows, while one holds the lock and another waits for it. The
 * sessions go on: the lock stays whole, is handed on while the server is away,
 * and stays with its holder when it comes back.
 *
 * The ensemble is one for all locks, and loses one server at a time: so checks
 * that run at once take turns.
 */
#include "server/lab/conform_check.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "server/clock.h"
#include "server/lab/conform_cast.h"
#include "server/lab/zk_ensemble.h"

enum {
    LOOK_MS = 25,        /* nobody tells that an election is over */
    ELECTION_MS = 10000, /* that it may take */
    NODES_MIN = 3,       /* two of them are still more than half */
};

/* Ends with the check's process. */
static void take_turns(const struct stage *stage)
{
    char path[64];
    int fd;

    (void)snprintf(path, sizeof(path), "/tmp/stockade-lab-zk-%u.lock",
                   (unsigned)getuid());
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) != 0)
        stage_broken(stage, "%s cannot be locked", path);
}

static uint64_t patience(const struct stage *stage)
{
    return clock_ms() + (uint64_t)ELECTION_MS * stage->slow;
}

/* The server that is ROLE. */
static const char *await_role(const struct stage *stage,
                              const struct zk_nodes *nodes, char role)
{
    uint64_t until_ms = patience(stage);

    do {
        for (unsigned i = 0; i < nodes->n; i++)
            if (zk_node_role(nodes->at[i]) == role)
                return nodes->at[i];
        stage_sleep_ms(LOOK_MS);
    } while (clock_ms() < until_ms);
    stage_broken(stage, "no server of the ensemble is '%c'", role);
}

/* Does ACTION to the server AT, until it serves, or serves no more. */
static void tend(const struct stage *stage, const char *action, const char *at)
{
    bool serves = strcmp(action, "start") == 0;
    uint64_t until_ms = patience(stage);

    if (!zk_node_do(stage->servers->zk_node, action, at))
        stage_broken(stage, "%s %s %s failed", stage->servers->zk_node, action,
                     at);
    while ((zk_node_role(at) != '\0') != serves) {
        if (clock_ms() > until_ms)
            stage_broken(stage, "%s %s: nothing happens", action, at);
        stage_sleep_ms(LOOK_MS);
    }
}

/* While they elect, there is no answer, not even to one who waits. Then again. */
static enum dlock_status take_hard(struct cast *cast, unsigned who,
                                   const char *name, unsigned wait_ms)
{
    uint64_t until_ms = patience(cast->stage);
    enum dlock_status status;

    do
        status = cast_take(cast, who, name, wait_ms, 0);
    while ((status == DLOCK_UNKNOWN || status == DLOCK_UNREACHABLE) &&
           clock_ms() < until_ms);
    return status;
}

static enum dlock_status give_hard(struct cast *cast, unsigned who,
                                   const char *name)
{
    const struct deed_order again = cast_order(deed_give_anyway, name);
    uint64_t until_ms = patience(cast->stage);
    enum dlock_status status = cast_give(cast, who, name);

    while ((status == DLOCK_UNKNOWN || status == DLOCK_UNREACHABLE) &&
           clock_ms() < until_ms)
        status = cast_ask(cast, who, &again).status;
    return status;
}

/* THIRD asks, and must be told that somebody else has it. */
static void check_taken(struct cast *cast, const char *name, const char *when)
{
    enum dlock_status status = take_hard(cast, CAST_THIRD, name, 0);

    if (status == DLOCK_OK)
        stage_fails(cast->stage, "%s: two holders", when);
    if (status != DLOCK_BUSY)
        stage_fails(cast->stage, "%s: %s", when, dlock_status_text(status));
}

static void lose(struct cast *cast, const struct zk_nodes *nodes, char role,
                 const char *when)
{
    struct stage *stage = cast->stage;
    const char *victim = await_role(stage, nodes, role);
    char name[STAGE_NAME_BYTES_MAX + 1];
    enum dlock_status status;
    struct deed_order wait;

    stage_name(name, when);
    cast_begin(cast, name, 0);
    wait = cast_order(deed_take, name);
    wait.wait_ms = stage->long_ms;
    cast_tell(cast, CAST_NEXT, &wait);
    tend(stage, "kill", victim);
    check_taken(cast, name, when);
    if (give_hard(cast, CAST_HOLDER, name) != DLOCK_OK)
        stage_fails(stage, "%s: the holder has lost it", when);
    status = cast_hear(cast, CAST_NEXT).status;
    if (status == DLOCK_UNKNOWN || status == DLOCK_UNREACHABLE)
        status = take_hard(cast, CAST_NEXT, name, stage->long_ms);
    if (status != DLOCK_OK)
        stage_fails(stage, "%s: who waited does not get it: %s", when,
                    dlock_status_text(status));
    check_taken(cast, name, when);
    tend(stage, "start", victim);
    check_taken(cast, name, when);
    if (give_hard(cast, CAST_NEXT, name) != DLOCK_OK)
        stage_fails(stage, "%s and came back: the holder has lost it", when);
}

/* One that is ROLE. */
static _Noreturn void check(struct stage *stage, char role, const char *when)
{
    const struct conform_servers *servers = stage->servers;
    struct zk_nodes nodes;
    struct cast cast;

    if (!servers->zk_ensemble || !servers->zk_node)
        stage_not_asked(stage, "needs --zk-ensemble and --zk-node");
    if (!zk_nodes_parse(servers->zk_ensemble, &nodes) || nodes.n < NODES_MIN)
        stage_broken(stage, "--zk-ensemble takes %d to %d servers", NODES_MIN,
                     ZK_NODES_MAX);
    take_turns(stage);
    (void)snprintf(stage->url, sizeof(stage->url), "%s", servers->zk_ensemble);
    cast_open(&cast, stage, 3, stage->long_ms);
    lose(&cast, &nodes, role, when);
    stage_holds(stage, "of %u servers %s, and came back: one holder", nodes.n,
                when);
}

void conform_check_m_zk(struct stage *stage)
{
    check(stage, 'l', "the leader went");
}

void conform_check_m2_zk(struct stage *stage)
{
    check(stage, 'f', "a follower went");
}
