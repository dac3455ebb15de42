/*
 * The engine MariaDB: statements, transactions, the schema, and the table.
 * connection.c has the connection and what its errors mean.
 *
 * Several instances
 * -----------------
 * There is no exclusive use: any number of instances may write, on one server or
 * on the nodes of a Galera cluster. Nothing that was read is remembered from one
 * transaction to the next. A transaction reads plainly what it can check by the
 * guard of its UPDATE, and FOR UPDATE what it cannot: the fence first of all. A
 * conflict - a deadlock, a certification that failed, a guard that found other
 * stock - is tried again.
 *
 * One statement a packet: several in one lost acknowledged orders on Galera.
 *
 * A transaction that is gone
 * --------------------------
 * A Galera node that loses the others has ended a transaction between two of its
 * statements, and told nobody. With autocommit the statements after that would
 * have been kept, each for itself. So the writer has none: what follows becomes a
 * new transaction, and that has no savepoint. A transaction begins with one, which
 * has to be there before the COMMIT. Those are two of a small batch's eight round
 * trips, and 4 % of its time; RELEASE and COMMIT as one statement take as long.
 *
 * Statements
 * ----------
 * The values stand in the text that is sent, in the places of their markers: SQLite's
 * ?1, ?2, ... may come in any order and twice, so they wait in a list until the
 * statement begins. A text is escaped as the connection wants it, and bytes to the
 * server, as its column is. The server parses each statement anew; but it has no
 * state of ours, and a new connection costs no round trip for each text. All rows
 * of a result are fetched before the first is looked at: the connection is free then.
 */
#include "db/mysql/mysql_private.h"

#include <assert.h>
#include <errmsg.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES_MAX 512 /* of a value: STORE_FENCE_NAME_BYTES_MAX */

static struct mysql *of(const struct sql *db)
{
    return (struct mysql *)db;
}

/* query->code */
enum { DONE = 0, ROW = 1, FAILED = -1 };

struct value {
    const char *text; /* borrowed; "" is NULL; no text: a number */
    int64_t number;
};

struct statement {
    struct value *values; /* ?1 is the first */
    size_t values_n;
    bool executed;
    MYSQL_RES *result; /* NULL: it gives no rows, or was not executed */
    MYSQL_ROW row;
};

static void fail(struct sql_query *query, unsigned code, const char *text)
{
    query->code = FAILED;
    (void)mysql_judge(of(query->db), code, text);
}

/* A reader that lost its connection gets another one by asking on. A writer does
 * not: it would go on in the middle of a transaction that is gone. */
static void prepare(struct sql_query *query)
{
    struct mysql *db = of(query->db);

    query->code = DONE;
    if (db->sql.options.role != SQL_ROLE_WRITER && !db->open &&
        mysql_connect(db) != STORE_OK)
        query->code = FAILED;
    else if (!db->handle)
        fail(query, CR_SERVER_GONE_ERROR, "the connection was lost");
    else if (!query->stmt &&
             !(query->stmt = calloc(1, sizeof(struct statement))))
        fail(query, CR_OUT_OF_MEMORY, "out of memory");
}

/* ---- values ------------------------------------------------------------- */

static void set_value(struct sql_query *query, int at, struct value value)
{
    struct statement *it = query->stmt;
    size_t n = (size_t)at;
    struct value *more;

    if (query->code != DONE)
        return;
    if (n > it->values_n) {
        more = reallocarray(it->values, n, sizeof(value));
        if (!more) {
            fail(query, CR_OUT_OF_MEMORY, "out of memory");
            return;
        }
        it->values = more;
        it->values_n = n;
    }
    it->values[n - 1] = value;
}

static void bind_ints(struct sql_query *query, int at, const int64_t values[],
                      size_t n)
{
    for (size_t i = 0; i < n; i++)
        set_value(query, at + (int)i, (struct value){.number = values[i]});
}

static void bind_text(struct sql_query *query, int at, const char *text)
{
    set_value(query, at, (struct value){.text = text});
}

static void put_value(struct mysql *db, const struct value *value, FILE *out)
{
    char escaped[2 * TEXT_BYTES_MAX + 1];

    if (!value->text) {
        fprintf(out, "%" PRId64, value->number);
    } else if (value->text[0] == '\0') {
        fputs("NULL", out);
    } else {
        assert(strlen(value->text) <= TEXT_BYTES_MAX);
        (void)mysql_real_escape_string(db->handle, escaped, value->text,
                                       strlen(value->text));
        fprintf(out, "_binary'%s'", escaped);
    }
}

/* The text with the value of ?N for each ?N; a plain "?" is one more than the highest
 * before. From malloc(); NULL: no memory. */
