/*
 * A disk under the stage's database: what was synced is kept apart, so that the
 * machine can lose its power. Only where a scene has an actor for that.
 */
#ifndef DISK_H
#define DISK_H

#include <stdbool.h>
#include <stddef.h>

#include "server/lab/stage/stage.h"

#define DISK_PROGRAM "power-cut" /* what that actor does */

/* Whether the scene has such an actor. */
bool disk_is_needed(const struct stage_scene *scene);

/* From now on each sync of DB_PATH by this process is noted: to be called before it
 * is opened. */
bool disk_watch(const char *db_path);

/* How often this process has synced it. */
unsigned disk_syncs(void);

/* A whole file, made if it is not there. False, and errno: it cannot be written. */
bool disk_write_file(const char *path, const void *bytes, size_t len);

/* The same, read; to be freed. NULL: it cannot be read. */
unsigned char *disk_read_file(const char *path, size_t *len);

/* Sets what is on disk to BYTES. */
bool disk_put(const char *db_path, const void *bytes, size_t len);

/* The database is as it was synced last, and its journal is empty. False: that cannot
 * be read or written. */
bool disk_cut(const char *db_path);

#endif
