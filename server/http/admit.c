/*
 * A hash table with chains, its rows made in advance: it cannot grow and
 * cannot be made to. Only clients with orders in flight are in it.
 */
#include "server/http/admit.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A client with orders in flight. Without any it goes back to the free rows. */
struct admit_client {
    struct admit_client *next;
    size_t inflight;
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

/*
 * When the table is full the client is refused as if it had too many itself: it
 * can only be full when there are more connections than there may be.
 */
bool admit_enter(struct admit *admit,
                 const unsigned char client[ADMIT_CLIENT_BYTES])
{
    struct admit_client **link, *row;
    bool in = false;

    pthread_mutex_lock(&admit->mutex);
    link = find(admit, client);
    if (!*link && admit->free) {
        row = admit->free;
        admit->free = row->next;
        *row = (struct admit_client){0};
        memcpy(row->address, client, ADMIT_CLIENT_BYTES);
        *link = row;
    }
    if (*link && (*link)->inflight < admit->inflight_max) {
        (*link)->inflight++;
        in = true;
    }
    pthread_mutex_unlock(&admit->mutex);
    return in;
}

/* The row of a client's last order is free for the next client at once. */
void admit_leave(struct admit *admit,
                 const unsigned char client[ADMIT_CLIENT_BYTES])
{
    struct admit_client **link, *row;

    pthread_mutex_lock(&admit->mutex);
    link = find(admit, client);
    row = *link;
    assert(row && row->inflight);
    if (row && !--row->inflight) {
        *link = row->next;
        row->next = admit->free;
        admit->free = row;
    }
    pthread_mutex_unlock(&admit->mutex);
}
