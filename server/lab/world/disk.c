/*
 * See world.h. A layer of SQLite's (a VFS) below all that this process opens: it hands
 * everything on, and after a sync of the database copies what is in the file. It reads
 * through SQLite's own descriptor: to open and close the file once more would end the
 * locks that this process has on it.
 */
#include "server/lab/world/world.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES_MAX = 120, SUFFIX_BYTES = 10 };

static char watched[PATH_BYTES_MAX - SUFFIX_BYTES];
static sqlite3_vfs vfs, *real_vfs;
static sqlite3_io_methods methods; /* the real ones, but for the sync */
static const sqlite3_io_methods *real;
static _Atomic unsigned syncs;

unsigned disk_syncs(void)
{
    return syncs;
}

static void path_of(const char *db_path, char path[PATH_BYTES_MAX])
{
    (void)snprintf(path, PATH_BYTES_MAX, "%s.disk", db_path);
}

bool disk_put(const char *db_path, const void *bytes, size_t len)
{
    char path[PATH_BYTES_MAX];

    path_of(db_path, path);
    return file_write(path, bytes, len);
}

/* ---- the layer --------------------------------------------------------------- */

static int on_sync(sqlite3_file *file, int flags)
{
    int code = real->xSync(file, flags);
    sqlite3_int64 size = 0;
    void *bytes;

    if (code == SQLITE_OK)
        code = real->xFileSize(file, &size);
    /* The whole file is copied: a database of the stage has some pages only, and a sync
     * says nothing of which it is for. */
    bytes = malloc((size_t)size + 1);
    if (!bytes)
        return SQLITE_NOMEM;
    if (code == SQLITE_OK)
        code = real->xRead(file, bytes, (int)size, 0);
    if (code == SQLITE_OK && !disk_put(watched, bytes, (size_t)size))
        /* The commit must fail if the copy does: what was acknowledged would else not
         * be on the disk that is kept. */
        code = SQLITE_IOERR_FSYNC;
    free(bytes);
    /* A sync that failed counts as well: it was asked for. */
    syncs++;
    return code;
}

static int on_open(sqlite3_vfs *self, const char *name, sqlite3_file *file,
                   int flags, int *flags_out)
{
    int code = real_vfs->xOpen(real_vfs, name, file, flags, flags_out);

    /* A journal, and a database of another path, are opened by this too: only the one
     * that is watched has its own sync. */
    (void)self;
    if (code != SQLITE_OK || !name || strcmp(name, watched) != 0)
        return code;
    real = file->pMethods; /* of all connections, because they open it alike */
    methods = *real;
    methods.xSync = on_sync;
    file->pMethods = &methods;
    return code;
}

bool disk_watch(const char *db_path)
{
    (void)snprintf(watched, sizeof(watched), "%s", db_path);
    real_vfs = sqlite3_vfs_find(NULL);
    /* Everything but the open is the real layer's, which finds its own state by the
     * pointers that were copied. */
    vfs = *real_vfs;
    vfs.zName = "stage-disk";
    vfs.xOpen = on_open;
    /* The layer becomes the one by default: libraries open the database without
     * naming one. */
    return sqlite3_vfs_register(&vfs, 1) == SQLITE_OK;
}

/* ---- the power --------------------------------------------------------------- */

bool disk_is_needed(const struct stage_scene *scene)
{
    for (unsigned i = 0; i < scene->buyers; i++)
        if (scene->roles[i].program &&
            strcmp(scene->roles[i].program, DISK_PROGRAM) == 0)
            return true;
    return false;
}

/* Between two moves no commit is half done. So what was synced of the journal is over,
 * and what is in it now was not. */
bool disk_cut(const char *db_path)
{
    char path[PATH_BYTES_MAX];
    unsigned char *bytes;
    size_t len;
    bool good;

    path_of(db_path, path);
    bytes = file_read(path, &len);
    good = bytes && file_write(db_path, bytes, len);
    free(bytes);
    /* A journal that stays would be taken for one of a commit half done, and be rolled
     * back into the old bytes. */
    (void)snprintf(path, sizeof(path), "%s-journal", db_path);
    (void)truncate(path, 0); /* there may be none */
    return good;
}
