/*
 * The warmer: the thread that keeps the copy, the database and the keys
 * together. Private to server/warm.
 *
 * Only the warmer changes which products are held, their epochs and how many
 * cells they have: those it may look at without the mutex. What is in the cells,
 * and the chores, others change as well, when they take, settle (a "short"
 * corrects what is left) or ask for something. So to look at that, and to change
 * anything, all need the mutex.
 */
#ifndef WARM_WARMER_H
#define WARM_WARMER_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/app.h"
#include "server/warm/copy.h"
#include "server/warm/keys.h"

#define WARMER_MOVED_MAX 256
#define WARMER_BATCH_MAX 1024
#define WARMER_PAGE      64 /* products read at a time */

/* Somebody waits for a product to be warmed up. On his stack. */
struct warmer_request {
    int64_t product_id;
    struct store_cells *cells;
    struct store_error *error;
    bool in_redis;
    enum store_status status;
    bool done;
    struct warmer_request *next;
};

struct warm {
    const struct app *app;
    struct warm_options options;
    pthread_t thread;

    pthread_mutex_t mutex; /* guards the next part */
    pthread_cond_t stir;   /* there is something to do, or it ends */
    pthread_cond_t done;   /* a request is */
    struct copy copy;
    uint64_t random;
    int64_t moved[WARMER_MOVED_MAX]; /* products that are not held */
    size_t moved_n;
    struct warmer_request *requests;
    bool moved_more; /* than there was room for */
    bool stirred;    /* something was sold: soon */
    bool urgent;     /* now */
    bool closing;
    uint64_t closing_ms; /* since when */

    atomic_bool choosy; /* for all: there are products with segments */

    /* The warmer's own. */
    bool in_reach; /* Redis, when the pass began */
    bool database_away;
    bool sweep_in_haste;
    struct store_reader *reader;
    struct keys *keys;   /* NULL = there are none */
    uint64_t moved_ms;   /* when those were looked at last */
    uint64_t watch_ms;   /* when a look at other instances is due */
    uint64_t sweep_ms;   /* when the next page is due */
    uint64_t haste_ms;   /* when all pages were wanted at once last */
    int64_t sweep_after; /* the last product of the page before */
    struct keys_command batch[WARMER_BATCH_MAX];
    size_t batch_n;
};

/* ---- warmer.c: what is due ------------------------------------------------ */

/* Fills the copy. False, and a log line, if the database cannot be read. */
bool warmer_load(struct warm *warm);

/* Does what is due; returns when it has to be called again at the latest. */
uint64_t warmer_pass(struct warm *warm, uint64_t now_ms);

/* ---- recount.c: from the database to copy and keys ------------------------ */

/* What the database says is said once when it goes away, and when it is back. */
enum store_status recount_heard(struct warm *warm, enum store_status status,
                                const struct store_error *error);

/*
 * Counts a product's units for the copy only, under the epoch there is; if it
 * has segments or is held already. *CELLS is filled in any case.
 */
enum store_status recount_copy(struct warm *warm, int64_t product_id,
                               struct store_cells *cells,
                               struct store_error *error);

/* Counts anew under an epoch of our own, for the keys as well. *WRITTEN: they
 * are right now. */
enum store_status recount_renew(struct warm *warm, int64_t product_id,
                                struct store_cells *cells, bool *written,
                                struct store_error *error);

/* Takes over what another instance has counted. False: there is no such count,
 * or nobody can be asked. */
bool recount_adopt(struct warm *warm, int64_t product_id);

/* ---- tell.c: from the copy to the keys, and back -------------------------- */

/* Tells what has sold, and hears what is left; looks where it is to. True: some
 * product is asked for, and has to be looked at again soon. At the end it only
 * tells, and not for long. */
bool tell_all(struct warm *warm, uint64_t now_ms);

/* One more command for the keys; run with others. */
void tell_later(struct warm *warm, const struct keys_command *command);

/* The key of a product with one segment. */
void tell_single(struct warm *warm, int64_t product_id, int64_t epoch,
                 int64_t units);

/* Runs what there is, and puts the answers into the copy. */
void tell_now(struct warm *warm);

/* ---- sweep.c: what nobody tells us ---------------------------------------- */

/* If it is due, or ALL is wanted: who else has resized what, or put it on sale.
 * ALL is wanted again if the database cannot be read. */
void sweep_watch(struct warm *warm, uint64_t now_ms, bool all);

/*
 * If it is due, the next page of all products: writes the keys of those with one
 * segment, and has those of others looked at.
 */
void sweep_page(struct warm *warm, uint64_t now_ms);

/* Redis has lost its data, or may have: all pages at once, from the first. Not
 * again and again, if it goes on to lose them. */
void sweep_soon(struct warm *warm);

/* When the next page or look is due, or Redis is to be tried again. */
uint64_t sweep_due_ms(const struct warm *warm);

#endif
