/*
 * A replica of the one redis-server, and its promotion. Replication is Redis's own,
 * by TCP over loopback, for it knows no other; clients stay on Unix sockets. It is
 * asynchronous, so its lag is made by us: before the replica is cut off it has all,
 * and from then on it gets nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/base/redis_proc.h"
#include "server/lab/world/world.h"

enum { SYNC_MS_MAX = 10000 };

#define ASK(node, wanted, ...) PEEK_ASK((node)->peek, wanted, __VA_ARGS__)

/* A number of what a server says of its replication; -1: it says none. */
static long long offset_of(const struct world_node *node, const char *name)
{
    const char *words[] = {"INFO", "replication"};
    char said[2048];
    const char *at;

    if (!peek_send(node->peek, 2, words, said, sizeof(said)))
        return -1;
    at = strstr(said, name);
    return at && strstr(said, "master_link_status:down") == NULL
               ? strtoll(at + strlen(name), NULL, 10)
               : -1;
}

/* Not by WAIT, whose limit goes by the clock that stands still. */
static bool has_all(const struct world *world)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    long long written = -1;

    for (int ms = 0; ms < SYNC_MS_MAX; ms++) {
        written = offset_of(&world->nodes[0], "\nmaster_repl_offset:");
        if (written >= 0 &&
            written == offset_of(&world->replica.node, "\nslave_repl_offset:"))
            return true;
        (void)nanosleep(&nap, NULL);
    }
    return false;
}

static bool follow(struct world *world)
{
    world->replica.is_linked = ASK(&world->replica.node, "OK", "REPLICAOF",
                                   "127.0.0.1", world->replica.port) &&
                               has_all(world);
    return world->replica.is_linked;
}

/* Another process may be faster with the port. */
bool world_replica_begin(struct world *world, char *error, size_t error_size)
{
    const struct world_node *node = &world->replica.node;

    if (peek_listen(world->nodes[0].peek, world->replica.port,
                    sizeof(world->replica.port)) &&
        ASK(node, "OK", "CONFIG", "SET", "repl-diskless-load", "swapdb") &&
        follow(world))
        return true;
    (void)snprintf(error, error_size,
                   "the replica cannot follow its primary on port %s",
                   world->replica.port);
    return false;
}

/* Nobody listens on port 1. */
bool world_cut(struct world *world)
{
    bool good = has_all(world) &&
                ASK(&world->replica.node, "OK", "REPLICAOF", "127.0.0.1", "1");

    world->replica.is_linked = false;
    return good;
}

/* Clients come by the primary's name, and find the replica there. */
bool world_promote(struct world *world)
{
    struct world_node *primary = &world->nodes[0];
    const char *name = redis_proc_url(primary->redis) + strlen("unix:");
    bool good = (!world->replica.is_linked || has_all(world)) &&
                ASK(&world->replica.node, "OK", "REPLICAOF", "NO", "ONE");

    redis_proc_kill(primary->redis);
    peek_close(primary->peek);
    primary->peek = world->replica.node.peek;
    world->replica.node.peek = NULL;
    world->replica.is_linked = false;
    world->replica.is_promoted = true;
    return good &&
           rename(redis_proc_url(world->replica.node.redis) + strlen("unix:"),
                  name) == 0;
}

bool world_replica_reset(struct world *world)
{
    return world->replica.is_linked || follow(world);
}
