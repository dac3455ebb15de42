/* See opener.h. */
#include "server/opener.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define AGAIN_MS 1000

struct opener {
    enum opener_answer (*try)(void *ctx);
    void *ctx;
    pthread_t thread;
    int over_fd;
    enum opener_answer answer; /* the thread's own until it has ended */

    pthread_mutex_t mutex; /* guards what stands below */
    pthread_cond_t changed;
    bool stopping, ended;
};

static struct timespec after_ms(unsigned ms)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    time.tv_sec += ms / 1000;
    time.tv_nsec += (long)(ms % 1000) * 1000000;
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

/* Until *FLAG, or MS are over. Gives *FLAG back. */
static bool wait_for(struct opener *o, const bool *flag, unsigned ms)
{
    struct timespec until = after_ms(ms);
    bool is_set;

    pthread_mutex_lock(&o->mutex);
    while (!*flag && pthread_cond_clockwait(&o->changed, &o->mutex,
                                            CLOCK_MONOTONIC, &until) == 0)
        continue;
    is_set = *flag;
    pthread_mutex_unlock(&o->mutex);
    return is_set;
}

static void set(struct opener *o, bool *flag)
{
    pthread_mutex_lock(&o->mutex);
    *flag = true;
    pthread_cond_signal(&o->changed);
    pthread_mutex_unlock(&o->mutex);
}

static void *thread_main(void *arg)
{
    struct opener *o = arg;

    do
        o->answer = o->try(o->ctx);
    while (o->answer == OPENER_NOT_NOW && !wait_for(o, &o->stopping, AGAIN_MS));
    (void)eventfd_write(o->over_fd, 1);
    set(o, &o->ended);
    return NULL;
}

struct opener *opener_start(enum opener_answer (*try)(void *ctx), void *ctx)
{
    struct opener *o = calloc(1, sizeof(*o));

    if (!o)
        return NULL;
    o->try = try;
    o->ctx = ctx;
    pthread_mutex_init(&o->mutex, NULL);
    pthread_cond_init(&o->changed, NULL);
    o->over_fd = eventfd(0, EFD_CLOEXEC);
    if (o->over_fd >= 0 &&
        pthread_create(&o->thread, NULL, thread_main, o) == 0) {
        (void)pthread_setname_np(o->thread, "opener");
        return o;
    }
    if (o->over_fd >= 0)
        close(o->over_fd);
    free(o);
    return NULL;
}

int opener_fd(const struct opener *opener)
{
    return opener->over_fd;
}

enum opener_answer opener_end(struct opener *o, unsigned wait_ms, bool *hangs)
{
    enum opener_answer answer;

    set(o, &o->stopping);
    *hangs = !wait_for(o, &o->ended, wait_ms);
    if (*hangs)
        return OPENER_NOT_NOW;
    pthread_join(o->thread, NULL);
    answer = o->answer;
    close(o->over_fd);
    pthread_cond_destroy(&o->changed);
    pthread_mutex_destroy(&o->mutex);
    free(o);
    return answer;
}
