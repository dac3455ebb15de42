/*
 * The locks of the queues: who takes them, keeps them, gives them back.
 *
 * The decisions are made here, on the committer's thread; what comes of them is
 * tasks, whose results come back into an inbox:
 *
 *     take  try to get the lock, or wait for it: lock_tasks.c
 *     give  give it back
 *     look  with --shared: does another instance wait for a lock we have?
 *
 * No product waits behind the lock of another. The first try of a queue does not
 * wait; a lock that another instance holds is waited for then, by the lock
 * library's asynchronous call, which takes no thread. It takes a session, which is
 * a connection: 64 locks are waited for at a time, and more of them by turns, which
 * are the shorter then.
 */
#ifndef LOCKS_H
#define LOCKS_H

#include "server/order/queue.h"

struct locks;

/* The lock was not to be had: those orders are to be refused that came before
 * BEFORE_US. With ORDER_NO_PRODUCT nobody asked for the lock. */
typedef void locks_refuse(void *owner, struct queue *queue, uint64_t before_us,
                          enum order_outcome outcome, const char *why);

/* QUEUES, and their OWNER, are borrowed until locks_close(). NULL: no memory. */
struct locks *locks_open(const struct app *app, struct queues *queues,
                         locks_refuse *refuse, void *owner);

/* Nothing is held, no task is under way: see locks_are_idle(). NULL is fine. */
void locks_close(struct locks *locks);

/* Hears what the workers have to say, looks at what is due, begins tasks. When to call
 * it again, at the latest. */
uint64_t locks_attend(struct locks *locks);

/* Orders were put into the queue, taken out of it, or are decided. */
void locks_update(struct locks *locks, struct queue *queue);

/* The lock is not ours any more, or will not be for long: give it back. */
void locks_leave(struct locks *locks, struct queue *queue);

/* Whether the lock server did not answer the last time. */
bool locks_are_away(const struct locks *locks);

/* From now on what is held is given back, tried once, and nothing is taken. */
void locks_stop(struct locks *locks);

/* Nothing is held, and no task is under way. */
bool locks_are_idle(const struct locks *locks);

#endif
