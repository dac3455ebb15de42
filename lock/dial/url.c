/*
 * Urls of Redis servers, taken apart. Nothing that is wrong with one is quoted:
 * in a url that nobody understands, nobody can tell where the password is.
 */
#include "lock/dlock_url.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "lock/dial/address.h"
#include "lock/error.h"

const char dlock_url_forms[] =
    "use unix:PATH, redis://[USER:PASSWORD@]HOST:PORT[/DB] or "
    "sentinel://HOST:PORT,HOST:PORT/NAME";

#define REDIS    "redis://"
#define SENTINEL "sentinel://"
#define LOCAL    "unix:"

enum { DATABASE_DIGITS_MAX = 9 };

/* A piece of a url, from its first byte to before END. */
struct piece {
    const char *text;
    const char *end;
};

static size_t length(struct piece piece)
{
    return (size_t)(piece.end - piece.text);
}

static bool begins(struct piece piece, const char *with)
{
    return length(piece) >= strlen(with) &&
           strncmp(piece.text, with, strlen(with)) == 0;
}

/* The last BYTE of it, or NULL. */
static const char *last(struct piece piece, char byte)
{
    return memrchr(piece.text, byte, length(piece));
}

/* As it is. False: it is empty, or too long. */
static bool put(struct piece piece, char *field, size_t size)
{
    if (length(piece) == 0 || length(piece) >= size)
        return false;
    memcpy(field, piece.text, length(piece));
    field[length(piece)] = '\0';
    return true;
}

