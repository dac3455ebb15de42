/* Who is at the other end, as far as limits and rights are concerned. */
#ifndef PEER_H
#define PEER_H

#include <stdbool.h>

#define PEER_BYTES 16

struct sockaddr;

/*
 * The peer's address as 16 bytes: IPv4 mapped into IPv6; of IPv6 only the
 * network, since whoever has one address has the 2^64 beside it as well.
 */
void peer_key(const struct sockaddr *address, unsigned char key[PEER_BYTES]);

/*
 * Is it this machine? Says nothing about who sits behind it: a proxy on this
 * machine makes all its clients local. See is_admin() in route.c.
 */
bool peer_is_local(const struct sockaddr *address);

#endif
