/*
 * See watch.h: what the store does, and what it answers. Order by order a transaction is one
 * step. Of an instance that sells in batches, the committer's thread has these steps: BEGIN,
 * after which it checks which orders have their lock; each lot that it decides, and each
 * other write; COMMIT. The answers are steps of the program. Nobody else can write between
 * BEGIN and COMMIT, but Redis and the clock go on.
 *
 * The dispatcher says to the store what it has (db/store_async.h): here we stand in
 * between. The token that a worker reads before it takes a lock is a step as well,
 * since other instances write it.
 */
#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "db/store_async.h"
#include "server/lab/base/expected.h"
#include "server/lab/turns/turns.h"
#include "server/lab/turns/watch.h"

bool watch_batched, watch_floor;

WRAPPED(store_source_attach);
WRAPPED(store_fence_floor);
WRAPPED(store_naive_select);
WRAPPED(store_naive_update);
WRAPPED(store_naive_insert);
WRAPPED(store_stamp);
WRAPPED(store_place);
WRAPPED(store_is_gone);

static char sql[160]; /* what the store is about to do, in plain words */
/* The verdict is kept between BEGIN and COMMIT: only SQLite knows where in a step
 * these are. */
static enum page_verdict commit; /* of the transaction under way */

void watch_commit(enum page_verdict verdict)
{
    commit = verdict;
}

/* A verdict is of one BEGIN or COMMIT. */
static bool takes(enum page_verdict verdict)
{
    bool is_it = commit == verdict;

    /* A verdict must be used up: the transaction behind it would fail as well. */
    if (is_it)
        commit = PAGE_OK;
    return is_it;
}

static ssize_t find_no_room(int fd, const void *bytes, size_t size)
{
    (void)fd, (void)bytes, (void)size;
    errno = ENOSPC;
    return -1;
}

static ssize_t find_no_room_at(int fd, const void *bytes, size_t size,
                               off_t offset)
{
    (void)offset;
    return find_no_room(fd, bytes, size);
}

/* A COMMIT must fail in SQLite itself, because a fault may stand in any line that looks at
 * what it said. */
static void set_disk(bool is_full)
{
    /* All files of the process go by these calls: so they are put back with the end of
     * the COMMIT. */
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    sqlite3_syscall_ptr plain =
        is_full ? (sqlite3_syscall_ptr)find_no_room : NULL;
    sqlite3_syscall_ptr at =
        is_full ? (sqlite3_syscall_ptr)find_no_room_at : NULL;

    (void)vfs->xSetSystemCall(vfs, "write", plain);
    (void)vfs->xSetSystemCall(vfs, "pwrite", at);
    (void)vfs->xSetSystemCall(vfs, "pwrite64", at);
}

static struct store_source source; /* the dispatcher */
static bool has_begun;             /* the last BEGIN was carried out */

/* Lots of the batch under way, and how many of them were decided. */
static struct store_lot *lots;
static size_t lots_n, decided_n;

/* ---- the transaction of a batch ------------------------------------------ */

static bool is(const struct store_step *step, const char *name)
{
    return strcmp(step->name, name) == 0;
}

/* The orders of LOT, each with what was decided; or without that, before it is. */
static void tell_orders(const struct store_lot *lot, bool is_decided,
                        char text[], size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < lot->n && used < size; i++) {
        const struct store_order *order = lot->orders[i];
        enum store_status status =
            lot->status == STORE_OK ? order->status : lot->status;
        const char *between = i == 0 ? "" : is_decided ? "; " : ", ";

        used +=
            (size_t)snprintf(text + used, size - used, "%s%" PRId64 "%s%s",
                             between, order->user_id, is_decided ? ": " : "",
                             is_decided ? store_status_text(status) : "");
    }
}

/* A lot of which nothing is asked (its fence makes no sense) is not decided. */
static struct store_lot *next_lot(void)
{
    /* Lots are decided in the order in which they were taken. */
    while (decided_n < lots_n && lots[decided_n].status == STORE_MISUSE)
        decided_n++;
    return decided_n < lots_n ? &lots[decided_n] : NULL;
}

static void describe(const struct store_step *step, const char *name,
                     const char *words, struct page_thread *shown)
{
    (void)snprintf(shown->step.name, sizeof(shown->step.name), "%s", name);
    if (step->product_id != 0)
        (void)snprintf(shown->step.key, sizeof(shown->step.key),
                       "product %" PRId64, step->product_id);
    (void)snprintf(shown->step.sent, sizeof(shown->step.sent), "%s", words);
}