static int digit(char byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    byte |= 'a' ^ 'A';
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* With %XX decoded; may be empty. %00 would end the text too early. */
static bool decode(struct piece piece, char *field, size_t size)
{
    size_t used = 0;

    for (const char *next = piece.text; next < piece.end; next++) {
        int byte = (unsigned char)*next;

        if (byte == '%') {
            if (piece.end - next < 3 || digit(next[1]) < 0 ||
                digit(next[2]) < 0)
                return false;
            byte = digit(next[1]) * 16 + digit(next[2]);
            next += 2;
        }
        if (byte == '\0' || used + 1 >= size)
            return false;
        field[used++] = (char)byte;
    }
    field[used] = '\0';
    return true;
}

/* Digits only: strtol() would take blanks and signs as well. */
static bool is_number(struct piece piece, size_t digits_max)
{
    return length(piece) > 0 && length(piece) <= digits_max &&
           strspn(piece.text, "0123456789") >= length(piece);
}

static bool parse_port(struct piece piece, struct dlock_address *address)
{
    if (!is_number(piece, 5) ||
        !put(piece, address->port, sizeof(address->port)))
        return false;
    return strtol(address->port, NULL, 10) >= 1 &&
           strtol(address->port, NULL, 10) <= 65535;
}

static bool parse_database(struct piece piece, struct dlock_address *address)
{
    if (!is_number(piece, DATABASE_DIGITS_MAX))
        return false;
    address->database = (unsigned)strtoul(piece.text, NULL, 10);
    return true;
}

/* "USER:PASSWORD"; of an empty user, the password has to be there. */
static bool parse_login(struct piece piece, struct dlock_address *address)
{
    const char *colon = memchr(piece.text, ':', length(piece));

    return colon != NULL &&
           decode((struct piece){piece.text, colon}, address->user,
                  sizeof(address->user)) &&
           decode((struct piece){colon + 1, piece.end}, address->password,
                  sizeof(address->password)) &&
           dlock_url_has_login(address);
}

/* "HOST:PORT" or "[V6]:PORT". */
static bool parse_place(struct piece piece, struct dlock_address *address)
{
    const char *colon = last(piece, ':');
    struct piece host = {piece.text, colon};

    if (colon == NULL ||
        !parse_port((struct piece){colon + 1, piece.end}, address))
        return false;
    if (length(host) > 2 && *host.text == '[' && host.end[-1] == ']') {
        host.text++;
        host.end--;
    } else if (strcspn(host.text, ":[]@") < length(host)) {
        return false;
    }
    return put(host, address->host, sizeof(address->host));
}

/* "[USER:PASSWORD@]" at its beginning: a password may have any of ":/@" in it. */
static bool take_login(struct piece *piece, struct dlock_address *address)
{
    const char *at = last(*piece, '@');
    struct piece login = {piece->text, at};

    if (at == NULL)
        return true;
    piece->text = at + 1;
    return parse_login(login, address);
}

/* "[USER:PASSWORD@]HOST:PORT[/DB]" */
static bool parse_tcp(struct piece piece, struct dlock_address *address)
{
    const char *slash;

    if (!take_login(&piece, address))
        return false;
    slash = last(piece, '/');
    if (slash != NULL &&
        !parse_database((struct piece){slash + 1, piece.end}, address))
        return false;
    if (slash != NULL)
        piece.end = slash;
    return parse_place(piece, address);
}

const char *dlock_address_next(const char *places,
                               struct dlock_address *address)
{
    struct piece place = {places, places + strcspn(places, ",")};

    if (!parse_place(place, address))
        return NULL;
    return place.end + (*place.end == ',');
}

/* "HOST:PORT,HOST:PORT" */
static bool parse_sentinels(struct piece piece, struct dlock_address *address)
{
    struct dlock_address one;
    const char *next = address->sentinels;

    if (!put(piece, address->sentinels, sizeof(address->sentinels)))
        return false;
    for (int n = 0; n < DLOCK_SENTINELS_MAX && next != NULL; n++) {
        next = dlock_address_next(next, &one);
        if (next != NULL && *next == '\0')
            return next[-1] != ',';
    }
    return false;
}

/* What it is sent as: one word. */
static bool parse_name(struct piece piece, struct dlock_address *address)
{
    if (!put(piece, address->primary, sizeof(address->primary)))
        return false;
    for (const char *at = address->primary; *at != '\0'; at++)
        if (!isalnum((unsigned char)*at) && strchr(".-_", *at) == NULL)
            return false;
    return true;
}

/*
 * "[USER:PASSWORD@]HOST:PORT,HOST:PORT/NAME[/DB]". The login ends before the first
 * comma, and the url before the first one behind the hosts. *END is set to that.
 */
static bool parse_sentinel(struct piece piece, struct dlock_address *address,
                           const char **end)
{
    struct piece first = piece;
    struct piece name;
    const char *slash;

    if (!take_login(&first, address))
        return false;
    piece.text = first.text;
    slash = strchr(piece.text, '/');
    if (slash == NULL)
        return false;
    *end = slash + strcspn(slash, ",");
    name = (struct piece){slash + 1, *end};
    piece.end = slash;
    slash = last(name, '/');
    if (slash != NULL &&
        !parse_database((struct piece){slash + 1, name.end}, address))
        return false;
    if (slash != NULL)
        name.end = slash;
    return parse_sentinels(piece, address) && parse_name(name, address);
}

/* "user=USER&password=PASSWORD&db=DB", any of them. */
static bool parse_query(struct piece piece, struct dlock_address *address)
{
    while (piece.text < piece.end) {
        const char *stop = memchr(piece.text, '&', length(piece));
        struct piece one = {piece.text, stop == NULL ? piece.end : stop};
        const char *value = memchr(one.text, '=', length(one));
        struct piece rest = {value == NULL ? one.end : value + 1, one.end};
        bool good = false;

        if (begins(one, "user="))
            good = decode(rest, address->user, sizeof(address->user));
        else if (begins(one, "password="))
            good = decode(rest, address->password, sizeof(address->password));
        else if (begins(one, "db="))
            good = parse_database(rest, address);
        if (!good)
            return false;
        piece.text = one.end + (stop != NULL);
    }
    return true;
}

/* Any path that fits into a socket address: the narrower of the two. */
static bool parse_unix(struct piece piece, struct dlock_address *address)
{
    const char *query = memchr(piece.text, '?', length(piece));
    struct piece path = {piece.text, query == NULL ? piece.end : query};

    address->local = true;
    return put(path, address->host,
               sizeof(((struct sockaddr_un *)NULL)->sun_path)) &&
           (query == NULL ||
            parse_query((struct piece){query + 1, piece.end}, address));
}

const char *dlock_url_parse(const char *url, struct dlock_address *address)
{
    struct piece piece = {url, url + strcspn(url, ",")};
    bool good = false;

    memset(address, 0, sizeof(*address));
    if (begins(piece, LOCAL)) {
        piece.text += strlen(LOCAL);
        good = parse_unix(piece, address);
    } else if (begins(piece, REDIS)) {
        piece.text += strlen(REDIS);
        good = parse_tcp(piece, address);
    } else if (begins(piece, SENTINEL)) {
        piece.text += strlen(SENTINEL);
        good = parse_sentinel(piece, address, &piece.end);
    }
    return good ? piece.end : NULL;
}

bool dlock_url_has_login(const struct dlock_address *address)
{
    return address->user[0] != '\0' || address->password[0] != '\0';
}

/* A url with too many, or none, of what it needs. */
enum dlock_status dlock_address_parse(const char *url,
                                      struct dlock_address *address,
                                      struct dlock_error *error)
{
    const char *rest = url == NULL ? NULL : dlock_url_parse(url, address);

    if (rest == NULL)
        return dlock_error_set(error, DLOCK_MISUSE, "the url: %s",
                               dlock_url_forms);
    if (*rest != '\0')
        return dlock_error_set(error, DLOCK_MISUSE,
                               "the url: this lock takes one server");
    return DLOCK_OK;
}

/* For people ------------------------------------------------------------- */

/* What of a url nobody is to see; of a Unix socket's, to its end. */
static struct piece secret_of(struct piece url)
{
    const char *at = last(url, '@');
    const char *next = memchr(url.text, '?', length(url));

    if (at != NULL && (begins(url, REDIS) || begins(url, SENTINEL))) {
        const char *login = strchr(url.text, '/') + 2;
        const char *colon = memchr(login, ':', (size_t)(at - login));

        return (struct piece){colon == NULL ? login : colon + 1, at};
    }
    for (; next != NULL; next = memchr(next, '&', (size_t)(url.end - next)))
        if (begins((struct piece){++next, url.end}, "password="))
            return (struct piece){next + strlen("password="), url.end};
    return (struct piece){url.end, url.end};
}

void dlock_url_hide(const char *url, char *text, size_t size)
{
    size_t used = 0;

    if (size > 0)
        text[0] = '\0';
    while (used < size) {
        struct piece one = {url, url + strcspn(url, ",")};
        struct piece hidden = secret_of(one);
        int wrote = snprintf(text + used, size - used, "%.*s%s%.*s%.1s",
                             (int)(hidden.text - url), url,
                             length(hidden) > 0 ? "***" : "",
                             (int)(one.end - hidden.end), hidden.end, one.end);

        if (wrote < 0 || *one.end == '\0')
            return;
        used += (size_t)wrote;
        url = one.end + 1;
    }
}
