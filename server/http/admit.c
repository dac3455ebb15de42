/*
 * A hash table with chains, its rows made in advance: it cannot grow and
 * cannot be made to. Only clients with connections are in it. A connection
 * looks its client up once; an order then only counts, without the mutex.
 */
#include "server/http/admit.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A client with connections. Without any it goes back to the free rows. */
struct admit_client {
    atomic_size_t inflight; /* orders */
    struct admit_client *next;
    size_t connections;
    unsigned char address[ADMIT_CLIENT_BYTES];
};

struct admit {
    pthread_mutex_t mutex;
    size_t inflight_max;
    size_t chains_n; /* a power of two */
    struct admit_client **chains;
    struct admit_client *rows;
    struct admit_client *free;
};

/* FNV-1a; whoever has the addresses to collide on purpose has a botnet. */
static struct admit_client **chain_of(struct admit *admit,
                                      const unsigned char *address)
{
    uint64_t hash = 14695981039346656037u;
    size_t i;

    for (i = 0; i < ADMIT_CLIENT_BYTES; i++)
        hash = (hash ^ address[i]) * 1099511628211u;
    /* The low bits of FNV are its weakest: fold the high ones in. */
    return &admit->chains[(hash ^ hash >> 32) & (admit->chains_n - 1)];
}

/* The link that points to the client, or the NULL at the chain's end. */
static struct admit_client **find(struct admit *admit,
                                  const unsigned char *address)
{
    struct admit_client **link = chain_of(admit, address);

    while (*link && memcmp((*link)->address, address, ADMIT_CLIENT_BYTES) != 0)
        link = &(*link)->next;
    return link;
}

/*
 * All memory there will ever be. The chains are about as many as the rows, so a
 * chain has one row or two.
 */
struct admit *admit_open(size_t clients_max, size_t inflight_max)
{
    struct admit *admit = calloc(1, sizeof(*admit));
    size_t i;

    if (!admit)
        return NULL;
    pthread_mutex_init(&admit->mutex, NULL);
    admit->inflight_max = inflight_max;
    for (admit->chains_n = 16; admit->chains_n < clients_max;)
        admit->chains_n *= 2;
    admit->chains = calloc(admit->chains_n, sizeof(struct admit_client *));
    admit->rows = calloc(clients_max, sizeof(*admit->rows));
    if (!admit->chains || !admit->rows) {
        admit_close(admit);
        return NULL;
    }
    for (i = 0; i < clients_max; i++) {
        admit->rows[i].next = admit->free;
        admit->free = &admit->rows[i];
    }
    return admit;
}

/* Also takes what admit_open() has only half made. */
void admit_close(struct admit *admit)
{
    if (!admit)
        return;
    pthread_mutex_destroy(&admit->mutex);
    free(admit->rows);
    free(admit->chains);
    free(admit);
}

/* A free row at the chain's end, for a client that was not in it; or NULL. */
static struct admit_client *add(struct admit *admit, struct admit_client **end,
                                const unsigned char *address)
{
    struct admit_client *client = admit->free;

    if (!client)
        return NULL;
    admit->free = client->next;
    client->next = NULL;
    memcpy(client->address, address, ADMIT_CLIENT_BYTES);
    *end = client;
    return client;
}

struct admit_client *admit_meet(struct admit *admit,
                                const unsigned char address[ADMIT_CLIENT_BYTES])
{
    struct admit_client **link, *client;

    pthread_mutex_lock(&admit->mutex);
    link = find(admit, address);
    client = *link ? *link : add(admit, link, address);
    if (client)
        client->connections++;
    pthread_mutex_unlock(&admit->mutex);
    return client;
}

/* The row of a client's last connection is free for the next client at once. */
void admit_part(struct admit *admit, struct admit_client *client)
{
    struct admit_client **link;

    if (!client)
        return;
    pthread_mutex_lock(&admit->mutex);
    if (!--client->connections) {
        assert(!atomic_load(&client->inflight));
        link = find(admit, client->address);
        *link = client->next;
        client->next = admit->free;
        admit->free = client;
    }
    pthread_mutex_unlock(&admit->mutex);
}

/* Compared before it is counted: nobody is refused for one that is refused. */
bool admit_enter(struct admit *admit, struct admit_client *client)
{
    size_t inflight;

    if (!client)
        return false;
    inflight = atomic_load(&client->inflight);
    do
        if (inflight >= admit->inflight_max)
            return false;
    while (!atomic_compare_exchange_weak(&client->inflight, &inflight,
                                         inflight + 1));
    return true;
}

void admit_leave(struct admit_client *client)
{
    atomic_fetch_sub(&client->inflight, 1);
}
