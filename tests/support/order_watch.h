/*
 * What a test of the order path sees and does at the steps of the store and of
 * the locks: it counts them, stops threads in front of them, makes them fail.
 * Races are made in this way, and not by luck.
 *
 * A step has a name ("commit", "place", "eval-acquire") and a product, which is
 * 0 for a step of no product. A product of 0 in a call below means any. Waiting
 * in vain ends the test program after a time that no test needs.
 */
#ifndef ORDER_WATCH_H
#define ORDER_WATCH_H

#include "db/store.h"
#include "lock/dlock.h"

struct order_watch;

struct order_watch *order_watch_new(void);
void order_watch_free(struct order_watch *watch);

/* The two hooks. Their CTX is the watch. */
enum store_verdict order_watch_store(void *watch, const char *step,
                                     int64_t product_id,
                                     enum store_phase phase);
enum dlock_verdict order_watch_lock(void *watch, const struct dlock_step *step);

/* From now on threads stop before that step, until _let_go. */
void order_watch_hold(struct order_watch *watch, const char *step,
                      int64_t product_id);

/* Waits until so many threads have been stopped since the last _let_go. */
void order_watch_await_held(struct order_watch *watch, unsigned n);

/* Ends all holds. */
void order_watch_let_go(struct order_watch *watch);

/* The next N times the step fails: it is not done (before), or it is done and
 * its answer is lost (after). */
void order_watch_fail(struct order_watch *watch, const char *step,
                      int64_t product_id, unsigned n);
void order_watch_fail_after(struct order_watch *watch, const char *step,
                            int64_t product_id, unsigned n);

/* No step fails any more. */
void order_watch_mend(struct order_watch *watch);

/* How often a step was begun, and has ended. STEP may be NULL: all of them. */
unsigned order_watch_begun(struct order_watch *watch, const char *step,
                           int64_t product_id);
unsigned order_watch_ended(struct order_watch *watch, const char *step,
                           int64_t product_id);

/* How many commands were sent about the locks of a product. */
unsigned order_watch_commands(struct order_watch *watch, int64_t product_id);

/* Waits until it was begun N times. */
void order_watch_await_begun(struct order_watch *watch, const char *step,
                             int64_t product_id, unsigned n);

#endif
