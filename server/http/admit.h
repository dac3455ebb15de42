/*
 * How many orders one client may have in flight: so that one of them cannot
 * fill the desk's queue and leave everybody else with 503.
 *
 * It is no limit on how many orders a client may place, nor on how fast: only
 * on how many it may leave waiting. A fair client waits for its answers and
 * never meets it. Behind a proxy all clients have one address; there the limit
 * belongs to the proxy, and --client-inflight-max should be large.
 */
#ifndef ADMIT_H
#define ADMIT_H

#include <stdbool.h>
#include <stddef.h>

#define ADMIT_CLIENT_BYTES 16 /* an IPv6 address; IPv4 mapped into it */

struct admit;

/*
 * Room for CLIENTS_MAX clients at a time, INFLIGHT_MAX orders each. As every
 * order in flight has a connection, the limit on those bounds the clients.
 */
struct admit *admit_open(size_t clients_max, size_t inflight_max);
void admit_close(struct admit *admit);

/* Takes an order in. false if the client has too many; else leave later. */
bool admit_enter(struct admit *admit,
                 const unsigned char client[ADMIT_CLIENT_BYTES]);
void admit_leave(struct admit *admit,
                 const unsigned char client[ADMIT_CLIENT_BYTES]);

#endif
