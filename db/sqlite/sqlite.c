/*
 * The wall around SQLite: connections, statements, transactions. wal.c looks
 * after the WAL; no other file sees <sqlite3.h>.
 *
 * Waiting
 * -------
 * SQLite only ever tries its locks between processes. A busy handler polls for
 * them (base.h); after that it is STORE_BUSY: don't know yet, never a "no".
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

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define SQLITE_UNDO_BYTES (16 * 1024 * 1024) /* more: in a file */

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

/* ---- what went wrong ---------------------------------------------------- */

/*
 * SQLITE_FULL is ENOSPC only. A quota or a limit on the size of a file ends in
 * a plain I/O error, and errno has changed since: ask the files themselves.
 */
static bool out_of_space(const struct sqlite *db, int rc)
{
    const int files[] = {SQLITE_FCNTL_FILE_POINTER,
                         SQLITE_FCNTL_JOURNAL_POINTER};

    if (rc != SQLITE_IOERR_WRITE)
        return false;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        sqlite3_file *file = NULL;
        int error = 0;

        sqlite3_file_control(db->handle, "main", files[i], &file);
        if (file && file->pMethods)
            file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &error);
        if (error == EDQUOT || error == EFBIG)
            return true;
    }
    return false;
}

static enum store_status status_of(const struct sqlite *db, int rc)
{
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return STORE_OK;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
        return STORE_BUSY;
    case SQLITE_FULL:
        return STORE_NO_SPACE;
    case SQLITE_IOERR:
        return out_of_space(db, rc) ? STORE_NO_SPACE : STORE_IO;
    case SQLITE_CONSTRAINT:
        return rc == SQLITE_CONSTRAINT_CHECK ? STORE_RANGE : STORE_MISUSE;
    case SQLITE_MISUSE:
    case SQLITE_RANGE:
        return STORE_MISUSE;
    default:
        return STORE_IO;
    }
}

static enum store_status report(struct sqlite *db, int rc)
{
    enum store_status status = status_of(db, rc);

    if (status == STORE_OK)
        return status;
    return sqlite_fail(db, status, "%s (SQLite code %d)",
                       sqlite3_errmsg(db->handle), rc);
}

struct store_error *sqlite_error(struct sqlite *db)
{
    return &db->error;
}

/* ---- waiting for another process ---------------------------------------- */

/* SQLite's busy handler: 0 = give up. COUNT is 0 when a wait begins. */
static int on_busy(void *ctx, int count)
{
    struct sqlite *db = ctx;

    if (count == 0)
        backoff_begin(&db->backoff, db->busy_ms);
    if (db->on_wait)
        db->on_wait(db->on_wait_ctx);
    return backoff_wait(&db->backoff);
}

/* ---- statements --------------------------------------------------------- */

struct sqlite_query *sqlite_query_ints(struct sqlite *db, const char *sql,
                                       const int64_t values[], size_t n)
{
    struct sqlite_query *query = db->queries;

    while (query < db->queries + db->queries_n && query->sql != sql)
        query++;
    if (query == db->queries + db->queries_n) {
        assert(db->queries_n < SQLITE_QUERIES_MAX);
        db->queries_n++;
        *query = (struct sqlite_query){.db = db, .sql = sql};
    }
    query->rc = SQLITE_OK;
    if (!query->stmt)
        query->rc = sqlite3_prepare_v3(
            db->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, &query->stmt, NULL);
    sqlite_bind_ints(query, 1, values + 1, n - 1);
    return query;
}

void sqlite_bind_ints(struct sqlite_query *query, int at,
                      const int64_t values[], size_t n)
{
    for (size_t i = 0; i < n && query->rc == SQLITE_OK; i++)
        query->rc = sqlite3_bind_int64(query->stmt, at + (int)i, values[i]);
}

void sqlite_bind_text(struct sqlite_query *query, int at, const char *text)
{
    /* A null pointer is bound as NULL. */
    const char *value = text[0] ? text : NULL;

    if (query->rc == SQLITE_OK)
        query->rc =
            sqlite3_bind_text(query->stmt, at, value, -1, SQLITE_STATIC);
}

bool sqlite_next(struct sqlite_query *query)
{
    if (query->rc == SQLITE_OK || query->rc == SQLITE_ROW)
        query->rc = sqlite3_step(query->stmt);
    return query->rc == SQLITE_ROW;
}

int64_t sqlite_int(const struct sqlite_query *query, int column)
{
    return sqlite3_column_int64(query->stmt, column);
}

void sqlite_text(const struct sqlite_query *query, int column, char *text,
                 size_t size)
{
    const unsigned char *found = sqlite3_column_text(query->stmt, column);

    snprintf(text, size, "%s", found ? (const char *)found : "");
}

enum store_status sqlite_end(struct sqlite_query *query)
{
    enum store_status status = report(query->db, query->rc);

    if (query->stmt)
        sqlite3_reset(query->stmt);
    return status;
}

enum store_status sqlite_finish(struct sqlite_query *query)
{
    while (sqlite_next(query))
        continue;
    return sqlite_end(query);
}

enum store_status sqlite_first_ints(struct sqlite_query *query,
                                    int64_t *const values[], size_t n)
{
    if (sqlite_next(query))
        for (size_t i = 0; i < n; i++)
            *values[i] = sqlite_int(query, (int)i);
    return sqlite_end(query);
}

int64_t sqlite_changed(const struct sqlite *db)
{
    return sqlite3_changes64(db->handle);
}

