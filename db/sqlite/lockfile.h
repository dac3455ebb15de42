/*
 * The lock file beside the database: who may have it open, and how.
 *
 * PATH.lock is flock'ed exclusively by a process that has the database for
 * itself, shared by processes that share it; the kernel drops the lock with
 * the process. It is a file of its own because closing any descriptor of the
 * database file would drop SQLite's own locks on it; it is never deleted,
 * because two processes could then hold locks on two files of one name. If
 * somebody else deletes it, a process that has it open writes no more.
 *
 * A process that opens also takes the *door* while it sets the database up:
 * creating the schema and changing the journal want to be alone.
 *
 * Those that share the database share the *mark* as well, eight bytes in this
 * file. A process that makes wrong what others remember sets a new one, and
 * they see that theirs is gone. A mark is drawn at random and never comes back.
 * So it does no harm if two write at the same moment, or if the file is cut or
 * filled with zeros; and a mark that was read half is not one that is
 * remembered. It is read by pread: in a mapped file a cut would kill the reader
 * (SIGBUS).
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
 * Takes the door, waiting up to BUSY_MS for a process that is setting up, and
 * the lock, not waiting. A shared lock sets a new mark, so that there is one.
 * Fills *file. STORE_IN_USE if another process's way of having the database
 * open excludes ours.
 */
enum store_status lockfile_take(const char *path, bool shared, unsigned busy_ms,
                                struct lockfile *file,
                                struct store_error *error);

/* Opens the door for the next. */
void lockfile_settled(const struct lockfile *file);

/* Others do not find this file under its name, and could open the database. */
bool lockfile_is_moved(const struct lockfile *file);

/* Gives everything back. */
void lockfile_drop(const struct lockfile *file);

/*
 * The mark, 0 = cannot tell: the file was cut, or is no longer the one that
 * others find under its name, and set their marks in. From any thread; two
 * system calls, which do not wait for anything.
 */
uint64_t lockfile_mark(const struct lockfile *file);

/* Sets a new one. */
enum store_status lockfile_new_mark(const struct lockfile *file,
                                    struct store_error *error);

/* Says that this process goes by ID as long as it has the file open; and whether
 * no other process that has it open does: then the one that did has ended,
 * however it did. (One never hears of oneself.) */
bool lockfile_announce(const struct lockfile *file, uint64_t id);
bool lockfile_is_gone(const struct lockfile *file, uint64_t id);

#endif
