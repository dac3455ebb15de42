/*
 * Urls of Redis servers, taken apart. Nothing that is wrong with one is quoted:
 * in a url that nobody understands, nobody can tell where the password is.
 */

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "lock/core/error.h"
#include "lock/dial/dial.h"

const char dlock_url_forms[] =
    "use unix:PATH, redis://[USER:PASSWORD@]HOST[:PORT][/DB], "
    "sentinel://HOST[:PORT],HOST/NAME or cluster://HOST[:PORT],HOST; with TLS: "
    "rediss, sentinels, clusters";

enum {
    DATABASE_DIGITS_MAX = 9,
    URL_BYTES_MAX = 8191, /* more than its parts can take */
};

#define LOCAL "unix:"

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* The text behind BYTE, the first or the last one in TEXT, which ends there from now
 * on. NULL: there is none. */
static char *cut_first(char *text, char byte)
{
    char *at = strchr(text, byte);

    if (at != NULL)
        *at++ = '\0';
    return at;
}

static char *cut_last(char *text, char byte)
{
    char *at = strrchr(text, byte);

    return at == NULL ? NULL : cut_first(at, byte);
}

/* As it is. False: it is empty, or too long. */
static bool put(const char *text, char *field, size_t size)
{
    size_t len = strlen(text);

    if (len == 0 || len >= size)
        return false;
    memcpy(field, text, len + 1);
    return true;
}

/* With %XX decoded; may be empty. %00 would end the text too early. */
static bool decode(const char *text, char *field, size_t size)
{
    size_t used = 0;

    for (; *text != '\0'; text++) {
        char byte = *text;

        if (byte == '%') {
            if (!isxdigit((unsigned char)text[1]) ||
                !isxdigit((unsigned char)text[2]))
                return false;
            byte = (char)strtol((char[]){text[1], text[2], '\0'}, NULL, 16);
            text += 2;
        }
        if (byte == '\0' || used + 1 >= size)
            return false;
        field[used++] = byte;
    }
    field[used] = '\0';
    return true;
}

/* Digits only: strtol() would take blanks and signs as well. */
static bool is_number(const char *text, size_t digits_max)
{
    size_t len = strlen(text);

    return len > 0 && len <= digits_max && strspn(text, "0123456789") == len;
}

static bool parse_database(const char *text, struct dlock_address *address)
{
    address->database = (unsigned)strtoul(text, NULL, 10);
    return is_number(text, DATABASE_DIGITS_MAX);
}

/* "[USER:PASSWORD@]" at its beginning, before the first comma: a password may have any
 * of ":/@" in it. Of an empty user, it has to be there. */
static bool take_login(char **text, struct dlock_address *address)
{
    char *at = memrchr(*text, '@', strcspn(*text, ","));
    char *user = *text;
    const char *password;

    if (at == NULL)
        return true;
    *at = '\0';
    *text = at + 1;
    /* The first colon divides: a user has none that is not written as %3A, and a password
     * may have more. */
    password = cut_first(user, ':');
    return password != NULL &&
           decode(user, address->user, sizeof(address->user)) &&
           decode(password, address->password, sizeof(address->password)) &&
           dlock_url_has_login(address);
}

/* "HOST:PORT", "[V6]:PORT", or without the port, which is PORT then. */
static bool parse_place(char *host, const char *port,
                        struct dlock_address *address)
{
    size_t len = strlen(host);
    /* "[V6]" without a port ends with its bracket: its colons are not that of a port. */
    bool bare = len > 0 && host[len - 1] == ']';
    const char *own = bare ? NULL : cut_last(host, ':');

    if (own == NULL)
        own = port;
    if (!is_number(own, 5) || strtol(own, NULL, 10) < 1 ||
        strtol(own, NULL, 10) > 65535 ||
        !put(own, address->port, sizeof(address->port)))
        return false;
    len = strlen(host);
    /* A colon without brackets around it is refused, because nobody could tell the port of
     * a V6 address by it. */
    if (len > 2 && *host == '[' && host[len - 1] == ']') {
        host[len - 1] = '\0';
        host++;
    } else if (strpbrk(host, ":[]@") != NULL) {
        return false;
    }
    return put(host, address->host, sizeof(address->host));
}

