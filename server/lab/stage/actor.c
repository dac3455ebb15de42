/* See actor.h. The real path of an order, with the parts that it needs; and what
 * the step hooks, and a look at what lock and store answer, tell the stage. */
#include "server/lab/stage/actor.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/app.h"
#include "server/clock.h"
#include "server/lab/stage/turns.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/order/hints.h"
#include "server/order/intake.h"
#include "server/order/lock_tasks.h"

struct actor {
    struct config config;
    struct app app;
    struct intake intake;
    struct worker worker;
    struct order order;
    const char *redis_url;
    unsigned index;
};

static struct actor actor;
static char sql[160];    /* what the store is about to do, in plain words */
static bool lose_commit; /* the answer of the transaction under way gets lost */

/* ---- the step hooks ----------------------------------------------------- */

/* What a watchdog or a subscriber does is a step as well, of its own thread. */
static enum dlock_verdict on_lock_step(void *ctx, const struct dlock_step *step)
{
    struct page_thread shown = {.words_n = 0};
    size_t used = 0;

    (void)ctx;
    if (step->phase == DLOCK_AFTER)
        return turns_stepped(step->reply) == PAGE_LOSE ? DLOCK_FAIL : DLOCK_GO;
    (void)snprintf(shown.step, sizeof(shown.step), "%s", step->name);
    (void)snprintf(shown.key, sizeof(shown.key), "%s", step->key);
    for (size_t i = 0; i < step->words_n; i++) {
        size_t len = strlen(step->words[i]) + 1;

        assert(used + len <= sizeof(shown.words));
        memcpy(shown.words + used, step->words[i], len);
        used += len;
        shown.words_n++;
        if (i > 0 && i < step->parts_n) { /* the next one goes on with it */
            used--;
            shown.words_n--;
        }
    }
    if (turns_step(&shown) != PAGE_HOLD)
        return DLOCK_GO;
    if (turns_ending())
        return DLOCK_FAIL;
    (void)turns_stepped("(held up)");
    return DLOCK_HOLD_BACK;
}

/* A transaction is one step; inside of it nobody else can do anything. */
static enum store_verdict on_store_step(void *ctx,
                                        const struct store_step *step)
{
    static const char *const own[] = {"naive-select", "naive-update",
                                      "naive-insert", "stamp", "place"};
    struct page_thread shown = {.is_sql = true, .words_n = 1};
    bool lost = lose_commit;
    bool is_own = false;

    (void)ctx;
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        is_own = is_own || strcmp(step->name, own[i]) == 0;
    if (!is_own && step->phase == STORE_AFTER) {
        lose_commit = false;
        return lost ? STORE_FAIL : STORE_GO;
    }
    if (!is_own)
        return STORE_GO;
    if (step->phase == STORE_AFTER) {
        (void)turns_stepped("");
        return STORE_GO;
    }
    shown.is_write = strcmp(step->name, own[0]) != 0;
    (void)snprintf(shown.step, sizeof(shown.step), "%s", step->name);
    (void)snprintf(shown.key, sizeof(shown.key), "product %" PRId64,
                   step->product_id);
    (void)snprintf(shown.words, sizeof(shown.words), "%s", sql);
    lose_commit = turns_step(&shown) == PAGE_LOSE;
    return turns_ending() ? STORE_FAIL : STORE_GO;
}

/* ---- what lock and store answer ----------------------------------------- */

enum dlock_status __real_dlock_acquire(struct dlock_session *session,
                                       const char *name,
                                       const struct dlock_terms *terms,
                                       struct dlock_grant *grant,
                                       struct dlock_error *error);
enum dlock_status __wrap_dlock_acquire(struct dlock_session *session,
                                       const char *name,
                                       const struct dlock_terms *terms,
                                       struct dlock_grant *grant,
                                       struct dlock_error *error);
enum dlock_status __wrap_dlock_acquire(struct dlock_session *session,
                                       const char *name,
                                       const struct dlock_terms *terms,
                                       struct dlock_grant *grant,
                                       struct dlock_error *error)
{
    enum dlock_status status =
        __real_dlock_acquire(session, name, terms, grant, error);
    struct page *page = turns_page();

    page->inside = status == DLOCK_OK;
    page->token = page->inside ? grant->token : 0;
    if (!page->inside)
        turns_note("not inside: %s", dlock_status_text(status));
    else if (page->token != 0)
        turns_note("inside, with token %" PRIu64, page->token);
    else
        turns_note("inside");
    return status;
}

