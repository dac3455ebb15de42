/*
 * A connection to MariaDB over libmariadb: where the server is, deadlines, and what
 * its errors mean.
 *
 * The library's own timeouts are whole seconds. Its non-blocking half leaves the waiting
 * to us: each statement has one deadline, and while the committer waits for an answer the
 * source of orders is asked every millisecond, so that those behind it hear in time.
 *
 * A row's lock, or a table's, is waited for no longer than busy_ms (rounded up to seconds,
 * as the server has it), an answer a second and a half longer, so that the server says
 * what was wrong before we hang up: where we have, its thread waits on.
 */
#include "db/mysql/mysql_private.h"

#include <errmsg.h>
#include <fcntl.h>
#include <limits.h>
#include <mysqld_error.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define OLDEST_SERVER 100500 /* MariaDB 10.5: INSERT ... RETURNING */
#define ANSWER_MS     1500   /* beyond the wait for a row's lock */
#define PATIENT_MS    600000
#define IDLE_S        8 /* of a transaction, beyond the wait for a row's lock */
#define ON_WAIT_MS    1

#define NOT_SYNCED                                                             \
    ": the Galera node is not synced with its cluster (wsrep_ready)"

static unsigned lock_wait_s(const struct mysql *db)
{
    return (db->sql.options.busy_ms + 999) / 1000;
}

static uint64_t answer_until_us(const struct mysql *db)
{
    unsigned ms = lock_wait_s(db) * 1000 + ANSWER_MS;

    return monotonic_us() + (db->sql.patient ? PATIENT_MS : ms) * 1000ull;
}

/* Whether to wait on for an answer. Its time is shorter once the store is being closed.
 * The waiting is told of by the clock, because a transaction may wait for many answers
 * that come soon. */
static bool may_wait(struct mysql *db, uint64_t *until_us)
{
    const struct sql_options *options = &db->sql.options;
    uint64_t now_us = monotonic_us();

    if (options->on_wait && now_us >= db->on_wait_us) {
        options->on_wait(options->on_wait_ctx);
        db->on_wait_us = now_us + ON_WAIT_MS * 1000ull;
    }
    if (options->hurry && atomic_load(options->hurry) &&
        *until_us > now_us + SQL_HURRY_MS * 1000ull)
        *until_us = now_us + SQL_HURRY_MS * 1000ull;
    return now_us < *until_us;
}

/* An error or a hang-up is found by reading or writing. */
int mysql_await(struct mysql *db, int wanted, uint64_t *until_us)
{
    struct pollfd poller = {
        .fd = mysql_get_socket(db->handle),
        .events = wanted & MYSQL_WAIT_READ ? POLLIN : POLLOUT,
    };

    /* The deadline begins with the first wait of a call, and goes on through
     * all others of that call. */
    if (*until_us == 0)
        *until_us = answer_until_us(db);
    while (may_wait(db, until_us))
        if (poll(&poller, 1, ON_WAIT_MS) > 0)
            return wanted & (MYSQL_WAIT_READ | MYSQL_WAIT_WRITE);
    return MYSQL_WAIT_TIMEOUT;
}

/* ---- where it is ----------------------------------------------------------- */

/*
 *     mysql:unix:/run/mysqld/mysqld.sock?db=shop&user=shop
 *     mysql://shop@10.0.0.7:3306/shop?tls=yes&ca=/etc/ssl/shop.pem
 *
 * The password is never in it, since a command line can be read by anybody: it
 * comes from the environment, or from the first line of password-file=PATH, which is
 * read again for each connection because it may have changed. A FIFO's writer may never
 * come, and is not waited for.
 */

/* "unix:SOCKET" or "//USER@HOST[:PORT]/DB", the host possibly "[V6]". A piece that is too
 * long ends where the next sign is not the one that must follow. */
static bool read_place(const char **text, struct mysql_address *to)
{
    int size = 0;

    (void)sscanf(*text, "unix:%107[^?]%n", to->socket, &size);
    if (size == 0)
        (void)sscanf(*text, "//%80[^@:/?]@[%255[^]/?]]%n", to->user, to->host,
                     &size);
    if (size == 0)
        (void)sscanf(*text, "//%80[^@:/?]@%255[^][@:/?]%n", to->user, to->host,
                     &size);
    *text += size;
    if (size == 0 || to->host[0] == '\0')
        return size > 0;
    size = 0;
    (void)sscanf(*text, ":%5u%n", &to->port, &size);
    *text += size;
    size = 0;
    (void)sscanf(*text, "/%64[^?]%n", to->database, &size);
    *text += size;
    return size > 0 && to->port >= 1 && to->port <= 65535;
}

