/*
 * sql-table: a table of locks with a unique index on the name, in the database
 * that most shops have already. To insert the row is to take the lock, to delete
 * it is to give it back; a column says whose it is, another how often.
 *
 * Guarantees: one holder at a time on any number of hosts (X2); only the owner
 * releases; the same session may come in again (N).
 *
 * Does not: get rid of a dead holder (C). A row has no expiry, and the server
 * does not know that its owner has crashed. Somebody has to delete it by hand,
 * which is what release by force does here. That is the failure it is here to
 * show. It is polled (W), in no order (F), and has no tokens (S).
 */
#include "lock/sql/lock_sql.h"

#include <stdio.h>
#include <stdlib.h>

/* The url is that of the database. */
static enum dlock_status open_client(struct dlock *client,
                                     struct dlock_error *error)
{
    return dlock_sql_client_open(client, client->url, error);
}

static const char table[] = "CREATE TABLE IF NOT EXISTS dlock_table ("
                            "name VARBINARY(512) NOT NULL PRIMARY KEY, "
                            "owner VARBINARY(48) NOT NULL, "
                            "holds INT UNSIGNED NOT NULL) ENGINE=InnoDB";

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
    return dlock_sql_insert(session, attempt, &statement, table, reply, error);
}

/*
 * Writes the count that the session knows of, not one more: the row may be
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

static enum dlock_status acquire(struct dlock_session *session,
                                 const struct dlock_attempt *attempt,
                                 struct dlock_grant *grant, uint64_t *busy_ms,
                                 struct dlock_error *error)
{
    struct dlock_sql_reply reply;
    enum dlock_status status = insert(session, attempt, &reply, error);
    bool ours = true;

    (void)busy_ms;
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

static enum dlock_status release(struct dlock_session *session,
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

static enum dlock_status inspect(struct dlock_session *session,
                                 const struct dlock_attempt *attempt,
                                 struct dlock_holder *holder,
                                 struct dlock_error *error)
{
    struct dlock_statement statement;
    struct dlock_sql_reply reply;
    enum dlock_status status;

    dlock_statement_init(&statement, "select", attempt->name);
    dlock_statement_text(&statement, "SELECT owner, holds FROM dlock_table");
    dlock_sql_where_name(&statement, attempt);
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

/* Its holder finds out by its release. */
static enum dlock_status force(struct dlock_session *session,
                               const struct dlock_attempt *attempt,
                               struct dlock_error *error)
{
    struct dlock_statement statement;
    struct dlock_sql_reply reply;
    enum dlock_status status;

    dlock_statement_init(&statement, "force", attempt->name);
    dlock_statement_text(&statement, "DELETE FROM dlock_table");
    dlock_sql_where_name(&statement, attempt);
    status = dlock_sql_run(session, attempt, &statement, &reply, error);
    return status == DLOCK_OK && reply.rows == 0 ? DLOCK_LOST : status;
}

const struct dlock_strategy dlock_strategy_sql_table = {
    .info = {.name = "sql-table",
             .claim = "One at a time by a unique index in a SQL table, if "
                      "nobody crashes; re-entrant.",
             .capabilities = DLOCK_CAP_REMOTE | DLOCK_CAP_SQL |
                             DLOCK_CAP_OWNER | DLOCK_CAP_REENTRANT},
    .open = open_client,
    .close = dlock_sql_client_close,
    .session_open = dlock_sql_session_open,
    .session_close = dlock_sql_session_close,
    .acquire = acquire,
    .release = release,
    .inspect = inspect,
    .force = force,
};
