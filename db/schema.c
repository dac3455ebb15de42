/*
 * The schema and its version. See schema.h.
 *
 * PRAGMA application_id says whose file it is, user_version which schema it
 * has. Both are written in the transaction that creates the tables, so that a
 * crash leaves either nothing or everything.
 */
#include "db/schema.h"
#include "db/failure.h"

#include <inttypes.h>

#define SCHEMA_APPLICATION_ID 1937006955 /* "stck" */
#define SCHEMA_VERSION        1

#define SCHEMA_TEXT(number)  SCHEMA_TEXT_(number)
#define SCHEMA_TEXT_(number) #number

static const char schema_sql[] =
#include "db/schema.sql.inc"
    "PRAGMA application_id = " SCHEMA_TEXT(
        SCHEMA_APPLICATION_ID) ";\n"
                               "PRAGMA user_version = " SCHEMA_TEXT(
                                   SCHEMA_VERSION) ";\n";

/* *fresh: nobody has created anything in it yet. */
static enum store_status inspect(struct sqlite *db, bool *fresh,
                                 struct store_error *error)
{
    enum store_status status;
    int64_t id = 0, version = 0, tables = 0;

    status = sqlite_number(db, "PRAGMA application_id", &id, error);
    if (status == STORE_OK)
        status = sqlite_number(db, "PRAGMA user_version", &version, error);
    if (status == STORE_OK)
        status = sqlite_number(db, "SELECT COUNT(*) FROM sqlite_schema",
                               &tables, error);
    if (status != STORE_OK)
        return status;
    *fresh = id == 0 && version == 0 && tables == 0;
    if (!*fresh && id != SCHEMA_APPLICATION_ID)
        return failure_set(error, STORE_IO,
                           "the file is a database of another program");
    if (version > SCHEMA_VERSION)
        return failure_set(error, STORE_IO,
                           "the database has schema version %" PRId64
                           ", this program knows versions up to %d: "
                           "use a newer stockade",
                           version, SCHEMA_VERSION);
    return STORE_OK;
}

enum store_status schema_bring_up(struct sqlite *db, struct store_error *error)
{
    enum store_status status;
    bool fresh = false;

    status = sqlite_run(db, "BEGIN IMMEDIATE", error);
    if (status != STORE_OK)
        return status;
    status = inspect(db, &fresh, error);
    if (status == STORE_OK && fresh)
        status = sqlite_script(db, schema_sql, error);
    if (status == STORE_OK)
        status = sqlite_run(db, "COMMIT", error);
    if (status != STORE_OK)
        (void)sqlite_rollback(db);
    return status;
}

enum store_status schema_check(struct sqlite *db, struct store_error *error)
{
    enum store_status status;
    bool fresh = false;

    status = inspect(db, &fresh, error);
    if (status == STORE_OK && fresh)
        return failure_set(error, STORE_IO,
                           "the file holds no database of this program");
    return status;
}
