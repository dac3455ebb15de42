/*
 * Sessions of the lock library, as many as tasks need at once. A session owns the locks
 * that it took, has one connection, and can do one thing at a time: while it waits for a
 * lock nothing that it holds can be given back. The committer's thread only.
 */
#ifndef SESSIONS_H
#define SESSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "lock/dlock.h"

struct lock_session {
    struct dlock_session *dlock;
    size_t holds; /* locks */
    bool in_use;  /* a task has it */
    bool retired; /* takes no more locks */
    TAILQ_ENTRY(lock_session) place;
};

struct sessions {
    struct dlock *client;
    TAILQ_HEAD(lock_session_list, lock_session) all;
    size_t n;
};

void sessions_init(struct sessions *sessions, struct dlock *client);

/* No task has one. */
void sessions_release(struct sessions *sessions);

/* One more. NULL: no memory, or there are CONFIG_SESSIONS_MAX. */
struct lock_session *session_open(struct sessions *sessions);

/* One that is not in use; then it is. PREFERRED, if it is free. TO_WAIT: one that holds
 * nothing, if there is one or can be made. Else one that holds locks already, so that
 * others stay free of them. NULL: no memory. */
struct lock_session *session_take(struct sessions *sessions,
                                  const struct lock_session *preferred,
                                  bool to_wait);

/* The task has ended. A session that is retired and holds nothing is closed. */
void session_settle(struct sessions *sessions, struct lock_session *session);

#endif
