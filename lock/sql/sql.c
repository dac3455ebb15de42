/*
 * SQL over libmariadb, with deadlines. The library's own timeouts are whole seconds and hold
 * per read. Its non-blocking half leaves the waiting to the caller: here every statement has
 * one deadline in milliseconds, and when it passes, the library is told so.
 */
#include "lock/sql/sql.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <errmsg.h>
#include <mysql.h>
#include <mysqld_error.h>

#include "lock/dial/dial.h"
#include "lock/dial/lookup.h"

enum {
    SENDS_MAX = 20, /* of one statement that is rolled back each time */
    TEXT_BYTES_MAX = 4095,
};

/* The url ------------------------------------------------------------------- */

/* False: it is too long. */
static bool put(const char *text, char *field, size_t size)
{
    return snprintf(field, size, "%s", text) < (int)size;
}

static bool parse_socket(char *query, struct dlock_sql_address *address)
{
    const char *path = strsep(&query, "?");
    bool good =
        *path != '\0' && put(path, address->at.host, sizeof(address->at.host));

    address->at.local = true;
    for (const char *one; good && (one = strsep(&query, "&")) != NULL;)
        if (strncmp(one, "db=", 3) == 0)
            good = put(one + 3, address->database, sizeof(address->database));
        else if (strncmp(one, "user=", 5) == 0)
            good = put(one + 5, address->at.user, sizeof(address->at.user));
        else
            good = *one == '\0';
    return good;
}

static bool parse_tcp(char *place, struct dlock_sql_address *address)
{
    char *password = strsep(&place, "@");
    const char *user = strsep(&password, ":");
    /* The last slash, since the database is the last part; the password was cut off before
     * it. */
    char *slash = place == NULL ? NULL : strrchr(place, '/');
    const char *end;

    if (slash == NULL || slash[1] == '\0' || *user == '\0')
        return false;
    *slash = '\0';
    /* A comma behind the place is refused, because a session has one server. */
    end = dlock_address_next(place, "3306", &address->at);
    return end != NULL && *end == '\0' && end[-1] != ',' &&
           put(user, address->at.user, sizeof(address->at.user)) &&
           put(password == NULL ? "" : password, address->at.password,
               sizeof(address->at.password)) &&
           put(slash + 1, address->database, sizeof(address->database));
}

enum dlock_status dlock_sql_client_open(struct dlock *client)
{
    struct dlock_sql_address *address = calloc(1, sizeof(*address));
    char *copy = strdup(client->url == NULL ? "" : client->url);
    bool good = false;

    client->own = address;
    if (address == NULL || copy == NULL) {
        free(copy);
        return dlock_error_set(DLOCK_UNREACHABLE, "out of memory");
    }
    /* A socket's url may leave out user and database; that of a host has to name both. */
    memcpy(address->at.user, "root", sizeof("root"));
    memcpy(address->database, "test", sizeof("test"));
    if (strncmp(copy, "mysql:unix:", 11) == 0)
        good = parse_socket(copy + 11, address);
    else if (strncmp(copy, "mysql://", 8) == 0)
        good = parse_tcp(copy + 8, address);
    free(copy);
    if (good)
        return DLOCK_OK;
    /* Not the url itself: there may be a password in it. */
    return dlock_error_set(DLOCK_MISUSE,
                           "the url: use mysql:unix:PATH?db=NAME&user=NAME or "
                           "mysql://USER:PASSWORD@HOST[:PORT]/DB");
}

/* Sessions ------------------------------------------------------------------ */

enum dlock_status dlock_sql_session_open(struct dlock_session *session)
{
    session->own = calloc(1, sizeof(struct dlock_sql));
    if (session->own != NULL)
        return DLOCK_OK;
    return dlock_error_set(DLOCK_UNREACHABLE, "out of memory");
}

/* No farewell to a server that may not listen: the socket is shut first. */
void dlock_sql_drop(struct dlock_sql *sql)
{
    if (sql->mysql == NULL)
        return;
    /* Before the server hears of it, and lets somebody else in. */
    atomic_store(&sql->lost, sql->won);
    /* The shutdown of the socket makes mysql_close() return at once, as its COM_QUIT can be
     * neither sent nor answered. */
    (void)mariadb_cancel(sql->mysql);
    mysql_close(sql->mysql);
    sql->mysql = NULL;
}

void dlock_sql_session_close(struct dlock_session *session)
{
    dlock_sql_drop(session->own);
    free(session->own);
}

/* Waiting ------------------------------------------------------------------- */

/* Waits for what the library has WANTED, and answers that all of it is there: the library
 * tries what is not in vain. MYSQL_WAIT_TIMEOUT at the deadline, also of a server that
 * always has more to say. */
