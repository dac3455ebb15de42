/*
 * Holding a lock, from the acquire to the last try to give it back: what all
 * critical sections of the desk have in common.
 */
#ifndef HOLD_H
#define HOLD_H

#include <pthread.h>
#include <stdatomic.h>

#include "lock/dlock.h"
#include "server/order/order.h"

struct app;

/* What a thread of the desk works with; an owner of locks of its own. */
struct worker {
    const struct app *app;
    struct dlock_session *session; /* guarded by *mutex while it changes */
    pthread_mutex_t *mutex;        /* of who asks the session for leases */
    struct store_reader *reader;
    int stop_fd;            /* readable when the service is about to end */
    atomic_bool *lock_away; /* set here: the lock server did not answer */
    atomic_bool at_store;   /* taking a lock, and it is the store that it waits
                               for */
};

/* A lock that is held. */
struct hold {
    struct dlock_grant grant;
    struct store_fence fence; /* of it, and of others: holds.h */
    uint64_t granted_us;      /* monotonic */
    bool failed;              /* the work under it ended with an error */
};

/*
 * Takes the lock NAME, waiting WAIT_MS at most. ORDER_PLACED and HOLD is
 * filled; or the outcome for who waits for it, and why.
 */
enum order_outcome hold_take(struct worker *worker, const char *name,
                             unsigned wait_ms, struct hold *hold,
                             struct dlock_error *error);

/*
 * How long to wait for a lock for an order that came at SUBMITTED_US: the wait
 * counts from there, and leaves time for the last command to fail in.
 */
unsigned hold_patience_ms(const struct app *app, uint64_t submitted_us);

/* Who came before has no patience left at NOW_US, which may be soon after the
 * machine was started; 0: nobody. */
uint64_t hold_impatient_us(const struct app *app, uint64_t now_us);

/* What is written under the lock alone is written under this. Borrows from
 * HOLD. */
struct store_fence hold_fence(const struct worker *worker,
                              const struct hold *hold);

/* A lock that cannot be given back is tried for so long. */
#define HOLD_LEAVE_MS_MAX 10000

/*
 * Gives the lock back; to be called when the customers have their answers: it
 * may take as long as the lock server is away, but not beyond GIVE_UP_US, nor
 * the end of the service. False: the server is away still. Nothing is done of a
 * lock that the worker has given up before.
 */
bool hold_leave(struct worker *worker, const struct hold *hold,
                uint64_t give_up_us);

/*
 * Gives up all that a worker has and cannot give back: its locks end with their
 * leases, as if it had died, and it becomes another owner. Takes *mutex; may
 * take a command timeout.
 */
void hold_give_up(struct worker *worker);

/* The time that real services spend under their lock: prices, risk, taxes. It
 * ends early when the service ends. */
void hold_think(const struct worker *worker);

#endif
