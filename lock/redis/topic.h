/* Private to wake-ups: the names that are waited for, and their waiters. Plain
 * lists; all functions are called with the mutex of the wake-ups. */
#ifndef DLOCK_TOPIC_H
#define DLOCK_TOPIC_H

#include <sys/queue.h>

#include "lock/core/strategy.h"
#include "lock/redis/command.h"

enum dlock_topic_state {
    DLOCK_TOPIC_NEW,    /* the server does not know of it */
    DLOCK_TOPIC_ASKED,  /* SUBSCRIBE was sent */
    DLOCK_TOPIC_STANDS, /* and confirmed: no message will be missed */
};

/* A name that is waited for. */
struct dlock_topic {
    struct dlock_topic *next;
    enum dlock_topic_state state;
    TAILQ_HEAD(dlock_waiters, dlock_waiter) waiters; /* in order of arrival */
    uint64_t idle_since_ms; /* real time; valid if there is no waiter */
    char name[DLOCK_NAME_BYTES_MAX + 1];
    char channel[DLOCK_KEY_BYTES_MAX + 1];
};

struct dlock_waiter {
    TAILQ_ENTRY(dlock_waiter) link;
    struct dlock_wakeup *wakeup;
    struct dlock_topic *topic;
    struct dlock_wake_call call; /* not yet called if .told is there */
    bool permit;                 /* it is worth trying */
    uint64_t until_ms;           /* it sleeps; UINT64_MAX = it is trying */
};

/* The topic of CHANNEL, or NULL. */
struct dlock_topic *dlock_topic_find(struct dlock_topic *list,
                                     const char *channel);

/* The same, made if need be. NULL: no memory. */
struct dlock_topic *dlock_topic_need(struct dlock_topic **list,
                                     const char *name, const char *channel);

/* At the end of the queue. Has a permit at once if the subscription stands. */
void dlock_topic_join(struct dlock_topic *topic, struct dlock_waiter *waiter);
void dlock_topic_leave(struct dlock_waiter *waiter);

/* A permit for the first waiter that has none; for all of them. */
void dlock_topic_wake_one(const struct dlock_topic *topic);
void dlock_topic_wake_all(const struct dlock_topic *topic);

/* A permit for the first waiter, unless one of them wakes by UNTIL_MS: that one passes
 * on what it hears. */
void dlock_topic_wake_by(const struct dlock_topic *topic, uint64_t until_ms);

/*
 * The next thing that the server has to be told about LIST: a topic to
 * subscribe to, which is marked as asked for and put into COPY; or one that
 * nobody has waited for since IDLE_BEFORE_MS, which is taken off the list and
 * is the caller's to free. NULL: nothing.
 */
struct dlock_topic *dlock_topic_task(struct dlock_topic **list,
                                     uint64_t idle_before_ms,
                                     struct dlock_topic *copy);

#endif
