/*
 * A child process and a pipe from its output. The pipe tells both
 * things worth knowing without asking: the line "Ready to accept connections"
 * when it is up, and end of file when it is gone.
 */
#include "server/base/redis_proc.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/base/child.h"
#include "server/base/clock.h"
#include "server/base/log.h"

#define REDIS_READY_MS_MAX 10000 /* on a machine that is busy */
#define REDIS_SAID_MAX     8192  /* of its log, kept while it starts */

struct redis_proc {
    char url[4200];
    char dir[PATH_MAX]; /* its working directory */
    pid_t pid;          /* 0 = not running */
    int out;            /* read end of its standard output; -1 = none */
    int stop_fd;        /* readable: do not wait for it; -1 = none */
    bool has_run;
};

static char *socket_path(struct redis_proc *proc)
{
    return proc->url + strlen("unix:");
}

/* Reads what it says until it is ready, has died, or is not to be waited for any more.
 * *GONE: it has died. */
static bool child_wait_ready(struct redis_proc *proc, bool *gone)
{
    char said[REDIS_SAID_MAX] = "";
    size_t len = 0;
    uint64_t deadline = clock_ms() + REDIS_READY_MS_MAX, now;
    ssize_t n;

    *gone = false;
    while (len + 1 < sizeof(said) && (now = clock_ms()) < deadline) {
        struct pollfd fds[] = {{.fd = proc->out, .events = POLLIN},
                               {.fd = proc->stop_fd, .events = POLLIN}};

        if (poll(fds, 2, (int)(deadline - now)) <= 0)
            continue;
        if (!fds[0].revents)
            return false;
        n = read(proc->out, said + len, sizeof(said) - 1 - len);
        *gone = n <= 0;
        if (*gone)
            return false;
        len += (size_t)n;
        said[len] = '\0';
        if (strstr(said, "eady to accept connections")) /* ready, or Ready */
            return true;
    }
    return false;
}

/* All that it has said. 0: that was the last, it is gone. */
static ssize_t child_drain(struct redis_proc *proc)
{
    char said[1024];
    ssize_t n;

    do
        n = read(proc->out, said, sizeof(said));
    while (n > 0 || (n < 0 && errno == EINTR));
    return n;
}

/* SIGKILL, for it has nothing to save and may be stopped or hanging. Only its
 * parent can wait for a child; the pipe's end is seen by all. */
void redis_proc_kill(struct redis_proc *proc)
{
    struct pollfd poll_out = {.fd = proc->out, .events = POLLIN};
    pid_t waited;

    if (proc->pid > 0) {
        kill(proc->pid, SIGKILL);
        do
            waited = waitpid(proc->pid, NULL, 0);
        while (waited < 0 && errno == EINTR);
        while (waited < 0 && child_drain(proc) != 0)
            (void)poll(&poll_out, 1, -1);
    }
    if (proc->out >= 0)
        close(proc->out);
    proc->pid = 0;
    proc->out = -1;
}

/* A new server has no configuration file: nothing is kept on disk, and one that is full
 * refuses to write instead of forgetting locks. Ctrl-C does not end it: we do, when the
 * locks are back. */
