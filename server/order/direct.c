/*
 * --desk direct: every order on its own, first come first served. As many
 * threads as --workers says queue up at the lock, so that the lock alone
 * decides what happens. Slow on purpose: it is there to be compared with.
 */
#include "server/clock.h"
#include "server/order/critical.h"
#include "server/order/desk_private.h"

static void serve(struct desk_thread *self, struct ticket *ticket)
{
    critical_run(&self->worker, ticket, &self->holds);
    desk_answer(self->desk, ticket, clock_us());
    holds_leave(&self->worker, &self->holds);
}

void *direct_main(void *arg)
{
    struct desk_thread *self = arg;
    struct desk *desk = self->desk;
    struct ticket *ticket;

    pthread_mutex_lock(&desk->mutex);
    while (!desk->stopping) {
        ticket = lanes_pop(desk->lanes);
        if (!ticket) {
            desk_idle(self, UINT64_MAX);
            continue;
        }
        pthread_mutex_unlock(&desk->mutex);
        serve(self, ticket);
        pthread_mutex_lock(&desk->mutex);
    }
    pthread_mutex_unlock(&desk->mutex);
    return NULL;
}
