/*
 * libdlock-tls: urls of the kinds rediss: and sentinels:, of dlock_url.h, by OpenSSL.
 * The server's certificate has to be good for the host, or the address, of the url,
 * and be signed by CA, or by one of those that the system trusts.
 *
 * A program that links the library, pkg-config's dlock-tls, registers it:
 *
 *     dlock_register(&dlock_tls, &error);
 */
#ifndef DLOCK_TLS_PUBLIC_H
#define DLOCK_TLS_PUBLIC_H

#include "lock/dlock.h"

DLOCK_BEGIN

extern const struct dlock_strategies dlock_tls;

DLOCK_END

#endif
