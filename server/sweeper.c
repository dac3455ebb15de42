/* One thread, one condition that only the end signals. */
#include "server/sweeper.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "server/clock.h"

struct sweeper {
    sweeper_look *look;
    void *ctx;
    uint64_t patience_ms;
    pthread_mutex_t mutex;
    pthread_cond_t end;
    bool ending;
    pthread_t thread;
};

static void *sweep(void *arg)
{
    struct sweeper *self = arg;
    uint64_t now, due, latest;

    pthread_mutex_lock(&self->mutex);
    while (!self->ending) {
        pthread_mutex_unlock(&self->mutex);
        now = clock_ms();
        latest = now + self->patience_ms;
        due = self->look(self->ctx, now);
        pthread_mutex_lock(&self->mutex);
        if (!self->ending)
            clock_wait_until(&self->end, &self->mutex,
                             due < latest ? due : latest);
    }
    pthread_mutex_unlock(&self->mutex);
    return NULL;
}

struct sweeper *sweeper_open(const char *name, sweeper_look *look, void *ctx,
                             uint64_t patience_ms)
{
    struct sweeper *self = calloc(1, sizeof(*self));

    if (!self)
        return NULL;
    self->look = look;
    self->ctx = ctx;
    self->patience_ms = patience_ms;
    pthread_mutex_init(&self->mutex, NULL);
    clock_cond_init(&self->end);
    if (pthread_create(&self->thread, NULL, sweep, self) == 0) {
        pthread_setname_np(self->thread, name);
        return self;
    }
    pthread_cond_destroy(&self->end);
    pthread_mutex_destroy(&self->mutex);
    free(self);
    return NULL;
}

void sweeper_close(struct sweeper *self)
{
    if (!self)
        return;
    pthread_mutex_lock(&self->mutex);
    self->ending = true;
    pthread_cond_signal(&self->end);
    pthread_mutex_unlock(&self->mutex);
    pthread_join(self->thread, NULL);
    pthread_cond_destroy(&self->end);
    pthread_mutex_destroy(&self->mutex);
    free(self);
}
