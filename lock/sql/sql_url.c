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

#include <stdlib.h>
#include <string.h>

#include "lock/core/error.h"
#include "lock/dial/dial.h"

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

/* "PATH[?db=shop&user=shop]" */
static bool parse_socket(const char *text, struct dlock_sql_address *address)
{
    size_t len = strcspn(text, "?");
    bool good =
        len > 0 && put(address->at.host, sizeof(address->at.host), text, len);

    address->at.local = true;
    while (good && text[len] != '\0') {
        text += len + 1;
        len = strcspn(text, "&");
        if (strncmp(text, "db=", 3) == 0)
            good = put(address->database, sizeof(address->database), text + 3,
                       len - 3);
        else if (strncmp(text, "user=", 5) == 0)
            good = put(address->at.user, sizeof(address->at.user), text + 5,
                       len - 5);
        else
            good = *text == '\0';
    }
    return good;
}

/* "USER[:PASSWORD]@HOST[:PORT]/DB", the host possibly "[V6]" */
static bool parse_tcp(const char *text, struct dlock_sql_address *address)
{
    const char *at = strchr(text, '@');
    const char *slash = at == NULL ? NULL : strrchr(at, '/');
    size_t user = strcspn(text, ":@");
    char place[sizeof(address->at.host) + sizeof(address->at.port)];
    const char *end;

    if (slash == NULL || slash[1] == '\0' || user == 0 ||
        !put(address->at.user, sizeof(address->at.user), text, user) ||
        !put(place, sizeof(place), at + 1, (size_t)(slash - at) - 1) ||
        !put(address->database, sizeof(address->database), slash + 1,
             strlen(slash + 1)))
        return false;
    if (text + user < at &&
        !put(address->at.password, sizeof(address->at.password),
             text + user + 1, (size_t)(at - text) - user - 1))
        return false;
    end = dlock_address_next(place, "3306", &address->at);
    return end != NULL && *end == '\0' && end[-1] != ',';
}

enum dlock_status dlock_sql_read_url(struct dlock *client, const char *url)
{
    struct dlock_sql_address *address = calloc(1, sizeof(*address));
    bool good = false;

    if (address == NULL)
        return dlock_error_set(DLOCK_UNREACHABLE, "out of memory");
    memcpy(address->at.user, "root", sizeof("root"));
    memcpy(address->database, "test", sizeof("test"));
    if (url != NULL && strncmp(url, "mysql:unix:", 11) == 0)
        good = parse_socket(url + 11, address);
    else if (url != NULL && strncmp(url, "mysql://", 8) == 0)
        good = parse_tcp(url + 8, address);
    if (good) {
        client->own = address;
        return DLOCK_OK;
    }
    free(address);
    /* Not the url itself: there may be a password in it. */
    return dlock_error_set(DLOCK_MISUSE, "the url: %s", url_forms);
}

enum dlock_status dlock_sql_client_open(struct dlock *client)
{
    return dlock_sql_read_url(client, client->url);
}

void dlock_sql_client_close(struct dlock *client)
{
    free(client->own);
}