static int await(MYSQL *mysql, int wanted, uint64_t until_ms)
{
    int events = (wanted & MYSQL_WAIT_READ ? POLLIN : 0) |
                 (wanted & MYSQL_WAIT_WRITE ? POLLOUT : 0);

    return dlock_net_await(mysql_get_socket(mysql), (short)events, until_ms) > 0
               ? wanted & (MYSQL_WAIT_READ | MYSQL_WAIT_WRITE)
               : MYSQL_WAIT_TIMEOUT;
}

/* Connecting ---------------------------------------------------------------- */

static void init_library(void)
{
    (void)mysql_library_init(0, NULL, NULL);
}

/* The library sets itself up with its first handle, but not for two threads. */
static MYSQL *make_handle(bool tcp)
{
    unsigned protocol = MYSQL_PROTOCOL_TCP;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    MYSQL *mysql;

    (void)pthread_once(&once, init_library);
    mysql = mysql_init(NULL);
    if (mysql == NULL)
        return NULL;
    /* TCP is asked for, because the library takes "localhost" for a word of its own. */
    if (mysql_options(mysql, MYSQL_OPT_NONBLOCK, 0) != 0 ||
        (tcp && mysql_options(mysql, MYSQL_OPT_PROTOCOL, &protocol) != 0)) {
        mysql_close(mysql);
        return NULL;
    }
    return mysql;
}

