/*
 * Private to lock/: a connection to a MariaDB or MySQL server, one statement at
 * a time, each a step with a name and with a deadline of its own. The only
 * place that knows the client library.
 *
 * Statuses, as everywhere:
 *   DLOCK_OK           the server has answered (it may have said no)
 *   DLOCK_UNREACHABLE  nothing was sent, or the server refused with an error
 *   DLOCK_UNKNOWN      it was sent, and no answer came; the connection is gone
 *
 * A connection belongs to one session, thus to one thread at a time. It is made
 * with the first statement, and made anew when it was lost; the locks of a lost one
 * are gone.
 */
#ifndef DLOCK_SQL_H
#define DLOCK_SQL_H

#include "lock/core/client.h"

enum {
    DLOCK_SQL_COLUMNS_MAX = 3,
    DLOCK_SQL_TEXT_BYTES_MAX = 4095,
};

struct dlock_sql_address {
    char host[256]; /* "" = the socket */
    char socket[108];
    unsigned port;
    char user[81];
    char password[129];
    char database[65];
};

struct dlock_sql;

/* One statement. Values are in it as hexadecimal literals and numbers. */
struct dlock_statement {
    const char *step; /* "insert" */
    const char *name; /* the lock, for the step hook */
    size_t len;
    char text[DLOCK_SQL_TEXT_BYTES_MAX + 1];
};

/* The server's answer; the errors are those that a lock reckons with. */
enum dlock_sql_answer {
    DLOCK_SQL_DONE,
    DLOCK_SQL_DUPLICATE, /* the unique index has it already */
    DLOCK_SQL_NO_TABLE,
    DLOCK_SQL_DENIED,    /* to end another user's connection */
    DLOCK_SQL_NO_THREAD, /* there is no such connection any more */
    DLOCK_SQL_CONFLICT,  /* rolled back: deadlock, or a row lock's timeout */
};

struct dlock_sql_reply {
    enum dlock_sql_answer answer;
    uint64_t rows; /* inserted, deleted, or found by an update */
    bool has_row;  /* the first row, as text */
    char columns[DLOCK_SQL_COLUMNS_MAX][160]; /* NULL is "" */
};

/*
 * "mysql:unix:PATH[?db=NAME&user=NAME]" or
 * "mysql://USER[:PASSWORD]@HOST:PORT/DB"; else DLOCK_MISUSE. Without a user:
 * root, without a database: test.
 */
enum dlock_status dlock_sql_parse(const char *url,
                                  struct dlock_sql_address *address,
                                  struct dlock_error *error);

/* Does not connect. SESSION and ADDRESS are borrowed. NULL if out of memory. */
struct dlock_sql *dlock_sql_open(const struct dlock_session *session,
                                 const struct dlock_sql_address *address);
void dlock_sql_close(struct dlock_sql *sql);

/* Ends the connection: its locks are free as soon as the server notices. */
void dlock_sql_drop(struct dlock_sql *sql);

/*
 * Sends it and waits for the answer: at most the command timeout, and not
 * beyond LIMIT_MS of lease time. Nothing is sent twice.
 */
enum dlock_status dlock_sql_do(struct dlock_sql *sql,
                               const struct dlock_statement *statement,
                               uint64_t limit_ms, struct dlock_sql_reply *reply,
                               struct dlock_error *error);

#endif
