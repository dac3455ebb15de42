/*
 * Private to lock/: what the locks in a SQL database have in common: the
 * session's connection, and the memory of a release that got no answer.
 */
#ifndef DLOCK_LOCK_SQL_H
#define DLOCK_LOCK_SQL_H

#include "lock/sql/sql.h"

/* session->own. */
struct dlock_sql_own {
    struct dlock_sql *sql;
    uint64_t unknown_release; /* the attempt; 0 = none */
};

/* Takes URL, or the part of the client's that is of the database, apart:
 * client->own. And a strategy's close. */
enum dlock_status dlock_sql_client_open(struct dlock *client, const char *url,
                                        struct dlock_error *error);
void dlock_sql_client_close(struct dlock *client);

/* A strategy's session_open and session_close: session->own. */
enum dlock_status dlock_sql_session_open(struct dlock_session *session,
                                         struct dlock_error *error);
void dlock_sql_session_close(struct dlock_session *session);

/*
 * One statement on the session's connection, a step called STEP. In SQL {name} and
 * {owner} stand for the lock's and the session's, {holds} and {lease_ms} for the
 * attempt's numbers. Under contention the server rolls back one of two that wait for
 * each other: it had no effect, and is sent again, a few times.
 */
enum dlock_status dlock_sql_run(struct dlock_session *session,
                                const struct dlock_attempt *attempt,
                                const char *step, const char *sql,
                                struct dlock_sql_reply *reply,
                                struct dlock_error *error);

/* The same for a change. *CHANGED: of a row at least. */
enum dlock_status dlock_sql_change(struct dlock_session *session,
                                   const struct dlock_attempt *attempt,
                                   const char *step, const char *sql,
                                   bool *changed, struct dlock_error *error);

/* The same for a row to be inserted; TABLE makes the table, the first time in a
 * database. Two may do that at once; one of them does it. *IS_THERE: the row was. */
enum dlock_status dlock_sql_insert(struct dlock_session *session,
                                   const struct dlock_attempt *attempt,
                                   const char *insert, const char *table,
                                   bool *is_there, struct dlock_error *error);

/*
 * The end of a release. OURS: there was something to give back. If not, the
 * lock was lost; or this is the release whose answer was lost, and the first
 * time it had worked.
 */
enum dlock_status dlock_sql_released(struct dlock_session *session,
                                     const struct dlock_attempt *attempt,
                                     enum dlock_status status, bool ours);

#endif
