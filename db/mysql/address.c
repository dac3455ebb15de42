/*
 * Where a MariaDB is:
 *
 *     mysql:unix:/run/mysqld/mysqld.sock?db=shop&user=shop
 *     mysql://shop@10.0.0.7:3306/shop?tls=yes&ca=/etc/ssl/shop.pem
 *
 * The password is never in it, since a command line can be read by anybody: it
 * comes from the environment, or from the first line of password-file=PATH, which is
 * read again for each connection because it may have changed.
 */
#include "db/mysql/mysql_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

enum store_status mysql_address_password(struct mysql_address *address,
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
    return mysql_address_password(address, error);
}
