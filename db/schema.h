/*
 * The schema: is this database ours, and of a version we know?
 */
#ifndef STORE_SCHEMA_H
#define STORE_SCHEMA_H

#include "db/sqlite.h"

/*
 * For the writer that has just opened the database: creates the schema in an
 * empty one, brings an older one up, and refuses a foreign or newer one.
 */
enum store_status schema_bring_up(struct sqlite *db, struct store_error *error);

/* For a reader: refuses a database that is not ours, or of another version. */
enum store_status schema_check(struct sqlite *db, struct store_error *error);

#endif
