/*
 * SQLite behind a thin wall: sqlite.c and wal.c alone see <sqlite3.h>.
 *
 * What is left of it on this side is a connection, statements found by their
 * text, and our own status codes. A backend for a client/server database
 * would offer these same calls.
 *
 * Statements
 * ----------
 *     struct sqlite_query *query = sqlite_query(db, "SELECT ... = ?1");
 *     sqlite_bind(query, product_id);
 *     if (sqlite_next(query))
 *         stock = sqlite_int(query, 0);
 *     status = sqlite_end(query, error);
 *
 * Failures are sticky: after one the calls in between do nothing, sqlite_next
 * says false, and sqlite_end alone is to be checked. It must always be called:
 * until then the statement holds its locks. The text must be a literal, or
 * live as long: the compiled statement is found again by its address.
 */
#ifndef STORE_SQLITE_H
#define STORE_SQLITE_H

#include <stdatomic.h>

#include "db/store.h"

struct sqlite;
struct sqlite_query;

enum sqlite_role {
    SQLITE_ROLE_WRITER, /* creates the file, writes, checkpoints */
    SQLITE_ROLE_READER, /* cannot write */
    /*
     * Reads, and may roll back what a process that died in its commit has left
     * in the rollback journal; a strictly read-only connection would be stuck
     * before it. Otherwise it writes nothing either.
     */
    SQLITE_ROLE_RESCUER,
};

struct sqlite_options {
    const char *path;
    enum sqlite_role role;
    bool shared;              /* writer: rollback journal instead of the WAL */
    unsigned busy_ms;         /* longest wait for another process's lock */
    const atomic_bool *hurry; /* no such wait while it is true; NULL = never */
};

enum store_status sqlite_open(const struct sqlite_options *options,
                              struct sqlite **db, struct store_error *error);

/* NULL is fine. */
void sqlite_close(struct sqlite *db);

/* ---- statements: see above ---------------------------------------------- */

struct sqlite_query *sqlite_query(struct sqlite *db, const char *sql);

/* Binds integers to ?1, ?2, ... */
#define sqlite_bind(query, ...)                                                \
    sqlite_bind_ints((query), 1, (const int64_t[]){__VA_ARGS__},               \
                     sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

/* Binds N integers to ?AT and those that follow. */
void sqlite_bind_ints(struct sqlite_query *query, int at,
                      const int64_t values[], size_t n);

/* Binds a text to ?AT, "" as NULL. It is borrowed until sqlite_end. */
void sqlite_bind_text(struct sqlite_query *query, int at, const char *text);

/* Steps to the next row: true if there is one. */
bool sqlite_next(struct sqlite_query *query);

int64_t sqlite_int(const struct sqlite_query *query, int column);

/* NULL becomes "". Cut to fit, which the schema's own data never needs. */
void sqlite_text(const struct sqlite_query *query, int column, char *text,
                 size_t size);

enum store_status sqlite_end(struct sqlite_query *query,
                             struct store_error *error);

/* Runs a statement to its end; *changed says how many rows it changed. */
enum store_status sqlite_end_changes(struct sqlite_query *query,
                                     int64_t *changed,
                                     struct store_error *error);

/* Runs one statement that needs no values and gives none. */
static inline enum store_status sqlite_run(struct sqlite *db, const char *sql,
                                           struct store_error *error)
{
    int64_t changed;

    return sqlite_end_changes(sqlite_query(db, sql), &changed, error);
}

/* One integer: the first column of the first row, 0 if there is none. */
static inline enum store_status sqlite_number(struct sqlite *db,
                                              const char *sql, int64_t *number,
                                              struct store_error *error)
{
    struct sqlite_query *query = sqlite_query(db, sql);

    *number = sqlite_next(query) ? sqlite_int(query, 0) : 0;
    return sqlite_end(query, error);
}

/* Runs many statements at once, uncached: the schema. */
enum store_status sqlite_script(struct sqlite *db, const char *sql,
                                struct store_error *error);

int64_t sqlite_last_rowid(const struct sqlite *db);

/* Rows changed since the connection was opened, kept or not. */
int64_t sqlite_changes(const struct sqlite *db);

/*
 * How a connection knows its database. If two are equal, both taken inside of
 * transactions, and nothing was rolled back in between, it is the same: nobody
 * has changed a row. (What SQLite does not count as a change, rows that REPLACE
 * removes and changes of the schema, is not done while a store is open.)
 */
struct sqlite_state {
    int64_t connection; /* which */
    int64_t others;     /* another one after others have changed something */
    int64_t own;        /* sqlite_changes() */
};

enum store_status sqlite_state(struct sqlite *db, struct sqlite_state *state,
                               struct store_error *error);

static inline bool sqlite_state_equal(const struct sqlite_state *a,
                                      const struct sqlite_state *b)
{
    return a->connection == b->connection && a->others == b->others &&
           a->own == b->own;
}

/* ---- transactions ------------------------------------------------------- */

/* Is a transaction open? SQLite itself rolls back after some errors. */
bool sqlite_in_transaction(const struct sqlite *db);

/* Rolls back what is open. True if the connection is fit for use then. */
bool sqlite_rollback(struct sqlite *db);

/*
 * Whether the file that is written to is no longer the one at its path: what
 * is written then, nobody will find.
 */
bool sqlite_moved(struct sqlite *db);

/*
 * Copies the WAL into the database, so that it can begin anew. Never waits for
 * a reader; what it could not do it does another time.
 */
void sqlite_checkpoint(struct sqlite *db);

/* Keeps the WAL in shape, between two transactions: copies it when it has grown
 * long, and makes room behind its end. */
void sqlite_tend_wal(struct sqlite *db);

#endif
