/*
 * One thread sleeps until the first in the queue is due. Restarting moves a
 * connection from the front to the back, so the first can only become due
 * later than the thread expects: it wakes up, sees, and sleeps again. Only an
 * empty queue that gets its first entry has to wake it.
 *
 * The fd is shut down, not closed: it belongs to libmicrohttpd, which finds
 * its connection ended by the peer and cleans up as usual.
 */
#include "server/http/deadline.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "server/clock.h"

/* Everything below the mutex is guarded by it, and so are all watches. */
struct deadline {
    pthread_mutex_t mutex;
    pthread_cond_t work;
    pthread_t thread;
    struct deadline_watch *first, *last; /* sorted by due_ms */
    uint64_t limit_ms;
    bool stopping;
};

/* Takes a watch out, wherever it is. Twice is once. */
static void dequeue(struct deadline *deadline, struct deadline_watch *watch)
{
    if (!watch->queued)
        return;
    *(watch->prev ? &watch->prev->next : &deadline->first) = watch->next;
    *(watch->next ? &watch->next->prev : &deadline->last) = watch->prev;
    watch->queued = false;
}

/*
 * To the end: nobody there is due later, because nobody was given more time and
 * the clock does not go back.
 */
static void enqueue(struct deadline *deadline, struct deadline_watch *watch)
{
    watch->due_ms = clock_ms() + deadline->limit_ms;
    watch->prev = deadline->last;
    watch->next = NULL;
    *(deadline->last ? &deadline->last->next : &deadline->first) = watch;
    deadline->last = watch;
    watch->queued = true;
    if (!watch->prev)
        pthread_cond_signal(&deadline->work);
}

/* Returns early when it likes; the caller looks at the clock again. */
static void *deadline_main(void *arg)
{
    struct deadline *deadline = arg;
    struct deadline_watch *first;

    pthread_mutex_lock(&deadline->mutex);
    while (!deadline->stopping) {
        first = deadline->first;
        if (!first) {
            pthread_cond_wait(&deadline->work, &deadline->mutex);
        } else if (first->due_ms > clock_ms()) {
            clock_wait_until(&deadline->work, &deadline->mutex, first->due_ms);
        } else {
            /* Under the mutex: deadline_forget() waits, so the fd is ours. */
            shutdown(first->fd, SHUT_RDWR);
            /*
             * Cut once; what is left of its life is libmicrohttpd's business.
             */
            dequeue(deadline, first);
            first->fd = -1;
        }
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
    if (!pthread_create(&deadline->thread, NULL, deadline_main, deadline))
        return deadline;
    pthread_cond_destroy(&deadline->work);
    pthread_mutex_destroy(&deadline->mutex);
    free(deadline);
    return NULL;
}

void deadline_watch(struct deadline *deadline, struct deadline_watch *watch,
                    int fd)
{
    if (!watch)
        return;
    pthread_mutex_lock(&deadline->mutex);
    watch->fd = fd;
    watch->queued = false;
    enqueue(deadline, watch);
    pthread_mutex_unlock(&deadline->mutex);
}

/*
 * Called for every request, twice or more: that is what the O(1) is for. A
 * watch whose fd is -1 was cut, and stays so.
 */
void deadline_restart(struct deadline *deadline, struct deadline_watch *watch)
{
    if (!watch)
        return;
    pthread_mutex_lock(&deadline->mutex);
    dequeue(deadline, watch);
    if (watch->fd >= 0)
        enqueue(deadline, watch);
    pthread_mutex_unlock(&deadline->mutex);
}

void deadline_pause(struct deadline *deadline, struct deadline_watch *watch)
{
    if (!watch)
        return;
    pthread_mutex_lock(&deadline->mutex);
    dequeue(deadline, watch);
    pthread_mutex_unlock(&deadline->mutex);
}

/*
 * Once this returns the thread does not know the watch any more; if it was just
 * cutting it, the mutex made us wait for the end of that.
 */
void deadline_forget(struct deadline *deadline, struct deadline_watch *watch)
{
    deadline_pause(deadline, watch);
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
