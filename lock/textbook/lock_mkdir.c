/*
 * mkdir: a directory per lock. The oldest lock of all: making a directory fails if it is
 * there, and the kernel does the excluding.
 *
 * Guarantees that one process at a time on this host holds a name, without any server (X,
 * and 2 on one host).
 *
 * Does not guarantee: that it ends. Nobody removes the directory of a holder that has crashed
 * (C); that is the failure it is here to show. It does not know whose it is either, so anybody
 * can give it back (P); waiters poll (W).
 *
 * The directories lie below the base, PATH of the url "dir:PATH". With any other url, that is
 * /tmp/dlock-UID, which belongs to the user. A base that is not there is made, its parents are
 * not. A name that is too long for a file name is not to be had.
 */
#include "lock/core/client.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BASE_BYTES_MAX = 1024,
    PATH_BYTES_MAX = BASE_BYTES_MAX + 1 + 3 * DLOCK_NAME_BYTES_MAX,
};

/* Of a client, in client->own. */
struct base {
    bool ours; /* must belong to us: others can write beside it */
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
    /* A base that is named in the url may be shared with others on purpose; the one in /tmp
     * must be the user's own. */
    base->ours = !given;
    client->own = base;
    return DLOCK_OK;
}

/* BASE/NAME, each byte of the name as %XX that a file name may not have as it is; nor
 * '.', because "." and ".." are taken. Two names never share a path. */
static void make_path(const struct base *base, const char *name,
                      char path[PATH_BYTES_MAX + 1])
{
    char *end = path + sprintf(path, "%s/", base->path);

    for (; *name != '\0'; name++)
        end += sprintf(end,
                       isalnum((unsigned char)*name) || *name == '-' ||
                               *name == '_'
                           ? "%c"
                           : "%%%02X",
                       *name);
}

/* Makes the base, if need be. 0 or an errno. */
static int make_base(const struct base *base)
{
    struct stat found;

    if (mkdir(base->path, 0700) != 0 && errno != EEXIST)
        return errno;
    /* In /tmp, somebody else may have been first. */
    if (base->ours && (lstat(base->path, &found) < 0 ||
                       !S_ISDIR(found.st_mode) || found.st_uid != geteuid()))
        return EPERM;
    return 0;
}

static int make(const char *path)
{
    return mkdir(path, 0700);
}

static int look(const char *path)
{
    struct stat found;

    return lstat(path, &found);
}

/* A step is one CALL to the kernel. ANSWER is what the errno NO stands for. */
static enum dlock_status do_step(const struct dlock_attempt *attempt,
                                 const char *step, int (*call)(const char *),
                                 int no, enum dlock_status answer)
{
    const struct base *base = attempt->session->client->own;
    char path[PATH_BYTES_MAX + 1];
    uint64_t until_ms;
    enum dlock_status status = dlock_step_begin(attempt, step, &until_ms);
    const char *reply = "done";
    int failure;

    if (status != DLOCK_OK)
        return status;
    make_path(base, attempt->name, path);
    /* The base is made by a take only: without it no lock is held there, and the other
     * calls say so. */
    failure = call == make ? make_base(base) : 0;
    if (failure == 0 && call(path) != 0)
        failure = errno;
    /* A failure but NO is the kernel's refusal, after which nothing has changed: a system
     * call has no lost reply. */
    if (failure != 0) {
        reply = strerror(failure);
        status = failure == no ? answer : DLOCK_UNREACHABLE;
    }
    if (status == DLOCK_UNREACHABLE)
        dlock_error_say("%s: %s", step, reply);
    return dlock_step_end(attempt, step, reply, status);
}

static enum dlock_status acquire(const struct dlock_attempt *attempt)
{
    return do_step(attempt, "mkdir", make, EEXIST, DLOCK_BUSY);
}

/* Also a directory that somebody else has made: it does not tell. */
static enum dlock_status release(const struct dlock_attempt *attempt)
{
    return do_step(attempt, "rmdir", rmdir, ENOENT, DLOCK_LOST);
}

static enum dlock_status inspect(const struct dlock_attempt *attempt,
                                 struct dlock_holder *holder)
{
    enum dlock_status status =
        do_step(attempt, "stat", look, ENOENT, DLOCK_LOST);

    holder->held = status == DLOCK_OK;
    return status == DLOCK_LOST ? DLOCK_OK : status;
}

const struct dlock_strategy dlock_strategy_mkdir = {
    .info = {.name = "mkdir",
             .claim = "One at a time on this host, if nobody crashes.",
             .capabilities = 0},
    .open = open_base,
    .acquire = acquire,
    .release = release,
    .inspect = inspect,
};
