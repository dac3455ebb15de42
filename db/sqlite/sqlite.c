/*
 * The engine SQLite: connections, statements, transactions, the WAL, and the schema.
 * file.c finds the file; no other one sees <sqlite3.h>.
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
 *
 * The WAL
 * -------
 * It may get long, for a page that is written often is copied once for all those
 * times. When it begins anew it is written over from its beginning; the file stays
 * as long as it is.
 *
 * A commit that makes the file longer is synced in 200 to 300 us here, one that
 * writes over what is there in 130: the file system has no new size to sync. So
 * zeros are written behind the end before they are needed, a piece at a time,
 * since the next commit has to wait until they are on disk. To SQLite they are
 * no frames: their checksums are wrong.
 */
#include "db/sql.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* Four pages: each tree that an order is put into may grow by one. */
#define ROOM_BYTES "16384"

/* Bits of an order's number that are not its bucket's, as in its index. */
#define BUCKET_BITS "6"

/* The buckets ?1 to ?2, the newest one first, but none above what stands between these
 * two; of all that it is joined with, only n >= ?1. */
#define BUCKETS_BELOW "WITH RECURSIVE b (n) AS (SELECT MIN(?2, "
#define BUCKETS_DOWN  ") UNION ALL SELECT n - 1 FROM b WHERE n > ?1) "

/* The newest bucket of ?1 to ?2 that has product ?3 and user ?4: WHAT it says. */
#define NEWEST(what)                                                           \
    "(" BUCKETS_BELOW "(SELECT MAX(bucket_of_64) FROM purchases)" BUCKETS_DOWN \
    "SELECT " what " FROM b CROSS JOIN purchases WHERE n >= ?1 "               \
    "AND bucket_of_64 = n AND product_id = ?3 AND user_id = ?4 "               \
    "ORDER BY n DESC LIMIT 1)"
#define NEWEST_BUCKET NEWEST("n")
#define NEWEST_UNITS  NEWEST("units")

/* In memory, however much it is: a piece that its VFS writes to a file must not have a
 * multiple of 128 KiB, see make_room(), and smaller ones would be many. */
#define SQLITE_UNDO_BYTES (-1)

/* Changed only by the test that has to see an fsync missing. */
#ifndef SQLITE_SYNCHRONOUS
#define SQLITE_SYNCHRONOUS "FULL"
#endif

#define WAL_CHECKPOINT_FRAMES 4000 /* 16 MB */
#define STEPS_TO_LOOK         10000 /* of a reader's statement, some milliseconds */
#define WAL_BUSY_FRAMES       250 /* a WAL worth having room made for it */
#define WAL_FRAME_BYTES       (4096 + 24) /* a page and the frame's head */
#define WAL_ROOM_BYTES        1048576
#define WAL_PIECE_BYTES       65536

struct sqlite {
    struct sql sql;
    sqlite3 *handle;
    unsigned version; /* of the file, after the last commit */
    struct backoff backoff;
    uint64_t end_by_us;      /* of a reader's statements, in a hurry */
    int wal_frames;          /* length of the WAL after the last commit */
    sqlite3_int64 wal_bytes; /* of its file, with the room behind the end */
};

static struct sqlite *of(const struct sql *db)
{
    return (struct sqlite *)db;
}

/* ---- what went wrong ---------------------------------------------------- */

/* SQLITE_FULL is ENOSPC only. A quota or a limit on the size of a file ends in a plain
 * I/O error, and errno has changed since: ask the files themselves. */
