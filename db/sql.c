/* The part of the wall that both engines share: opening, statements found again
 * by their text, the first failure that stays, and the schema's versions. See
 * sql.h. */
#include "db/sql.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BRING_UP_MS 10000 /* in which the others are through with it */

const struct sql_engine *sql_engine_of(const char *url,
                                       struct store_error *error)
{
    const struct sql_engine *const engines[] = {&sqlite_engine, &mysql_engine};

    for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++)
        /* An engine that was left out of the build is a weak symbol, at no
         * address. */
        if (engines[i] &&
            !strncmp(url, engines[i]->scheme, strlen(engines[i]->scheme)))
            return engines[i];
    /* Not the URL itself: somebody may have put a password in it. */
    failure_text(error, "the database's URL must be sqlite:PATH%s",
                 engines[1] ? " or mysql:...: see --db in stockade(1)"
                            : ": built without libmariadb-dev");
    return NULL;
}

enum store_status sql_open(const struct sql_options *options, struct sql **db,
                           struct store_error *error)
{
    const struct sql_engine *engine = options->engine;
    struct sql *opened = calloc(1, engine->size);
    enum store_status status;
    int64_t version = 0;

    if (!opened)
        return failure_set(error, STORE_IO, "out of memory");
    opened->engine = engine;
    opened->options = *options;
    /* The query `none` stands for all that is asked after a failure: it only
     * leads back to the connection that has failed. */
    opened->none.db = opened;
    /* A writer is not looked at here: it may bring the schema up. */
    if (engine->open(opened) == STORE_OK && !options->writes)
        schema_inspect(opened, &version);
    if (!options->writes && !options->any_schema && version == 0)
        sql_fail(opened, STORE_IO, "it holds no database of this program");
    else if (!options->writes && !options->any_schema &&
             version < engine->versions)
        sql_fail(opened, STORE_IO,
                 "the database has the older schema version %" PRId64
                 ": start the service once, it will bring it up to %" PRId64,
                 version, engine->versions);
    if (opened->status == STORE_OK) {
        *db = opened;
        return STORE_OK;
    }
    /* The text is copied before the close frees it. */
    failure_text(error, "%s", opened->error.text);
    status = opened->status;
    sql_close(opened);
    return status;
}

/* Nobody else changes what SQLite's writer has read. */
enum store_status sql_conflict(struct sql *db, const char *text)
{
    /* A conflict is worth another try on a server only. In SQLite there is one
     * writer, and a guard that fails there is a fault. */
    db->again = db->engine->far;
    return sql_fail(db, db->again ? STORE_BUSY : STORE_IO, "%s", text);
}

bool sql_rollback(struct sql *db)
{
    if (db->in_transaction)
        db->engine->rollback(db);
    return !db->in_transaction;
}

struct sql_query *sql_query_ints(struct sql *db, const char *text,
                                 const int64_t values[], size_t n)
{
    struct sql_query *query = db->queries;

    /* A caller that looks how many rows have changed must not see the number of
     * the statement before. */
    db->changed = 0;
    if (db->status != STORE_OK)
        return &db->none;
    /* The address of the literal is its name: comparing texts would cost each
     * statement more. */
    while (query < db->queries + db->queries_n && query->text != text)
        query++;
    if (query == db->queries + db->queries_n) {
        /* The table is as long as the program has texts. It overflows only if
         * one is made anew each time, which is a mistake of ours. */
        assert(db->queries_n < SQL_QUERIES_MAX);
        db->queries_n++;
        *query = (struct sql_query){.db = db, .text = text};
    }
    db->engine->prepare(query);
    sql_bind_ints(query, 1, values + 1, n - 1);
    return query;
}

enum store_status sql_finish(struct sql_query *query)
{
    while (sql_next(query))
        continue;
    return sql_end(query);
}

void sql_clock(struct sql *db, int64_t *ms)
{
    if (db->engine->words.clock)
        sql_first(sql_query(db, db->engine->words.clock), ms);
    else
        *ms = now_ms();
}

void sql_row_ints(const struct sql_query *query, int64_t *const values[],
                  size_t n)
{
    for (size_t i = 0; i < n; i++)
        *values[i] = sql_int(query, (int)i);
}

enum store_status sql_first_ints(struct sql_query *query,
                                 int64_t *const values[], size_t n)
{
    if (sql_next(query))
        sql_row_ints(query, values, n);
    return sql_end(query);
}

/* ---- the schema ---------------------------------------------------------- */

/* A version is the one before and a script of the engine's: a new database runs them
 * all, an older one those that it lacks, so that both end up the same. In SQLite that
 * is one transaction: a crash leaves what was there before, or everything. MariaDB
 * commits before each change of a table: there each script can be run again, and the
 * version is written after the last, so that a database that another instance makes
 * just now does not look like an older one. */
enum store_status schema_inspect(struct sql *db, int64_t *version)
{
    int64_t id = 0, tables = 0;

    *version = 0;
    db->engine->inspect(db, &id, version, &tables);
    if (db->status != STORE_OK)
        return db->status;
    /* An empty database is nobody's, and may become ours. One with tables, but
     * without our mark, must not. */
    if (id == 0 && *version == 0 && tables == 0)
        return STORE_OK;
    if (id != SCHEMA_APPLICATION_ID)
        return sql_fail(db, STORE_UNFIT,
                        "the database belongs to another program");
    if (*version < 0 || *version > db->engine->versions)
        return sql_fail(db, STORE_UNFIT,
                        "the database has schema version %" PRId64
                        ", this program knows 1 to %" PRId64 ": use the "
                        "stockade that wrote it, or a newer one",
                        *version, db->engine->versions);
    return STORE_OK;
}

/* Instances that start at once are in each other's way. */
enum store_status schema_bring_up(struct sql *db)
{
    struct backoff pause = {0};
    int64_t version = 0, from;

    backoff_begin(&pause, BRING_UP_MS);
    do {
        /* The version is read in the transaction that changes it: another
         * instance may just have brought it up. */
        if (sql_begin(db) == STORE_OK)
            schema_inspect(db, &version);
        from = version;
        for (; db->status == STORE_OK && version < db->engine->versions;
             version++)
            /* A version that changed only the other engine has no script here. */
            if (db->engine->scripts[version])
                db->engine->script(db, db->engine->scripts[version]);
        /* The version is written last: where each change of a table commits by
         * itself, a process that dies in between runs the script again. */
        if (db->status == STORE_OK && version > from)
            db->engine->set_version(db, version);
        if (sql_commit(db) != STORE_OK)
            (void)sql_rollback(db);
    } while (db->status != STORE_OK && db->again && backoff_wait(&pause));
    return db->status;
}