enum store_status sqlite_script(struct sqlite *db, const char *sql)
{
    return report(db, sqlite3_exec(db->handle, sql, NULL, NULL, NULL));
}

int64_t sqlite_last_rowid(const struct sqlite *db)
{
    return sqlite3_last_insert_rowid(db->handle);
}

int64_t sqlite_changes(const struct sqlite *db)
{
    return sqlite3_total_changes64(db->handle);
}

enum store_status sqlite_state(struct sqlite *db, struct sqlite_state *state)
{
    state->connection = db->serial;
    state->own = sqlite_changes(db);
    return sqlite_first(sqlite_query(db, "PRAGMA data_version"),
                        &state->others);
}

/* ---- transactions ------------------------------------------------------- */

bool sqlite_in_transaction(const struct sqlite *db)
{
    return !sqlite3_get_autocommit(db->handle);
}

bool sqlite_rollback(struct sqlite *db)
{
    if (sqlite_in_transaction(db))
        (void)sqlite_run(db, "ROLLBACK");
    return !sqlite_in_transaction(db);
}

/* ---- opening ------------------------------------------------------------ */

/*
 * A WAL while this process is the only one that writes, a rollback journal when
 * several do: see store.h. lockfile.h sees to it that the two never meet.
 *
 * Changing between WAL and rollback journal needs the file for itself
 * and does not ask the busy handler, so we ask again ourselves: an audit may be
 * reading.
 */
static enum store_status choose_journal(struct sqlite *db,
                                        const struct sqlite_options *options)
{
    const char *wanted = options->shared ? "persist" : "wal";
    const char *sql = options->shared ? "PRAGMA journal_mode = PERSIST"
                                      : "PRAGMA journal_mode = WAL";
    enum store_status status;
    struct backoff backoff = {.hurry = options->hurry};
    struct sqlite_query *query;
    char mode[16];

    backoff_begin(&backoff, options->busy_ms);
    do {
        query = sqlite_query(db, sql);
        mode[0] = '\0';
        if (sqlite_next(query))
            sqlite_text(query, 0, mode, sizeof(mode));
        status = sqlite_end(query);
        if (status == STORE_OK && strcasecmp(mode, wanted) == 0)
            return STORE_OK;
        if (status != STORE_OK && status != STORE_BUSY)
            return status;
    } while (backoff_wait(&backoff));
    return sqlite_fail(db, STORE_BUSY,
                       "another process reads the database: its journal "
                       "cannot be changed to %s now",
                       wanted);
}

static enum store_status set_up_writer(struct sqlite *db,
                                       const struct sqlite_options *options)
{
    enum store_status status;

    if (sqlite3_db_readonly(db->handle, "main") == 1)
        return sqlite_fail(db, STORE_IO, "the database may not be written");
    wal_watch(db);
    status = sqlite_script(db, "PRAGMA foreign_keys = ON;"
                               "PRAGMA synchronous = " SQLITE_SYNCHRONOUS ";"
                               "PRAGMA cache_size = -32768;"
                               "PRAGMA journal_size_limit = 67108864");
    if (status == STORE_OK)
        status = choose_journal(db, options);
    if (status == STORE_OK)
        status = wal_settle(db);
    return status;
}

/* No checkpoints from here, not even from the last to close: see store.h. */
static enum store_status set_up_reader(struct sqlite *db)
{
    sqlite3_db_config(db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    return sqlite_script(
        db, "PRAGMA query_only = ON; PRAGMA wal_autocheckpoint = 0");
}

enum store_status sqlite_open(const struct sqlite_options *options,
                              struct sqlite **db, struct store_error *error)
{
    static const int flags[] = {
        [SQLITE_ROLE_WRITER] = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
        [SQLITE_ROLE_READER] = SQLITE_OPEN_READONLY,
        [SQLITE_ROLE_RESCUER] = SQLITE_OPEN_READWRITE,
    };
    struct sqlite *opened;
    enum store_status status;

    pthread_once(&configured, configure);
    opened = calloc(1, sizeof(*opened));
    if (!opened)
        return failure_set(error, STORE_IO, "out of memory");
    opened->serial = atomic_fetch_add(&serials, 1);
    opened->busy_ms = options->busy_ms;
    opened->backoff.hurry = options->hurry;
    opened->on_wait = options->on_wait;
    opened->on_wait_ctx = options->on_wait_ctx;
    if (sqlite3_open_v2(options->path, &opened->handle,
                        flags[options->role] | SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK) {
        status = sqlite_fail(opened, STORE_IO, "cannot open %s: %s",
                             options->path, sqlite3_errmsg(opened->handle));
        goto err_after_alloc;
    }
    sqlite3_extended_result_codes(opened->handle, 1);
    sqlite3_busy_handler(opened->handle, on_busy, opened);
    if (options->role == SQLITE_ROLE_WRITER)
        status = set_up_writer(opened, options);
    else
        status = set_up_reader(opened);
    if (status != STORE_OK)
        goto err_after_alloc;
    *db = opened;
    return STORE_OK;

err_after_alloc:
    failure_text(error, "%s", opened->error.text);
    sqlite_close(opened);
    return status;
}

void sqlite_close(struct sqlite *db)
{
    if (!db)
        return;
    for (size_t i = 0; i < db->queries_n; i++)
        sqlite3_finalize(db->queries[i].stmt);
    sqlite3_close(db->handle);
    free(db);
}
