/*
 * The door of the service: counts the requests inside, and can be shut. Then
 * nobody new is handed to the desk or the pool, and one can wait until all who
 * are inside have left.
 *
 *     door_enter, door_leave   a request comes and goes
 *     door_hand, door_handed   around every hand-over to desk or pool
 *     door_shut                at the end, once; then desk and pool are
 *                              stopped, which answers whoever they have
 *     door_wait                until those answers have been sent
 */
#ifndef DOOR_H
#define DOOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct door {
    atomic_bool shut;
    atomic_size_t inside;
    pthread_rwlock_t handover; /* shared: to hand over; alone: to shut */
    pthread_mutex_t mutex;     /* for the condition only */
    pthread_cond_t empty;
};

void door_init(struct door *door);
void door_release(struct door *door);

void door_enter(struct door *door);
void door_leave(struct door *door);

bool door_is_open(struct door *door);

/*
 * A hand-over goes in between: the door is not shut meanwhile. false if it is
 * already; then nothing is to be handed over, but door_handed() is called.
 */
bool door_hand(struct door *door);
void door_handed(struct door *door);

/* When it returns no hand-over is under way. true for the first to call. */
bool door_shut(struct door *door);

/* Waits until nobody is inside, at most WAIT_MS. false if somebody is. */
bool door_wait(struct door *door, unsigned wait_ms);

#endif
