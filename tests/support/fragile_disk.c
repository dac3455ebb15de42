/*
 * A disk that can lose its power. See fragile_disk.h.
 *
 * A file is what is on disk for sure, and a list of changes that are not. One
 * mutex guards all of it; a sync lets go of it half way, so that others write
 * meanwhile: what they write is not synced then.
 */
#include "tests/support/fragile_disk.h"
#include "tests/support/temp_dir.h"

#include <assert.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECTOR      512
#define NAMES_MAX   4
#define SYNC_NS     50000 /* a sync takes so long */
#define DB_IS_RARER 8     /* the database is written seldom: more cuts there */

/* A write; or, without data, a new size. Their numbers rise. */
struct change {
    size_t number, offset, length;
    uint8_t *data;
};

struct inode {
    /* The list has all inodes, because deleted files may still be open. */
    struct inode *next;
    uint8_t *bytes; /* on disk */
    size_t size, room;
    /* Not on disk, in the order they were made. */
    struct change *changes;
    size_t changes_n;
    size_t late; /* FRAGILE_LATE_SYNC: the last one when the last sync began */
};

struct name {
    char text[64];
    struct inode *now, *on_disk; /* NULL: no such file */
};

struct fragile_file {
    const sqlite3_io_methods *real;
    sqlite3_io_methods methods; /* the real ones, but for three */
    struct inode *inode;
    bool is_log, is_db; /* WAL or journal; database */
    bool syncs_names;   /* its first sync does, as that of the real VFS */
};

static struct {
    struct fragile_options options;
    pthread_mutex_t mutex;
    atomic_bool full, broken;
    bool has_wal;
    size_t last; /* change */
    struct fragile_story story;
    struct name names[NAMES_MAX];
    struct inode *inodes;
    sqlite3_vfs vfs, *real;
} disk = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* A number that decides about each power loss; one in N, from 0. */
static unsigned random_state;

static unsigned chance(unsigned n)
{
    return (unsigned)rand_r(&random_state) % n;
}

/* ---- what is on disk ---------------------------------------------------- */

static void *resized(void *memory, size_t size)
{
    memory = realloc(memory, size);
    assert(memory);
    return memory;
}

static void resize(struct inode *inode, size_t size)
{
    /* Sector by sector a sanitizer's realloc() would copy all of it each time. */
    if (size > inode->room) {
        inode->room = 2 * size;
        inode->bytes = resized(inode->bytes, inode->room);
    }
    if (size > inode->size)
        memset(inode->bytes + inode->size, 0, size - inode->size);
    inode->size = size;
}

/* So many PERCENT of its sectors. With ZEROS there is nothing in those of them
 * that the file has grown by. */
static void apply(struct inode *inode, const struct change *change,
                  unsigned percent, bool zeros)
{
    size_t end = change->offset + change->length, from, next;
    bool is_new;

    if (!change->data) {
        if (chance(100) < percent)
            resize(inode, change->offset);
        return;
    }
    for (from = change->offset; from < end; from = next) {
        next = (from / SECTOR + 1) * SECTOR;
        if (next > end)
            next = end;
        if (percent < 100 && chance(100) >= percent)
            continue;
        is_new = from >= inode->size;
        if (next > inode->size)
            resize(inode, next);
        assert(inode->bytes);
        if (!zeros || !is_new)
            memcpy(inode->bytes + from, change->data + from - change->offset,
                   next - from);
    }
}

static void inode_change(struct inode *inode, const void *data, size_t length,
                         size_t offset)
{
    struct change *change;

    /* Twice as much whenever it is a power of two, and so may be full. */
    if ((inode->changes_n & (inode->changes_n - 1)) == 0)
        inode->changes = resized(inode->changes,
                                 (2 * inode->changes_n + 1) * sizeof(*change));
    change = &inode->changes[inode->changes_n++];
    *change = (struct change){++disk.last, offset, length, NULL};
    if (data)
        change->data = memcpy(resized(NULL, length), data, length);
}

/* All changes up to number LAST are on disk; or, if the sync FAILED, forgotten. */
static void inode_settle(struct inode *inode, size_t last, bool failed)
{
    size_t n = 0;

    for (; n < inode->changes_n && inode->changes[n].number <= last; n++) {
        if (!failed)
            apply(inode, &inode->changes[n], 100, false);
        free(inode->changes[n].data);
    }
    inode->changes_n -= n;
    if (inode->changes_n > 0)
        memmove(inode->changes, inode->changes + n,
                inode->changes_n * sizeof(inode->changes[0]));
}

static void inode_free(struct inode *inode)
{
    inode_settle(inode, SIZE_MAX, true);
    free(inode->changes);
    free(inode->bytes);
    free(inode);
}

/* ---- what a power loss leaves ------------------------------------------- */

enum luck { NOTHING, ALL, FIRST, LAST, SECTORS, ZEROS, LUCKS };

