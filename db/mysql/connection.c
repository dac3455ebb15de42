/*
 * A connection to MariaDB over libmariadb: where the server is, deadlines, and what
 * its errors mean.
 *
 * The library's own timeouts are whole seconds. Its non-blocking half leaves the
 * waiting to us: each statement has one deadline, and while the committer waits
 * for an answer the source of orders is asked every millisecond, so that
 * those who wait behind it hear in time.
 *
 * A row's lock, or a table's, is waited for no longer than busy_ms (rounded up to
 * seconds, as the server has it), an answer a second and a half longer: so that the
 * server says what was wrong before we hang up. Where we have hung up a thread of the
 * server waits on.
 */
#include "db/mysql/mysql_private.h"

#include <errmsg.h>
#include <errno.h>
#include <fcntl.h>
#include <mysqld_error.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
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

uint64_t mysql_until_us(const struct mysql *db)
{
    unsigned ms = lock_wait_s(db) * 1000 + ANSWER_MS;

    return monotonic_us() + (db->sql.patient ? PATIENT_MS : ms) * 1000ull;
}

/*
 * Waits until POLLER is ready; false: UNTIL_US has come. The time for an answer is
 * shorter once the store is being closed. The waiting is told of by the clock and not
 * by the poll: most answers come sooner, but a transaction may wait for many of them.
 */
static bool await(struct mysql *db, struct pollfd *poller, uint64_t until_us)
{
    const struct sql_options *options = &db->sql.options;
    uint64_t now_us;
    int ready = 0;

    while (ready <= 0) {
        now_us = monotonic_us();
        if (until_us > now_us + SQL_HURRY_MS * 1000ull && options->hurry &&
            atomic_load(options->hurry))
            until_us = now_us + SQL_HURRY_MS * 1000ull;
        if (now_us >= until_us)
            return false;
        ready = poll(poller, 1, ON_WAIT_MS);
        if (ready < 0 && errno != EINTR)
            return false;
        now_us = monotonic_us();
        if (options->on_wait && now_us >= db->on_wait_us) {
            options->on_wait(options->on_wait_ctx);
            db->on_wait_us = now_us + ON_WAIT_MS * 1000ull;
        }
    }
    return true;
}

int mysql_await(struct mysql *db, int wanted, uint64_t until_us)
{
    struct pollfd poller = {.fd = mysql_get_socket(db->handle)};

    poller.events = (short)((wanted & MYSQL_WAIT_READ ? POLLIN : 0) |
                            (wanted & MYSQL_WAIT_WRITE ? POLLOUT : 0) |
                            (wanted & MYSQL_WAIT_EXCEPT ? POLLPRI : 0));
    if (!await(db, &poller, until_us))
        return MYSQL_WAIT_TIMEOUT;
    /* An error or a hang-up is found by reading or writing. */
    if (poller.revents & (POLLERR | POLLHUP | POLLNVAL))
        return wanted & (MYSQL_WAIT_READ | MYSQL_WAIT_WRITE);
    return (poller.revents & POLLIN ? MYSQL_WAIT_READ : 0) |
           (poller.revents & POLLOUT ? MYSQL_WAIT_WRITE : 0) |
           (poller.revents & POLLPRI ? MYSQL_WAIT_EXCEPT : 0);
}

/* ---- where it is ----------------------------------------------------------- */

/*
 *     mysql:unix:/run/mysqld/mysqld.sock?db=shop&user=shop
 *     mysql://shop@10.0.0.7:3306/shop?tls=yes&ca=/etc/ssl/shop.pem
 *
 * The password is never in it, since a command line can be read by anybody: it
 * comes from the environment, or from the first line of password-file=PATH, which is
 * read again for each connection because it may have changed.
 */
#define FORMS                                                                  \
    "--db takes mysql://USER@HOST[:PORT]/DB or mysql:unix:PATH?db=NAME&user="  \
    "NAME; more: tls=yes, ca=FILE, password-file=FILE"

