/*
 * Private to lock/: TLS around a connection, which a library of its own brings,
 * lock/tls/.
 */
#ifndef DLOCK_TLS_PRIVATE_H
#define DLOCK_TLS_PRIVATE_H

#include <sys/types.h>

#include "lock/dlock.h"
#include "lock/dlock_url.h"

struct dlock_tls;

/* All but `end` are as for a socket that is not waited for. */
struct dlock_tls_kind {
    /* FD stays the caller's. NULL: no memory, or ADDRESS' files are no good. */
    struct dlock_tls *(*begin)(const struct dlock_address *address, int fd,
                               struct dlock_error *error);

    /* DLOCK_OK: it is through; DLOCK_BUSY: the server is to say more;
     * DLOCK_UNREACHABLE: no agreement, or a certificate that is not accepted. */
    enum dlock_status (*shake)(struct dlock_tls *tls,
                               struct dlock_error *error);

    /* As send(2) and recv(2): -1 with errno, EAGAIN for later. */
    ssize_t (*send)(struct dlock_tls *tls, const char *bytes, size_t len);
    ssize_t (*receive)(struct dlock_tls *tls, char *bytes, size_t size,
                       bool peek);

    void (*end)(struct dlock_tls *tls);
};

/* As registered. NULL: this program does not have it. */
extern const struct dlock_tls_kind *dlock_tls_made;

#endif
