/* See order_rig.h. */
#include "tests/support/order_rig.h"

#include "server/base/app.h"
#include "server/base/config.h"
#include "server/base/metrics.h"
#include "server/base/tasks.h"
#include "server/order/dispatcher.h"
#include "server/order/hints.h"
#include "tests/support/store_wait.h"
#include "tests/support/temp_dir.h"

struct order_rig {
    struct temp_dir dir;
    struct order_rig_options options; /* with the database's URL */
    struct config config;
    struct app app;
    bool is_stopped;
    pthread_mutex_t mutex; /* guards all below, and what tests see of orders */
    pthread_cond_t changed;
    struct rig_order *orders;
    unsigned answered;
};

static _Noreturn void die(const char *what)
{
    server_proc_die("order_rig", what);
}

/* ---- steps ----------------------------------------------------------------- */

struct step_log order_steps;
static struct step_row
    rows[1 << 15]; /* a dozen for each of a thousand products */

static enum store_verdict on_store_step(void *ctx,
                                        const struct store_step *step)
{
    enum dlock_phase phase =
        step->phase == STORE_BEFORE ? DLOCK_BEFORE : DLOCK_AFTER;

    return step_log_note(&order_steps, step->name, step->product_id, phase) ==
                   DLOCK_FAIL
               ? STORE_FAIL
               : STORE_GO;
}

static enum dlock_verdict on_lock_step(void *ctx, const struct dlock_step *step)
{
    long long product_id = 0;

    if (!step->key || sscanf(step->key, "lock:{%lld:", &product_id) != 1)
        product_id = 0;
    (void)step_log_note(&order_steps, "command", product_id, step->phase);
    return step_log_note(&order_steps, step->name, product_id, step->phase);
}

/* ---- opening and closing --------------------------------------------------- */

/* A quarter of the wait, as by the rule, but without its second at the most, because a
 * busy machine may hold up a server for longer. */
static unsigned command_timeout_ms(const struct config *config)
{
    unsigned rule = config_rules_command_timeout_ms(config);
    unsigned quarter = (unsigned)config->lock_wait_ms / 4;

    return quarter > rule ? quarter : rule;
}

/* As serve.c does. */
static void open_parts(struct order_rig *rig)
{
    const char *url = redis_server_url(order_rig_redis());
    struct app *app = &rig->app;
    struct dlock_options locks = {
        .strategy = rig->config.lock,
        .url = url,
        .connect_timeout_ms = command_timeout_ms(&rig->config),
        .command_timeout_ms = command_timeout_ms(&rig->config),
        .watchdog_lease_ms = 2500,
        .on_step = on_lock_step,
    };

    rig->config.orders =
        rig->options.one_by_one ? ORDERS_ONE_BY_ONE : ORDERS_BATCHED;
    if (dlock_open(&locks, &app->locks, NULL) != DLOCK_OK ||
        !(app->workers =
              tasks_open(app, "worker", (size_t)rig->config.workers)) ||
        !(app->readers = tasks_open(app, "reader", 2)) ||
        !(app->hints = hints_open(app, url)) ||
        !(app->dispatcher = dispatcher_open(app)))
        abort();
}

static void fill_config(struct config *config,
                        const struct order_rig_options *options)
{
    snprintf(config->lock, sizeof(config->lock), "fenced");
    config->shared = options->shared;
    config->deduct = options->naive ? DEDUCT_NAIVE : DEDUCT_GUARDED;
    config->lock_wait_ms = options->lock_wait_ms ? options->lock_wait_ms : 5000;
    config->lock_lease_ms = options->lock_lease_ms;
    config->lock_max_hold_ms = 60000;
    config->queue_max = options->queue_max ? options->queue_max : 100000;
    config->client_inflight_max = 100000;
    config->workers = 8;
    config->think_ms = options->think_ms;
    config->request_deadline_ms =
        options->deadline_ms ? options->deadline_ms : 120000;
}

static struct order_rig *open_rig(const struct order_rig_options *options)
{
    struct order_rig *rig = calloc(1, sizeof(*rig));
    struct store_options store = {.shared = options->shared,
                                  .busy_ms = options->busy_ms,
                                  .on_step = on_store_step};
    struct store_error error = {""};

