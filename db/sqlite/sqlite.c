/*
 * The engine SQLite: statements and transactions. open.c opens a connection,
 * wal.c looks after the WAL, file.c knows the file and its schema;
 * no other file sees <sqlite3.h>.
 *
 * Waiting
 * -------
 * SQLite only ever tries its locks between processes. A busy handler polls for
 * them (base.h); after that it is STORE_BUSY: don't know yet, never a "no".
 */
#include "db/sqlite/sqlite_private.h"

#include <errno.h>
#include <stdio.h>

/* Four pages: each tree that an order is put into may grow by one. */
#define ROOM_BYTES "16384"

/* Bits of an order's number that are not its bucket's, as in its index. */
#define BUCKET_BITS "9"

/* The buckets ?1 to ?2, the newest one first, but none above what stands between these
 * two; of all that it is joined with, only n >= ?1. */
#define BUCKETS_BELOW "WITH RECURSIVE b (n) AS (SELECT MIN(?2, "
#define BUCKETS_DOWN  ") UNION ALL SELECT n - 1 FROM b WHERE n > ?1) "

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
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
        return STORE_UNFIT;
    case SQLITE_CONSTRAINT:
        if (rc == SQLITE_CONSTRAINT_TRIGGER)
            return STORE_IO; /* somebody's who has changed the schema */
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
    return sql_fail(&db->sql, status, "%s (SQLite code %d)",
                    sqlite3_errmsg(db->handle), rc);
}

/* ---- statements --------------------------------------------------------- */

static const struct sqlite *of(const struct sql *db)
{
    return (const struct sqlite *)db;
}

static sqlite3_stmt *statement(const struct sql_query *query)
{
    return query->stmt;
}

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
        query->code =
            sqlite3_bind_int64(statement(query), at + (int)i, values[i]);
}

static void bind_text(struct sql_query *query, int at, const char *text)
{
    /* A null pointer is bound as NULL. */
    const char *value = text[0] ? text : NULL;

    if (query->code == SQLITE_OK)
        query->code =
            sqlite3_bind_text(statement(query), at, value, -1, SQLITE_STATIC);
}

static bool next(struct sql_query *query)
{
    if (query->code == SQLITE_OK || query->code == SQLITE_ROW)
        query->code = sqlite3_step(statement(query));
    return query->code == SQLITE_ROW;
}

static int64_t column_int(const struct sql_query *query, int column)
{
    return sqlite3_column_int64(statement(query), column);
}

static void column_text(const struct sql_query *query, int column, char *text,
                        size_t size)
{
    const unsigned char *found = sqlite3_column_text(statement(query), column);

    snprintf(text, size, "%s", found ? (const char *)found : "");
}

static void count(struct sqlite *db)
{
    db->sql.changed = sqlite3_changes64(db->handle);
    db->sql.changes = sqlite3_total_changes64(db->handle);
}

static enum store_status end(struct sql_query *query)
{
    struct sqlite *db = (struct sqlite *)query->db;
    enum store_status status = report(db, query->code);

    if (query->stmt)
        sqlite3_reset(statement(query));
    count(db);
    return status;
}

/* The rows of one statement have numbers in a row: there is one writer. */
static enum store_status insert(struct sql_query *query, int64_t numbers[],
                                size_t n)
{
    enum store_status status = sql_finish(query);
    int64_t last = sqlite3_last_insert_rowid(of(query->db)->handle);

    for (size_t i = 0; status == STORE_OK && i < n; i++)
        numbers[i] = last - (int64_t)(n - 1 - i);
    return status;
}

static enum store_status script(struct sql *db, const char *text)
{
    int rc = sqlite3_exec(of(db)->handle, text, NULL, NULL, NULL);

    count((struct sqlite *)db);
    return report((struct sqlite *)db, rc);
}

static enum store_status state(struct sql *db, struct sql_state *found)
{
    found->connection = of(db)->serial;
    found->own = db->changes;
    return sql_first(sql_query(db, "PRAGMA data_version"), &found->others);
}

