/*
 * See world.h. The database is set back by writing its bytes: no SQL, and no
 * connection needs to be opened anew. SQLite tells that a file has changed by a
 * counter in its first page, so each reset gives it a number that was never there
 * before; and what was known to be sold out ends with the lock file's mark.
 */
#include "server/lab/world/world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "server/lab/world/disk.h"

enum {
    CHANGES_AT = 24,         /* the change counter in a database's header ... */
    VALID_FOR_AT = 92,       /* ... and the one that its size is valid for */
    CHANGES_PER_RESET = 4096 /* more than any schedule has commits */
};

static bool fail(char *error, size_t size, const char *what)
{
    (void)snprintf(error, size, "%s: %s", what, strerror(errno));
    return false;
}

/* ---- opening ------------------------------------------------------------ */

static bool make_board(struct world *world, char *error, size_t size)
{
    world->board_fd = memfd_create("stage", MFD_CLOEXEC);
    if (world->board_fd < 0 ||
        ftruncate(world->board_fd, sizeof(struct board)) != 0)
        return fail(error, size, "no memory for the stage");
    world->board = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE,
                        MAP_SHARED, world->board_fd, 0);
    if (world->board == MAP_FAILED) {
        world->board = NULL;
        return fail(error, size, "no memory for the stage");
    }
    atomic_store(&world->board->now_us, WORLD_BEGINS_US);
    return true;
}

static bool make_dir(struct world *world, char *error, size_t size)
{
    const char *dir = world->folder.path;

    if (!folder_open(&world->folder, FOLDER_IN_MEMORY, "stage", error, size))
        return false;
    (void)snprintf(world->db_path, sizeof(world->db_path), "%s/db", dir);
    (void)snprintf(world->locks_dir, sizeof(world->locks_dir), "%s/locks", dir);
    (void)snprintf(world->db_url, sizeof(world->db_url), "sqlite:%s",
                   world->db_path);
    return true;
}

/* The store makes it, as the service does; what it made is the start. */
static bool make_database(struct world *world, const struct stage_scene *scene,
                          char *error, size_t size)
{
    struct store_options options = {.url = world->db_url, .shared = true};
    struct store_product product = {.name = "Stage",
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
    if (status == STORE_OK &&
        !(world->image = disk_read_file(world->db_path, &world->image_len)))
        return fail(error, size, "cannot read the database");
    if (status == STORE_OK)
        status =
            store_reader_open_url(world->db_url, &world->reader, &store_error);
    if (status != STORE_OK)
        (void)snprintf(error, size, "%s", store_error.text);
    return status == STORE_OK;
}

bool world_open(struct world *world, const struct stage_scene *scene,
                char *error, size_t error_size)
{
    *world = (struct world){.board_fd = -1, .has_disk = disk_is_needed(scene)};
    return make_board(world, error, error_size) &&
           make_dir(world, error, error_size) &&
           make_database(world, scene, error, error_size) &&
           world_open_nodes(world, scene, error, error_size);
}

void world_close(struct world *world)
{
    store_reader_close(world->reader);
    world_close_nodes(world);
    folder_close(&world->folder);
    free(world->image);
    if (world->board)
        (void)munmap(world->board, sizeof(*world->board));
    if (world->board_fd >= 0)
        (void)close(world->board_fd);
}

/* ---- back to the start -------------------------------------------------- */

static void put_number(unsigned char *at, uint32_t number)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(number >> (24 - 8 * i));
}

bool world_reset(struct world *world, char *error, size_t error_size)
{
    char path[96];
    uint64_t mark;

    mark = ++world->resets;
    world->board->resets = world->resets;
    put_number(world->image + CHANGES_AT, world->resets * CHANGES_PER_RESET);
    put_number(world->image + VALID_FOR_AT, world->resets * CHANGES_PER_RESET);
    if (!disk_write_file(world->db_path, world->image, world->image_len))
        return fail(error, error_size, "cannot set the database back");
    if (world->has_disk &&
        !disk_put(world->db_path, world->image, world->image_len))
        return fail(error, error_size, "cannot set the disk back");
    (void)snprintf(path, sizeof(path), "%s-journal", world->db_path);
    (void)truncate(path, 0); /* there may be none yet */
    (void)snprintf(path, sizeof(path), "%s.lock", world->db_path);
    if (!disk_write_file(path, &mark, sizeof(mark)))
        return fail(error, error_size, "cannot set the lock file back");
    atomic_store(&world->board->now_us, WORLD_BEGINS_US);
    return world_reset_nodes(world, error, error_size);
}