    if (!rig)
        die("no memory");
    rig->options = *options;
    fill_config(&rig->config, options);
    step_log_init(&order_steps);
    order_steps.rows = rows;
    order_steps.rows_max = COUNT_OF(rows);
    temp_dir_make(&rig->dir);
    store.url = rig->dir.url;
    pthread_mutex_init(&rig->mutex, NULL);
    pthread_cond_init(&rig->changed, NULL);
    rig->app.config = &rig->config;
    rig->app.metrics = metrics_new();
    if (!rig->app.metrics ||
        store_open(&store, &rig->app.store, &error) != STORE_OK)
        die(error.text);
    open_parts(rig);
    return rig;
}

int order_rig_setup(void **state)
{
    const struct order_rig_options *options = *state;
    struct order_rig *rig;

    order_rig_world_reset();
    *state = rig = open_rig(options);
    for (int i = 0; i < 3; i++)
        if (options->stock[i] > 0)
            order_rig_put(rig, i + 1, options->stock[i], options->segments[i]);
    return 0;
}

uint64_t order_rig_stop(struct order_rig *rig)
{
    uint64_t begin = clock_ms();

    rig->is_stopped = true;
    store_end_waits(rig->app.store);
    dispatcher_stop(rig->app.dispatcher);
    tasks_stop(rig->app.readers);
    return clock_ms() - begin;
}

int order_rig_teardown(void **state)
{
    struct order_rig *rig = *state;
    struct rig_order *next;
    unsigned wrong = 0;

    step_log_open(&order_steps);
    if (!rig->is_stopped)
        (void)order_rig_stop(rig);
    dispatcher_close(rig->app.dispatcher);
    hints_close(rig->app.hints);
    tasks_close(rig->app.readers);
    tasks_close(rig->app.workers);
    dlock_close(rig->app.locks);
    store_close(rig->app.store);
    metrics_free(rig->app.metrics);
    for (struct rig_order *order = rig->orders; order; order = next) {
        next = order->next;
        wrong += atomic_load(&order->answers) != 1;
        free(order);
    }
    temp_dir_remove(&rig->dir);
    pthread_cond_destroy(&rig->changed);
    pthread_mutex_destroy(&rig->mutex);
    free(rig);
    if (wrong > 0)
        print_error("%u orders were not answered exactly once\n", wrong);
    return wrong > 0;
}

struct store *order_rig_store(struct order_rig *rig)
{
    return rig->app.store;
}

size_t order_rig_depth(const struct order_rig *rig)
{
    return dispatcher_depth(rig->app.dispatcher);
}

const char *order_rig_url(const struct order_rig *rig)
{
    return rig->dir.url;
}

unsigned long order_rig_metric(const struct order_rig *rig, const char *name)
{
    char *text = NULL, *found;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    unsigned long n;

    if (!out)
        die("no memory");
    metrics_write(rig->app.metrics, out);
    fclose(out);
    found = strstr(text, text_of("\nstockade_%s ", name));
    if (!found)
        die(name);
    n = strtoul(strchr(found, ' '), NULL, 10);
    free(text);
    return n;
}

/* ---- orders ---------------------------------------------------------------- */

/* On whatever thread answers. */
static void note_answer(struct order *path)
{
    struct rig_order *order = path->owner;
    struct order_rig *rig = order->rig;
    unsigned commits =
        step_log_count_at(&order_steps, "commit", 0, DLOCK_AFTER);

    (void)step_log_note(&order_steps, "answer", order->product_id,
                        DLOCK_BEFORE);
    pthread_mutex_lock(&rig->mutex);
    order->outcome = path->outcome;
    order->number = path->record.number;
    snprintf(order->id, sizeof(order->id), "%s", path->record.id);
    snprintf(order->detail, sizeof(order->detail), "%s", path->detail);
    order->transaction = commits;
    order->took_ms = (clock_us() - order->asked_us) / 1000;
    atomic_fetch_add(&order->answers, 1);
    rig->answered++;
    pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->mutex);
}

