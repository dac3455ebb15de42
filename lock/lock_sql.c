/*
 * sql-table and sql-row: locks in the database that most shops have already.
 *
 * sql-table is a table of locks with a unique index on the name. To insert the
 * row is to take the lock, to delete it is to give it back; a column says whose
 * it is, another how often.
 *
 *   Guarantees: one holder at a time on any number of hosts (X2); only the owner
 *   releases; the same session may come in again (N).
 *   Does not: get rid of a dead holder (C). A row has no expiry, and the server
 *   does not know that its owner has crashed. Somebody has to delete it by
 *   hand. That is the failure it is here to show.
 *
 * sql-row is an exclusive lock that belongs to the connection (GET_LOCK, which
 * unlike SELECT ... FOR UPDATE needs neither a row nor an open transaction, so
 * that a session can give back one of several).
 *
 *   Guarantees: X2; only the owner releases; the crash of a holder closes its
 *   connection, and that frees the lock at once (C).
 *   Does not: survive the loss of the connection, which frees the lock under a
 *   holder that lives, and tells it only when it releases. A host that vanishes
 *   without a word holds on until the server gives the connection up
 *   (wait_timeout: eight hours). And it costs a connection per holder.
 *
 * Both are polled (W), in no order (F), and have no tokens (S).
 */
#include "lock/lock_sql.h"

#include <stdio.h>
#include <stdlib.h>

#include "lock/error.h"

enum { SENDS_MAX = 20 }; /* of one statement that is rolled back each time */

/* Clients and sessions ------------------------------------------------------ */

static enum dlock_status open_client(struct dlock *client,
                                     struct dlock_error *error)
{
    struct dlock_sql_address *address = calloc(1, sizeof(*address));
    enum dlock_status status;

    if (address == NULL)
        return dlock_error_set(error, DLOCK_UNREACHABLE, "out of memory");
    status = dlock_sql_parse(client->url, address, error);
    if (status != DLOCK_OK)
        free(address);
    else
        client->own = address;
    return status;
}

static void close_client(struct dlock *client)
{
    free(client->own);
}

static enum dlock_status open_session(struct dlock_session *session,
                                      struct dlock_error *error)
{
    return dlock_sql_session_open(session, session->client->own, error);
}

enum dlock_status
dlock_sql_session_open(struct dlock_session *session,
                       const struct dlock_sql_address *address,
                       struct dlock_error *error)
{
    struct dlock_sql_own *own = calloc(1, sizeof(*own));

    if (own != NULL)
        own->sql = dlock_sql_open(session, address);
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

void dlock_sql_where_ours(struct dlock_statement *statement,
                          const struct dlock_session *session,
                          const struct dlock_attempt *attempt)
{
    dlock_statement_text(statement, " WHERE name = ");
    dlock_statement_bytes(statement, attempt->name);
    dlock_statement_text(statement, " AND owner = ");
    dlock_statement_bytes(statement, session->owner);
}

enum dlock_status dlock_sql_released(struct dlock_session *session,
                                     const struct dlock_attempt *attempt,
                                     enum dlock_status status, bool ours)
{
    struct dlock_sql_own *own = session->own;

    if (status == DLOCK_OK && !ours && own->unknown_release != attempt->number)
        status = DLOCK_LOST;
    /* Not having reached the server this time settles nothing. */
    if (status == DLOCK_UNKNOWN)
        own->unknown_release = attempt->number;
    else if (status != DLOCK_UNREACHABLE)
        own->unknown_release = 0;
    return status;
}

/* sql-table ----------------------------------------------------------------- */

/* The first time in a database. Two may do it at once; one of them does it. */
static enum dlock_status create_table(struct dlock_session *session,
                                      const struct dlock_attempt *attempt,
                                      struct dlock_error *error)
{
    struct dlock_statement statement;
    struct dlock_sql_reply reply;

    dlock_statement_init(&statement, "create-table", attempt->name);
    dlock_statement_text(&statement,
                         "CREATE TABLE IF NOT EXISTS dlock_table ("
                         "name VARBINARY(512) NOT NULL PRIMARY KEY, "
                         "owner VARBINARY(48) NOT NULL, "
                         "holds INT UNSIGNED NOT NULL) ENGINE=InnoDB");
    return dlock_sql_run(session, attempt, &statement, &reply, error);
}

static enum dlock_status insert(struct dlock_session *session,
                                const struct dlock_attempt *attempt,
                                struct dlock_sql_reply *reply,
                                struct dlock_error *error)
{
    struct dlock_statement statement;