bool redis_proc_tend(struct redis_proc *proc, char *error, size_t error_size)
{
    char *const argv[] = {"redis-server",
                          "--port",
                          "0",
                          "--unixsocket",
                          socket_path(proc),
                          "--unixsocketperm",
                          "700",
                          "--dir",
                          proc->dir,
                          "--save",
                          "",
                          "--maxmemory",
                          "256mb",
                          "--maxmemory-policy",
                          "noeviction",
                          NULL};
    int ends[2];
    bool gone;

    /* The pipe is open and empty: it is alive. Its output must be read all
     * the same, or it would hang once the pipe is full. */
    if (proc->out >= 0 && child_drain(proc) < 0 && errno == EAGAIN)
        return true;
    redis_proc_kill(proc);
    /* From here on there is no server: a new one, and the wait until it is
     * ready. */
    if (pipe2(ends, O_CLOEXEC) == 0) {
        proc->out = ends[0];
        proc->pid = child_fork(SIGKILL);
        if (proc->pid == 0)
            child_become(argv, ends[1]);
        /* The child alone has the writing end now: so the end of file says that
         * it has died. */
        close(ends[1]);
    }
    if (proc->pid <= 0) {
        snprintf(error, error_size, "cannot start redis-server: %s",
                 strerror(errno));
    } else if (child_wait_ready(proc, &gone)) {
        fcntl(proc->out, F_SETFL, O_NONBLOCK);
        if (proc->has_run)
            log_warn("redis", "state=restarted");
        proc->has_run = true;
        return true;
    } else {
        snprintf(error, error_size,
                 gone ? "redis-server did not start on %s; is it installed? "
                        "(apt-get install redis-server)"
                      : "redis-server was not ready yet on %s",
                 socket_path(proc));
    }
    redis_proc_kill(proc);
    return false;
}

/* The socket is beside the database if that is a file, and the name is fit; else in /tmp. It
 * goes into a socket address, and into an URL of libdlock, where ',' and '?' end it; and
 * redis-server removes what has this name. */
struct redis_proc *redis_proc_new(const char *db_path, int stop_fd, char *error,
                                  size_t error_size)
{
    static atomic_uint sockets; /* of this process, in /tmp */
    struct redis_proc *proc = calloc(1, sizeof(*proc));
    char absolute[PATH_MAX] = "/tmp/stockade", copy[PATH_MAX];
    char beside[PATH_MAX + sizeof(".redis")];
    struct stat st;

    if (!proc)
        return NULL;
    if (db_path && !realpath(db_path, absolute)) {
        snprintf(error, error_size, "no place for a socket beside %s", db_path);
        free(proc);
        return NULL;
    }
    proc->out = -1;
    proc->stop_fd = stop_fd;
    /* dirname() may write into its argument, and `absolute` is still needed. */
    memcpy(copy, absolute, sizeof(copy));
    snprintf(proc->dir, sizeof(proc->dir), "%s", dirname(copy));
    snprintf(beside, sizeof(beside), "%s.redis", absolute);
    if (db_path &&
        strlen(beside) < sizeof(((struct sockaddr_un *)0)->sun_path) &&
        !strpbrk(beside, ",?") &&
        (lstat(beside, &st) != 0 || S_ISSOCK(st.st_mode)))
        snprintf(proc->url, sizeof(proc->url), "unix:%s", beside);
    else
        snprintf(proc->url, sizeof(proc->url),
                 "unix:/tmp/stockade-%ld-%u.redis", (long)getpid(),
                 atomic_fetch_add(&sockets, 1));
    return proc;
}

bool redis_proc_is_installed(void)
{
    const char *folders = getenv("PATH");
    char path[PATH_MAX];
    size_t length;

    for (; folders && *folders; folders += length + (folders[length] == ':')) {
        length = strcspn(folders, ":");
        snprintf(path, sizeof(path), "%.*s/redis-server", (int)length, folders);
        if (access(path, X_OK) == 0)
            return true;
    }
    return false;
}

struct redis_proc *redis_proc_start(const char *db_path, char *error,
                                    size_t error_size)
{
    struct redis_proc *proc = redis_proc_new(db_path, -1, error, error_size);

    if (!proc || redis_proc_tend(proc, error, error_size))
        return proc;
    free(proc);
    return NULL;
}

const char *redis_proc_url(const struct redis_proc *proc)
{
    return proc->url;
}

int redis_proc_fd(const struct redis_proc *proc)
{
    return proc->out;
}

void redis_proc_signal(const struct redis_proc *proc, int number)
{
    if (proc->pid > 0)
        kill(proc->pid, number);
}

void redis_proc_stop(struct redis_proc *proc)
{
    if (!proc)
        return;
    redis_proc_kill(proc);
    /* A server that was killed leaves its socket behind. */
    unlink(socket_path(proc));
    free(proc);
}