/* One of "?db=shop&user=shop", and the sign before it. */
static bool read_option(const char **text, struct mysql_address *to)
{
    int size = 0;

    ++*text;
    (void)sscanf(*text, "db=%64[^&]%n", to->database, &size);
    (void)sscanf(*text, "user=%80[^&]%n", to->user, &size);
    (void)sscanf(*text, "password-file=%255[^&]%n", to->password_file, &size);
    (void)sscanf(*text, "tls=yes%n", &size);
    to->tls |= size > 0 && **text == 't';
    (void)sscanf(*text, "ca=%255[^&]%n", to->ca, &size);
    to->tls |= to->ca[0] != '\0';
    *text += size;
    return size > 0 && (**text == '\0' || **text == '&');
}

static enum store_status read_password(struct mysql_address *address,
                                       struct store_error *error)
{
    const char *password = getenv("STOCKADE_DB_PASSWORD");
    char line[sizeof(address->password) + 2] = "";
    int fd;

    if (address->password_file[0] != '\0') {
        fd = open(address->password_file, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        password = read(fd, line, sizeof(line) - 1) > 0 ? line : NULL;
        (void)close(fd);
        if (!password)
            return failure_set(error, STORE_MISUSE,
                               "password-file=%s: cannot read a password there",
                               address->password_file);
        line[strcspn(line, "\r\n")] = '\0';
    }
    if (password && snprintf(address->password, sizeof(address->password), "%s",
                             password) >= (int)sizeof(address->password))
        return failure_set(error, STORE_MISUSE,
                           "the database's password is longer than 128 bytes");
    return STORE_OK;
}

/* ---- its name ------------------------------------------------------------ */

/* A question that is still being asked stays: libc's thread writes the answer into it. */
static void drop_question(struct mysql *db)
{
    struct gaicb *question = db->question;

    db->question = NULL;
    if (!question || gai_cancel(question) == EAI_NOTCANCELED)
        return;
    if (question->ar_result)
        freeaddrinfo(question->ar_result);
    free(question);
}

/* The name service has no bound: libc asks it on a thread of its own, and the answer is
 * waited for like the server's. One question is under way at a time: a later look waits
 * for the answer to it. libmariadb then asks once more: TLS must have the name. */
static enum store_status look_up(struct mysql *db)
{
    const struct timespec pause = {.tv_nsec = ON_WAIT_MS * 1000000L};
    const char *host = db->address.host;
    struct gaicb *question = db->question;
    uint64_t until_us = answer_until_us(db);
    int failure = 0;

    if (host[0] == '\0')
        return STORE_OK;
    if (!question) {
        question = calloc(1, sizeof(*question) + strlen(host) + 1);
        if (!question)
            return sql_fail(&db->sql, STORE_IO, "out of memory");
        question->ar_name = memcpy(question + 1, host, strlen(host) + 1);
        /* The question and the name in it are one piece of memory that nobody
         * frees while libc has it. */
        failure = getaddrinfo_a(GAI_NOWAIT, &question, 1, NULL);
        db->question = question;
    }
    while (failure == 0 && gai_error(question) == EAI_INPROGRESS) {
        if (!may_wait(db, &until_us))
            return sql_fail(&db->sql, STORE_IO,
                            "look up %.100s: the name service does not answer",
                            host);
        (void)gai_suspend((const struct gaicb *const *)&question, 1, &pause);
    }
    if (failure == 0)
        failure = gai_error(question);
    drop_question(db);
    if (failure == 0)
        return STORE_OK;
    return sql_fail(&db->sql, STORE_IO, "look up %.100s: %s", host,
                    gai_strerror(failure));
}

/* ---- what went wrong ---------------------------------------------------- */

/* Errors that are not here are the last row, and not worth another try. */
static const struct meaning {
    unsigned code;
    enum store_status status;
    bool again; /* the transaction may be tried again */
    bool lost;  /* the connection is of no use any more */
    const char *advice;
} meanings[] = {
    {ER_LOCK_WAIT_TIMEOUT, STORE_BUSY, true, false, ""},
    {ER_LOCK_DEADLOCK, STORE_BUSY, true, false, ""},
    {ER_CHECKREAD, STORE_BUSY, true, false, ""},
    {ER_SP_DOES_NOT_EXIST, STORE_BUSY, true, false, ""},
    {ER_DUP_ENTRY, STORE_BUSY, true, false, ""},
    {ER_ERROR_DURING_COMMIT, STORE_IO, true, false, ""},
    {ER_UNKNOWN_COM_ERROR, STORE_IO, true, false, NOT_SYNCED},
    {CR_SERVER_LOST, STORE_IO, true, true, ""},
    {CR_SERVER_GONE_ERROR, STORE_IO, true, true, ""},
    {CR_SERVER_LOST_EXTENDED, STORE_IO, true, true, ""},
    {ER_SERVER_SHUTDOWN, STORE_IO, true, true, ""},
    {ER_CONNECTION_KILLED, STORE_IO, true, true, ""},
    {ER_QUERY_INTERRUPTED, STORE_IO, true, true, ""},
    {ER_RECORD_FILE_FULL, STORE_NO_SPACE, false, false, ""},
    {ER_DISK_FULL, STORE_NO_SPACE, false, false, ""},
    {ER_CONSTRAINT_FAILED, STORE_RANGE, false, false, ""},
    {ER_WARN_DATA_OUT_OF_RANGE, STORE_RANGE, false, false, ""},
    {ER_DATA_OUT_OF_RANGE, STORE_RANGE, false, false, ""},
    {ER_ACCESS_DENIED_ERROR, STORE_IO, false, false,
     ": is it the user in --db, and STOCKADE_DB_PASSWORD?"},
    {ER_BAD_DB_ERROR, STORE_IO, false, false, ": CREATE DATABASE comes first"},
    {ER_DBACCESS_DENIED_ERROR, STORE_IO, false, false,
     ": GRANT ALL ON it to the user in --db"},
    {0, STORE_IO, false, false, ""},
};

enum store_status mysql_judge(struct mysql *db, unsigned code, const char *text)
{
    const struct meaning *meaning = meanings;

