/*
 * What the files behind the desk share. desk.c lets orders in and answers them;
 * behind it work the threads of thread.c: either direct.c's, or keeper.c's and
 * flow.c.
 */
#ifndef DESK_PRIVATE_H
#define DESK_PRIVATE_H

#include <pthread.h>

#include "server/app.h"
#include "server/order/desk.h"
#include "server/order/hold.h"
#include "server/order/keep.h"
#include "server/order/lane.h"

#define DESK_BATCH_MAX 1024 /* orders that share one transaction */
#define DESK_LOT_MAX   512  /* of them, those of one lane */

struct desk_thread {
    struct desk *desk;
    struct worker worker;
    pthread_t thread;
    pthread_cond_t wake;   /* with the desk's mutex */
    bool idle;             /* waits for work, and nobody has called it yet */
    struct lane_list held; /* a keeper's: lanes whose locks it has */
    struct keep keep;      /* the same lanes: which of them to look at */
    struct holds holds;    /* direct's: the locks it has */
};

struct desk {
    const struct app *app;
    pthread_mutex_t mutex; /* guards the lanes and all that is in them */
    struct lanes *lanes;
    struct foresee *foresee;
    struct sweeper *sweeper;
    struct store_stream *stream; /* of combine */
    pthread_cond_t placed;       /* a lane that is to be left can be left */
    size_t held_n;               /* lanes that the keepers have */
    int stop_fd;                 /* for the threads' thinking */
    bool stopping;
    bool joined;
    atomic_bool lock_away; /* the lock server did not answer the last time */
    atomic_size_t depth;
    struct store_order *batch[DESK_BATCH_MAX]; /* the flow's */
    uint64_t batch_us;                         /* when it was taken */
    size_t threads_n;                          /* that are running */
    struct desk_thread threads[];
};

/* Answers a ticket whose outcome is set. Not under the mutex. */
void desk_answer(struct desk *desk, struct ticket *ticket, uint64_t now_us);

/* Answers a list of tickets, linked by next. Not under the mutex. */
void desk_refuse(struct desk *desk, struct ticket *list,
                 enum order_outcome outcome, const char *why);

/* Under the mutex: whether a ticket that has a place may wait in a lane, which it
 * chooses. Else its outcome is set. */
bool desk_may_wait(struct desk *desk, struct ticket *ticket);

/* Answers one that is known to be too late. Not under the mutex. */
void desk_sold_out(struct desk *desk, struct ticket *ticket);

/* Starts one more thread. False and a log line if that fails. */
bool desk_thread_start(struct desk *desk);

/* Of one that has ended. */
void desk_thread_release(struct desk_thread *self);

/* Wakes one thread that has nothing to do, if there is one. */
void desk_call(struct desk *desk);

/* Sleeps until desk_call(), or DUE_US. With the mutex held. */
void desk_idle(struct desk_thread *self, uint64_t due_us);

/* What a desk's threads do: struct desk_thread in, NULL out. */
void *direct_main(void *self);
void *keeper_main(void *self);

/* Under the mutex: the lane should be left now, which its keeper, if it has one,
 * has to know. */
void keeper_call(struct lane *lane);

/*
 * Under the mutex: puts tickets that have waited already, and chosen a lane,
 * before all that wait there, and calls for somebody. Who finds no memory is
 * returned.
 */
struct ticket *flow_send_on(struct desk *desk, struct ticket *list);

/* Where the orders of open lanes go. */
enum store_status flow_open(struct desk *desk, struct store_error *error);

#endif
