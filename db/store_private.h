/*
 * For the files of the store. store.c opens and closes, store_write.c
 * has the verbs that write, committer.c the thread, batch.c the transaction,
 * ledger/ what is done in it.
 */
#ifndef STORE_PRIVATE_H
#define STORE_PRIVATE_H

#include <pthread.h>

#include "db/ledger/place.h"
#include "db/soldout.h"
#include "db/sql.h"
#include "db/store_async.h"

/* The step hook; store.h says what it is for. */
struct step {
    store_step_hook *hook; /* NULL = none */
    void *ctx;
};

static inline enum store_verdict step_begin(struct step step, const char *name,
                                            int64_t product_id)
{
    if (!step.hook)
        return STORE_GO;
    return step.hook(step.ctx, &(struct store_step){.name = name,
                                                    .product_id = product_id,
                                                    .phase = STORE_BEFORE});
}

static inline enum store_verdict step_end(struct step step, const char *name,
                                          int64_t product_id, const char *reply)
{
    if (!step.hook)
        return STORE_GO;
    return step.hook(step.ctx, &(struct store_step){.name = name,
                                                    .product_id = product_id,
                                                    .phase = STORE_AFTER,
                                                    .reply = reply});
}

/* committer.c's own. */
struct committer {
    pthread_t thread;

    /* The thread's own: */
    const char *lost; /* what was not there once, or NULL */
    bool asking;      /* this pass asks the source; changed under the mutex */
    bool again;       /* the source is to be asked, woken or not */
    uint64_t due_us;  /* and then at the latest */

    atomic_bool woken, asleep; /* the source; the thread, or it is about to */

    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t wanted; /* there is work, or it closes */
    pthread_cond_t passed; /* a pass is over */
    struct store_write *head, **tail;
    struct store_source source;
    bool attached;
    bool closing;
};

struct store {
    char *where;
    struct sql_options writer; /* how the committer opens the database */
    atomic_bool hurry;         /* store_end_waits() was called */
    atomic_uint_fast64_t retries;
    struct lockfile *lockfile; /* NULL: the database is on a server */
    struct step step;
    void (*on_failure)(void *ctx, enum store_status status,
                       const struct store_error *error); /* NULL = none */
    void *on_failure_ctx;
    struct soldout soldout;
    struct committer committer;

    /* The committer's thread's own, once that runs: */
    struct sql *db; /* NULL: to be opened anew */
    struct place place;
};

struct store_reader {
    struct sql *db;
    struct step step;
};

/* How a verb of a reader ends: the text of a failure is the connection's. */
static inline enum store_status read_end(struct store_reader *reader,
                                         enum store_status status,
                                         struct store_error *error)
{
    if (status != STORE_OK && error)
        *error = *sql_error(reader->db);
    return status;
}

typedef enum store_status write_run(struct store *store,
                                    struct store_write *write);

/*
 * For a verb that is a step of its caller: RUN is run in the committer's
 * transaction, and waited for, unless the step hook stops it here.
 */
enum store_status write_step(struct store *store, struct store_write *write,
                             write_run *run, const char *step,
                             int64_t product_id, struct store_error *error);

/*
 * Starts the thread. From now on STORE->db, and all else that the struct says,
 * is the thread's own until committer_close().
 */
enum store_status committer_open(struct store *store,
                                 struct store_error *error);

/* Hands a write in, whose run() and done() are set; when the store is closing
 * done() is called here. From any thread. */
void committer_submit(struct store *store, struct store_write *write);

/* Runs what waits, on the committer's thread: writes, and orders of the source if
 * it has some. Answers them. */
void batch_run(struct store *store, bool with_orders);

/* The connection's hook on_wait, which is called while a connection waits for another
 * process. */
void committer_on_wait(void *store);

/* Refuses new writes, finishes those handed in, ends the thread. */
void committer_close(struct store *store);

#endif
