/*
 * Access: which Host names this server, who is the administrator, and how
 * many orders one client may have in flight.
 *
 * Without an admin token the administrator is anybody on this machine, and so is
 * every page in a browser on this machine. Three things keep such a page from
 * using that:
 *   - Host. A page of evil.example, which lets that name point to 127.0.0.1
 *     afterwards (DNS rebinding), is of our own origin for the browser; but the
 *     browser sends its name. A request from this machine whose Host is none of
 *     our names is refused with 421.
 *   - Origin and Sec-Fetch-Site, by which browsers say that another site's page
 *     has sent the request: it is not an administrator's.
 *   - application/json, which a page of another site may not send without asking
 *     first, and we never allow it: see route.c.
 *
 * With a token, or from another machine, an address grants nothing. Then any
 * Host will do: customers come by whatever name points to us, and proxies pass
 * it on. A request that a proxy on this machine forwards is not an
 * administrator's either, if the proxy says that it does (X-Forwarded-For or
 * Forwarded). Its Host counts all the same: a page may write these fields, too.
 */
#include "server/http/request.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "server/base/app.h"
#include "server/base/config.h"

#define HOST_BYTES 262 /* a name of DNS, and a port */

#define ODD UINT64_C(0x9e3779b97f4a7c15) /* 2^64 by the golden ratio */

/* SIGHUP may change it. Each request asks whether there is one. */
static struct {
    pthread_mutex_t mutex; /* guards the text */
    char text[sizeof(((struct config *)0)->admin_token)];
    atomic_bool is_set;
} token = {.mutex = PTHREAD_MUTEX_INITIALIZER};

void access_set_token(const char *text)
{
    pthread_mutex_lock(&token.mutex);
    snprintf(token.text, sizeof(token.text), "%s", text);
    pthread_mutex_unlock(&token.mutex);
    atomic_store(&token.is_set, *text != '\0');
}

bool access_has_token(void)
{
    return atomic_load_explicit(&token.is_set, memory_order_relaxed);
}

/* Where the port of "HOST:PORT" begins, with its colon; the end if there is
 * none. The colons of "[::1]" are not it. */
static const char *port_of(const char *authority)
{
    const char *bracket = strrchr(authority, ']');

    return strchrnul(bracket ? bracket : authority, ':');
}

/* SIZE bytes of HOST are the host of AUTHORITY. */
static bool is_host_of(const char *authority, const char *host, size_t size)
{
    return (size_t)(port_of(authority) - authority) == size &&
           strncasecmp(authority, host, size) == 0;
}

bool access_is_our_host(const char *host, const char *listen,
                        const char *address)
{
    const char *port = port_of(host);
    size_t size = (size_t)(port - host);
    char machine[HOST_NAME_MAX + 1] = "";
    struct in6_addr v4;

    /* "localhost:1@evil.example" is at evil.example. */
    if (*port && port[1 + strspn(port + 1, "0123456789")])
        return false;
    return is_host_of("localhost", host, size) ||
           is_host_of("[::1]", host, size) || is_host_of(listen, host, size) ||
           is_host_of(address, host, size) ||
           (strspn(host, "0123456789.") == size && address_parse(host, &v4) &&
            address_is_loopback(&v4)) ||
           (size > 0 && !gethostname(machine, sizeof(machine)) &&
            is_host_of(machine, host, size));
}

/* The addresses are read from the right, because each proxy appends the one that it
 * was called from. The first that is no trusted proxy's is the client; anybody may have
 * written those to the left of it. A proxy may add a field rather than an element. */
struct in6_addr access_client(const struct request *request)
{
    const char *trusted = request->app->config->trusted_proxy, *at;
    const struct check_head *head = &request->head;
    const struct check_field *field = head->fields + head->fields_n;
    struct in6_addr client = request->peer, next;

    while (field-- > head->fields) {
        if (strcasecmp(field->name, "X-Forwarded-For") != 0)
            continue;
        for (at = field->value + field->value_size;; at--) {
            while (at > field->value && at[-1] != ',')
                at--;
            /* The walk ends at the first address that is no proxy of ours: that
             * one is the client, for all that we can know. */
            if (!address_is_listed(trusted, &client) ||
                !address_parse(at, &next))
                return client;
            client = next;
            if (at == field->value)
                break;
        }
    }
    return client;
}

