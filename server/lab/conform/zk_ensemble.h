/*
 * The servers of a ZooKeeper ensemble, one by one: what each of them is, and how
 * to lose one. They are not ours; who has started them gives a command,
 *
 *     COMMAND kill HOST:PORT      with SIGKILL
 *     COMMAND start HOST:PORT     the same again, with its data
 *
 * which need not wait until that is done.
 */
#ifndef ZK_ENSEMBLE_H
#define ZK_ENSEMBLE_H

#include <stdbool.h>

enum {
    ZK_NODES_MAX = 7,
    ZK_NODE_BYTES_MAX = 64, /* "HOST:PORT" */
};

struct zk_nodes {
    unsigned n;
    char at[ZK_NODES_MAX][ZK_NODE_BYTES_MAX];
};

/* Takes "zk:HOST:PORT,HOST:PORT/ROOT" apart. False: too many or too long. */
bool zk_nodes_parse(const char *url, struct zk_nodes *nodes);

/*
 * The role that the server AT says it has: 'l'eader, 'f'ollower, 's'tandalone; 0: it
 * says nothing, or serves nobody. Blocks for two seconds at most.
 */
char zk_node_role(const char *at);

/* Runs COMMAND with ACTION and AT. False: it failed. */
bool zk_node_do(const char *command, const char *action, const char *at);

#endif
