/*
 * A desk over a fresh store, and what tests of it need: tickets that say when
 * they are answered, a commit that can be held up. Failures to set up abort.
 */
#ifndef DESK_RIG_H
#define DESK_RIG_H

#include <pthread.h>
#include <stdatomic.h>

#include "lock/dlock.h"
#include "server/app.h"
#include "server/config.h"
#include "server/order/desk.h"
#include "server/order/lane.h"
#include "tests/support/temp_dir.h"

#define DESK_RIG_TICKETS 200

struct desk_rig {
    struct temp_dir dir;
    const struct desk_rig *host; /* whose database it has; NULL = its own */
    struct config config;
    struct app app;
    atomic_int commits;
    atomic_int answered;
    atomic_bool hold;       /* the next commit waits until this is false */
    atomic_int reads;       /* keys that were looked up */
    atomic_int scans;       /* looks at all cells */
    atomic_bool hold_reads; /* the next such read waits until this is false */
    unsigned read_ms;       /* and takes so long */
    int64_t held_product;   /* see _hold_product; with the mutex */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct ticket tickets[DESK_RIG_TICKETS];
};

/*
 * With CONFIG, of which what is zero gets a default, the lock server at URL
 * (NULL = nowhere) and product 1, of which there are STOCK. ON_STEP of the locks
 * may be NULL. To be freed with _free.
 */
struct desk_rig *desk_rig_new(const struct config *config, const char *url,
                              int64_t stock, dlock_step_hook *on_step,
                              void *on_step_ctx);
void desk_rig_free(struct desk_rig *rig);

/* Another instance over the database of HOST, which has to be shared, and is
 * freed later. Its CONFIG is HOST's. */
struct desk_rig *desk_rig_beside(const struct desk_rig *host, const char *url);

/* Hands in ticket I, an order of user I + 1. */
bool desk_rig_submit(struct desk_rig *rig, int i);

/* Hands in N tickets at once, from the Ith on. How many were not taken. */
int desk_rig_submit_all(struct desk_rig *rig, int i, int n);

/* The same for another product than 1, which was put on sale before. */
void desk_rig_put(struct desk_rig *rig, int64_t product_id, int64_t stock);
bool desk_rig_submit_other(struct desk_rig *rig, int i, int64_t product_id);

/* Product 1 is split over SEGMENTS; returns when the desk knows of it. */
void desk_rig_split(struct desk_rig *rig, int64_t segments);

/* The same as _submit, of so many units of product 1. */
bool desk_rig_submit_units(struct desk_rig *rig, int i, int64_t units);

/* And with an idempotency key. */
bool desk_rig_submit_key(struct desk_rig *rig, int i, int64_t units,
                         const char *key);

/* Waits until N tickets were answered in all; until a commit has begun. */
void desk_rig_wait_answered(struct desk_rig *rig, int n);
void desk_rig_wait_commit(struct desk_rig *rig);

/* Waits until there is that lane, and it is as IS, under the mutex, says. */
void desk_rig_await_lane(struct desk_rig *rig, int64_t product_id,
                         int64_t segment, bool (*is)(const struct lane *lane));

/* Waits until a key is about to be looked up. */
void desk_rig_wait_read(struct desk_rig *rig);

/* Lets the commit go on that `hold` holds up, or the read of `hold_reads`. */
void desk_rig_let_go(struct desk_rig *rig);

/* From now on it is orders of this product that the store does not get to place;
 * 0 = of none. */
void desk_rig_hold_product(struct desk_rig *rig, int64_t product_id);

/* How many of the tickets ended with OUTCOME. */
int desk_rig_count(const struct desk_rig *rig, enum order_outcome outcome);

/* The ledger is sound and says that so many units of product 1 are sold. */
void desk_rig_expect_sold(struct desk_rig *rig, int64_t units);

/* A number of the metrics, such as "stockade_order_probes_sum". */
double desk_rig_metric(const struct desk_rig *rig, const char *name);

#endif
