#include "tests/support/redis_server.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/server_proc.h"
#include "tests/support/temp_dir.h"

enum { REPLY_BYTES = 200 };

static const char what[] = "redis_server";

struct redis_server {
    struct server_proc proc;
    struct temp_dir dir;
    struct sockaddr_un at;
    int port;        /* 0 = none */
    int bus_port;    /* between nodes of a cluster; 0 = it is not of one */
    char timeout[8]; /* milliseconds, after which a node has failed */
    char conf[TEMP_DIR_BYTES_MAX + 16]; /* of a sentinel; "" = it is none */
    char url[sizeof("unix:") + sizeof(((struct sockaddr_un *)NULL)->sun_path)];
};

/* False: somebody else has its port. */
static bool start(struct redis_server *server)
{
    char port[8], bus_port[8];
    bool is_sentinel = server->conf[0] != '\0';
    char *sentinel[] = {"redis-server",
                        server->conf,
                        "--sentinel",
                        "--port",
                        port,
                        "--bind",
                        "127.0.0.1",
                        "--unixsocket",
                        server->at.sun_path,
                        NULL};
    char *plain[] = {"redis-server",
                     "--port",
                     port,
                     "--bind",
                     "127.0.0.1",
                     "--unixsocket",
                     server->at.sun_path,
                     "--dir",
                     server->dir.path,
                     "--save",
                     "",
                     "--appendonly",
                     "no",
                     "--daemonize",
                     "no",
                     "--repl-diskless-sync-delay",
                     "0",
                     server->bus_port > 0 ? "--cluster-enabled" : NULL,
                     "yes",
                     "--cluster-port",
                     bus_port,
                     "--cluster-node-timeout",
                     server->timeout,
                     NULL};

    (void)snprintf(port, sizeof(port), "%d", server->port);
    (void)snprintf(bus_port, sizeof(bus_port), "%d", server->bus_port);
    return server_proc_start(&server->proc, is_sentinel ? sentinel : plain,
                             is_sentinel ? "Sentinel ID is"
                                         : "eady to accept connections",
                             "ailed listening on port");
}

void redis_server_restart(struct redis_server *server)
{
    if (!start(server))
        server_proc_die(what, "its port is taken");
}

static struct redis_server *make(void)
{
    struct redis_server *server = calloc(1, sizeof(*server));

    if (server == NULL)
        server_proc_die(what, "calloc");
    server->proc.what = what;
    server->at.sun_family = AF_UNIX;
    temp_dir_make(&server->dir);
    if (snprintf(server->at.sun_path, sizeof(server->at.sun_path),
                 "%s/redis.sock",
                 server->dir.path) >= (int)sizeof(server->at.sun_path))
        server_proc_die(what, "the path of TMPDIR is too long");
    (void)snprintf(server->url, sizeof(server->url), "unix:%s",
                   server->at.sun_path);
    return server;
}

struct redis_server *redis_server_start(void)
{
    struct redis_server *server = make();

    redis_server_restart(server);
    return server;
}

static void start_on_a_port(struct redis_server *server)
{
    do
        server->port = (int)server_proc_free_port(what);
    while (!start(server));
}

struct redis_server *redis_server_start_sentinel(const char *lines)
{
    struct redis_server *server = make();
    FILE *file;

    (void)snprintf(server->conf, sizeof(server->conf), "%s/conf",
                   server->dir.path);
    file = fopen(server->conf, "w");
    if (file == NULL)
        server_proc_die(what, server->conf);
    (void)fputs(lines, file);
    (void)fclose(file);
    start_on_a_port(server);
    return server;
}

struct redis_server *redis_server_start_tcp(const struct redis_server *watched)
{
    struct redis_server *server;
    char lines[200];

    if (watched != NULL) {
        (void)snprintf(lines, sizeof(lines),
                       "sentinel monitor main 127.0.0.1 %d 1\n"
                       "sentinel down-after-milliseconds main 2000\n"
                       "sentinel failover-timeout main 2000\n",
                       watched->port);
        return redis_server_start_sentinel(lines);
    }
    server = make();
    start_on_a_port(server);
    return server;
}

struct redis_server *redis_server_start_node(unsigned timeout_ms)
{
    struct redis_server *server = make();

    (void)snprintf(server->timeout, sizeof(server->timeout), "%u", timeout_ms);
    do {
        server->port = (int)server_proc_free_port(what);
        server->bus_port = (int)server_proc_free_port(what);
    } while (server->port == server->bus_port || !start(server));
    return server;
}

