/*
 * What a test of the order path sees and does at the steps of the store and of
 * the locks: it counts them, stops threads in front of them, makes them fail.
 * Races are made in this way, and not by luck.
 *
 * A step has a name ("commit", "place", "eval-acquire") and a product, which is
 * 0 for a step of no product. A product of 0 in a call below means any. Every
 * command to the lock server is a step "command" as well. Waiting in vain ends
 * the test program after a time that no test needs.
 */
#ifndef ORDER_WATCH_H
#define ORDER_WATCH_H

#include <pthread.h>
#include <time.h>

#include "db/store.h"
#include "lock/dlock.h"

struct order_watch;
struct order_rig; /* an instance: it has a watch */

/* GOES_WRONG says of each step whether it fails; may be NULL. */
struct order_watch *order_watch_new(bool (*goes_wrong)(void));
void order_watch_free(struct order_watch *watch);

/* The two hooks. Their CTX is the watch. */
enum store_verdict order_watch_store(void *watch,
                                     const struct store_step *step);
enum dlock_verdict order_watch_lock(void *watch, const struct dlock_step *step);

/* From now on threads stop before that step, until _let_go, which ends all
 * holds. */
void order_watch_hold(struct order_rig *rig, const char *step,
                      int64_t product_id);
void order_watch_let_go(struct order_rig *rig);

/* Waits until a thread has been stopped since the last _let_go. */
void order_watch_await_held(struct order_rig *rig);

/* The step fails the next time: it is not done (before), or it is done and its
 * answer is lost (after). */
void order_watch_fail(struct order_rig *rig, const char *step,
                      enum store_phase phase);

/* How often a step was begun, or has ended; waits until it was begun once. */
unsigned order_watch_count(struct order_rig *rig, const char *step,
                           int64_t product_id, enum store_phase phase);
void order_watch_await_begun(struct order_rig *rig, const char *step,
                             int64_t product_id);

/* When a step was begun, or has ended, for the last time: numbers that rise with
 * each step of any kind. 0 = never. */
unsigned order_watch_last(struct order_rig *rig, const char *step,
                          enum store_phase phase);

/* Waits for CHANGED; UNTIL is what _patience said before. */
struct timespec order_watch_patience(void);
void order_watch_wait(pthread_cond_t *changed, pthread_mutex_t *mutex,
                      const struct timespec *until, const char *what);

#endif
