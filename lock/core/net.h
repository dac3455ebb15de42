/*
 * Sockets: sending and receiving, each with a deadline in real time. Knows
 * nothing of Redis. How they are connected is in dial/.
 */
#ifndef DLOCK_NET_H
#define DLOCK_NET_H

#include <sys/types.h>

#include "lock/dlock.h"

/* TLS around a connection, which a library of its own brings, lock/tls/. */
struct dlock_tls;

/* None of it waits. _begin: FD stays the caller's; NULL: no memory, or ADDRESS' files are
 * no good. _shake: DLOCK_BUSY: the server is to say more; DLOCK_UNREACHABLE: no agreement,
 * or its certificate is not accepted. The others are as send(2) and recv(2). */
struct dlock_tls_kind {
    struct dlock_tls *(*begin)(const struct dlock_address *address, int fd);
    enum dlock_status (*shake)(struct dlock_tls *tls);
    ssize_t (*send)(struct dlock_tls *tls, const char *bytes, size_t len);
    ssize_t (*receive)(struct dlock_tls *tls, char *bytes, size_t size,
                       bool peek);
    void (*end)(struct dlock_tls *tls);
};

/* As registered. NULL: this program does not have it. */
extern const struct dlock_tls_kind *dlock_tls_made;

/* A connected socket; -1 = none. */
struct dlock_link {
    int fd;
    struct dlock_tls *tls; /* around it; or NULL */
};

static inline struct dlock_link dlock_link_plain(int fd)
{
    return (struct dlock_link){.fd = fd};
}

/* Leaves *LINK without a socket. */
void dlock_net_close(struct dlock_link *link);

/* Polls for EVENTS: 1 = ready, 0 = the deadline has passed (ETIMEDOUT), -1 = errno. */
int dlock_net_await(int fd, short events, uint64_t until_ms);

/* All of it, or -1 with errno (ETIMEDOUT at the deadline). No SIGPIPE. */
int dlock_net_send(struct dlock_link link, const char *bytes, size_t len,
                   uint64_t until_ms);

/* Lets recv() sleep by itself, instead of poll() before it: for how long at a time, or 0
 * if not. TIMEOUT_MS is what commands have. */
unsigned dlock_net_nap(struct dlock_link link, unsigned timeout_ms);

/* At least one byte; 0 = closed by the server; -1 with errno. NAP_MS: of _nap, or 0. */
ssize_t dlock_net_receive(struct dlock_link link, unsigned nap_ms, char *bytes,
                          size_t size, uint64_t until_ms);

/* Whether the other end has gone, or said something out of turn, while we were idle. To ask
 * makes "the server was restarted last night" a reconnect instead of a lost reply. */
bool dlock_net_stale(struct dlock_link link);

#endif