int redis_server_port(const struct redis_server *server)
{
    return server->port;
}

int redis_server_bus_port(const struct redis_server *server)
{
    return server->bus_port;
}

void redis_server_kill(struct redis_server *server)
{
    server_proc_kill(&server->proc);
}

void redis_server_stop(struct redis_server *server)
{
    if (server == NULL)
        return;
    redis_server_kill(server);
    temp_dir_remove(&server->dir);
    free(server);
}

const char *redis_server_url(const struct redis_server *server)
{
    return server->url;
}

void redis_server_pause(struct redis_server *server)
{
    server_proc_pause(&server->proc);
}

void redis_server_resume(struct redis_server *server)
{
    server_proc_resume(&server->proc);
}

void redis_server_do(struct redis_server *server, const char *how)
{
    if (!server_proc_do(&server->proc, how))
        redis_server_restart(server);
}

/* A connection on which COMMAND was sent. */
static int say(const struct redis_server *server, const char *command)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || connect(fd, (const struct sockaddr *)&server->at,
                          sizeof(server->at)) != 0)
        server_proc_die(what, "connect");
    if (dprintf(fd, "%s\r\n", command) < 0)
        server_proc_die(what, "write");
    return fd;
}

void redis_server_ask(const struct redis_server *server, const char *command,
                      char *reply, size_t size)
{
    int fd = say(server, command);
    char buffer[4096];
    ssize_t got;

    got = read(fd, buffer, sizeof(buffer) - 1);
    if (got <= 0)
        server_proc_die(what, "read");
    buffer[got] = '\0';
    (void)close(fd);
    if (reply != NULL)
        (void)snprintf(reply, size, "%s", buffer);
}

/* The reply has to be of that KIND, or of any but an error ('-'). */
__attribute__((format(printf, 4, 0))) static void
ask_for(const struct redis_server *server, char kind, char reply[REPLY_BYTES],
        const char *format, va_list list)
{
    char *command;

    if (vasprintf(&command, format, list) < 0)
        server_proc_die(what, "no memory");
    redis_server_ask(server, command, reply, REPLY_BYTES);
    if ((reply[0] == kind) == (kind == '-')) {
        fprintf(stderr, "redis_server: %s: %s", command, reply);
        abort();
    }
    free(command);
}

long long redis_server_number(const struct redis_server *server,
                              const char *format, ...)
{
    char reply[REPLY_BYTES];
    va_list list;

    va_start(list, format);
    ask_for(server, ':', reply, format, list);
    va_end(list);
    return strtoll(reply + 1, NULL, 10);
}

void redis_server_tell(const struct redis_server *server, const char *format,
                       ...)
{
    char reply[REPLY_BYTES];
    va_list list;

    va_start(list, format);
    ask_for(server, '-', reply, format, list);
    va_end(list);
}

long long redis_server_info(const struct redis_server *server,
                            const char *section, const char *text)
{
    char command[64], reply[4096];
    const char *at;

    (void)snprintf(command, sizeof(command), "INFO %s", section);
    redis_server_ask(server, command, reply, sizeof(reply));
    at = strstr(reply, text);
    return at == NULL ? 0 : strtoll(at + strlen(text), NULL, 10);
}

/* There is no event to wait for. */
void redis_server_await(const struct redis_server *server, const char *command,
                        const char *text)
{
    enum { PATIENCE_MS = 60000, LOOK_MS = 10 };
    static const struct timespec nap = {.tv_nsec = LOOK_MS * 1000000L};
    char reply[4096] = "";

    for (unsigned ms = 0; ms < PATIENCE_MS; ms += LOOK_MS) {
        redis_server_ask(server, command, reply, sizeof(reply));
        if (strstr(reply, text) != NULL)
            return;
        (void)nanosleep(&nap, NULL);
    }
    fprintf(stderr, "redis_server: %s: no %s in %s", command, text, reply);
    abort();
}

bool redis_server_heard(int listener, unsigned ms)
{
    struct pollfd poller = {.fd = listener, .events = POLLIN};
    char buffer[4096];

    if (poll(&poller, 1, (int)ms) != 1)
        return false;
    return read(listener, buffer, sizeof(buffer)) > 0;
}

int redis_server_listen(const struct redis_server *server, const char *channel)
{
    char command[200];
    int fd;

    (void)snprintf(command, sizeof(command), "SUBSCRIBE %s", channel);
    fd = say(server, command);
    if (!redis_server_heard(fd, 10000))
        server_proc_die(what, "subscribe");
    return fd;
}
