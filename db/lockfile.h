/*
 * The lock file beside SQLite's database: who may have it open, and how.
 *
 * PATH.lock is flock'ed exclusively by a process that has the database for
 * itself, shared by processes that share it; the kernel drops the lock with
 * the process. It is a file of its own because closing any descriptor of the
 * database file would drop SQLite's own locks on it; it is never deleted,
 * because two processes could then hold locks on two files of one name. If
 * somebody else deletes it, a process that has it open writes no more.
 *
 * A process that opens also locks the setup while it sets the database up:
 * creating the schema and changing the journal want to be alone.
 *
 * Those that share the database share its *generation* as well (soldout.h), eight
 * bytes in this file. It is drawn at random and never comes back. So it does no harm if
 * two write at the same moment, or if the file is cut or filled with zeros; and a number
 * that was read half is not one that is remembered. It is read by pread: in a mapped
 * file a cut would kill the reader (SIGBUS).
 *
 * NULL is the lock file of a database on a server, which has none: nothing is lost
 * there, no generation is known, nobody is heard of.
 */
#ifndef STORE_LOCKFILE_H
#define STORE_LOCKFILE_H

#include "db/store.h"

struct lockfile;

/* PATH is the database's one true name, absolute and without symbolic links. Locks the
 * setup, waiting up to BUSY_MS for a process that is setting up, and takes the lock,
 * not waiting. A shared lock sets a new generation, so that there is one. STORE_IN_USE
 * if another process's way of having the database open excludes ours. */
enum store_status lockfile_take(const char *path, bool shared, unsigned busy_ms,
                                struct lockfile **file,
                                struct store_error *error);

/* The database is set up: the next process may open it. */
void lockfile_settled(const struct lockfile *file);

/* Frees it; the kernel drops the locks. */
void lockfile_drop(struct lockfile *file);

/* The file that others do not find any more under its name, so that nothing may be
 * written: "the database file". NULL: both are in place. */
const char *lockfile_lost(const struct lockfile *file);

/* The generation, 0 = cannot tell: the file was cut, or is no longer the one that
 * others find under its name, and set theirs in. From any thread; two system calls,
 * which do not wait for anything. */
uint64_t lockfile_generation(const struct lockfile *file);

enum store_status lockfile_next_generation(const struct lockfile *file,
                                           struct store_error *error);

/* Says that this process goes by ID as long as it has the file open; and whether
 * no other process that has it open does: then the one that did has ended,
 * however it did. (One never hears of oneself.) */
bool lockfile_announce(const struct lockfile *file, uint64_t id);
bool lockfile_is_gone(const struct lockfile *file, uint64_t id);

#endif