/* A child process of the host must not keep our locks for us. */
static void close_on_exec(MYSQL *mysql)
{
    int fd = mysql_get_socket(mysql);

    if (fd >= 0)
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static bool is_of_client(unsigned code)
{
    return code >= CR_MIN_ERROR && code <= CR_MAX_ERROR;
}

/* At PLACE, or the socket. The library's error, which is said. A server may leave
 * transactions open by default, so that a row would be nobody's yet. */
static unsigned connect_to(const struct dlock_session *session,
                           const struct dlock_place *place, uint64_t until_ms)
{
    const struct dlock_sql_address *to = session->client->own;
    char host[DLOCK_PLACE_BYTES_MAX + 1], port[DLOCK_PORT_BYTES_MAX + 1] = "";
    struct dlock_sql *sql = session->own;
    MYSQL *mysql = make_handle(place != NULL);
    MYSQL *made = NULL;
    my_bool failed = 0;
    unsigned code = 0;
    int wanted;

    if (mysql == NULL) {
        dlock_error_say("out of memory");
        return CR_OUT_OF_MEMORY;
    }
    if (place != NULL)
        dlock_place_text(place, host, port);
    /* CLIENT_FOUND_ROWS: an update that finds its row as it is to be counts it, as after a
     * lost answer. */
    wanted = mysql_real_connect_start(
        &made, mysql, place != NULL ? host : NULL, to->at.user, to->at.password,
        to->database, (unsigned)strtoul(port, NULL, 10),
        place != NULL ? NULL : to->at.host, CLIENT_FOUND_ROWS);
    /* The socket is marked as soon as it is there: a fork and exec of the host's may come
     * at any moment. */
    close_on_exec(mysql);
    while (wanted != 0)
        wanted = mysql_real_connect_cont(&made, mysql,
                                         await(mysql, wanted, until_ms));
    /* The library may have taken another socket on its way. */
    close_on_exec(mysql);
    if (made != NULL)
        wanted = mysql_autocommit_start(&failed, mysql, 1);
    while (wanted != 0)
        wanted = mysql_autocommit_cont(&failed, mysql,
                                       await(mysql, wanted, until_ms));
    if (made != NULL && !failed) {
        sql->mysql = made;
    } else {
        code = mysql_errno(mysql);
        dlock_error_say("mysql: %.150s", mysql_error(mysql));
        /* A handle that failed is not used again: the next statement makes a new one. */
        mysql_close(mysql);
    }
    return code;
}

/* Connects, unless there is a connection that looks alive. Names are looked up here,
 * because the library would take as long as the resolver does. Each place has its share
 * of the time; a server that refuses is the last one. */
static enum dlock_status ready(const struct dlock_session *session,
                               uint64_t until_ms)
{
    const struct dlock_sql_address *to = session->client->own;
    struct dlock_sql *sql = session->own;
    struct dlock_places places = {.n = 0};
    unsigned code = CR_CONN_HOST_ERROR;

    if (sql->mysql != NULL &&
        /* A server that has ended the connection has freed its locks: to find out here
         * makes the next statement a new connection, and not a lost answer. */
        dlock_net_stale(dlock_link_plain(mysql_get_socket(sql->mysql))))
        dlock_sql_drop(sql);
    if (sql->mysql != NULL)
        return DLOCK_OK;
    if (to->at.local)
        (void)connect_to(session, NULL, until_ms);
    else if (dlock_lookup(to->at.host, to->at.port, until_ms, &places) !=
             DLOCK_OK)
        return DLOCK_UNREACHABLE;
    /* An error of the library's own says that the place could not be reached; one of the
     * server's, such as a wrong password, would be the same elsewhere. */
    for (size_t i = 0; i < places.n && is_of_client(code); i++)
        code = connect_to(session, &places.list[i],
                          dlock_clock_real_part(until_ms, places.n - i));
    return sql->mysql != NULL ? DLOCK_OK : DLOCK_UNREACHABLE;
}

/* Statements ---------------------------------------------------------------- */

/* A hexadecimal literal has nothing to escape, whatever the server's character set and SQL
 * mode, and compares byte by byte: to a column's collation, "Lamp" and "lamp " would be
 * one name, and two locks one. */
static char *put_bytes(char *at, const char *value)
{
    at += sprintf(at, "x'");
    for (; *value != '\0'; value++)
        at += sprintf(at, "%02x", (unsigned char)*value);
    return at + sprintf(at, "'");
}

/* SQL with the attempt's values in it. A text that is too long is a bug of the strategy,
 * because names and owners are bounded. */
static void fill(char text[TEXT_BYTES_MAX + 1],
                 const struct dlock_attempt *attempt, const char *sql)
{
    char *at = text;

    while (*sql != '\0') {
        assert(at - text < TEXT_BYTES_MAX - 2 * DLOCK_NAME_BYTES_MAX - 3);
        if (*sql != '{') {
            *at++ = *sql++;
            continue;
        }
        if (strncmp(sql, "{name}", 6) == 0)
            at = put_bytes(at, attempt->name);
        else if (strncmp(sql, "{owner}", 7) == 0)
            at = put_bytes(at, attempt->session->owner);
        else
            at += sprintf(at, "%u",
                          strncmp(sql, "{holds}", 7) == 0 ? attempt->holds
                                                          : attempt->lease_ms);
        sql = strchr(sql, '}') + 1;
    }
    *at = '\0';
}

/* The first row of the result is taken, if there is one. The rest is read and thrown
 * away. */
static bool exchange(MYSQL *mysql, const char *statement, uint64_t until_ms,
                     struct dlock_sql_reply *reply)
{
    MYSQL_RES *result = NULL;
    MYSQL_ROW row;
    int failed = 0;
    int wanted =
        mysql_real_query_start(&failed, mysql, statement, strlen(statement));

    while (wanted != 0)
        wanted = mysql_real_query_cont(&failed, mysql,
                                       await(mysql, wanted, until_ms));
    if (failed)
        return false;
    /* All rows are fetched, because the connection takes the next statement only after the
     * last one. */
    wanted = mysql_store_result_start(&result, mysql);
    while (wanted != 0)
        wanted = mysql_store_result_cont(&result, mysql,
                                         await(mysql, wanted, until_ms));
    /* A result that is missing means an error, or a statement that has none: only the error
     * number tells. */
    if (result == NULL && mysql_errno(mysql) != 0)
        return false;
    if (result == NULL) {
        reply->rows = mysql_affected_rows(mysql);
        return true;
    }
    row = mysql_fetch_row(result);
    reply->has_row = row != NULL;
    for (unsigned i = 0; row != NULL && i < mysql_num_fields(result) &&
                         i < DLOCK_SQL_COLUMNS_MAX;
         i++)
        (void)snprintf(reply->columns[i], sizeof(reply->columns[i]), "%s",
                       row[i] != NULL ? row[i] : "");
    mysql_free_result(result);
    return true;
}

/* The errors that a lock reckons with, and their texts for the step hook. */
static const struct {
    unsigned code;
    enum dlock_sql_answer answer;
    const char *text;
} answers[] = {
    {ER_DUP_ENTRY, DLOCK_SQL_DUPLICATE, "duplicate"},
    {ER_NO_SUCH_TABLE, DLOCK_SQL_NO_TABLE, "no such table"},
    {ER_LOCK_DEADLOCK, DLOCK_SQL_CONFLICT, "conflict"},
    {ER_LOCK_WAIT_TIMEOUT, DLOCK_SQL_CONFLICT, "conflict"},
};

enum { ANSWERS_N = sizeof(answers) / sizeof(answers[0]) };

/* Whether the statement may have been carried out. A write that fails has sent a part at
 * most, on which no server acts. The server's errors for a connection that is being ended
 * do not say whether it was before or after. */
static enum dlock_status judge(struct dlock_sql *sql,
                               struct dlock_sql_reply *reply)
{
    unsigned code = mysql_errno(sql->mysql);
    bool uncertain = is_of_client(code) ? code != CR_SERVER_GONE_ERROR
                                        : code == ER_SERVER_SHUTDOWN ||
                                              code == ER_CONNECTION_KILLED;

    for (size_t i = 0; i < ANSWERS_N; i++)
        /* The connection is well after these: the server rolled back this statement, or
         * refused it. */
        if (answers[i].code == code) {
            reply->answer = answers[i].answer;
            return DLOCK_OK;
        }
    dlock_error_say("mysql: %.150s", mysql_error(sql->mysql));
    /* A connection that lost an answer may yet deliver it. A server that has become
     * read-only is not the primary any more. */
    if (uncertain || code == CR_SERVER_GONE_ERROR ||
        code == ER_OPTION_PREVENTS_STATEMENT)
        dlock_sql_drop(sql);
    return uncertain ? DLOCK_UNKNOWN : DLOCK_UNREACHABLE;
}

/* A step: at most the command timeout, and not beyond the attempt's limit. */
static enum dlock_status send_once(const struct dlock_attempt *attempt,
                                   const char *step, const char *statement,
                                   struct dlock_sql_reply *reply)
{
    struct dlock_session *session = attempt->session;
    const struct dlock_wire_config *config = &session->client->wire;
    struct dlock_sql *sql = session->own;
    uint64_t until_ms;
    char text[160];
    enum dlock_status status = dlock_step_begin(attempt, step, &until_ms);

    *reply = (struct dlock_sql_reply){.answer = DLOCK_SQL_DONE};
    if (status != DLOCK_OK)
        return status;
    /* Connecting has a time of its own within the attempt's, and leaves the session without
     * a connection if it fails. */
    status = ready(
        session, dlock_clock_real_until(config->connect_timeout_ms, until_ms));
    if (status == DLOCK_OK &&
        !exchange(sql->mysql, statement,
                  dlock_clock_real_until(config->command_timeout_ms, until_ms),
                  reply))
        status = judge(sql, reply);
    /* For the hook, which shows it to a person. */
    if (reply->has_row)
        (void)snprintf(text, sizeof(text), "%s", reply->columns[0]);
    else
        (void)snprintf(text, sizeof(text), "%" PRIu64 " rows", reply->rows);
    for (size_t i = 0; i < ANSWERS_N; i++)
        if (answers[i].answer == reply->answer)
            (void)snprintf(text, sizeof(text), "%s", answers[i].text);
    status =
        dlock_step_end(attempt, step, status == DLOCK_OK ? text : NULL, status);
    /* The hook may have thrown the answer away: a connection whose answer was lost must go,
     * as in judge(). */
    if (status == DLOCK_UNKNOWN)
        dlock_sql_drop(sql);
    return status;
}

enum dlock_status dlock_sql_run(const struct dlock_attempt *attempt,
                                const char *step, const char *sql,
                                struct dlock_sql_reply *reply)
{
    char statement[TEXT_BYTES_MAX + 1];

    fill(statement, attempt, sql);
    for (int sends = 0; sends < SENDS_MAX; sends++) {
        enum dlock_status status = send_once(attempt, step, statement, reply);

        /* A conflict is no answer about the lock: the statement was rolled back, and may go
         * again at once. */
        if (status != DLOCK_OK || reply->answer != DLOCK_SQL_CONFLICT)
            return status;
    }
    return dlock_error_set(DLOCK_UNREACHABLE,
                           "mysql: rolled back, as others were first");
}

enum dlock_status dlock_sql_change(const struct dlock_attempt *attempt,
                                   const char *step, const char *sql,
                                   bool *changed)
{
    struct dlock_sql_reply reply;
    enum dlock_status status = dlock_sql_run(attempt, step, sql, &reply);

    /* MariaDB may say so of a statement that was killed (KILL QUERY). An acquire is tried
     * again anyway. */
    if (status == DLOCK_OK && reply.rows == 0 && attempt->grant == NULL)
        status = dlock_sql_run(attempt, step, sql, &reply);
    *changed = status == DLOCK_OK && reply.rows > 0;
    return status;
}

enum dlock_status dlock_sql_insert(const struct dlock_attempt *attempt,
                                   const char *insert, const char *table,
                                   bool *is_there)
{
    struct dlock_sql_reply reply;
    enum dlock_status status = dlock_sql_run(attempt, "insert", insert, &reply);

    if (status == DLOCK_OK && reply.answer == DLOCK_SQL_NO_TABLE) {
        /* TABLE says IF NOT EXISTS, because another session may have been first. */
        status = dlock_sql_run(attempt, "create-table", table, &reply);
        if (status == DLOCK_OK)
            status = dlock_sql_run(attempt, "insert", insert, &reply);
    }
    *is_there = status == DLOCK_OK && reply.answer == DLOCK_SQL_DUPLICATE;
    if (status == DLOCK_OK && reply.answer == DLOCK_SQL_NO_TABLE)
        return dlock_error_set(DLOCK_UNREACHABLE,
                               "the lock table was dropped again");
    return status;
}