/* ---- transactions ------------------------------------------------------- */

static enum store_status begin(struct sql *db, bool to_write)
{
    return sql_run(db, to_write ? "BEGIN IMMEDIATE" : "BEGIN");
}

static bool in_transaction(const struct sql *db)
{
    return !sqlite3_get_autocommit(of(db)->handle);
}

/*
 * SQLite rolls a COMMIT back that finds no space, and leaves the transaction
 * open if others read on for too long: nothing was written then. After any
 * other failure it may be on disk or not.
 */
static enum store_status commit(struct sql *db)
{
    enum store_status status = sql_run(db, "COMMIT");

    return status == STORE_OK || status == STORE_BUSY ||
                   status == STORE_NO_SPACE
               ? status
               : STORE_UNKNOWN;
}

static enum store_status rollback(struct sql *db)
{
    return sql_run(db, "ROLLBACK");
}

/* A full disk may have room again once the WAL begins anew. */
static void tend(struct sql *db, bool full)
{
    if (full)
        wal_checkpoint((struct sqlite *)db);
    else
        wal_tend((struct sqlite *)db);
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
                         "(bucket_of_512, product_id, user_id, units) "
                         "VALUES (?1 >> " BUCKET_BITS ", ?2, ?3, ?4) "
                         "ON CONFLICT DO UPDATE SET units = units + ?4 "
                         "WHERE units + ?4 <= ?5",
            .give_units = "UPDATE purchases SET units = units - ?4 "
                          "WHERE bucket_of_512 = ?1 >> " BUCKET_BITS
                          " AND product_id = ?2 AND user_id = ?3 AND "
                          "(SELECT limit_per_user > 0 AND counted "
                          "FROM products WHERE id = ?2)",
            .count_units =
                "INSERT INTO purchases "
                "(bucket_of_512, product_id, user_id, units) "
                "SELECT number >> " BUCKET_BITS ", product_id, user_id, "
                "SUM(quantity) FROM orders "
                "WHERE product_id = ?1 AND state = 0 "
                "GROUP BY number >> " BUCKET_BITS ", user_id",
            .bought =
                "SELECT CASE WHEN counted THEN (" BUCKETS_BELOW
                "(SELECT MAX(bucket_of_512) FROM purchases)" BUCKETS_DOWN
                "SELECT SUM(units) FROM b CROSS JOIN purchases WHERE n >= ?1 "
                "AND bucket_of_512 = n AND product_id = ?3 AND user_id = "
                "?4) " SQL_ELSE_BY_ORDERS,
            .find_key = BUCKETS_BELOW
            "(SELECT MAX(number) FROM orders) >> " BUCKET_BITS BUCKETS_DOWN
            "SELECT number FROM b CROSS JOIN orders WHERE n >= ?1 "
            "AND number >> " BUCKET_BITS " = n AND key = ?3 LIMIT 1",
            .take_room = "INSERT INTO fences (token, name, owner) "
                         "VALUES (1, ?1, hex(zeroblob(" ROOM_BYTES " / 2)))",
            .free_room = "DELETE FROM fences WHERE name > 'readyz-' "
                         "AND name < 'readyz.' AND name <> ?1",
        },
    .scripts = sqlite_scripts,
    .versions = SQLITE_VERSIONS,
    .inspect = sqlite_inspect,
    .set_version = sqlite_set_version,
    .find = sqlite_find,
    .check = sqlite_check,
    .size = sizeof(struct sqlite),
    .open = sqlite_open,
    .close = sqlite_close,
    .begin = begin,
    .commit = commit,
    .rollback = rollback,
    .in_transaction = in_transaction,
    .state = state,
    .tend = tend,
    .script = script,
    .prepare = prepare,
    .bind_ints = bind_ints,
    .bind_text = bind_text,
    .next = next,
    .column_int = column_int,
    .column_text = column_text,
    .end = end,
    .insert = insert,
};
