/*
 * A temporary folder that does not outlive those who use it, even if they are killed.
 *
 * It needs a name: SQLite keeps a journal beside its database, redis-server binds its
 * socket to a path, and the lock mkdir is a directory. So somebody has to remove that
 * name. A process of its own, which has no other work, does so once the owner and all
 * processes that the owner has started are gone.
 */
#ifndef FOLDER_H
#define FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "server/lab/base/fail.h"

/* In memory where there is a file system that is, else where temporary files are. */
#define FOLDER_IN_MEMORY NULL

struct folder {
    char path[64]; /* "" = not open; short, as names of sockets have to be */
    int alive; /* an end of a socket pair, which all who use the folder inherit */
    pid_t remover; /* has the other end */
};

/* Makes WHERE/stockade-NAME-PID-XXXXXX. False and a text: there is none. */
bool folder_open(struct folder *folder, const char *where, const char *name,
                 struct fail *error);

/* Removes it with all that is in it. By the owner, when nobody uses it any more. */
void folder_close(struct folder *folder);

/* Removes PATH and all that is in it. */
void folder_remove(const char *path);

/* ---- whole files ------------------------------------------------------------- */

/* Writes all of PATH, which is made if it is not there. False, and errno: it cannot. */
bool file_write(const char *path, const void *bytes, size_t len);

/* The same, read; to be freed. NULL: it cannot be read. */
unsigned char *file_read(const char *path, size_t *len);

#endif
