/*
 * Private to zk.c and zk_session.c: what is known of a session of ZooKeeper, and
 * by whom.
 */
#ifndef DLOCK_ZK_SESSION_H
#define DLOCK_ZK_SESSION_H

#include <pthread.h>

#include "lock/zookeeper/zk_handle.h"

struct dlock_zk {
    const struct dlock_session *session;
    const struct dlock_zk_config *config;
    struct dlock_zk_listener listener;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* Guarded by the mutex, as they are the library's threads' as well. */
    struct dlock_zk_handle *handle; /* NULL = none */
    uint64_t number;                /* of the handle, from 1 */
    bool connected;
    bool ended;
    bool woken;                  /* a look is due, by whoever waits, ... */
    struct dlock_wake_call call; /* ... who is told so once */
    uint64_t expires_ms; /* real time; while not connected; 0 = never was */
    unsigned session_ms; /* as the server sees it */
};

/*
 * A connection, and session NUMBER, or else DLOCK_LOST; with 0, whichever there
 * is, or a new one. DLOCK_UNREACHABLE at UNTIL_MS of real time.
 */
enum dlock_status dlock_zk_ready(struct dlock_zk *zk, uint64_t number,
                                 uint64_t until_ms, struct dlock_error *error);

/* Sleeps until something has changed. False: it is UNTIL_MS of real time. With
 * the mutex. */
bool dlock_zk_sleep_until(struct dlock_zk *zk, uint64_t until_ms);

/* For the listener: the answer of a call is there. */
void dlock_zk_answered(void *ctx, struct dlock_zk_call *call);

#endif
