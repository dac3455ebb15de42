/*
 * A SQL database behind a thin wall: connections, statements found by their
 * text, and our own status codes. SQLite and MariaDB are behind it, each a
 * table of functions; the statements' texts are shared.
 *
 * Statements
 * ----------
 *     status = sql_run(db, "UPDATE ... WHERE id = ?1", product_id);
 *     status = sql_first(sql_query(db, "SELECT ... = ?1", id), &stock);
 *
 *     query = sql_query(db, "SELECT ... = ?1", product_id);
 *     while (sql_next(query))
 *         stock += sql_int(query, 0);
 *     status = sql_end(query);
 *
 * Failures are sticky: after one, until the next sql_begin() or sql_clear(), the calls
 * do nothing, sql_next says false, numbers stay as they were, and nothing has changed.
 * So what has to be done in a row is written in a row, and db->status is looked at
 * where the way parts, and at the end. A "no" of ours (sql_fail) is such a failure. A
 * query must always be ended: until then the statement holds its locks. The text must
 * be a literal, or live as long: the compiled statement is found again by its address.
 *
 * Dialects
 * --------
 * A text that both understand is written once: the column `key` in backquotes, each
 * subquery with a name, and SQL_FOR_UPDATE, which SQLite takes for a comment.
 * Statements without common words stand in struct sql_words.
 */
#ifndef STORE_SQL_H
#define STORE_SQL_H

#include "db/base.h"

#include <limits.h>

/* In a transaction that writes, of rows that it decides on and that others may
 * change: nobody else does until it ends. */
#define SQL_FOR_UPDATE "/*! FOR UPDATE */"

/* Ends an INSERT whose rows have no numbers yet: the server tells them. (SQLite takes
 * it for a comment: there the filter gives the numbers.) */
#define SQL_TELL_NUMBERS "/*! RETURNING number */"

/* Ends the word `bought`: a product whose users' units nobody has counted. */
#define SQL_ELSE_BY_ORDERS                                                     \
    "ELSE IFNULL((SELECT SUM(quantity) FROM orders "                           \
    "WHERE product_id = ?3 AND user_id = ?4 AND state = 0), 0) "               \
    "END FROM products WHERE id = ?3"

/* Where a limit goes by what users have bought. */
#define SQL_COUNTED                                                            \
    "product_id IN (SELECT id FROM products "                                  \
    "WHERE limit_per_user > 0 AND counted) "

/* The word `miscounted`: users whose units are not what their orders say: they may buy too
 * many, or too few. The next sale counts what is not counted. UNITS are a user's, with the
 * bucket where they stand, and IN is the bucket of his last order: in another one nobody
 * looks for them. */
#define SQL_MISCOUNTED(units, in)                                              \
    "SELECT COUNT(*) FROM (SELECT product_id, user_id FROM (" units            \
    " UNION ALL SELECT product_id, user_id, -(" in ") AS bucket, "             \
    "-SUM(CASE state WHEN 0 THEN quantity ELSE 0 END) AS units "               \
    "FROM orders WHERE " SQL_COUNTED "GROUP BY product_id, user_id) AS u "     \
    "GROUP BY product_id, user_id "                                            \
    "HAVING SUM(units) <> 0 OR MAX(units) > 0 AND SUM(bucket) <> 0) AS m"

/* For an IN (...). */
#define SQL_MARKS_8 "?, ?, ?, ?, ?, ?, ?, ?"
#define SQL_MARKS_64                                                           \
    SQL_MARKS_8 ", " SQL_MARKS_8 ", " SQL_MARKS_8 ", " SQL_MARKS_8             \
                ", " SQL_MARKS_8 ", " SQL_MARKS_8 ", " SQL_MARKS_8             \
                ", " SQL_MARKS_8

#define SQL_QUERIES_MAX       160
#define SQL_HURRY_MS          500
#define SQL_WHERE_BYTES       PATH_MAX
#define SCHEMA_APPLICATION_ID 1937006955 /* "stck": whose database it is */