    while (meaning->code != 0 && meaning->code != code)
        meaning++;
    (void)sql_fail(&db->sql, meaning->status, "MariaDB: %.110s (%u)%s", text,
                   code, meaning->advice);
    db->sql.again = meaning->again;
    db->sql.at_once = code == ER_DUP_ENTRY;
    if (meaning->lost)
        mysql_drop_connection(db);
    return meaning->status;
}

enum store_status mysql_plain(struct mysql *db, const char *text)
{
    const char *end = strstr(text, ";\n");
    size_t size = end ? (size_t)(end - text) : strlen(text);

    if (!MYSQL_CALL(db, int, mysql_real_query, db->handle, text, size))
        return STORE_OK;
    return mysql_judge(db, mysql_errno(db->handle), mysql_error(db->handle));
}

/* ---- connecting --------------------------------------------------------- */

static void init_library(void)
{
    (void)mysql_library_init(0, NULL, NULL);
}

void mysql_drop_connection(struct mysql *db)
{
    MYSQL *handle = db->handle;

    if (!handle)
        return;
    db->handle = NULL;
    db->sql.in_transaction = false;
    /* No farewell to a server that may not listen: the socket is shut first. */
    (void)mariadb_cancel(handle);
    mysql_close(handle);
    /* The statements were the server's, and ended with the connection. */
    for (size_t i = 0; i < db->sql.queries_n; i++)
        mysql_forget(&db->sql.queries[i]);
}

static enum store_status dial(struct mysql *db)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const struct mysql_address *to = &db->address;
    unsigned protocol = MYSQL_PROTOCOL_TCP;
    my_bool yes = 1;
    MYSQL *handle;

    (void)pthread_once(&once, init_library);
    db->handle = handle = mysql_init(NULL);
    if (!handle)
        return sql_fail(&db->sql, STORE_IO, "out of memory");
    (void)mysql_options(handle, MYSQL_OPT_NONBLOCK, 0);
    (void)mysql_options(handle, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    /* Or the library takes "localhost" for a word of its own. */
    if (to->host[0] != '\0')
        (void)mysql_options(handle, MYSQL_OPT_PROTOCOL, &protocol);
    if (to->tls)
        (void)mysql_options(handle, MYSQL_OPT_SSL_ENFORCE, &yes);
    if (to->ca[0] != '\0') {
        (void)mysql_options(handle, MYSQL_OPT_SSL_CA, to->ca);
        (void)mysql_options(handle, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &yes);
    }
    if (!MYSQL_CALL(db, MYSQL *, mysql_real_connect, handle,
                    to->host[0] ? to->host : NULL, to->user, to->password,
                    to->database, to->port, to->socket[0] ? to->socket : NULL,
                    0))
        return mysql_judge(db, mysql_errno(handle), mysql_error(handle));
    /* The private Redis is started from this process, and must not inherit the
     * connection: it would keep it open. */
    (void)fcntl(mysql_get_socket(handle), F_SETFD, FD_CLOEXEC);
    return STORE_OK;
}

/* How this session is to be: strict, with all rows that it asks for, and on Galera with
 * what others have committed before. A reader's transaction sees one moment. One that
 * stands still, because its host has lost power perhaps, must end: a writer's rows are
 * locked for everybody else until then, and what a reader may see is not thrown away. */
static enum store_status set_up_session(struct mysql *db)
{
    unsigned long version = mysql_get_server_version(db->handle);
    const char *info = mysql_get_server_info(db->handle);
    int64_t galera = 0, ready = 0;
    char text[400];

