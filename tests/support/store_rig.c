/* See store_rig.h. */
#include "db/sql.h"
#include "tests/support/store_rig.h"
#include "tests/support/store_wait.h"

#include <inttypes.h>
#include <sys/wait.h>
#include <time.h>

void store_rig_begin_in(struct store_rig *rig, const struct temp_dir *dir)
{
    *rig = (struct store_rig){.dir = *dir};
    pthread_mutex_init(&rig->mutex, NULL);
    pthread_cond_init(&rig->changed, NULL);
}

/* ---- on MariaDB --------------------------------------------------------- */

bool store_rig_on_mysql(const struct store_rig *rig)
{
    return strncmp(rig->dir.url, "mysql:", 6) == 0;
}

/* Runs statements with ";" between them. */
static void mysql_do(const char *url, const char *statements)
{
    struct sql_options options = {
        .where = url, .writes = true, .busy_ms = 5000};
    struct store_error error = {""};
    char text[4096], *one, *rest = text;
    struct sql *db;

    options.engine = sql_engine_of(url, &error);
    if (!options.engine || sql_open(&options, &db, &error) != STORE_OK) {
        fail_msg("%s", error.text);
        return;
    }
    snprintf(text, sizeof(text), "%s", statements);
    while ((one = strtok_r(rest, ";", &rest)) != NULL) {
        char line[4096 + 2];

        snprintf(line, sizeof(line), "%s;\n", one);
        if (sql_begin(db) != STORE_OK ||
            db->engine->script(db, line) != STORE_OK ||
            db->engine->commit(db) != STORE_OK)
            fail_msg("%s", sql_error(db)->text);
    }
    sql_close(db);
}

/* Makes, or drops, the database that is named like the directory. */
static void mysql_database(struct temp_dir *dir, const char *verb)
{
    const char *server = getenv("STORE_RIG_MYSQL");
    const char *name = strrchr(dir->path, '/') + 1;
    char url[sizeof(dir->url)], statement[128];

    if (!server)
        return;
    snprintf(url, sizeof(url), "%.200s?db=mysql&user=root", server);
    snprintf(statement, sizeof(statement), "%s DATABASE `%.80s`", verb, name);
    mysql_do(url, statement);
    snprintf(dir->url, sizeof(dir->url), "%.170s?db=%.80s&user=root", server,
             name);
}

void store_rig_sqlite_only(const struct store_rig *rig)
{
    if (store_rig_on_mysql(rig))
        skip();
}

void store_rig_mysql_only(const struct store_rig *rig)
{
    if (!store_rig_on_mysql(rig))
        skip();
}

/* ---- the store ---------------------------------------------------------- */

void store_rig_begin(struct store_rig *rig)
{
    struct temp_dir dir = {0};

    temp_dir_make(&dir);
    mysql_database(&dir, "CREATE");
    store_rig_begin_in(rig, &dir);
}

void store_rig_open(struct store_rig *rig, struct store_options options)
{
    struct store_error error = {""};

    options.url = rig->dir.url;
    if (!options.on_step) {
        options.on_step = store_rig_on_step;
        options.on_step_ctx = rig;
    }
    if (store_open(&options, &rig->store, &error) != STORE_OK ||
        store_reader_open(rig->store, &rig->reader, &error) != STORE_OK)
        fail_msg("%s", error.text);
}

void store_rig_close(struct store_rig *rig)
{
    store_rig_hold(rig, false); /* a test that failed left it so */
    if (rig->store)
        store_source_detach(rig->store);
    store_reader_close(rig->reader);
    store_close(rig->store);
    rig->reader = NULL;
    rig->store = NULL;
}

void store_rig_end(struct store_rig *rig)
{
    store_rig_close(rig);
    if (store_rig_on_mysql(rig))
        mysql_database(&rig->dir, "DROP");
    temp_dir_remove(&rig->dir);
    pthread_cond_destroy(&rig->changed);
    pthread_mutex_destroy(&rig->mutex);
}

int store_rig_set_up_dir(void **state)
{
    *state = calloc(1, sizeof(struct store_rig));
    store_rig_begin(*state);
    return 0;
}

int store_rig_set_up(void **state)
{
    store_rig_set_up_dir(state);
    store_rig_open(*state, (struct store_options){0});
    return 0;
}

int store_rig_tear_down(void **state)
{
    store_rig_end(*state);
    free(*state);
    return 0;
}

/* ---- steps and processes ------------------------------------------------ */

enum store_verdict store_rig_on_step(void *ctx, const struct store_step *step)
{
    struct store_rig *rig = ctx;
    struct store_rig_steps *steps = &rig->steps;
    enum store_verdict verdict = STORE_GO;