/* It comes from this machine, and no proxy says that it forwards it. */
static bool is_from_here(const struct request *request)
{
    return address_is_loopback(&request->peer) &&
           !request_field(request, "X-Forwarded-For", NULL) &&
           !request_field(request, "Forwarded", NULL);
}

/* The authority of an absolute target counts, and not the Host (RFC 9112, 3.2.2).
 * False: there is neither, as in HTTP/1.0, which browsers do not speak. */
static bool read_host(const struct request *request, char host[HOST_BYTES])
{
    const char *from = request_field(request, "Host", NULL);
    size_t size;

    if (*request->head.target != '/')
        /* target_split() has accepted it, so that a target without a slash has
         * a scheme. */
        from = strstr(request->head.target, "://") + 3;
    if (!from)
        return false;
    size = strcspn(from, "/?");
    if (size >= HOST_BYTES) /* none of ours: nor is "" */
        size = 0;
    memcpy(host, from, size);
    host[size] = '\0';
    return true;
}

bool access_is_misdirected(const struct request *request)
{
    const struct config *config = request->app->config;
    char host[HOST_BYTES];

    return !access_has_token() && address_is_loopback(&request->peer) &&
           read_host(request, host) &&
           !access_is_our_host(host, config->listen,
                               request->loop->group->address);
}

/* A page of another site has sent it. Programs send neither field. The origin
 * of what is sent to "localhost:8080" is "http://localhost:8080". */
static bool is_foreign(const struct request *request)
{
    size_t origins, sites;
    const char *origin = request_field(request, "Origin", &origins);
    const char *site = request_field(request, "Sec-Fetch-Site", &sites);
    const char *authority = origin ? strstr(origin, "://") : NULL;
    char host[HOST_BYTES];

    /* Two of a field are no browser's: one of them may be forged to pass. */
    if (origins > 1 || sites > 1)
        return true;
    if (origin && (!authority || !read_host(request, host) ||
                   strcasecmp(authority + 3, host) != 0))
        return true;
    return site && strcmp(site, "same-origin") != 0 &&
           strcmp(site, "none") != 0;
}

/* To compare takes the same time wherever the two differ. */
bool access_is_admin(const struct request *request)
{
    unsigned char different;
    const char *given;
    size_t n, size;

    if (!access_has_token())
        return is_from_here(request) && !is_foreign(request);
    given = request_field(request, "Authorization", &n);
    if (n != 1 || strncasecmp(given, "Bearer ", 7) != 0)
        return false;
    given += 7 + strspn(given + 7, " "); /* any number (RFC 9110, 11.4) */
    pthread_mutex_lock(&token.mutex);
    size = strlen(token.text);
    /* A wrong length may show in the time: only how much of the token was right
     * must not. */
    different = size == 0 || strlen(given) != size;
    for (n = 0; size > 0 && given[n]; n++)
        different |= (unsigned char)(given[n] ^ token.text[n % size]);
    pthread_mutex_unlock(&token.mutex);
    return !different;
}

/* ---- orders in flight --------------------------------------------------------- */

/* Each step of the hash brings all bits of what it multiplies into the upper half. The
 * count is compared before it rises: an order that is refused takes no place. */
atomic_uint *access_enter(struct access_limit *limit,
                          const struct in6_addr *client)
{
    uint64_t half[2], hash;
    atomic_uint *count;
    unsigned inflight;

    memcpy(half, client, sizeof(half));
    /* A host that has one IPv6 address usually has the 2^64 beside it. */
    if (!IN6_IS_ADDR_V4MAPPED(client))
        half[1] = 0;
    hash = (half[0] ^ limit->seed) * ODD;
    hash = (hash ^ (hash >> 32) ^ half[1]) * ODD;
    hash = (hash ^ (hash >> 32)) * ODD;
    count = &limit->counts[(hash >> 32) % ACCESS_COUNTS];
    inflight = atomic_load(count);
    do
        if (inflight >= limit->inflight_max)
            return NULL;
    while (!atomic_compare_exchange_weak(count, &inflight, inflight + 1));
    return count;
}
