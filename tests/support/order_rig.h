/*
 * One instance of the order path, as a customer meets it: orders go in, each is
 * answered. A test that uses this knows what is promised and nothing of how it
 * is kept; all that a redesign may change stands in order_rig.c.
 *
 * A test is of the instance that ORDER_RIG_TEST describes, which is closed when the test
 * has ended, as the service does it; the test fails if any order was not answered
 * exactly once.
 *
 * Waiting in vain ends the test program after a time that no test needs.
 */
#ifndef ORDER_RIG_H
#define ORDER_RIG_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "db/store.h"
#include "lock/dlock.h"
#include "lock/dlock_inspect.h"
#include "server/base/clock.h"
#include "server/order/order.h"
#include "tests/support/redis_server.h"
#include "tests/support/server_proc.h"
#include "tests/support/step_log.h"
#include "tests/support/unit_test.h"

/* ---- an instance ----------------------------------------------------------- */

struct order_rig_options {
    int64_t stock[3], segments[3]; /* of products 1 to 3; stock 0 = none */
    bool shared;
    bool one_by_one;
    bool naive; /* --deduct naive: reads the stock, and writes it then */
    int64_t lock_wait_ms;  /* 0 = 5000 */
    int64_t lock_lease_ms; /* 0 = renewed */
    int64_t queue_max;     /* 0 = 100,000 */
    int64_t think_ms;
    int64_t deadline_ms; /* of requests; 0 = 120000 */
    unsigned busy_ms;    /* of the store; 0 = its default */
};

/* The head of a test of RIG, the instance that has these options, which the test's name
 * shows; and of one that is run twice, with orders in batches and one by one. */
#define ORDER_RIG_TEST(test, ...)                                              \
    UNIT_TEST_HEAD(struct order_rig *rig, test)                                \
    ORDER_RIG_ADD(test, batched, __VA_ARGS__)                                  \
    static void test(struct order_rig *rig)
#define ORDER_RIG_BOTH(test, ...)                                              \
    UNIT_TEST_HEAD(struct order_rig *rig, test)                                \
    ORDER_RIG_ADD(test, batched, __VA_ARGS__)                                  \
    ORDER_RIG_ADD(test, singly, .one_by_one = true, __VA_ARGS__)               \
    static void test(struct order_rig *rig)
