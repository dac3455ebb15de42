/*
 * SQLite behind a thin wall: sqlite.c and wal.c alone see <sqlite3.h>.
 *
 * What is left of it on this side is a connection, statements found by their
 * text, and our own status codes. A backend for a client/server database
 * would offer these same calls.
 *
 * Statements
 * ----------
 *     status = sqlite_run(db, "UPDATE ... WHERE id = ?1", product_id);
 *     status = sqlite_first(sqlite_query(db, "SELECT ... = ?1", id), &stock);
 *
 *     query = sqlite_query(db, "SELECT ... = ?1", product_id);
 *     while (sqlite_next(query))
 *         stock += sqlite_int(query, 0);
 *     status = sqlite_end(query);
 *
 * Failures are sticky: after one the calls in between do nothing, sqlite_next
 * says false, and only the end has to be checked. A query must always be ended:
 * until then the statement holds its locks. The text must be a literal, or
 * live as long: the compiled statement is found again by its address.
 */
#ifndef STORE_SQLITE_H
#define STORE_SQLITE_H

#include "db/base.h"

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
    bool shared;      /* writer: a rollback journal, not a WAL, see sqlite.c */
    unsigned busy_ms; /* longest wait for another process's lock */
    const atomic_bool *hurry; /* no such wait while it is true; NULL = never */
    void (*on_wait)(void *ctx); /* every few ms in such a wait; NULL = none */
    void *on_wait_ctx;
};

enum store_status sqlite_open(const struct sqlite_options *options,
                              struct sqlite **db, struct store_error *error);

/* NULL is fine. */
void sqlite_close(struct sqlite *db);

/* The text of the last failure on this connection, ours or SQLite's own. */
struct store_error *sqlite_error(struct sqlite *db);

/* Writes that text, cut to fit, and gives STATUS back. */
#define sqlite_fail(db, status, ...)                                           \
    failure_set(sqlite_error(db), (status), __VA_ARGS__)

/* Begins a statement, with integers for ?1, ?2, ... (There is no ?0: its value
 * only keeps the list from being empty.) */
#define sqlite_query(db, sql, ...)                                             \
    sqlite_query_ints((db), (sql), (const int64_t[]){0, __VA_ARGS__},          \
                      sizeof((const int64_t[]){0, __VA_ARGS__}) /              \
                          sizeof(int64_t))

struct sqlite_query *sqlite_query_ints(struct sqlite *db, const char *sql,
                                       const int64_t values[], size_t n);

/* Binds N integers to ?AT and those that follow. */
void sqlite_bind_ints(struct sqlite_query *query, int at,
                      const int64_t values[], size_t n);

/* Binds a text to ?AT, "" as NULL. It is borrowed until the end. */
void sqlite_bind_text(struct sqlite_query *query, int at, const char *text);

/* Steps to the next row: true if there is one. */
bool sqlite_next(struct sqlite_query *query);

int64_t sqlite_int(const struct sqlite_query *query, int column);

/* NULL becomes "". Cut to fit, which the schema's own data never needs. */
void sqlite_text(const struct sqlite_query *query, int column, char *text,
                 size_t size);

enum store_status sqlite_end(struct sqlite_query *query);

/* Runs what is left of it, and ends it. */
enum store_status sqlite_finish(struct sqlite_query *query);

/* All of a statement that has integers and gives no rows. */
#define sqlite_run(db, ...) sqlite_finish(sqlite_query(db, __VA_ARGS__))

/* Rows that the last INSERT, UPDATE or DELETE changed, if it ended well. */
int64_t sqlite_changed(const struct sqlite *db);

/* Ends QUERY: the integers of its first row go into the pointers. Where there
 * is no row they keep what they have. */
#define sqlite_first(query, ...)                                               \
    sqlite_first_ints((query), (int64_t *const[]){__VA_ARGS__},                \
                      sizeof((int64_t *const[]){__VA_ARGS__}) /                \
                          sizeof(int64_t *))

enum store_status sqlite_first_ints(struct sqlite_query *query,
                                    int64_t *const values[], size_t n);

/* Runs many statements at once, uncached: the schema. */
enum store_status sqlite_script(struct sqlite *db, const char *sql);

int64_t sqlite_last_rowid(const struct sqlite *db);

/* Rows changed since the connection was opened, kept or not. */
int64_t sqlite_changes(const struct sqlite *db);

/*
 * How a connection knows its database. If two are equal, both taken inside of
 * transactions, and nothing was rolled back in between, it is the same: no row
 * has changed. (What SQLite does not count as a change, rows that REPLACE
 * removes and changes of the schema, is not done while a store is open.)
 */
struct sqlite_state {
    int64_t connection; /* which */
    int64_t others;     /* another one after others have changed something */
    int64_t own;        /* sqlite_changes() */
};

enum store_status sqlite_state(struct sqlite *db, struct sqlite_state *state);

/* Is a transaction open? SQLite itself rolls back after some errors. */
bool sqlite_in_transaction(const struct sqlite *db);

/* Rolls back what is open. True if the connection is fit for use then. */
bool sqlite_rollback(struct sqlite *db);

/*
 * Copies the WAL into the database, so that it can begin anew. Never waits for
 * a reader; what it could not do it does another time.
 */
void wal_checkpoint(struct sqlite *db);

/* Keeps the WAL in shape, between two transactions: copies it when it has grown
 * long, and makes room behind its end. */
void wal_tend(struct sqlite *db);

/*
 * For the writer that has just opened the database: creates the schema in an
 * empty one, brings an older one up, and refuses a foreign or newer one.
 */
enum store_status schema_bring_up(struct sqlite *db);

/* For a transaction: reads what orders read, and writes the version that is there,
 * a page that changes nothing. Says whether an order could. */
enum store_status schema_probe(struct sqlite *db);

/* Refuses a foreign or newer one, and tells the version of others; 0 = nobody has
 * created anything in it yet. */
enum store_status schema_inspect(struct sqlite *db, int64_t *version);

/* For a reader: refuses a database that is not ours, or of another version. */
enum store_status schema_check(struct sqlite *db);

#endif
