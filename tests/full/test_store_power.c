/*
 * The power goes, and what was told to anybody is true all the same: every
 * order and every cancel that was acknowledged is there, no stock is higher
 * than somebody has read, the ledger is sound. Hundreds of times, at random
 * moments of a store's life: while it is set up, sells, checkpoints, begins its
 * WAL anew, has room made behind it, finds the disk full, closes, opens again.
 *
 * And on disks that lie about what is on them the same test has to fail.
 */
#include "tests/support/store_rig.h"

#include "tests/support/fragile_disk.h"
#include "tests/support/store_wait.h"

#include <stdatomic.h>

#define LIVES      6 /* of a disk, each with a seed of its own */
#define LIE_LIVES  8 /* that a lie may last until it is found out */
#define OPENINGS   3 /* of the store in one life, each with its TROUBLE */
#define BUYERS     4
#define ROUNDS     60 /* of each buyer, between opening and closing */
#define BATCH      3
#define EVERY      20  /* rounds of the first buyer there is trouble */
#define CUT_ONE_IN 200 /* moments */
#define TOLD_MAX   ((size_t)2 * OPENINGS * BUYERS * ROUNDS * BATCH)
#define STOCK      1000000

/* With a disk that is full or broken from time to time the WAL begins anew; in
 * twice the ROUNDS without it gets long. */
static void (*const TROUBLE[OPENINGS])(void) = {fragile_disk_fill, NULL,
                                                fragile_disk_break};

/* What was told to somebody; AT_CUT: as of when the power went. */
struct list {
    char *at[TOLD_MAX];
    size_t n, at_cut;
};

/* Ids; and keys of what was not written. */
enum { ORDERS, CANCELS, DENIED, LISTS };

struct told {
    struct list lists[LISTS];
    atomic_size_t unknown_n;
    int64_t stock; /* of product 2, of which nothing is cancelled */
};

struct life {
    struct temp_dir dir;
    struct store *store;
    bool shared;
    unsigned seed;
    int opening, wrong;
    char what[300];        /* was wrong first */
    pthread_mutex_t mutex; /* guards what follows */
    struct told told;
    int64_t told_stock; /* when the power went */
};

struct buyer {
    struct life *life;
    int number;
    pthread_t thread;
};

/* ---- after a power loss: on any thread ---------------------------------- */

static void is_wrong(struct life *life, const char *what, int64_t number)
{
    if (life->wrong++ == 0)
        snprintf(life->what, sizeof(life->what),
                 "seed %u shared %d, opening %d, %zu orders told: %s %lld",
                 life->seed, life->shared, life->opening,
                 life->told.lists[ORDERS].at_cut, what, (long long)number);
}

static void check_file(struct life *life, const char *path)
{
    int64_t stock;
    sqlite3 *db;

    sqlite3_open(path, &db);
    if (store_rig_number(db, "SELECT integrity_check = 'ok' "
                             "FROM pragma_integrity_check") != 1)
        is_wrong(life, "integrity_check", 0);
    stock =
        store_rig_number(db, "SELECT stock FROM segments WHERE product_id = 2");
    if (life->told_stock < STOCK && (stock < 0 || stock > life->told_stock))
        is_wrong(life, "stock that was read is higher now by",
                 stock - life->told_stock);
    sqlite3_close(db);
}

/* A cancel is there; and "nothing was written" is as good as a promise. */
static void check_told(struct life *life, struct store_reader *reader)
{
    const struct list *cancels = &life->told.lists[CANCELS];
    const struct list *denied = &life->told.lists[DENIED];
    struct store_order order;

    for (size_t i = 0; i < cancels->at_cut; i++)
        if (store_order_get(reader, cancels->at[i], &order, NULL) != STORE_OK ||
            order.state != STORE_CANCELLED)
            is_wrong(life, "lost a cancel, number", (int64_t)i);
    for (size_t i = 0; i < denied->at_cut; i++)
        if (store_order_by_key(reader, denied->at[i], &order, NULL) !=
            STORE_NO_ORDER)
            is_wrong(life, "found what was not written, number", (int64_t)i);
}

