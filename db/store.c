/*
 * Opening and closing the store. See store.h for what it is.
 *
 * The order matters: first the file's true name; then the lock file, which says
 * whether we may open the database at all and keeps others from setting it up
 * at the same time; then the connection, which also chooses the journal; then
 * the schema; and only when all this is done the committer's thread, and the
 * door for the next.
 */
#include "db/store_private.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STORE_BUSY_MS 2000
#define STORE_SCHEME  "sqlite:"

const char *store_status_text(enum store_status status)
{
    static const char *const texts[] = {
#define STORE_STATUS_TEXT(name, text) [name] = (text),
        STORE_STATUS_MAP(STORE_STATUS_TEXT)
#undef STORE_STATUS_TEXT
    };

    if ((unsigned)status >= STORE_STATUS_N)
        return "unknown status";
    return texts[status];
}

/*
 * The one true name, WHOLE, of the file in "sqlite:PATH": two ways to it, one
 * through a symbolic link, must end at the same lock file; and a name that
 * begins with a slash is never taken for a URI by SQLite. CREATE makes the file,
 * empty, if it is not there. Says clearly what SQLite would only call "unable
 * to open". (A second kind of database would be chosen here, by its scheme.)
 */
static enum store_status find_file(const char *url, bool create,
                                   char whole[PATH_MAX],
                                   struct store_error *error)
{
    const char *path = url + strlen(STORE_SCHEME);
    struct stat st = {.st_mode = S_IFREG};
    int fd;

    if (strncmp(url, STORE_SCHEME, strlen(STORE_SCHEME)) != 0)
        return failure_set(error, STORE_MISUSE,
                           "the database's URL must be sqlite:PATH, not %s",
                           url);
    /* Each connection would get a private, empty one. */
    if (path[0] == '\0' || path[0] == ':')
        return failure_set(error, STORE_MISUSE,
                           "the database must be a file with a name");
    if (stat(path, &st) != 0 && create && errno == ENOENT) {
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        if (fd >= 0)
            close(fd);
    }
    if (!S_ISREG(st.st_mode))
        return failure_set(error, STORE_IO, "%s is not a file", path);
    if (!realpath(path, whole))
        return failure_set(error, STORE_IO, "cannot open %s: %s", path,
                           strerror(errno));
    return STORE_OK;
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
    const char *why = strerror(errno);
    char owner[33] = "?", user[33];
    struct stat st;

    if (stat(path, &st) == 0)
        name_of(st.st_uid, owner);
    name_of(geteuid(), user);
    return failure_set(error, STORE_IO,
                       "cannot open %s: %s (it belongs to %s, this process is "
                       "%s)",
                       path, why, owner, user);
}

enum store_status store_check(const char *url, struct store_error *error)
{
    const char *path = url + strlen(STORE_SCHEME);
    struct sqlite_options options = {.role = SQLITE_ROLE_RESCUER};
    enum store_status status;
    char whole[PATH_MAX];
    struct sqlite *db;
    int64_t version;

    snprintf(whole, sizeof(whole), "%s", path);
    if (access(path, F_OK) != 0 && errno == ENOENT) {
        if (has_journal(path))
            return failure_set(error, STORE_IO,
                               "%s is missing, but its journal is there "
                               "(-wal or -journal) and may have confirmed "
                               "orders: put the database back, or move the "
                               "journal away",
                               path);
        return access(dirname(whole), W_OK | X_OK) == 0
                   ? STORE_OK
                   : failure_set(error, STORE_IO, "cannot make it in %s: %s",
                                 whole, strerror(errno));
    }
    status = find_file(url, false, whole, error);
    if (status != STORE_OK)
        return status;
    if (access(whole, R_OK | W_OK) != 0)
        return refused(whole, error);
    options.path = whole;
    status = sqlite_open(&options, &db, error);
    if (status != STORE_OK)
        return status == STORE_BUSY ? STORE_OK : status;
    status = schema_inspect(db, &version);
    if (status != STORE_OK)
        failure_text(error, "%s", sqlite_error(db)->text);
    sqlite_close(db);
    return status == STORE_BUSY ? STORE_OK : status;
}

/* ---- the store ---------------------------------------------------------- */

