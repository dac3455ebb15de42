/*
 * See order_rig.h. The first part knows the names and the ways of the version
 * under test; the second does not.
 */
#include "tests/support/order_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/app.h"
#include "server/clock.h"
#include "server/config.h"
#include "server/config_rules.h"
#include "server/metrics.h"
#include "server/order/dispatcher.h"
#include "server/order/hints.h"
#include "server/tasks.h"
#include "tests/support/temp_dir.h"

#define PATIENCE_MS 60000

/* An order under way, and what the test sees of it. */
struct slot {
    struct order path; /* the one that is handed in */
    struct rig_order order;
    struct order_rig *rig;
    struct slot *next;
};

struct order_rig {
    struct temp_dir dir;
    const struct order_rig *beside;
    struct config config;
    struct app app;
    struct order_watch *watch;
    bool is_stopped;
    pthread_mutex_t mutex; /* guards all below, and what tests see of orders */
    pthread_cond_t changed;
    struct slot *slots;
    unsigned answered;
    struct order_rig *next; /* of all that are open */
};

static void note_answer(struct slot *slot);

/* ==== the version under test ================================================ */

static const struct {
    bool made;
    const char *promise;
} promises[PROMISE_N] = {
    [PROMISE_REPLAY_ALWAYS] = {true, "a known key is always told so"},
    [PROMISE_UNKNOWN_UNSENT] = {true, "unknown products never reach Redis"},
    [PROMISE_NONE_STARVES] = {true, "locks that are taken delay no other"},
    [PROMISE_FLUSH_UNSEEN] = {true, "nobody notices that Redis forgot all"},
    [PROMISE_SHORT_LEASE] = {true, "a dead holder is waited for 3 s at most"},
    [PROMISE_UNTRIED_IS_NO] = {true, "what was not tried was not ordered"},
};

static void order_done(struct order *order)
{
    note_answer(order->owner);
}

static void fill(struct slot *slot)
{
    struct store_order *record = &slot->path.record;

    slot->path.outcome = ORDER_OUTCOME_N;
    slot->path.done = order_done;
    slot->path.owner = slot;
    record->product_id = slot->order.product_id;
    record->user_id = slot->order.user_id;
    record->quantity = slot->order.quantity;
    snprintf(record->key, sizeof(record->key), "%s", slot->order.key);
}

static void read_answer(struct slot *slot)
{
    slot->order.outcome = slot->path.outcome;
    slot->order.number = slot->path.record.number;
    snprintf(slot->order.id, sizeof(slot->order.id), "%s",
             slot->path.record.id);
    snprintf(slot->order.detail, sizeof(slot->order.detail), "%s",
             slot->path.detail);
}

/* As HTTP does: what is known at once is not handed in. */
static void hand_in(struct order_rig *rig, struct slot *const slots[], size_t n)
{
    struct order *list = NULL, **last = &list;

    for (size_t i = 0; i < n; i++) {
        if (dispatcher_refuses(rig->app.dispatcher, &slots[i]->path)) {
            note_answer(slots[i]);
            continue;
        }
        *last = &slots[i]->path;
        last = &(*last)->next;
    }
    *last = NULL;
    if (list)
        dispatcher_submit(rig->app.dispatcher, list);
}

/* As serve.c does. */
static void open_parts(struct order_rig *rig,
                       const struct order_rig_options *options, const char *url)
{
    struct app *app = &rig->app;
    struct dlock_options locks = {
        .strategy = rig->config.lock,
        .url = url,
        .connect_timeout_ms = config_rules_command_timeout_ms(&rig->config),
        .command_timeout_ms = config_rules_command_timeout_ms(&rig->config),
        .watchdog_lease_ms = 2500,
        .on_step = order_watch_lock,
        .on_step_ctx = rig->watch,
    };

    rig->config.orders =
        options->one_by_one ? ORDERS_ONE_BY_ONE : ORDERS_BATCHED;
    if (dlock_open(&locks, &app->locks, NULL) != DLOCK_OK ||
        !(app->workers =
              tasks_open(app, "worker", (size_t)rig->config.workers)) ||
        !(app->readers = tasks_open(app, "reader", 2)) ||
        !(app->hints = hints_open(app, url)) ||
        !(app->dispatcher = dispatcher_open(app)))
        abort();
}

static void stop_parts(struct order_rig *rig)
{
    store_end_waits(rig->app.store);
    dispatcher_stop(rig->app.dispatcher);
    tasks_stop(rig->app.readers);
}

static void close_parts(struct order_rig *rig)
{
    dispatcher_close(rig->app.dispatcher);
    hints_close(rig->app.hints);
    tasks_close(rig->app.readers);
    tasks_close(rig->app.workers);
    dlock_close(rig->app.locks);
}

