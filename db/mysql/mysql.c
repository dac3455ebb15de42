/*
 * The engine MariaDB: statements, transactions, the schema, and the table.
 * connection.c has the connection and what its errors mean.
 *
 * Several instances
 * -----------------
 * Any number of instances may write, on one server or on the nodes of a Galera
 * cluster: nothing that was read is remembered from one transaction to the next. A
 * transaction reads plainly what it can check by the guard of its UPDATE, and FOR
 * UPDATE what it cannot: the fence first of all. A conflict - a deadlock, a failed
 * certification, a guard that found other stock - is tried again.
 *
 * A transaction that is gone
 * --------------------------
 * A Galera node that loses the others has ended a transaction between two of its
 * statements, and told nobody. With autocommit those after that would have been kept,
 * each for itself. So the writer has none, and on a cluster a savepoint, made first, must
 * be there before the COMMIT. A server that is alone tells of what it ends: a batch has
 * five round trips there, with keys six. Several statements in a packet have lost orders.
 *
 * Statements
 * ----------
 * SQLite's ?1, ?2, ... may come in any order and twice; MariaDB has only "?",
 * one after the other. So each marker of the text that is sent remembers whose
 * value it takes. All rows of a result are fetched before the first is looked at: the
 * connection is free then. A text without parameters that is no SELECT is sent as it is.
 */
#include "db/mysql/mysql_private.h"

#include <assert.h>
#include <errmsg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct mysql *of(const struct sql *db)
{
    return (struct mysql *)db;
}

enum { READY, ROW, DONE, FAILED }; /* query->code */

/* query->stmt; NULL: it goes as plain text. */
struct statement {
    MYSQL_STMT *stmt;
    size_t markers_n;
    unsigned short markers[]; /* of each "?": whose value */
};

/* ---- failures ----------------------------------------------------------- */

static void fail(struct sql_query *query, unsigned code, const char *text)
{
    query->code = FAILED;
    (void)mysql_judge(of(query->db), code, text);
}

static void fail_stmt(struct sql_query *query)
{
    MYSQL_STMT *stmt = ((struct statement *)query->stmt)->stmt;

    fail(query, mysql_stmt_errno(stmt), mysql_stmt_error(stmt));
}

/* ---- preparing ---------------------------------------------------------- */

void mysql_forget(struct sql_query *query)
{
    struct statement *it = query->stmt;

    query->stmt = NULL;
    if (it && it->stmt)
        (void)mysql_stmt_close(it->stmt);
    free(it);
}

/* Makes each ?N of the text a "?", and notes N. A plain "?" has one more than the highest
 * before, as in SQLite. */
static void number_markers(char *text, struct statement *it)
{
    char *end = text, *next;
    unsigned number, highest = 0;

    while (*text != '\0') {
        *end++ = *text;
        if (*text++ != '?')
            continue;
        number = (unsigned)strtoul(text, &next, 10);
        if (next == text)
            number = highest + 1;
        text = next;
        if (number > highest)
            highest = number;
        it->markers[it->markers_n++] = (unsigned short)(number - 1);
    }
    *end = '\0';
}

static void make(struct sql_query *query)
{
    struct mysql *db = of(query->db);
    size_t size = strlen(query->text) + 1;
    struct statement *it =
        calloc(1, sizeof(*it) + size * (sizeof(*it->markers) + 1));
    char *sent;

    query->stmt = it;
    if (!it || !(it->stmt = mysql_stmt_init(db->handle))) {
        fail(query, CR_OUT_OF_MEMORY, "out of memory");
    } else {
        /* The text has fewer markers than bytes: so there is room for all of
         * them before it, in one piece of memory. */
        sent = memcpy(it->markers + size, query->text, size);
        number_markers(sent, it);
        if (MYSQL_CALL(db, int, mysql_stmt_prepare, it->stmt, sent,
                       strlen(sent)))
            fail_stmt(query);
    }
    /* A half of a statement must not be found again by the next call. */
    if (query->code == FAILED)
        mysql_forget(query);
}

