/*
 * Who may do what: which Host names this server, and who is the administrator.
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
 * Forwarded).
 */
#ifndef ACCESS_H
#define ACCESS_H

#include <stdbool.h>

struct request;
struct sockaddr;

/* The peer is this machine. A proxy on it makes all its clients local. */
bool access_is_local(const struct sockaddr *peer);

/* The Host is none of ours, and that matters. */
bool access_is_misdirected(const struct request *request);

bool access_is_admin(const struct request *request);

/*
 * Whether HOST, with our port or without a port, is localhost, a loopback
 * address, the name of this machine, the host that --listen names (LISTEN), or
 * the one that is bound (ADDRESS, "HOST:PORT").
 */
bool access_is_our_host(const char *host, const char *listen,
                        const char *address);

#endif
