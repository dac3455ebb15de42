/*
 * What the two files behind the wall share: sqlite.c and wal.c. No other file
 * includes this.
 */
#ifndef STORE_SQLITE_PRIVATE_H
#define STORE_SQLITE_PRIVATE_H

#include "db/sqlite/sqlite.h"

#include <sqlite3.h>

#define SQLITE_QUERIES_MAX 96

struct sqlite_query {
    struct sqlite *db;
    const char *sql;
    sqlite3_stmt *stmt;
    int rc; /* of the last call; the first failure stays */
};

struct sqlite {
    sqlite3 *handle;
    int64_t serial; /* no other connection of this process has it */
    unsigned busy_ms;
    struct backoff backoff;
    void (*on_wait)(void *ctx);
    void *on_wait_ctx;
    int wal_frames;          /* length of the WAL after the last commit */
    sqlite3_int64 wal_bytes; /* of its file, with the room behind the end */
    struct store_error error;
    size_t queries_n;
    struct sqlite_query queries[SQLITE_QUERIES_MAX];
};

/* Has the length of the WAL noted at each commit. */
void wal_watch(struct sqlite *db);

/* Brings to disk what another process has left in the WAL: it may have died
 * between its write and its fsync, and what is read there will be told. */
enum store_status wal_settle(struct sqlite *db);

#endif
