/*
 * Counting: what the database has, for the copy and for the keys.
 *
 * Every count that goes to the keys is made by store_new_epoch() and written by
 * who asked for it. So for one epoch there is one count, written by one
 * instance, and no sale can be in it for one and not for another.
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

static size_t commands_of(int64_t product_id, const struct store_cells *cells,
                          enum keys_verb verb, size_t cleared,
                          struct keys_command commands[STORE_SEGMENTS_MAX])
{
    for (size_t i = 0; i < cells->n; i++)
        commands[i] = (struct keys_command){
            .verb = verb,
            .product_id = product_id,
            .segment = cells->cells[i].segment,
            .epoch = cells->epoch,
            .units = verb == KEYS_LOAD ? cells->cells[i].stock : 0,
            .order = cells->number,
            .segments = (int64_t)cells->n,
            .cleared = (int64_t)cleared,
        };
    return cells->n;
}

/* All done? If not, *above is raised to the highest epoch that was met. */
static bool all_done(const struct keys_command commands[], size_t n,
                     int64_t *above)
{
    bool done = true;

    for (size_t i = 0; i < n; i++) {
        done &= commands[i].answer == KEYS_DONE;
        if (commands[i].answer == KEYS_STALE && commands[i].number > *above)
            *above = commands[i].number;
    }
    return done;
}

/* How many segments there were before, as any of their keys knows. */
static size_t segments_before(struct warm *warm, int64_t product_id,
                              const struct store_cells *cells)
{
    struct keys_command commands[STORE_SEGMENTS_MAX];
    size_t n = commands_of(product_id, cells, KEYS_TAKE, 0, commands), most = 0;

    keys_run(warm->keys, commands, n);
    for (size_t i = 0; i < n; i++) {
        bool known =
            commands[i].answer == KEYS_DONE || commands[i].answer == KEYS_STALE;

        if (known && commands[i].segments > (int64_t)most &&
            commands[i].segments <= STORE_SEGMENTS_MAX)
            most = (size_t)commands[i].segments;
    }
    return most;
}

/*
 * Removes the keys of segments that there were BEFORE, and are none any more;
 * and those that we have written ourselves: if that was too late, nobody else
 * knows of them.
 */
static bool remove_keys(struct warm *warm, int64_t product_id,
                        const struct store_cells *cells, size_t before,
                        int64_t *above)
{
    const struct copy_product *held = copy_find(&warm->copy, product_id);
    struct keys_command commands[STORE_SEGMENTS_MAX];
    size_t n = 0;

    if (held && held->keys_n > before)
        before = held->keys_n;
    for (size_t i = cells->n; i < before; i++)
        commands[n++] = (struct keys_command){
            .verb = KEYS_LOAD,
            .product_id = product_id,
            .segment = (int64_t)i,
            .epoch = cells->epoch,
            .segments = (int64_t)cells->n,
            .cleared = (int64_t)before,
        };
    keys_run(warm->keys, commands, n);
    return all_done(commands, n, above);
}

/* No others are there by our doing. Under the mutex, like all changes. */
static void note_keys(struct warm *warm, int64_t product_id, size_t n)
{
    struct copy_product *held;

    pthread_mutex_lock(&warm->mutex);
    held = copy_find(&warm->copy, product_id);
    if (held)
        held->keys_n = n;
    pthread_mutex_unlock(&warm->mutex);
}

/*
 * Writes a count that is ours. The keys of segments that are none any more go
 * first: whoever dies in between leaves keys that know how many there were.
 */
static bool write_keys(struct warm *warm, int64_t product_id,
                       const struct store_cells *cells, int64_t *above)
{
    struct keys_command commands[STORE_SEGMENTS_MAX];
    size_t before = segments_before(warm, product_id, cells);
    size_t n = commands_of(product_id, cells, KEYS_LOAD, before, commands);

    if (!remove_keys(warm, product_id, cells, before, above))
        return false;
    note_keys(warm, product_id, n);
    keys_run(warm->keys, commands, n);
    return all_done(commands, n, above);
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

/* Looks at each of them, at the epoch of the database. */
static bool read_keys(struct warm *warm, int64_t product_id,
                      struct store_cells *cells)
{
    struct keys_command commands[STORE_SEGMENTS_MAX];
    size_t n = commands_of(product_id, cells, KEYS_TAKE, 0, commands);
    int64_t above = 0;

    keys_run(warm->keys, commands, n);
    for (size_t i = 0; i < n; i++) {
        cells->cells[i].stock = commands[i].number;
        cells->number = commands[i].order;
    }
    return all_done(commands, n, &above);
}

/* A count that is in the copy already is not taken over again: we have told the
 * keys things since. If they are wrong, only a new one helps. */
bool recount_adopt(struct warm *warm, int64_t product_id)
{
    const struct copy_product *held = copy_find(&warm->copy, product_id);
    struct store_error error = {""};
    struct store_cells cells;
    int64_t above = 0;

    if (!warm->in_reach ||
        read_cells(warm, product_id, &cells, &error) != STORE_OK ||
        (held && held->epoch == cells.epoch) ||
        !read_keys(warm, product_id, &cells))
        return false;
    /* Strays harm nobody: if not now, the next time. */
    if (remove_keys(warm, product_id, &cells, 0, &above))
        note_keys(warm, product_id, cells.n);
    return put_in_copy(warm, product_id, &cells) == STORE_OK;
}