    dlock_statement_init(&statement, "insert", attempt->name);
    dlock_statement_text(&statement,
                         "INSERT INTO dlock_table (name, owner, holds) "
                         "VALUES (");
    dlock_statement_bytes(&statement, attempt->name);
    dlock_statement_text(&statement, ", ");
    dlock_statement_bytes(&statement, session->owner);
    dlock_statement_text(&statement, ", 1)");
    return dlock_sql_run(session, attempt, &statement, reply, error);
}

/*
 * Writes the count that the session's book says, not one more: the row may be
 * from an attempt whose answer was lost.
 */
static enum dlock_status set_holds(struct dlock_session *session,
                                   const struct dlock_attempt *attempt,
                                   unsigned holds, bool *ours,
                                   struct dlock_error *error)
{
    struct dlock_statement statement;
    struct dlock_sql_reply reply;
    enum dlock_status status;

    dlock_statement_init(&statement, "update", attempt->name);
    dlock_statement_text(&statement, "UPDATE dlock_table SET holds = ");
    dlock_statement_number(&statement, holds);
    dlock_sql_where_ours(&statement, session, attempt);
    status = dlock_sql_run(session, attempt, &statement, &reply, error);
    *ours = status == DLOCK_OK && reply.rows > 0;
    return status;
}

static enum dlock_status acquire_row(struct dlock_session *session,
                                     const struct dlock_attempt *attempt,
                                     struct dlock_grant *grant,
                                     uint64_t *busy_ms,
                                     struct dlock_error *error)
{
    struct dlock_sql_reply reply;
    enum dlock_status status = insert(session, attempt, &reply, error);
    bool ours = true;

    (void)busy_ms;
    if (status == DLOCK_OK && reply.answer == DLOCK_SQL_NO_TABLE) {
        status = create_table(session, attempt, error);
        if (status == DLOCK_OK)
            status = insert(session, attempt, &reply, error);
    }
    if (status == DLOCK_OK && reply.answer == DLOCK_SQL_NO_TABLE)
        status = dlock_error_set(error, DLOCK_UNREACHABLE,
                                 "the lock table was dropped again");
    grant->token = 0;
    grant->holds = 1;
    if (status == DLOCK_OK && reply.answer == DLOCK_SQL_DUPLICATE) {
        grant->holds = attempt->holds + 1;
        status = set_holds(session, attempt, grant->holds, &ours, error);
    }
    return status == DLOCK_OK && !ours ? DLOCK_BUSY : status;
}

static enum dlock_status delete_row(struct dlock_session *session,
                                    const struct dlock_attempt *attempt,
                                    bool *ours, struct dlock_error *error)
{
    struct dlock_statement statement;
    struct dlock_sql_reply reply;
    enum dlock_status status;

    dlock_statement_init(&statement, "delete", attempt->name);
    dlock_statement_text(&statement, "DELETE FROM dlock_table");
    dlock_sql_where_ours(&statement, session, attempt);
    status = dlock_sql_run(session, attempt, &statement, &reply, error);
    *ours = status == DLOCK_OK && reply.rows > 0;
    return status;
}

static enum dlock_status release_row(struct dlock_session *session,
                                     const struct dlock_attempt *attempt,
                                     struct dlock_error *error)
{
    bool ours = false;
    enum dlock_status status =
        attempt->holds > 0
            ? set_holds(session, attempt, attempt->holds, &ours, error)
            : delete_row(session, attempt, &ours, error);

    return dlock_sql_released(session, attempt, status, ours);
}

static enum dlock_status inspect_row(struct dlock_session *session,
                                     const struct dlock_attempt *attempt,
                                     struct dlock_holder *holder,
                                     struct dlock_error *error)
{
    struct dlock_statement statement;
    struct dlock_sql_reply reply;
    enum dlock_status status;

