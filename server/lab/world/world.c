/*
 * See world.h. The database is set back by writing its bytes: no SQL, and no
 * connection needs to be opened anew. SQLite tells that a file has changed by a
 * counter in its first page, so each reset gives it a number that was never there
 * before; and what was known to be sold out ends with the lock file's mark.
 */
#include "server/lab/world/world.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "server/base/redis_proc.h"

enum {
    CHANGES_AT = 24,   /* the change counter in a database's header ... */
    VALID_FOR_AT = 92, /* ... and the one that its size is valid for */
    CHANGES_PER_RESET = 4096, /* more than any schedule has commits */
    SYNC_MS_MAX = 10000,
    ROOM_BYTES_MIN = 256 << 10, /* more than any schedule writes */
};

/* ---- the replica ----------------------------------------------------------
 *
 * Replication is Redis's own, by TCP over loopback, for it knows no other; clients stay
 * on Unix sockets. It is asynchronous, so its lag is made by us: before the replica is
 * cut off it has all, and from then on it gets nothing.
 */

#define ASK(node, wanted, ...) PEEK_ASK((node)->peek, wanted, __VA_ARGS__)

/* A number of what a server says of its replication; -1: it says none. */
static long long offset_of(const struct world_node *node, const char *name)
{
    const char *words[] = {"INFO", "replication"};
    char said[2048];
    const char *at;

    if (!peek_send(node->peek, 2, words, said, sizeof(said)))
        return -1;
    /* A link that is down has an offset from before it went down: no word of what is
     * there now. */
    at = strstr(said, name);
    return at && strstr(said, "master_link_status:down") == NULL
               ? strtoll(at + strlen(name), NULL, 10)
               : -1;
}

/* Not by WAIT, whose limit goes by the clock that stands still. */
static bool has_all(const struct world *world)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    long long written = -1;

    /* The bound is real time: the servers' own clock stands still while they copy. */
    for (int ms = 0; ms < SYNC_MS_MAX; ms++) {
        written = offset_of(&world->nodes[0], "\nmaster_repl_offset:");
        if (written >= 0 && written == offset_of(&world->nodes[WORLD_REPLICA],
                                                 "\nslave_repl_offset:"))
            return true;
        (void)nanosleep(&nap, NULL);
    }
    return false;
}

static bool follow(struct world *world)
{
    /* A link counts as there once all that was written came over: from then on nothing
     * is late by chance. */
    world->replica.is_linked =
        ASK(&world->nodes[WORLD_REPLICA], "OK", "REPLICAOF", "127.0.0.1",
            world->replica.port) &&
        has_all(world);
    return world->replica.is_linked;
}

/* Another process may be faster with the port. */
static bool replica_begin(struct world *world, struct fail *error)
{
    const struct world_node *node = &world->nodes[WORLD_REPLICA];

    return (peek_listen(world->nodes[0].peek, world->replica.port,
                        sizeof(world->replica.port)) &&
            ASK(node, "OK", "CONFIG", "SET", "repl-diskless-load", "swapdb") &&
            follow(world)) ||
           fail_with(error, "the replica cannot follow its primary on port %s",
                     world->replica.port);
}

/* Nobody listens on port 1. */
bool world_cut(struct world *world)
{
    /* The replica must have all that was written so far, or the lag would begin at an
     * unknown command. */
    bool good = has_all(world) && ASK(&world->nodes[WORLD_REPLICA], "OK",
                                      "REPLICAOF", "127.0.0.1", "1");

    world->replica.is_linked = false;
    return good;
}