#define ORDER_RIG_ADD(test, way, ...)                                          \
    static struct order_rig_options test##_##way = {__VA_ARGS__};              \
    UNIT_TEST_ADD(add_##test##_##way, #test " (" #__VA_ARGS__ ")", test##_of,  \
                  order_rig_setup, order_rig_teardown, &test##_##way)

/* The test program. */
#define ORDER_RIG_MAIN                                                         \
    UNIT_TESTS_WITHIN(order_rig_group_setup, order_rig_group_teardown)

struct order_rig;

/* Stops as the service does, and returns how long that took. */
uint64_t order_rig_stop(struct order_rig *rig);

struct store *order_rig_store(struct order_rig *rig);
size_t order_rig_depth(const struct order_rig *rig);

/* ---- orders ---------------------------------------------------------------- */

/* Stays until the instance is closed. The answer is set once. */
struct rig_order {
    struct order path; /* this, and the links, are the rig's */
    struct order_rig *rig;
    struct rig_order *next;
    uint64_t asked_us;

    int64_t product_id, quantity;
    atomic_int answers;         /* how often it was answered */
    enum order_outcome outcome; /* ORDER_OUTCOME_N = not yet */
    char id[STORE_ID_BYTES_MAX + 1];
    char detail[200];
    int64_t number;       /* rises in the order of placing */
    unsigned transaction; /* commits that had ended when it was answered */
    uint64_t took_ms;
};

/* Hands an order in; KEY "" = none. From any thread. */
struct rig_order *order_rig_submit(struct order_rig *rig, int64_t product_id,
                                   int64_t user_id, int64_t quantity,
                                   const char *key);

/* N orders of one unit each, for products 1 to PRODUCTS in turn, of different
 * users. ORDERS may be NULL. */
void order_rig_submit_many(struct order_rig *rig, struct rig_order *orders[],
                           int n, int products);

/* In two steps: many are handed in at once. */
struct rig_order *order_rig_make(struct order_rig *rig, int64_t product_id,
                                 int64_t user_id, int64_t quantity,
                                 const char *key);
void order_rig_hand_in(struct order_rig *rig, struct rig_order *const orders[],
                       size_t n);

/* Waits for its answer. */
enum order_outcome order_rig_await(struct order_rig *rig,
                                   const struct rig_order *order);

/* Hands in and waits; and fails if the answer is another one. */
enum order_outcome order_rig_buy(struct order_rig *rig, int64_t product_id,
                                 int64_t user_id, int64_t quantity,
                                 const char *key);
struct rig_order *order_rig_expect(struct order_rig *rig, int64_t product_id,
                                   int64_t quantity, const char *key,
                                   enum order_outcome outcome);

/* Of all orders of a product (0 = of all): answered ones; those that ended so;
 * units of those that were placed. */
unsigned order_rig_answered(struct order_rig *rig);
void order_rig_await_answered(struct order_rig *rig, unsigned n);
unsigned order_rig_count(struct order_rig *rig, int64_t product_id,
                         enum order_outcome outcome);
int64_t order_rig_units(struct order_rig *rig, int64_t product_id);

/* Fails if the answer is another one; or does not say "not now" in any of its
 * forms, which means that nothing was decided, or came later than WITHIN_MS. */
void order_rig_expect_outcome(const struct rig_order *order,
                              enum order_outcome outcome);
void order_rig_expect_not_now(const struct rig_order *order,
                              uint64_t within_ms);

/* Fails if the ledger does not balance or has other than UNITS sold of the
 * product, or lacks an order that this instance placed. */
void order_rig_expect_ledger(struct order_rig *rig, int64_t product_id,
                             int64_t units);

/* ---- steps -------------------------------------------------------------------
 * A test of the order path looks, and acts, at the steps of the store and of
 * the locks: it counts them, stops threads in front of them, makes them fail.
 * Races are made in this way, and not by luck.
 *
 * A step's name is "commit", "place", "eval-acquire", or the like; its id is the
 * product, which is 0 for a step of no product. Every command to the lock server is a
 * step "command" as well, and each answer to an order is a step "answer". The log is
 * new for each test.
 */
extern struct step_log order_steps;

/* ---- products -------------------------------------------------------------- */

/* SEGMENTS 0 = 1. */
void order_rig_put(struct order_rig *rig, int64_t product_id, int64_t stock,
                   int64_t segments);
void order_rig_restock(struct order_rig *rig, int64_t product_id,
                       int64_t quantity);

/* What is stored under a key. */
enum store_status order_rig_find_key(struct order_rig *rig, const char *key,
                                     struct store_order *order);

/* ---- the world around ------------------------------------------------------ */

/* For the macros above. */
int order_rig_group_setup(void **state);
int order_rig_group_teardown(void **state);
int order_rig_setup(void **state);
int order_rig_teardown(void **state);
const char *order_rig_url(const struct order_rig *rig);

/* The line of /metrics that begins with stockade_NAME. */
unsigned long order_rig_metric(const struct order_rig *rig, const char *name);

/* The group's server: before each test it is up, and empty. */
struct redis_server *order_rig_redis(void);
void order_rig_world_reset(void);

/* Another process, which runs SQL on RIG's database, and then stays as it is; returns
 * when it has. It is killed at the end of the test at the latest. The first keeps the
 * database for itself, the second lets nobody commit; the third announces a later token
 * for each lock that has one. */
#define ORDER_RIG_KEEP     "BEGIN EXCLUSIVE"
#define ORDER_RIG_READ     "BEGIN; SELECT COUNT(*) FROM products"
#define ORDER_RIG_OVERTAKE "UPDATE fences SET token = token + 1000000"
struct server_proc *order_rig_child(const struct order_rig *rig,
                                    const char *sql);

/* Locks of others. Takes the locks of N products from FIRST on, of segment 0,
 * and does not give them back before _foreign_close. */
struct order_foreign;
struct order_foreign *order_foreign_open(int64_t first, int64_t n,
                                         unsigned lease_ms);
void order_foreign_close(struct order_foreign *foreign);

struct dlock_holder order_rig_holder(int64_t product_id, int64_t segment);
bool order_rig_lock_is_held(int64_t product_id, int64_t segment);

/* How much slower it is under a sanitizer: for bounds. */
uint64_t order_rig_slow(void);

#endif
