/*
 * The schema and its version. See sql.h.
 *
 * A version is the one before and a script of the engine's: a new database runs
 * them all, an older one those that it lacks, so that both end up the same. In
 * SQLite that is one transaction: a crash leaves what was there before, or
 * everything. MariaDB commits before each change of a table: there each script
 * can be run again.
 */
#include "db/sql.h"

#include <inttypes.h>

#define BRING_UP_MS 10000 /* in which the others are through with it */

enum store_status schema_inspect(struct sql *db, int64_t *version)
{
    enum store_status status;
    int64_t id = 0, tables = 0;

    *version = 0;
    status = db->engine->inspect(db, &id, version, &tables);
    if (status != STORE_OK)
        return status;
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

static enum store_status bring_up(struct sql *db)
{
    enum store_status status;
    int64_t version = 0;

    status = sql_begin(db);
    if (status != STORE_OK)
        return status;
    status = schema_inspect(db, &version);
    for (; status == STORE_OK && version < db->engine->versions; version++) {
        if (db->engine->scripts[version])
            status = db->engine->script(db, db->engine->scripts[version]);
        if (status == STORE_OK)
            status = db->engine->set_version(db, version + 1);
    }
    if (status == STORE_OK)
        status = sql_commit(db);
    if (status != STORE_OK)
        (void)sql_rollback(db);
    return status;
}

/* Instances that start at once are in each other's way. */
enum store_status schema_bring_up(struct sql *db)
{
    struct backoff pause = {0};
    enum store_status status;

    backoff_begin(&pause, BRING_UP_MS);
    do
        status = bring_up(db);
    while (status != STORE_OK && db->again && backoff_wait(&pause));
    return status;
}

enum store_status schema_check(struct sql *db)
{
    enum store_status status;
    int64_t version = 0;

    status = schema_inspect(db, &version);
    if (status != STORE_OK || version == db->engine->versions)
        return status;
    if (version == 0)
        return sql_fail(db, STORE_IO, "it holds no database of this program");
    return sql_fail(db, STORE_IO,
                    "the database has the older schema version %" PRId64
                    ": start the service once, it will bring it up to "
                    "%" PRId64,
                    version, db->engine->versions);
}