/* A reader that lost its connection gets another one by asking on. A writer does
 * not: it would go on in the middle of a transaction that is gone. */
static void prepare(struct sql_query *query)
{
    struct mysql *db = of(query->db);
    bool is_plain =
        !strchr(query->text, '?') && strncmp(query->text, "SELECT", 6) != 0;

    query->code = READY;
    if (!db->sql.options.writes && !db->sql.in_transaction &&
        mysql_connect(db) != STORE_OK)
        query->code = FAILED;
    else if (!db->handle)
        fail(query, CR_SERVER_GONE_ERROR, "the connection was lost");
    else if (!query->stmt && !is_plain)
        make(query);
}

/* ---- values ------------------------------------------------------------- */

/* They are the connection's: a query runs before the next one is bound. */
static void bind_ints(struct sql_query *query, int at, const int64_t values[],
                      size_t n)
{
    struct mysql *db = of(query->db);
    size_t to = (size_t)at - 1;

    assert(to + n <= MYSQL_VALUES);
    for (size_t i = 0; i < n; i++, to++) {
        db->numbers[to] = values[i];
        db->values[to] = (MYSQL_BIND){.buffer_type = MYSQL_TYPE_LONGLONG,
                                      .buffer = &db->numbers[to]};
    }
}

static void bind_text(struct sql_query *query, int at, const char *text)
{
    assert(at <= MYSQL_VALUES);
    of(query->db)->values[at - 1] = (MYSQL_BIND){
        .buffer_type = text[0] ? MYSQL_TYPE_STRING : MYSQL_TYPE_NULL,
        .buffer = (char *)text,
        .buffer_length = strlen(text)};
}

/* ---- running ------------------------------------------------------------ */

/* A statement that failed after its first rows must go: libmariadb believes that more
 * of them come, and would wait for them if it were executed again, or its result freed. */
static void run(struct sql_query *query)
{
    struct statement *it = query->stmt;
    struct mysql *db = of(query->db);

    query->code = DONE;
    if (!it) {
        if (mysql_plain(db, query->text) != STORE_OK)
            query->code = FAILED;
    } else {
        /* A value whose marker stands twice is sent twice. */
        for (size_t i = 0; i < it->markers_n; i++)
            db->sent[i] = db->values[it->markers[i]];
        if (mysql_stmt_bind_param(it->stmt, db->sent) ||
            MYSQL_CALL(db, int, mysql_stmt_execute, it->stmt)) {
            fail_stmt(query);
        } else if (mysql_stmt_field_count(it->stmt) > 0) {
            query->code = ROW;
            if (MYSQL_CALL(db, int, mysql_stmt_store_result, it->stmt)) {
                fail_stmt(query);
                mysql_forget(query);
            }
        }
    }
    /* The counts are those of a statement without rows: after a SELECT the
     * library tells how many rows it has. */
    if (query->code == DONE) {
        db->sql.changed = (int64_t)mysql_affected_rows(db->handle);
        db->sql.changes += db->sql.changed;
    }
}

static bool next(struct sql_query *query)
{
    int rc;

    if (query->code == READY)
        run(query);
    if (query->code != ROW)
        return false;
    rc = mysql_stmt_fetch(((const struct statement *)query->stmt)->stmt);
    if (rc == MYSQL_NO_DATA)
        query->code = DONE;
    else if (rc != 0)
        fail_stmt(query);
    return query->code == ROW;
}

/* Every column is taken as text: a sum is a decimal to the server, a constant has a
 * type of its own. */
static void column_text(const struct sql_query *query, int column, char *text,
                        size_t size)
{
    const struct statement *it = query->stmt;
    unsigned long length = 0;
    my_bool is_null = 1;
    MYSQL_BIND bind = {.buffer_type = MYSQL_TYPE_STRING,
                       .buffer = text,
                       .buffer_length = size - 1,
                       .length = &length,
                       .is_null = &is_null};

    (void)mysql_stmt_fetch_column(it->stmt, &bind, (unsigned)column, 0);
    text[is_null ? 0 : length < size ? length : size - 1] = '\0';
}

