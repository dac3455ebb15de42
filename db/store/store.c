/*
 * Opening and closing the store. See store.h for what it is.
 *
 * The order matters: first the database's true name; then, of SQLite, the lock file,
 * which says whether we may open it at all and keeps others
 * from setting it up at the same time; then the connection, which also chooses
 * SQLite's journal; then the schema and the committer's thread; and only when all
 * this is done the next process may set it up.
 */
#include "db/store/committer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define STORE_BUSY_MS 2000

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

enum store_status store_check(const char *url, struct store_error *error)
{
    const struct sql_engine *engine = sql_engine_of(url, error);
    char where[SQL_WHERE_BYTES] = "";
    struct sql_options options = {
        .engine = engine, .where = where, .any_schema = true};
    enum store_status status = STORE_MISUSE;
    struct sql *db = NULL;

    if (engine)
        status = engine->find(url, SQL_CHECK, where, error);
    /* A database that is not there yet has no name, and no fault. */
    if (status != STORE_OK || !where[0])
        return status;
    status = sql_open(&options, &db, error);
    sql_close(db);
    /* A busy database is in use, and so is fit. */
    return status == STORE_BUSY ? STORE_OK : status;
}

/* ---- the store ---------------------------------------------------------- */

static void free_store(struct store *store)
{
    /* The connection closes before the lock file, because SQLite may write
     * while it closes, and must be alone until then. */
    sql_close(store->db);
    lockfile_drop(store->lockfile);
    place_forget(&store->place);
    filter_release(&store->place.keys.filter);
    free(store);
}

/* Work that takes long with millions of orders: new tables for them, and reading their
 * keys and users. */
static enum store_status get_ready(struct store *store,
                                   void (*on_note)(const char *text))
{
    struct sql *db = store->db;
    int64_t version = 0, lasts = 1;
    char text[200];

    /* Version 0 is a new database, whose tables take no time. */
    if (on_note && schema_inspect(db, &version) == STORE_OK && version > 0 &&
        version < db->engine->versions) {
        (void)snprintf(text, sizeof(text),
                       "brings the tables from version %" PRId64 " to %" PRId64
                       ": with ten million orders that may take minutes",
                       version, db->engine->versions);
        on_note(text);
    }
    /* A cluster's other nodes have what one of them has lost. */
    if (on_note && db->engine->words.lasts && !db->cluster &&
        sql_first(sql_query(db, db->engine->words.lasts), &lasts) == STORE_OK &&
        !lasts)
        on_note("the database server may lose confirmed orders if it loses "
                "power: see --db in stockade.conf(5)");
    /* The filter is read now, without a transaction: the first batch would read
     * it while nobody else can write. */
    if (schema_bring_up(db) == STORE_OK && !db->engine->far)
        filter_read(&store->place.keys.filter, db);
    return db->status;
}

enum store_status store_open(const struct store_options *options,
                             struct store **store, struct store_error *error)
{
    const struct sql_engine *engine = sql_engine_of(options->url, error);
    struct store *opened = engine ? calloc(1, sizeof(*opened)) : NULL;
    enum store_status status;

    /* Without an engine the text has been written already. */
    if (!opened)
        return engine ? failure_set(error, STORE_IO, "out of memory")
                      : STORE_MISUSE;
    opened->options = *options;
    opened->step = (struct step){options->on_step, options->on_step_ctx};
    opened->writer = (struct sql_options){
        .engine = engine,
        .where = opened->where,
        .writes = true,
        .shared = options->shared || engine->far,
        .filter = &opened->place.keys.filter,
        .busy_ms = options->busy_ms ? options->busy_ms : STORE_BUSY_MS,
        .hurry = &opened->hurry,
        .on_wait = committer_on_wait,
        .on_wait_ctx = opened,
    };
    opened->place.step = opened->step;
    opened->place.soldout = &opened->soldout;
    opened->look_every_us = opened->writer.shared && options->look_ms
                                ? options->look_ms * UINT64_C(1000)
                                : UINT64_MAX;
    status = engine->find(options->url, SQL_CREATE, opened->where, error);
    if (status == STORE_OK && !engine->far)
        status =
            lockfile_take(opened->where, opened->writer.shared,
                          opened->writer.busy_ms, &opened->lockfile, error);
    if (status != STORE_OK)
        goto err;
    /* The generation is found through the lock file: so it is set up once that
     * is there. */
    opened->soldout.shared = opened->writer.shared;
    opened->soldout.file = opened->lockfile;
    /* 0 is the generation of a note that nobody has written. */
    atomic_init(&opened->soldout.generation, 1);
    status = sql_open(&opened->writer, &opened->db, error);
    if (status != STORE_OK)
        goto err;
    status = get_ready(opened, options->on_note);
    if (status != STORE_OK)
        failure_text(error, "%s", sql_error(opened->db)->text);
    else
        status = committer_open(opened, error);
    if (status != STORE_OK)
        goto err;
    /* The next process may set up only now, when the journal and the schema are
     * as they stay. */
    lockfile_settled(opened->lockfile);
    *store = opened;
    return STORE_OK;

err:
    free_store(opened);
    return status;
}

void store_end_waits(struct store *store)
{
    atomic_store(&store->hurry, true);
}

uint64_t store_retries(const struct store *store)
{
    return atomic_load(&store->retries);
}

uint64_t store_expired(const struct store *store)
{
    return atomic_load(&store->expired);
}

bool store_announce(struct store *store, uint64_t id)
{
    return lockfile_announce(store->lockfile, id);
}

bool store_is_gone(const struct store *store, uint64_t id)
{
    return lockfile_is_gone(store->lockfile, id);
}

void store_close(struct store *store)
{
    if (!store)
        return;
    /* The thread ends before what it uses is freed: it still answers what was
     * handed in. */
    committer_close(store);
    free_store(store);
}

/* ---- readers ------------------------------------------------------------ */

static enum store_status open_reader(const struct sql_options *options,
                                     struct store_reader **reader,
                                     struct store_error *error)
{
    struct store_reader *opened = calloc(1, sizeof(*opened));
    enum store_status status;

    if (!opened)
        return failure_set(error, STORE_IO, "out of memory");
    status = sql_open(options, &opened->db, error);
    if (status == STORE_OK)
        *reader = opened;
    else
        store_reader_close(opened);
    return status;
}

enum store_status store_reader_open(struct store *store,
                                    struct store_reader **reader,
                                    struct store_error *error)
{
    const struct sql_options options = {
        .engine = store->writer.engine,
        .where = store->where,
        .shared = store->writer.shared,
        .filter = store->writer.filter,
        .busy_ms = store->writer.busy_ms,
        .hurry = &store->hurry,
    };
    /* The filter and `hurry` are the store's, and only lent: each reader must
     * be closed before it. */
    enum store_status status = open_reader(&options, reader, error);

    if (status == STORE_OK)
        (*reader)->step = store->step;
    return status;
}

enum store_status store_reader_open_url(const char *url,
                                        struct store_reader **reader,
                                        struct store_error *error)
{
    const struct sql_engine *engine = sql_engine_of(url, error);
    char where[SQL_WHERE_BYTES];
    const struct sql_options options = {
        .engine = engine, .where = where, .busy_ms = STORE_BUSY_MS};
    enum store_status status =
        engine ? engine->find(url, SQL_LOOK, where, error) : STORE_MISUSE;

    return status == STORE_OK ? open_reader(&options, reader, error) : status;
}

void store_reader_close(struct store_reader *reader)
{
    if (!reader)
        return;
    sql_close(reader->db);
    free(reader);
}
