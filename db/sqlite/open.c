/*
 * Opening SQLite's database. See sqlite.c.
 *
 * Durability
 * ----------
 * synchronous=FULL: WAL commits sync the WAL. In shared mode the journal is
 * kept and its header overwritten (PERSIST), and that is synced too before
 * COMMIT returns. With journal_mode=DELETE it would not do: the deletion may
 * be undone by a power cut, and the order with it, unless synchronous=EXTRA
 * syncs the folder as well, at the price of another fsync.
 */
#include "db/sqlite/sqlite_private.h"

#include <pthread.h>
#include <stdlib.h>
#include <strings.h>

/* In memory, however much it is: a piece that its VFS writes to a file must not have a
 * multiple of 128 KiB, see wal.c, and smaller ones would be many. */
#define SQLITE_UNDO_BYTES (-1)

/* Changed only by the test that has to see an fsync missing. */
#ifndef SQLITE_SYNCHRONOUS
#define SQLITE_SYNCHRONOUS "FULL"
#endif

static pthread_once_t configured = PTHREAD_ONCE_INIT;
static atomic_int_fast64_t serials;

/*
 * Every connection has one thread at a time, so SQLite needs no mutex around
 * it; and its memory statistics would be one mutex for all threads. Fails
 * harmlessly if the program has used SQLite before us.
 */
static void configure(void)
{
    sqlite3_config(SQLITE_CONFIG_MULTITHREAD);
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    sqlite3_config(SQLITE_CONFIG_STMTJRNL_SPILL, SQLITE_UNDO_BYTES);
}

/* ---- waiting for another process ---------------------------------------- */

/* SQLite's busy handler: 0 = give up. COUNT is 0 when a wait begins. */
static int on_busy(void *ctx, int count)
{
    struct sqlite *db = ctx;

    if (db->sql.hasty)
        return 0;
    if (count == 0)
        backoff_begin(&db->backoff, db->sql.options.busy_ms);
    if (db->sql.options.on_wait)
        db->sql.options.on_wait(db->sql.options.on_wait_ctx);
    return backoff_wait(&db->backoff);
}

/* ---- the connection ------------------------------------------------------ */

/*
 * A WAL while this process is the only one that writes, a rollback journal when
 * several do: see store.h. lockfile.h sees to it that the two never meet.
 *
 * Changing between WAL and rollback journal needs the file for itself
 * and does not ask the busy handler, so we ask again ourselves: an audit may be
 * reading.
 */
static enum store_status choose_journal(struct sql *db)
{
    const char *wanted = db->options.shared ? "persist" : "wal";
    const char *sql = db->options.shared ? "PRAGMA journal_mode = PERSIST"
                                         : "PRAGMA journal_mode = WAL";
    enum store_status status;
    struct backoff backoff = {.hurry = db->options.hurry};
    struct sql_query *query;
    char mode[16];

    backoff_begin(&backoff, db->options.busy_ms);
    do {
        query = sql_query(db, sql);
        mode[0] = '\0';
        if (sql_next(query))
            sql_text(query, 0, mode, sizeof(mode));
        status = sql_end(query);
        if (status == STORE_OK && strcasecmp(mode, wanted) == 0)
            return STORE_OK;
        if (status != STORE_OK && status != STORE_BUSY)
            return status;
    } while (backoff_wait(&backoff));
    return sql_fail(db, STORE_BUSY,
                    "another process reads the database: its journal "
                    "cannot be changed to %s now",
                    wanted);
}

static enum store_status set_up_writer(struct sqlite *db)
{
    enum store_status status;

    if (sqlite3_db_readonly(db->handle, "main") == 1)
        return sql_fail(&db->sql, STORE_UNFIT,
                        "the database may not be written");
    wal_watch(db);
    status = sqlite_engine.script(&db->sql,
                                  "PRAGMA foreign_keys = ON;"
                                  "PRAGMA synchronous = " SQLITE_SYNCHRONOUS ";"
                                  "PRAGMA cache_size = -32768;"
                                  "PRAGMA journal_size_limit = 67108864");
    if (status == STORE_OK)
        status = choose_journal(&db->sql);
    if (status == STORE_OK)
        status = wal_settle(db);
    return status;
}

/* No checkpoints from here, not even from the last to close: see store.h. */
static enum store_status set_up_reader(struct sqlite *db)
{
    sqlite3_db_config(db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    return sqlite_engine.script(
        &db->sql, "PRAGMA query_only = ON; PRAGMA wal_autocheckpoint = 0");
}

void sqlite_close(struct sql *db)
{
    for (size_t i = 0; i < db->queries_n; i++)
        sqlite3_finalize(db->queries[i].stmt);
    sqlite3_close(((struct sqlite *)db)->handle);
    free(db);
}

enum store_status sqlite_open(struct sql *sql)
{
    static const int flags[] = {
        [SQL_ROLE_WRITER] = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
        [SQL_ROLE_READER] = SQLITE_OPEN_READONLY,
        [SQL_ROLE_RESCUER] = SQLITE_OPEN_READWRITE,
    };
    const struct sql_options *options = &sql->options;
    struct sqlite *db = (struct sqlite *)sql;

    pthread_once(&configured, configure);
    db->serial = atomic_fetch_add(&serials, 1);
    db->backoff.hurry = options->hurry;
    if (sqlite3_open_v2(options->where, &db->handle,
                        flags[options->role] | SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK)
        return sql_fail(sql, STORE_IO, "cannot open %s: %s", options->where,
                        sqlite3_errmsg(db->handle));
    sqlite3_extended_result_codes(db->handle, 1);
    sqlite3_busy_handler(db->handle, on_busy, db);
    return options->role == SQL_ROLE_WRITER ? set_up_writer(db)
                                            : set_up_reader(db);
}