/* Changes that are there: of those from FIRST to LAST all, and of the next
 * one some sectors; or of each some sectors. */
static struct inode image_of(const struct inode *inode)
{
    enum luck luck = (enum luck)chance(LUCKS);
    unsigned percent = 10 + chance(3) * 40;
    size_t n = inode->changes_n, some = chance((unsigned)n + 1);
    size_t first = luck == LAST ? some : 0, last = luck == FIRST ? some : n;
    struct inode image = {0};

    resize(&image, inode->size);
    if (inode->size > 0)
        memcpy(image.bytes, inode->bytes, inode->size);
    for (size_t i = first; i < n && luck != NOTHING; i++) {
        if (luck == SECTORS || luck == ZEROS || i == last)
            apply(&image, &inode->changes[i], percent, luck == ZEROS);
        else if (i < last)
            apply(&image, &inode->changes[i], 100, false);
    }
    return image;
}

/* Writes to PATH what a power loss leaves of it. */
static void inode_found(const struct inode *inode, const char *path)
{
    struct inode image = image_of(inode);
    FILE *file = fopen(path, "we");
    size_t written = 0;

    if (file && image.size > 0)
        written = fwrite(image.bytes, 1, image.size, file);
    assert(file && written == image.size);
    (void)written;
    fclose(file);
    free(image.bytes);
}

/* With the mutex held: the world stands still. */
static void cut(void)
{
    struct temp_dir dir = {0};
    char path[TEMP_DIR_BYTES_MAX + 80];
    const struct inode *inode;

    disk.story.cuts++;
    disk.options.on_cut(disk.options.ctx, NULL);
    temp_dir_make(&dir);
    for (size_t i = 0; i < NAMES_MAX; i++) {
        inode = chance(2) ? disk.names[i].now : disk.names[i].on_disk;
        if (!inode)
            continue;
        snprintf(path, sizeof(path), "%s/%s", dir.path, disk.names[i].text);
        inode_found(inode, path);
    }
    disk.options.on_cut(disk.options.ctx, dir.path);
    temp_dir_remove(&dir);
}

static void moment(const struct fragile_file *file)
{
    unsigned n = disk.options.cut_one_in;

    if (n > 0 && chance(file && file->is_db ? n / DB_IS_RARER + 1 : n) == 0)
        cut();
}

/* ---- names -------------------------------------------------------------- */

/* NULL: not on this disk. */
static const char *name_on_disk(const char *path)
{
    size_t length = strlen(disk.options.dir);

    if (!path || strncmp(path, disk.options.dir, length) != 0 ||
        path[length] != '/')
        return NULL;
    return path + length + 1;
}

static struct name *name_of(const char *text)
{
    size_t i = 0;

    while (disk.names[i].text[0] && strcmp(disk.names[i].text, text) != 0) {
        i++;
        assert(i < NAMES_MAX);
    }
    snprintf(disk.names[i].text, sizeof(disk.names[i].text), "%s", text);
    return &disk.names[i];
}

static void sync_names(void)
{
    for (size_t i = 0; i < NAMES_MAX; i++)
        disk.names[i].on_disk = disk.names[i].now;
}

/* ---- files -------------------------------------------------------------- */

/* Our part of an open file lies behind the real one's. */
static struct fragile_file *cast(sqlite3_file *file)
{
    return (struct fragile_file *)((char *)file + disk.real->szOsFile);
}

static void note_write(const struct fragile_file *self, const void *data,
                       size_t n, size_t at)
{
    inode_change(self->inode, data, n, at);
    disk.story.db_writes += self->is_db;
    disk.story.begins += self->is_log && at == 0;
    disk.story.wide += n >= FRAGILE_WIDE_BYTES;
}

static int x_write(sqlite3_file *file, const void *data, int n,
                   sqlite3_int64 at)
{
    struct fragile_file *self = cast(file);
    int rc = SQLITE_FULL;

    pthread_mutex_lock(&disk.mutex);
    moment(self);
    if (!self->is_log || !atomic_exchange(&disk.full, false))
        rc = self->real->xWrite(file, data, n, at);
    if (rc == SQLITE_OK)
        note_write(self, data, (size_t)n, (size_t)at);
    else
        disk.story.full++;
    moment(self);
    pthread_mutex_unlock(&disk.mutex);
    return rc;
}

static int x_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    struct fragile_file *self = cast(file);
    int rc;

    pthread_mutex_lock(&disk.mutex);
    rc = self->real->xTruncate(file, size);
    if (rc == SQLITE_OK)
        inode_change(self->inode, NULL, 0, (size_t)size);
    moment(self);
    pthread_mutex_unlock(&disk.mutex);
    return rc;
}