    pthread_mutex_lock(&rig->mutex);
    if (step->phase == STORE_BEFORE && strcmp(step->name, "commit") == 0) {
        steps->commits++;
        steps->held++;
        pthread_cond_broadcast(&rig->changed);
        while (steps->hold)
            pthread_cond_wait(&rig->changed, &rig->mutex);
        steps->held--;
    }
    if (step->phase == STORE_BEFORE && steps->failing &&
        strcmp(step->name, steps->failing) == 0)
        verdict = STORE_FAIL;
    pthread_mutex_unlock(&rig->mutex);
    return verdict;
}

void store_rig_hold(struct store_rig *rig, bool on)
{
    pthread_mutex_lock(&rig->mutex);
    rig->steps.hold = on;
    rig->steps.commits = 0;
    pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->mutex);
}

void store_rig_wait(struct store_rig *rig, const int *number, int least)
{
    pthread_mutex_lock(&rig->mutex);
    while (*number < least)
        pthread_cond_wait(&rig->changed, &rig->mutex);
    pthread_mutex_unlock(&rig->mutex);
}

int64_t store_rig_wall_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

pid_t store_rig_fork(void (*main)(void *ctx), void *ctx)
{
    pid_t child;

    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child > 0)
        return child;
    /* Or cmocka would go on with the next test, in the child. */
    setenv("CMOCKA_TEST_ABORT", "1", 1);
    main(ctx);
    _exit(0); /* closes nothing */
}

void store_rig_join(pid_t child)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* ---- any product -------------------------------------------------------- */

void store_rig_put(struct store_rig *rig, struct store_product product)
{
    if (!product.name[0])
        snprintf(product.name, sizeof(product.name), "Thing");
    assert_ok(store_product_put(rig->store, &product, NULL, NULL));
}

struct store_product store_rig_product(struct store_rig *rig, int64_t id)
{
    struct store_product product;

    assert_ok(store_product_get(rig->reader, id, &product, NULL));
    return product;
}

struct store_order store_rig_ask(int64_t product_id, int64_t user_id,
                                 int64_t quantity, const char *key)
{
    struct store_order order = {
        .product_id = product_id, .user_id = user_id, .quantity = quantity};

    snprintf(order.key, sizeof(order.key), "%s", key);
    return order;
}

void store_rig_place(struct store_rig *rig, struct store_order *order)
{
    struct store_order *orders[] = {order};

    assert_ok(store_place(rig->store, orders, 1, NULL, NULL));
}

enum store_status store_rig_buy(struct store_rig *rig, int64_t product_id,
                                int64_t user_id, int64_t quantity,
                                const char *key)
{
    struct store_order order =
        store_rig_ask(product_id, user_id, quantity, key);

    store_rig_place(rig, &order);
    return order.status;
}

struct store_audit store_rig_audit(struct store_rig *rig)
{
    return store_rig_audit_dir(&rig->dir, NULL, 0);
}

struct store_audit store_rig_audit_dir(const struct temp_dir *dir,
                                       const char *const acked[], size_t n)
{
    struct store_reader *reader;
    struct store_audit verdict = {0};
    struct store_error error;

    if (store_reader_open_url(dir->url, &reader, &error) != STORE_OK ||
        store_audit(reader, NULL, NULL, acked, n, &verdict, &error) != STORE_OK)
        fail_msg("%s", error.text);
    store_reader_close(reader);
    return verdict;
}

void store_rig_expect_sound(struct store_rig *rig)
{
    assert_true(store_rig_audit(rig).balanced);
}

