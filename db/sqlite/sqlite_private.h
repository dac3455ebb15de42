/*
 * For the files of the engine SQLite. No other file includes this, or sees
 * <sqlite3.h>.
 */
#ifndef STORE_SQLITE_PRIVATE_H
#define STORE_SQLITE_PRIVATE_H

#include "db/sql.h"

#include <sqlite3.h>

struct sqlite {
    struct sql sql;
    sqlite3 *handle;
    int64_t serial; /* no other connection of this process has it */
    struct backoff backoff;
    int wal_frames;          /* length of the WAL after the last commit */
    sqlite3_int64 wal_bytes; /* of its file, with the room behind the end */
};

/* ---- open.c, wal.c -------------------------------------------------------- */

enum store_status sqlite_open(struct sql *db);
void sqlite_close(struct sql *db);

/* Has the length of the WAL noted at each commit. */
void wal_watch(struct sqlite *db);

/* Brings to disk what another process has left in the WAL: it may have died
 * between its write and its fsync, and what is read there will be told. */
enum store_status wal_settle(struct sqlite *db);

/*
 * Copies the WAL into the database, so that it can begin anew. Never waits for
 * a reader; what it could not do it does another time.
 */
void wal_checkpoint(struct sqlite *db);

/* Keeps the WAL in shape, between two transactions: copies it when it has grown
 * long, and makes room behind its end. */
void wal_tend(struct sqlite *db);

/* ---- file.c --------------------------------------------------------------- */

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