/* Clients come by the primary's name, and find the replica there. */
bool world_promote(struct world *world)
{
    struct world_node *primary = &world->nodes[0];
    /* The replica answers under the primary's path, because clients have that in
     * their url. */
    struct world_node *replica = &world->nodes[WORLD_REPLICA];
    const char *name = redis_proc_url(primary->redis) + strlen("unix:");
    /* A replica that is linked must not lose by chance what was still on its way: the
     * lag is a move (R). */
    bool good = (!world->replica.is_linked || has_all(world)) &&
                ASK(replica, "OK", "REPLICAOF", "NO", "ONE");

    redis_proc_kill(primary->redis);
    /* The peek goes along with the name: nodes[0] is whoever answers there. */
    peek_close(primary->peek);
    primary->peek = replica->peek;
    replica->peek = NULL;
    world->replica.is_linked = false;
    world->replica.is_promoted = true;
    return good &&
           rename(redis_proc_url(replica->redis) + strlen("unix:"), name) == 0;
}

/* ---- the servers ----------------------------------------------------------- */

/* A server that has been up for a day when a schedule begins may vote in redlock. */
#define AGED_US (WORLD_BEGINS_US - UINT64_C(86400000000))

static const unsigned char preload[] = {
#include "server/lab/world/clock_preload.inc"
};

unsigned world_nodes_for(const char *lock)
{
    if (strcmp(lock, "redlock") == 0)
        return 3;
    return strcmp(lock, "multi") == 0 ? 2 : 1;
}

/* Starts the server, or another one in its place: beside a file that stands for it, and by
 * the clock as it is at NOW_US. The clock is preloaded from memory, because there may be
 * no folder for it. */
static bool start_at(struct world *world, unsigned index, uint64_t now_us,
                     struct fail *error)
{
    struct world_node *node = &world->nodes[index];
    /* The clock is put back below, once the server is up: a server tells its age by the
     * clock of its start. */
    uint64_t then_us = atomic_load(&world->board->now_us);
    int fd = memfd_create("clock", MFD_CLOEXEC);
    char path[96], text[64];

    (void)snprintf(path, sizeof(path), "%s/node%u", world->folder.path,
                   index + 1);
    if (fd < 0 ||
        write(fd, preload, sizeof(preload)) != (ssize_t)sizeof(preload) ||
        !file_write(path, "", 0)) {
        (void)fail_with(error, "no memory for a server: %s", strerror(errno));
        goto err;
    }
    atomic_store(&world->board->now_us, now_us);
    /* The descriptor is closed on exec: the path leads through this process, which
     * waits until the server has begun. */
    (void)snprintf(text, sizeof(text), "/proc/%ld/fd/%d", (long)getpid(), fd);
    (void)setenv("LD_PRELOAD", text, 1);
    (void)snprintf(text, sizeof(text), "/proc/%ld/fd/%d", (long)getpid(),
                   world->board_fd);
    (void)setenv("STOCKADE_STAGE_CLOCK", text, 1);
    (void)snprintf(text, sizeof(text), "%u", index);
    (void)setenv("STOCKADE_STAGE_NODE", text, 1);
    /* A second start is the first one's process, ended and begun anew, with the
     * same path. */
    if (!node->redis)
        node->redis = redis_proc_start(path, error->text, sizeof(error->text));
    else if (!redis_proc_tend(node->redis, error->text, sizeof(error->text)))
        goto err_after_start;
    if (node->redis)
        node->peek = peek_open(redis_proc_url(node->redis), error);
    /* jemalloc's own thread waits until a time of the wall clock, which stands still
     * here: it never sleeps, and takes half of a core. A build without jemalloc says
     * that it has no such setting. */
    if (node->peek)
        (void)PEEK_ASK(node->peek, "OK", "CONFIG", "SET", "jemalloc-bg-thread",
                       "no");
err_after_start:
    /* The environment is this process's own: actors must not inherit the clock. */
    (void)unsetenv("LD_PRELOAD");
    (void)unsetenv("STOCKADE_STAGE_CLOCK");
    (void)unsetenv("STOCKADE_STAGE_NODE");
    atomic_store(&world->board->now_us, then_us);
err:
    if (fd >= 0)
        (void)close(fd);
    return node->peek;
}

static bool open_nodes(struct world *world, const struct stage_scene *scene,
                       struct fail *error)
{
    unsigned n = world_nodes_for(scene->lock);
    size_t used = 0;