/* A sum of doubles may have an exponent; like SQLite, more than there is room for is
 * the most. */
static int64_t column_int(const struct sql_query *query, int column)
{
    char text[32], *end;
    int64_t number;
    double real;

    column_text(query, column, text, sizeof(text));
    number = strtoll(text, &end, 10);
    if (*end == '\0')
        return number;
    real = strtod(text, NULL);
    return real < 0x1p63 ? (int64_t)real : INT64_MAX;
}

static void end(struct sql_query *query)
{
    struct statement *it = query->stmt;

    if (it)
        (void)mysql_stmt_free_result(it->stmt);
}

/* ---- transactions ------------------------------------------------------- */

/* A connection may be in one that nobody here knows of, because a server may
 * refuse a ROLLBACK: each answer of a server says so. */
static enum store_status begin(struct sql *db, bool to_write)
{
    const MYSQL *handle = of(db)->handle;

    if (handle && (db->in_transaction ||
                   (handle->server_status & SERVER_STATUS_IN_TRANS)))
        mysql_drop_connection(of(db));
    if (mysql_connect(of(db)) != STORE_OK)
        return db->status;
    db->again = db->at_once = false;
    if (!to_write)
        (void)mysql_plain(of(db), "START TRANSACTION WITH CONSISTENT "
                                  "SNAPSHOT, READ ONLY");
    else if (db->cluster)
        (void)mysql_plain(of(db), "SAVEPOINT whole");
    db->in_transaction = db->status == STORE_OK;
    return db->status;
}

/* A COMMIT that failed in certification, or did not get a lock, has a clear answer. */
static enum store_status commit(struct sql *db)
{
    enum store_status status;

    if (!of(db)->handle)
        return sql_fail(db, STORE_IO, "the connection was lost");
    if (db->cluster &&
        mysql_plain(of(db), "RELEASE SAVEPOINT whole") != STORE_OK)
        return db->status;
    status = mysql_plain(of(db), "COMMIT");
    db->in_transaction &= status != STORE_OK;
    if (status == STORE_OK || status == STORE_BUSY)
        return status;
    /* The COMMIT may have been carried out: to run the batch again without a
     * look would sell twice. */
    db->again = false;
    mysql_drop_connection(of(db));
    return STORE_UNKNOWN;
}

/* A ROLLBACK that is refused leaves the transaction open: a node out of sync does so. */
static void rollback(struct sql *db)
{
    if (mysql_plain(of(db), "ROLLBACK") != STORE_OK)
        mysql_drop_connection(of(db));
    db->in_transaction = false;
}

/* ---- the schema --------------------------------------------------------- */

/* The first makes three; after a crash in between the rest is counted up. */
static const char *const scripts[] = {
#include "db/mysql/schema.sql.inc"
    , NULL, NULL,
#include "db/mysql/schema_4.sql.inc"
    ,
#include "db/mysql/schema_5.sql.inc"
    , NULL, /* version 6 is SQLite's */
};

/* A change of a table commits, and so the transaction begins anew. */
static enum store_status script(struct sql *db, const char *text)
{
    enum store_status status = STORE_OK;
    const char *end;

    for (; status == STORE_OK && (end = strstr(text, ";\n")); text = end + 2)
        status = mysql_plain(of(db), text);
    if (status == STORE_OK && db->cluster)
        status = mysql_plain(of(db), "SAVEPOINT whole");
    return status;
}

static enum store_status inspect(struct sql *db, int64_t *id, int64_t *version,
                                 int64_t *tables)
{
    int64_t ours = 0;

    sql_first(sql_query(db,
                        "SELECT COUNT(*), IFNULL(SUM(table_name = 'stockade'), "
                        "0) FROM information_schema.tables "
                        "WHERE table_schema = DATABASE()"),
              tables, &ours);
    if (ours == 0)
        return db->status;
    *id = SCHEMA_APPLICATION_ID; /* unless it says otherwise */
    return sql_first(sql_query(db, "SELECT id, version FROM stockade"), id,
                     version);
}

