/*
 * sql-row: an exclusive lock that belongs to a connection to a SQL database (GET_LOCK, which
 * unlike SELECT ... FOR UPDATE needs neither a row nor an open transaction).
 *
 * Guarantees: one holder at a time on any number of hosts (X2); only the owner releases; the
 * crash of a holder closes its connection, and that frees the lock at once (C).
 *
 * Does not: survive the loss of the connection, which frees the lock under a holder that
 * lives; the client knows of it by the next call of the session. A host that vanishes without
 * a word holds on until the server gives the connection up (wait_timeout: eight hours), and a
 * holder that has forked until its child has ended, too. And it costs a connection per holder.
 * It is polled (W), in no order (F), and has no tokens (S). An operator who ends the connection
 * of a holder frees all that its session holds.
 */
#include "lock/sql/sql.h"

#include <stdio.h>

/* The lock for the server's functions. Its names are 64 characters at most, regardless of
 * case, and the same in all databases: hence the hash. */
#define OF_THE_LOCK                                                            \
    " FROM (SELECT CONCAT('dlock:', "                                          \
    "SHA2(CONCAT(DATABASE(), x'00', {name}), 224)) AS n) AS names"

/* @@read_only is compared as a text, because since MariaDB 12.0 it is one: OFF, ON and
 * more. As a number they would all be 0. */
#define ON_PRIMARY(what)                                                       \
    "SELECT IF(CAST(@@read_only AS CHAR) IN ('0', 'OFF'), " what               \
    ", 'no')" OF_THE_LOCK

/* A server that has become read-only would let holders in beside those of the primary: its
 * connection ends, because the next one is made where the address leads by then. */
static enum dlock_status ask(const struct dlock_attempt *attempt,
                             const char *step, const char *text, bool *yes)
{
    struct dlock_sql_reply reply;
    enum dlock_status status = dlock_sql_run(attempt, step, text, &reply);

    *yes = status == DLOCK_OK && reply.columns[0][0] == '1';
    if (status != DLOCK_OK || reply.columns[0][0] != 'n')
        return status;
    dlock_sql_drop(attempt->session->own);
    return dlock_error_set(DLOCK_UNREACHABLE, "mysql: the server is read-only");
}

/* GET_LOCK lets its own connection in again; here that is busy like others. */
static enum dlock_status acquire(const struct dlock_attempt *attempt)
{
    struct dlock_sql *sql = attempt->session->own;
    bool got;
    enum dlock_status status =
        ask(attempt, "get-lock",
            ON_PRIMARY("IF(IS_USED_LOCK(n) IS NULL, GET_LOCK(n, 0), 0)"), &got);

    if (got)
        /* WON tells remaining() which grants are on the connection that there is: all up to
         * it are lost when that ends. */
        sql->won = attempt->number;
    return status == DLOCK_OK && !got ? DLOCK_BUSY : status;
}

static uint64_t remaining(const struct dlock_session *session,
                          const struct dlock_grant *grant)
{
    const struct dlock_sql *sql = session->own;

    /* LOST is atomic, since any thread may ask; it is set before the server can hear that
     * the connection ends. */
    return grant->attempt > atomic_load(&sql->lost) ? UINT64_MAX : 0;
}

/* On a connection made since, the server knows nothing of the lock: lost. */
static enum dlock_status release(const struct dlock_attempt *attempt)
{
    bool ours;
    enum dlock_status status =
        ask(attempt, "release-lock", ON_PRIMARY("RELEASE_LOCK(n)"), &ours);

    return dlock_sql_released(attempt, status, ours);
}

/* The server knows the connection, not the session. */
static enum dlock_status inspect(const struct dlock_attempt *attempt,
                                 struct dlock_holder *holder)
{
    struct dlock_sql_reply reply;
    enum dlock_status status = dlock_sql_run(
        attempt, "is-used-lock", "SELECT IS_USED_LOCK(n)" OF_THE_LOCK, &reply);

    if (status != DLOCK_OK || reply.columns[0][0] == '\0')
        return status;
    holder->held = true;
    (void)snprintf(holder->owner, sizeof(holder->owner), "connection %.20s",
                   reply.columns[0]);
    return DLOCK_OK;
}

const struct dlock_strategy dlock_strategy_sql_row = {
    .info = {.name = "sql-row",
             .claim = "One at a time by a lock that a SQL connection holds: a "
                      "dead holder is got rid of at once.",
             .capabilities =
                 DLOCK_CAP_REMOTE | DLOCK_CAP_SQL | DLOCK_CAP_OWNER},
    DLOCK_SQL_FUNCTIONS,
    .acquire = acquire,
    .release = release,
    .remaining = remaining,
    .inspect = inspect,
};
