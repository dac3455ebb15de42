/*
 * The wall before the engines. See sql.h.
 */
#include "db/sql_engine.h"

#include <assert.h>
#include <string.h>

const struct sql_engine *sql_engine_of(const char *url,
                                       struct store_error *error)
{
    const struct sql_engine *const engines[] = {&sqlite_engine, &mysql_engine};

    for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++)
        if (engines[i] &&
            !strncmp(url, engines[i]->scheme, strlen(engines[i]->scheme)))
            return engines[i];
    /* Not the URL itself: somebody may have put a password in it. */
    failure_text(error, "the database's URL must be sqlite:PATH%s",
                 engines[1] ? " or mysql:...: see --db in stockade(1)"
                            : ": built without libmariadb-dev");
    return NULL;
}

/* ---- connections -------------------------------------------------------- */

enum store_status sql_open(const struct sql_options *options, struct sql **db,
                           struct store_error *error)
{
    return options->engine->open(options, db, error);
}

void sql_close(struct sql *db)
{
    if (db)
        db->engine->close(db);
}

const struct sql_words *sql_words(const struct sql *db)
{
    return &db->engine->words;
}

bool sql_is_far(const struct sql *db)
{
    return db->engine->far;
}

enum store_status sql_script(struct sql *db, const char *text)
{
    return db->engine->script(db, text);
}

int64_t sql_changed(const struct sql *db)
{
    return db->engine->changed(db);
}

int64_t sql_changes(const struct sql *db)
{
    return db->engine->changes(db);
}

enum store_status sql_state(struct sql *db, struct sql_state *state)
{
    return db->engine->state(db, state);
}

/* Nobody else changes what SQLite's writer has read. */
enum store_status sql_conflict(struct sql *db, const char *text)
{
    db->again = db->engine->far;
    return sql_fail(db, db->again ? STORE_BUSY : STORE_IO, "%s", text);
}

/* ---- transactions ------------------------------------------------------- */

enum store_status sql_begin(struct sql *db)
{
    return db->engine->begin(db, true);
}

enum store_status sql_begin_reading(struct sql *db)
{
    return db->engine->begin(db, false);
}

enum store_status sql_commit(struct sql *db)
{
    return db->engine->commit(db);
}

bool sql_in_transaction(const struct sql *db)
{
    return db->engine->in_transaction(db);
}

bool sql_rollback(struct sql *db)
{
    if (sql_in_transaction(db))
        (void)db->engine->rollback(db);
    return !sql_in_transaction(db);
}

void sql_tend(struct sql *db, bool full)
{
    db->engine->tend(db, full);
}

/* ---- statements --------------------------------------------------------- */

struct sql_query *sql_query_ints(struct sql *db, const char *text,
                                 const int64_t values[], size_t n)
{
    struct sql_query *query = db->queries;

    while (query < db->queries + db->queries_n && query->text != text)
        query++;
    if (query == db->queries + db->queries_n) {
        assert(db->queries_n < SQL_QUERIES_MAX);
        db->queries_n++;
        *query = (struct sql_query){.db = db, .text = text};
    }
    db->engine->prepare(query);
    sql_bind_ints(query, 1, values + 1, n - 1);
    return query;
}

void sql_bind_ints(struct sql_query *query, int at, const int64_t values[],
                   size_t n)
{
    query->db->engine->bind_ints(query, at, values, n);
}

void sql_bind_text(struct sql_query *query, int at, const char *text)
{
    query->db->engine->bind_text(query, at, text);
}

bool sql_next(struct sql_query *query)
{
    return query->db->engine->next(query);
}

int64_t sql_int(const struct sql_query *query, int column)
{
    return query->db->engine->column_int(query, column);
}

void sql_text(const struct sql_query *query, int column, char *text,
              size_t size)
{
    query->db->engine->column_text(query, column, text, size);
}

enum store_status sql_end(struct sql_query *query)
{
    return query->db->engine->end(query);
}

enum store_status sql_finish(struct sql_query *query)
{
    while (sql_next(query))
        continue;
    return sql_end(query);
}

enum store_status sql_first_ints(struct sql_query *query,
                                 int64_t *const values[], size_t n)
{
    if (sql_next(query))
        for (size_t i = 0; i < n; i++)
            *values[i] = sql_int(query, (int)i);
    return sql_end(query);
}

enum store_status sql_insert(struct sql_query *query, int64_t numbers[],
                             size_t n)
{
    return query->db->engine->insert(query, numbers, n);
}