    /* The count is of servers that are there: world_close() and all looks go by it. */
    for (; world->nodes_n < n; world->nodes_n++)
        if (!start_at(world, world->nodes_n, AGED_US, error))
            return false;
    /* The replica is no node: locks do not know of it. */
    world->replica.is_there = scene->replica;
    if (scene->replica && (!start_at(world, WORLD_REPLICA, AGED_US, error) ||
                           !replica_begin(world, error)))
        return false;
    for (unsigned i = 0; i < n; i++)
        used += (size_t)snprintf(
            world->lock_url + used, sizeof(world->lock_url) - used, "%s%s",
            i > 0 ? "," : "", redis_proc_url(world->nodes[i].redis));
    if (strcmp(scene->lock, "mkdir") == 0)
        (void)snprintf(world->lock_url, sizeof(world->lock_url), "dir:%s",
                       world->locks_dir);
    return true;
}

static bool restart_at(struct world *world, unsigned index, uint64_t now_us,
                       struct fail *error)
{
    struct world_node *node = &world->nodes[index];

    /* The peek must be closed before its server is killed: it would be one that
     * nothing answers. */
    peek_close(node->peek);
    node->peek = NULL;
    redis_proc_kill(node->redis);
    return start_at(world, index, now_us, error);
}

bool world_restart(struct world *world, unsigned node, struct fail *error)
{
    world->restarted_us[node] = atomic_load(&world->board->now_us);
    return restart_at(world, node, world->restarted_us[node], error);
}

bool world_flush(struct world *world)
{
    /* Each server is flushed, even if another does not answer. */
    bool good = true;

    for (unsigned i = 0; i < world->nodes_n; i++)
        good = PEEK_ASK(world->nodes[i].peek, "OK", "FLUSHALL", "SYNC") && good;
    return good;
}

/* ---- the directories of mkdir ---------------------------------------------- */

/* As a key: "lock%3A%7B1%3A0%7D" is lock:{1:0}. */
static void tell_lock(FILE *text, const char *name)
{
    unsigned byte;

    fputs(ftell(text) > 0 ? "\n" : "", text);
    for (; *name; name++)
        if (*name == '%' && sscanf(name + 1, "%2x", &byte) == 1) {
            fputc((int)byte, text);
            name += 2;
        } else {
            fputc(*name, text);
        }
    fputs("\tdirectory\t-1\tis there", text);
}

/* Tells TEXT of all of them, or removes them if it is NULL. */
static void each_lock(const struct world *world, FILE *text)
{
    DIR *dir = opendir(world->locks_dir);
    const struct dirent *each;

    while (dir && (each = readdir(dir)) != NULL)
        /* Names of locks are quoted, and none begins with a dot. */
        if (each->d_name[0] != '.' && text)
            tell_lock(text, each->d_name);
        else if (each->d_name[0] != '.')
            (void)unlinkat(dirfd(dir), each->d_name, AT_REMOVEDIR);
    if (dir)
        (void)closedir(dir);
}

static bool reset_nodes(struct world *world, struct fail *error)
{
    each_lock(world, NULL);
    /* A server that was restarted has the wrong age: flushing alone would not put
     * it back. */
    for (unsigned i = 0; i < world->nodes_n; i++) {
        atomic_store(&world->board->ahead_us[i], 0);
        if (world->restarted_us[i] != 0 &&
            !restart_at(world, i, AGED_US, error))
            return false;
        world->restarted_us[i] = 0;
    }
    /* Both processes begin anew, because each is in the other's place, under the
     * other's path. */
    if (world->replica.is_promoted) {
        world->replica.is_promoted = false;
        return restart_at(world, 0, AGED_US, error) &&
               restart_at(world, WORLD_REPLICA, AGED_US, error) &&
               replica_begin(world, error);
    }
    /* The replica of a cut link is behind by what it was not sent: it must follow, and
     * get all. */
    return (world_flush(world) &&
            (!world->replica.is_there || world->replica.is_linked ||
             follow(world))) ||
           fail_with(error, "redis-server has died");
}