/* What the HTTP side tells the order path when a product has changed. */
static void note_change(struct order_rig *rig, int64_t product_id)
{
    (void)rig;
    (void)product_id;
}

bool order_rig_is_not_now(enum order_outcome outcome)
{
    return outcome >= ORDER_LOCK_TIMEOUT && outcome < ORDER_OUTCOME_N;
}

size_t order_rig_depth(const struct order_rig *rig)
{
    return dispatcher_depth(rig->app.dispatcher);
}

/* ==== the same for every version ============================================ */

static struct order_rig *open_rigs;

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "order_rig: %s\n", what);
    abort();
}

static bool is_promised(enum order_rig_promise promise)
{
    const char *which = getenv("STOCKADE_PROMISES");

    return promises[promise].made || (which && strcmp(which, "all") == 0);
}

uint64_t order_rig_lease_ms(void)
{
    return is_promised(PROMISE_SHORT_LEASE) ? 3000 : 10000;
}

void order_rig_need(enum order_rig_promise promise)
{
    if (is_promised(promise))
        return;
    print_message("not promised yet: %s\n", promises[promise].promise);
    skip();
}

/* ---- opening and closing --------------------------------------------------- */

static int64_t or_else(int64_t given, int64_t preset)
{
    return given ? given : preset;
}

static void fill_config(struct config *config,
                        const struct order_rig_options *options)
{
    snprintf(config->lock, sizeof(config->lock), "%s",
             options->lock ? options->lock : "fenced");
    config->shared = options->shared;
    config->lock_wait_ms = or_else(options->lock_wait_ms, 5000);
    config->lock_lease_ms = options->lock_lease_ms;
    config->lock_max_hold_ms = 60000;
    config->queue_max = or_else(options->queue_max, 100000);
    config->client_inflight_max = 100000;
    config->workers = or_else(options->workers, 8);
    config->think_ms = options->think_ms;
    config->request_deadline_ms = 120000;
}

struct order_rig *order_rig_open(const struct order_rig_options *given)
{
    const struct order_rig_options none = {0};
    const struct order_rig_options *options = given ? given : &none;
    struct order_rig *rig = calloc(1, sizeof(*rig));
    struct store_options store = {.shared = options->shared,
                                  .busy_ms = options->busy_ms,
                                  .on_step = order_watch_store};
    struct store_error error = {""};

    if (!rig)
        die("no memory");
    fill_config(&rig->config, options);
    rig->watch = store.on_step_ctx = order_watch_new();
    rig->beside = options->beside;
    if (!rig->beside && !options->db_url)
        temp_dir_make(&rig->dir);
    store.url = options->db_url ? options->db_url
                : rig->beside   ? rig->beside->dir.url
                                : rig->dir.url;
    pthread_mutex_init(&rig->mutex, NULL);
    pthread_cond_init(&rig->changed, NULL);
    rig->app.config = &rig->config;
    rig->app.metrics = metrics_new();
    if (!rig->app.metrics ||
        store_open(&store, &rig->app.store, &error) != STORE_OK)
        die(error.text);
    open_parts(rig, options,
               options->redis_url ? options->redis_url
                                  : redis_server_url(order_rig_redis()));
    rig->next = open_rigs;
    open_rigs = rig;
    return rig;
}

uint64_t order_rig_stop(struct order_rig *rig)
{
    uint64_t begin = order_rig_now_ms();

    rig->is_stopped = true;
    stop_parts(rig);
    return order_rig_now_ms() - begin;
}

/* How many orders were not answered exactly once. */
static unsigned close_rig(struct order_rig *rig)
{
    struct order_rig **link = &open_rigs;
    struct slot *next;
    unsigned wrong = 0;

    order_watch_mend(rig->watch);
    order_watch_let_go(rig->watch);
    if (!rig->is_stopped)
        (void)order_rig_stop(rig);
    close_parts(rig);
    store_close(rig->app.store);
    metrics_free(rig->app.metrics);
    order_watch_free(rig->watch);
    for (struct slot *slot = rig->slots; slot; slot = next) {
        next = slot->next;
        wrong += atomic_load(&slot->order.answers) != 1;
        free(slot);
    }
    if (rig->dir.path[0])
        temp_dir_remove(&rig->dir);
    while (*link != rig)
        link = &(*link)->next;
    *link = rig->next;
    pthread_cond_destroy(&rig->changed);
    pthread_mutex_destroy(&rig->mutex);
    free(rig);
    return wrong;
}

void order_rig_close(struct order_rig *rig)
{
    assert_int_equal(close_rig(rig), 0);
}

/* Those that were opened last are closed first. */
int order_rig_teardown(void **state)
{
    (void)state;
    while (open_rigs)
        (void)close_rig(open_rigs);
    return 0;
}

struct order_watch *order_rig_watch(struct order_rig *rig)
{
    return rig->watch;
}