static void check_ledger(struct life *life, const char *path)
{
    struct store_reader *reader;
    struct store_audit audit;

    if (store_reader_open_url(text_of("sqlite:%s", path), &reader, NULL) !=
        STORE_OK) {
        if (life->told.lists[ORDERS].at_cut > 0)
            is_wrong(life, "no ledger", 0);
        return;
    }
    if (store_audit(reader, NULL, NULL,
                    (const char *const *)life->told.lists[ORDERS].at,
                    life->told.lists[ORDERS].at_cut, &audit, NULL) != STORE_OK)
        is_wrong(life, "no audit", 0);
    else if (audit.lost > 0)
        is_wrong(life, "lost orders:", audit.lost);
    else if (!audit.balanced)
        is_wrong(life, "not balanced, orders:", audit.orders);
    check_told(life, reader);
    store_reader_close(reader);
}

static void on_cut(void *ctx, const char *image)
{
    struct life *life = ctx;
    const char *path = text_of("%s/ledger.db", image ? image : "");

    if (!image) {
        pthread_mutex_lock(&life->mutex);
        for (int i = 0; i < LISTS; i++)
            life->told.lists[i].at_cut = life->told.lists[i].n;
        life->told_stock = life->told.stock;
        pthread_mutex_unlock(&life->mutex);
        return;
    }
    check_file(life, path);
    check_ledger(life, path);
}

/* ---- before ------------------------------------------------------------- */

static void tell(struct life *life, const char *id, int which)
{
    struct list *list = &life->told.lists[which];

    pthread_mutex_lock(&life->mutex);
    assert_true(list->n < TOLD_MAX);
    list->at[list->n++] = strdup(id);
    pthread_mutex_unlock(&life->mutex);
}

/* A stock that was read counts as told. */
static void look(struct life *life, struct store_reader *reader)
{
    struct store_product product;

    if (store_product_get(reader, 2, &product, NULL) != STORE_OK)
        return;
    pthread_mutex_lock(&life->mutex);
    if (product.stock < life->told.stock)
        life->told.stock = product.stock;
    pthread_mutex_unlock(&life->mutex);
}

/* One batch; some of it is cancelled again. */
static void buy(struct buyer *buyer, int round)
{
    struct store_order asked[BATCH], *orders[BATCH], cancelled;
    struct life *life = buyer->life;
    enum store_status status;

    for (int i = 0; i < BATCH; i++) {
        asked[i] = store_rig_ask(1 + (round + i) % 2,
                                 buyer->number * 1000 + round, 1 + i, "");
        orders[i] = &asked[i];
        if (round % 2)
            snprintf(asked[i].key, sizeof(asked[i].key), "%d-%d-%d-%d",
                     life->opening, buyer->number, round, i);
    }
    status = store_place(life->store, orders, BATCH, NULL, NULL);
    if (status == STORE_UNKNOWN)
        life->told.unknown_n++;
    for (int i = 0; i < BATCH; i++)
        if (status != STORE_OK && status != STORE_UNKNOWN && asked[i].key[0])
            tell(life, asked[i].key, DENIED);
    if (status != STORE_OK)
        return;
    for (int i = 0; i < BATCH; i++)
        if (asked[i].status == STORE_OK)
            tell(life, asked[i].id, ORDERS);
    /* Of product 1. */
    if (round % 5 == 0 && asked[round % 2].status == STORE_OK &&
        store_cancel(life->store, asked[round % 2].id, &cancelled, NULL) ==
            STORE_OK)
        tell(life, cancelled.id, CANCELS);
}

/* Only every second life has readers: the last connection to be closed, as
 * after an I/O error, is another matter for SQLite. */
static void *buyer_main(void *arg)
{
    struct buyer *buyer = arg;
    struct life *life = buyer->life;
    void (*trouble)(void) = buyer->number == 0 ? TROUBLE[life->opening] : NULL;
    int rounds = TROUBLE[life->opening] ? ROUNDS : 2 * ROUNDS;
    struct store_reader *reader = NULL;

    if (buyer->number == 1 && life->seed % 2 == 0)
        (void)store_reader_open(life->store, &reader, NULL);
    for (int round = 0; round < rounds; round++) {
        if (trouble && round % EVERY == EVERY / 2)
            trouble();
        buy(buyer, round);
        if (reader)
            look(life, reader);
    }
    store_reader_close(reader);
    return NULL;
}