    dlock_statement_init(&statement, "select", attempt->name);
    dlock_statement_text(&statement,
                         "SELECT owner, holds FROM dlock_table WHERE name = ");
    dlock_statement_bytes(&statement, attempt->name);
    status = dlock_sql_run(session, attempt, &statement, &reply, error);
    if (status != DLOCK_OK || !reply.has_row)
        return status;
    holder->held = true;
    (void)snprintf(holder->owner, sizeof(holder->owner), "%.48s",
                   reply.columns[0]);
    holder->holds = (unsigned)strtoul(reply.columns[1], NULL, 10);
    holder->remaining_ms = UINT64_MAX;
    return DLOCK_OK;
}

/* sql-row ------------------------------------------------------------------- */

/*
 * Asks one function of the server about the lock. Its names are 64 characters
 * at most, regardless of case, and the same in all databases: hence the hash.
 */
static enum dlock_status ask(struct dlock_session *session, const char *step,
                             const char *question,
                             const struct dlock_attempt *attempt,
                             struct dlock_sql_reply *reply,
                             struct dlock_error *error)
{
    struct dlock_statement statement;

    dlock_statement_init(&statement, step, attempt->name);
    dlock_statement_text(&statement, "SELECT ");
    dlock_statement_text(&statement, question);
    dlock_statement_text(&statement, " FROM (SELECT CONCAT('dlock:', "
                                     "SHA2(CONCAT(DATABASE(), x'00', ");
    dlock_statement_bytes(&statement, attempt->name);
    dlock_statement_text(&statement, "), 224)) AS n) AS names");
    return dlock_sql_run(session, attempt, &statement, reply, error);
}

/* GET_LOCK lets its own connection in again; here that is busy like others. */
static enum dlock_status acquire_lock(struct dlock_session *session,
                                      const struct dlock_attempt *attempt,
                                      struct dlock_grant *grant,
                                      uint64_t *busy_ms,
                                      struct dlock_error *error)
{
    struct dlock_sql_reply reply;
    enum dlock_status status = ask(
        session, "get-lock", "IF(IS_USED_LOCK(n) IS NULL, GET_LOCK(n, 0), 0)",
        attempt, &reply, error);

    (void)busy_ms;
    if (status != DLOCK_OK)
        return status;
    grant->token = 0;
    grant->holds = 1;
    return reply.columns[0][0] == '1' ? DLOCK_OK : DLOCK_BUSY;
}

/* On a connection made since, the server knows nothing of the lock: lost. */
static enum dlock_status release_lock(struct dlock_session *session,
                                      const struct dlock_attempt *attempt,
                                      struct dlock_error *error)
{
    struct dlock_sql_reply reply;
    enum dlock_status status =
        ask(session, "release-lock", "RELEASE_LOCK(n)", attempt, &reply, error);

    return dlock_sql_released(session, attempt, status,
                              status == DLOCK_OK && reply.columns[0][0] == '1');
}

/* The server knows the connection, not the session. */
static enum dlock_status inspect_lock(struct dlock_session *session,
                                      const struct dlock_attempt *attempt,
                                      struct dlock_holder *holder,
                                      struct dlock_error *error)
{
    struct dlock_sql_reply reply;
    enum dlock_status status =
        ask(session, "is-used-lock", "IS_USED_LOCK(n)", attempt, &reply, error);

    if (status != DLOCK_OK || reply.columns[0][0] == '\0')
        return status;
    holder->held = true;
    holder->holds = 1;
    (void)snprintf(holder->owner, sizeof(holder->owner), "connection %.20s",
                   reply.columns[0]);
    holder->remaining_ms = UINT64_MAX;
    return DLOCK_OK;
}

/* The rows ------------------------------------------------------------------ */

#define SQL_FUNCTIONS                                                          \
    .own_url = true, .open = open_client, .close = close_client,               \
    .session_open = open_session, .session_close = dlock_sql_session_close

const struct dlock_strategy dlock_strategy_sql_table = {
    .info = {.name = "sql-table",
             .claim = "One at a time by a unique index in a SQL table, if "
                      "nobody crashes; re-entrant.",
             .capabilities = DLOCK_CAP_REMOTE | DLOCK_CAP_SQL |
                             DLOCK_CAP_OWNER | DLOCK_CAP_REENTRANT},
    .acquire = acquire_row,
    .release = release_row,
    .inspect = inspect_row,
    SQL_FUNCTIONS,
};

const struct dlock_strategy dlock_strategy_sql_row = {
    .info = {.name = "sql-row",
             .claim = "One at a time by a lock that a SQL connection holds: a "
                      "dead holder is got rid of at once.",
             .capabilities =
                 DLOCK_CAP_REMOTE | DLOCK_CAP_SQL | DLOCK_CAP_OWNER},
    .acquire = acquire_lock,
    .release = release_lock,
    .inspect = inspect_lock,
    SQL_FUNCTIONS,
};