struct store *order_rig_store(struct order_rig *rig)
{
    return rig->app.store;
}

const char *order_rig_db(const struct order_rig *rig)
{
    return rig->beside ? rig->beside->dir.db : rig->dir.db;
}

/* ---- orders ---------------------------------------------------------------- */

struct rig_order *order_rig_make(struct order_rig *rig, int64_t product_id,
                                 int64_t user_id, int64_t quantity,
                                 const char *key)
{
    struct slot *slot = calloc(1, sizeof(*slot));

    if (!slot)
        die("no memory");
    slot->rig = rig;
    slot->order = (struct rig_order){.product_id = product_id,
                                     .user_id = user_id,
                                     .quantity = quantity,
                                     .outcome = ORDER_OUTCOME_N};
    snprintf(slot->order.key, sizeof(slot->order.key), "%s", key);
    fill(slot);
    pthread_mutex_lock(&rig->mutex);
    slot->next = rig->slots;
    rig->slots = slot;
    pthread_mutex_unlock(&rig->mutex);
    return &slot->order;
}

static struct slot *slot_of(struct rig_order *order)
{
    return (struct slot *)((char *)order - offsetof(struct slot, order));
}

void order_rig_hand_in(struct order_rig *rig, struct rig_order *const orders[],
                       size_t n)
{
    struct slot **slots = calloc(n, sizeof(struct slot *));

    if (!slots)
        die("no memory");
    for (size_t i = 0; i < n; i++) {
        slots[i] = slot_of(orders[i]);
        orders[i]->asked_us = clock_us();
    }
    hand_in(rig, slots, n);
    free(slots);
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

/* On whatever thread answers. */
static void note_answer(struct slot *slot)
{
    struct order_rig *rig = slot->rig;
    unsigned commits = order_watch_ended(rig->watch, "commit", 0);

    (void)order_watch_store(rig->watch, "answer", slot->order.product_id,
                            STORE_BEFORE);
    pthread_mutex_lock(&rig->mutex);
    read_answer(slot);
    slot->order.transaction = commits;
    slot->order.answered_us = clock_us();
    atomic_fetch_add(&slot->order.answers, 1);
    rig->answered++;
    pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->mutex);
}

static void wait_change(struct order_rig *rig, uint64_t until_ms,
                        const char *what)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    (void)pthread_cond_timedwait(&rig->changed, &rig->mutex, &until);
    if (order_rig_now_ms() >= until_ms)
        die(what);
}

