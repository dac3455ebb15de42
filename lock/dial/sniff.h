/*
 * Whether a port speaks TLS, for a connection without it that was hung up at once:
 * then nothing was carried out.
 */
#ifndef DLOCK_SNIFF_H
#define DLOCK_SNIFF_H

#include <stdint.h>

#include "lock/dlock_url.h"

/* Asks on a new connection; blocks, until real time UNTIL_MS at most. False also if
 * that cannot be told. */
bool dlock_sniff_tls(const struct dlock_address *address, uint64_t until_ms);

#endif
