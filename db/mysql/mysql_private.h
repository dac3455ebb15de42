/*
 * For the files of the engine MariaDB. No other file includes this, or
 * sees <mysql.h>.
 */
#ifndef STORE_MYSQL_PRIVATE_H
#define STORE_MYSQL_PRIVATE_H

#include "db/sql.h"

#include <mysql.h>

/* Where the server is, and as whom we come. */
struct mysql_address {
    char host[256]; /* "" = the socket */
    char socket[108];
    unsigned port;
    char user[81];
    char password[129];
    char password_file[256]; /* "" = from the environment */
    char database[65];
    bool tls;     /* and nothing but TLS */
    char ca[256]; /* file: who signs the server's certificate; "" = anybody */
};

#define MYSQL_VALUES 768 /* of a statement: an INSERT of many orders */

struct mysql {
    struct sql sql;
    MYSQL *handle; /* NULL: it was lost */
    struct mysql_address address;
    struct gaicb *question;          /* about its host, to libc; NULL = none */
    uint64_t on_wait_us;             /* when to call options.on_wait again */
    int64_t numbers[MYSQL_VALUES];   /* of ?1 and so on, where it is no text */
    MYSQL_BIND values[MYSQL_VALUES]; /* of ?1 and so on */
    MYSQL_BIND sent[MYSQL_VALUES];   /* the same as the text has its "?" */
};

/* ---- connection.c -------------------------------------------------------- */

/* Waits until WANTED has come about, in the library's terms; a time-out at *UNTIL_US,
 * by monotonic_us(); 0: when a statement that begins now has to be answered. */
int mysql_await(struct mysql *db, int wanted, uint64_t *until_us);

/* Calls a function of the library that has a non-blocking half, and gives what it
 * gives: MYSQL_CALL(db, int, mysql_real_query, handle, text, length). */
#define MYSQL_CALL(db, type, function, object, ...)                            \
    ({                                                                         \
        uint64_t until_us_ = 0;                                                \
        type result_ = 0;                                                      \
        int wanted_ = function##_start(&result_, object, ##__VA_ARGS__);       \
        while (wanted_ != 0)                                                   \
            wanted_ = function##_cont(&result_, object,                        \
                                      mysql_await((db), wanted_, &until_us_)); \
        result_;                                                               \
    })

/* Connects, if there is no connection that looks alive. Not in a transaction. */
enum store_status mysql_connect(struct mysql *db);

/* Gives up a connection that cannot be trusted, and what it had prepared. */
void mysql_drop_connection(struct mysql *db);

/* Notes a failure of the library or the server, by its CODE, which is not one of
 * a COMMIT; says what it means. */
enum store_status mysql_judge(struct mysql *db, unsigned code,
                              const char *text);

/* Runs a statement without parameters and rows, as text, which ends with itself or with
 * ";" and the line. */
enum store_status mysql_plain(struct mysql *db, const char *text);

enum store_status mysql_open(struct sql *db);
void mysql_close_all(struct sql *db);

/* Frees what the engine keeps for a query (mysql.c). */
void mysql_forget(struct sql_query *query);

#endif
