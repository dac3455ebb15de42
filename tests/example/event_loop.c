/*
 * A program with an event loop, one thread, and many locks to wait for.
 *
 *   cc -o event_loop event_loop.c $(pkg-config --cflags --libs dlock)
 *   ./event_loop redis://127.0.0.1:6379
 *
 * dlock_fd() is one descriptor more for the loop to poll. When it is readable,
 * dlock_dispatch() calls the callbacks that are due, on this thread: so they need
 * no mutex, and may begin the next call. Here some tasks want the same lock. All
 * wait at once, and pass it on.
 */
#include <dlock.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

enum { TASKS = 5 };

struct task {
    struct dlock_session *session;
    int number;
    int *left; /* tasks that are not done */
};

static void fail(const char *what, const struct dlock_error *error)
{
    fprintf(stderr, "event_loop: %s: %s\n", what, error->text);
    _exit(1);
}

static void released(void *ctx, struct dlock_session *session,
                     enum dlock_status status, const struct dlock_grant *grant,
                     const struct dlock_error *error)
{
    struct task *task = (struct task *)ctx;

    (void)session;
    (void)grant;
    if (status != DLOCK_OK)
        fail("release", error);
    --*task->left;
}

/* The lock is ours. Only until we return is *GRANT ours as well: copy it, if the
 * work goes on later. */
static void acquired(void *ctx, struct dlock_session *session,
                     enum dlock_status status, const struct dlock_grant *grant,
                     const struct dlock_error *error)
{
    struct task *task = (struct task *)ctx;
    struct dlock_error why;

    if (status != DLOCK_OK)
        fail("acquire", error);
    printf("task %d has it, token %llu\n", task->number,
           (unsigned long long)grant->token);
    if (dlock_release_async(session, grant, released, task, &why) != DLOCK_OK)
        fail("release", &why);
}

int main(int argc, char *argv[])
{
    struct dlock_options options = {.url = argc > 1 ? argv[1] : ""};
    struct dlock_terms terms = {.wait_ms = 10000};
    struct task tasks[TASKS];
    struct dlock_error error = {""};
    struct dlock *client;
    int left = TASKS;

    if (dlock_open(&options, &client, &error) != DLOCK_OK)
        fail("open", &error);
    /* Before the first call: from here on, callbacks come by dispatch. */
    struct pollfd poller = {.fd = dlock_fd(client), .events = POLLIN};

    /* An owner does one thing at a time: one session for each task. */
    for (int i = 0; i < TASKS; i++) {
        tasks[i].number = i;
        tasks[i].left = &left;
        if (dlock_session_open(client, &tasks[i].session, &error) != DLOCK_OK ||
            dlock_acquire_async(tasks[i].session, "shared", &terms, acquired,
                                &tasks[i], &error) != DLOCK_OK)
            fail("begin", &error);
    }
    /* Here stand the loop's sockets and timers as well. */
    while (left > 0 && poll(&poller, 1, 15000) > 0)
        (void)dlock_dispatch(client);
    printf("%d tasks left\n", left);
    dlock_close(client); /* and its sessions */
    return left == 0 ? 0 : 1;
}
