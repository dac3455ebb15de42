#include "server/http/client_limit.h"

#include <stddef.h>
#include <string.h>

#define ODD UINT64_C(0x9e3779b97f4a7c15) /* 2^64 by the golden ratio */

/* Each step brings all bits of what it multiplies into the upper half. */
static atomic_uint *count_of(struct client_limit *limit,
                             const struct in6_addr *address)
{
    uint64_t half[2], hash;

    memcpy(half, address, sizeof(half));
    /* A host that has one IPv6 address usually has the 2^64 beside it. */
    if (!IN6_IS_ADDR_V4MAPPED(address))
        half[1] = 0;
    hash = (half[0] ^ limit->seed) * ODD;
    hash = (hash ^ (hash >> 32) ^ half[1]) * ODD;
    hash = (hash ^ (hash >> 32)) * ODD;
    return &limit->counts[(hash >> 32) % CLIENT_COUNTS];
}

/* Compared before it is counted: an order that is refused takes no place. */
atomic_uint *client_limit_enter(struct client_limit *limit,
                                const struct in6_addr *address)
{
    atomic_uint *count = count_of(limit, address);
    unsigned inflight = atomic_load(count);

    do
        if (inflight >= limit->inflight_max)
            return NULL;
    while (!atomic_compare_exchange_weak(count, &inflight, inflight + 1));
    return count;
}

void client_limit_leave(atomic_uint *count)
{
    atomic_fetch_sub(count, 1);
}
