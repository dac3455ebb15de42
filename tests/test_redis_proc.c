/*
 * The private redis-server: up when start returns, back when it was killed,
 * gone when its owner is gone, however the owner went.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/base/redis_proc.h"
#include "tests/support/temp_dir.h"
#include "tests/support/unit_test.h"

static struct temp_dir dir;
static char error[512];

static int set_up(NO_STATE)
{
    temp_dir_make(&dir);
    return close(creat(dir.db, 0600));
}

/* Fails if anything but the database was left behind. */
static int tear_down(NO_STATE)
{
    return unlink(dir.db) || rmdir(dir.path);
}

/* The process at the other end of the socket; 0 if nobody listens. */
static pid_t server_of(const char *url)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ucred peer = {0};
    socklen_t len = sizeof(peer);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%s",
             url + strlen("unix:"));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len);
    close(fd);
    return peer.pid;
}

/* Waits at most five seconds for the end of a process that is not ours. */
static void assert_ends(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd end = {.fd = fd, .events = POLLIN};

    if (fd < 0) {
        assert_int_equal(errno, ESRCH); /* gone already */
        return;
    }
    assert_int_equal(poll(&end, 1, 5000), 1);
    close(fd);
}

static void is_replaced_when_it_dies(NO_STATE)
{
    struct redis_proc *proc = redis_proc_start(dir.db, error, sizeof(error));
    pid_t first = server_of(redis_proc_url(proc)), second;
    struct pollfd told = {.fd = redis_proc_fd(proc), .events = POLLIN};

    while (poll(&told, 1, 0) == 1) /* what it said when it started */
        assert_true(redis_proc_tend(proc, error, sizeof(error)));
    kill(first, SIGKILL);
    assert_int_equal(poll(&told, 1, 5000), 1);
    assert_true(redis_proc_tend(proc, error, sizeof(error)));
    second = server_of(redis_proc_url(proc));
    assert_int_not_equal(second, 0);
    assert_int_not_equal(second, first);
    redis_proc_stop(proc);
    assert_ends(second);
}

static void stops_a_stopped_server(NO_STATE)
{
    struct redis_proc *proc = redis_proc_start(dir.db, error, sizeof(error));
    pid_t pid = server_of(redis_proc_url(proc));

    kill(pid, SIGSTOP);
    redis_proc_stop(proc);
    assert_ends(pid);
}

/* A child starts a server, tells its pid, and is killed. */
static void dies_with_its_owner(NO_STATE)
{
    int ends[2];
    pid_t owner, server = 0;
    char socket_path[sizeof(dir.db) + 8];

    assert_int_equal(pipe(ends), 0);
    owner = fork();
    if (owner == 0) {
        struct redis_proc *proc =
            redis_proc_start(dir.db, error, sizeof(error));
        pid_t pid = proc ? server_of(redis_proc_url(proc)) : 0;

        if (write(ends[1], &pid, sizeof(pid)) != sizeof(pid))
            _exit(1);
        pause();
    }
    assert_int_equal(read(ends[0], &server, sizeof(server)), sizeof(server));
    assert_int_not_equal(server, 0);
    kill(owner, SIGKILL);
    waitpid(owner, NULL, 0);
    assert_ends(server);
    snprintf(socket_path, sizeof(socket_path), "%s.redis", dir.db);
    unlink(socket_path);
    close(ends[0]);
    close(ends[1]);
}

static void a_missing_server_is_explained(NO_STATE)
{
    const char *was = getenv("PATH");
    char *path = strdup(was ? was : "/usr/bin:/bin");

    setenv("PATH", "/nowhere", 1);
    assert_null(redis_proc_start(dir.db, error, sizeof(error)));
    assert_non_null(strstr(error, "apt-get install redis-server"));
    setenv("PATH", path, 1);
    free(path);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(is_replaced_when_it_dies),
    cmocka_unit_test(stops_a_stopped_server),
    cmocka_unit_test(dies_with_its_owner),
    cmocka_unit_test(a_missing_server_is_explained),
};

TEST_MAIN_WITHIN(tests, set_up, tear_down)
