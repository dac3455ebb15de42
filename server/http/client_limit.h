/*
 * How many orders one client may have waiting: so that one of them cannot fill
 * the dispatcher's queue and leave all others with 503.
 *
 * It limits neither how many orders a client may place, nor how fast. A client
 * that waits for its answers never meets it. Behind a proxy all clients have one
 * address, unless it is one of --trusted-proxy, which says whose order it is.
 *
 * Orders are counted by a hash of the address, so nobody has to be remembered. Two
 * addresses share a count by a chance of one in CLIENT_COUNTS, and the seed keeps
 * secret which ones do.
 */
#ifndef CLIENT_LIMIT_H
#define CLIENT_LIMIT_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdint.h>

#define CLIENT_COUNTS 65536

struct client_limit {
    unsigned inflight_max; /* orders of each */
    uint64_t seed;
    atomic_uint counts[CLIENT_COUNTS];
};

/*
 * Counts an order of this address, of IPv6 of this network; from any thread and without
 * waiting. Returns the count, for client_limit_leave(). NULL: the client has too many.
 */
atomic_uint *client_limit_enter(struct client_limit *limit,
                                const struct in6_addr *address);
void client_limit_leave(atomic_uint *count);

#endif