struct rig_order *order_rig_make(struct order_rig *rig, int64_t product_id,
                                 int64_t user_id, int64_t quantity,
                                 const char *key)
{
    struct rig_order *order = calloc(1, sizeof(*order));
    struct order *path;

    if (!order)
        die("no memory");
    *order = (struct rig_order){.rig = rig,
                                .product_id = product_id,
                                .quantity = quantity,
                                .outcome = ORDER_OUTCOME_N};
    path = &order->path;
    path->outcome = ORDER_OUTCOME_N;
    path->done = note_answer;
    path->owner = order;
    path->record.product_id = product_id;
    path->record.user_id = user_id;
    path->record.quantity = quantity;
    snprintf(path->record.key, sizeof(path->record.key), "%s", key);
    pthread_mutex_lock(&rig->mutex);
    order->next = rig->orders;
    rig->orders = order;
    pthread_mutex_unlock(&rig->mutex);
    return order;
}

/* As HTTP does: what is known at once is not handed in. */
void order_rig_hand_in(struct order_rig *rig, struct rig_order *const orders[],
                       size_t n)
{
    struct order *list = NULL, **last = &list;

    for (size_t i = 0; i < n; i++) {
        struct order *path = &orders[i]->path;

        orders[i]->asked_us = clock_us();
        if (dispatcher_refuse_known(rig->app.dispatcher, path)) {
            note_answer(path);
        } else {
            *last = path;
            last = &path->next;
        }
    }
    *last = NULL;
    if (list)
        dispatcher_submit(rig->app.dispatcher, list);
}

struct rig_order *order_rig_submit(struct order_rig *rig, int64_t product_id,
                                   int64_t user_id, int64_t quantity,
                                   const char *key)
{
    struct rig_order *order =
        order_rig_make(rig, product_id, user_id, quantity, key);

    order_rig_hand_in(rig, &order, 1);
    return order;
}

void order_rig_submit_many(struct order_rig *rig, struct rig_order *orders[],
                           int n, int products)
{
    for (int i = 0; i < n; i++) {
        struct rig_order *order =
            order_rig_submit(rig, 1 + i % products, i + 1, 1, "");

        if (orders)
            orders[i] = order;
    }
}

enum order_outcome order_rig_await(struct order_rig *rig,
                                   const struct rig_order *order)
{
    const struct timespec until = step_log_patience();

    pthread_mutex_lock(&rig->mutex);
    while (atomic_load(&order->answers) == 0)
        step_log_wait(&rig->changed, &rig->mutex, &until, "an answer");
    pthread_mutex_unlock(&rig->mutex);
    return order->outcome;
}

enum order_outcome order_rig_buy(struct order_rig *rig, int64_t product_id,
                                 int64_t user_id, int64_t quantity,
                                 const char *key)
{
    return order_rig_await(
        rig, order_rig_submit(rig, product_id, user_id, quantity, key));
}

struct rig_order *order_rig_expect(struct order_rig *rig, int64_t product_id,
                                   int64_t quantity, const char *key,
                                   enum order_outcome outcome)
{
    struct rig_order *order =
        order_rig_submit(rig, product_id, 1, quantity, key);

    order_rig_await(rig, order);
    order_rig_expect_outcome(order, outcome);
    return order;
}

unsigned order_rig_answered(struct order_rig *rig)
{
    unsigned n;

    pthread_mutex_lock(&rig->mutex);
    n = rig->answered;
    pthread_mutex_unlock(&rig->mutex);
    return n;
}

void order_rig_await_answered(struct order_rig *rig, unsigned n)
{
    const struct timespec until = step_log_patience();

    pthread_mutex_lock(&rig->mutex);
    while (rig->answered < n)
        step_log_wait(&rig->changed, &rig->mutex, &until, "answers");
    pthread_mutex_unlock(&rig->mutex);
}

unsigned order_rig_count(struct order_rig *rig, int64_t product_id,
                         enum order_outcome outcome)
{
    unsigned n = 0;

    pthread_mutex_lock(&rig->mutex);
    for (const struct rig_order *order = rig->orders; order;
         order = order->next)
        n += order->outcome == outcome &&
             (product_id == 0 || order->product_id == product_id);
    pthread_mutex_unlock(&rig->mutex);
    return n;
}