static bool open_store(struct life *life)
{
    const struct store_options options = {life->dir.url,
                                          .shared = life->shared};
    struct store_product product = {.initial = STOCK, .name = "Thing"};

    if (store_open(&options, &life->store, NULL) != STORE_OK)
        return false;
    for (product.id = 1; product.id <= 2; product.id++)
        (void)store_product_put(life->store, &product, NULL, NULL);
    return true;
}

static struct life *live(unsigned seed, bool shared, enum fragile_lie lie)
{
    struct life *life = calloc(1, sizeof(*life));
    struct fragile_options options = {.dir = life->dir.path,
                                      .seed = seed,
                                      .lie = lie,
                                      .cut_one_in =
                                          shared ? CUT_ONE_IN * 8 : CUT_ONE_IN,
                                      .on_cut = on_cut,
                                      .ctx = life};
    struct buyer buyers[BUYERS];

    temp_dir_make(&life->dir);
    life->seed = seed;
    life->shared = shared;
    life->told.stock = STOCK;
    pthread_mutex_init(&life->mutex, NULL);
    fragile_disk_begin(&options);
    for (; life->opening < OPENINGS && open_store(life); life->opening++) {
        for (int i = 0; i < BUYERS; i++) {
            buyers[i] = (struct buyer){.life = life, .number = i};
            pthread_create(&buyers[i].thread, NULL, buyer_main, &buyers[i]);
        }
        for (int i = 0; i < BUYERS; i++)
            pthread_join(buyers[i].thread, NULL);
        store_close(life->store);
    }
    fragile_disk_end();
    temp_dir_remove(&life->dir);
    return life;
}

static void end(struct life *life)
{
    for (int i = 0; i < LISTS; i++)
        for (size_t j = 0; j < life->told.lists[i].n; j++)
            free(life->told.lists[i].at[j]);
    pthread_mutex_destroy(&life->mutex);
    free(life);
}

static struct fragile_story survive(bool shared)
{
    struct fragile_story sum;
    size_t denied = 0, unknown = 0;

    for (unsigned seed = 1; seed <= LIVES; seed++) {
        struct life *life = live(seed, shared, FRAGILE_TRUE);

        if (life->wrong > 0)
            fail_msg("%s", life->what);
        if (life->opening < OPENINGS || life->told.lists[CANCELS].n == 0)
            fail_msg("seed %u: nothing was sold", seed);
        denied += life->told.lists[DENIED].n;
        unknown += life->told.unknown_n;
        end(life);
    }
    sum = fragile_disk_story();
    print_message("# %d power losses, %d pages written back, %d begins, %d "
                  "pieces of room, %d full, %d broken; %zu orders denied, %zu "
                  "batches unknown\n",
                  sum.cuts, sum.db_writes, sum.begins, sum.wide, sum.full,
                  sum.broken, denied, unknown);
    assert_true(denied > 0 && unknown > 0);
    assert_true(sum.cuts >= 100 && sum.full > 0 && sum.broken > 0);
    return sum;
}

UNIT_TEST(test_what_was_told_survives)
{
    struct fragile_story story = survive(false);

    assert_true(story.db_writes > 0 && story.wide > 0);
    assert_true(story.begins > LIVES * OPENINGS);
}

UNIT_TEST(test_the_same_in_shared_mode)
{
    survive(true);
}

UNIT_TEST(test_lies_are_found_out)
{
    bool found;

    for (int lie = FRAGILE_TRUE + 1; lie < FRAGILE_LIES_N; lie++) {
        found = false;
        for (unsigned seed = 1; seed <= LIE_LIVES && !found; seed++) {
            struct life *life = live(seed, false, (enum fragile_lie)lie);

            found = life->wrong > 0;
            if (found)
                print_message("# lie %d: %s\n", lie, life->what);
            end(life);
        }
        if (!found)
            fail_msg("lie %d was not found out", lie);
    }
}
