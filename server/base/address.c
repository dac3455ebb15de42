/*
 * Addresses are kept as IPv6, those of IPv4 mapped (::ffff:10.0.0.7): a client has one
 * form, whatever the socket it came by, and networks are compared bit by bit in one way.
 */
#include "server/base/address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* memcpy(), because a struct sockaddr need not be aligned for what it really
 * is. */
struct in6_addr address_of(const struct sockaddr *peer)
{
    struct in6_addr address = in6addr_any;

    if (peer && peer->sa_family == AF_INET) {
        address.s6_addr[10] = address.s6_addr[11] = 0xff;
        memcpy(address.s6_addr + ADDRESS_V4_BITS / 8,
               (const char *)peer + offsetof(struct sockaddr_in, sin_addr), 4);
    } else if (peer && peer->sa_family == AF_INET6) {
        memcpy(&address,
               (const char *)peer + offsetof(struct sockaddr_in6, sin6_addr),
               sizeof(address));
    }
    return address;
}

/* inet_pton() reads a mapped address too: that of IPv4 is written as one. */
static bool read_address(const char *text, struct in6_addr *address)
{
    char mapped[sizeof("::ffff:") + INET6_ADDRSTRLEN];

    if (strchr(text, ':'))
        return inet_pton(AF_INET6, text, address) == 1;
    (void)snprintf(mapped, sizeof(mapped), "::ffff:%s", text);
    return strchr(text, '.') && inet_pton(AF_INET6, mapped, address) == 1;
}

bool address_parse(const char *element, struct in6_addr *address)
{
    char host[INET6_ADDRSTRLEN + sizeof(":65535")] = "", *port;
    int size = 0;

    if (sscanf(element, " [%51[^],]", host) == 1)
        return read_address(host, address);
    (void)sscanf(element, " %51[^, \t] %n", host, &size);
    if (element[size] != '\0' && element[size] != ',')
        return false;
    /* One colon is a port's; several are those of an IPv6 address without
     * brackets, which then has none. */
    port = strchr(host, ':');
    if (port && !strchr(port + 1, ':'))
        *port = '\0';
    return read_address(host, address);
}

/* The first element of *LIST, which then begins with the next; its prefix has
 * *BITS. False: it is malformed, or nothing follows its comma. */
static bool next_network(const char **list, struct in6_addr *network,
                         unsigned *bits)
{
    char host[INET6_ADDRSTRLEN] = "", prefix[4] = "";
    int host_size = 0, prefix_size = 0;
    unsigned first_bit;

    (void)sscanf(*list, "%45[^/,]%n", host, &host_size);
    *list += host_size;
    (void)sscanf(*list, "/%3[0-9]%n", prefix, &prefix_size);
    *list += prefix_size;
    /* The prefix of an IPv4 address counts from its own first bit. */
    first_bit = strchr(host, ':') ? 0 : ADDRESS_V4_BITS;
    *bits = prefix_size ? first_bit + (unsigned)atoi(prefix) : 128;
    return read_address(host, network) && *bits <= 128 &&
           (**list == '\0' || (*(*list)++ == ',' && **list != '\0'));
}

bool address_list_valid(const char *list)
{
    struct in6_addr network;
    unsigned bits;

    while (*list)
        if (!next_network(&list, &network, &bits))
            return false;
    return true;
}

bool address_is_listed(const char *list, const struct in6_addr *address)
{
    struct in6_addr network;
    unsigned bits, same;

    while (*list && next_network(&list, &network, &bits)) {
        for (same = 0; same < bits; same++)
            if ((network.s6_addr[same / 8] ^ address->s6_addr[same / 8]) &
                (0x80 >> same % 8))
                break;
        if (same == bits)
            return true;
    }
    return false;
}
