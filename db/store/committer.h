/*
 * The store itself, and its thread. store.c opens and closes, store_write.c
 * and store_naive.c have the verbs that write, committer.c the thread and its
 * transactions, db/ledger/ the work in them.
 */
#ifndef STORE_COMMITTER_H
#define STORE_COMMITTER_H

#include <pthread.h>

#include "db/ledger/ledger.h"
#include "db/soldout.h"
#include "db/store_async.h"

/* committer.c's own. */
struct committer {
    pthread_t thread;

    /* The thread's own: */
    const char *lost; /* what was not there once, or NULL */
    bool asking;      /* this pass asks the source; changed under the mutex */
    bool again;       /* the source is to be asked, woken or not */
    uint64_t due_us;  /* and then at the latest */
    uint64_t look_us; /* when to look for holds that have run out */
    struct store_write expiry;

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
    struct store_options options;
    char where[SQL_WHERE_BYTES]; /* the database */
    struct sql_options writer;   /* how the committer opens the database */
    atomic_bool hurry;           /* store_end_waits() was called */
    atomic_uint_fast64_t retries, expired;
    uint64_t look_every_us; /* UINT64_MAX: only while it knows of holds */
    struct step step;
    struct lockfile *lockfile; /* NULL: the database is on a server */
    struct soldout soldout;
    struct committer committer;

    /* The committer's thread's own, once that runs: */
    struct sql *db; /* NULL: to be opened anew */
    struct place place;
};

typedef enum store_status write_run(struct store *store,
                                    struct store_write *write);

/* For a verb that is a step of its caller: RUN is run in the committer's transaction,
 * with WHAT in its write, and waited for, unless the step hook stops it here. */
enum store_status write_step(struct store *store, write_run *run, void *what,
                             const char *step, int64_t product_id,
                             struct store_error *error);

/* Starts the thread. From now on STORE->db, and all else that the struct says, is the
 * thread's own until committer_close(). */
enum store_status committer_open(struct store *store,
                                 struct store_error *error);

/* Hands a write in, whose run() and done() are set; when the store is closing
 * done() is called here. From any thread. */
void committer_submit(struct store *store, struct store_write *write);

/* The connection's hook on_wait, which is called while a connection waits for another
 * process. */
void committer_on_wait(void *store);

/* Refuses new writes, finishes those handed in, ends the thread. */
void committer_close(struct store *store);

#endif
