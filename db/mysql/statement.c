/*
 * Prepared statements of libmariadb.
 *
 * SQLite's ?1, ?2, ... may come in any order and twice; MariaDB has only "?",
 * one after the other. So each marker of the text that is sent remembers whose
 * value it takes. Values are copied into slots that stay where they are, and so
 * the parameters are bound once in a statement's life. All rows of a result are
 * fetched before the first is looked at: the connection is free then.
 *
 * A text without parameters that is no SELECT is sent as it is: SAVEPOINT and
 * the like need not be prepared.
 */
#include "db/mysql/mysql_private.h"

#include <assert.h>
#include <errmsg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES_MAX 512 /* of a value: STORE_FENCE_NAME_BYTES_MAX */

/* query->code */
enum { DONE = 0, ROW = 1, FAILED = -1 };

struct slot {
    enum enum_field_types type; /* LONGLONG or STRING, once it was bound */
    my_bool is_null;
    unsigned long length;
    int64_t number;
    char *text; /* NULL: it is a number */
};

struct statement {
    MYSQL_STMT *stmt; /* NULL: it goes as plain text */
    bool bound, executed;
    unsigned slots_n, markers_n, columns_n;
    struct slot *slots;      /* ?1 is the first */
    unsigned short *markers; /* of each "?": which slot */
    struct slot *columns;
};

static struct mysql *of(const struct sql_query *query)
{
    return (struct mysql *)query->db;
}

/* ---- failures ----------------------------------------------------------- */

static void fail(struct sql_query *query, unsigned code, const char *text)
{
    query->code = FAILED;
    (void)mysql_judge(of(query), code, text);
}

static void fail_stmt(struct sql_query *query)
{
    MYSQL_STMT *stmt = ((struct statement *)query->stmt)->stmt;

    fail(query, mysql_stmt_errno(stmt), mysql_stmt_error(stmt));
}

/* ---- preparing ---------------------------------------------------------- */

void mysql_forget(struct sql_query *query)
{
    struct statement *it = query->stmt;

    query->stmt = NULL;
    if (!it)
        return;
    if (it->stmt)
        (void)mysql_stmt_close(it->stmt);
    for (unsigned i = 0; it->slots && i < it->slots_n; i++)
        free(it->slots[i].text);
    for (unsigned i = 0; it->columns && i < it->columns_n; i++)
        free(it->columns[i].text);
    free(it->slots);
    free(it->markers);
    free(it->columns);
    free(it);
}

/* Copies the text with each ?N as "?", and notes N. Of a plain "?" it is one
 * more than the highest before. */
static char *number_markers(const char *text, struct statement *it)
{
    char *sent = malloc(strlen(text) + 1), *end = sent, *next;
    unsigned number;

    it->markers = calloc(strlen(text) + 1, sizeof(*it->markers));
    if (!sent || !it->markers) {
        free(sent);
        return NULL;
    }
    while (*text != '\0') {
        *end++ = *text;
        if (*text++ != '?')
            continue;
        number = (unsigned)strtoul(text, &next, 10);
        if (next == text)
            number = it->slots_n + 1;
        text = next;
        if (number > it->slots_n)
            it->slots_n = number;
        it->markers[it->markers_n++] = (unsigned short)(number - 1);
    }
    *end = '\0';
    return sent;
}

static bool is_plain(const struct statement *it, const char *text)
{
    return it->markers_n == 0 && strncmp(text, "SELECT", 6) != 0;
}

/* False: no memory. A failure of the server's is noted in QUERY. */
static bool make(struct sql_query *query, struct statement *it)
{
    struct mysql *db = of(query);
    char *sent = number_markers(query->text, it);

    if (!sent)
        return false;
    it->slots = calloc(it->slots_n + 1, sizeof(*it->slots));
    if (!is_plain(it, sent))
        it->stmt = mysql_stmt_init(db->handle);
    if (!it->slots || (!it->stmt && !is_plain(it, sent))) {
        free(sent);
        return false;
    }
    if (it->stmt &&
        MYSQL_CALL(db, int, mysql_stmt_prepare, it->stmt, sent, strlen(sent)))
        fail_stmt(query);
    free(sent);
    return true;
}

/* A reader that lost its connection gets another one by asking on. A writer does
 * not: it would go on in the middle of a transaction that is gone. */
void mysql_prepare(struct sql_query *query)
{
    struct mysql *db = of(query);
    struct statement *it;

    query->code = DONE;
    if (db->role != SQL_ROLE_WRITER && !mysql_engine.in_transaction(&db->sql) &&
        mysql_connect(db) != STORE_OK)
        query->code = FAILED;
    else if (!db->handle)
        fail(query, CR_SERVER_GONE_ERROR, "the connection was lost");
    if (query->code == FAILED || query->stmt)
        return;
    it = calloc(1, sizeof(*it));
    query->stmt = it;
    if (!it || !make(query, it))
        fail(query, CR_OUT_OF_MEMORY, "out of memory");
    if (query->code == FAILED)
        mysql_forget(query);
}

/* ---- values ------------------------------------------------------------- */

static struct slot *slot_of(struct sql_query *query, int at,
                            enum enum_field_types type)
{
    struct statement *it = query->stmt;
    struct slot *slot = &it->slots[at - 1];

    assert(at >= 1 && (unsigned)at <= it->slots_n);
    assert(!it->bound || slot->type == type);
    slot->type = type;
    return slot;
}

void mysql_bind_ints(struct sql_query *query, int at, const int64_t values[],
                     size_t n)
{
    for (size_t i = 0; i < n && query->code == DONE; i++)
        slot_of(query, at + (int)i, MYSQL_TYPE_LONGLONG)->number = values[i];
}

