#include "server/lab/conform/node.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/base/redis_proc.h"

enum {
    REPLY_S_MAX = 10, /* the longest: until a replica has heard of all */
    PORTS_MAX = 5,    /* tries: somebody else may be faster with a free one */
};

/* The socket, whose name is the node's address. */
static const char *path_of(const struct redis_proc *proc)
{
    return redis_proc_url(proc) + strlen("unix:");
}

const char *node_path(const struct testbed *testbed, unsigned index)
{
    return path_of(testbed->nodes[index]);
}

/* Commands ----------------------------------------------------------------- */

/* Reads LINES lines, or as many as come. */
static void read_lines(int fd, unsigned lines, char *reply, size_t size)
{
    size_t len = 0;

    while (lines > 0 && len + 1 < size && read(fd, reply + len, 1) == 1)
        lines -= reply[len++] == '\n';
    reply[len] = '\0';
}

/*
 * Sends COMMANDS, each with "\r\n" at its end and an answer of one line, by a
 * connection of its own. True if the answers are WANTED.
 */
static bool ask(const struct redis_proc *proc, const char *commands,
                const char *wanted)
{
    const struct timeval patience = {.tv_sec =
                                         REPLY_S_MAX * (time_t)conform_slow()};
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t len = strlen(commands);
    unsigned lines = 0;
    char reply[128] = "";

    if (fd < 0)
        return false;
    for (const char *end = commands; (end = strchr(end, '\n')); end++)
        lines++;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    (void)snprintf(to.sun_path, sizeof(to.sun_path), "%s", path_of(proc));
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 &&
        write(fd, commands, len) == (ssize_t)len)
        read_lines(fd, lines, reply, sizeof(reply));
    (void)close(fd);
    return strcmp(reply, wanted) == 0;
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

/* A port of this machine that nobody has just now; 0 = none. */
static unsigned free_port(void)
{
    struct sockaddr_in here = {.sin_family = AF_INET,
                               .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(here);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unsigned port = 0;

    if (fd >= 0 && bind(fd, (struct sockaddr *)&here, len) == 0 &&
        getsockname(fd, (struct sockaddr *)&here, &len) == 0)
        port = ntohs(here.sin_port);
    if (fd >= 0)
        (void)close(fd);
    return port;
}

/*
 * Replication knows no Unix sockets: the master gets a port, on loopback. The
 * replica is in step by the time that somebody asks for it.
 */
static bool replicate(const struct redis_proc *master,
                      const struct redis_proc *replica)
{
    char command[120];
    unsigned port = 0;
    bool listens = false;

    for (unsigned i = 0; i < PORTS_MAX && !listens; i++) {
        port = free_port();
        (void)snprintf(command, sizeof(command),
                       "CONFIG SET bind 127.0.0.1\r\n"
                       "CONFIG SET repl-diskless-sync-delay 0\r\n"
                       "CONFIG SET port %u\r\n",
                       port);
        listens = ask(master, command, "+OK\r\n+OK\r\n+OK\r\n");
    }
    (void)snprintf(command, sizeof(command), "REPLICAOF 127.0.0.1 %u\r\n",
                   port);
    return listens && ask(replica, command, "+OK\r\n");
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
    if (replicate(testbed->nodes[0], testbed->replica))
        return true;
    (void)snprintf(error, error_size, "redis-server takes no replica");
    return false;
}

bool node_mend_all(struct testbed *testbed, char *error, size_t error_size)
{
    for (unsigned i = 0; i < testbed->nodes_n; i++)
        if (!redis_proc_tend(testbed->nodes[i], error, error_size))
            return false;
    return true;
}

void node_stop_all(struct testbed *testbed)
{
    for (unsigned i = 0; i < testbed->nodes_n; i++)
        redis_proc_stop(testbed->nodes[i]);
    redis_proc_stop(testbed->replica);
}

/* Losing one --------------------------------------------------------------- */

void node_kill(struct testbed *testbed, unsigned index)
{
    redis_proc_kill(testbed->nodes[index]);
}

void node_restart(struct testbed *testbed, unsigned index)
{
    char error[200];

    if (!redis_proc_tend(testbed->nodes[index], error, sizeof(error)))
        testbed_broken(testbed, "%.150s", error);
}

void node_pause(struct testbed *testbed, unsigned index)
{
    redis_proc_signal(testbed->nodes[index], SIGSTOP);
}

void node_resume(struct testbed *testbed, unsigned index)
{
    redis_proc_signal(testbed->nodes[index], SIGCONT);
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

/* WAIT counts those that have heard of what its own connection has written. */
void node_part(struct testbed *testbed)
{
    const struct redis_proc *master = testbed->nodes[0];

    if (!ask(master, "SET lab:heard 1\r\nWAIT 1 5000\r\n", "+OK\r\n:1\r\n"))
        testbed_broken(testbed, "the replica does not follow");
    if (!ask(master, "CONFIG SET port 0\r\nCLIENT KILL TYPE replica\r\n",
             "+OK\r\n:1\r\n"))
        testbed_broken(testbed, "the replica does not go");
}

void node_fail_over(struct testbed *testbed)
{
    node_kill(testbed, 0);
    if (!ask(testbed->replica, "REPLICAOF NO ONE\r\n", "+OK\r\n"))
        testbed_broken(testbed, "the replica does not take over");
    move(testbed, path_of(testbed->replica), path_of(testbed->nodes[0]));
}