/* ---- opening ------------------------------------------------------------ */

/* The store makes it, as the service does; what it made is the start. */
static bool make_database(struct world *world, const struct stage_scene *scene,
                          struct fail *error)
{
    struct store_options options = {.url = world->db_url, .shared = true};
    struct store_product product = {.name = "Stage",
                                    .price_cents = WORLD_PRICE_CENTS,
                                    .initial = scene->stock,
                                    .limit_per_user = scene->limit,
                                    .pay_within_s = scene->pay_within_s,
                                    .segments =
                                        scene->segments ? scene->segments : 1};
    int64_t products = scene->products ? scene->products : 1;
    struct store_error store_error = {""};
    struct store *store;
    enum store_status status;

    status = store_open(&options, &store, &store_error);
    if (status == STORE_OK) {
        for (int64_t i = 1; i <= products && status == STORE_OK; i++) {
            struct store_product each = product;

            each.id = i;
            status = store_product_put(store, &each, NULL, &store_error);
        }
        store_close(store);
    }
    /* The store is closed: all is in the file, and no journal is beside it. */
    if (status == STORE_OK &&
        !(world->image = file_read(world->db_path, &world->image_len)))
        return fail_with(error, "cannot read the database: %s",
                         strerror(errno));
    if (status == STORE_OK)
        status =
            store_reader_open_url(world->db_url, &world->reader, &store_error);
    return status == STORE_OK ||
           fail_with(error, "no database in %s: %s", world->folder.path,
                     store_error.text[0] ? store_error.text
                                         : store_status_text(status));
}

bool world_open(struct world *world, const struct stage_scene *scene,
                struct fail *error)
{
    /* The path is a part of *world: it is there to point to before the folder is. */
    const char *dir = world->folder.path;
    void *board = MAP_FAILED;

    *world = (struct world){.board_fd = memfd_create("stage", MFD_CLOEXEC),
                            .has_disk = disk_is_needed(scene)};
    if (world->board_fd >= 0 &&
        ftruncate(world->board_fd, sizeof(struct board)) == 0)
        board = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE,
                     MAP_SHARED, world->board_fd, 0);
    if (board == MAP_FAILED)
        return fail_with(error, "no memory for the stage: %s", strerror(errno));
    world->board = board;
    /* The board is one page of clocks and the pages of all actors: zeroed, as memory of
     * a new file is. */
    atomic_store(&world->board->now_us, WORLD_BEGINS_US);
    if (!folder_open(&world->folder, FOLDER_IN_MEMORY, "stage", error))
        return false;
    (void)snprintf(world->db_path, sizeof(world->db_path), "%s/db", dir);
    (void)snprintf(world->locks_dir, sizeof(world->locks_dir), "%s/locks", dir);
    (void)snprintf(world->db_url, sizeof(world->db_url), "sqlite:%s",
                   world->db_path);
    return make_database(world, scene, error) &&
           open_nodes(world, scene, error);
}

void world_close(struct world *world)
{
    store_reader_close(world->reader);
    /* Nodes that were never started have neither: both calls know NULL. */
    for (unsigned i = 0; i < STAGE_NODES_MAX; i++) {
        peek_close(world->nodes[i].peek);
        redis_proc_stop(world->nodes[i].redis);
    }
    /* The folder must be the last to go: servers have their sockets in it. */
    folder_close(&world->folder);
    free(world->image);
    if (world->board)
        (void)munmap(world->board, sizeof(*world->board));
    if (world->board_fd >= 0)
        (void)close(world->board_fd);
}

/* ---- back to the start -------------------------------------------------- */

/* A full disk would be told as a fault of what is played. One without blocks has no end. */
static bool has_room(const struct world *world)
{
    struct statvfs disk;

    return statvfs(world->folder.path, &disk) == 0 &&
           (disk.f_blocks == 0 ||
            disk.f_bavail * disk.f_frsize >= ROOM_BYTES_MIN);
}