/* What a sync that begins now brings to disk: up to which change of *INODE. */
static size_t sync_begins(const struct fragile_file *self, struct inode **inode)
{
    enum fragile_lie lie = disk.options.lie;
    size_t late = self->inode->late;

    self->inode->late = disk.last;
    *inode = lie == FRAGILE_WRONG_FILE && self->is_log ? disk.names[0].now
                                                       : self->inode;
    if (lie == FRAGILE_NO_SYNC ||
        (lie == FRAGILE_NO_CHECKPOINT && self->is_db && disk.has_wal))
        return 0;
    return lie == FRAGILE_LATE_SYNC ? late : disk.last;
}

static int x_sync(sqlite3_file *file, int flags)
{
    static const struct timespec pause = {0, SYNC_NS};
    struct fragile_file *self = cast(file);
    struct inode *inode;
    bool failed;
    size_t last;

    pthread_mutex_lock(&disk.mutex);
    last = sync_begins(self, &inode);
    failed = self->is_log && atomic_exchange(&disk.broken, false);
    moment(self);
    pthread_mutex_unlock(&disk.mutex);
    nanosleep(&pause, NULL);
    pthread_mutex_lock(&disk.mutex);
    moment(self);
    inode_settle(inode, last, failed);
    disk.story.broken += failed;
    if (!failed && self->syncs_names && disk.options.lie != FRAGILE_NO_SYNC)
        sync_names();
    self->syncs_names = self->syncs_names && failed;
    moment(self);
    pthread_mutex_unlock(&disk.mutex);
    return failed ? SQLITE_IOERR_FSYNC : SQLITE_OK;
}

/* ---- the VFS ------------------------------------------------------------ */

static struct inode *new_inode(void)
{
    struct inode *inode = resized(NULL, sizeof(*inode));

    *inode = (struct inode){.next = disk.inodes};
    return disk.inodes = inode;
}

/* The database itself was made, empty, before SQLite opens it for the first
 * time: that much is taken to be on disk. */
static struct inode *inode_of(struct name *name, bool is_db)
{
    if (!name->now)
        name->now = new_inode();
    if (is_db)
        name->on_disk = name->now;
    return name->now;
}

static int x_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *file,
                  int flags, int *out_flags)
{
    int rc = disk.real->xOpen(disk.real, path, file, flags, out_flags);
    const char *name = name_on_disk(path);
    struct fragile_file *self = cast(file);

    if (!name || rc != SQLITE_OK)
        return rc;
    *self = (struct fragile_file){.real = file->pMethods,
                                  .methods = *file->pMethods};
    self->methods.iVersion = 2; /* no file is mapped: we see all writes */
    self->methods.xWrite = x_write;
    self->methods.xTruncate = x_truncate;
    self->methods.xSync = x_sync;
    file->pMethods = &self->methods;
    self->is_log = flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL);
    self->is_db = flags & SQLITE_OPEN_MAIN_DB;
    self->syncs_names = self->is_log && (flags & SQLITE_OPEN_CREATE);
    pthread_mutex_lock(&disk.mutex);
    self->inode = inode_of(name_of(name), self->is_db);
    disk.has_wal = disk.has_wal || (flags & SQLITE_OPEN_WAL);
    moment(NULL);
    pthread_mutex_unlock(&disk.mutex);
    return rc;
}

static int x_delete(sqlite3_vfs *vfs, const char *path, int sync)
{
    const char *name = name_on_disk(path);
    int rc;

    if (!name)
        return disk.real->xDelete(disk.real, path, sync);
    pthread_mutex_lock(&disk.mutex);
    rc = disk.real->xDelete(disk.real, path, sync);
    name_of(name)->now = NULL;
    if (sync)
        sync_names();
    moment(NULL);
    pthread_mutex_unlock(&disk.mutex);
    return rc;
}

/* ---- from outside ------------------------------------------------------- */

void fragile_disk_begin(const struct fragile_options *options)
{
    disk.options = *options;
    random_state = options->seed;
    disk.real = sqlite3_vfs_find(NULL);
    assert(disk.real && disk.real != &disk.vfs);
    disk.vfs = *disk.real;
    disk.vfs.pNext = NULL;
    disk.vfs.zName = "fragile";
    disk.vfs.szOsFile += (int)sizeof(struct fragile_file);
    disk.vfs.xOpen = x_open;
    disk.vfs.xDelete = x_delete;
    /* The database is always names[0]. */
    name_of("ledger.db");
    sqlite3_vfs_register(&disk.vfs, 1);
}

struct fragile_story fragile_disk_story(void)
{
    struct fragile_story story = disk.story;

    disk.story = (struct fragile_story){0};
    return story;
}

void fragile_disk_end(void)
{
    struct inode *inode;

    sqlite3_vfs_unregister(&disk.vfs);
    sqlite3_vfs_register(disk.real, 1);
    while ((inode = disk.inodes)) {
        disk.inodes = inode->next;
        inode_free(inode);
    }
    memset(disk.names, 0, sizeof(disk.names));
    disk.full = disk.broken = disk.has_wal = false;
}

void fragile_disk_fill(void)
{
    disk.full = true;
}

void fragile_disk_break(void)
{
    disk.broken = true;
}