static bool out_of_space(const struct sqlite *db, int rc)
{
    const int files[] = {SQLITE_FCNTL_FILE_POINTER,
                         SQLITE_FCNTL_JOURNAL_POINTER};

    /* Only a write can have met a quota; LAST_ERRNO of an older failure must
     * not count for another error. */
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

/* By the lower byte of a code; all others are STORE_IO. */
static const enum store_status meanings[0x100] = {
    [SQLITE_BUSY] = STORE_BUSY,         [SQLITE_LOCKED] = STORE_BUSY,
    [SQLITE_PROTOCOL] = STORE_BUSY,     [SQLITE_FULL] = STORE_NO_SPACE,
    [SQLITE_NOTADB] = STORE_UNFIT,      [SQLITE_CORRUPT] = STORE_UNFIT,
    [SQLITE_CONSTRAINT] = STORE_MISUSE, [SQLITE_MISUSE] = STORE_MISUSE,
    [SQLITE_RANGE] = STORE_MISUSE,      [SQLITE_INTERRUPT] = STORE_CLOSED,
};

static enum store_status report(struct sqlite *db, int rc)
{
    enum store_status status = meanings[rc & 0xff];

    if (rc == SQLITE_OK || rc == SQLITE_ROW || rc == SQLITE_DONE)
        return STORE_OK;
    if (rc == SQLITE_CONSTRAINT_CHECK)
        status = STORE_RANGE;
    else if (out_of_space(db, rc))
        status = STORE_NO_SPACE;
    else if (status == STORE_OK || rc == SQLITE_CONSTRAINT_TRIGGER)
        status = STORE_IO; /* a trigger is of somebody who changed the schema */
    return sql_fail(&db->sql, status, "%s (SQLite code %d)",
                    sqlite3_errmsg(db->handle), rc);
}

/* ---- statements --------------------------------------------------------- */

static void prepare(struct sql_query *query)
{
    sqlite3_stmt *stmt = NULL;

    query->code = SQLITE_OK;
    if (query->stmt)
        return;
    query->code = sqlite3_prepare_v3(of(query->db)->handle, query->text, -1,
                                     SQLITE_PREPARE_PERSISTENT, &stmt, NULL);
    query->stmt = stmt;
}

static void bind_ints(struct sql_query *query, int at, const int64_t values[],
                      size_t n)
{
    for (size_t i = 0; i < n && query->code == SQLITE_OK; i++)
        query->code = sqlite3_bind_int64(query->stmt, at + (int)i, values[i]);
}

static void bind_text(struct sql_query *query, int at, const char *text)
{
    /* A null pointer is bound as NULL. */
    const char *value = text[0] ? text : NULL;

    if (query->code == SQLITE_OK)
        query->code =
            sqlite3_bind_text(query->stmt, at, value, -1, SQLITE_STATIC);
}

static bool next(struct sql_query *query)
{
    /* A step after SQLITE_DONE would run the statement once more. */
    if (query->code == SQLITE_OK || query->code == SQLITE_ROW)
        query->code = sqlite3_step(query->stmt);
    return query->code == SQLITE_ROW;
}

static int64_t column_int(const struct sql_query *query, int column)
{
    return sqlite3_column_int64(query->stmt, column);
}

static void column_text(const struct sql_query *query, int column, char *text,
                        size_t size)
{
    const unsigned char *found = sqlite3_column_text(query->stmt, column);

    snprintf(text, size, "%s", found ? (const char *)found : "");
}

/* Takes over the counts, and whether a transaction is open, after each statement. */
static void note(struct sqlite *db)
{
    db->sql.changed =
        db->sql.status == STORE_OK ? sqlite3_changes64(db->handle) : 0;
    db->sql.changes = sqlite3_total_changes64(db->handle);
    db->sql.in_transaction = !sqlite3_get_autocommit(db->handle);
}

static void end(struct sql_query *query)
{
    /* The failure is noted before the reset, which changes the text of the
     * error. */
    (void)report(of(query->db), query->code);
    if (query->stmt)
        sqlite3_reset(query->stmt);
    note(of(query->db));
}

static enum store_status script(struct sql *db, const char *text)
{
    int rc = sqlite3_exec(of(db)->handle, text, NULL, NULL, NULL);

    note(of(db));
    return report(of(db), rc);
}

/* ---- transactions ------------------------------------------------------- */

static atomic_int_fast64_t epochs; /* of all connections */

/* SQLite counts commits to the file, this connection's and those of others that it has
 * met. False: it does not. */
static bool read_version(struct sqlite *db, unsigned *version)
{
    return sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_DATA_VERSION,
                                version) == SQLITE_OK;
}

static enum store_status begin(struct sql *db, bool to_write)
{
    unsigned version = 0;

    /* A writer takes the lock at once: one that reads first and wants to write
     * then would be refused if another had written in between. */
    sql_run(db, to_write ? "BEGIN IMMEDIATE" : "BEGIN");
    if (db->status != STORE_OK || !to_write)
        return db->status;
    /* Others have committed if the version is not that of the last commit here. */
    if (!read_version(of(db), &version) || version != of(db)->version)
        db->epoch = atomic_fetch_add(&epochs, 1) + 1;
    of(db)->version = version;
    return STORE_OK;
}

