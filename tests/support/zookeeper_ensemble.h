/*
 * A private ensemble of three ZooKeeper servers for a test, which may lose one;
 * see zookeeper_server.h.
 */
#ifndef ZOOKEEPER_ENSEMBLE_H
#define ZOOKEEPER_ENSEMBLE_H

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

/* The member that leads ('l'), or one that follows ('f'); waits for it. */
struct zookeeper_server *
zookeeper_ensemble_in(const struct zookeeper_ensemble *ensemble, char role);

/* The member at "HOST:PORT", or NULL. */
struct zookeeper_server *
zookeeper_ensemble_at(const struct zookeeper_ensemble *ensemble,
                      const char *at);

/* Waits until every member leads or follows. */
void zookeeper_ensemble_await(const struct zookeeper_ensemble *ensemble);

#endif
