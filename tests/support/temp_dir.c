/*
 * A temporary directory. See temp_dir.h.
 */
#include "tests/support/temp_dir.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

void temp_dir_make(struct temp_dir *dir)
{
    const char *base = getenv("TMPDIR");

    snprintf(dir->path, sizeof(dir->path), "%s/stockade-XXXXXX",
             base && base[0] ? base : "/tmp");
    if (!mkdtemp(dir->path)) {
        perror(dir->path);
        abort();
    }
    snprintf(dir->db, sizeof(dir->db), "%s/ledger.db", dir->path);
    snprintf(dir->url, sizeof(dir->url), "sqlite:%s", dir->db);
}

static int remove_one(const char *path, const struct stat *st, int type,
                      struct FTW *where)
{
    return remove(path);
}

/* Depth first, and never through a symbolic link. */
void temp_dir_remove(const struct temp_dir *dir)
{
    nftw(dir->path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
