/*
 * Private to lock/: parts that the locks in a SQL database have in common. Each session
 * has a connection to a MariaDB or MySQL server; each statement is a step with a deadline
 * of its own. sql.c alone knows the client library.
 *
 * DLOCK_OK: the server has answered, and may have said no. After DLOCK_UNKNOWN the
 * connection is gone. It is made with the next statement; the locks of a lost one are gone.
 */
#ifndef DLOCK_SQL_H
#define DLOCK_SQL_H

#include <stdatomic.h>

#include "lock/core/client.h"

enum { DLOCK_SQL_COLUMNS_MAX = 2 };

/* client->own. */
struct dlock_sql_address {
    struct dlock_address at; /* the host and port, or the socket; the login */
    char database[65];
};

/* session->own. */
struct dlock_sql {
    struct st_mysql *mysql; /* the library's; NULL = no connection */
    uint64_t won;           /* sql-row: the last attempt that got a lock ... */
    atomic_ullong lost;     /* ... and on a connection that is gone */
};

/* The server's answer; the errors are those that a lock reckons with. */
enum dlock_sql_answer {
    DLOCK_SQL_DONE,
    DLOCK_SQL_DUPLICATE, /* the unique index has it already */
    DLOCK_SQL_NO_TABLE,
    DLOCK_SQL_CONFLICT, /* rolled back: deadlock, or a row lock's timeout */
};

struct dlock_sql_reply {
    enum dlock_sql_answer answer;
    uint64_t rows; /* inserted, deleted, or found by an update */
    bool has_row;  /* the first row, as text */
    char columns[DLOCK_SQL_COLUMNS_MAX][160]; /* NULL is "" */
};

/* A strategy's slots, for a client->url of the database alone (dlock_more.h). With the
 * connection, its locks are free as soon as the server notices. */
enum dlock_status dlock_sql_client_open(struct dlock *client);
enum dlock_status dlock_sql_session_open(struct dlock_session *session);
void dlock_sql_session_close(struct dlock_session *session);

#define DLOCK_SQL_FUNCTIONS                                                    \
    .open = dlock_sql_client_open, .session_open = dlock_sql_session_open,     \
    .session_close = dlock_sql_session_close

/* Ends the connection, and with it the locks that are its own. */
void dlock_sql_drop(struct dlock_sql *sql);

/* One statement, a step called STEP. In SQL {name} and {owner} stand for the lock's and the
 * session's, {holds} and {lease_ms} for the attempt's numbers. Under contention the server
 * rolls back one of two that wait for each other: it is sent again, a few times. */
enum dlock_status dlock_sql_run(const struct dlock_attempt *attempt,
                                const char *step, const char *sql,
                                struct dlock_sql_reply *reply);

/* The same for a change. *CHANGED: of a row at least. */
enum dlock_status dlock_sql_change(const struct dlock_attempt *attempt,
                                   const char *step, const char *sql,
                                   bool *changed);

/* The same for a row to be inserted; TABLE makes the table, the first time in a database.
 * *IS_THERE: the row was. */
enum dlock_status dlock_sql_insert(const struct dlock_attempt *attempt,
                                   const char *insert, const char *table,
                                   bool *is_there);

/* The end of a release: unless it was OURS, it was lost, or an earlier release has worked. */
static inline enum dlock_status
dlock_sql_released(const struct dlock_attempt *attempt,
                   enum dlock_status status, bool ours)
{
    return status == DLOCK_OK && !ours && !attempt->uncertain ? DLOCK_LOST
                                                              : status;
}

#endif
