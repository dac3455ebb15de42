/*
 * sql-table: a table of locks with a unique index on the name, in the database that most shops
 * have already. To insert the row is to take the lock, to delete it is to give it back.
 *
 * Guarantees: one holder at a time on any number of hosts (X2); only the owner releases; the
 * same session may come in again (N).
 *
 * Does not: get rid of a dead holder (C). A row has no expiry, and somebody has to delete it by
 * hand: that is the failure it is here to show. It is polled (W), in no order (F), and has no
 * tokens (S).
 */
#include "lock/sql/sql.h"

#include <stdio.h>
#include <stdlib.h>

#include "lock/dlock_more.h"

#define OURS " WHERE name = {name} AND owner = {owner}"

static const char table[] = "CREATE TABLE IF NOT EXISTS dlock_table ("
                            "name VARBINARY(512) NOT NULL PRIMARY KEY, "
                            "owner VARBINARY(48) NOT NULL, "
                            "holds INT UNSIGNED NOT NULL) ENGINE=InnoDB";
static const char insert[] = "INSERT INTO dlock_table (name, owner, holds) "
                             "VALUES ({name}, {owner}, 1)";
/* The count that the session knows of, not one more: the row may be from an attempt
 * whose answer was lost. */
static const char set_holds[] = "UPDATE dlock_table SET holds = {holds}" OURS;
static const char delete_row[] = "DELETE FROM dlock_table" OURS;

static enum dlock_status acquire(const struct dlock_attempt *attempt)
{
    struct dlock_attempt again = *attempt;
    bool is_there, ours = true;
    enum dlock_status status =
        dlock_sql_insert(attempt, insert, table, &is_there);

    again.holds++;
    /* A new row begins at 1, whatever the session knew: holds that had been lost do not
     * come back. */
    attempt->grant->holds = is_there ? again.holds : 1;
    /* The row is somebody's: the update counts only if it is ours, which its WHERE asks in
     * the same statement. */
    if (is_there)
        status = dlock_sql_change(&again, "update", set_holds, &ours);
    return status == DLOCK_OK && !ours ? DLOCK_BUSY : status;
}

static enum dlock_status release(const struct dlock_attempt *attempt)
{
    bool ours;
    enum dlock_status status =
        attempt->holds > 0
            ? dlock_sql_change(attempt, "update", set_holds, &ours)
            : dlock_sql_change(attempt, "delete", delete_row, &ours);

    return dlock_sql_released(attempt, status, ours);
}

static enum dlock_status inspect(const struct dlock_attempt *attempt,
                                 struct dlock_holder *holder)
{
    struct dlock_sql_reply reply;
    enum dlock_status status = dlock_sql_run(
        attempt, "select",
        "SELECT owner, holds FROM dlock_table WHERE name = {name}", &reply);

    if (status != DLOCK_OK || !reply.has_row)
        return status;
    holder->held = true;
    (void)snprintf(holder->owner, sizeof(holder->owner), "%.48s",
                   reply.columns[0]);
    holder->holds = (unsigned)strtoul(reply.columns[1], NULL, 10);
    return DLOCK_OK;
}

const struct dlock_strategy dlock_strategy_sql_table = {
    .info = {.name = "sql-table",
             .claim = "One at a time by a unique index in a SQL table, if "
                      "nobody crashes; re-entrant.",
             .capabilities = DLOCK_CAP_REMOTE | DLOCK_CAP_SQL |
                             DLOCK_CAP_OWNER | DLOCK_CAP_REENTRANT},
    DLOCK_SQL_FUNCTIONS,
    .acquire = acquire,
    .release = release,
    .inspect = inspect,
};

DLOCK_STRATEGIES(dlock_sql_strategies, sql)
