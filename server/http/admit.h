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
struct admit_client;

/*
 * Room for CLIENTS_MAX clients at a time, INFLIGHT_MAX orders each. A client is
 * known from its first connection to its last, so the limit on connections
 * bounds the clients.
 */
struct admit *admit_open(size_t clients_max, size_t inflight_max);
void admit_close(struct admit *admit);

/*
 * A connection comes and goes. Those of one address are the same client; NULL,
 * too many clients, is one that may order nothing.
 */
struct admit_client *
admit_meet(struct admit *admit,
           const unsigned char address[ADMIT_CLIENT_BYTES]);
void admit_part(struct admit *admit, struct admit_client *client);

/*
 * Takes an order in. false if the client has too many; else leave later, and
 * before parting. Neither waits for anybody.
 */
bool admit_enter(struct admit *admit, struct admit_client *client);
void admit_leave(struct admit_client *client);

#endif