/* NULL: no memory. */
static struct store *new_store(const struct store_options *options,
                               const char *path)
{
    struct store *store = calloc(1, sizeof(*store));

    if (!store)
        return NULL;
    store->path = strdup(path);
    if (!store->path) {
        free(store);
        return NULL;
    }
    store->shared = options->shared;
    store->step.hook = options->on_step;
    store->step.ctx = options->on_step_ctx;
    store->on_commit = options->on_commit;
    store->on_commit_ctx = options->on_commit_ctx;
    store->writer = (struct sqlite_options){
        .path = store->path,
        .role = SQLITE_ROLE_WRITER,
        .shared = options->shared,
        .busy_ms = options->busy_ms ? options->busy_ms : STORE_BUSY_MS,
        .hurry = &store->hurry,
        .on_wait = committer_on_wait,
        .on_wait_ctx = store,
    };
    soldout_init(&store->soldout, store->shared ? &store->lock : NULL);
    return store;
}

static void free_store(struct store *store)
{
    rows_forget(&store->place.rows);
    free(store->path);
    free(store);
}

enum store_status store_open(const struct store_options *options,
                             struct store **store, struct store_error *error)
{
    enum store_status status;
    struct store *opened;
    char whole[PATH_MAX];
    struct stat st;

    status = find_file(options->url, true, whole, error);
    if (status != STORE_OK)
        return status;
    opened = new_store(options, whole);
    if (!opened)
        return failure_set(error, STORE_IO, "out of memory");
    status = lockfile_take(opened->path, opened->shared, opened->writer.busy_ms,
                           &opened->lock, error);
    if (status != STORE_OK)
        goto err_after_new;
    status = sqlite_open(&opened->writer, &opened->db, error);
    if (status == STORE_OK && stat(opened->path, &st) != 0)
        status = failure_set(error, STORE_IO, "cannot find %s any more",
                             opened->path);
    if (status != STORE_OK)
        goto err_after_lock;
    opened->dev = st.st_dev;
    opened->ino = st.st_ino;
    status = schema_bring_up(opened->db);
    if (status != STORE_OK)
        failure_text(error, "%s", sqlite_error(opened->db)->text);
    else
        status = committer_open(opened, error);
    if (status != STORE_OK)
        goto err_after_lock;
    lockfile_settled(&opened->lock);
    *store = opened;
    return STORE_OK;

err_after_lock:
    sqlite_close(opened->db);
    lockfile_drop(&opened->lock);
err_after_new:
    free_store(opened);
    return status;
}

void store_end_waits(struct store *store)
{
    atomic_store(&store->hurry, true);
}

bool store_announce(struct store *store, uint64_t id)
{
    return lockfile_announce(&store->lock, id);
}

bool store_is_gone(const struct store *store, uint64_t id)
{
    return lockfile_is_gone(&store->lock, id);
}

void store_close(struct store *store)
{
    if (!store)
        return;
    committer_close(store);
    sqlite_close(store->db);
    lockfile_drop(&store->lock);
    free_store(store);
}

/* ---- readers ------------------------------------------------------------ */

static enum store_status open_reader(const struct sqlite_options *options,
                                     struct step step,
                                     struct store_reader **reader,
                                     struct store_error *error)
{
    struct store_reader *opened = calloc(1, sizeof(*opened));
    enum store_status status;

    if (!opened)
        return failure_set(error, STORE_IO, "out of memory");
    opened->step = step;
    status = sqlite_open(options, &opened->db, error);
    if (status != STORE_OK)
        goto err_after_alloc;
    status = schema_check(opened->db);
    if (status != STORE_OK) {
        failure_text(error, "%s", sqlite_error(opened->db)->text);
        goto err_after_open;
    }
    *reader = opened;
    return STORE_OK;

err_after_open:
    sqlite_close(opened->db);
err_after_alloc:
    free(opened);
    return status;
}

/*
 * In shared mode another process may die in its commit at any time, and what
 * it leaves in the journal has to be rolled back before anybody can read.
 */
enum store_status store_reader_open(struct store *store,
                                    struct store_reader **reader,
                                    struct store_error *error)
{
    const struct sqlite_options options = {
        .path = store->path,
        .role = store->shared ? SQLITE_ROLE_RESCUER : SQLITE_ROLE_READER,
        .busy_ms = store->writer.busy_ms,
        .hurry = &store->hurry,
    };

    return open_reader(&options, store->step, reader, error);
}

enum store_status store_reader_open_url(const char *url,
                                        struct store_reader **reader,
                                        struct store_error *error)
{
    const struct step no_step = {0};
    struct sqlite_options options = {
        .role = SQLITE_ROLE_RESCUER,
        .busy_ms = STORE_BUSY_MS,
    };
    enum store_status status;
    char whole[PATH_MAX];

    status = find_file(url, false, whole, error);
    if (status != STORE_OK)
        return status;
    options.path = whole;
    return open_reader(&options, no_step, reader, error);
}

void store_reader_close(struct store_reader *reader)
{
    if (!reader)
        return;
    sqlite_close(reader->db);
    free(reader);
}