static void show(const struct store_step *step, struct page_thread *shown)
{
    const struct store_lot *lot = is(step, "place") ? next_lot() : NULL;
    char users[64];

    if (is(step, "begin")) {
        describe(step, "BEGIN", "BEGIN, check which orders have their lock",
                 shown);
        shown->part = PAGE_OPENS;
    } else if (is(step, "commit")) {
        describe(step, "COMMIT", "COMMIT", shown);
        shown->part = PAGE_COMMITS;
    } else {
        describe(step, step->name, step->name, shown);
    }
    if (!lot)
        return;
    tell_orders(lot, false, users, sizeof(users));
    (void)snprintf(shown->step.sent, sizeof(shown->step.sent),
                   "decide the orders of %s, %s", users,
                   lot->unlocked ? "without a lock" : "under the lock");
}

static enum store_verdict end_step(const struct store_step *step)
{
    struct store_lot *lot = is(step, "place") ? next_lot() : NULL;
    char text[96];

    /* The words must be made before the count: they are of the lot that was
     * just decided. */
    if (lot)
        tell_orders(lot, true, text, sizeof(text));
    decided_n += lot != NULL;
    (void)turns_stepped(0, lot ? text : step->reply);
    /* The transaction is open as soon as BEGIN was done: from then on other actors are
     * kept out of it. */
    if (is(step, "begin"))
        turns_transaction(has_begun = strcmp(step->reply, "ok") == 0);
    /* The COMMIT is over, one way or another: the disk is as large as before, and
     * others may write. */
    if (!is(step, "commit"))
        return STORE_GO;
    set_disk(false);
    turns_transaction(false);
    return takes(PAGE_LOSE) ? STORE_FAIL : STORE_GO;
}

static enum store_verdict batch(const struct store_step *step)
{
    struct page_thread shown = {
        .step.is_sql = true, .is_write = true, .part = PAGE_INSIDE};
    bool begins = is(step, "begin");

    /* A rollback is no step: nobody can see it but by what others may do next. */
    if (is(step, "rollback")) {
        turns_transaction(false);
        return STORE_GO;
    }
    if (step->phase == STORE_AFTER)
        return end_step(step);
    show(step, &shown);
    watch_commit(turns_step(&shown));
    /* BEGIN that was not let go, or failed, has taken no lots: its line is not to
     * be amended. */
    has_begun = has_begun && !begins;
    if (turns_ending())
        return STORE_FAIL;
    set_disk(takes(PAGE_FAIL));
    /* The refusal stands in for SQLITE_BUSY: it is told as a step's reply, because the
     * real BEGIN is never sent. */
    if (!begins || !takes(PAGE_REFUSE))
        return STORE_GO;
    (void)turns_stepped(0, "another process writes");
    return STORE_FAIL;
}

/* ---- the step hook ------------------------------------------------------ */

/* Order by order a transaction is one step: BEGIN and COMMIT inside of it go by its
 * verdict. */
enum store_verdict watch_store(void *ctx, const struct store_step *step)
{
    bool before = step->phase == STORE_BEFORE;
    struct page_thread shown = {.step.is_sql = true};

    (void)ctx;
    if (watch_batched)
        return batch(step);
    if (is(step, "begin"))
        /* A verdict of the step above: the store asks here when it is about to begin. */
        return before && takes(PAGE_REFUSE) ? STORE_FAIL : STORE_GO;
    if (is(step, "commit")) {
        set_disk(before && takes(PAGE_FAIL));
        return !before && takes(PAGE_LOSE) ? STORE_FAIL : STORE_GO;
    }
    /* The committer's own: it shares the transaction of a write, or has one by itself.
     * No move lets it go: so it comes along with the step under way. */
    if (is(step, "expire") && !before)
        turns_came_along(
            &(struct stage_step){.is_sql = true,
                                 .name = "expire",
                                 .sent = "give back what was not paid in time"},
            step->reply);
    if (!expected_has_word("naive-select naive-update naive-insert stamp place",
                           step->name))
        return STORE_GO;
    if (!before) {
        (void)turns_stepped(0, step->reply);
        return STORE_GO;
    }
    describe(step, step->name, sql, &shown);
    shown.is_write = !is(step, "naive-select");
    watch_commit(turns_step(&shown));
    return turns_ending() ? STORE_FAIL : STORE_GO;
}

/* ---- the source ---------------------------------------------------------- */

static size_t take(void *ctx, struct store_lot taken[], size_t n_max)
{
    size_t n = source.take(ctx, taken, n_max);

    /* The lots are the store's, until done() says that they were decided: steps name
     * their orders meanwhile. */
    lots = taken;
    lots_n = n;
    decided_n = 0;
    if (has_begun)
        turns_amend("ok: %zu lot%s", n, n == 1 ? "" : "s");
    return n;
}

static void done(void *ctx, struct store_lot taken[], size_t n,
                 const struct store_error *error)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < taken[i].n; j++) {
            const struct store_order *order = taken[i].orders[j];

            /* Answers come into the dispatcher by this call and by no step: so they
             * must be heard here. */
            turns_hear(&order->status, sizeof(order->status));
            turns_hear(&order->segments, sizeof(order->segments));
            turns_hear(&order->richest, sizeof(order->richest));
        }
    lots_n = 0;
    source.done(ctx, taken, n, error);
}

