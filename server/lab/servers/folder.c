/* See folder.h. */
#include "server/lab/servers/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int remove_one(const char *path, const struct stat *st, int kind,
                      struct FTW *where)
{
    (void)st, (void)kind, (void)where;
    /* A file that cannot be removed stays: the rest must go all the same. */
    (void)remove(path);
    return 0;
}

void folder_remove(const char *path)
{
    /* Folders come behind what is in them; a link is removed, and not followed. */
    (void)nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* The remover makes the folder as well, because whoever had made it could be killed
 * before there is a remover. It keeps nothing open but its end of the pair, over which it
 * sends what errno was, and hears no Ctrl-C. */
static _Noreturn void make_and_wait_for_the_end(const char *path, int in)
{
    int error = 0;
    char byte;

    /* A session of its own: the signals of the terminal, and of its end, do not
     * come here. */
    (void)setsid();
    (void)dup2(in, 0);
    /* Its own end alone: another one would keep it waiting for itself. */
    (void)close_range(1, UINT_MAX, 0);
    if (mkdir(path, 0700) != 0)
        error = errno;
    (void)send(0, &error, sizeof(error), MSG_NOSIGNAL);
    /* Nobody sends a byte: what ends the wait is that all other ends are closed. */
    while (error == 0 && read(0, &byte, 1) < 0 && errno == EINTR)
        continue;
    if (error == 0)
        folder_remove(path);
    _exit(0);
}

bool folder_open(struct folder *folder, const char *where, const char *name,
                 struct fail *error)
{
    int len, ends[2], code = EIO;
    unsigned random = 0;

    if (!where)
        /* The name has to be short, because sockets lie in it. */
        where = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    *folder = (struct folder){.alive = -1};
    (void)getrandom(&random, sizeof(random), 0);
    len =
        snprintf(folder->path, sizeof(folder->path), "%s/stockade-%s-%ld-%06x",
                 where, name, (long)getpid(), random & 0xffffffu);
    if (len >= (int)sizeof(folder->path)) {
        folder->path[0] = '\0';
        return fail_with(error, "no folder in %.80s: its name is too long",
                         where);
    }
    /* No exec closes this pair: a program that uses the folder keeps it alive. */
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
        code = errno;
    } else {
        folder->alive = ends[1];
        folder->remover = fork();
        if (folder->remover == 0)
            make_and_wait_for_the_end(folder->path, ends[0]);
        if (folder->remover < 0)
            code = errno;
        (void)close(ends[0]);
        /* A remover that ends without a word leaves CODE as it was: an error. */
        while (folder->remover > 0 &&
               recv(ends[1], &code, sizeof(code), MSG_WAITALL) < 0 &&
               errno == EINTR)
            continue;
    }
    if (code == 0)
        return true;
    (void)fail_with(error, "no folder in %.80s: %s", where, strerror(code));
    folder_close(folder);
    return false;
}

void folder_close(struct folder *folder)
{
    if (!folder->path[0])
        return;
    if (folder->alive >= 0) {
        /* The end of all ends: children that still have it must not keep the folder. */
        (void)shutdown(folder->alive, SHUT_RDWR); /* whoever has it, too */
        (void)close(folder->alive);
    }
    /* The folder is gone when the remover is. */
    while (folder->remover > 0 && waitpid(folder->remover, NULL, 0) < 0 &&
           errno == EINTR)
        continue;
    folder_remove(folder->path); /* if the remover was killed */
    folder->path[0] = '\0';
}

/* ---- whole files ------------------------------------------------------------- */

bool file_write(const char *path, const void *bytes, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    /* The file is written over in place, and cut behind it: its readers keep it open. */
    bool good = fd >= 0 && pwrite(fd, bytes, len, 0) == (ssize_t)len &&
                ftruncate(fd, (off_t)len) == 0;

    if (fd >= 0)
        (void)close(fd);
    return good;
}

unsigned char *file_read(const char *path, size_t *len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    unsigned char *bytes = NULL;
    struct stat st;

    if (fd >= 0 && fstat(fd, &st) == 0) {
        /* The file is read whole, or not at all. */
        *len = (size_t)st.st_size;
        bytes = malloc(*len + 1);
        if (bytes && pread(fd, bytes, *len, 0) != (ssize_t)*len) {
            free(bytes);
            bytes = NULL;
        }
    }
    if (fd >= 0)
        (void)close(fd);
    return bytes;
}
