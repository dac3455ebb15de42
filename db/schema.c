/*
 * The schema and its version. See schema.h.
 *
 * PRAGMA application_id says whose file it is, user_version which schema it
 * has. A version is the one before and a script: a new database runs them all,
 * an older one those that it lacks, so that both end up the same. It is one
 * transaction: a crash leaves what was there before, or everything.
 */
#include "db/schema.h"
#include "db/failure.h"

#include <inttypes.h>
#include <stdio.h>

#define SCHEMA_APPLICATION_ID 1937006955 /* "stck" */
#define SCHEMA_TEXT(number)   SCHEMA_TEXT_(number)
#define SCHEMA_TEXT_(number)  #number

static const char version_1[] =
#include "db/schema.sql.inc"
    "PRAGMA application_id = " SCHEMA_TEXT(SCHEMA_APPLICATION_ID) ";\n";

static const char version_2[] =
#include "db/schema_2.sql.inc"
    ;

static const char *const scripts[] = {version_1, version_2};

#define SCHEMA_VERSION ((int64_t)(sizeof(scripts) / sizeof(scripts[0])))

/* *version: 0 = nobody has created anything in it yet. */
static enum store_status inspect(struct sqlite *db, int64_t *version,
                                 struct store_error *error)
{
    enum store_status status;
    int64_t id = 0, tables = 0;

    status = sqlite_number(db, "PRAGMA application_id", &id, error);
    if (status == STORE_OK)
        status = sqlite_number(db, "PRAGMA user_version", version, error);
    if (status == STORE_OK)
        status = sqlite_number(db, "SELECT COUNT(*) FROM sqlite_schema",
                               &tables, error);
    if (status != STORE_OK)
        return status;
    if (id == 0 && *version == 0 && tables == 0)
        return STORE_OK;
    if (id != SCHEMA_APPLICATION_ID || *version < 1)
        return failure_set(error, STORE_IO,
                           "the file is a database of another program");
    if (*version > SCHEMA_VERSION)
        return failure_set(error, STORE_IO,
                           "the database has schema version %" PRId64
                           ", this program knows versions up to %" PRId64 ": "
                           "use a newer stockade",
                           *version, SCHEMA_VERSION);
    return STORE_OK;
}

/* From VERSION to the newest. */
static enum store_status catch_up(struct sqlite *db, int64_t version,
                                  struct store_error *error)
{
    enum store_status status = STORE_OK;
    char sql[64];

    if (version == SCHEMA_VERSION)
        return STORE_OK;
    for (int64_t i = version; i < SCHEMA_VERSION && status == STORE_OK; i++)
        status = sqlite_script(db, scripts[i], error);
    if (status != STORE_OK)
        return status;
    snprintf(sql, sizeof(sql), "PRAGMA user_version = %" PRId64,
             SCHEMA_VERSION);
    return sqlite_script(db, sql, error);
}

enum store_status schema_bring_up(struct sqlite *db, struct store_error *error)
{
    enum store_status status;
    int64_t version = 0;

    status = sqlite_run(db, "BEGIN IMMEDIATE", error);
    if (status != STORE_OK)
        return status;
    status = inspect(db, &version, error);
    if (status == STORE_OK)
        status = catch_up(db, version, error);
    if (status == STORE_OK)
        status = sqlite_run(db, "COMMIT", error);
    if (status != STORE_OK)
        (void)sqlite_rollback(db);
    return status;
}

enum store_status schema_check(struct sqlite *db, struct store_error *error)
{
    enum store_status status;
    int64_t version = 0;

    status = inspect(db, &version, error);
    if (status != STORE_OK || version == SCHEMA_VERSION)
        return status;
    if (version == 0)
        return failure_set(error, STORE_IO,
                           "the file holds no database of this program");
    return failure_set(error, STORE_IO,
                       "the database has the older schema version %" PRId64
                       ": start the service once, it will bring it up to "
                       "%" PRId64,
                       version, SCHEMA_VERSION);
}