/* SQLite rolls a COMMIT back that finds no space, and leaves the transaction open if
 * others read on for too long: nothing was written then. After any other failure it may
 * be on disk or not. */
static enum store_status commit(struct sql *db)
{
    enum store_status status = sql_run(db, "COMMIT");

    /* 0 is no version that a file has: the next begin() takes what it read for
     * another's. */
    if (status == STORE_OK && !read_version(of(db), &of(db)->version))
        of(db)->version = 0;
    return status == STORE_OK || status == STORE_BUSY ||
                   status == STORE_NO_SPACE
               ? status
               : STORE_UNKNOWN;
}

static void rollback(struct sql *db)
{
    (void)script(db, "ROLLBACK"); /* after any failure */
}

/* ---- the WAL -------------------------------------------------------------- */

static int on_wal_commit(void *ctx, sqlite3 *handle, const char *name,
                         int frames)
{
    struct sqlite *db = ctx;

    (void)handle;
    (void)name;
    db->wal_frames = frames;
    return SQLITE_OK;
}

/* In pieces: of the length of a write SQLite's own VFS looks at the lower 17
 * bits only, and takes a piece that has none there for a full disk. On one that is full
 * it does without. */
static void make_room(struct sqlite *db)
{
    static const char zeros[WAL_PIECE_BYTES];
    sqlite3_int64 end = (sqlite3_int64)db->wal_frames * WAL_FRAME_BYTES;
    sqlite3_file *wal = NULL;
    sqlite3_int64 size;

    /* The size that is remembered spares a system call after each commit, as
     * long as there is room. */
    if (end + WAL_ROOM_BYTES / 2 < db->wal_bytes)
        return;
    sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_JOURNAL_POINTER,
                         &wal);
    if (!wal->pMethods || wal->pMethods->xFileSize(wal, &size) != SQLITE_OK)
        return;
    db->wal_bytes = size;
    if (end + WAL_ROOM_BYTES / 2 < size)
        return;
    for (sqlite3_int64 at = size;
         at < size + WAL_ROOM_BYTES && db->wal_bytes == size;
         at += WAL_PIECE_BYTES)
        if (wal->pMethods->xWrite(wal, zeros, WAL_PIECE_BYTES, at) != SQLITE_OK)
            db->wal_bytes = INT64_MAX; /* not again */
}

/* A checkpoint copies the WAL into the database, so that it can begin anew: then a full
 * disk may have room again. It never waits for a reader; what it could not do it does
 * another time. */
static void tend(struct sql *sql, bool full)
{
    struct sqlite *db = of(sql);

    if (full || db->wal_frames >= WAL_CHECKPOINT_FRAMES) {
        db->wal_frames = 0;
        (void)sqlite3_wal_checkpoint_v2(db->handle, NULL,
                                        SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    } else if (db->wal_frames >= WAL_BUSY_FRAMES) {
        make_room(db);
    }
}

/* ---- opening -------------------------------------------------------------- */

static pthread_once_t configured = PTHREAD_ONCE_INIT;

/* Every connection has one thread at a time, so SQLite needs no mutex around it; and
 * its memory statistics would be one mutex for all threads. Fails harmlessly if the
 * program has used SQLite before us. */
static void configure(void)
{
    sqlite3_config(SQLITE_CONFIG_MULTITHREAD);
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    sqlite3_config(SQLITE_CONFIG_STMTJRNL_SPILL, SQLITE_UNDO_BYTES);
}

/* SQLite's busy handler: 0 = give up. COUNT is 0 when a wait begins. */
static int on_busy(void *ctx, int count)
{
    struct sqlite *db = ctx;

    if (db->sql.hasty)
        return 0;
    if (count == 0)
        backoff_begin(&db->backoff, db->sql.options.busy_ms);
    /* The source is asked in the wait, so that orders which run out of time
     * hear of it while another process has the database. */
    if (db->sql.options.on_wait)
        db->sql.options.on_wait(db->sql.options.on_wait_ctx);
    return backoff_wait(&db->backoff);
}

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
    struct backoff backoff = {.hurry = db->options.hurry};
    struct sql_query *query;
    char mode[16];

    backoff_begin(&backoff, db->options.busy_ms);
    do {
        /* The failure of the try before must not stay: SQLite says BUSY as long
         * as anybody has the file open. */
        (void)sql_clear(db);
        query = sql_query(db, sql);
        mode[0] = '\0';
        if (sql_next(query))
            sql_text(query, 0, mode, sizeof(mode));
        sql_end(query);
        if (db->status == STORE_OK ? strcasecmp(mode, wanted) == 0
                                   : db->status != STORE_BUSY)
            return db->status;
    } while (backoff_wait(&backoff));
    return sql_fail(db, STORE_BUSY,
                    "another process reads the database: its journal "
                    "cannot be changed to %s now",
                    wanted);
}

