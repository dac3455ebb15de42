/*
 * The engine MariaDB: transactions, the schema, and the table. connection.c
 * has the connection and what its errors mean, statement.c the statements.
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
 */
#include "db/mysql/mysql_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct mysql *of(const struct sql *db)
{
    return (struct mysql *)db;
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

/* It cannot tell what others have done. */
static enum store_status state(struct sql *db, struct sql_state *found)
{
    *found = (struct sql_state){.others = ++of(db)->states, .own = db->changes};
    return STORE_OK;
}

static void tend(struct sql *db, bool full)
{
    (void)db;
    (void)full;
}

/* ---- the schema --------------------------------------------------------- */

static const char schema[] =
#include "db/mysql/schema.sql.inc"
    ;

static const char schema_4[] =
#include "db/mysql/schema_4.sql.inc"
    ;

/* The first makes the first three; after a crash in between the rest is counted
 * up. */
static const char *const scripts[MYSQL_VERSIONS] = {schema, NULL, NULL,
                                                    schema_4};

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

static enum store_status check(const char *url, char where[SQL_WHERE_BYTES],
                               struct store_error *error)
{
    return find(url, false, where, error);
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
            .buy_units = "INSERT INTO purchases (product_id, user_id, units) "
                         "VALUES (?1, ?2, ?3) ON DUPLICATE KEY UPDATE "
                         "units = IF(units + ?3 <= ?4, units + ?3, units)",
            .take_room = "INSERT INTO fences (token, name, owner) "
                         "VALUES (1, ?1, REPEAT('-', 512))",
            .free_room = "DELETE FROM fences WHERE name = ?1",
        },
    .scripts = scripts,
    .versions = MYSQL_VERSIONS,
    .inspect = inspect,
    .set_version = set_version,
    .find = find,
    .check = check,
    .open = mysql_open,
    .close = mysql_close_all,
    .begin = begin,
    .commit = commit,
    .rollback = rollback,
    .in_transaction = in_transaction,
    .state = state,
    .tend = tend,
    .script = script,
    .prepare = mysql_prepare,
    .bind_ints = mysql_bind_ints,
    .bind_text = mysql_bind_text,
    .next = mysql_next,
    .column_int = mysql_column_int,
    .column_text = mysql_column_text,
    .end = mysql_end,
    .insert = mysql_insert,
};
