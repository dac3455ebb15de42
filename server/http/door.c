/*
 * Every request passes here several times, so the count and the flag are
 * atomics. Only shutting, which happens once, takes locks that others notice:
 * pool and desk are about to be freed, and "no more" has to mean no more.
 */
#include "server/http/door.h"

#include <stdint.h>

#include "server/clock.h"

void door_init(struct door *door)
{
    atomic_init(&door->shut, false);
    atomic_init(&door->inside, 0);
    pthread_rwlock_init(&door->handover, NULL);
    pthread_mutex_init(&door->mutex, NULL);
    clock_cond_init(&door->empty);
}

void door_release(struct door *door)
{
    pthread_cond_destroy(&door->empty);
    pthread_mutex_destroy(&door->mutex);
    pthread_rwlock_destroy(&door->handover);
}

void door_enter(struct door *door)
{
    atomic_fetch_add(&door->inside, 1);
}

/*
 * The last to leave a shut door wakes whoever waits in door_wait(). With the
 * door open nobody waits, and the mutex stays untouched.
 */
void door_leave(struct door *door)
{
    if (atomic_fetch_sub(&door->inside, 1) > 1 || door_is_open(door))
        return;
    pthread_mutex_lock(&door->mutex);
    pthread_cond_broadcast(&door->empty);
    pthread_mutex_unlock(&door->mutex);
}

bool door_is_open(struct door *door)
{
    return !atomic_load(&door->shut);
}

/*
 * A read lock: hand-overs do not exclude each other, only the shutting. They
 * are short, for neither the pool nor the desk blocks when it takes something.
 */
bool door_hand(struct door *door)
{
    pthread_rwlock_rdlock(&door->handover);
    return door_is_open(door);
}

void door_handed(struct door *door)
{
    pthread_rwlock_unlock(&door->handover);
}

/*
 * To get the lock for itself it has to wait until the hand-overs under way are
 * through; those that come later find the door shut.
 */
bool door_shut(struct door *door)
{
    bool was_shut;

    pthread_rwlock_wrlock(&door->handover);
    was_shut = atomic_exchange(&door->shut, true);
    pthread_rwlock_unlock(&door->handover);
    return !was_shut;
}

bool door_wait(struct door *door, unsigned wait_ms)
{
    uint64_t due_ms = clock_ms() + wait_ms;
    bool empty;

    pthread_mutex_lock(&door->mutex);
    /* The timeout is not zero, and so it ends the loop. */
    while (atomic_load(&door->inside) &&
           clock_wait_until(&door->empty, &door->mutex, due_ms))
        ;
    empty = !atomic_load(&door->inside);
    pthread_mutex_unlock(&door->mutex);
    return empty;
}
