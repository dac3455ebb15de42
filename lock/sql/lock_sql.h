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
 * One statement on the session's connection. Under contention the server rolls
 * back one of two that wait for each other: it had no effect, and is sent
 * again, a few times.
 */
enum dlock_status dlock_sql_run(struct dlock_session *session,
                                const struct dlock_attempt *attempt,
                                const struct dlock_statement *statement,
                                struct dlock_sql_reply *reply,
                                struct dlock_error *error);

/* The same for a row to be inserted; TABLE makes the table, the first time in a
 * database. Two may do that at once; one of them does it. */
enum dlock_status dlock_sql_insert(struct dlock_session *session,
                                   const struct dlock_attempt *attempt,
                                   const struct dlock_statement *insert,
                                   const char *table,
                                   struct dlock_sql_reply *reply,
                                   struct dlock_error *error);

/* " WHERE name = ...": the lock, whoever holds it. */
void dlock_sql_where_name(struct dlock_statement *statement,
                          const struct dlock_attempt *attempt);

/* " WHERE name = ... AND owner = ...": the lock of this session's. */
void dlock_sql_where_ours(struct dlock_statement *statement,
                          const struct dlock_session *session,
                          const struct dlock_attempt *attempt);

/*
 * The end of a release. OURS: there was something to give back. If not, the
 * lock was lost; or this is the release whose answer was lost, and the first
 * time it had worked.
 */
enum dlock_status dlock_sql_released(struct dlock_session *session,
                                     const struct dlock_attempt *attempt,
                                     enum dlock_status status, bool ours);

#endif
