/*
 * The schema's scripts for SQLite, and where the version stands: PRAGMA
 * application_id says whose file it is, user_version which schema it has.
 */
#include "db/sqlite/sqlite_private.h"

#include <inttypes.h>
#include <stdio.h>

#define TEXT(number)  TEXT_(number)
#define TEXT_(number) #number

static const char version_1[] =
#include "db/sqlite/schema.sql.inc"
    "PRAGMA application_id = " TEXT(SCHEMA_APPLICATION_ID) ";\n";

static const char version_2[] =
#include "db/sqlite/schema_2.sql.inc"
    ;

static const char version_3[] =
#include "db/sqlite/schema_3.sql.inc"
    ;

static const char version_4[] =
#include "db/sqlite/schema_4.sql.inc"
    ;

const char *const sqlite_scripts[SQLITE_VERSIONS] = {version_1, version_2,
                                                     version_3, version_4};

enum store_status sqlite_inspect(struct sql *db, int64_t *id, int64_t *version,
                                 int64_t *tables)
{
    return sql_first(sql_query(db, "SELECT application_id, user_version, "
                                   "(SELECT COUNT(*) FROM sqlite_schema) "
                                   "FROM pragma_application_id, "
                                   "pragma_user_version"),
                     id, version, tables);
}

enum store_status sqlite_set_version(struct sql *db, int64_t version)
{
    char text[64];

    snprintf(text, sizeof(text), "PRAGMA user_version = %" PRId64, version);
    return sql_script(db, text);
}