enum dlock_status __real_dlock_release(struct dlock_session *session,
                                       const struct dlock_grant *grant,
                                       struct dlock_error *error);
enum dlock_status __wrap_dlock_release(struct dlock_session *session,
                                       const struct dlock_grant *grant,
                                       struct dlock_error *error);
enum dlock_status __wrap_dlock_release(struct dlock_session *session,
                                       const struct dlock_grant *grant,
                                       struct dlock_error *error)
{
    enum dlock_status status;

    turns_page()->inside = false;
    status = __real_dlock_release(session, grant, error);
    turns_note(status == DLOCK_OK ? "gave it back" : "gave it back: %s",
               dlock_status_text(status));
    return status;
}

enum store_status __real_store_naive_select(struct store_reader *reader,
                                            struct store_order *order,
                                            int64_t *stock,
                                            struct store_error *error);
enum store_status __wrap_store_naive_select(struct store_reader *reader,
                                            struct store_order *order,
                                            int64_t *stock,
                                            struct store_error *error);
enum store_status __wrap_store_naive_select(struct store_reader *reader,
                                            struct store_order *order,
                                            int64_t *stock,
                                            struct store_error *error)
{
    enum store_status status;

    (void)snprintf(sql, sizeof(sql), "SELECT the stock");
    status = __real_store_naive_select(reader, order, stock, error);
    if (status != STORE_OK)
        turns_amend("%s", store_status_text(status));
    else if (order->status != STORE_OK)
        turns_amend("%" PRId64 ": %s", *stock,
                    store_status_text(order->status));
    else
        turns_amend("%" PRId64, *stock);
    return status;
}

enum store_status __real_store_naive_update(struct store *store,
                                            int64_t product_id, int64_t segment,
                                            int64_t stock,
                                            const struct store_fence *fence,
                                            struct store_error *error);
enum store_status __wrap_store_naive_update(struct store *store,
                                            int64_t product_id, int64_t segment,
                                            int64_t stock,
                                            const struct store_fence *fence,
                                            struct store_error *error);
enum store_status __wrap_store_naive_update(struct store *store,
                                            int64_t product_id, int64_t segment,
                                            int64_t stock,
                                            const struct store_fence *fence,
                                            struct store_error *error)
{
    enum store_status status;

    (void)snprintf(sql, sizeof(sql), "UPDATE the stock to %" PRId64, stock);
    status = __real_store_naive_update(store, product_id, segment, stock, fence,
                                       error);
    turns_amend("%s", store_status_text(status));
    return status;
}

enum store_status __real_store_naive_insert(struct store *store,
                                            struct store_order *order,
                                            const struct store_fence *fence,
                                            struct store_error *error);
enum store_status __wrap_store_naive_insert(struct store *store,
                                            struct store_order *order,
                                            const struct store_fence *fence,
                                            struct store_error *error);
enum store_status __wrap_store_naive_insert(struct store *store,
                                            struct store_order *order,
                                            const struct store_fence *fence,
                                            struct store_error *error)
{
    enum store_status status;

    (void)snprintf(sql, sizeof(sql), "INSERT the order of %c",
                   'a' + (char)actor.index);
    status = __real_store_naive_insert(store, order, fence, error);
    turns_amend("%s", store_status_text(status));
    return status;
}

enum store_status __real_store_stamp(struct store *store,
                                     const struct store_fence *fence,
                                     struct store_error *error);
enum store_status __wrap_store_stamp(struct store *store,
                                     const struct store_fence *fence,
                                     struct store_error *error);
enum store_status __wrap_store_stamp(struct store *store,
                                     const struct store_fence *fence,
                                     struct store_error *error)
{
    enum store_status status;

    (void)snprintf(sql, sizeof(sql), "announce token %" PRIu64, fence->token);
    status = __real_store_stamp(store, fence, error);
    turns_amend("%s", store_status_text(status));
    return status;
}

enum store_status __real_store_place(struct store *store,
                                     struct store_order *const orders[],
                                     size_t n, const struct store_fence *fence,
                                     struct store_error *error);
enum store_status __wrap_store_place(struct store *store,
                                     struct store_order *const orders[],
                                     size_t n, const struct store_fence *fence,
                                     struct store_error *error);
enum store_status __wrap_store_place(struct store *store,
                                     struct store_order *const orders[],
                                     size_t n, const struct store_fence *fence,
                                     struct store_error *error)
{
    enum store_status status;

