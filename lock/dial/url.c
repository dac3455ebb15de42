/*
 * Urls of Redis servers, taken apart. Nothing that is wrong with one is quoted:
 * in a url that nobody understands, nobody can tell where the password is.
 */
#include "lock/dlock_url.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "lock/core/error.h"
#include "lock/core/net.h"
#include "lock/dial/dial.h"

const char dlock_url_forms[] =
    "use unix:PATH, redis://[USER:PASSWORD@]HOST[:PORT][/DB], "
    "sentinel://HOST,HOST/NAME or cluster://HOST,HOST, each with its :PORT if "
    "it is another; with TLS: rediss, sentinels, clusters";

enum { DATABASE_DIGITS_MAX = 9 };

#define LOCAL "unix:"

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

/* "/DB" at its end, if there is one. */
static bool take_database(struct piece *piece, struct dlock_address *address)
{
    const char *end = piece->end;
    const char *slash = last(*piece, '/');

    if (slash == NULL)
        return true;
    piece->end = slash;
    return parse_database((struct piece){slash + 1, end}, address);
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

/* "HOST:PORT", "[V6]:PORT", or without the port, which is PORT then. */
static bool parse_place(struct piece piece, const char *port,
                        struct dlock_address *address)
{
    const char *colon = last(piece, ':');
    bool bare = colon == NULL || piece.end[-1] == ']';
    struct piece host = {piece.text, bare ? piece.end : colon};

    if (bare)
        memcpy(address->port, port, strlen(port) + 1);
    else if (!parse_port((struct piece){colon + 1, piece.end}, address))
        return false;
    if (length(host) > 2 && *host.text == '[' && host.end[-1] == ']') {
        host.text++;
        host.end--;
    } else if (strcspn(host.text, ":[]@") < length(host)) {
        return false;
    }
    return put(host, address->host, sizeof(address->host));
}

/* "[USER:PASSWORD@]" at its beginning, before the first comma: a password may have any
 * of ":/@" in it. */
static bool take_login(struct piece *piece, struct dlock_address *address)
{
    struct piece first = {piece->text, piece->text + strcspn(piece->text, ",")};
    const char *at = last(first, '@');
    struct piece login = {piece->text, at};

    if (at == NULL)
        return true;
    piece->text = at + 1;
    return parse_login(login, address);
}

/* "user=USER&password=PASSWORD&db=DB", any of them; of TLS, "ca=FILE&cert=FILE&
 * key=FILE". */
static bool parse_query(struct piece piece, struct dlock_address *address)
{
    const struct {
        bool tls;
        const char *name;
        char *field;
        size_t size;
    } texts[] = {
        {true, "ca=", address->ca, sizeof(address->ca)},
        {true, "cert=", address->cert, sizeof(address->cert)},
        {true, "key=", address->key, sizeof(address->key)},
        {false, "user=", address->user, sizeof(address->user)},
        {false, "password=", address->password, sizeof(address->password)},
    };

    while (piece.text < piece.end) {
        const char *stop = memchr(piece.text, '&', length(piece));
        struct piece one = {piece.text, stop == NULL ? piece.end : stop};
        const char *value = memchr(one.text, '=', length(one));
        struct piece rest = {value == NULL ? one.end : value + 1, one.end};
        bool good = !address->tls && begins(one, "db=") &&
                    parse_database(rest, address);

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
            if (address->tls == texts[i].tls && begins(one, texts[i].name))
                good = decode(rest, texts[i].field, texts[i].size);
        if (!good)
            return false;
        piece.text = one.end + (stop != NULL);
    }
    return true;
}

/* "?ca=FILE..." at its end, without the login: a password may have a '?' in it. */
static bool take_files(struct piece *piece, struct dlock_address *address)
{
    const char *end = piece->end;
    const char *query = memchr(piece->text, '?', length(*piece));

    if (!address->tls || query == NULL)
        return true;
    piece->end = query;
    return parse_query((struct piece){query + 1, end}, address);
}

const char *dlock_address_next(const char *places, const char *port,
                               struct dlock_address *address)
{
    struct piece place = {places, places + strcspn(places, ",")};

    if (!parse_place(place, port, address))
        return NULL;
    return place.end + (*place.end == ',');
}

/* "HOST:PORT,HOST:PORT" */
static bool parse_hosts(struct piece piece, const char *port,
                        struct dlock_address *address)
{
    struct dlock_address one;
    const char *next = address->hosts;

    if (!put(piece, address->hosts, sizeof(address->hosts)))
        return false;
    for (int n = 0; n < DLOCK_HOSTS_MAX && next != NULL; n++) {
        next = dlock_address_next(next, port, &one);
        if (next != NULL && *next == '\0')
            return next[-1] != ',';
    }
    return false;
}

/* "[USER:PASSWORD@]HOST[:PORT][/DB]"; of a cluster, "HOST:PORT,HOST:PORT". */
static bool parse_tcp(struct piece piece, struct dlock_address *address)
{
    if (!take_login(&piece, address) || !take_files(&piece, address) ||
        !take_database(&piece, address))
        return false;
    return address->cluster ? parse_hosts(piece, DLOCK_PORT_SERVER, address)
                            : parse_place(piece, DLOCK_PORT_SERVER, address);
}

/* A name is sent as one word. */
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
 * "[USER:PASSWORD@]HOST:PORT,HOST:PORT/NAME[/DB]". The url ends before the first comma
 * behind the hosts. *END is set to that.
 */
static bool parse_sentinel(struct piece piece, struct dlock_address *address,
                           const char **end)
{
    struct piece name;
    const char *slash;

    if (!take_login(&piece, address))
        return false;
    slash = strchr(piece.text, '/');
    if (slash == NULL)
        return false;
    *end = slash + strcspn(slash, ",");
    name = (struct piece){slash + 1, *end};
    piece.end = slash;
    return take_files(&name, address) && take_database(&name, address) &&
           parse_hosts(piece, DLOCK_PORT_SENTINEL, address) &&
           parse_name(name, address);
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

/* "redis://", or with TLS "rediss://". */
static bool take_scheme(struct piece *piece, const char *name,
                        struct dlock_address *address)
{
    struct piece rest = {piece->text + strlen(name), piece->end};

    if (!begins(*piece, name))
        return false;
    address->tls = *rest.text == 's';
    rest.text += address->tls;
    if (!begins(rest, "://"))
        return false;
    rest.text += strlen("://");
    *piece = rest;
    return true;
}

const char *dlock_url_parse(const char *url, struct dlock_address *address)
{
    struct piece piece = {url, url};
    bool good = false;

    if (url == NULL || address == NULL)
        return NULL;
    piece.end += strcspn(url, ",");
    memset(address, 0, sizeof(*address));
    if (begins(piece, LOCAL)) {
        piece.text += strlen(LOCAL);
        good = parse_unix(piece, address);
    } else if (take_scheme(&piece, "sentinel", address)) {
        good = parse_sentinel(piece, address, &piece.end);
    } else if (take_scheme(&piece, "redis", address) ||
               (address->cluster = take_scheme(&piece, "cluster", address))) {
        if (address->cluster)
            piece.end = strchr(piece.text, '\0');
        good = parse_tcp(piece, address);
    }
    return good ? piece.end : NULL;
}

bool dlock_url_has_login(const struct dlock_address *address)
{
    return address != NULL &&
           (address->user[0] != '\0' || address->password[0] != '\0');
}

const char *dlock_address_lacks(const struct dlock_address *address)
{
    if (address->cluster && address->database > 0)
        return "a Redis Cluster has no database but 0: leave it out";
    if (address->tls && dlock_tls_made == NULL)
        return "no TLS in this program: built without libssl-dev, or "
               "libdlock-tls is not linked and registered";
    return NULL;
}

enum dlock_status dlock_address_first(const char *url,
                                      struct dlock_address *address,
                                      const char **rest)
{
    *rest = dlock_url_parse(url, address);
    if (*rest == NULL)
        return dlock_error_set(DLOCK_MISUSE, "the url: %s", dlock_url_forms);
    if (dlock_address_lacks(address) != NULL)
        return dlock_error_set(DLOCK_MISUSE, "the url: %s",
                               dlock_address_lacks(address));
    return DLOCK_OK;
}

enum dlock_status dlock_address_parse(const char *url,
                                      struct dlock_address *address)
{
    const char *rest;
    enum dlock_status status = dlock_address_first(url, address, &rest);

    if (status == DLOCK_OK && *rest != '\0')
        return dlock_error_set(DLOCK_MISUSE,
                               "the url: this lock takes one server");
    return status;
}

/* Urls for people ---------------------------------------------------------- */

/* The piece of a url that nobody is to see; of a Unix socket's, to its end. */
static struct piece secret_of(struct piece url)
{
    const char *at = last(url, '@');
    const char *next = memchr(url.text, '?', length(url));

    if (at != NULL && !begins(url, LOCAL)) {
        const char *login = strstr(url.text, "://") + strlen("://");
        const char *colon = memchr(login, ':', (size_t)(at - login));

        return (struct piece){colon == NULL ? login : colon + 1, at};
    }
    for (; next != NULL; next = memchr(next, '&', (size_t)(url.end - next)))
        if (begins((struct piece){++next, url.end}, "password="))
            return (struct piece){next + strlen("password="), url.end};
    return (struct piece){url.end, url.end};
}

/* All behind the scheme, if it has one. */
static struct piece rest_of(const char *url)
{
    size_t scheme = strspn(url, "abcdefghijklmnopqrstuvwxyz");

    if (url[scheme] == ':')
        scheme++;
    else if (url[scheme] != '\0')
        scheme = 0;
    return (struct piece){url + scheme, strchr(url, '\0')};
}

void dlock_url_hide(const char *url, char *text, size_t size)
{
    struct dlock_address address;
    size_t used = 0;

    if (text == NULL || size == 0)
        return;
    text[0] = '\0';
    while (url != NULL && used < size) {
        const char *end = dlock_url_parse(url, &address);
        struct piece hidden =
            end == NULL ? rest_of(url) : secret_of((struct piece){url, end});
        int wrote;

        end = end == NULL ? hidden.end : end;
        wrote = snprintf(text + used, size - used, "%.*s%s%.*s%.1s",
                         (int)(hidden.text - url), url,
                         length(hidden) > 0 ? "***" : "",
                         (int)(end - hidden.end), hidden.end, end);
        if (wrote < 0 || *end == '\0')
            return;
        used += (size_t)wrote;
        url = end + 1;
    }
}