/* A piece of the URL into a field. False: it is too long, or empty. */
static bool put(char *field, size_t size, const char *from, size_t len)
{
    if (len == 0 || len >= size)
        return false;
    memcpy(field, from, len);
    field[len] = '\0';
    return true;
}

#define PUT(field, from, len) put((field), sizeof(field), (from), (len))

/* "db=shop&user=shop" */
static bool read_options(const char *text, struct mysql_address *address)
{
    const struct {
        const char *name;
        char *field;
        size_t size;
    } options[] = {
        {"db=", address->database, sizeof(address->database)},
        {"user=", address->user, sizeof(address->user)},
        {"ca=", address->ca, sizeof(address->ca)},
        {"password-file=", address->password_file,
         sizeof(address->password_file)},
    };
    size_t len, name, i;

    for (; *text != '\0'; text += len + (text[len] == '&')) {
        len = strcspn(text, "&");
        if (len == 7 && strncmp(text, "tls=yes", len) == 0) {
            address->tls = true;
            continue;
        }
        name = strcspn(text, "=&") + 1;
        for (i = 0; i < 4 && strncmp(text, options[i].name, name) != 0; i++)
            continue;
        if (i == 4 || name > len ||
            !put(options[i].field, options[i].size, text + name, len - name))
            return false;
    }
    address->tls |= address->ca[0] != '\0';
    return true;
}

/* "USER@HOST[:PORT]/DB", the host possibly "[V6]"; *REST begins behind it. A piece that
 * is too long ends where the next sign is not the one that must follow. */
static bool read_place(const char *text, struct mysql_address *address,
                       const char **rest)
{
    char port[6] = "3306";
    int size = 0;

    (void)sscanf(text, "%80[^@:/?]@[%255[^]/?]]%n", address->user,
                 address->host, &size);
    if (size == 0)
        (void)sscanf(text, "%80[^@:/?]@%255[^][@:/?]%n", address->user,
                     address->host, &size);
    text += size;
    if (size > 0 && *text == ':') {
        size = 0;
        (void)sscanf(text, ":%5[0-9]%n", port, &size);
        text += size;
    }
    address->port = (unsigned)strtoul(port, NULL, 10);
    if (size == 0 || address->port < 1 || address->port > 65535)
        return false;
    size = 0;
    (void)sscanf(text, "/%64[^?]%n", address->database, &size);
    *rest = text + size;
    return size > 0 && (**rest == '\0' || **rest == '?');
}

static enum store_status read_password(struct mysql_address *address,
                                       struct store_error *error)
{
    const char *password = getenv("STOCKADE_DB_PASSWORD");
    char line[sizeof(address->password) + 2] = "";
    FILE *file;

    if (address->password_file[0] != '\0') {
        file = fopen(address->password_file, "re");
        password = file ? fgets(line, sizeof(line), file) : NULL;
        if (file)
            fclose(file);
        if (!password)
            return failure_set(error, STORE_MISUSE,
                               "password-file=%s: cannot read a password there",
                               address->password_file);
        line[strcspn(line, "\r\n")] = '\0';
    }
    if (password && password[0] &&
        !PUT(address->password, password, strlen(password)))
        return failure_set(error, STORE_MISUSE,
                           "the database's password is longer than 128 bytes");
    return STORE_OK;
}

enum store_status mysql_address_read(const char *url,
                                     struct mysql_address *address,
                                     struct store_error *error)
{
    const char *rest = "";
    bool good = false;

    *address = (struct mysql_address){.user = "root"};
    if (strncmp(url, "mysql:unix:", 11) == 0) {
        rest = url + 11 + strcspn(url + 11, "?");
        good = PUT(address->socket, url + 11, (size_t)(rest - url) - 11);
    } else if (strncmp(url, "mysql://", 8) == 0) {
        good = read_place(url + 8, address, &rest);
    }
    if (!good || (*rest == '?' && !read_options(rest + 1, address)) ||
        address->database[0] == '\0')
        return failure_set(error, STORE_MISUSE, "%s", FORMS);
    return read_password(address, error);
}

