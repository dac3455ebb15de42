/* See opener.h. Two eventfds are all that the threads share: each is written once. */
#include "server/opener.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/base/clock.h"

#define AGAIN_MS 1000

struct opener {
    enum opener_answer (*try)(void *ctx);
    void *ctx;
    pthread_t thread;
    int stop_fd, over_fd;
    enum opener_answer answer; /* the thread's own until OVER_FD is readable */
};

/* False: MS are over. */
static bool wait_for(int fd, unsigned ms)
{
    uint64_t until_ms = clock_ms() + ms, now_ms;
    struct pollfd poller = {.fd = fd, .events = POLLIN};

    while ((now_ms = clock_ms()) < until_ms)
        if (poll(&poller, 1, (int)(until_ms - now_ms)) > 0)
            return true;
    return false;
}

static void *thread_main(void *arg)
{
    struct opener *o = arg;

    do
        o->answer = o->try(o->ctx);
    while (o->answer == OPENER_NOT_NOW && !wait_for(o->stop_fd, AGAIN_MS));
    (void)eventfd_write(o->over_fd, 1);
    return NULL;
}

static void release(struct opener *o)
{
    if (o->stop_fd >= 0)
        close(o->stop_fd);
    if (o->over_fd >= 0)
        close(o->over_fd);
    free(o);
}

struct opener *opener_start(enum opener_answer (*try)(void *ctx), void *ctx)
{
    struct opener *o = calloc(1, sizeof(*o));

    if (!o)
        return NULL;
    o->try = try;
    o->ctx = ctx;
    o->stop_fd = eventfd(0, EFD_CLOEXEC);
    o->over_fd = eventfd(0, EFD_CLOEXEC);
    if (o->stop_fd >= 0 && o->over_fd >= 0 &&
        pthread_create(&o->thread, NULL, thread_main, o) == 0) {
        (void)pthread_setname_np(o->thread, "opener");
        return o;
    }
    release(o);
    return NULL;
}

int opener_fd(const struct opener *opener)
{
    return opener->over_fd;
}

enum opener_answer opener_end(struct opener *o, unsigned wait_ms, bool *hangs)
{
    enum opener_answer answer;

    (void)eventfd_write(o->stop_fd, 1);
    *hangs = !wait_for(o->over_fd, wait_ms);
    if (*hangs)
        return OPENER_NOT_NOW;
    pthread_join(o->thread, NULL);
    answer = o->answer;
    release(o);
    return answer;
}
