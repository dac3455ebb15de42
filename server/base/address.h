/*
 * Addresses of clients and proxies: IPv4 is mapped into IPv6, so that there is
 * one kind. Pure functions.
 *
 * A list, that of --trusted-proxy, is "ADDRESS[/PREFIX],...", such as
 * "127.0.0.1,10.0.0.0/8,fd00::/8"; "" names nobody. It is read anew for each
 * question: it is short, and is asked for connections and forwarded orders only.
 */
#ifndef ADDRESS_H
#define ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#define ADDRESS_V4_BITS 96 /* of a mapped address: before the four bytes */

/* PEER may be NULL: the result is "::", which is nobody's. */
struct in6_addr address_of(const struct sockaddr *peer);

/* The address is this machine's: 127.0.0.0/8 or ::1. */
static inline bool address_is_loopback(const struct in6_addr *address)
{
    return IN6_IS_ADDR_LOOPBACK(address) ||
           (IN6_IS_ADDR_V4MAPPED(address) &&
            address->s6_addr[ADDRESS_V4_BITS / 8] == 127);
}

/* An element of X-Forwarded-For, which ends with a comma or the text: with or without
 * spaces around it, a port behind it, brackets. False: it is no address. */
bool address_parse(const char *element, struct in6_addr *address);

bool address_list_valid(const char *list);
bool address_is_listed(const char *list, const struct in6_addr *address);

#endif
