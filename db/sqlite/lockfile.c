/*
 * The lock file. See lockfile.h.
 *
 * Two kinds of lock on one file, which do not see each other on Linux: flock
 * for who has the database open, and for the door a byte-range lock of the
 * open-file-description kind, which belongs to the descriptor and not, like
 * the classic kind, to the whole process.
 */
#include "db/sqlite/lockfile.h"
#include "db/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes far behind any that are written: one for each process that has the
 * database open, by its id. */
#define PRESENCE_FIRST ((off_t)1 << 60)

/* Sets the lock of one byte, or looks at it: true if it is ours to have. */
static bool byte_lock(int fd, int command, short type, off_t at)
{
    struct flock range = {
        .l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};

    return fcntl(fd, command, &range) == 0 &&
           (command != F_OFD_GETLK || range.l_type == F_UNLCK);
}

bool lockfile_announce(const struct lockfile *file, uint64_t id)
{
    return byte_lock(file->fd, F_OFD_SETLK, F_WRLCK,
                     PRESENCE_FIRST + (off_t)(id >> 4));
}

bool lockfile_is_gone(const struct lockfile *file, uint64_t id)
{
    return byte_lock(file->fd, F_OFD_GETLK, F_WRLCK,
                     PRESENCE_FIRST + (off_t)(id >> 4));
}

static enum store_status take_door(int fd, unsigned busy_ms,
                                   struct store_error *error)
{
    struct backoff backoff = {0};

    backoff_begin(&backoff, busy_ms);
    while (!byte_lock(fd, F_OFD_SETLK, F_WRLCK, 0)) {
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return failure_set(error, STORE_IO, "cannot lock the lock file: %s",
                               strerror(errno));
        if (!backoff_wait(&backoff))
            return failure_set(error, STORE_BUSY,
                               "another process is opening the database");
    }
    return STORE_OK;
}

/* Says what stands in the way, and what a person can do about it. */
static enum store_status take_lock(int fd, bool shared,
                                   struct store_error *error)
{
    if (flock(fd, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0)
        return STORE_OK;
    if (!shared && flock(fd, LOCK_SH | LOCK_NB) == 0)
        return failure_set(error, STORE_IN_USE,
                           "other processes share this database; "
                           "start this one with --shared too");
    return failure_set(error, STORE_IN_USE,
                       "another process sells from this database; "
                       "start both with --shared");
}

enum store_status lockfile_take(const char *path, bool shared, unsigned busy_ms,
                                struct lockfile *file,
                                struct store_error *error)
{
    enum store_status status;
    struct stat st;

    if (snprintf(file->name, sizeof(file->name), "%s.lock", path) >=
        (int)sizeof(file->name))
        return failure_set(error, STORE_UNFIT, "the name %s is too long", path);
    file->fd = open(file->name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file->fd < 0 || fstat(file->fd, &st) != 0) {
        status = failure_status(errno);
        failure_text(error, "cannot open %s: %s", file->name, strerror(errno));
        if (file->fd >= 0)
            close(file->fd);
        return status;
    }
    file->dev = st.st_dev;
    file->ino = st.st_ino;
    status = take_door(file->fd, busy_ms, error);
    if (status == STORE_OK)
        status = take_lock(file->fd, shared, error);
    if (status == STORE_OK && shared)
        status = lockfile_new_mark(file, error);
    if (status != STORE_OK)
        close(file->fd);
    return status;
}

void lockfile_settled(const struct lockfile *file)
{
    (void)byte_lock(file->fd, F_OFD_SETLK, F_UNLCK, 0);
}

void lockfile_drop(const struct lockfile *file)
{
    close(file->fd);
}

bool lockfile_is_moved(const struct lockfile *file)
{
    return file_is_moved(file->name, file->dev, file->ino);
}

uint64_t lockfile_mark(const struct lockfile *file)
{
    uint64_t mark = 0;

    if (pread(file->fd, &mark, sizeof(mark), 0) != (ssize_t)sizeof(mark) ||
        lockfile_is_moved(file))
        return 0;
    return mark;
}

enum store_status lockfile_new_mark(const struct lockfile *file,
                                    struct store_error *error)
{
    uint64_t mark;

    if (getrandom(&mark, sizeof(mark), 0) != (ssize_t)sizeof(mark) ||
        pwrite(file->fd, &mark, sizeof(mark), 0) != (ssize_t)sizeof(mark))
        return failure_set(error, STORE_IO, "cannot write %s: %s", file->name,
                           strerror(errno));
    return STORE_OK;
}