/* The checkpoint brings to disk what another process has left in the WAL: it may have
 * died between its write and its fsync, and what is read there will be told. It syncs
 * the WAL before it copies anything. On a full disk that has been done as well, and
 * what is copied is synced in turn. */
static enum store_status set_up_writer(struct sqlite *db)
{
    int rc;

    /* SQLite opens a file that may not be written as well, and would say so at
     * the first order only. */
    if (sqlite3_db_readonly(db->handle, "main") == 1)
        return sql_fail(&db->sql, STORE_UNFIT,
                        "the database may not be written");
    /* The hook takes the place of SQLite's own, which would checkpoint within a
     * commit, while customers wait. */
    sqlite3_wal_hook(db->handle, on_wal_commit, db);
    if (script(&db->sql, "PRAGMA foreign_keys = ON;"
                         "PRAGMA synchronous = " SQLITE_SYNCHRONOUS ";"
                         "PRAGMA cache_size = -32768;"
                         "PRAGMA journal_size_limit = 67108864") != STORE_OK ||
        choose_journal(&db->sql) != STORE_OK)
        return db->sql.status;
    rc = sqlite3_wal_checkpoint_v2(db->handle, NULL, SQLITE_CHECKPOINT_PASSIVE,
                                   NULL, NULL);
    if (rc == SQLITE_OK || rc == SQLITE_BUSY || rc == SQLITE_FULL)
        return STORE_OK;
    return sql_fail(&db->sql, STORE_IO,
                    "what was written before cannot be brought to disk: %s",
                    sqlite3_errmsg(db->handle));
}

/* An audit of a million orders is not worth a service that does not end. */
static int on_progress(void *ctx)
{
    struct sqlite *db = ctx;

    if (!atomic_load(db->sql.options.hurry))
        return 0;
    if (db->end_by_us == 0)
        db->end_by_us = monotonic_us() + SQL_HURRY_MS * UINT64_C(1000);
    return monotonic_us() >= db->end_by_us;
}

static void close_all(struct sql *db)
{
    for (size_t i = 0; i < db->queries_n; i++)
        /* A connection with statements does not close. */
        sqlite3_finalize(db->queries[i].stmt);
    sqlite3_close(of(db)->handle);
    free(db);
}

/* No checkpoints from a reader, not even from the last to close: see store.h. */
static enum store_status open_it(struct sql *sql)
{
    const struct sql_options *options = &sql->options;
    struct sqlite *db = of(sql);

