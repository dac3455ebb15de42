/*
 * recorded: token-lua, and a record of it in a SQL database. When the Redis fails and a
 * replica takes over that had not heard of the lock yet, two hold it. So whoever gets it
 * there has to write a row into the database as well, and holds nothing until no row of
 * another is in force.
 *
 * Guarantees: what token-lua does (X2 C A P R); and that a lock stays one when Redis loses
 * it (M), as long as the database does not lose the row.
 *
 * Does not guarantee: speed, each acquire and each release is a transaction more; work longer
 * than the lease (L), re-entry (N), prompt waiters (W), order (F), tokens (S). Both servers
 * have to be there.
 *
 * The row must expire by itself, or a crash would lock for ever (C). It does so by the clock
 * of the SQL server; if somebody sets that clock, leases move with it.
 *
 * The url is that of the Redis server, a comma, and that of the database.
 */
#include "lock/sql/sql.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/redis/wire.h"
#include "lock/textbook/text.h"

/* "unix:/run/redis.sock,mysql:unix:/run/mysqld.sock", at the second comma. */
static enum dlock_status parse(const char *url, struct dlock_address *address)
{
    const char *comma = url == NULL ? NULL : strstr(url, ",mysql:");
    const char *lacks;

    /* The first url must end at this comma: one with a comma of its own, such as a list,
     * is refused. */
    if (comma == NULL || dlock_url_parse(url, address) != comma)
        return dlock_error_set(DLOCK_MISUSE,
                               "recorded takes two urls: unix:PATH or "
                               "redis://HOST:PORT, a comma, and mysql:...");
    lacks = dlock_address_lacks(address);
    return lacks == NULL ? DLOCK_OK
                         : dlock_error_set(DLOCK_MISUSE, "the url: %s", lacks);
}

/* parse() has seen the comma. */
static enum dlock_status open_client(struct dlock *client)
{
    client->url = strstr(client->url, ",mysql:") + 1;
    return dlock_sql_client_open(client);
}

/* The table is of its own, because that of one Redis would read the whole url. */
static const struct dlock_wire_kind wires = {
    .parse = parse,
    .open = dlock_wire_open,
    .close = dlock_wire_close,
};

/* The record ---------------------------------------------------------------- */

static const char table[] = "CREATE TABLE IF NOT EXISTS dlock_record ("
                            "name VARBINARY(512) NOT NULL PRIMARY KEY, "
                            "owner VARBINARY(48) NOT NULL, "
                            "expires DATETIME(6) NOT NULL) ENGINE=InnoDB";

/* Not NOW(), which goes back an hour in autumn. */
#define NOW       "UTC_TIMESTAMP(6)"
#define LEASE_END NOW " + INTERVAL {lease_ms}000 MICROSECOND"
#define RECORD    " FROM dlock_record WHERE name = {name} AND expires > " NOW

static const char insert[] = "INSERT INTO dlock_record (name, owner, expires) "
                             "VALUES ({name}, {owner}, " LEASE_END ")";

/* A row that has expired, or that is ours from a lost answer. */
static const char take_over[] =
    "UPDATE dlock_record SET owner = {owner}, expires = " LEASE_END
    " WHERE name = {name} AND (expires <= " NOW " OR owner = {owner})";

static enum dlock_status record(const struct dlock_attempt *attempt)
{
    bool is_there, ours = true;
    enum dlock_status status =
        dlock_sql_insert(attempt, insert, table, &is_there);

    /* The row of a holder in force matches nothing in the update: ours stays false, and the
     * lock is busy. */
    if (is_there)
        status = dlock_sql_change(attempt, "update", take_over, &ours);
    return status == DLOCK_OK && !ours ? DLOCK_BUSY : status;
}

/* The lock ------------------------------------------------------------------ */

static enum dlock_status in_redis(enum dlock_text_part part,
                                  const struct dlock_attempt *attempt)
{
    const struct dlock_text *token_lua =
        dlock_strategy_called("token-lua")->variant;

    return dlock_text_run(token_lua, part, attempt);
}

/* Without the record there is no lock: what Redis gave goes back. */
static enum dlock_status acquire(const struct dlock_attempt *attempt)
{
    enum dlock_status status = in_redis(DLOCK_TEXT_TAKE, attempt);
    struct dlock_error kept;

    if (status != DLOCK_OK)
        return status;
    /* Redis comes first, because most waiters are turned away there, and cost the database
     * nothing. */
    status = record(attempt);
    if (status == DLOCK_OK)
        return DLOCK_OK;
    /* If this fails as well, the key ends with its lease. */
    kept = dlock_error_take();
    (void)in_redis(DLOCK_TEXT_RELEASE, attempt);
    dlock_error_put(&kept);
    return status;
}

/* The row says whether it was ours: Redis may have forgotten, which is what the row is
 * for. The key comes last, or a waiter would meet the row still there. */
static enum dlock_status release(const struct dlock_attempt *attempt)
{
    enum dlock_status status, key;
    bool ours;

    status = dlock_sql_change(attempt, "delete",
                              "DELETE" RECORD " AND owner = {owner}", &ours);
    status = dlock_sql_released(attempt, status, ours);
    key = in_redis(DLOCK_TEXT_RELEASE, attempt);
    /* Called again, it will find no row; that is no loss. */
    return status == DLOCK_OK && key != DLOCK_OK && key != DLOCK_LOST
               ? DLOCK_UNKNOWN
               : status;
}

static enum dlock_status extend(const struct dlock_attempt *attempt)
{
    enum dlock_status status, key;
    bool ours;

    /* The row is lengthened first, because it decides, also where Redis has lost the
     * key. */
    status = dlock_sql_change(attempt, "extend",
                              "UPDATE dlock_record SET expires = " LEASE_END
                              " WHERE name = {name} AND owner = {owner}"
                              " AND expires > " NOW,
                              &ours);
    if (status == DLOCK_OK && !ours)
        return DLOCK_LOST;
    if (status != DLOCK_OK)
        return status;
    key = in_redis(DLOCK_TEXT_RENEW, attempt);
    /* The row is in force: that Redis has forgotten the key does not let anybody in. */
    if (key == DLOCK_LOST)
        return DLOCK_OK;
    /* The row has its new end already, which may be the earlier one. */
    return key == DLOCK_UNREACHABLE ? DLOCK_UNKNOWN : key;
}

static enum dlock_status inspect(const struct dlock_attempt *attempt,
                                 struct dlock_holder *holder)
{
    struct dlock_sql_reply reply;
    enum dlock_status status =
        dlock_sql_run(attempt, "select",
                      "SELECT owner, TIMESTAMPDIFF(MICROSECOND, " NOW
                      ", expires) DIV 1000" RECORD,
                      &reply);

    if (status != DLOCK_OK || !reply.has_row)
        return status;
    holder->held = true;
    (void)snprintf(holder->owner, sizeof(holder->owner), "%.48s",
                   reply.columns[0]);
    holder->remaining_ms = strtoull(reply.columns[1], NULL, 10);
    return DLOCK_OK;
}

const struct dlock_strategy dlock_strategy_recorded = {
    .info = {.name = "recorded",
             .claim = "As token-lua, with a row in a SQL database as well: it "
                      "survives that Redis loses the lock.",
             .capabilities = DLOCK_CAP_REMOTE | DLOCK_CAP_RECORD |
                             DLOCK_CAP_LEASE | DLOCK_CAP_OWNER},
    .wires = &wires,
    .open = open_client,
    .session_open = dlock_sql_session_open,
    .session_close = dlock_sql_session_close,
    .acquire = acquire,
    .extend = extend,
    .release = release,
    .inspect = inspect,
};