struct filter;
struct sql_engine;
struct sql;

struct sql_query {
    struct sql *db;
    const char *text;
    void *stmt; /* the engine's; NULL = to be prepared */
    int code;   /* of the engine's last call; the first failure stays */
};

struct sql_options {
    const struct sql_engine *engine;
    const char *where; /* as find() has said; not after the opening */
    /* A connection that does not write may roll back what a process that died in its
     * commit has left in SQLite's rollback journal; it would be stuck before that. */
    bool writes;
    bool any_schema; /* reader: of an older version as well, or of none */
    bool shared;     /* other processes write, too */
    const struct filter *filter; /* the store's, of its database; NULL: none */
    unsigned busy_ms;            /* longest wait for another process's lock */
    const atomic_bool *hurry; /* true: no such wait, and what is read has to end
                               * in SQL_HURRY_MS; NULL = never */
    void (*on_wait)(void *ctx); /* every few ms in such a wait; NULL = none */
    void *on_wait_ctx;
};

/* A connection: the first member of the engine's own struct. */
struct sql {
    const struct sql_engine *engine;
    struct sql_options options; /* that it was opened with */
    enum store_status status;   /* STORE_OK, or how the first call failed */
    struct store_error error;   /* of the last failure */
    int64_t changed; /* rows, by the last INSERT, UPDATE, DELETE; 0: failed */
    /* Rows, since it was opened, kept or not. (SQLite does not count rows that REPLACE
     * removes and changes of the schema, so none are made while a store is open.) */
    int64_t changes;
    /* When the last transaction that writes began: no other connection has it, and it is
     * another one once others have committed something; 0 = that cannot be told. */
    int64_t epoch;
    /* It was a conflict with others, or the connection was lost; nothing was
     * written, and the same transaction may end well when it is tried again. */
    bool again;
    /* And it is over: another one was first with a key, and has committed. */
    bool at_once;
    /* The server is one of a cluster: a row that is not here may be on another. */
    bool cluster;
    int64_t server; /* its number among those that replicate; 0: there is one */
    bool in_transaction; /* the database may have ended it after some errors */
    bool patient;        /* a statement may take minutes */
    bool hasty;          /* none waits for another process's lock on the file */
    struct sql_query none; /* stands for all that is asked after a failure */
    size_t queries_n;
    struct sql_query queries[SQL_QUERIES_MAX];
};

/* Statements for which the engines have different words. */
struct sql_words {
    const char *announce; /* a fence: token, name, owner; if it is higher */
    /* An order by its key: oldest bucket, newest, key. See ledger/filter.h; where
     * there are no buckets, no word goes by them. */
    const char *find_key;
    /* Units that users buy: order's number, product, user, units, limit, units before, if
     * within that; those to be given back, if they are counted, in the buckets oldest,
     * newest, of product, user, units; all units of a product's users, from its orders; a
     * user's in the buckets oldest, newest, of product, user, -1: he is in none of these. */
    const char *buy_units, *give_units, *count_units, *bought;
    const char *miscounted; /* SQL_MISCOUNTED() */
    const char *check_file; /* "ok", or the damage; NULL: the server looks */
    /* See ledger/probe.c: a fence of this name; others of the probe's, or it. */
    const char *take_room, *free_room;
    const char *clock; /* the server's, in ms; NULL: this host's counts */
    /* Whether what is committed survives a loss of power; NULL: it does. */
    const char *lasts;
};

/* ---- an engine ------------------------------------------------------------ */

enum sql_find {
    SQL_LOOK,
    SQL_CREATE, /* where the database is a file: an empty one if it is not there */
    SQL_CHECK /* whether it is fit to be opened, as far as can be seen from outside;
                 * WHERE "": it is not there, and could be made */
};

/* A table of functions: one folder for each engine, where its table stands at the
 * bottom of one file. */