void mysql_bind_text(struct sql_query *query, int at, const char *text)
{
    struct slot *slot;

    if (query->code != DONE)
        return;
    slot = slot_of(query, at, MYSQL_TYPE_STRING);
    if (!slot->text && !(slot->text = malloc(TEXT_BYTES_MAX + 1))) {
        fail(query, CR_OUT_OF_MEMORY, "out of memory");
        return;
    }
    slot->is_null = (my_bool)(text[0] == '\0');
    slot->length = strlen(text);
    assert(slot->length <= TEXT_BYTES_MAX);
    memcpy(slot->text, text, slot->length);
}

static MYSQL_BIND bind_of(struct slot *slot)
{
    bool number = slot->type == MYSQL_TYPE_LONGLONG;

    return (MYSQL_BIND){
        .buffer_type = slot->type,
        .buffer = number ? (void *)&slot->number : (void *)slot->text,
        .buffer_length = number ? sizeof(slot->number) : TEXT_BYTES_MAX,
        .length = &slot->length,
        .is_null = &slot->is_null,
    };
}

/* Both copy what they are given. */
static bool bind_all(struct statement *it)
{
    MYSQL_BIND *binds = calloc(it->markers_n + 1, sizeof(*binds));
    bool good = binds != NULL;

    for (unsigned i = 0; good && i < it->markers_n; i++)
        binds[i] = bind_of(&it->slots[it->markers[i]]);
    good = good && !mysql_stmt_bind_param(it->stmt, binds);
    free(binds);
    it->bound = good;
    return good;
}

/* A statement that failed after its first rows must go: libmariadb believes that more
 * of them come, and would wait for them if it were executed again, or its result freed. */
static void fail_rows(struct sql_query *query)
{
    fail_stmt(query);
    mysql_forget(query);
}

/* Every column comes as text: a sum is a decimal to the server, a constant has a
 * type of its own. */
static bool bind_columns(struct statement *it)
{
    unsigned n = mysql_stmt_field_count(it->stmt);
    MYSQL_BIND *binds = calloc(n + 1, sizeof(*binds));
    bool good;

    it->columns = calloc(n + 1, sizeof(*it->columns));
    it->columns_n = n;
    good = binds && it->columns;
    for (unsigned i = 0; good && i < n; i++) {
        it->columns[i].type = MYSQL_TYPE_STRING;
        it->columns[i].text = malloc(TEXT_BYTES_MAX + 1);
        good = it->columns[i].text != NULL;
        binds[i] = bind_of(&it->columns[i]);
    }
    good = good && !mysql_stmt_bind_result(it->stmt, binds);
    free(binds);
    return good;
}

/* ---- running ------------------------------------------------------------ */

static void count(struct mysql *db, int64_t rows)
{
    db->sql.changed = rows;
    db->sql.changes += rows;
}

static void run(struct sql_query *query, struct statement *it)
{
    struct mysql *db = of(query);

    if (!it->stmt) {
        if (mysql_plain(db, query->text) == STORE_OK)
            count(db, (int64_t)mysql_affected_rows(db->handle));
        else
            query->code = FAILED;
        return;
    }
    if ((!it->bound && !bind_all(it)) ||
        MYSQL_CALL(db, int, mysql_stmt_execute, it->stmt)) {
        fail_stmt(query);
        return;
    }
    if (mysql_stmt_field_count(it->stmt) == 0)
        count(db, (int64_t)mysql_stmt_affected_rows(it->stmt));
    else if ((!it->columns && !bind_columns(it)) ||
             MYSQL_CALL(db, int, mysql_stmt_store_result, it->stmt))
        fail_rows(query);
}

bool mysql_next(struct sql_query *query)
{
    struct statement *it = query->stmt;
    int rc;

    if (query->code == FAILED)
        return false;
    if (!it->executed) {
        it->executed = true;
        run(query, it);
        if (query->code == FAILED)
            return false;
    }
    query->code = DONE;
    if (it->stmt && mysql_stmt_field_count(it->stmt) > 0) {
        rc = mysql_stmt_fetch(it->stmt);
        if (rc == 0 || rc == MYSQL_DATA_TRUNCATED)
            query->code = ROW;
        else if (rc != MYSQL_NO_DATA)
            fail_stmt(query);
    }
    return query->code == ROW;
}

/* A sum of doubles may have an exponent; like SQLite, more than there is room for is
 * the most. */
int64_t mysql_column_int(const struct sql_query *query, int column)
{
    char text[32], *end;
    int64_t number;
    double real;

    mysql_column_text(query, column, text, sizeof(text));
    number = strtoll(text, &end, 10);
    if (*end == '\0')
        return number;
    real = strtod(text, NULL);
    return real < 0x1p63 ? (int64_t)real : INT64_MAX;
}

void mysql_column_text(const struct sql_query *query, int column, char *text,
                       size_t size)
{
    const struct slot *found =
        &((const struct statement *)query->stmt)->columns[column];
    int length = found->is_null ? 0 : (int)found->length;

    snprintf(text, size, "%.*s", length, found->text);
}

enum store_status mysql_end(struct sql_query *query)
{
    struct statement *it = query->stmt;

    if (it && it->executed && it->stmt)
        (void)mysql_stmt_free_result(it->stmt);
    if (it)
        it->executed = false;
    return query->code == FAILED ? of(query)->status : STORE_OK;
}

/* The server says which number each row has got: of a cluster each node counts
 * in steps of its own. */
enum store_status mysql_insert(struct sql_query *query, int64_t numbers[],
                               size_t n)
{
    size_t found = 0;

    while (found < n && mysql_next(query))
        numbers[found++] = mysql_column_int(query, 0);
    count(of(query), (int64_t)found);
    if (query->code != FAILED && found < n)
        fail(query, 0, "an INSERT told too few numbers");
    return mysql_end(query);
}
