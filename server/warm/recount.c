/*
 * Counting: what the database has, for the copy and for the keys.
 *
 * Every count that goes to the keys is made by store_new_epoch() and written by
 * who asked for it, all of it in one step. So for one epoch there is one count,
 * written by one instance, and no sale can be in it for one and not for another.
 */
#include "server/warm/warmer.h"

#include "server/log.h"

#define RECOUNT_TRIES 3 /* a key may have an epoch of another time */

enum store_status recount_heard(struct warm *warm, enum store_status status,
                                const struct store_error *error)
{
    bool away = status != STORE_OK && status != STORE_NO_PRODUCT;

    if (away && !warm->database_away)
        log_warn("warm", "error=\"%s\"", error->text);
    else if (!away && warm->database_away)
        log_info("warm", "database=back");
    warm->database_away = away;
    return status;
}

/* ---- the copy ------------------------------------------------------------- */

/* Makes a count known to orders, if they have anything to choose. */
static enum store_status put_in_copy(struct warm *warm, int64_t product_id,
                                     const struct store_cells *cells)
{
    struct copy_product *product;
    bool held;

    if (cells->segments == 1 && !copy_find(&warm->copy, product_id))
        return STORE_OK;
    pthread_mutex_lock(&warm->mutex);
    product = copy_hold(&warm->copy, product_id);
    held = product && copy_count(product, cells);
    if (held)
        atomic_store_explicit(&warm->choosy, true, memory_order_release);
    pthread_mutex_unlock(&warm->mutex);
    return held ? STORE_OK : STORE_IO;
}

static enum store_status read_cells(struct warm *warm, int64_t product_id,
                                    struct store_cells *cells,
                                    struct store_error *error)
{
    enum store_status status =
        store_cells_get(warm->reader, product_id, cells, error);

    return recount_heard(warm, status, error);
}

enum store_status recount_copy(struct warm *warm, int64_t product_id,
                               struct store_cells *cells,
                               struct store_error *error)
{
    enum store_status status = read_cells(warm, product_id, cells, error);

    if (status == STORE_OK)
        status = put_in_copy(warm, product_id, cells);
    return status;
}

/* ---- the keys ------------------------------------------------------------- */

/* Writes a count that is ours. If not, *MET is the epoch that was in the way. */
static bool write_keys(struct warm *warm, int64_t product_id,
                       const struct store_cells *cells, int64_t *met)
{
    struct keys_command command = {.verb = KEYS_LOAD,
                                   .product_id = product_id,
                                   .cells = cells,
                                   .epoch = cells->epoch,
                                   .order = cells->number};

    keys_run(warm->keys, &command, 1);
    if (command.answer == KEYS_STALE)
        *met = command.number;
    return command.answer == KEYS_DONE;
}

enum store_status recount_renew(struct warm *warm, int64_t product_id,
                                struct store_cells *cells, bool *written,
                                struct store_error *error)
{
    enum store_status status = STORE_OK;
    int64_t above = 0, met = 0;

    *written = false;
    for (int i = 0; i < RECOUNT_TRIES && status == STORE_OK && !*written; i++) {
        above = met;
        status =
            store_new_epoch(warm->app->store, product_id, above, cells, error);
        if (recount_heard(warm, status, error) == STORE_OK)
            status = put_in_copy(warm, product_id, cells);
        if (status == STORE_OK)
            *written = write_keys(warm, product_id, cells, &met);
        if (met == above)
            break; /* not for an epoch's sake */
    }
    return status;
}

/* What all of them say, if they are of the epoch of the database. */
static bool read_keys(struct warm *warm, int64_t product_id,
                      struct store_cells *cells)
{
    struct keys_command commands[STORE_SEGMENTS_MAX];
    bool right = true;

    for (size_t i = 0; i < cells->n; i++)
        commands[i] = (struct keys_command){.verb = KEYS_TAKE,
                                            .product_id = product_id,
                                            .segment = (int64_t)i,
                                            .epoch = cells->epoch};
    keys_run(warm->keys, commands, cells->n);
    for (size_t i = 0; i < cells->n; i++) {
        right &= commands[i].answer == KEYS_DONE;
        cells->cells[i].stock = commands[i].number;
        cells->number = commands[i].order;
    }
    return right;
}

/* A count that is in the copy already is not taken over again: we have told the
 * keys things since. If they are wrong, only a new one helps. */
bool recount_adopt(struct warm *warm, int64_t product_id)
{
    const struct copy_product *held = copy_find(&warm->copy, product_id);
    struct store_error error = {""};
    struct store_cells cells;

    if (!warm->in_reach ||
        read_cells(warm, product_id, &cells, &error) != STORE_OK ||
        (held && held->epoch == cells.epoch) ||
        !read_keys(warm, product_id, &cells))
        return false;
    return put_in_copy(warm, product_id, &cells) == STORE_OK;
}
