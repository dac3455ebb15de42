/*
 * The file that SQLite's database is: its one true name, whether it is fit to be
 * opened, and who has it open (lockfile.h).
 */
#include "db/sqlite/lockfile.h"
#include "db/sqlite/sqlite_private.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct claim {
    struct sql_claim claim;
    struct lockfile lock;
    char path[SQL_WHERE_BYTES];
    dev_t dev; /* which file it is */
    ino_t ino;
};

/*
 * The one true name, WHOLE, of the file in "sqlite:PATH": two ways to it, one
 * through a symbolic link, must end at the same lock file; and a name that
 * begins with a slash is never taken for a URI by SQLite. CREATE makes the file,
 * empty, if it is not there. Says clearly what SQLite would only call "unable
 * to open".
 */
enum store_status sqlite_find(const char *url, bool create,
                              char whole[SQL_WHERE_BYTES],
                              struct store_error *error)
{
    const char *path = url + strlen(sqlite_engine.scheme);
    struct stat st = {.st_mode = S_IFREG};
    int fd, why;

    /* Each connection would get a private, empty one. */
    if (path[0] == '\0' || path[0] == ':')
        return failure_set(error, STORE_MISUSE,
                           "the database must be a file with a name");
    if (stat(path, &st) != 0 && create && errno == ENOENT) {
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (fd >= 0)
            close(fd);
    }
    if (!S_ISREG(st.st_mode))
        return failure_set(error, STORE_UNFIT, "%s is not a file", path);
    if (realpath(path, whole))
        return STORE_OK;
    why = errno;
    return failure_set(error, failure_status(why), "cannot open %s: %s", path,
                       strerror(why));
}

/* Of a database that is not there: made anew, it would take the journal's place. */
static bool has_journal(const char *path)
{
    static const char *const ends[] = {"-wal", "-journal"};
    char journal[PATH_MAX];
    struct stat st;

    for (size_t i = 0; i < 2; i++) {
        snprintf(journal, sizeof(journal), "%s%s", path, ends[i]);
        if (stat(journal, &st) == 0 && st.st_size > 0)
            return true;
    }
    return false;
}

/* Its number, if nobody has given it a name. */
static void name_of(uid_t uid, char name[33])
{
    char buffer[1024];
    struct passwd entry, *found = NULL;

    snprintf(name, 33, "%u", uid);
    if (!getpwuid_r(uid, &entry, buffer, sizeof(buffer), &found) && found)
        snprintf(name, 33, "%s", entry.pw_name);
}

/* Most often somebody else has copied it there. */
static enum store_status refused(const char *path, struct store_error *error)
{
    enum store_status status = failure_status(errno);
    const char *why = strerror(errno);
    char owner[33] = "?", user[33];
    struct stat st;

    if (stat(path, &st) == 0)
        name_of(st.st_uid, owner);
    name_of(geteuid(), user);
    return failure_set(error, status,
                       "cannot open %s: %s (it belongs to %s, this process is "
                       "%s)",
                       path, why, owner, user);
}

enum store_status sqlite_check(const char *url, struct store_error *error)
{
    const char *path = url + strlen(sqlite_engine.scheme);
    struct sql_options options = {.engine = &sqlite_engine,
                                  .role = SQL_ROLE_RESCUER};
    enum store_status status;
    char whole[PATH_MAX];
    struct sql *db;
    int64_t version;

    snprintf(whole, sizeof(whole), "%s", path);
    if (access(path, F_OK) != 0 && errno == ENOENT) {
        if (has_journal(path))
            return failure_set(error, STORE_UNFIT,
                               "%s is missing, but its journal is there "
                               "(-wal or -journal) and may have confirmed "
                               "orders: put the database back, or move the "
                               "journal away",
                               path);
        /* Not for a person alone, also if it may not be written: the folder may
         * be one where nothing is mounted yet. */
        return access(dirname(whole), W_OK | X_OK) == 0
                   ? STORE_OK
                   : failure_set(error, STORE_IO, "cannot make it in %s: %s",
                                 whole, strerror(errno));
    }
    status = sqlite_find(url, false, whole, error);
    if (status != STORE_OK)
        return status;
    if (access(whole, R_OK | W_OK) != 0)
        return refused(whole, error);
    options.where = whole;
    status = sql_open(&options, &db, error);
    if (status != STORE_OK)
        return status == STORE_BUSY ? STORE_OK : status;
    status = schema_inspect(db, &version);
    if (status != STORE_OK)
        failure_text(error, "%s", sql_error(db)->text);
    sql_close(db);
    return status == STORE_BUSY ? STORE_OK : status;
}

/* ---- while the store is open --------------------------------------------- */

enum store_status sqlite_claim(const char *where, bool shared, unsigned busy_ms,
                               struct sql_claim **claim,
                               struct store_error *error)
{
    struct claim *taken = calloc(1, sizeof(*taken));
    enum store_status status;
    struct stat st;

    if (!taken)
        return failure_set(error, STORE_IO, "out of memory");
    taken->claim.engine = &sqlite_engine;
    snprintf(taken->path, sizeof(taken->path), "%s", where);
    status = lockfile_take(where, shared, busy_ms, &taken->lock, error);
    if (status != STORE_OK)
        goto err_after_alloc;
    if (stat(where, &st) != 0) {
        status = failure_set(error, STORE_IO, "cannot find %s any more", where);
        goto err_after_lock;
    }
    taken->dev = st.st_dev;
    taken->ino = st.st_ino;
    *claim = &taken->claim;
    return STORE_OK;

err_after_lock:
    lockfile_drop(&taken->lock);
err_after_alloc:
    free(taken);
    return status;
}

static const struct lockfile *lock_of(const struct sql_claim *claim)
{
    return &((const struct claim *)claim)->lock;
}

void sqlite_settled(struct sql_claim *claim)
{
    lockfile_settled(lock_of(claim));
}

void sqlite_drop(struct sql_claim *claim)
{
    lockfile_drop(lock_of(claim));
    free(claim);
}

const char *sqlite_lost(const struct sql_claim *claim)
{
    const struct claim *taken = (const struct claim *)claim;

    if (file_is_moved(taken->path, taken->dev, taken->ino))
        return "the database file";
    return lockfile_is_moved(&taken->lock) ? "the lock file" : NULL;
}

uint64_t sqlite_mark(const struct sql_claim *claim)
{
    return lockfile_mark(lock_of(claim));
}

enum store_status sqlite_new_mark(const struct sql_claim *claim,
                                  struct store_error *error)
{
    return lockfile_new_mark(lock_of(claim), error);
}

bool sqlite_announce(const struct sql_claim *claim, uint64_t id)
{
    return lockfile_announce(lock_of(claim), id);
}

bool sqlite_is_gone(const struct sql_claim *claim, uint64_t id)
{
    return lockfile_is_gone(lock_of(claim), id);
}
