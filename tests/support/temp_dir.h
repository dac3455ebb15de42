/*
 * A directory of its own for a test, and the name of a database in it.
 */
#ifndef TEMP_DIR_H
#define TEMP_DIR_H

#define TEMP_DIR_BYTES_MAX 256

struct temp_dir {
    char path[TEMP_DIR_BYTES_MAX];     /* the directory */
    char db[TEMP_DIR_BYTES_MAX + 16];  /* PATH/ledger.db, not created */
    char url[TEMP_DIR_BYTES_MAX + 32]; /* the same as "sqlite:..." */
};

/* Makes it under $TMPDIR, or /tmp. Aborts the test if that fails. */
void temp_dir_make(struct temp_dir *dir);

/* Removes it with all that is in it. */
void temp_dir_remove(const struct temp_dir *dir);

#endif