/* Several instances may bring it up at once: none takes another one's step back. */
static enum store_status set_version(struct sql *db, int64_t version)
{
    return sql_run(db, "UPDATE stockade SET version = GREATEST(version, ?1)",
                   version);
}

/* ---- the database as a whole -------------------------------------------- */

static enum store_status find(const char *url, enum sql_find how,
                              char where[SQL_WHERE_BYTES],
                              struct store_error *error)
{
    (void)how; /* a server's database is not made by us */
    return snprintf(where, SQL_WHERE_BYTES, "%s", url) < SQL_WHERE_BYTES
               ? STORE_OK
               : failure_set(error, STORE_MISUSE, "the URL is too long");
}

const struct sql_engine mysql_engine = {
    .scheme = "mysql:",
    .far = true,
    .words =
        {
            /* Assigned from left to right: the token last. */
            .announce =
                "INSERT INTO fences (token, name, owner) VALUES (?1, ?2, ?3) "
                "ON DUPLICATE KEY UPDATE "
                "owner = IF(VALUES(token) > token, VALUES(owner), owner), "
                "token = GREATEST(token, VALUES(token))",
            /* Waits for a transaction that has written it, or "no" is not sure. */
            .find_key = "SELECT number FROM orders WHERE `key` = ?3 "
                        "LOCK IN SHARE MODE",
            .buy_units = "INSERT INTO purchases (product_id, user_id, units) "
                         "VALUES (?2, ?3, ?4) ON DUPLICATE KEY UPDATE "
                         "units = IF(units + ?4 <= ?5, units + ?4, units)",
            .give_units = "UPDATE purchases SET units = units - ?5 "
                          "WHERE product_id = ?3 AND user_id = ?4 AND "
                          "(SELECT limit_per_user > 0 AND counted "
                          "FROM products WHERE id = ?3)",
            .count_units = "INSERT INTO purchases (product_id, user_id, units) "
                           "SELECT product_id, user_id, SUM(quantity) "
                           "FROM orders WHERE product_id = ?1 AND state = 0 "
                           "GROUP BY user_id",
            .bought =
                "SELECT CASE WHEN counted THEN (SELECT units FROM purchases "
                "WHERE product_id = ?3 AND user_id = ?4) " SQL_ELSE_BY_ORDERS,
            .miscounted =
                SQL_MISCOUNTED("SELECT product_id, user_id, 0 AS bucket, units "
                               "FROM purchases WHERE " SQL_COUNTED,
                               "0"),
            .take_room = "INSERT INTO fences (token, name, owner) "
                         "VALUES (1, ?1, REPEAT('-', 512))",
            .free_room = "DELETE FROM fences WHERE name = ?1",
            /* Without the session's time zone, which has an hour twice a year. */
            .clock = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', "
                     "UTC_TIMESTAMP(3)) DIV 1000",
            .lasts = "SELECT @@innodb_flush_log_at_trx_commit = 3 OR "
                     "(@@innodb_flush_log_at_trx_commit = 1 AND "
                     "(NOT @@log_bin OR @@sync_binlog = 1))",
        },
    .scripts = scripts,
    .versions = sizeof(scripts) / sizeof(scripts[0]),
    .inspect = inspect,
    .set_version = set_version,
    .find = find,
    .size = sizeof(struct mysql),
    .open = mysql_open,
    .close = mysql_close_all,
    .begin = begin,
    .commit = commit,
    .rollback = rollback,
    .script = script,
    .prepare = prepare,
    .bind_ints = bind_ints,
    .bind_text = bind_text,
    .next = next,
    .column_int = column_int,
    .column_text = column_text,
    .end = end,
};
