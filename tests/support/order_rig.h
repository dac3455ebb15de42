/*
 * One instance of the order path, as a customer meets it: orders go in, each is
 * answered. A test that uses this knows what is promised and nothing of how it
 * is kept; all that a redesign may change stands in order_rig.c.
 *
 * A test program of it has
 *     if (argc > 1) order_rig_child_main(argc, argv);
 * as its first statement, _group_setup and _group_teardown of the group, and
 * _setup and _teardown around each test. Instances that a failed test leaves
 * open are closed by _teardown.
 *
 * Waiting in vain ends the test program after a time that no test needs.
 */
#ifndef ORDER_RIG_H
#define ORDER_RIG_H

#include <stdatomic.h>

#include "db/store.h"
#include "lock/dlock.h"
#include "server/order/order.h"
#include "tests/support/order_watch.h"
#include "tests/support/redis_server.h"
#include "tests/support/server_proc.h"

/* ---- what is promised ------------------------------------------------------ */

/* Promises that not every version of the order path makes. */
enum order_rig_promise {
    PROMISE_REPLAY_ALWAYS,  /* a key that is known is never told "not now" */
    PROMISE_UNKNOWN_UNSENT, /* no such product: Redis hears nothing of it */
    PROMISE_NONE_STARVES,   /* 1000 locks that are taken delay no other */
    PROMISE_FLUSH_UNSEEN,   /* no customer notices that Redis forgot all */
    PROMISE_SHORT_LEASE,    /* a dead holder is waited for 3 s, not 10 */
    PROMISE_UNTRIED_IS_NO, /* a store that was not tried: nothing was ordered */
    PROMISE_N
};

/* Skips the test, and says why, if the version under test does not promise it.
 * STOCKADE_PROMISES=all in the environment: it is tried all the same. */
void order_rig_need(enum order_rig_promise promise);

/* A holder that died is got rid of after that. */
uint64_t order_rig_lease_ms(void);

/* ---- an instance ----------------------------------------------------------- */

struct order_rig;

struct order_rig_options {
    const char *lock; /* NULL = "fenced" */
    bool shared;
    bool one_by_one;
    int64_t lock_wait_ms;  /* 0 = 5000 */
    int64_t lock_lease_ms; /* 0 = renewed */
    int64_t queue_max;     /* 0 = 100,000 */
    int64_t workers;       /* 0 = 8 */
    int64_t think_ms;
    unsigned busy_ms;               /* of the store; 0 = its default */
    const struct order_rig *beside; /* whose database it has; NULL = its own */
    const char *db_url;             /* the same for a child process */
    const char *redis_url;          /* NULL = the group's server */
};

/* OPTIONS may be NULL: all zero. */
struct order_rig *order_rig_open(const struct order_rig_options *options);

/* Closes as the service does, and fails if any order was not answered exactly
 * once. One that was opened beside is closed first. */
void order_rig_close(struct order_rig *rig);

/* Stops as the service does, and returns how long that took. */
uint64_t order_rig_stop(struct order_rig *rig);

/* Sees the store's steps and the locks', and "answer": an order of that product
 * is about to be answered. */
struct order_watch *order_rig_watch(struct order_rig *rig);
struct store *order_rig_store(struct order_rig *rig);
const char *order_rig_db(const struct order_rig *rig); /* the file's path */
size_t order_rig_depth(const struct order_rig *rig);

/* ---- orders ---------------------------------------------------------------- */

/* Stays until the instance is closed. The answer is set once. */
struct rig_order {
    int64_t product_id, user_id, quantity;
    char key[STORE_KEY_BYTES_MAX + 1];

    atomic_int answers;         /* how often it was answered */
    enum order_outcome outcome; /* ORDER_OUTCOME_N = not yet */
    char id[STORE_ID_BYTES_MAX + 1];
    char detail[200];
    int64_t number;       /* rises in the order of placing */
    unsigned transaction; /* commits that had ended when it was answered */
    uint64_t asked_us, answered_us;
};

/* Hands an order in; KEY "" = none. From any thread. */
struct rig_order *order_rig_submit(struct order_rig *rig, int64_t product_id,
                                   int64_t user_id, int64_t quantity,
                                   const char *key);