static char *fill_in(const struct sql_query *query)
{
    const struct statement *it = query->stmt;
    const char *text = query->text;
    size_t number, highest = 0, size;
    char *filled = NULL, *next;
    FILE *out = open_memstream(&filled, &size);

    while (out && *text != '\0') {
        size = strcspn(text, "?");
        fwrite(text, 1, size, out);
        text += size;
        if (*text++ == '\0')
            break;
        number = strtoul(text, &next, 10);
        if (next == text)
            number = highest + 1;
        text = next;
        if (number > highest)
            highest = number;
        assert(number <= it->values_n);
        put_value(of(query->db), &it->values[number - 1], out);
    }
    if (out && fclose(out) == 0)
        return filled;
    free(filled);
    return NULL;
}

/* ---- running ------------------------------------------------------------ */

static void count(struct mysql *db, int64_t rows)
{
    db->sql.changed = rows;
    db->sql.changes += rows;
}

static void run(struct sql_query *query, struct statement *it)
{
    struct mysql *db = of(query->db);
    char *text = fill_in(query);

    if (!text)
        fail(query, CR_OUT_OF_MEMORY, "out of memory");
    else if (mysql_plain(db, text) != STORE_OK)
        query->code = FAILED;
    else if (mysql_field_count(db->handle) == 0)
        count(db, (int64_t)mysql_affected_rows(db->handle));
    else if (!(it->result =
                   MYSQL_CALL(db, MYSQL_RES *, mysql_store_result, db->handle)))
        fail(query, mysql_errno(db->handle), mysql_error(db->handle));
    free(text);
}

static bool next(struct sql_query *query)
{
    struct statement *it = query->stmt;

    if (query->code == FAILED)
        return false;
    if (!it->executed) {
        it->executed = true;
        run(query, it);
        if (query->code == FAILED)
            return false;
    }
    it->row = it->result ? mysql_fetch_row(it->result) : NULL;
    query->code = it->row ? ROW : DONE;
    return it->row;
}

static const char *column(const struct sql_query *query, int at)
{
    const char *found = ((const struct statement *)query->stmt)->row[at];

    return found ? found : "";
}

static void column_text(const struct sql_query *query, int at, char *text,
                        size_t size)
{
    snprintf(text, size, "%s", column(query, at));
}

/* A sum of doubles may have an exponent; like SQLite, more than there is room for is
 * the most. */
static int64_t column_int(const struct sql_query *query, int at)
{
    const char *text = column(query, at);
    char *end;
    int64_t number = strtoll(text, &end, 10);
    double real;

    if (*end == '\0')
        return number;
    real = strtod(text, NULL);
    return real < 0x1p63 ? (int64_t)real : INT64_MAX;
}

static enum store_status end(struct sql_query *query)
{
    struct statement *it = query->stmt;

    if (it) {
        mysql_free_result(it->result);
        it->result = NULL;
        it->executed = false;
    }
    return query->code == FAILED ? of(query->db)->status : STORE_OK;
}

/* The server says which number each row has got: of a cluster each node counts
 * in steps of its own. */
static enum store_status insert(struct sql_query *query, int64_t numbers[],
                                size_t n)
{
    size_t found = 0;

    while (found < n && next(query))
        numbers[found++] = column_int(query, 0);
    count(of(query->db), (int64_t)found);
    if (query->code != FAILED && found < n)
        fail(query, 0, "an INSERT told too few numbers");
    return end(query);
}

static void close_all(struct sql *db)
{
    struct statement *it;

    mysql_drop_connection(of(db));
    for (size_t i = 0; i < db->queries_n; i++) {
        it = db->queries[i].stmt;
        if (it)
            free(it->values);
        free(it);
    }
    free(db);
}

/* ---- transactions ------------------------------------------------------- */

/* A connection may be in one that nobody here knows of, because a server may
 * refuse a ROLLBACK: each answer of a server says so. */
static bool is_in_one(const struct mysql *db)
{
    return db->handle &&
           (db->open || (db->handle->server_status & SERVER_STATUS_IN_TRANS));
}

static enum store_status begin(struct sql *db, bool to_write)
{
    enum store_status status;

    if (is_in_one(of(db)))
        mysql_drop_connection(of(db));
    status = mysql_connect(of(db));
    if (status != STORE_OK)
        return status;
    db->again = db->at_once = false;
    status = mysql_plain(of(db), to_write ? "SAVEPOINT whole"
                                          : "START TRANSACTION WITH CONSISTENT "
                                            "SNAPSHOT, READ ONLY");
    of(db)->open = status == STORE_OK;
    return status;
}

static enum store_status commit(struct sql *db)
{
    enum store_status status;

