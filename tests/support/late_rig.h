/*
 * Two sessions whose commands may be held back, noted, and delivered late: the players
 * of tests/test_dlock_late.c, each with a clock that stands still, but while a reply
 * is waited for that does not come. What must not be fails the test.
 */
#ifndef LATE_RIG_H
#define LATE_RIG_H

#include "lock/core/session.h"
#include "tests/support/fake_clock.h"
#include "tests/support/redis_server.h"

enum { LATE_NODES_MAX = 3, LATE_NOTED_MAX = 32, LATE_SHORT_MS = 30000 };

/* A session, and what it believes. */
struct late_user {
    struct late_world *world;
    struct fake_clock clock; /* stands still, but while a reply is waited for */
    struct dlock *client;
    struct dlock_session *session;
    struct dlock_grant grants[2];
    unsigned holds;
    enum dlock_status status; /* of the last acquire */
    bool unsure; /* a release, or the end of a wait, that got no answer */
    bool waits;
    bool forced_out;
    struct dlock_wait wait;
    unsigned long long
        over[LATE_NODES_MAX]; /* will be, by what was not awaited */
    bool overtaken; /* its next extend, by a renewal that is sent before it */
    bool loses; /* its acquires do not reach the server, nor are they noted */
    unsigned reaching; /* but for so many */
};

/* One command on its way. */
struct late_noted {
    unsigned node;
    char *line;
};

struct late_world {
    struct redis_server *servers[LATE_NODES_MAX];
    unsigned nodes_n;
    const char *strategy;
    struct late_user users[2];
    /* What is noted of user 0. */
    const char *noted_step;
    unsigned skip; /* so many to each node come first */
    bool held_back;
    struct late_noted noted[LATE_NOTED_MAX];
    unsigned noted_n;
    unsigned passed_n[LATE_NODES_MAX];
    char pair[100];
};

void late_open(struct late_world *world, struct late_user *user);
void late_close(struct late_user *user);

/* Fails the test, with WHAT, if it is not so. */
void late_expect(const struct late_world *world, const char *what,
                 enum dlock_status status, enum dlock_status expected);

/* The deeds. An acquire may come to nothing: then there is no hold more. */
void late_take(struct late_user *user);
void late_take_fenced(struct late_user *user); /* its token has to spread */
void late_give(struct late_user *user);
void late_extend(struct late_user *user);
void late_renew(struct late_user *user);
void late_take_back(struct late_user *user);
void late_begin_wait(struct late_user *user);
void late_end_wait(struct late_user *user);
void late_force(struct late_user *user);

/*
 * What was noted arrives, and must change nothing. FORGIVEN: but an acquire that was
 * told no may take what is free by now. Locks that do not know their waiters keep
 * nothing of those.
 */
void late_deliver(struct late_world *world, bool forgiven);

/* The servers are empty, nothing is on its way. */
void late_forget(struct late_world *world);

#endif
