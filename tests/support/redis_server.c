#include "tests/support/redis_server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READY_MS = 10000 };

struct redis_server {
    pid_t pid; /* 0 = down */
    char dir[64];
    char path[80];
    char url[96];
};

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "redis_server: %s: %s\n", what, strerror(errno));
    abort();
}

/* In the child, whose standard output is the pipe. */
static _Noreturn void run(const struct redis_server *server, pid_t parent)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(126);
    execlp("redis-server", "redis-server", "--port", "0", "--unixsocket",
           server->path, "--dir", server->dir, "--save", "", "--appendonly",
           "no", "--daemonize", "no", (char *)NULL);
    _exit(127);
}

/* Reads the server's log until it says that it is there; then lets go. */
static void await_ready(int fd)
{
    char log[16384];
    size_t len = 0;

    for (;;) {
        struct pollfd poller = {.fd = fd, .events = POLLIN};
        ssize_t got;

        if (poll(&poller, 1, READY_MS) != 1 || len + 1 >= sizeof(log))
            die("the server does not get ready");
        got = read(fd, log + len, sizeof(log) - len - 1);
        if (got <= 0)
            die("redis-server has ended; is it installed?");
        len += (size_t)got;
        log[len] = '\0';
        if (strstr(log, "eady to accept connections") != NULL)
            return;
    }
}

void redis_server_restart(struct redis_server *server)
{
    pid_t parent = getpid();
    int log[2];

    if (pipe2(log, O_CLOEXEC) != 0)
        die("pipe");
    server->pid = fork();
    if (server->pid < 0)
        die("fork");
    if (server->pid == 0) {
        (void)dup2(log[1], STDOUT_FILENO);
        run(server, parent);
    }
    (void)close(log[1]);
    await_ready(log[0]);
    /* What it logs from now on goes nowhere; it ignores SIGPIPE. */
    (void)close(log[0]);
}

struct redis_server *redis_server_start(void)
{
    struct redis_server *server = calloc(1, sizeof(*server));

    if (server == NULL)
        die("calloc");
    (void)snprintf(server->dir, sizeof(server->dir), "/tmp/stockade-XXXXXX");
    if (mkdtemp(server->dir) == NULL)
        die("mkdtemp");
    (void)snprintf(server->path, sizeof(server->path), "%s/redis.sock",
                   server->dir);
    (void)snprintf(server->url, sizeof(server->url), "unix:%s", server->path);
    redis_server_restart(server);
    return server;
}

void redis_server_kill(struct redis_server *server)
{
    if (server->pid == 0)
        return;
    (void)kill(server->pid, SIGKILL);
    (void)waitpid(server->pid, NULL, 0);
    server->pid = 0;
}

void redis_server_stop(struct redis_server *server)
{
    if (server == NULL)
        return;
    redis_server_kill(server);
    (void)unlink(server->path);
    (void)rmdir(server->dir);
    free(server);
}

const char *redis_server_url(const struct redis_server *server)
{
    return server->url;
}

void redis_server_pause(struct redis_server *server)
{
    int status;

    (void)kill(server->pid, SIGSTOP);
    /* It takes a moment; only then is nothing answered any more. */
    if (waitpid(server->pid, &status, WUNTRACED) != server->pid ||
        !WIFSTOPPED(status))
        die("the server does not stop");
}

void redis_server_resume(struct redis_server *server)
{
    (void)kill(server->pid, SIGCONT);
}

void redis_server_ask(const struct redis_server *server, const char *command,
                      char *reply, size_t size)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char buffer[4096];
    ssize_t got;

    (void)snprintf(to.sun_path, sizeof(to.sun_path), "%s", server->path);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)
        die("connect");
    if (dprintf(fd, "%s\r\n", command) < 0)
        die("write");
    got = read(fd, buffer, sizeof(buffer) - 1);
    if (got <= 0)
        die("read");
    buffer[got] = '\0';
    (void)close(fd);
    if (reply != NULL)
        (void)snprintf(reply, size, "%s", buffer);
}

long long redis_server_number(const struct redis_server *server,
                              const char *command)
{
    char reply[64];

    redis_server_ask(server, command, reply, sizeof(reply));
    if (reply[0] != ':') {
        fprintf(stderr, "redis_server: %s: %s", command, reply);
        abort();
    }
    return strtoll(reply + 1, NULL, 10);
}