/* ---- its name ------------------------------------------------------------ */

/*
 * A question to the name service, asked by a thread because getaddrinfo() has no bound.
 * It belongs to that thread and to the connection, which may be gone when the answer
 * comes. libmariadb then asks once more: TLS must have the name.
 */
struct mysql_question {
    char host[256];
    int answered_fd;    /* an eventfd */
    atomic_int failure; /* an EAI_; valid once it is answered */
    atomic_uint owners_n;
};

static void leave_question(struct mysql_question *question)
{
    if (!question || atomic_fetch_sub(&question->owners_n, 1) > 1)
        return;
    close(question->answered_fd);
    free(question);
}

static void *ask(void *arg)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct mysql_question *question = arg;
    struct addrinfo *found = NULL;
    int failure = getaddrinfo(question->host, NULL, &hints, &found);

    if (failure == 0)
        freeaddrinfo(found);
    question->failure = failure;
    (void)!eventfd_write(question->answered_fd, 1);
    leave_question(question);
    return NULL;
}

static struct mysql_question *begin_question(const char *host)
{
    struct mysql_question *question = calloc(1, sizeof(*question));
    pthread_t thread;

    if (!question)
        return NULL;
    snprintf(question->host, sizeof(question->host), "%s", host);
    question->owners_n = 2;
    question->answered_fd = eventfd(0, EFD_CLOEXEC);
    if (question->answered_fd >= 0 &&
        pthread_create(&thread, NULL, ask, question) == 0) {
        pthread_detach(thread);
        return question;
    }
    if (question->answered_fd >= 0)
        close(question->answered_fd);
    free(question);
    return NULL;
}

/* One question is under way at a time: a later look waits for the answer to it. */
static enum store_status look_up(struct mysql *db)
{
    const char *host = db->address.host;
    struct pollfd poller = {.events = POLLIN};
    int failure = EAI_MEMORY;

    if (host[0] == '\0')
        return STORE_OK;
    if (!db->question)
        db->question = begin_question(host);
    if (db->question) {
        poller.fd = db->question->answered_fd;
        if (!await(db, &poller, mysql_until_us(db)))
            return sql_fail(&db->sql, STORE_IO,
                            "look up %.100s: the name service does not answer",
                            host);
        failure = db->question->failure;
        leave_question(db->question);
        db->question = NULL;
    }
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
    {ER_SP_DOES_NOT_EXIST, STORE_BUSY, true, false,
     ": the server has ended the transaction"},
    {ER_DUP_ENTRY, STORE_BUSY, true, false,
     ": another instance was first with it"},
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
    db->status = meaning->status;
    db->sql.again = meaning->again;
    db->sql.at_once = code == ER_DUP_ENTRY;
    if (meaning->lost)
        mysql_drop_connection(db);
    return meaning->status;
}

static enum store_status judge_handle(struct mysql *db)
{
    return mysql_judge(db, mysql_errno(db->handle), mysql_error(db->handle));
}

/* A COMMIT that failed in certification, or did not get a lock, has a clear
 * answer. */
enum store_status mysql_plain(struct mysql *db, const char *text)
{
    enum store_status status;

    if (!MYSQL_CALL(db, int, mysql_real_query, db->handle, text, strlen(text)))
        return STORE_OK;
    status = judge_handle(db);
    if (status == STORE_BUSY || strcmp(text, "COMMIT") != 0)
        return status;
    db->sql.again = false;
    mysql_drop_connection(db);
    return STORE_UNKNOWN;
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
    for (size_t i = 0; i < db->sql.queries_n; i++)
        mysql_forget(&db->sql.queries[i]);
}

static MYSQL *make_handle(const struct mysql_address *to)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    unsigned protocol = MYSQL_PROTOCOL_TCP;
    my_bool yes = 1;
    MYSQL *handle;

    (void)pthread_once(&once, init_library);
    handle = mysql_init(NULL);
    if (!handle)
        return NULL;
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
    return handle;
}