bool world_reset(struct world *world, struct fail *error)
{
    char path[96];
    uint64_t mark;
    uint32_t changes;

    if (!has_room(world))
        return fail_with(error, "no room on the disk of %s",
                         world->folder.path);

    /* The count rises for as long as the world is open: by a number that was there before
     * SQLite would go on with the pages that it has in memory. */
    mark = ++world->resets;
    world->board->resets = world->resets;
    changes = htobe32(world->resets * CHANGES_PER_RESET);
    memcpy(world->image + CHANGES_AT, &changes, sizeof(changes));
    memcpy(world->image + VALID_FOR_AT, &changes, sizeof(changes));
    /* The bytes are written over while actors have the file open: between two schedules
     * nobody holds a lock on it. */
    if (!file_write(world->db_path, world->image, world->image_len))
        return fail_with(error, "cannot set the database back: %s",
                         strerror(errno));
    if (world->has_disk &&
        !disk_put(world->db_path, world->image, world->image_len))
        return fail_with(error, "cannot set the disk back: %s",
                         strerror(errno));
    /* A journal left by an actor that died belongs to the last schedule: it would be
     * rolled back into this one. */
    (void)snprintf(path, sizeof(path), "%s-journal", world->db_path);
    (void)truncate(path, 0); /* there may be none yet */
    /* The mark must differ each time: the store forgets by it what was sold out. */
    (void)snprintf(path, sizeof(path), "%s.lock", world->db_path);
    if (!file_write(path, &mark, sizeof(mark)))
        return fail_with(error, "cannot set the lock file back: %s",
                         strerror(errno));
    atomic_store(&world->board->now_us, WORLD_BEGINS_US);
    return reset_nodes(world, error);
}

/* ---- what there is --------------------------------------------------------- */

bool world_look(const struct world *world, struct world_look *look,
                struct fail *error)
{
    size_t used = 0, size = sizeof(look->listeners);
    struct world_look one;
    char *line, *rest;
    bool good = true;
    FILE *all;

    /* One server without directories is the usual case: its words come as they are. */
    if (world->nodes_n == 1 && strncmp(world->lock_url, "dir:", 4) != 0)
        return peek_look(world->nodes[0].peek, look->keys, sizeof(look->keys),
                         look->listeners, size, error);
    look->keys[0] = look->listeners[0] = '\0';
    /* A full stream in memory leaves out the 0 behind its text. */
    look->keys[sizeof(look->keys) - 1] = '\0';
    all = fmemopen(look->keys, sizeof(look->keys) - 1, "w");
    if (!all)
        return fail_with(error, "no memory for a look");
    each_lock(world, all);
    for (unsigned i = 0; i < world->nodes_n && world->nodes_n > 1; i++) {
        good =
            good && peek_look(world->nodes[i].peek, one.keys, sizeof(one.keys),
                              one.listeners, sizeof(one.listeners), error);
        /* A line begins with its server: the same key on two of them is two facts. */
        for (line = strtok_r(one.keys, "\n", &rest); line;
             line = strtok_r(NULL, "\n", &rest))
            fprintf(all, "%s%u/%s", ftell(all) > 0 ? "\n" : "", i + 1, line);
        if (used < size)
            used += (size_t)snprintf(look->listeners + used, size - used, "%s",
                                     one.listeners);
    }
    /* A stream in memory says at its end that it was too small. */
    return (fclose(all) == 0 && used < size) ? good
                                             : fail_with(error, PEEK_TOO_MUCH);
}

/*
 * The server takes up a new connection in one round of its loop, reads from it in
 * the next, and has written what came of it when it has read from us in the one
 * after that.
 */
void world_wait_for_servers(const struct world *world)
{
    for (unsigned i = 0; i < world->nodes_n; i++)
        for (int round = 0; round < 2 && world->nodes[i].peek; round++)
            (void)PEEK_ASK(world->nodes[i].peek, "PONG", "PING");
}
