/*
 * A private ZooKeeper for a test: one server on a free port of this machine,
 * its data in a directory of its own; or an ensemble of three, which may lose one.
 * Their clocks tick every 100 ms, so sessions can be as short as 200 ms. They die
 * with the test; see server_proc.h.
 */
#ifndef ZOOKEEPER_SERVER_H
#define ZOOKEEPER_SERVER_H

#include "tests/support/server_proc.h"
#include "tests/support/temp_dir.h"

struct zookeeper_server {
    struct server_proc proc; /* may be killed, paused and resumed */
    struct temp_dir dir;
    char config[TEMP_DIR_BYTES_MAX + 32]; /* its file */
    char url[64];                         /* zk:127.0.0.1:PORT */
    unsigned port;
    unsigned number;     /* of a member; 0 = it is alone */
    const char *members; /* the same; else "" */
};

/* Starts one and returns when it has served a lock. */
struct zookeeper_server *zookeeper_server_start(void);

/* Kills it and removes its directory. NULL is fine. */
void zookeeper_server_stop(struct zookeeper_server *server);

/* After a kill: the same server again, with its data. */
void zookeeper_server_restart(struct zookeeper_server *server);

/* The one of a test program, started and stopped around its tests, and the rig's Redis
 * beside it (lock_rig.h). It is the host of its stories; what they order is as of
 * server_proc_do(), "restart", or "empty": kill, and come back without data. Clients
 * have these times. A session ends with its test, and its locks with it. */
extern struct zookeeper_server *the_zookeeper;
int zookeeper_server_set_up(unsigned session_ms, unsigned timeout_ms);
int zookeeper_server_tear_down(void **state);

/* ---- an ensemble ---------------------------------------------------------- */

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

/* The member at "HOST:PORT", or NULL. */
struct zookeeper_server *
zookeeper_ensemble_at(const struct zookeeper_ensemble *ensemble,
                      const char *at);

#endif
