/*
 * The schema and its version. See sqlite.h.
 *
 * PRAGMA application_id says whose file it is, user_version which schema it
 * has. A version is the one before and a script: a new database runs them all,
 * an older one those that it lacks, so that both end up the same. It is one
 * transaction: a crash leaves what was there before, or everything.
 */
#include "db/sqlite/sqlite.h"

#include <inttypes.h>
#include <stdio.h>

#define SCHEMA_APPLICATION_ID 1937006955 /* "stck" */
#define SCHEMA_TEXT(number)   SCHEMA_TEXT_(number)
#define SCHEMA_TEXT_(number)  #number

static const char version_1[] =
#include "db/sqlite/schema.sql.inc"
    "PRAGMA application_id = " SCHEMA_TEXT(SCHEMA_APPLICATION_ID) ";\n";

static const char version_2[] =
#include "db/sqlite/schema_2.sql.inc"
    ;

static const char version_3[] =
#include "db/sqlite/schema_3.sql.inc"
    ;

static const char *const scripts[] = {version_1, version_2, version_3};

#define SCHEMA_VERSION ((int64_t)(sizeof(scripts) / sizeof(scripts[0])))

enum store_status schema_inspect(struct sqlite *db, int64_t *version)
{
    enum store_status status;
    int64_t id = 0, tables = 0;

    status = sqlite_first(
        sqlite_query(db, "SELECT application_id, user_version, "
                         "(SELECT COUNT(*) FROM sqlite_schema) "
                         "FROM pragma_application_id, pragma_user_version"),
        &id, version, &tables);
    if (status != STORE_OK)
        return status;
    if (id == 0 && *version == 0 && tables == 0)
        return STORE_OK;
    if (id != SCHEMA_APPLICATION_ID)
        return sqlite_fail(db, STORE_IO,
                           "the file is a database of another program");
    if (*version < 1 || *version > SCHEMA_VERSION)
        return sqlite_fail(db, STORE_IO,
                           "the database has schema version %" PRId64
                           ", this program knows 1 to %" PRId64 ": use the "
                           "stockade that wrote it, or a newer one",
                           *version, SCHEMA_VERSION);
    return STORE_OK;
}

static enum store_status set_version(struct sqlite *db, int64_t version)
{
    char sql[64];

    snprintf(sql, sizeof(sql), "PRAGMA user_version = %" PRId64, version);
    return sqlite_script(db, sql);
}

enum store_status schema_probe(struct sqlite *db)
{
    enum store_status status;
    int64_t version = 0, rows;

    status = schema_inspect(db, &version);
    if (status == STORE_OK)
        status = sqlite_first(
            sqlite_query(db, "SELECT (SELECT COUNT(*) FROM (SELECT 1 FROM "
                             "orders LIMIT 1)) + (SELECT COUNT(*) FROM (SELECT "
                             "1 FROM products LIMIT 1))"),
            &rows);
    return status == STORE_OK ? set_version(db, version) : status;
}

enum store_status schema_bring_up(struct sqlite *db)
{
    enum store_status status;
    int64_t version = 0;

    status = sqlite_run(db, "BEGIN IMMEDIATE");
    if (status != STORE_OK)
        return status;
    status = schema_inspect(db, &version);
    for (; status == STORE_OK && version < SCHEMA_VERSION; version++) {
        status = sqlite_script(db, scripts[version]);
        if (status == STORE_OK)
            status = set_version(db, version + 1);
    }
    if (status == STORE_OK)
        status = sqlite_run(db, "COMMIT");
    if (status != STORE_OK)
        (void)sqlite_rollback(db);
    return status;
}

enum store_status schema_check(struct sqlite *db)
{
    enum store_status status;
    int64_t version = 0;

    status = schema_inspect(db, &version);
    if (status != STORE_OK || version == SCHEMA_VERSION)
        return status;
    if (version == 0)
        return sqlite_fail(db, STORE_IO,
                           "the file holds no database of this program");
    return sqlite_fail(db, STORE_IO,
                       "the database has the older schema version %" PRId64
                       ": start the service once, it will bring it up to "
                       "%" PRId64,
                       version, SCHEMA_VERSION);
}
