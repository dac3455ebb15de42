/*
 * Addresses are kept as IPv6, those of IPv4 mapped (::ffff:10.0.0.7): a client has one
 * form, whatever the socket it came by, and networks are compared bit by bit in one way.
 */
#include "server/base/address.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* An IPv4 address, whose bytes are at V4, mapped. */
static struct in6_addr mapped(const void *v4)
{
    struct in6_addr address = {0};

    address.s6_addr[10] = address.s6_addr[11] = 0xff;
    memcpy(address.s6_addr + ADDRESS_V4_BITS / 8, v4, 4);
    return address;
}

/* memcpy(), because a struct sockaddr need not be aligned for what it really
 * is. */
struct in6_addr address_of(const struct sockaddr *peer)
{
    struct in6_addr address = {0};

    if (peer && peer->sa_family == AF_INET)
        return mapped((const char *)peer +
                      offsetof(struct sockaddr_in, sin_addr));
    if (peer && peer->sa_family == AF_INET6)
        memcpy(&address,
               (const char *)peer + offsetof(struct sockaddr_in6, sin6_addr),
               sizeof(address));
    return address;
}

/* *BITS: how long a prefix of TEXT may be, beyond that of a mapped address. */
static bool read_address(const char *text, struct in6_addr *address,
                         unsigned *bits)
{
    struct in_addr v4;

    *bits = 128;
    if (inet_pton(AF_INET, text, &v4) != 1)
        return inet_pton(AF_INET6, text, address) == 1;
    *address = mapped(&v4);
    *bits = 32;
    return true;
}

bool address_parse(const char *text, size_t size, struct in6_addr *address)
{
    char copy[INET6_ADDRSTRLEN + sizeof("[]:65535")], *host = copy, *port;
    unsigned bits;

    for (; size > 0 && strchr(" \t", *text); size--)
        text++;
    while (size > 0 && strchr(" \t", text[size - 1]))
        size--;
    if (size >= sizeof(copy))
        return false;
    *(char *)mempcpy(copy, text, size) = '\0';
    port = strchr(copy, ':');
    if (*copy == '[') {
        host++;
        copy[strcspn(copy, "]")] = '\0';
    } else if (port && !strchr(port + 1, ':')) {
        /* One colon is a port's; several are those of an IPv6 address without
         * brackets, which then has none. */
        *port = '\0';
    }
    return read_address(host, address, &bits);
}

/* The first element of *LIST, which then begins with the next; its prefix has
 * *BITS. False: it is malformed. */
static bool next_network(const char **list, struct in6_addr *network,
                         unsigned *bits)
{
    char copy[INET6_ADDRSTRLEN + sizeof("/128")], *slash;
    size_t size = strcspn(*list, ",");
    unsigned long prefix;
    char *end = "";

    if (size >= sizeof(copy))
        return false;
    *(char *)mempcpy(copy, *list, size) = '\0';
    *list += size + ((*list)[size] == ',');
    slash = strchr(copy, '/');
    if (slash)
        *slash = '\0';
    if (!read_address(copy, network, bits))
        return false;
    prefix = slash ? strtoul(slash + 1, &end, 10) : *bits;
    /* strtoul() takes a sign and blanks before the number: hence the look at
     * its first digit. */
    if (prefix > *bits || *end || (slash && !isdigit((unsigned char)slash[1])))
        return false;
    *bits = (unsigned)prefix + (*bits == 32 ? ADDRESS_V4_BITS : 0);
    return true;
}

bool address_list_valid(const char *list)
{
    struct in6_addr network;
    unsigned bits;

    /* next_network() takes a comma away with its element, and would not see
     * that nothing follows. */
    if (*list && list[strlen(list) - 1] == ',')
        return false;
    while (*list)
        if (!next_network(&list, &network, &bits))
            return false;
    return true;
}

bool address_is_listed(const char *list, const struct in6_addr *address)
{
    struct in6_addr network;
    unsigned bits, whole;

    while (*list && next_network(&list, &network, &bits)) {
        whole = bits / 8;
        /* All addresses are of IPv6, those of IPv4 mapped: one comparison of
         * prefixes serves both. */
        if (!memcmp(&network, address, whole) &&
            (bits % 8 == 0 ||
             !((network.s6_addr[whole] ^ address->s6_addr[whole]) >>
               (8 - bits % 8))))
            return true;
    }
    return false;
}