/* "user=USER&password=PASSWORD&db=DB", any of them; of TLS, "ca=FILE&cert=FILE&
 * key=FILE". */
static bool parse_query(char *query, struct dlock_address *address)
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

    for (char *next; query != NULL && *query != '\0'; query = next) {
        bool good;

        next = cut_first(query, '&');
        /* The database stands in the path of a url with TLS, whose query is for files
         * only. */
        good = !address->tls && begins(query, "db=") &&
               parse_database(query + strlen("db="), address);
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
            if (address->tls == texts[i].tls && begins(query, texts[i].name))
                good = decode(query + strlen(texts[i].name), texts[i].field,
                              texts[i].size);
        if (!good)
            return false;
    }
    return true;
}

const char *dlock_address_next(const char *places, const char *port,
                               struct dlock_address *address)
{
    /* The place is copied, because parse_place() cuts it up, and PLACES is read again at
     * the next connection. */
    char place[sizeof("[]:65535") + sizeof(address->host)];
    size_t len = strcspn(places, ",");

    if (len >= sizeof(place))
        return NULL;
    memcpy(place, places, len);
    place[len] = '\0';
    if (!parse_place(place, port, address))
        return NULL;
    return places + len + (places[len] == ',');
}

/* "HOST:PORT,HOST:PORT" */
static bool parse_hosts(const char *hosts, const char *port,
                        struct dlock_address *address)
{
    struct dlock_address one;
    const char *next = address->hosts;

    if (!put(hosts, address->hosts, sizeof(address->hosts)))
        return false;
    for (int n = 0; n < DLOCK_HOSTS_MAX && next != NULL; n++) {
        next = dlock_address_next(next, port, &one);
        /* A comma at the end promises one more host, and there is none. */
        if (next != NULL && *next == '\0')
            return next[-1] != ',';
    }
    return false;
}

/* "[USER:PASSWORD@]HOST[:PORT][/DB][?FILES]"; of a cluster with more hosts; BY_SENTINELS
 * "HOSTS/NAME[/DB]". A name is sent as one word. The login goes first: a password may
 * have a '?' in it. */
static bool parse_servers(char *text, bool by_sentinels,
                          struct dlock_address *address)
{
    static const char name_bytes[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"
                                     "abcdefghijklmnopqrstuvwxyz";
    char *name = NULL, *database;

    if (!take_login(&text, address) ||
        (address->tls && !parse_query(cut_first(text, '?'), address)))
        return false;
    /* The first slash ends the hosts, and a second one the name. */
    if (by_sentinels && (name = cut_first(text, '/')) == NULL)
        return false;
    database = cut_last(by_sentinels ? name : text, '/');
    if (database != NULL && !parse_database(database, address))
        return false;
    if (by_sentinels)
        return parse_hosts(text, DLOCK_PORT_SENTINEL, address) &&
               put(name, address->primary, sizeof(address->primary)) &&
               strspn(name, name_bytes) == strlen(name);
    return address->cluster ? parse_hosts(text, DLOCK_PORT_SERVER, address)
                            : parse_place(text, DLOCK_PORT_SERVER, address);
}

/* Any path that fits into a socket address: the narrower of the two. */
static bool parse_unix(char *path, struct dlock_address *address)
{
    char *query = cut_first(path, '?');

    address->local = true;
    return put(path, address->host,
               sizeof(((struct sockaddr_un *)NULL)->sun_path)) &&
           parse_query(query, address);
}

/* "redis://", or with TLS "rediss://"; *TEXT goes behind it. */
static bool take_scheme(char **text, const char *name,
                        struct dlock_address *address)
{
    char *rest = *text + strlen(name);