    if (!of(db)->handle)
        return sql_fail(db, STORE_IO, "the connection was lost");
    status = mysql_plain(of(db), "RELEASE SAVEPOINT whole");
    if (status == STORE_OK)
        status = mysql_plain(of(db), "COMMIT");
    if (status == STORE_OK)
        of(db)->open = false;
    return status;
}

/* A ROLLBACK that is refused leaves the transaction open: a node out of sync does so. */
static enum store_status rollback(struct sql *db)
{
    enum store_status status = mysql_plain(of(db), "ROLLBACK");

    if (status != STORE_OK)
        mysql_drop_connection(of(db));
    of(db)->open = false;
    return status;
}

static bool in_transaction(const struct sql *db)
{
    return of(db)->open;
}

/* ---- the schema --------------------------------------------------------- */

static const char schema[] =
#include "db/mysql/schema.sql.inc"
    ;

static const char schema_4[] =
#include "db/mysql/schema_4.sql.inc"
    ;

static const char schema_5[] =
#include "db/mysql/schema_5.sql.inc"
    ;

/* The first makes three; after a crash in between the rest is counted up. */
static const char *const scripts[MYSQL_VERSIONS] = {
    [0] = schema, [3] = schema_4, [4] = schema_5};

/* One statement after the other: each ends with ";" and the line. A change of a
 * table commits, and so the transaction begins anew. */
static enum store_status script(struct sql *db, const char *text)
{
    enum store_status status = STORE_OK;
    char one[4096];
    const char *end;

    for (; status == STORE_OK && (end = strstr(text, ";\n")) != NULL;
         text = end + 2) {
        if ((size_t)(end - text) >= sizeof(one))
            return sql_fail(db, STORE_MISUSE, "a statement is too long");
        memcpy(one, text, (size_t)(end - text));
        one[end - text] = '\0';
        status = mysql_plain(of(db), one);
    }
    return status == STORE_OK ? mysql_plain(of(db), "SAVEPOINT whole") : status;
}

static enum store_status inspect(struct sql *db, int64_t *id, int64_t *version,
                                 int64_t *tables)
{
    enum store_status status;
    int64_t ours = 0;

    status = sql_first(
        sql_query(db, "SELECT COUNT(*), IFNULL(SUM(table_name = 'stockade'), "
                      "0) FROM information_schema.tables "
                      "WHERE table_schema = DATABASE()"),
        tables, &ours);
    if (status != STORE_OK || ours == 0)
        return status;
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

static enum store_status find(const char *url, bool create,
                              char where[SQL_WHERE_BYTES],
                              struct store_error *error)
{
    struct mysql_address address;

    (void)create;
    if (strlen(url) >= SQL_WHERE_BYTES)
        return failure_set(error, STORE_MISUSE, "the URL is too long");
    snprintf(where, SQL_WHERE_BYTES, "%s", url);
    return mysql_address_read(url, &address, error);
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
            .find_key = "SELECT number FROM orders WHERE `key` = ?3",
            .buy_units = "INSERT INTO purchases (product_id, user_id, units) "
                         "VALUES (?2, ?3, ?4) ON DUPLICATE KEY UPDATE "
                         "units = IF(units + ?4 <= ?5, units + ?4, units)",
            .give_units = "UPDATE purchases SET units = units - ?4 "
                          "WHERE product_id = ?2 AND user_id = ?3 AND "
                          "(SELECT limit_per_user > 0 AND counted "
                          "FROM products WHERE id = ?2)",
            .count_units = "INSERT INTO purchases (product_id, user_id, units) "
                           "SELECT product_id, user_id, SUM(quantity) "
                           "FROM orders WHERE product_id = ?1 AND state = 0 "
                           "GROUP BY user_id",
            .bought =
                "SELECT CASE WHEN counted THEN (SELECT units FROM purchases "
                "WHERE product_id = ?3 AND user_id = ?4) " SQL_ELSE_BY_ORDERS,
            .take_room = "INSERT INTO fences (token, name, owner) "
                         "VALUES (1, ?1, REPEAT('-', 512))",
            .free_room = "DELETE FROM fences WHERE name = ?1",
            /* Without the session's time zone, which has an hour twice a year. */
            .clock = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', "
                     "UTC_TIMESTAMP(3)) DIV 1000",
        },
    .scripts = scripts,
    .versions = MYSQL_VERSIONS,
    .inspect = inspect,
    .set_version = set_version,
    .find = find,
    .size = sizeof(struct mysql),
    .open = mysql_open,
    .close = close_all,
    .begin = begin,
    .commit = commit,
    .rollback = rollback,
    .in_transaction = in_transaction,
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