/* The same in two steps: many are handed in at once. */
struct rig_order *order_rig_make(struct order_rig *rig, int64_t product_id,
                                 int64_t user_id, int64_t quantity,
                                 const char *key);
void order_rig_hand_in(struct order_rig *rig, struct rig_order *const orders[],
                       size_t n);

/* Waits for its answer. */
enum order_outcome order_rig_await(struct order_rig *rig,
                                   const struct rig_order *order);

/* Hands in and waits. */
enum order_outcome order_rig_buy(struct order_rig *rig, int64_t product_id,
                                 int64_t user_id, int64_t quantity,
                                 const char *key);

/* Whether it was answered by now; how long that took. */
bool order_rig_is_answered(struct order_rig *rig,
                           const struct rig_order *order);
uint64_t order_rig_took_ms(const struct rig_order *order);

/* Of all orders of a product (0 = of all): answered ones; those that ended so;
 * units of those that were placed. */
unsigned order_rig_answered(struct order_rig *rig);
void order_rig_await_answered(struct order_rig *rig, unsigned n);
unsigned order_rig_count(struct order_rig *rig, int64_t product_id,
                         enum order_outcome outcome);
int64_t order_rig_units(struct order_rig *rig, int64_t product_id);

/* "Not now", in any of its forms: nothing was decided. */
bool order_rig_is_not_now(enum order_outcome outcome);

/* Whether the answer says that it is certain that nothing was ordered. */
bool order_rig_says_nothing_ordered(const struct rig_order *order);

/* Fails if an order was not answered exactly once, or if the ledger does not
 * balance or has other than UNITS sold of the product, or lacks an order that
 * this instance placed. */
void order_rig_expect_ledger(struct order_rig *rig, int64_t product_id,
                             int64_t units);
void order_rig_expect_outcome(const struct rig_order *order,
                              enum order_outcome outcome);

/* ---- products -------------------------------------------------------------- */

/* SEGMENTS 0 = 1. */
void order_rig_put(struct order_rig *rig, int64_t product_id, int64_t stock,
                   int64_t segments);
void order_rig_put_product(struct order_rig *rig,
                           const struct store_product *product);
void order_rig_resize(struct order_rig *rig, int64_t product_id,
                      int64_t segments);
void order_rig_restock(struct order_rig *rig, int64_t product_id,
                       int64_t quantity);
struct store_product order_rig_product(struct order_rig *rig,
                                       int64_t product_id);

/* Whether this cancel was the one that returned the units. From any thread. */
bool order_rig_cancel(struct order_rig *rig, const char *id);

/* What is stored under a key. */
enum store_status order_rig_find_key(struct order_rig *rig, const char *key,
                                     struct store_order *order);

/* ---- the world around ------------------------------------------------------ */

int order_rig_group_setup(void **state);
int order_rig_group_teardown(void **state);
int order_rig_setup(void **state);
int order_rig_teardown(void **state);

/* The group's server: before each test it is up, and empty. */
struct redis_server *order_rig_redis(void);

/*
 * Another process, this program again, which does as ROLE says; returns when it
 * does. It is killed at the end of the test at the latest.
 *   sell DB REDIS PRODUCT  an instance beside, which sells all the time
 *   keep-database FILE     keeps the database for itself: BEGIN EXCLUSIVE
 */
struct server_proc *order_rig_child(const char *role, const char *const words[],
                                    size_t n);
void order_rig_child_main(int argc, char *argv[]);

/* Locks of others. Takes the locks of N products from FIRST on, of segment 0,
 * and does not give them back before _foreign_close. */
struct order_foreign;
struct order_foreign *order_foreign_open(int64_t first, int64_t n);
struct order_foreign *order_foreign_open_for(int64_t first, int64_t n,
                                             unsigned lease_ms);
void order_foreign_close(struct order_foreign *foreign);

/* Whether somebody holds a lock. */
bool order_rig_lock_is_held(int64_t product_id, int64_t segment);

/* Waits until nobody does. */
void order_rig_await_lock_free(int64_t product_id, int64_t segment);

/* Calls BODY in N threads at once, and returns when all have ended. */
void order_rig_in_threads(size_t n, void (*body)(void *ctx, size_t i),
                          void *ctx);

uint64_t order_rig_now_ms(void);

/* How much slower it is under a sanitizer: for bounds. */
uint64_t order_rig_slow(void);

#endif