struct sql_engine {
    const char *scheme; /* "sqlite:" */
    /* On a server: a statement is a round trip, many rows with one are better; and
     * there is no lock file (lockfile.h). */
    bool far;
    struct sql_words words;

    /* scripts[v] brings a database from version v to v + 1. NULL: there was
     * none, for this engine. */
    const char *const *scripts;
    int64_t versions;
    /* ID: the program that the database belongs to, 0 = none; its version; its
     * tables. */
    enum store_status (*inspect)(struct sql *db, int64_t *id, int64_t *version,
                                 int64_t *tables);
    enum store_status (*set_version)(struct sql *db, int64_t version);
    /* Runs many statements at once, uncached: the schema. */
    enum store_status (*script)(struct sql *db, const char *text);

    /* The one true name of the database that URL is about. Does not connect. */
    enum store_status (*find)(const char *url, enum sql_find how,
                              char where[SQL_WHERE_BYTES],
                              struct store_error *error);

    size_t size; /* of the engine's own struct */
    /* A connection that fails to open is closed by sql_open(). */
    enum store_status (*open)(struct sql *db);
    void (*close)(struct sql *db);
    enum store_status (*begin)(struct sql *db, bool to_write);
    /* STORE_UNKNOWN: it was tried and not confirmed. After all other failures
     * nothing was written. */
    enum store_status (*commit)(struct sql *db);
    void (*rollback)(struct sql *db);
    /* For the writer, between two transactions: house-keeping. FULL: the disk was.
     * NULL: there is none. */
    void (*tend)(struct sql *db, bool full);

    /* And forgets the failure of the time before. */
    void (*prepare)(struct sql_query *query);
    void (*bind_ints)(struct sql_query *query, int at, const int64_t values[],
                      size_t n);
    void (*bind_text)(struct sql_query *query, int at, const char *text);
    bool (*next)(struct sql_query *query);
    int64_t (*column_int)(const struct sql_query *query, int column);
    void (*column_text)(const struct sql_query *query, int column, char *text,
                        size_t size);
    void (*end)(struct sql_query *query);
};

extern const struct sql_engine sqlite_engine;
enum store_status sqlite_find(const char *url, enum sql_find how,
                              char whole[SQL_WHERE_BYTES],
                              struct store_error *error); /* its find() */
/* Left out where its client library is: at no address then. */
extern const struct sql_engine mysql_engine __attribute__((weak));

/* The engine whose scheme URL has; NULL, with a text, if none. */
const struct sql_engine *sql_engine_of(const char *url,
                                       struct store_error *error);

/* Opens a connection, which keeps the options. A reader's to a database that is not
 * ours, or of another version, is refused. */
enum store_status sql_open(const struct sql_options *options, struct sql **db,
                           struct store_error *error);

static inline void sql_close(struct sql *db)
{
    if (db)
        db->engine->close(db);
}

/* The text of the last failure on this connection, ours or the engine's. */
static inline struct store_error *sql_error(struct sql *db)
{
    return &db->error;
}

/* The connection has failed, unless it had before: how, which it gives back, and the
 * text, cut to fit. */
#define sql_fail(db, how, ...)                                                 \
    ((db)->status == STORE_OK                                                  \
         ? (failure_text(sql_error(db), __VA_ARGS__), (db)->status = (how))    \
         : (db)->status)

/* How it has failed, which is forgotten: the caller knows what to do. */
static inline enum store_status sql_clear(struct sql *db)
{
    enum store_status status = db->status;

    db->status = STORE_OK;
    return status;
}

/* ---- statements --------------------------------------------------------- */

/* Begins a statement, with integers for ?1, ?2, ... (There is no ?0: its value
 * only keeps the list from being empty.) */
#define sql_query(db, text, ...)                                               \
    sql_query_ints((db), (text), (const int64_t[]){0, __VA_ARGS__},            \
                   sizeof((const int64_t[]){0, __VA_ARGS__}) /                 \
                       sizeof(int64_t))