enum order_outcome order_rig_await(struct order_rig *rig,
                                   const struct rig_order *order)
{
    uint64_t until_ms = order_rig_now_ms() + PATIENCE_MS;

    pthread_mutex_lock(&rig->mutex);
    while (atomic_load(&order->answers) == 0)
        wait_change(rig, until_ms, "an order is not answered");
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

bool order_rig_is_answered(struct order_rig *rig, const struct rig_order *order)
{
    (void)rig;
    return atomic_load(&order->answers) > 0;
}

uint64_t order_rig_took_ms(const struct rig_order *order)
{
    return (order->answered_us - order->asked_us) / 1000;
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
    uint64_t until_ms = order_rig_now_ms() + PATIENCE_MS;

    pthread_mutex_lock(&rig->mutex);
    while (rig->answered < n)
        wait_change(rig, until_ms, "too few orders are answered");
    pthread_mutex_unlock(&rig->mutex);
}

unsigned order_rig_count(struct order_rig *rig, int64_t product_id,
                         enum order_outcome outcome)
{
    unsigned n = 0;

    pthread_mutex_lock(&rig->mutex);
    for (const struct slot *slot = rig->slots; slot; slot = slot->next)
        n += slot->order.outcome == outcome &&
             (product_id == 0 || slot->order.product_id == product_id);
    pthread_mutex_unlock(&rig->mutex);
    return n;
}

int64_t order_rig_units(struct order_rig *rig, int64_t product_id)
{
    int64_t units = 0;

    pthread_mutex_lock(&rig->mutex);
    for (const struct slot *slot = rig->slots; slot; slot = slot->next)
        if (slot->order.outcome == ORDER_PLACED &&
            (product_id == 0 || slot->order.product_id == product_id))
            units += slot->order.quantity;
    pthread_mutex_unlock(&rig->mutex);
    return units;
}

bool order_rig_says_nothing_ordered(const struct rig_order *order)
{
    return strstr(order->detail, "nothing was ordered") != NULL;
}

void order_rig_expect_outcome(const struct rig_order *order,
                              enum order_outcome outcome)
{
    if (order->outcome != outcome)
        fail_msg("order of user %lld for %lld of product %lld, key \"%s\": "
                 "%s (%s), and not %s",
                 (long long)order->user_id, (long long)order->quantity,
                 (long long)order->product_id, order->key,
                 order_outcome_slug(order->outcome), order->detail,
                 order_outcome_slug(outcome));
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

struct sold {
    int64_t product_id, units;
};

static void add_line(void *ctx, const struct store_audit_line *line)
{
    struct sold *sold = ctx;

    if (line->product_id == sold->product_id)
        sold->units += line->sold;
}

/* Ids of orders that were acknowledged: to be freed. */
static const char **list_acknowledged(struct order_rig *rig, size_t *n)
{
    const char **ids = calloc(order_rig_answered(rig) + 1, sizeof(char *));

    if (!ids)
        die("no memory");
    *n = 0;
    pthread_mutex_lock(&rig->mutex);
    for (const struct slot *slot = rig->slots; slot; slot = slot->next)
        if (slot->order.outcome == ORDER_PLACED ||
            slot->order.outcome == ORDER_REPLAYED)
            ids[(*n)++] = slot->order.id;
    pthread_mutex_unlock(&rig->mutex);
    return ids;
}

static void expect_answered_once(struct order_rig *rig)
{
    unsigned twice = 0, never = 0;

    pthread_mutex_lock(&rig->mutex);
    for (const struct slot *slot = rig->slots; slot; slot = slot->next) {
        twice += atomic_load(&slot->order.answers) > 1;
        never += atomic_load(&slot->order.answers) == 0;
    }
    pthread_mutex_unlock(&rig->mutex);
    if (twice || never)
        fail_msg("%u orders were answered twice, %u never", twice, never);
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

    ids = list_acknowledged(rig, &n);
    status = store_audit(reader, add_line, &sold, ids, n, &audit, &error);
    store_reader_close(reader);
    free(ids);
    if (status != STORE_OK)
        fail_msg("audit: %s", error.text);
    assert_int_equal(audit.lost, 0);
    assert_int_equal(audit.oversold, 0);
    assert_int_equal(audit.undersold, 0);
    assert_int_equal(audit.phantom, 0);
    assert_int_equal(audit.negative, 0);
    assert_int_equal(audit.stranded, 0);
    assert_int_equal(audit.duplicates, 0);
    assert_int_equal(audit.over_limit, 0);
    assert_int_equal(audit.fence_regressions, 0);
    assert_true(audit.balanced);
    assert_int_equal(sold.units, units);
    expect_answered_once(rig);
}

/* ---- products -------------------------------------------------------------- */

void order_rig_put_product(struct order_rig *rig,
                           const struct store_product *product)
{
    struct store_product stored = *product;
    struct store_error error = {""};

    if (store_product_put(rig->app.store, &stored, NULL, &error) != STORE_OK)
        die(error.text);
    note_change(rig, product->id);
}

void order_rig_put(struct order_rig *rig, int64_t product_id, int64_t stock,
                   int64_t segments)
{
    const struct store_product product = {.id = product_id,
                                          .name = "Thing",
                                          .initial = stock,
                                          .segments = segments};

    order_rig_put_product(rig, &product);
}

struct store_product order_rig_product(struct order_rig *rig,
                                       int64_t product_id)
{
    struct store_reader *reader = open_reader(rig);
    struct store_product product = {0};
    struct store_error error = {""};

    if (store_product_get(reader, product_id, &product, &error) != STORE_OK)
        die(error.text);
    store_reader_close(reader);
    return product;
}

/* Somebody may restock between the reading and the put: then again. */
void order_rig_resize(struct order_rig *rig, int64_t product_id,
                      int64_t segments)
{
    struct store_product product;
    struct store_error error = {""};
    enum store_status status;

    do {
        product = order_rig_product(rig, product_id);
        product.segments = segments;
        status = store_product_put(rig->app.store, &product, NULL, &error);
    } while (status == STORE_STOCK_FIXED);
    if (status != STORE_OK)
        die(error.text);
    note_change(rig, product_id);
}

void order_rig_restock(struct order_rig *rig, int64_t product_id,
                       int64_t quantity)
{
    struct store_product product;
    struct store_error error = {""};

    if (store_restock(rig->app.store, product_id, quantity, "", &product,
                      &error) != STORE_OK)
        die(error.text);
    note_change(rig, product_id);
}

bool order_rig_cancel(struct order_rig *rig, const char *id)
{
    struct store_order order;
    struct store_error error = {""};

    if (store_cancel(rig->app.store, id, &order, &error) != STORE_OK)
        die(error.text);
    note_change(rig, order.product_id);
    return !order.replayed;
}

enum store_status order_rig_find_key(struct order_rig *rig, const char *key,
                                     struct store_order *order)
{
    struct store_reader *reader = open_reader(rig);
    enum store_status status = store_order_by_key(reader, key, order, NULL);

    store_reader_close(reader);
    return status;
}
