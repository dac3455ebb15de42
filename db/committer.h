/*
 * The committer: the one thread, with the one connection, that writes.
 *
 * Every thread hands in jobs. The committer takes all that wait, runs them in
 * one transaction, several each in a savepoint of its own, commits once and
 * then answers them all: the price of one fsync is shared by all who wait for
 * it, and the busier it gets the more they are (group commit). It waits for
 * nobody to make a batch larger: while it commits, the next batch gathers by
 * itself.
 *
 * What a job's status means
 * -------------------------
 *   STORE_OK          the job's run() said so and the commit is on disk
 *   a "no"            run() said so; what it did was rolled back
 *   STORE_BUSY, STORE_NO_SPACE, STORE_IO
 *                     if BEGIN or COMMIT failed, the same for every job of the
 *                     batch. Nothing of it is kept, but for STORE_IO of a
 *                     COMMIT: then nobody knows, all of it may be on disk
 * run() runs once at most; a failed batch is not tried again, for those who
 * wait have waited long enough, and ask again if they still care.
 */
#ifndef STORE_COMMITTER_H
#define STORE_COMMITTER_H

#include "db/sqlite.h"
#include "db/step.h"

#define COMMITTER_QUEUE_MAX 4096

struct committer;

/* A job's work. Changes are kept if it returns STORE_OK and undone if not. */
typedef enum store_status committer_work(struct sqlite *db, void *ctx,
                                         struct store_error *error);

/* One write. The caller fills in run, done and ctx and keeps it till done(). */
struct committer_job {
    committer_work *run;
    /* Called once, on the committer's thread; must not block. */
    void (*done)(struct committer_job *job);
    void *ctx;

    enum store_status status;
    struct store_error error;
    struct committer_job *next;
};

/*
 * Starts the thread. It takes DB over when that worked, closes it at the end,
 * and after an I/O error opens it anew with OPTIONS, whose path is borrowed
 * until committer_close.
 */
enum store_status committer_open(struct sqlite *db,
                                 const struct sqlite_options *options,
                                 const struct step *step,
                                 struct committer **committer,
                                 struct store_error *error);

/*
 * Hands a job in; waits while the queue is full. False: closing, and done()
 * will not be called.
 */
bool committer_submit(struct committer *committer, struct committer_job *job);

/* Hands a job in and waits for its end. STORE_CLOSED if closing. */
enum store_status committer_do(struct committer *committer, committer_work *run,
                               void *ctx, struct store_error *error);

/* Refuses new jobs, finishes those handed in, ends the thread. NULL is fine. */
void committer_close(struct committer *committer);

#endif
