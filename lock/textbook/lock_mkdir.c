/*
 * mkdir: a directory per lock. The oldest lock of all: making a directory
 * fails if it is there, and the kernel does the excluding.
 *
 * Guarantees that one process at a time on this host holds a name, without any
 * server (X, and 2 on one host).
 *
 * Does not guarantee: that it ends. Nobody removes the directory of a holder
 * that has crashed (C), not even a restart of the machine, if the directory is
 * on disk; that is the failure it is here to show. It does not know whose it is
 * either, so anybody can give it back (P); waiters poll (W).
 *
 * The directories lie below the base, PATH of the url "dir:PATH". With any
 * other url, that is /tmp/dlock-UID, which belongs to the user: locks there
 * exclude one's own processes. A base that is not there is made, its parents
 * are not.
 */
#include "lock/core/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lock/core/error.h"

enum {
    BASE_BYTES_MAX = 1024,
    PART_BYTES_MAX = 200, /* of one file name; file systems take 255 */
    /* Each byte of a name as %XX, and "%/" between parts. */
    PATH_BYTES_MAX = BASE_BYTES_MAX + 1 + 3 * DLOCK_NAME_BYTES_MAX +
                     2 * (3 * DLOCK_NAME_BYTES_MAX / PART_BYTES_MAX),
};

/* Of a client, in client->own. */
struct base {
    bool ours; /* must belong to us: others can write beside it */
    size_t len;
    char path[BASE_BYTES_MAX + 1];
};

static enum dlock_status open_base(struct dlock *client)
{
    const char *url = client->url == NULL ? "" : client->url;
    bool given = strncmp(url, "dir:", 4) == 0;
    struct base *base;

    if (given && (url[4] == '\0' || strlen(url + 4) > BASE_BYTES_MAX))
        return dlock_error_set(DLOCK_MISUSE,
                               "dir:PATH takes a path of 1 to %d bytes",
                               BASE_BYTES_MAX);
    base = calloc(1, sizeof(*base));
    if (base == NULL)
        return dlock_error_set(DLOCK_UNREACHABLE, "out of memory");
    if (given)
        (void)snprintf(base->path, sizeof(base->path), "%s", url + 4);
    else
        (void)snprintf(base->path, sizeof(base->path), "/tmp/dlock-%lu",
                       (unsigned long)geteuid());
    base->ours = !given;
    base->len = strlen(base->path);
    client->own = base;
    return DLOCK_OK;
}

static void close_base(struct dlock *client)
{
    free(client->own);
}

/* Paths --------------------------------------------------------------------- */

/* Bytes that a file name has as they are. Not '.': "." and ".." are taken. */
static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/*
 * BASE/NAME, every other byte as %XX. Two names never share a path; and a long
 * one goes on below a directory that ends in a bare '%', which no lock does.
 */
static void make_path(const struct base *base, const char *name,
                      char path[PATH_BYTES_MAX + 1])
{
    size_t part = 0; /* bytes of the last part so far */
    char *end = path + base->len;

    memcpy(path, base->path, base->len);
    *end++ = '/';
    for (; *name != '\0'; name++) {
        if (part + 3 >= PART_BYTES_MAX) {
            *end++ = '%';
            *end++ = '/';
            part = 0;
        }
        if (is_plain(*name)) {
            *end++ = *name;
            part++;
        } else {
            (void)snprintf(end, 4, "%%%02X", (unsigned char)*name);
            end += 3;
            part += 3;
        }
    }
    *end = '\0';
}

/* Makes PATH's parents, from the base on. 0 or an errno. */
static int make_parents(const struct base *base, char path[PATH_BYTES_MAX + 1])
{
    struct stat found;

    for (char *slash = path + base->len; slash != NULL;
         slash = strchr(slash + 1, '/')) {
        int failure;

        *slash = '\0';
        failure = mkdir(path, 0700) == 0 ? 0 : errno;
        *slash = '/';
        if (failure != 0 && failure != EEXIST)
            return failure;
    }
    /* In /tmp, somebody else may have been first. */
    if (base->ours && (lstat(base->path, &found) < 0 ||
                       !S_ISDIR(found.st_mode) || found.st_uid != geteuid()))
        return EPERM;
    return 0;
}

/* The strategy's functions -------------------------------------------------- */

/*
 * The end of the step: ANSWER is what ERRNO_VALUE stands for, 0 is done, and
 * anything else means that nothing has happened.
 */
static enum dlock_status end_step(const struct dlock_attempt *attempt,
                                  const char *step, int failure,
                                  enum dlock_status answer)
{
    const char *reply = failure == 0 ? "done" : strerror(failure);
    enum dlock_status status = failure == 0 ? DLOCK_OK : answer;

    if (status == DLOCK_UNREACHABLE)
        dlock_error_say("%s: %s", step, reply);
    return dlock_step_end(attempt, step, reply, status);
}

static enum dlock_status acquire(const struct dlock_attempt *attempt)
{
    const struct base *base = attempt->session->client->own;
    char path[PATH_BYTES_MAX + 1];
    enum dlock_status status;
    uint64_t until_ms;
    int failure;

    status = dlock_step_begin(attempt, "mkdir", &until_ms);
    if (status != DLOCK_OK)
        return status;
    make_path(base, attempt->name, path);
    failure = make_parents(base, path);
    if (failure == 0 && mkdir(path, 0700) < 0)
        failure = errno;
    return end_step(attempt, "mkdir", failure,
                    failure == EEXIST ? DLOCK_BUSY : DLOCK_UNREACHABLE);
}

/* Whoever made it: a directory does not tell. */
static enum dlock_status release(const struct dlock_attempt *attempt)
{
    char path[PATH_BYTES_MAX + 1];
    enum dlock_status status;
    uint64_t until_ms;
    int failure;

    status = dlock_step_begin(attempt, "rmdir", &until_ms);
    if (status != DLOCK_OK)
        return status;
    make_path(attempt->session->client->own, attempt->name, path);
    failure = rmdir(path) == 0 ? 0 : errno;
    return end_step(attempt, "rmdir", failure,
                    failure == ENOENT ? DLOCK_LOST : DLOCK_UNREACHABLE);
}

static enum dlock_status inspect(const struct dlock_attempt *attempt,
                                 struct dlock_holder *holder)
{
    char path[PATH_BYTES_MAX + 1];
    struct stat found;
    enum dlock_status status;
    uint64_t until_ms;
    int failure;

    status = dlock_step_begin(attempt, "stat", &until_ms);
    if (status != DLOCK_OK)
        return status;
    make_path(attempt->session->client->own, attempt->name, path);
    failure = lstat(path, &found) == 0 ? 0 : errno;
    holder->held = failure == 0;
    return end_step(attempt, "stat", failure,
                    failure == ENOENT ? DLOCK_OK : DLOCK_UNREACHABLE);
}

const struct dlock_strategy dlock_strategy_mkdir = {
    .info = {.name = "mkdir",
             .claim = "One at a time on this host, if nobody crashes.",
             .capabilities = 0},
    .open = open_base,
    .close = close_base,
    .acquire = acquire,
    .release = release,
    .inspect = inspect,
};
