/*
 * How many orders one client may have waiting: so that one of them cannot fill
 * the dispatcher's queue and leave all others with 503.
 *
 * It limits neither how many orders a client may place, nor how fast. A client
 * that waits for its answers never meets it. Behind a proxy all clients have one
 * address, unless it is one of --trusted-proxy, which says whose order it is.
 */
#ifndef CLIENT_LIMIT_H
#define CLIENT_LIMIT_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct client;

/* Begins as {PTHREAD_MUTEX_INITIALIZER, N}; nothing is left of it when all have parted. */
struct client_limit {
    pthread_mutex_t mutex; /* guards the table, and its clients' connections */
    size_t inflight_max;   /* orders of each */
    struct client *clients;
};

/*
 * A connection, or an order that a proxy forwards, begins and ends. Those of one
 * address, of IPv6 those of one network, are the same client, which is known from
 * the first to the last. NULL, no memory, is a client that may order nothing.
 */
struct client *client_limit_meet(struct client_limit *limit,
                                 const struct in6_addr *address);
void client_limit_part(struct client_limit *limit, struct client *client);

/* Counts an order, from any thread and without waiting. False: the client has
 * too many. Else leave later, and before parting. */
bool client_limit_enter(struct client_limit *limit, struct client *client);
void client_limit_leave(struct client *client);

#endif
