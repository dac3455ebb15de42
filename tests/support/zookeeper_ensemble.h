/*
 * A private ensemble of three ZooKeeper servers for a test, which may lose one;
 * see zookeeper_server.h.
 */
#ifndef ZOOKEEPER_ENSEMBLE_H
#define ZOOKEEPER_ENSEMBLE_H

#include <stdbool.h>

#include "tests/support/zookeeper_server.h"

enum { ZOOKEEPER_MEMBERS_N = 3 };

struct zookeeper_ensemble {
    struct zookeeper_server *members[ZOOKEEPER_MEMBERS_N];
    char url[160];    /* "zk:127.0.0.1:PORT,127.0.0.1:PORT,..." */
    char config[256]; /* of each member: who the others are */
};

/* Starts them and returns when one leads and the others follow. */
struct zookeeper_ensemble *zookeeper_ensemble_start(void);

/* Kills them and removes their directories. NULL is fine. */
void zookeeper_ensemble_stop(struct zookeeper_ensemble *ensemble);

/* The index of the one that leads, or of one that follows; waits for it. */
unsigned zookeeper_ensemble_leader(const struct zookeeper_ensemble *ensemble);
unsigned zookeeper_ensemble_follower(const struct zookeeper_ensemble *ensemble);

/* Kills or starts again the member AT "HOST:PORT"; false: there is none. */
bool zookeeper_ensemble_kill(struct zookeeper_ensemble *ensemble,
                             const char *at);
bool zookeeper_ensemble_restart(struct zookeeper_ensemble *ensemble,
                                const char *at);

/* Waits until every member leads or follows. */
void zookeeper_ensemble_await(const struct zookeeper_ensemble *ensemble);

#endif