    (void)snprintf(sql, sizeof(sql),
                   "UPDATE the stock if it is enough, INSERT the order of %c",
                   'a' + (char)actor.index);
    status = __real_store_place(store, orders, n, fence, error);
    turns_amend("%s", store_status_text(status == STORE_OK ? orders[0]->status
                                                           : status));
    return status;
}

/* ---- the order ---------------------------------------------------------- */

static void on_answer(struct order *order)
{
    struct page *page = turns_page();

    page->answered = true;
    page->outcome = order->outcome;
    turns_note("the answer: %s", order_outcome_slug(order->outcome));
}

static bool open_lock(struct dlock_error *error)
{
    unsigned timeout_ms = config_rules_command_timeout_ms(&actor.config);
    struct dlock_options options = {.strategy = actor.config.lock,
                                    .url = actor.redis_url,
                                    .connect_timeout_ms = timeout_ms,
                                    .command_timeout_ms = timeout_ms,
                                    .on_step = on_lock_step};
    const char *owner;

    if (dlock_open(&options, &actor.app.locks, error) != DLOCK_OK)
        return false;
    if (dlock_session_open(actor.app.locks, &actor.worker.session, error) !=
        DLOCK_OK)
        return false;
    owner = dlock_session_owner(actor.worker.session);
    (void)snprintf(turns_page()->owner, sizeof(turns_page()->owner), "%s",
                   owner);
    return store_announce(actor.app.store, lock_instance_id(owner));
}

static void run_order(const struct stage_scene *scene)
{
    struct page *page = turns_page();
    eventfd_t stops;

    page->inside = page->answered = false;
    page->token = 0;
    page->phase = PAGE_ORDERS;
    (void)eventfd_read(actor.worker.stop_fd, &stops);
    lose_commit = false;
    actor.order = (struct order){
        .record = {.product_id = 1,
                   .user_id = 1 + actor.index,
                   .quantity = scene->quantity},
        .done = on_answer,
        .intake = &actor.intake,
        .submitted_us = clock_us(),
        .task = {.owner = &actor.order},
    };
    atomic_store(&actor.intake.depth, 1);
    one_by_one_run(&actor.order.task, &actor.worker);
}

static void fill_config(struct config *config, const struct stage_scene *scene)
{
    (void)snprintf(config->lock, sizeof(config->lock), "%s", scene->lock);
    config->lock_wait_ms = scene->wait_ms;
    config->lock_lease_ms = scene->lease_ms;
    config->lock_max_hold_ms = 60000;
    config->deduct = scene->deduct;
    config->orders = ORDERS_ONE_BY_ONE;
    config->shared = true;
    config->request_deadline_ms = 120000;
}

/* What lives as long as the process. False: a text is in the page. */
static bool open_parts(const char *db_url)
{
    struct store_options store = {
        .url = db_url, .shared = true, .on_step = on_store_step};
    struct store_error error = {""};
    struct app *app = &actor.app;

    app->config = &actor.config;
    app->metrics = metrics_new();
    actor.worker.app = actor.intake.app = app;
    (void)pthread_mutex_init(&actor.intake.hints_mutex, NULL);
    if (app->metrics && store_open(&store, &app->store, &error) == STORE_OK &&
        store_reader_open(app->store, &actor.worker.reader, &error) ==
            STORE_OK &&
        (app->hints = hints_open(app, NULL)) != NULL)
        return true;
    turns_note("the store cannot be opened: %s", error.text);
    return false;
}

_Noreturn void actor_main(struct board *board, unsigned index,
                          const struct stage_scene *scene, const char *db_url,
                          const char *redis_url)
{
    struct dlock_error error = {""};

    log_open(LOG_ERROR, LOG_LOGFMT);
    actor.index = index;
    actor.redis_url = redis_url;
    actor.worker.stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    fill_config(&actor.config, scene);
    board->pages[index].records_n = 0;
    turns_begin(board, &board->pages[index], actor.worker.stop_fd);
    if (!open_parts(db_url))
        turns_park(PAGE_TROUBLE);
    for (;;) {
        turns_park(PAGE_CLOSED);
        if (!open_lock(&error)) {
            turns_note("the lock cannot be opened: %s", error.text);
            turns_park(PAGE_TROUBLE);
        }
        run_order(scene);
        if (!turns_ending())
            turns_park(PAGE_DONE);
        dlock_session_close(actor.worker.session);
        dlock_close(actor.app.locks);
        turns_page()->inside = false;
    }
}
