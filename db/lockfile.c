/*
 * The lock file. See lockfile.h.
 *
 * Two kinds of lock on one file, which do not see each other on Linux: flock
 * for who has the database open, and for the setup a byte-range lock of the
 * open-file-description kind, which belongs to the descriptor and not, like
 * the classic kind, to the whole process.
 */
#include "db/lockfile.h"
#include "db/base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define SETUP_BYTE 0

/* Bytes far behind any that are written: one for each process that has the
 * database open, by its id. */
#define PROCESS_BYTE(id) (((off_t)1 << 60) + (off_t)((id) >> 4))

/* A file is known by its name and by its device and inode: under the same name
 * another file may come. */
struct place {
    char path[PATH_MAX];
    dev_t dev; /* which file it was */
    ino_t ino;
};

struct lockfile {
    int fd;
    struct place own, database;
};

/* Sets the lock of one byte, or looks at it: true if it is ours to have. */
static bool byte_lock(int fd, int command, short type, off_t at)
{
    struct flock range = {
        .l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};

    return fcntl(fd, command, &range) == 0 &&
           (command != F_OFD_GETLK || range.l_type == F_UNLCK);
}

/* FD has it open; -1: it is looked up by its name. */
static bool note(struct place *place, int fd)
{
    struct stat st;

    if (fd >= 0 ? fstat(fd, &st) != 0 : stat(place->path, &st) != 0)
        return false;
    place->dev = st.st_dev;
    place->ino = st.st_ino;
    return true;
}

static enum store_status take(struct lockfile *file, bool shared,
                              unsigned busy_ms, struct store_error *error)
{
    enum store_status status = STORE_OK;
    struct backoff backoff = {0};

    /* The descriptor is not inherited by children: a lock lives as long as any
     * descriptor of it, and would outlive this process. */
    file->fd = open(file->own.path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file->fd < 0 || !note(&file->own, file->fd)) {
        status = failure_status(errno);
        return failure_set(error, status, "cannot open %s: %s", file->own.path,
                           strerror(errno));
    }
    /* The setup is waited for, because another process will soon be through
     * with its own. The use is not: it lasts as long as that process. */
    backoff_begin(&backoff, busy_ms);
    while (!byte_lock(file->fd, F_OFD_SETLK, F_WRLCK, SETUP_BYTE)) {
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return failure_set(error, STORE_IO, "cannot lock the lock file: %s",
                               strerror(errno));
        if (!backoff_wait(&backoff))
            return failure_set(error, STORE_BUSY,
                               "another process is opening the database");
    }
    /* The shared lock in the error's text is only tried to find out which of
     * the two texts is true. */
    if (flock(file->fd, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0)
        return failure_set(error, STORE_IN_USE,
                           !shared && flock(file->fd, LOCK_SH | LOCK_NB) == 0
                               ? "other processes share this database; "
                                 "start this one with --shared too"
                               : "another process sells from this database; "
                                 "start both with --shared");
    if (shared)
        status = lockfile_next_generation(file, error);
    /* The database is noted by its name, as others will look for it; a
     * descriptor of it must not be opened here, because its close would drop
     * SQLite's locks. */
    if (status == STORE_OK && !note(&file->database, -1))
        status = failure_set(error, STORE_IO, "cannot find %s any more",
                             file->database.path);
    return status;
}

enum store_status lockfile_take(const char *path, bool shared, unsigned busy_ms,
                                struct lockfile **file,
                                struct store_error *error)
{
    struct lockfile *taken;
    enum store_status status;

    if (strlen(path) + sizeof(".lock") > PATH_MAX)
        return failure_set(error, STORE_UNFIT, "the name %s is too long", path);
    taken = calloc(1, sizeof(*taken));
    if (!taken)
        return failure_set(error, STORE_IO, "out of memory");
    (void)stpcpy(taken->database.path, path);
    (void)stpcpy(stpcpy(taken->own.path, path), ".lock");
    status = take(taken, shared, busy_ms, error);
    if (status == STORE_OK)
        *file = taken;
    else
        lockfile_drop(taken);
    return status;
}

void lockfile_settled(const struct lockfile *file)
{
    if (file)
        (void)byte_lock(file->fd, F_OFD_SETLK, F_UNLCK, SETUP_BYTE);
}

void lockfile_drop(struct lockfile *file)
{
    if (!file)
        return;
    if (file->fd >= 0)
        close(file->fd);
    free(file);
}

/* Any other error says nothing of whether a file has that name. */
static bool is_moved(const struct place *place)
{
    struct stat st;

    if (stat(place->path, &st) != 0)
        return errno == ENOENT || errno == ENOTDIR;
    return st.st_dev != place->dev || st.st_ino != place->ino;
}

const char *lockfile_lost(const struct lockfile *file)
{
    if (file && is_moved(&file->database))
        return "the database file";
    return file && is_moved(&file->own) ? "the lock file" : NULL;
}

uint64_t lockfile_generation(const struct lockfile *file)
{
    uint64_t number = 0;

    /* The number is read first, and the name is looked at then: a file that was
     * replaced in between is noticed. */
    if (!file ||
        pread(file->fd, &number, sizeof(number), 0) !=
            (ssize_t)sizeof(number) ||
        is_moved(&file->own))
        return 0;
    return number;
}

enum store_status lockfile_next_generation(const struct lockfile *file,
                                           struct store_error *error)
{
    uint64_t number;

    if (file &&
        (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number) ||
         pwrite(file->fd, &number, sizeof(number), 0) !=
             (ssize_t)sizeof(number)))
        return failure_set(error, STORE_IO, "cannot write %s: %s",
                           file->own.path, strerror(errno));
    return STORE_OK;
}

bool lockfile_announce(const struct lockfile *file, uint64_t id)
{
    return !file || byte_lock(file->fd, F_OFD_SETLK, F_WRLCK, PROCESS_BYTE(id));
}

bool lockfile_is_gone(const struct lockfile *file, uint64_t id)
{
    /* The byte could be locked: nobody has it, and the kernel drops it only
     * with its process. */
    return file && byte_lock(file->fd, F_OFD_GETLK, F_WRLCK, PROCESS_BYTE(id));
}
