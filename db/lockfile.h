/*
 * The lock file beside the database: who may have it open, and how.
 *
 * PATH.lock is flock'ed exclusively by a process that has the database for
 * itself, shared by processes that share it; the kernel drops the lock with
 * the process. It is a file of its own because closing any descriptor of the
 * database file would drop SQLite's own locks on it; it is never deleted,
 * because two processes could then hold locks on two files of one name.
 *
 * Who opens also takes the *door* for as long as it sets the database up:
 * creating the schema and changing the journal want to be alone.
 */
#ifndef STORE_LOCKFILE_H
#define STORE_LOCKFILE_H

#include "db/store.h"

/*
 * PATH is the database's one true name, absolute and without symbolic links.
 * Takes the door, waiting up to BUSY_MS for another who is setting up, and the
 * lock, not waiting. STORE_IN_USE if another process's way of having the
 * database open excludes ours.
 */
enum store_status lockfile_take(const char *path, bool shared, unsigned busy_ms,
                                int *fd, struct store_error *error);

/* Opens the door for the next. */
void lockfile_settled(int fd);

/* Gives everything back. */
void lockfile_drop(int fd);

#endif
