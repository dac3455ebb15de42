/*
 * The testbed's Redis nodes, and the ways to lose one besides a signal: it cannot be
 * reached, it comes back empty, its replica takes over.
 *
 * A node is at an address, not in a process. When a replica takes over it moves
 * to the address of its master, as it does behind a virtual IP; so clients need
 * to be told nothing.
 *
 * All that cannot be done ends the check as broken.
 */
#ifndef NODE_H
#define NODE_H

#include "server/lab/conform/testbed.h"

/* Starts N nodes and a replica of node 0. false and a text if it cannot. */
bool node_start_all(struct testbed *testbed, unsigned n, char *error,
                    size_t error_size);

/* The Unix socket of a node. */
const char *node_path(const struct testbed *testbed, unsigned index);

/* Starts one again that was killed, without what it knew. */
void node_restart(struct testbed *testbed, unsigned index);

/* No new connection gets to it; and they do again. */
void node_hide(struct testbed *testbed, unsigned index);
void node_show(struct testbed *testbed, unsigned index);

/*
 * The replica of node 0. It hears of everything up to node_part(), of which it
 * is sure, and of nothing after. Then the node dies, and it takes over.
 */
void node_part(struct testbed *testbed);
void node_fail_over(struct testbed *testbed);

#endif
