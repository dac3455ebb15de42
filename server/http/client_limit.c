/* A connection looks its client up once; an order is then counted without the
 * mutex. */
#include "server/http/client_limit.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct client {
    struct in6_addr address; /* the key */
    atomic_size_t inflight;  /* orders */
    size_t connections;
    UT_hash_handle hh;
};

struct client *client_limit_meet(struct client_limit *limit,
                                 const struct in6_addr *address)
{
    struct in6_addr key = *address;
    struct client *client;

    /* A host that has one IPv6 address usually has the 2^64 beside it. */
    if (!IN6_IS_ADDR_V4MAPPED(&key))
        memset(key.s6_addr + 8, 0, 8);
    pthread_mutex_lock(&limit->mutex);
    HASH_FIND(hh, limit->clients, &key, sizeof(key), client);
    if (!client && (client = calloc(1, sizeof(*client)))) {
        client->address = key;
        HASH_ADD(hh, limit->clients, address, sizeof(key), client);
        if (!client->hh.tbl) { /* no memory */
            free(client);
            client = NULL;
        }
    }
    if (client)
        client->connections++;
    pthread_mutex_unlock(&limit->mutex);
    return client;
}

void client_limit_part(struct client_limit *limit, struct client *client)
{
    if (!client)
        return;
    pthread_mutex_lock(&limit->mutex);
    if (--client->connections == 0) {
        assert(!atomic_load(&client->inflight));
        HASH_DEL(limit->clients, client);
        free(client);
    }
    pthread_mutex_unlock(&limit->mutex);
}

/* Compared before it is counted: an order that is refused takes no place. */
bool client_limit_enter(struct client_limit *limit, struct client *client)
{
    size_t inflight = client ? atomic_load(&client->inflight) : SIZE_MAX;

    do
        if (inflight >= limit->inflight_max)
            return false;
    while (!atomic_compare_exchange_weak(&client->inflight, &inflight,
                                         inflight + 1));
    return true;
}

void client_limit_leave(struct client *client)
{
    atomic_fetch_sub(&client->inflight, 1);
}
