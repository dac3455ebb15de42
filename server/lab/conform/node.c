#include "server/lab/conform/node.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/redis_proc.h"
#include "server/lab/servers/peek.h"

/* The socket, whose name is the node's address. */
static const char *path_of(const struct redis_proc *proc)
{
    return redis_proc_url(proc) + strlen("unix:");
}

const char *node_path(const struct testbed *testbed, unsigned index)
{
    return path_of(testbed->nodes[index]);
}

/* Starting ----------------------------------------------------------------- */

/* A server on a socket beside an empty file in the testbed's directory. */
static struct redis_proc *server_start(const struct testbed *testbed,
                                       const char *what, char *error,
                                       size_t error_size)
{
    char path[sizeof(testbed->dir) + 16];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", testbed->dir, what);
    file = fopen(path, "w");
    if (!file) {
        (void)snprintf(error, error_size, "%s: %s", path, strerror(errno));
        return NULL;
    }
    (void)fclose(file);
    return redis_proc_start(path, error, error_size);
}

/*
 * Replication knows no Unix sockets: the master gets a port, on loopback. The
 * replica is in step by the time that somebody asks for it.
 */
static bool replicate(const struct redis_proc *master,
                      const struct redis_proc *replica, char *error,
                      size_t error_size)
{
    struct peek *to = peek_open(redis_proc_url(master), error, error_size);
    struct peek *from =
        to ? peek_open(redis_proc_url(replica), error, error_size) : NULL;
    char port[16];
    bool follows = from && peek_listen(to, port, sizeof(port)) &&
                   PEEK_ASK(from, "OK", "REPLICAOF", "127.0.0.1", port);

    if (from && !follows)
        (void)snprintf(error, error_size, "redis-server takes no replica");
    peek_close(from);
    peek_close(to);
    return follows;
}

bool node_start_all(struct testbed *testbed, unsigned n, char *error,
                    size_t error_size)
{
    size_t len = 0;
    char what[16];

    for (unsigned i = 0; i < n; i++) {
        (void)snprintf(what, sizeof(what), "node%u", i);
        testbed->nodes[i] = server_start(testbed, what, error, error_size);
        if (!testbed->nodes[i])
            return false;
        testbed->nodes_n = i + 1;
        len += (size_t)snprintf(testbed->url + len, sizeof(testbed->url) - len,
                                "%s%s", i > 0 ? "," : "",
                                redis_proc_url(testbed->nodes[i]));
    }
    if (n == 0)
        return true;
    testbed->replica = server_start(testbed, "replica", error, error_size);
    if (!testbed->replica)
        return false;
    return replicate(testbed->nodes[0], testbed->replica, error, error_size);
}

/* Losing one --------------------------------------------------------------- */

void node_restart(struct testbed *testbed, unsigned index)
{
    char error[200];

    if (!redis_proc_tend(testbed->nodes[index], error, sizeof(error)))
        testbed_broken(testbed, "%.150s", error);
}

/* The server goes on listening; its name is what changes. */
static void move(const struct testbed *testbed, const char *from,
                 const char *to)
{
    if (rename(from, to) != 0)
        testbed_broken(testbed, "%.80s: %s", from, strerror(errno));
}

static void hidden_path(const struct testbed *testbed, unsigned index,
                        char *path, size_t size)
{
    (void)snprintf(path, size, "%s.hidden", path_of(testbed->nodes[index]));
}

void node_hide(struct testbed *testbed, unsigned index)
{
    char hidden[sizeof(testbed->dir) + 32];

    hidden_path(testbed, index, hidden, sizeof(hidden));
    move(testbed, path_of(testbed->nodes[index]), hidden);
}

void node_show(struct testbed *testbed, unsigned index)
{
    char hidden[sizeof(testbed->dir) + 32];

    hidden_path(testbed, index, hidden, sizeof(hidden));
    move(testbed, hidden, path_of(testbed->nodes[index]));
}

static struct peek *peek_at(const struct testbed *testbed,
                            const struct redis_proc *proc)
{
    char error[200];
    struct peek *peek = peek_open(redis_proc_url(proc), error, sizeof(error));

    if (!peek)
        testbed_broken(testbed, "%.150s", error);
    return peek;
}

/* WAIT counts those that have heard of what its own connection has written. */
void node_part(struct testbed *testbed)
{
    struct peek *master = peek_at(testbed, testbed->nodes[0]);

    if (!PEEK_ASK(master, "OK", "SET", "lab:heard", "1") ||
        !PEEK_ASK(master, "1", "WAIT", "1", "5000"))
        testbed_broken(testbed, "the replica does not follow");
    if (!PEEK_ASK(master, "OK", "CONFIG", "SET", "port", "0") ||
        !PEEK_ASK(master, "1", "CLIENT", "KILL", "TYPE", "replica"))
        testbed_broken(testbed, "the replica does not go");
    peek_close(master);
}

void node_fail_over(struct testbed *testbed)
{
    struct peek *replica = peek_at(testbed, testbed->replica);

    redis_proc_kill(testbed->nodes[0]);
    if (!PEEK_ASK(replica, "OK", "REPLICAOF", "NO", "ONE"))
        testbed_broken(testbed, "the replica does not take over");
    peek_close(replica);
    move(testbed, path_of(testbed->replica), path_of(testbed->nodes[0]));
}
