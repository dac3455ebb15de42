/*
 * The world around the actors: redis-servers that go by the virtual clock, a
 * database, a folder for the lock that is made of directories. All of it is set
 * back to its start in a fraction of a millisecond.
 */
#ifndef WORLD_H
#define WORLD_H

#include "server/lab/servers/folder.h"
#include "server/lab/world/page.h"
#include "server/lab/servers/peek.h"

/* The virtual clock when a schedule begins: the first second of 2026. */
#define WORLD_BEGINS_US UINT64_C(1767225600000000)

enum {
    WORLD_LISTENERS_BYTES_MAX = 1024,
    WORLD_PRICE_CENTS = 100, /* of each product */
};

/* A redis-server. */
struct world_node {
    struct redis_proc *redis;
    struct peek *peek;
};

/* The replica, which follows the only server, stands behind it and may take its place. */
enum { WORLD_REPLICA = 1 };
struct world_replica {
    bool is_there, is_linked, is_promoted;
    char port[8]; /* the primary's, for it */
};

struct world {
    struct board *board;
    int board_fd;
    struct world_node nodes[STAGE_NODES_MAX];
    unsigned nodes_n;
    struct world_replica replica;
    uint64_t restarted_us[STAGE_NODES_MAX]; /* in this schedule, 0 = not */
    char
        lock_url[STAGE_NODES_MAX * 100]; /* what a lock client is opened with */
    struct store_reader *reader;         /* for audits */
    struct folder folder;
    char locks_dir[80];
    char db_path[80];
    char db_url[96];
    unsigned char *image; /* the database as it is at the start */
    size_t image_len;
    uint32_t resets;
    bool has_disk; /* see disk.c */
};

/* False and a text; closed by world_close() all the same. */
bool world_open(struct world *world, const struct stage_scene *scene,
                struct fail *error);
void world_close(struct world *world);

/* Back to the start. To be called when no actor runs a program. False and a text. */
bool world_reset(struct world *world, struct fail *error);

/* How many servers a lock needs. */
unsigned world_nodes_for(const char *lock);

/* All of them forget all they know. */
bool world_flush(struct world *world);

/* NODE dies, and another begins in its place, with nothing. False and a text. */
bool world_restart(struct world *world, unsigned node, struct fail *error);

/* From now on the replica hears nothing. */
bool world_cut(struct world *world);

/* The primary dies, and clients find the replica in its place. */
bool world_promote(struct world *world);

/* ---- a disk under the database (disk.c) ---------------------------------------
 *
 * Bytes that were synced are kept apart, so that the machine can lose its power. Only where a
 * scene has an actor for that.
 */

#define DISK_PROGRAM "power-cut" /* what that actor does */

/* Whether the scene has such an actor. */
bool disk_is_needed(const struct stage_scene *scene);

/* From now on each sync of DB_PATH by this process is noted: to be called before it
 * is opened. */
bool disk_watch(const char *db_path);

/* How often this process has synced it. */
unsigned disk_syncs(void);

/* Sets what is on disk to BYTES. */
bool disk_put(const char *db_path, const void *bytes, size_t len);

/* The database is as it was synced last, and its journal is empty. False: that cannot
 * be read or written. */
bool disk_cut(const char *db_path);

/* ---- what there is --------------------------------------------------------- */

/* The servers' state, as peek_look() tells it. */
struct world_look {
    char keys[STAGE_REDIS_BYTES_MAX];
    char listeners[WORLD_LISTENERS_BYTES_MAX];
};

/*
 * All that is kept of locks; of several servers with "1/" before, from 1. The
 * directories of mkdir are there as well. False and a text, as of peek_look().
 */
bool world_look(const struct world *world, struct world_look *look,
                struct fail *error);

/* When this returns, the servers have done what they were sent before, also what
 * nobody waits for, and have seen which connections have ended. */
void world_wait_for_servers(const struct world *world);

#endif
