/* Reads socket addresses; IPv4 may come as such or mapped into IPv6. */
#include "server/http/peer.h"

#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

/*
 * One form for both families. memcpy(), because a struct sockaddr need not be
 * aligned for what it really is; other families become the address of nobody.
 */
static void as_v6(const struct sockaddr *address, struct in6_addr *v6)
{
    memset(v6, 0, sizeof(*v6));
    if (address->sa_family == AF_INET) {
        v6->s6_addr[10] = v6->s6_addr[11] = 0xff;
        memcpy(v6->s6_addr + 12,
               (const char *)address + offsetof(struct sockaddr_in, sin_addr),
               4);
    } else if (address->sa_family == AF_INET6) {
        memcpy(v6,
               (const char *)address + offsetof(struct sockaddr_in6, sin6_addr),
               sizeof(*v6));
    }
}

void peer_key(const struct sockaddr *address, unsigned char key[PEER_BYTES])
{
    struct in6_addr v6;

    as_v6(address, &v6);
    memcpy(key, v6.s6_addr, PEER_BYTES);
    if (!IN6_IS_ADDR_V4MAPPED(&v6))
        memset(key + 8, 0, 8);
}

/* All of 127.0.0.0/8 is this machine, and of IPv6 only ::1. */
bool peer_is_local(const struct sockaddr *address)
{
    struct in6_addr v6;

    as_v6(address, &v6);
    return IN6_IS_ADDR_LOOPBACK(&v6) ||
           (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}