    if (!strstr(info, "MariaDB") || version < OLDEST_SERVER)
        return sql_fail(&db->sql, STORE_UNFIT,
                        "the database server is %.60s: MariaDB 10.5 or newer "
                        "is needed",
                        info);
    /* The library asks for TLS, but takes no for an answer. */
    if (db->address.tls && !mysql_get_ssl_cipher(db->handle))
        return sql_fail(&db->sql, STORE_UNFIT,
                        "the database server does not speak TLS, and --db "
                        "says tls=yes");
    /* An administrator may have set other defaults. */
    snprintf(text, sizeof(text),
             "SET SESSION sql_mode = 'STRICT_ALL_TABLES,"
             "NO_ENGINE_SUBSTITUTION', autocommit = %d, tx_isolation = '%s', "
             "innodb_lock_wait_timeout = %u, lock_wait_timeout = %u, "
             "idle_transaction_timeout = %u, sql_select_limit = %llu, "
             "sql_safe_updates = 0",
             !db->sql.options.writes,
             db->sql.options.writes ? "READ-COMMITTED" : "REPEATABLE-READ",
             lock_wait_s(db), lock_wait_s(db),
             db->sql.options.writes ? lock_wait_s(db) + IDLE_S
                                    : PATIENT_MS / 1000,
             ULLONG_MAX);
    (void)mysql_plain(db, text);
    sql_first(
        sql_query(&db->sql,
                  "SELECT (SELECT COUNT(*) FROM "
                  "information_schema.GLOBAL_VARIABLES WHERE VARIABLE_NAME = "
                  "'WSREP_ON' AND VARIABLE_VALUE = 'ON'), (SELECT COUNT(*) "
                  "FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = "
                  "'WSREP_READY' AND VARIABLE_VALUE = 'ON'), @@server_id"),
        &galera, &ready, &db->sql.server);
    db->sql.cluster = galera > 0;
    if (!db->sql.cluster)
        return db->sql.status;
    return ready ? mysql_plain(db, "SET SESSION wsrep_sync_wait = 3")
                 : sql_fail(&db->sql, STORE_IO, "MariaDB" NOT_SYNCED);
}

/* The server may have hung up while nobody looked. */
enum store_status mysql_connect(struct mysql *db)
{
    char byte;

    if (db->handle && recv(mysql_get_socket(db->handle), &byte, 1,
                           MSG_PEEK | MSG_DONTWAIT) != 0)
        return STORE_OK;
    mysql_drop_connection(db);
    if (look_up(db) == STORE_OK &&
        read_password(&db->address, sql_error(&db->sql)) != STORE_OK)
        db->sql.status = STORE_IO;
    if (db->sql.status == STORE_OK && dial(db) == STORE_OK) {
        db->sql.in_transaction = true; /* its statements must not connect */
        (void)set_up_session(db);
        db->sql.in_transaction = false;
    }
    /* No conflict: a batch must not be tried again because of it. */
    db->sql.again = false;
    if (db->sql.status != STORE_OK)
        mysql_drop_connection(db);
    return db->sql.status;
}

void mysql_close_all(struct sql *db)
{
    struct mysql *mysql = (struct mysql *)db;

    mysql_drop_connection(mysql);
    drop_question(mysql);
    free(mysql);
}

/* STORE_MISUSE, with a text without the password: the URL is none of this engine's. */
enum store_status mysql_open(struct sql *sql)
{
    struct mysql *db = (struct mysql *)sql;
    const char *rest = sql->options.where + strlen(mysql_engine.scheme);
    bool good;

    db->address = (struct mysql_address){.user = "root", .port = 3306};
    good = read_place(&rest, &db->address) && (*rest == '\0' || *rest == '?');
    while (good && *rest != '\0')
        good = read_option(&rest, &db->address);
    if (!good || db->address.database[0] == '\0')
        return sql_fail(sql, STORE_MISUSE,
                        "--db takes mysql://USER@HOST[:PORT]/DB or "
                        "mysql:unix:PATH?db=NAME&user=NAME; more: tls=yes, "
                        "ca=FILE, password-file=FILE");
    return mysql_connect(db);
}