int64_t order_rig_units(struct order_rig *rig, int64_t product_id)
{
    int64_t units = 0;

    pthread_mutex_lock(&rig->mutex);
    for (const struct rig_order *order = rig->orders; order;
         order = order->next)
        if (order->outcome == ORDER_PLACED &&
            (product_id == 0 || order->product_id == product_id))
            units += order->quantity;
    pthread_mutex_unlock(&rig->mutex);
    return units;
}

/* ---- what has to be ---------------------------------------------------------- */

void order_rig_expect_outcome(const struct rig_order *order,
                              enum order_outcome outcome)
{
    const struct store_order *asked = &order->path.record;

    if (order->outcome != outcome)
        fail_msg("order of user %lld for %lld of product %lld, key \"%s\": "
                 "%s (%s), and not %s",
                 (long long)asked->user_id, (long long)order->quantity,
                 (long long)order->product_id, asked->key,
                 order_outcome_slug(order->outcome), order->detail,
                 order_outcome_slug(outcome));
}

void order_rig_expect_not_now(const struct rig_order *order, uint64_t within_ms)
{
    if (order->outcome < ORDER_LOCK_TIMEOUT ||
        order->outcome == ORDER_OUTCOME_N || order->took_ms >= within_ms)
        fail_msg("%s after %llu ms", order_outcome_slug(order->outcome),
                 (unsigned long long)order->took_ms);
}

/* ---- the ledger ------------------------------------------------------------ */

static struct store_reader *open_reader(struct order_rig *rig)
{
    struct store_reader *reader;
    struct store_error error = {""};

    if (store_reader_open(rig->app.store, &reader, &error) != STORE_OK)
        die(error.text);
    return reader;
}

/* Ids of orders that were placed, by an array to be freed. */
static const char **acked_by(struct order_rig *rig, size_t *n)
{
    const char **ids = calloc(order_rig_answered(rig) + 1, sizeof(char *));

    if (!ids)
        die("no memory");
    *n = 0;
    pthread_mutex_lock(&rig->mutex);
    for (const struct rig_order *order = rig->orders; order;
         order = order->next)
        if (order->outcome == ORDER_PLACED || order->outcome == ORDER_REPLAYED)
            ids[(*n)++] = order->id;
    pthread_mutex_unlock(&rig->mutex);
    return ids;
}

struct sold {
    int64_t product_id, units;
};

static void add_line(void *ctx, const struct store_audit_line *line)
{
    struct sold *sold = ctx;

    if (line->product_id == sold->product_id)
        sold->units += line->sold;
}

void order_rig_expect_ledger(struct order_rig *rig, int64_t product_id,
                             int64_t units)
{
    struct store_reader *reader = open_reader(rig);
    struct sold sold = {.product_id = product_id};
    struct store_error error = {""};
    struct store_audit audit;
    enum store_status status;
    const char **ids;
    size_t n;

    ids = acked_by(rig, &n);
    status = store_audit(reader, add_line, &sold, ids, n, &audit, &error);
    store_reader_close(reader);
    free(ids);
    if (status != STORE_OK)
        fail_msg("audit: %s", error.text);
    assert_true(audit.balanced);
    assert_int_equal(sold.units, units);
}

/* ---- products -------------------------------------------------------------- */

void order_rig_put(struct order_rig *rig, int64_t product_id, int64_t stock,
                   int64_t segments)
{
    struct store_product product = {.id = product_id,
                                    .name = "Thing",
                                    .initial = stock,
                                    .segments = segments};
    struct store_error error = {""};

    if (store_product_put(rig->app.store, &product, NULL, &error) != STORE_OK)
        die(error.text);
}

void order_rig_restock(struct order_rig *rig, int64_t product_id,
                       int64_t quantity)
{
    struct store_product product;
    struct store_error error = {""};

    if (store_restock(rig->app.store, product_id, quantity, "", &product,
                      &error) != STORE_OK)
        die(error.text);
}

enum store_status order_rig_find_key(struct order_rig *rig, const char *key,
                                     struct store_order *order)
{
    struct store_reader *reader = open_reader(rig);
    enum store_status status = store_order_by_key(reader, key, order, NULL);

    store_reader_close(reader);
    return status;
}
