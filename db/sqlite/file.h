/*
 * The file that SQLite's database is: its name, its fitness, its schema. Functions of
 * the engine's table; sql.h says what they do.
 */
#ifndef STORE_SQLITE_FILE_H
#define STORE_SQLITE_FILE_H

#include "db/sql.h"

enum store_status sqlite_find(const char *url, bool create,
                              char where[SQL_WHERE_BYTES],
                              struct store_error *error);
enum store_status sqlite_check(const char *url, char where[SQL_WHERE_BYTES],
                               struct store_error *error);

#define SQLITE_VERSIONS 7

extern const char *const sqlite_scripts[SQLITE_VERSIONS];

enum store_status sqlite_inspect(struct sql *db, int64_t *id, int64_t *version,
                                 int64_t *tables);
enum store_status sqlite_set_version(struct sql *db, int64_t version);

#endif
