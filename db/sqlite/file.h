/* The file that SQLite's database is. */
#ifndef STORE_SQLITE_FILE_H
#define STORE_SQLITE_FILE_H

#include "db/sql.h"

/* For the engine's table: sql.h says what it does. */
enum store_status sqlite_find(const char *url, enum sql_find how,
                              char whole[SQL_WHERE_BYTES],
                              struct store_error *error);

#endif
