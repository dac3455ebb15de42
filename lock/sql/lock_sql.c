/*
 * Parts that the locks in a SQL database have in common: one address for each client,
 * one connection for each session, and the end of a release.
 */
#include "lock/sql/lock_sql.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/core/error.h"
#include "lock/dlock_sql.h"

enum { SENDS_MAX = 20 }; /* of one statement that is rolled back each time */

/* Clients and sessions ------------------------------------------------------ */

enum dlock_status dlock_sql_client_open(struct dlock *client, const char *url,
                                        struct dlock_error *error)
{
    struct dlock_sql_address *address = calloc(1, sizeof(*address));
    enum dlock_status status;

    if (address == NULL)
        return dlock_error_set(error, DLOCK_UNREACHABLE, "out of memory");
    status = dlock_sql_parse(url, address, error);
    if (status != DLOCK_OK)
        free(address);
    else
        client->own = address;
    return status;
}

void dlock_sql_client_close(struct dlock *client)
{
    free(client->own);
}

enum dlock_status dlock_sql_session_open(struct dlock_session *session,
                                         struct dlock_error *error)
{
    struct dlock_sql_own *own = calloc(1, sizeof(*own));

    if (own != NULL)
        own->sql = dlock_sql_open(session, session->client->own);
    if (own == NULL || own->sql == NULL) {
        free(own);
        return dlock_error_set(error, DLOCK_UNREACHABLE, "out of memory");
    }
    session->own = own;
    return DLOCK_OK;
}

void dlock_sql_session_close(struct dlock_session *session)
{
    struct dlock_sql_own *own = session->own;

    dlock_sql_close(own->sql);
    free(own);
}

/* Statements ---------------------------------------------------------------- */

/* A full statement is a bug of the strategy: names and owners are bounded. */
static void add(struct dlock_statement *statement, const char *text, size_t len)
{
    assert(statement->len + len <= DLOCK_SQL_TEXT_BYTES_MAX);
    memcpy(statement->text + statement->len, text, len);
    statement->len += len;
    statement->text[statement->len] = '\0';
}

/*
 * A hexadecimal literal has nothing to escape, whatever the server's character set
 * and SQL mode, and compares byte by byte: to a column's collation, "Lamp" and
 * "lamp " would be one name, and two locks one.
 */
static void add_bytes(struct dlock_statement *statement, const char *value)
{
    char hex[3];

    add(statement, "x'", 2);
    for (; *value != '\0'; value++)
        add(statement, hex,
            (size_t)snprintf(hex, sizeof(hex), "%02x", (unsigned char)*value));
    add(statement, "'", 1);
}

static void add_number(struct dlock_statement *statement, unsigned number)
{
    char text[16];

    add(statement, text, (size_t)snprintf(text, sizeof(text), "%u", number));
}

static void fill(struct dlock_statement *statement,
                 const struct dlock_session *session,
                 const struct dlock_attempt *attempt, const char *sql)
{
    for (const char *end; *sql != '\0'; sql = end) {
        end = sql + strcspn(sql, "{");
        add(statement, sql, (size_t)(end - sql));
        if (*end == '\0')
            return;
        if (strncmp(end, "{name}", 6) == 0)
            add_bytes(statement, attempt->name);
        else if (strncmp(end, "{owner}", 7) == 0)
            add_bytes(statement, session->owner);
        else if (strncmp(end, "{holds}", 7) == 0)
            add_number(statement, attempt->holds);
        else if (strncmp(end, "{lease_ms}", 10) == 0)
            add_number(statement, attempt->lease_ms);
        else
            assert(false);
        end = strchr(end, '}') + 1;
    }
}

enum dlock_status dlock_sql_run(struct dlock_session *session,
                                const struct dlock_attempt *attempt,
                                const char *step, const char *sql,
                                struct dlock_sql_reply *reply,
                                struct dlock_error *error)
{
    struct dlock_sql_own *own = session->own;
    struct dlock_statement statement = {.step = step, .name = attempt->name};
    enum dlock_status status;
    int sends = 0;

    fill(&statement, session, attempt, sql);
    do {
        status =
            dlock_sql_do(own->sql, &statement, attempt->limit_ms, reply, error);
        sends++;
    } while (status == DLOCK_OK && reply->answer == DLOCK_SQL_CONFLICT &&
             sends < SENDS_MAX);
    if (status == DLOCK_OK && reply->answer == DLOCK_SQL_CONFLICT)
        return dlock_error_set(error, DLOCK_UNREACHABLE,
                               "mysql: rolled back, as others were first");
    return status;
}

enum dlock_status dlock_sql_change(struct dlock_session *session,
                                   const struct dlock_attempt *attempt,
                                   const char *step, const char *sql,
                                   bool *changed, struct dlock_error *error)
{
    struct dlock_sql_reply reply;
    enum dlock_status status =
        dlock_sql_run(session, attempt, step, sql, &reply, error);

    *changed = status == DLOCK_OK && reply.rows > 0;
    return status;
}

enum dlock_status dlock_sql_insert(struct dlock_session *session,
                                   const struct dlock_attempt *attempt,
                                   const char *insert, const char *table,
                                   bool *is_there, struct dlock_error *error)
{
    struct dlock_sql_reply reply;
    enum dlock_status status =
        dlock_sql_run(session, attempt, "insert", insert, &reply, error);

    if (status == DLOCK_OK && reply.answer == DLOCK_SQL_NO_TABLE) {
        status = dlock_sql_run(session, attempt, "create-table", table, &reply,
                               error);
        if (status == DLOCK_OK)
            status = dlock_sql_run(session, attempt, "insert", insert, &reply,
                                   error);
    }
    *is_there = status == DLOCK_OK && reply.answer == DLOCK_SQL_DUPLICATE;
    if (status == DLOCK_OK && reply.answer == DLOCK_SQL_NO_TABLE)
        return dlock_error_set(error, DLOCK_UNREACHABLE,
                               "the lock table was dropped again");
    return status;
}

enum dlock_status dlock_sql_released(struct dlock_session *session,
                                     const struct dlock_attempt *attempt,
                                     enum dlock_status status, bool ours)
{
    struct dlock_sql_own *own = session->own;

    if (status == DLOCK_OK && !ours &&
        own->unknown_release != dlock_first_number(attempt))
        status = DLOCK_LOST;
    /* Not having reached the server this time settles nothing. */
    if (status == DLOCK_UNKNOWN)
        own->unknown_release = dlock_first_number(attempt);
    else if (status != DLOCK_UNREACHABLE)
        own->unknown_release = 0;
    return status;
}

#define STRATEGIES(X) X(sql_table) X(sql_row)

STRATEGIES(DLOCK_STRATEGY_DECLARE)
DLOCK_STRATEGIES(dlock_sql_strategies, STRATEGIES)
