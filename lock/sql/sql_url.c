/*
 * Where a SQL database is: urls taken apart.
 *
 *     mysql:unix:/run/mysqld/mysqld.sock?db=shop&user=shop
 *     mysql://shop:secret@10.0.0.7:3306/shop
 *
 * Nothing in them is decoded: a user or password with a '@' or ':' in it, or a
 * path with a '?', cannot be given.
 */
#include "lock/sql/sql.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lock/core/error.h"

static const char url_forms[] = "use mysql:unix:PATH?db=NAME&user=NAME or "
                                "mysql://USER:PASSWORD@HOST[:PORT]/DB";

/* A piece of the url into a field. False: it is too long. */
static bool put(char *field, size_t size, const char *from, size_t len)
{
    if (len >= size)
        return false;
    memcpy(field, from, len);
    field[len] = '\0';
    return true;
}

/* "db=shop&user=shop" */
static bool parse_query(const char *text, struct dlock_sql_address *address)
{
    while (*text != '\0') {
        size_t len = strcspn(text, "&");
        bool good = false;

        if (strncmp(text, "db=", 3) == 0)
            good = put(address->database, sizeof(address->database), text + 3,
                       len - 3);
        else if (strncmp(text, "user=", 5) == 0)
            good = put(address->user, sizeof(address->user), text + 5, len - 5);
        if (!good)
            return false;
        text += len + (text[len] == '&');
    }
    return true;
}

static bool parse_socket(const char *text, struct dlock_sql_address *address)
{
    size_t len = strcspn(text, "?");

    return len > 0 &&
           put(address->socket, sizeof(address->socket), text, len) &&
           (text[len] == '\0' || parse_query(text + len + 1, address));
}

/* Digits only: strtol() would take blanks and signs as well. */
static bool parse_port(const char *text, const char *end, unsigned *port)
{
    char *stop;
    long number;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    number = strtol(text, &stop, 10);
    *port = (unsigned)number;
    return errno == 0 && stop == end && number >= 1 && number <= 65535;
}

/* "USER[:PASSWORD]@HOST[:PORT]/DB", the host possibly "[V6]" */
static bool parse_tcp(const char *text, struct dlock_sql_address *address)
{
    const char *at = strchr(text, '@');
    const char *slash = at == NULL ? NULL : strrchr(at, '/');
    size_t user = strcspn(text, ":@");
    const char *host = slash == NULL ? NULL : at + 1;
    const char *colon;
    size_t len;

    if (slash == NULL || user == 0 ||
        !put(address->user, sizeof(address->user), text, user))
        return false;
    if (text + user < at &&
        !put(address->password, sizeof(address->password), text + user + 1,
             (size_t)(at - text) - user - 1))
        return false;
    colon = memrchr(host, ':', (size_t)(slash - host));
    address->port = 3306;
    if (colon == NULL || slash[-1] == ']')
        colon = slash;
    else if (!parse_port(colon + 1, slash, &address->port))
        return false;
    len = (size_t)(colon - host);
    if (len > 2 && host[0] == '[' && host[len - 1] == ']') {
        host++;
        len -= 2;
    } else if (strcspn(host, ":[]@") < len) {
        return false;
    }
    return len > 0 && put(address->host, sizeof(address->host), host, len) &&
           slash[1] != '\0' &&
           put(address->database, sizeof(address->database), slash + 1,
               strlen(slash + 1));
}

enum dlock_status dlock_sql_parse(const char *url,
                                  struct dlock_sql_address *address)
{
    bool good = false;

    *address = (struct dlock_sql_address){.user = "root", .database = "test"};
    if (url == NULL)
        return dlock_error_set(DLOCK_MISUSE, "no url: %s", url_forms);
    if (strncmp(url, "mysql:unix:", 11) == 0)
        good = parse_socket(url + 11, address);
    else if (strncmp(url, "mysql://", 8) == 0)
        good = parse_tcp(url + 8, address);
    if (!good)
        /* Not the url itself: there may be a password in it. */
        return dlock_error_set(DLOCK_MISUSE, "the url: %s", url_forms);
    return DLOCK_OK;
}
