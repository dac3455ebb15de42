/*
 * Opening and closing the store. See store.h for what it is.
 *
 * The order matters: first the file's true name; then the lock file, which says
 * whether we may open the database at all and keeps others from setting it up
 * at the same time; then the connection, which also chooses the journal; then
 * the schema; and only when all this is done the committer's thread, and the
 * door for the next.
 */
#include "db/store.h"
#include "db/failure.h"
#include "db/lockfile.h"
#include "db/schema.h"
#include "db/store_private.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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
 * The path in a "sqlite:PATH". A second kind of database would be chosen here,
 * by its scheme.
 */
static enum store_status path_of(const char *url, const char **path,
                                 struct store_error *error)
{
    size_t length = strlen(STORE_SCHEME);

    if (strncmp(url, STORE_SCHEME, length) != 0)
        return failure_set(error, STORE_MISUSE,
                           "the database's URL must be sqlite:PATH, not %s",
                           url);
    /* Each connection would get a private, empty one. */
    if (url[length] == '\0' || url[length] == ':')
        return failure_set(error, STORE_MISUSE,
                           "the database must be a file with a name");
    *path = url + length;
    return STORE_OK;
}

static enum store_status cannot_open(const char *path,
                                     struct store_error *error)
{
    return failure_set(error, STORE_IO, "cannot open %s: %s", path,
                       strerror(errno));
}

/*
 * The one true name of the database file, WHOLE: two ways to it, one through a
 * symbolic link, must end at the same lock file; and a name that begins with a
 * slash is never taken for a URI by SQLite. CREATE makes the file, empty, if it
 * is not there. Says clearly what SQLite would only call "unable to open".
 */
static enum store_status find_file(const char *path, bool create,
                                   char whole[PATH_MAX],
                                   struct store_error *error)
{
    struct stat st;
    int fd;

    if (stat(path, &st) != 0) {
        fd = create && errno == ENOENT
                 ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644)
                 : -1;
        if (fd < 0)
            return cannot_open(path, error);
        close(fd);
    } else if (!S_ISREG(st.st_mode)) {
        return failure_set(error, STORE_IO, "%s is not a file", path);
    }
    return realpath(path, whole) ? STORE_OK : cannot_open(path, error);
}

/* ---- the store ---------------------------------------------------------- */

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
    store->busy_ms = options->busy_ms ? options->busy_ms : STORE_BUSY_MS;
    soldout_init(&store->soldout, store->shared ? &store->lock : NULL);
    store->step.hook = options->on_step;
    store->step.ctx = options->on_step_ctx;
    return store;
}

static void free_store(struct store *store)
{
    free(store->path);
    free(store);
}

/* Behind the door: the connection, the schema, the thread. */
static enum store_status set_up(struct store *store, struct store_error *error)
{
    const struct sqlite_options options = {
        .path = store->path,
        .role = SQLITE_ROLE_WRITER,
        .shared = store->shared,
        .busy_ms = store->busy_ms,
        .hurry = &store->hurry,
    };
    enum store_status status;
    struct sqlite *db;

    status = sqlite_open(&options, &db, error);
    if (status != STORE_OK)
        return status;
    status = schema_bring_up(db, error);
    if (status == STORE_OK)
        status = committer_open(db, &options, &store->step, &store->committer,
                                error);
    if (status != STORE_OK)
        sqlite_close(db);
    return status;
}

enum store_status store_open(const struct store_options *options,
                             struct store **store, struct store_error *error)
{
    enum store_status status;
    struct store *opened;
    char whole[PATH_MAX];
    const char *path;

    status = path_of(options->url, &path, error);
    if (status == STORE_OK)
        status = find_file(path, true, whole, error);
    if (status != STORE_OK)
        return status;
    opened = new_store(options, whole);
    if (!opened)
        return failure_set(error, STORE_IO, "out of memory");
    status = lockfile_take(opened->path, opened->shared, opened->busy_ms,
                           &opened->lock, error);
    if (status != STORE_OK)
        goto err_after_new;
    status = set_up(opened, error);
    if (status != STORE_OK)
        goto err_after_lock;
    lockfile_settled(&opened->lock);
    *store = opened;
    return STORE_OK;

err_after_lock:
    lockfile_drop(&opened->lock);
err_after_new:
    free_store(opened);
    return status;
}

void store_end_waits(struct store *store)
{
    atomic_store(&store->hurry, true);
}

void store_close(struct store *store)
{
    if (!store)
        return;
    committer_close(store->committer);
    lockfile_drop(&store->lock);
    free_store(store);
}

/* ---- readers ------------------------------------------------------------ */

static enum store_status open_reader(const struct sqlite_options *options,
                                     const struct step *step,
                                     struct store_reader **reader,
                                     struct store_error *error)
{
    struct store_reader *opened = calloc(1, sizeof(*opened));
    enum store_status status;

    if (!opened)
        return failure_set(error, STORE_IO, "out of memory");
    opened->step = *step;
    status = sqlite_open(options, &opened->db, error);
    if (status != STORE_OK)
        goto err_after_alloc;
    status = schema_check(opened->db, error);
    if (status != STORE_OK)
        goto err_after_open;
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
        .busy_ms = store->busy_ms,
        .hurry = &store->hurry,
    };

    return open_reader(&options, &store->step, reader, error);
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
    const char *path;

    status = path_of(url, &path, error);
    if (status == STORE_OK)
        status = find_file(path, false, whole, error);
    if (status != STORE_OK)
        return status;
    options.path = whole;
    return open_reader(&options, &no_step, reader, error);
}

void store_reader_close(struct store_reader *reader)
{
    if (!reader)
        return;
    sqlite_close(reader->db);
    free(reader);
}