    pthread_once(&configured, configure);
    db->backoff.hurry = options->hurry;
    if (sqlite3_open_v2(options->where, &db->handle,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK)
        return sql_fail(sql, STORE_IO, "cannot open %s: %s", options->where,
                        sqlite3_errmsg(db->handle));
    sqlite3_extended_result_codes(db->handle, 1);
    sqlite3_busy_handler(db->handle, on_busy, db);
    if (options->writes)
        return set_up_writer(db);
    if (options->hurry)
        sqlite3_progress_handler(db->handle, STEPS_TO_LOOK, on_progress, db);
    sqlite3_db_config(db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    /* A row that breaks a CHECK is for the audit to count: the file is sound. */
    return script(sql, "PRAGMA query_only = ON; PRAGMA wal_autocheckpoint = 0; "
                       "PRAGMA ignore_check_constraints = ON");
}

/* ---- the schema ----------------------------------------------------------- */

#define TEXT(number)  TEXT_(number)
#define TEXT_(number) #number

#define VERSIONS 8

static const char *const scripts[VERSIONS] = {
#include "db/sqlite/schema.sql.inc"
    "PRAGMA application_id = " TEXT(SCHEMA_APPLICATION_ID) ";\n",
#include "db/sqlite/schema_2.sql.inc"
    ,
#include "db/sqlite/schema_3.sql.inc"
    ,
#include "db/sqlite/schema_4.sql.inc"
    ,
#include "db/sqlite/schema_5.sql.inc"
    ,
    NULL,
    NULL, /* to 6 and 7, because version 8 makes their tables anew */
#include "db/sqlite/schema_8.sql.inc"
};

/* PRAGMA application_id says whose file it is, user_version which version. */
static enum store_status inspect(struct sql *db, int64_t *id, int64_t *version,
                                 int64_t *tables)
{
    return sql_first(sql_query(db, "SELECT application_id, user_version, "
                                   "(SELECT COUNT(*) FROM sqlite_schema) "
                                   "FROM pragma_application_id, "
                                   "pragma_user_version"),
                     id, version, tables);
}

static enum store_status set_version(struct sql *db, int64_t version)
{
    char text[64];

    snprintf(text, sizeof(text), "PRAGMA user_version = %" PRId64, version);
    return script(db, text);
}

const struct sql_engine sqlite_engine = {
    .scheme = "sqlite:",
    .words =
        {
            .announce = "INSERT INTO fences (token, name, owner) "
                        "VALUES (?1, ?2, ?3) ON CONFLICT (name) "
                        "DO UPDATE SET token = excluded.token, "
                        "owner = excluded.owner "
                        "WHERE excluded.token > fences.token",
            /* Not "SELECT ... WHERE": SQLite would get ready to undo this
             * statement alone, and copy each page that it changes. */
            .buy_units = "INSERT INTO purchases "
                         "(bucket_of_64, product_id, user_id, units) "
                         "VALUES (?1 >> " BUCKET_BITS ", ?2, ?3, ?4 + ?6) "
                         "ON CONFLICT DO UPDATE SET units = units + ?4 "
                         "WHERE units + ?4 <= ?5",
            .give_units = "UPDATE purchases SET units = units - ?5 "
                          "WHERE bucket_of_64 = " NEWEST_BUCKET
                          " AND product_id = ?3 AND user_id = ?4",
            .count_units =
                "INSERT INTO purchases "
                "(bucket_of_64, product_id, user_id, units) "
                "SELECT MAX(number) >> " BUCKET_BITS ", product_id, user_id, "
                "SUM(CASE state WHEN 0 THEN quantity ELSE 0 END) FROM orders "
                "WHERE product_id = ?1 GROUP BY user_id",
            .bought = "SELECT CASE WHEN counted "
                      "THEN IFNULL(" NEWEST_UNITS ", -1) " SQL_ELSE_BY_ORDERS,
            .check_file = "PRAGMA integrity_check(1)",
            /* SQLite takes the units of the row that has the MAX(). */
            .miscounted = SQL_MISCOUNTED(
                "SELECT product_id, user_id, MAX(bucket_of_64) AS bucket, "
                "units FROM purchases WHERE " SQL_COUNTED
                "GROUP BY product_id, user_id",
                "MAX(number) >> " BUCKET_BITS),
            .find_key = BUCKETS_BELOW
            "(SELECT MAX(number) FROM orders) >> " BUCKET_BITS BUCKETS_DOWN
            "SELECT number FROM b CROSS JOIN orders WHERE n >= ?1 "
            "AND number >> " BUCKET_BITS " = n AND key = ?3 LIMIT 1",
            .take_room = "INSERT INTO fences (token, name, owner) "
                         "VALUES (1, ?1, hex(zeroblob(" ROOM_BYTES " / 2)))",
            .free_room = "DELETE FROM fences WHERE name > 'readyz-' "
                         "AND name < 'readyz.' AND name <> ?1",
        },
    .scripts = scripts,
    .versions = VERSIONS,
    .inspect = inspect,
    .set_version = set_version,
    .find = sqlite_find,
    .size = sizeof(struct sqlite),
    .open = open_it,
    .close = close_all,
    .begin = begin,
    .commit = commit,
    .rollback = rollback,
    .tend = tend,
    .script = script,
    .prepare = prepare,
    .bind_ints = bind_ints,
    .bind_text = bind_text,
    .next = next,
    .column_int = column_int,
    .column_text = column_text,
    .end = end,
};