struct sql_query *sql_query_ints(struct sql *db, const char *text,
                                 const int64_t values[], size_t n);

/* Binds N integers to ?AT and those that follow. */
static inline void sql_bind_ints(struct sql_query *query, int at,
                                 const int64_t values[], size_t n)
{
    if (query->db->status == STORE_OK)
        query->db->engine->bind_ints(query, at, values, n);
}

/* Binds a text to ?AT, "" as NULL. It is borrowed until the end. Gives QUERY back. */
static inline struct sql_query *sql_bind_text(struct sql_query *query, int at,
                                              const char *text)
{
    if (query->db->status == STORE_OK)
        query->db->engine->bind_text(query, at, text);
    return query;
}

/* Steps to the next row: true if there is one. */
static inline bool sql_next(struct sql_query *query)
{
    return query->db->status == STORE_OK && query->db->engine->next(query);
}

/* The first integers of the row that it stands at, into the pointers. */
#define sql_row(query, ...)                                                    \
    sql_row_ints((query), (int64_t *const[]){__VA_ARGS__},                     \
                 sizeof((int64_t *const[]){__VA_ARGS__}) / sizeof(int64_t *))

void sql_row_ints(const struct sql_query *query, int64_t *const values[],
                  size_t n);

static inline int64_t sql_int(const struct sql_query *query, int column)
{
    return query->db->engine->column_int(query, column);
}

/* NULL becomes "". Cut to fit, which the schema's own data never needs. */
static inline void sql_text(const struct sql_query *query, int column,
                            char *text, size_t size)
{
    query->db->engine->column_text(query, column, text, size);
}

static inline enum store_status sql_end(struct sql_query *query)
{
    if (query != &query->db->none)
        query->db->engine->end(query);
    return query->db->status;
}

/* Runs what is left of it, and ends it. */
enum store_status sql_finish(struct sql_query *query);

/* All of a statement that has integers and gives no rows. */
#define sql_run(db, ...) sql_finish(sql_query(db, __VA_ARGS__))

/* Ends QUERY: the integers of its first row go into the pointers. Where there
 * is no row they keep what they have. */
#define sql_first(query, ...)                                                  \
    sql_first_ints((query), (int64_t *const[]){__VA_ARGS__},                   \
                   sizeof((int64_t *const[]){__VA_ARGS__}) /                   \
                       sizeof(int64_t *))

enum store_status sql_first_ints(struct sql_query *query,
                                 int64_t *const values[], size_t n);

/* Unix time in ms by the clock that all instances share: the database server's, or
 * that of the one host. It can step. */
void sql_clock(struct sql *db, int64_t *ms);

/* Another process has changed what was read outside of a lock. */
enum store_status sql_conflict(struct sql *db, const char *text);

/* ---- transactions ------------------------------------------------------- */

/* Begins a transaction that writes; or one that only reads, which sees one moment. */
static inline enum store_status sql_begin(struct sql *db)
{
    db->status = STORE_OK;
    return db->status = db->engine->begin(db, true);
}

static inline enum store_status sql_begin_reading(struct sql *db)
{
    db->status = STORE_OK;
    return db->status = db->engine->begin(db, false);
}

static inline enum store_status sql_commit(struct sql *db)
{
    if (db->status == STORE_OK)
        db->status = db->engine->commit(db);
    return db->status;
}

/* Rolls back what is open; an engine may have done so after some errors. True if
 * the connection is fit for use then. */
bool sql_rollback(struct sql *db);

/* ---- the schema --------------------------------------------------------- */

/* For the writer that has just opened the database: creates the schema in an empty one,
 * brings an older one up, and refuses a foreign or newer one. */
enum store_status schema_bring_up(struct sql *db);

/* Refuses a foreign or newer one, and tells the version of others; 0 = nobody has
 * created anything in it yet. */
enum store_status schema_inspect(struct sql *db, int64_t *version);

#endif
