/*
 * Sockets: addresses, connecting, sending, receiving, each with a deadline in
 * real time. Knows nothing of Redis.
 */
#ifndef DLOCK_NET_H
#define DLOCK_NET_H

#include <sys/types.h>

#include "lock/dlock.h"

struct dlock_address {
    bool local;     /* a Unix socket */
    char host[256]; /* or the socket's path */
    char port[8];
};

/* "unix:PATH", "redis://HOST:PORT", "redis://[V6]:PORT"; else DLOCK_MISUSE. */
enum dlock_status dlock_address_parse(const char *url,
                                      struct dlock_address *address,
                                      struct dlock_error *error);

/* A connected, non-blocking, close-on-exec socket; -1 with a text in ERROR. */
int dlock_net_connect(const struct dlock_address *address, uint64_t until_ms,
                      struct dlock_error *error);

/*
 * The same without waiting: *PENDING says that the connection is not there yet.
 * Once the socket can be written to, it is, or writing fails.
 */
int dlock_net_connect_begin(const struct dlock_address *address, bool *pending,
                            struct dlock_error *error);

/* All of it, or -1 with errno (ETIMEDOUT at the deadline). No SIGPIPE. */
int dlock_net_send(int fd, const char *bytes, size_t len, uint64_t until_ms);

/*
 * Lets recv() on a connected socket sleep by itself, instead of poll() before
 * it: for how long at a time, or 0 if not. TIMEOUT_MS is what commands have.
 */
unsigned dlock_net_nap(int fd, unsigned timeout_ms);

/*
 * At least one byte; 0 = closed by the server; -1 with errno. NAP_MS is what
 * _nap gave, or 0; the deadline is the same with either.
 */
ssize_t dlock_net_receive(int fd, unsigned nap_ms, char *bytes, size_t size,
                          uint64_t until_ms);

/*
 * Has the other end gone, or said something out of turn, while we were idle?
 * Asking first makes "the server was restarted last night" a reconnect instead
 * of a lost reply.
 */
bool dlock_net_stale(int fd);

#endif
