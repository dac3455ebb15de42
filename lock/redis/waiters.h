/*
 * Private to lock/: the slots of locks on one Redis server that knows its
 * waiters by their owners, in keys beside the lock, and wakes one at a time, each
 * on a channel of its own. fair and fenced are such locks; in which order they
 * wake is in their scripts (fair_queue.lua, waiters.lua).
 *
 * They need the scripts `leave` and `list` of struct dlock_node_kind.
 */
#ifndef DLOCK_WAITERS_H
#define DLOCK_WAITERS_H

#include "lock/redis/node.h"
#include "lock/redis/scripts.h" /* made by scripts.mk */

/* A channel for each waiter: this and its owner id. */
#define DLOCK_WAITERS_CHANNEL ":dlock-turn:"

/* The scripts and the channel of a struct dlock_node_kind. */
#define DLOCK_WAITERS_SCRIPTS(lock)                                            \
    .acquire = &dlock_script_##lock##_acquire,                                 \
    .release = &dlock_script_##lock##_release,                                 \
    .force = &dlock_script_##lock##_force,                                     \
    .renew = &dlock_script_##lock##_renew,                                     \
    .leave = &dlock_script_##lock##_leave,                                     \
    .list = &dlock_script_##lock##_list, .channel = DLOCK_WAITERS_CHANNEL

void *dlock_waiters_watch(struct dlock_session *session, const char *name);
void dlock_waiters_give_up(struct dlock_session *session,
                           const struct dlock_attempt *attempt);
enum dlock_status dlock_waiters_list(struct dlock_session *session,
                                     const struct dlock_attempt *attempt,
                                     struct dlock_waiting waiters[],
                                     size_t n_max, size_t *n,
                                     struct dlock_error *error);

#define DLOCK_WAITERS_FUNCTIONS                                                \
    .watch = dlock_waiters_watch, .give_up = dlock_waiters_give_up,            \
    .waiters = dlock_waiters_list

#endif
