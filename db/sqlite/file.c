/*
 * The file that SQLite's database is, before it is opened: its one true name, and
 * whether it is fit.
 */
#include "db/sql.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* By another name a second service would find another lock file, and another journal. A
 * file that is mounted by itself, as containers do it, has its other name elsewhere. */
static enum store_status check_names(const char *path,
                                     struct store_error *error)
{
    struct statx st;

    if (statx(AT_FDCWD, path, 0, STATX_NLINK, &st) != 0)
        return STORE_OK;
    if (st.stx_attributes & STATX_ATTR_MOUNT_ROOT)
        return failure_set(error, STORE_UNFIT,
                           "%s is mounted by itself, and its journal beside it "
                           "would stay here: mount its folder",
                           path);
    if (st.stx_nlink <= 1)
        return STORE_OK;
    return failure_set(error, STORE_UNFIT,
                       "%s has %u names (hard links), and who opens it by "
                       "another would not know of this service: keep one",
                       path, st.stx_nlink);
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

/* The database is not there: could it be? Made anew, it would take the journal's place. */
static enum store_status check_missing(const char *path,
                                       struct store_error *error)
{
    static const char *const ends[] = {"-wal", "-journal"};
    char folder[PATH_MAX];
    const char *parent;
    struct stat st;

    for (size_t i = 0; i < 2; i++) {
        snprintf(folder, sizeof(folder), "%s%s", path, ends[i]);
        if (stat(folder, &st) == 0 && st.st_size > 0)
            return failure_set(error, STORE_UNFIT,
                               "%s is missing, but its journal is there "
                               "(-wal or -journal) and may have confirmed "
                               "orders: put the database back, or move the "
                               "journal away",
                               path);
    }
    snprintf(folder, sizeof(folder), "%s", path);
    /* Not for a person alone, also if it may not be written: the folder may
     * be one where nothing is mounted yet. */
    parent = dirname(folder); /* "." of a bare name */
    return access(parent, W_OK | X_OK) == 0
               ? STORE_OK
               : failure_set(error, STORE_IO, "cannot make it in %s: %s",
                             parent, strerror(errno));
}

/* The one true name, WHOLE, of the file in "sqlite:PATH": two ways to it, one through a
 * symbolic link, must end at the same lock file; and a name that begins with a slash is
 * never taken for a URI by SQLite. A file must not have several names, because who
 * looks at it by another finds no journal, and so not the last orders. Says clearly
 * what SQLite would only call "unable to open". */
enum store_status sqlite_find(const char *url, enum sql_find how,
                              char whole[SQL_WHERE_BYTES],
                              struct store_error *error)
{
    const char *path = url + strlen(sqlite_engine.scheme);
    struct stat st = {.st_mode = S_IFREG};
    char owner[33], user[33];
    int fd, why;

    /* Each connection would get a private, empty database. */
    if (path[0] == '\0' || path[0] == ':')
        return failure_set(error, STORE_MISUSE,
                           "the database must be a file with a name");
    if (stat(path, &st) != 0 && errno == ENOENT && how == SQL_CHECK) {
        whole[0] = '\0';
        return check_missing(path, error);
    }
    /* The file is made here because realpath() needs one, and with no rights
     * for others: SQLite would give it those of the umask. */
    if (stat(path, &st) != 0 && errno == ENOENT && how == SQL_CREATE) {
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (fd >= 0)
            close(fd);
    }
    if (!S_ISREG(st.st_mode))
        return failure_set(error, STORE_UNFIT, "%s is not a file", path);
    if (!realpath(path, whole)) {
        why = errno;
        return failure_set(error, failure_status(why), "cannot open %s: %s",
                           path, strerror(why));
    }
    if (how == SQL_CHECK && access(whole, R_OK | W_OK) != 0) {
        why = errno;
        name_of(st.st_uid, owner);
        name_of(geteuid(), user);
        /* Most often somebody else has copied it there. */
        return failure_set(error, failure_status(why),
                           "cannot open %s: %s (it belongs to %s, this "
                           "process is %s)",
                           whole, strerror(why), owner, user);
    }
    return check_names(whole, error);
}
