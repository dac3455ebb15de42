/*
 * The world around the actors: a redis-server that goes by the virtual clock, and
 * a database. Both are set back to their start in a fraction of a millisecond.
 */
#ifndef STAGE_WORLD_H
#define STAGE_WORLD_H

#include "server/lab/stage/page.h"
#include "server/lab/stage/peek.h"
#include "server/lab/stage/stage.h"

/* The virtual clock when a schedule begins: the first second of 2026. */
#define WORLD_BEGINS_US UINT64_C(1767225600000000)

struct world {
    struct board *board;
    int board_fd;
    struct redis_proc *redis;
    struct peek *peek;
    struct store_reader *reader; /* for audits */
    const char *redis_url, *lock_url;
    char dir[64];
    char db_path[80];
    char db_url[96];
    unsigned char *image; /* the database as it is at the start */
    size_t image_len;
    uint32_t resets;
};

/* False and a text; closed by world_close() all the same. */
bool world_open(struct world *world, const struct stage_scene *scene,
                char *error, size_t error_size);
void world_close(struct world *world);

/* No actor is in the middle of anything. */
bool world_reset(struct world *world, char *error, size_t error_size);

#endif