sqlite3 *store_rig_connect(const struct store_rig *rig, const char *sql)
{
    char *error = NULL;
    sqlite3 *db;

    store_rig_sqlite_only(rig);
    assert_int_equal(sqlite3_open(rig->dir.db, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    if (sqlite3_exec(db, sql, NULL, NULL, &error) != SQLITE_OK)
        fail_msg("%s", error);
    return db;
}

void store_rig_sql(const struct store_rig *rig, const char *sql)
{
    if (store_rig_on_mysql(rig))
        mysql_do(rig->dir.url, sql);
    else
        sqlite3_close(store_rig_connect(rig, sql));
}

int64_t store_rig_number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *query = NULL;
    int64_t number = -1;

    if (sqlite3_prepare_v2(db, sql, -1, &query, NULL) == SQLITE_OK &&
        sqlite3_step(query) == SQLITE_ROW)
        number = sqlite3_column_int64(query, 0);
    sqlite3_finalize(query);
    return number;
}

int store_rig_byte(const struct store_rig *rig, const char *suffix, long at)
{
    char path[sizeof(rig->dir.db) + 16];
    int byte = -1;
    FILE *file;

    store_rig_sqlite_only(rig);
    snprintf(path, sizeof(path), "%s%s", rig->dir.db, suffix);
    file = fopen(path, "r");
    if (file && fseek(file, at, SEEK_SET) == 0)
        byte = fgetc(file);
    if (file)
        fclose(file);
    return byte;
}

/* ---- product 1, split over segments ----------------------------------------- */

void store_rig_split(struct store_rig *rig, int64_t units, int64_t segments)
{
    store_rig_put(rig, (struct store_product){
                           .id = 1, .initial = units, .segments = segments});
}

void store_rig_resize(struct store_rig *rig, int64_t segments)
{
    store_rig_split(rig, store_rig_product(rig, 1).initial, segments);
}

struct store_order store_rig_order_at(struct store_rig *rig, int64_t segment,
                                      int64_t quantity)
{
    struct store_order order = store_rig_ask(1, 1, quantity, "");

    order.segment = segment;
    store_rig_place(rig, &order);
    assert_int_equal(order.status, STORE_OK);
    return order;
}

void store_rig_cancel(struct store_rig *rig, const struct store_order *it)
{
    struct store_order order;

    assert_ok(store_cancel(rig->store, it->id, &order, NULL));
}

void store_rig_restock(struct store_rig *rig, int64_t units)
{
    struct store_product product;

    assert_ok(store_restock(rig->store, 1, units, "", &product, NULL));
}

void store_rig_stock(struct store_rig *rig, char text[STORE_RIG_TEXT_BYTES])
{
    struct store_segments found;
    struct store_product product;
    int64_t sum = 0;
    size_t length = 0;

    assert_ok(store_product_segments(rig->reader, 1, &product, &found, NULL));
    for (size_t i = 0; i < found.n; i++) {
        assert_int_equal(found.at[i].segment, i);
        sum += found.at[i].stock;
        length +=
            (size_t)snprintf(text + length, STORE_RIG_TEXT_BYTES - length,
                             "%s%" PRId64, i ? " " : "", found.at[i].stock);
    }
    assert_int_equal(product.stock, sum);
}

void store_rig_expect(struct store_rig *rig, const char *stock)
{
    char text[STORE_RIG_TEXT_BYTES] = "";

    store_rig_stock(rig, text);
    assert_string_equal(text, stock);
}

/* ---- the source of orders ---------------------------------------------------- */

static bool attend(void *ctx, uint64_t *due_us)
{
    struct store_rig *rig = ctx;
    struct store_rig_feed *feed = &rig->feed;
    void (*on_attend)(void *ctx);
    bool has;

    pthread_mutex_lock(&rig->mutex);
    on_attend = feed->on_attend;
    pthread_mutex_unlock(&rig->mutex);
    if (on_attend)
        on_attend(feed->ctx);
    pthread_mutex_lock(&rig->mutex);
    feed->attends++;
    has = feed->next_n > 0;
    pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->mutex);
    return has;
}

static size_t take(void *ctx, struct store_lot lots[], size_t n_max)
{
    struct store_rig *rig = ctx;
    struct store_rig_feed *feed = &rig->feed;
    size_t n;

    pthread_mutex_lock(&rig->mutex);
    feed->takes++;
    n = feed->next_n;
    assert_true(n <= n_max);
    memcpy(lots, feed->next, n * sizeof(lots[0]));
    feed->next_n = 0;
    pthread_mutex_unlock(&rig->mutex);
    return n;
}

static void done(void *ctx, struct store_lot lots[], size_t n,
                 const struct store_error *error)
{
    struct store_rig *rig = ctx;
    struct store_rig_feed *feed = &rig->feed;

    pthread_mutex_lock(&rig->mutex);
    memcpy(feed->told, lots, n * sizeof(lots[0]));
    feed->why = *error;
    feed->dones++;
    pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->mutex);
}

void store_rig_feed(struct store_rig *rig)
{
    const struct store_source source = {
        .attend = attend, .take = take, .done = done, .ctx = rig};

    store_source_attach(rig->store, &source);
    store_rig_wait(rig, &rig->feed.attends, 1);
}

void store_rig_offer(struct store_rig *rig, const struct store_lot lots[],
                     size_t n)
{
    assert_true(n <= STORE_RIG_LOTS);
    pthread_mutex_lock(&rig->mutex);
    memcpy(rig->feed.next, lots, n * sizeof(lots[0]));
    rig->feed.next_n = n;
    pthread_mutex_unlock(&rig->mutex);
    store_source_wake(rig->store);
}

/* One at a time: between two nothing is under way. */
enum store_status store_rig_go(struct store_rig *rig,
                               const struct store_lot lots[], size_t n)
{
    int before = rig->feed.dones;

    store_rig_offer(rig, lots, n);
    store_rig_wait(rig, &rig->feed.dones, before + 1);
    return rig->feed.told[0].status;
}

enum store_status store_rig_go_order(struct store_rig *rig,
                                     struct store_order *order)
{
    struct store_lot lot = {.orders = &order, .n = 1};
    enum store_status status = store_rig_go(rig, &lot, 1);

    return status == STORE_OK ? order->status : status;
}
