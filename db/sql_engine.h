/*
 * What an engine is: a table of functions behind sql.h. One folder for each,
 * where its table stands at the bottom of one file.
 */
#ifndef STORE_SQL_ENGINE_H
#define STORE_SQL_ENGINE_H

#include "db/sql.h"

#include <limits.h>

#define SQL_WHERE_BYTES       PATH_MAX
#define SCHEMA_APPLICATION_ID 1937006955 /* "stck": whose database it is */

/*
 * What a process has of a database as long as its store is open: SQLite's lock
 * file. The first member of the engine's own struct.
 */
struct sql_claim {
    const struct sql_engine *engine;
};

struct sql_engine {
    const char *scheme; /* "sqlite:" */
    bool far;           /* a statement is a round trip */
    struct sql_words words;

    /* ---- the schema ---- */

    /* scripts[v] brings a database from version v to v + 1. NULL: there was
     * none, for this engine. */
    const char *const *scripts;
    int64_t versions;
    /* Whose database it is, 0 = nobody's; its version; its tables. */
    enum store_status (*inspect)(struct sql *db, int64_t *id, int64_t *version,
                                 int64_t *tables);
    enum store_status (*set_version)(struct sql *db, int64_t version);

    /* ---- the database as a whole ---- */

    /* The one true name of the database that URL is about, with the CREATE of an
     * empty one where that is a file. Does not connect. */
    enum store_status (*find)(const char *url, bool create,
                              char where[SQL_WHERE_BYTES],
                              struct store_error *error);
    /* store_check() */
    enum store_status (*check)(const char *url, struct store_error *error);
    /* Takes it, and keeps others from setting it up until settled(). */
    enum store_status (*claim)(const char *where, bool shared, unsigned busy_ms,
                               struct sql_claim **claim,
                               struct store_error *error);
    void (*settled)(struct sql_claim *claim);
    void (*drop)(struct sql_claim *claim);
    /* What nobody else would find any more, so that nothing may be written: "the
     * database file". NULL: nothing. */
    const char *(*lost)(const struct sql_claim *claim);
    /* A number that all processes see, 0 = cannot tell; a new one is another.
     * See soldout.h. */
    uint64_t (*mark)(const struct sql_claim *claim);
    enum store_status (*new_mark)(const struct sql_claim *claim,
                                  struct store_error *error);
    /* store_announce(), store_is_gone() */
    bool (*announce)(const struct sql_claim *claim, uint64_t id);
    bool (*is_gone)(const struct sql_claim *claim, uint64_t id);

    /* ---- a connection, as in sql.h ---- */

    enum store_status (*open)(const struct sql_options *options,
                              struct sql **db, struct store_error *error);
    void (*close)(struct sql *db);
    enum store_status (*begin)(struct sql *db, bool to_write);
    enum store_status (*commit)(struct sql *db);
    enum store_status (*rollback)(struct sql *db);
    bool (*in_transaction)(const struct sql *db);
    enum store_status (*state)(struct sql *db, struct sql_state *state);
    void (*tend)(struct sql *db, bool full);
    enum store_status (*script)(struct sql *db, const char *text);
    int64_t (*changed)(const struct sql *db);
    int64_t (*changes)(const struct sql *db);

    /* ---- a statement ---- */

    void (*prepare)(
        struct sql_query *query); /* and forgets what it had failed */
    void (*bind_ints)(struct sql_query *query, int at, const int64_t values[],
                      size_t n);
    void (*bind_text)(struct sql_query *query, int at, const char *text);
    bool (*next)(struct sql_query *query);
    int64_t (*column_int)(const struct sql_query *query, int column);
    void (*column_text)(const struct sql_query *query, int column, char *text,
                        size_t size);
    enum store_status (*end)(struct sql_query *query);
    enum store_status (*insert)(struct sql_query *query, int64_t numbers[],
                                size_t n);
};

extern const struct sql_engine sqlite_engine;
/* Left out where its client library is: at no address then. */
extern const struct sql_engine mysql_engine __attribute__((weak));

/* Whose scheme URL has; NULL, with a text, if nobody's. */
const struct sql_engine *sql_engine_of(const char *url,
                                       struct store_error *error);

#endif
