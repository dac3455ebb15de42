/*
 * Tasks: work that may block, for threads that may wait. Reading an order, writing
 * stock hints, selling one by one: so no HTTP thread and no dispatcher ever waits
 * for a database or a lock server.
 *
 * A service has two of these: *readers* read what a request asks for, *workers* do
 * all else. In batches there are three workers, because at most one task writes
 * hints and one looks who waits for a lock; so one at least is left to look for the
 * product before a lock is taken.
 * The threads are alike and keep nothing from task to task.
 */
#ifndef TASKS_H
#define TASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "db/store.h"
#include "lock/dlock.h"

struct app;
struct tasks;

/* A thread has this for the task that it runs. */
struct worker {
    const struct app *app;
    struct store_reader *reader;
    struct dlock_session *session; /* holds nothing between two tasks */
    int stop_fd; /* readable once tasks_stop() was called: for waits */
};

struct task {
    /* Called once, after tasks_submit(), or in it. WORKER is NULL if the pool stops and the
     * task must not begin: then it must not block. */
    void (*run)(struct task *task, struct worker *worker);
    void *owner;

    /* The pool's, while it has the task. */
    TAILQ_ENTRY(task) place;
    bool is_queued;
};

/* Starts N threads called NAME-0, NAME-1, ... NULL, and a line in the log, if
 * that fails. */
struct tasks *tasks_open(const struct app *app, const char *name, size_t n);

/* However many there are: what hands them in is bounded, by --queue-max or by its
 * connections. From any thread, until tasks_close(). */
void tasks_submit(struct tasks *tasks, struct task *task);

/* Takes a task back that has not begun. True: run() will not be called. False: it has
 * begun, or ended. From any thread, by whoever knows that the task is still there. */
bool tasks_withdraw(struct tasks *tasks, struct task *task);

/* Refuses what has not begun, and what is handed in from then on; ends the threads.
 * Again does nothing. NULL is fine. */
void tasks_stop(struct tasks *tasks);

/* Stops if that was not done, then frees. NULL is fine. */
void tasks_close(struct tasks *tasks);

#endif
