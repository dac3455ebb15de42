/*
 * One thread sleeps until it has to look at the first in the queue. A time that
 * was started anew in between is due later than that: the watch goes back into
 * the queue, to where it belongs. Nothing can become due earlier than it was
 * expected to be, so nobody is looked at too late, and only an empty queue that
 * gets its first entry has to wake the thread.
 *
 * The fd is shut down, not closed: it belongs to libmicrohttpd, which finds
 * its connection ended by the peer and cleans up as usual.
 */
#include "server/http/deadline.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "server/clock.h"

/* The time stands still. */
#define NEVER UINT64_MAX

/* The mutex guards what is below it, and of all watches all but due_ms. */
struct deadline {
    uint64_t limit_ms;
    pthread_mutex_t mutex;
    pthread_cond_t work;
    pthread_t thread;
    struct deadline_watch *first, *last; /* sorted by look_ms */
    bool stopping;
};

static void dequeue(struct deadline *deadline, struct deadline_watch *watch)
{
    *(watch->prev ? &watch->prev->next : &deadline->first) = watch->next;
    *(watch->next ? &watch->next->prev : &deadline->last) = watch->prev;
}

/*
 * From the end: whoever had a request lately, and that is nearly everybody who
 * is put back, belongs close to it.
 */
static void enqueue(struct deadline *deadline, struct deadline_watch *watch,
                    uint64_t look_ms)
{
    struct deadline_watch *before = deadline->last;

    while (before && before->look_ms > look_ms)
        before = before->prev;
    watch->look_ms = look_ms;
    watch->prev = before;
    watch->next = before ? before->next : deadline->first;
    *(watch->prev ? &watch->prev->next : &deadline->first) = watch;
    *(watch->next ? &watch->next->prev : &deadline->last) = watch;
}

/* Its turn has come: cut it, or see when it has to be looked at again. */
static void look_at(struct deadline *deadline, struct deadline_watch *watch,
                    uint64_t now_ms)
{
    uint64_t due_ms = atomic_load(&watch->due_ms);

    dequeue(deadline, watch);
    if (due_ms == NEVER) {
        /* If it goes on this moment, then it is due a whole limit from now. */
        enqueue(deadline, watch, now_ms + deadline->limit_ms);
    } else if (due_ms > now_ms) {
        enqueue(deadline, watch, due_ms);
    } else {
        /* Under the mutex: deadline_forget() waits, so the fd is ours. */
        shutdown(watch->fd, SHUT_RDWR);
        /* Cut once; what is left of its life is libmicrohttpd's business. */
        watch->fd = -1;
    }
}

/* Returns early when it likes; the caller looks at the clock again. */
static void *deadline_main(void *arg)
{
    struct deadline *deadline = arg;
    struct deadline_watch *first;
    uint64_t now_ms;

    pthread_mutex_lock(&deadline->mutex);
    while (!deadline->stopping) {
        first = deadline->first;
        now_ms = clock_ms();
        if (!first)
            pthread_cond_wait(&deadline->work, &deadline->mutex);
        else if (first->look_ms > now_ms)
            clock_wait_until(&deadline->work, &deadline->mutex, first->look_ms);
        else
            look_at(deadline, first, now_ms);
    }
    pthread_mutex_unlock(&deadline->mutex);
    return NULL;
}

/*
 * The condition waits on the monotonic clock: setting the wall clock must
 * neither cut everybody at once nor nobody for an hour.
 */
struct deadline *deadline_open(unsigned limit_ms)
{
    struct deadline *deadline = calloc(1, sizeof(*deadline));

    if (!deadline)
        return NULL;
    deadline->limit_ms = limit_ms;
    pthread_mutex_init(&deadline->mutex, NULL);
    clock_cond_init(&deadline->work);
    if (!pthread_create(&deadline->thread, NULL, deadline_main, deadline)) {
        pthread_setname_np(deadline->thread, "http-deadline");
        return deadline;
    }
    pthread_cond_destroy(&deadline->work);
    pthread_mutex_destroy(&deadline->mutex);
    free(deadline);
    return NULL;
}

void deadline_watch(struct deadline *deadline, struct deadline_watch *watch,
                    int fd)
{
    bool first;

    deadline_restart(deadline, watch);
    watch->fd = fd;
    pthread_mutex_lock(&deadline->mutex);
    first = !deadline->first;
    enqueue(deadline, watch, atomic_load(&watch->due_ms));
    if (first)
        pthread_cond_signal(&deadline->work);
    pthread_mutex_unlock(&deadline->mutex);
}

void deadline_restart(struct deadline *deadline, struct deadline_watch *watch)
{
    atomic_store_explicit(&watch->due_ms, clock_ms() + deadline->limit_ms,
                          memory_order_relaxed);
}

void deadline_pause(struct deadline *deadline, struct deadline_watch *watch)
{
    (void)deadline;
    atomic_store_explicit(&watch->due_ms, NEVER, memory_order_relaxed);
}

/*
 * Once this returns the thread does not know the watch any more; if it was just
 * cutting it, the mutex made us wait for the end of that.
 */
void deadline_forget(struct deadline *deadline, struct deadline_watch *watch)
{
    pthread_mutex_lock(&deadline->mutex);
    if (watch->fd >= 0)
        dequeue(deadline, watch);
    pthread_mutex_unlock(&deadline->mutex);
}

void deadline_close(struct deadline *deadline)
{
    if (!deadline)
        return;
    pthread_mutex_lock(&deadline->mutex);
    deadline->stopping = true;
    pthread_cond_signal(&deadline->work);
    pthread_mutex_unlock(&deadline->mutex);
    pthread_join(deadline->thread, NULL);
    pthread_cond_destroy(&deadline->work);
    pthread_mutex_destroy(&deadline->mutex);
    free(deadline);
}
