/*
 * Parts that the locks in a SQL database have in common: one address for each client,
 * one connection for each session, and the end of a release.
 */
#include "lock/sql/lock_sql.h"

#include <stdlib.h>

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

enum dlock_status dlock_sql_run(struct dlock_session *session,
                                const struct dlock_attempt *attempt,
                                const struct dlock_statement *statement,
                                struct dlock_sql_reply *reply,
                                struct dlock_error *error)
{
    struct dlock_sql_own *own = session->own;
    enum dlock_status status;
    int sends = 0;

    do {
        status =
            dlock_sql_do(own->sql, statement, attempt->limit_ms, reply, error);
        sends++;
    } while (status == DLOCK_OK && reply->answer == DLOCK_SQL_CONFLICT &&
             sends < SENDS_MAX);
    if (status == DLOCK_OK && reply->answer == DLOCK_SQL_CONFLICT)
        return dlock_error_set(error, DLOCK_UNREACHABLE,
                               "mysql: rolled back, as others were first");
    return status;
}

enum dlock_status dlock_sql_insert(struct dlock_session *session,
                                   const struct dlock_attempt *attempt,
                                   const struct dlock_statement *insert,
                                   const char *table,
                                   struct dlock_sql_reply *reply,
                                   struct dlock_error *error)
{
    struct dlock_statement create;
    enum dlock_status status =
        dlock_sql_run(session, attempt, insert, reply, error);

    if (status != DLOCK_OK || reply->answer != DLOCK_SQL_NO_TABLE)
        return status;
    dlock_statement_init(&create, "create-table", attempt->name);
    dlock_statement_text(&create, table);
    status = dlock_sql_run(session, attempt, &create, reply, error);
    if (status == DLOCK_OK)
        status = dlock_sql_run(session, attempt, insert, reply, error);
    if (status == DLOCK_OK && reply->answer == DLOCK_SQL_NO_TABLE)
        return dlock_error_set(error, DLOCK_UNREACHABLE,
                               "the lock table was dropped again");
    return status;
}

void dlock_sql_where_name(struct dlock_statement *statement,
                          const struct dlock_attempt *attempt)
{
    dlock_statement_text(statement, " WHERE name = ");
    dlock_statement_bytes(statement, attempt->name);
}

void dlock_sql_where_ours(struct dlock_statement *statement,
                          const struct dlock_session *session,
                          const struct dlock_attempt *attempt)
{
    dlock_sql_where_name(statement, attempt);
    dlock_statement_text(statement, " AND owner = ");
    dlock_statement_bytes(statement, session->owner);
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

DLOCK_STRATEGIES(const struct dlock_strategies dlock_sql_strategies, STRATEGIES)