    if (!begins(*text, name))
        return false;
    address->tls = *rest == 's';
    rest += address->tls;
    if (!begins(rest, "://"))
        return false;
    *text = rest + strlen("://");
    return true;
}

/* The end of the first url: a comma. Only that of a cluster is the last one, and the
 * hosts of sentinels have commas between, and a slash behind. */
static const char *end_of(const char *url)
{
    size_t first = strcspn(url, ",");
    const char *at = memrchr(url, '@', first);
    const char *slash;

    /* A cluster's hosts have commas between them and nothing behind, so where it ends could
     * not be told. */
    if (begins(url, "cluster"))
        return strchr(url, '\0');
    /* The scheme is compared by its beginning, so that it holds for the one with TLS as
     * well. */
    if (!begins(url, "sentinel"))
        return url + first;
    /* The slash is looked for behind the login, because a password may have one. */
    if (at == NULL)
        at = strstr(url, "://");
    slash = at == NULL ? NULL : strchr(at + strspn(at, "@:/"), '/');
    return slash == NULL ? url + first : slash + strcspn(slash, ",");
}

const char *dlock_url_parse(const char *url, struct dlock_address *address)
{
    char copy[URL_BYTES_MAX + 1], *text = copy;
    const char *end;
    bool good = false;

    if (url == NULL || address == NULL)
        return NULL;
    /* ADDRESS is cleared also for a url that fails, so that no part of the last one
     * stays. */
    memset(address, 0, sizeof(*address));
    end = end_of(url);
    /* The copy is cut up below, since URL is the caller's. */
    if (end - url > URL_BYTES_MAX)
        return NULL;
    memcpy(copy, url, (size_t)(end - url));
    copy[end - url] = '\0';
    if (begins(text, LOCAL))
        good = parse_unix(text + strlen(LOCAL), address);
    else if (take_scheme(&text, "sentinel", address))
        good = parse_servers(text, true, address);
    else if (take_scheme(&text, "redis", address) ||
             (address->cluster = take_scheme(&text, "cluster", address)))
        good = parse_servers(text, false, address);
    return good ? end : NULL;
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

/* The text of URL that nobody is to see, and where it ends. END is that of the url;
 * NULL: it makes no sense, and all behind its scheme, if it has one, is hidden. A word
 * is no url, but behind a comma it may be the rest of a password. */
static const char *secret_of(const char *url, bool is_first, const char **end)
{
    size_t scheme = strspn(url, "abcdefghijklmnopqrstuvwxyz");
    const char *at, *next;

    if (*end == NULL) {
        *end = strchr(url, '\0');
        if (url[scheme] == ':')
            return url + scheme + 1;
        return url[scheme] == '\0' && is_first ? *end : url;
    }
    at = memrchr(url, '@', strcspn(url, ","));
    if (at != NULL && !begins(url, LOCAL)) {
        *end = at;
        return strchr(strstr(url, "://") + strlen("://"), ':') + 1;
    }
    for (next = strchr(url, '?'); next != NULL && next < *end;
         next = strchr(next, '&'))
        /* A unix: url has its password in the query, and the rest of that may be shown. */
        if (begins(++next, "password="))
            return next + strlen("password=");
    return *end;
}

void dlock_url_hide(const char *url, char *text, size_t size)
{
    struct dlock_address address;
    size_t used = 0;

    if (text == NULL || size == 0)
        return;
    text[0] = '\0';
    /* Each url of a list hides its own password; a url that makes no sense hides all behind
     * it. */
    while (url != NULL && used < size) {
        const char *end = dlock_url_parse(url, &address);
        const char *hidden_end = end;
        const char *hidden = secret_of(url, used == 0, &hidden_end);
        int wrote;

        end = end == NULL ? hidden_end : end;
        wrote =
            snprintf(text + used, size - used, "%.*s%s%.*s%.1s",
                     (int)(hidden - url), url, hidden < hidden_end ? "***" : "",
                     (int)(end - hidden_end), hidden_end, end);
        if (wrote < 0 || *end == '\0')
            return;
        used += (size_t)wrote;
        url = end + 1;
    }
}
