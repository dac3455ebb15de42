/*
 * The lock file. See lockfile.h.
 *
 * Two kinds of lock on one file, which do not see each other on Linux: flock
 * for who has the database open, and for the door a byte-range lock of the
 * open-file-description kind, which belongs to the descriptor and not, like
 * the classic kind, to the whole process.
 */
#include "db/lockfile.h"
#include "db/backoff.h"
#include "db/failure.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static bool door(int fd, short type)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_len = 1};

    return fcntl(fd, F_OFD_SETLK, &range) == 0;
}

static enum store_status take_door(int fd, unsigned busy_ms,
                                   struct store_error *error)
{
    struct backoff backoff = {0};

    backoff_begin(&backoff, busy_ms);
    while (!door(fd, F_WRLCK)) {
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
static enum store_status in_use(int fd, bool shared, struct store_error *error)
{
    if (!shared && flock(fd, LOCK_SH | LOCK_NB) == 0)
        return failure_set(error, STORE_IN_USE,
                           "other processes share this database; "
                           "start this one with --shared too");
    return failure_set(error, STORE_IN_USE,
                       "another process sells from this database; "
                       "start both with --shared");
}

enum store_status lockfile_take(const char *path, bool shared, unsigned busy_ms,
                                int *fd, struct store_error *error)
{
    char name[PATH_MAX];
    enum store_status status;
    int opened;

    if (snprintf(name, sizeof(name), "%s.lock", path) >= (int)sizeof(name))
        return failure_set(error, STORE_IO, "the name %s is too long", path);
    opened = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (opened < 0)
        return failure_set(error, STORE_IO, "cannot open %s: %s", name,
                           strerror(errno));
    status = take_door(opened, busy_ms, error);
    if (status != STORE_OK)
        goto err_after_open;
    if (flock(opened, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
        status = in_use(opened, shared, error);
        goto err_after_open;
    }
    *fd = opened;
    return STORE_OK;

err_after_open:
    close(opened);
    return status;
}

void lockfile_settled(int fd)
{
    (void)door(fd, F_UNLCK);
}

void lockfile_drop(int fd)
{
    close(fd);
}