/* How this session is to be: strict, and on Galera with what others have
 * committed before. A reader's transaction sees one moment. A writer that is stopped in
 * its transaction, or whose host has lost power, must lose it, because its rows are locked
 * for everybody else until then. */
static enum store_status set_up_session(struct mysql *db)
{
    unsigned long version = mysql_get_server_version(db->handle);
    const char *info = mysql_get_server_info(db->handle);
    int64_t galera = 0, ready = 0;
    char text[300];
    enum store_status status;

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
    snprintf(text, sizeof(text),
             "SET SESSION sql_mode = 'STRICT_ALL_TABLES,"
             "NO_ENGINE_SUBSTITUTION', autocommit = %d, tx_isolation = '%s', "
             "innodb_lock_wait_timeout = %u, lock_wait_timeout = %u, "
             "idle_transaction_timeout = %u",
             !db->sql.options.writes,
             db->sql.options.writes ? "READ-COMMITTED" : "REPEATABLE-READ",
             lock_wait_s(db), lock_wait_s(db),
             db->sql.options.writes ? lock_wait_s(db) + IDLE_S : 0);
    status = mysql_plain(db, text);
    if (status != STORE_OK)
        return status;
    status = sql_first(
        sql_query(&db->sql,
                  "SELECT (SELECT COUNT(*) FROM "
                  "information_schema.GLOBAL_VARIABLES WHERE VARIABLE_NAME = "
                  "'WSREP_ON' AND VARIABLE_VALUE = 'ON'), (SELECT COUNT(*) "
                  "FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = "
                  "'WSREP_READY' AND VARIABLE_VALUE = 'ON')"),
        &galera, &ready);
    db->sql.cluster = galera > 0;
    if (status == STORE_OK && db->sql.cluster && ready == 0)
        return sql_fail(&db->sql, STORE_IO, "MariaDB" NOT_SYNCED);
    if (status == STORE_OK && db->sql.cluster)
        status = mysql_plain(db, "SET SESSION wsrep_sync_wait = 3");
    return status;
}

/* The server may have hung up while nobody looked. */
enum store_status mysql_connect(struct mysql *db)
{
    const struct mysql_address *to = &db->address;
    enum store_status status;
    char byte;

    if (db->handle && recv(mysql_get_socket(db->handle), &byte, 1,
                           MSG_PEEK | MSG_DONTWAIT) != 0)
        return STORE_OK;
    mysql_drop_connection(db);
    status = look_up(db);
    if (status == STORE_OK)
        status = read_password(&db->address, sql_error(&db->sql));
    db->handle = status == STORE_OK ? make_handle(to) : NULL;
    if (status != STORE_OK)
        status = STORE_IO;
    else if (!db->handle)
        status = sql_fail(&db->sql, STORE_IO, "out of memory");
    else if (!MYSQL_CALL(db, MYSQL *, mysql_real_connect, db->handle,
                         to->host[0] ? to->host : NULL, to->user, to->password,
                         to->database, to->port,
                         to->socket[0] ? to->socket : NULL, 0))
        status = judge_handle(db);
    else
        status = set_up_session(db);
    db->sql.again = false;
    db->status = status;
    if (status != STORE_OK)
        mysql_drop_connection(db);
    else
        (void)fcntl(mysql_get_socket(db->handle), F_SETFD, FD_CLOEXEC);
    return status;
}

void mysql_close_all(struct sql *db)
{
    struct mysql *mysql = (struct mysql *)db;

    mysql_drop_connection(mysql);
    leave_question(mysql->question);
    free(mysql);
}

enum store_status mysql_open(struct sql *sql)
{
    struct mysql *db = (struct mysql *)sql;
    enum store_status status =
        mysql_address_read(sql->options.where, &db->address, sql_error(sql));

    return status == STORE_OK ? mysql_connect(db) : status;
}
