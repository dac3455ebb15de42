/*
 * The desk's threads: how they start and end, how they are called when there is
 * something to do, and what each owns: a session of the lock client, a reader of
 * the store.
 */
#include "server/order/desk_private.h"

#include <stdio.h>

#include "server/clock.h"
#include "server/config.h"
#include "server/log.h"

void desk_call(struct desk *desk)
{
    for (size_t i = 0; i < desk->threads_n; i++) {
        if (desk->threads[i].idle) {
            desk->threads[i].idle = false;
            pthread_cond_signal(&desk->threads[i].wake);
            return;
        }
    }
}

void desk_idle(struct desk_thread *self, uint64_t due_us)
{
    self->idle = true;
    if (due_us == UINT64_MAX)
        pthread_cond_wait(&self->wake, &self->desk->mutex);
    else
        clock_wait_until(&self->wake, &self->desk->mutex, due_us / 1000 + 1);
    self->idle = false;
}

/* For who looks at the threads of the process. */
static void name_thread(pthread_t thread, const char *what, size_t i)
{
    char name[16];

    snprintf(name, sizeof(name), "%s-%zu", what, i);
    pthread_setname_np(thread, name);
}

bool desk_thread_start(struct desk *desk)
{
    bool direct = desk->app->config->desk == DESK_DIRECT;
    struct desk_thread *self = &desk->threads[desk->threads_n];
    struct dlock_error lock_error = {""};
    struct store_error store_error = {""};

    self->desk = desk;
    self->worker.app = desk->app;
    self->worker.mutex = &desk->mutex;
    self->worker.stop_fd = desk->stop_fd;
    self->worker.lock_away = &desk->lock_away;
    TAILQ_INIT(&self->held);
    keep_init(&self->keep);
    if (dlock_session_open(desk->app->locks, &self->worker.session,
                           &lock_error) != DLOCK_OK)
        goto err;
    if (store_reader_open(desk->app->store, &self->worker.reader,
                          &store_error) != STORE_OK)
        goto err_after_session;
    clock_cond_init(&self->wake);
    if (pthread_create(&self->thread, NULL, direct ? direct_main : keeper_main,
                       self) != 0)
        goto err_after_reader;
    name_thread(self->thread, direct ? "direct" : "keeper", desk->threads_n);
    desk->threads_n++;
    return true;

err_after_reader:
    pthread_cond_destroy(&self->wake);
    store_reader_close(self->worker.reader);
err_after_session:
    dlock_session_close(self->worker.session);
err:
    log_error("desk", "error=\"cannot start a worker: %s%s\"", lock_error.text,
              store_error.text);
    return false;
}

void desk_thread_release(struct desk_thread *self)
{
    pthread_cond_destroy(&self->wake);
    holds_release(&self->holds);
    store_reader_close(self->worker.reader);
    dlock_session_close(self->worker.session);
}
