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
 *
 * Those that share the database share the *mark* as well, eight bytes in this
 * file. Whoever does what others remember wrongly then sets a new one, and they
 * see that theirs is gone. A mark is drawn at random and never comes back: so it
 * does not matter who writes at the same moment, nor whether somebody has cut
 * the file or filled it with zeros; a mark of which a reader saw only a part is
 * none that anybody has remembered. It is read by pread: in a file that is
 * mapped, a cut would kill whoever looks (SIGBUS).
 */
#ifndef STORE_LOCKFILE_H
#define STORE_LOCKFILE_H

#include "db/store.h"

#include <limits.h>
#include <sys/types.h>

struct lockfile {
    int fd;
    dev_t dev; /* which file it is, */
    ino_t ino;
    char name[PATH_MAX]; /* and where it is to be found */
};

/*
 * PATH is the database's one true name, absolute and without symbolic links.
 * Takes the door, waiting up to BUSY_MS for another who is setting up, and the
 * lock, not waiting; who shares sets a new mark, so that there is one. Fills
 * *file. STORE_IN_USE if another process's way of having the database open
 * excludes ours.
 */
enum store_status lockfile_take(const char *path, bool shared, unsigned busy_ms,
                                struct lockfile *file,
                                struct store_error *error);

/* Opens the door for the next. */
void lockfile_settled(const struct lockfile *file);

/* Gives everything back. */
void lockfile_drop(const struct lockfile *file);

/*
 * The mark, 0 = cannot tell: the file was cut, or is no longer the one that
 * others find under its name, and set their marks in. From any thread; two
 * system calls, which do not wait for anything.
 */
uint64_t lockfile_mark(const struct lockfile *file);

/* Sets a new one. STORE_IO if others would not see it. */
enum store_status lockfile_new_mark(const struct lockfile *file,
                                    struct store_error *error);

#endif
