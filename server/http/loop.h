/*
 * What an HTTP thread works with: its sleep, what other threads send back to
 * it, and the orders that it gathers, all of which is http.c's; and its connections, with
 * their time limits, which are mhd.c's.
 *
 * All of it is for the loop's own thread, which also runs all callbacks of
 * mhd.c, unless it says "from any thread". A connection and all that belongs to
 * it stay on one thread, so they need no lock.
 *
 * Coming back
 * -----------
 * The thread that has served a request which waited posts it into the loop's inbox, and
 * wakes the loop only if it sleeps: of all orders of a batch the first wakes it.
 *
 * Gathering
 * ---------
 * Orders are handed to the dispatcher together: waking it is dear, and an order
 * that just misses a batch waits for a whole commit. So the loop keeps its
 * orders until
 *   - all orders before were answered, and all who got these answers have sent
 *     something again,
 *   - or no order has come for LOOP_QUIET_US,
 *   - or the first one has waited for LOOP_GATHER_US.
 * Connections that are silent, or that have not ordered, are not waited for. A
 * customer who is alone never waits. Half of the customers are enough if the store
 * is busy with their orders for longer than the disk: of LOOP_HALF orders, and of
 * any that have a key.
 */
#ifndef LOOP_H
#define LOOP_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/base/timers.h"

#define LOOP_QUIET_US  50
#define LOOP_GATHER_US 2000
#define LOOP_HALF      64

struct MHD_Daemon;
struct app;
struct feed;
struct order;
struct request;

/*
 * How many orders one client may have waiting: so that one of them cannot fill
 * the dispatcher's queue and leave all others with 503.
 *
 * It limits neither how many orders a client may place, nor how fast. A client
 * that waits for its answers never meets it. Behind a proxy all clients have one
 * address, unless it is one of --trusted-proxy, which says whose order it is.
 *
 * Orders are counted by a hash of the address, so nobody has to be remembered. Two
 * addresses share a count by a chance of one in ACCESS_COUNTS, and the seed keeps
 * secret which ones do.
 */
#define ACCESS_COUNTS 65536
struct access_limit {
    unsigned inflight_max; /* orders of each */
    uint64_t seed;
    atomic_uint counts[ACCESS_COUNTS];
};

/* The loops' common part: their connections, as /metrics tells them, and what all
 * of these share. */
struct loop_group {
    struct feed *feed; /* the viewers' */
    struct access_limit limit;
    char address[64]; /* that we listen on */
    atomic_size_t connections_n;
};

struct loop {
    const struct app *app;
    struct loop_group *group;
    pthread_t thread;
    struct MHD_Daemon *daemon; /* mhd.c's */
    struct timers timers;
    uint64_t now_us;                    /* when this pass began */
    struct order *orders, **orders_end; /* gathered */
    uint64_t first_order_us, last_order_us;
    uint64_t pass, round; /* from 1; a round ends with a hand-over */
    int wait_fd;       /* an epoll of bell_fd and what loop_watch() was given */
    int bell_fd;       /* an eventfd */
    unsigned begun;    /* so many need another pass, see loop_begun() */
    unsigned expected; /* requests that will come back */
    unsigned gathered, awaited; /* orders; those gathered are awaited as well */
    unsigned answered;          /* in this round, and silent since */
    unsigned suspended;         /* connections, of viewers */

    /* Other threads write these: they have a cache line of their own, and in it is room
     * for three more. */
    _Alignas(64) _Atomic(struct request *) inbox; /* the last one first */
    atomic_bool asleep, drain, stop;
    bool parses_in_place; /* mhd.c's: the library a head, in its read buffer */
    bool has_new_order;   /* in this pass */
    bool draining;        /* from now on nothing is handed to other threads */
    atomic_size_t requests; /* under way; only this loop's thread writes it */
    atomic_size_t writes;   /* that the store has, or is posting */
    sem_t drained;          /* posted when `draining` became true */
};

/* A connection's part in the counts of its loop; begins as {0}. */
struct loop_mark {
    uint64_t pass, round;
};

/* ---- http.c ------------------------------------------------------------------ */

/* The loop wakes up when FD can be read from. */
bool loop_watch(struct loop *loop, int fd);

/* The request is its loop's from here on. From any thread. */
void loop_post(struct request *request);

/* False: it was told to stop, nothing is expected any more, and no connection is
 * suspended. */
bool loop_begin_pass(struct loop *loop);

/* All that were posted, the first one first; NULL if there are none. */
struct request *loop_take(struct loop *loop);

/* Hands the gathered orders over if it is time. Then sleeps until there is
 * something to do; with HAS_MORE there is already. */
void loop_end_pass(struct loop *loop, bool has_more);

void loop_order(struct loop *loop, struct order *order);

/* A customer's order was answered; the customer has sent something, or left. */
void loop_answered(struct loop *loop, struct loop_mark *mark);
void loop_heard(struct loop *loop, struct loop_mark *mark);

/* libmicrohttpd has begun something that it can only continue in its next pass, without
 * an event from the kernel; and it is through with it. */
void loop_begun(struct loop *loop, struct loop_mark *mark);
void loop_done(struct loop *loop, struct loop_mark *mark);

/* ---- mhd.c ------------------------------------------------------------------- */

/* Accepts no more than CONNECTIONS_MAX at a time, and of one address no more than
 * ADDRESS_MAX, 0 = any number. False if it does not start. */
bool mhd_start(struct loop *loop, int listener, unsigned connections_max,
               unsigned address_max);

/* The thread: serves until the loop is told to stop. */
void *mhd_serve(void *loop);

/* Ends all connections. Nothing may wait for another thread any more. Fine if it did
 * not start. */
void mhd_stop(struct loop *loop);

#endif
