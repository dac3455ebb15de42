/*
 * Some threads, one queue. See tasks.h.
 *
 * A task is in the queue, or a thread has it, or it is its owner's; each step from one to
 * the next is made under the mutex. So one that was withdrawn never runs, and one that
 * runs is never withdrawn. At the end the thread that stops the pool refuses what is in
 * the queue, while the others finish what they have.
 */
#include "server/base/tasks.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/base/app.h"
#include "server/base/log.h"

struct tasks_thread {
    struct tasks *tasks;
    struct worker worker;
    pthread_t thread;
};

TAILQ_HEAD(task_list, task);

/* The mutex guards what stands between it and the threads. */
struct tasks {
    pthread_mutex_t mutex;
    pthread_cond_t work; /* there is a task, or the pool stops */
    struct task_list queue;
    bool stopping;
    int stop_fd;
    size_t threads_n; /* that are running */
    struct tasks_thread threads[];
};

/* With the mutex held. */
static void take_out(struct tasks *tasks, struct task *task)
{
    TAILQ_REMOVE(&tasks->queue, task, place);
    task->is_queued = false;
}

void tasks_submit(struct tasks *tasks, struct task *task)
{
    bool stopping;

    pthread_mutex_lock(&tasks->mutex);
    stopping = tasks->stopping;
    if (!stopping) {
        TAILQ_INSERT_TAIL(&tasks->queue, task, place);
        task->is_queued = true;
        /* One task needs one thread; all are woken only at the end. */
        pthread_cond_signal(&tasks->work);
    }
    pthread_mutex_unlock(&tasks->mutex);
    /* run() is called without the mutex, since it may hand in another task, or
     * wake one who takes the mutex. */
    if (stopping)
        task->run(task, NULL);
}

bool tasks_withdraw(struct tasks *tasks, struct task *task)
{
    bool was_queued;

    pthread_mutex_lock(&tasks->mutex);
    /* The answer and the taking out are one step under the mutex: a thread
     * either has the task or never gets it. */
    was_queued = task->is_queued;
    if (was_queued)
        take_out(tasks, task);
    pthread_mutex_unlock(&tasks->mutex);
    return was_queued;
}

static void *thread_main(void *arg)
{
    struct tasks_thread *self = arg;
    struct tasks *tasks = self->tasks;
    struct task *task;

    pthread_mutex_lock(&tasks->mutex);
    while (!tasks->stopping) {
        task = TAILQ_FIRST(&tasks->queue);
        if (!task) {
            pthread_cond_wait(&tasks->work, &tasks->mutex);
            continue;
        }
        take_out(tasks, task);
        pthread_mutex_unlock(&tasks->mutex);
        /* The task is its owner's again once run() has answered: here it must
         * not be touched afterwards. */
        task->run(task, &self->worker);
        pthread_mutex_lock(&tasks->mutex);
    }
    pthread_mutex_unlock(&tasks->mutex);
    return NULL;
}

struct tasks *tasks_open(const struct app *app, const char *name, size_t n)
{
    struct tasks *tasks =
        calloc(1, sizeof(*tasks) + n * sizeof(struct tasks_thread));
    struct store_error store_error = {""};
    struct dlock_error lock_error = {""};
    struct tasks_thread *self;
    char thread[16];

    if (!tasks) {
        log_error("tasks", "error=\"out of memory\"");
        return NULL;
    }
    pthread_mutex_init(&tasks->mutex, NULL);
    pthread_cond_init(&tasks->work, NULL);
    TAILQ_INIT(&tasks->queue);
    tasks->stop_fd = eventfd(0, EFD_CLOEXEC);
    /* Each thread has a connection of its own to the database and to the lock
     * server: so tasks never wait for each other's. */
    for (self = tasks->threads; tasks->stop_fd >= 0 && tasks->threads_n < n;
         self++, tasks->threads_n++) {
        self->tasks = tasks;
        self->worker = (struct worker){.app = app, .stop_fd = tasks->stop_fd};
        if (store_reader_open(app->store, &self->worker.reader, &store_error) !=
                STORE_OK ||
            dlock_session_open(app->locks, &self->worker.session,
                               &lock_error) != DLOCK_OK ||
            pthread_create(&self->thread, NULL, thread_main, self) != 0)
            break;
        snprintf(thread, sizeof(thread), "%s-%zu", name, tasks->threads_n);
        pthread_setname_np(self->thread, thread);
    }
    if (tasks->threads_n == n)
        return tasks;
    /* The thread that failed is not counted, so that tasks_close() does not
     * know of what it had opened. */
    dlock_session_close(self->worker.session);
    store_reader_close(self->worker.reader);
    log_error("tasks", "error=\"cannot start a thread of the %ss: %s%s\"", name,
              store_error.text, lock_error.text);
    tasks_close(tasks);
    return NULL;
}

void tasks_stop(struct tasks *tasks)
{
    struct task *task;

    if (!tasks)
        return;
    pthread_mutex_lock(&tasks->mutex);
    tasks->stopping = true;
    pthread_cond_broadcast(&tasks->work);
    while ((task = TAILQ_FIRST(&tasks->queue))) {
        /* Each task is refused by itself, and never lost: its owner waits for
         * run(). */
        take_out(tasks, task);
        pthread_mutex_unlock(&tasks->mutex);
        task->run(task, NULL);
        pthread_mutex_lock(&tasks->mutex);
    }
    pthread_mutex_unlock(&tasks->mutex);
    if (tasks->stop_fd >= 0)
        /* The threads are told twice: by the condition those that have nothing
         * to do, by the descriptor those that wait in a task. */
        eventfd_write(tasks->stop_fd, 1);
    /* The readers and sessions are closed when their threads have ended, since
     * a task may use them to its end. */
    while (tasks->threads_n > 0) {
        struct tasks_thread *last = &tasks->threads[--tasks->threads_n];

        pthread_join(last->thread, NULL);
        store_reader_close(last->worker.reader);
        dlock_session_close(last->worker.session);
    }
}

void tasks_close(struct tasks *tasks)
{
    if (!tasks)
        return;
    tasks_stop(tasks);
    if (tasks->stop_fd >= 0)
        close(tasks->stop_fd);
    pthread_cond_destroy(&tasks->work);
    pthread_mutex_destroy(&tasks->mutex);
    free(tasks);
}