void __wrap_store_source_attach(struct store *store,
                                const struct store_source *dispatcher)
{
    source = *dispatcher;
    __real_store_source_attach(store,
                               &(struct store_source){.attend = source.attend,
                                                      .take = take,
                                                      .done = done,
                                                      .ctx = source.ctx});
}

enum store_status __wrap_store_fence_floor(struct store_reader *reader,
                                           int64_t product_id, const char *name,
                                           uint64_t *token,
                                           struct store_error *error)
{
    struct page_thread shown = {.step.is_sql = true, .step.name = "SELECT"};
    struct page_lane *lane = turns_own_lane();
    enum store_status status;
    char text[96];

    /* The floor is read by a worker, outside of any transaction: only a lock with
     * tokens goes by it, and has it as a step. */
    (void)snprintf(shown.step.sent, sizeof(shown.step.sent),
                   "SELECT the highest token of %s", name);
    if (watch_floor)
        (void)turns_step(&shown);
    status = __real_store_fence_floor(reader, product_id, name, token, error);
    (void)snprintf(text, sizeof(text), "%" PRIu64, *token);
    if (watch_floor)
        (void)turns_stepped(0, status == STORE_OK ? text
                                                  : store_status_text(status));
    else
        turns_hear(token, sizeof(*token));
    /* A grant is compared with its floor as it was read last, for this name. */
    lane->floor = watch_floor ? *token : 0;
    (void)snprintf(lane->floor_of, sizeof(lane->floor_of), "%s", name);
    return status;
}

/* ---- what the store answers --------------------------------------------- */

/* By the actor's letter, if its role has not another user. */
static const char *buyer(const struct store_order *order)
{
    static char text[32];

    if (order->user_id <= STAGE_ACTORS_MAX)
        (void)snprintf(text, sizeof(text), "%c", 'a' + (int)order->user_id - 1);
    else
        (void)snprintf(text, sizeof(text), "user %" PRId64, order->user_id);
    return text;
}

enum store_status __wrap_store_naive_select(struct store_reader *reader,
                                            struct store_order *order,
                                            int64_t *stock,
                                            struct store_error *error)
{
    enum store_status status;

    /* The words must be there before the call: the hook inside of it shows them. */
    (void)snprintf(sql, sizeof(sql), "SELECT the stock");
    status = __real_store_naive_select(reader, order, stock, error);
    if (status == STORE_OK)
        /* The reply of the step is the store's word; what was read comes behind it. */
        turns_amend(
            "%" PRId64 "%s%s", *stock, order->status == STORE_OK ? "" : ": ",
            order->status == STORE_OK ? "" : store_status_text(order->status));
    return status;
}

enum store_status __wrap_store_naive_update(struct store *store,
                                            int64_t product_id, int64_t segment,
                                            int64_t stock,
                                            const struct store_fence *fence,
                                            struct store_error *error)
{
    (void)snprintf(sql, sizeof(sql), "UPDATE the stock to %" PRId64, stock);
    return __real_store_naive_update(store, product_id, segment, stock, fence,
                                     error);
}

enum store_status __wrap_store_naive_insert(struct store *store,
                                            struct store_order *order,
                                            const struct store_fence *fence,
                                            struct store_error *error)
{
    (void)snprintf(sql, sizeof(sql), "INSERT the order of %s", buyer(order));
    return __real_store_naive_insert(store, order, fence, error);
}

enum store_status __wrap_store_stamp(struct store *store,
                                     const struct store_fence *fence,
                                     struct store_error *error)
{
    (void)snprintf(sql, sizeof(sql), "announce token %" PRIu64, fence->token);
    return __real_store_stamp(store, fence, error);
}

enum store_status __wrap_store_place(struct store *store,
                                     struct store_order *const orders[],
                                     size_t n, const struct store_fence *fence,
                                     struct store_error *error)
{
    enum store_status status;

    (void)snprintf(sql, sizeof(sql),
                   "UPDATE the stock if it is enough, INSERT the order of %s",
                   buyer(orders[0]));
    status = __real_store_place(store, orders, n, fence, error);
    if (status == STORE_OK)
        turns_amend("%s", store_status_text(orders[0]->status));
    /* Segments and the richest are hints that the answer brings: they steer the
     * next order. */
    turns_hear(&orders[0]->segments, sizeof(orders[0]->segments));
    turns_hear(&orders[0]->richest, sizeof(orders[0]->richest));
    return status;
}

bool __wrap_store_is_gone(const struct store *store, uint64_t id)
{
    bool is_gone = __real_store_is_gone(store, id);

    /* It depends on which processes live, which is no part of any reply. */
    turns_hear(&is_gone, sizeof(is_gone));
    return is_gone;
}
