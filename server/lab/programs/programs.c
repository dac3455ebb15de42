/* See program.h: the table of programs, and what they are made of. */
#include "server/lab/programs/program.h"

#include <semaphore.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/lab/servers/peek.h"
#include "server/lab/turns/watch.h"

static const struct program programs[] = {
#define ROW(run, orders, check, is_lesson, deeds, name, english, chinese)      \
    {run, check, orders, is_lesson, deeds, name, english, chinese},
#include "server/lab/programs/programs.inc"
};

const struct program *program_at(size_t index)
{
    return index < sizeof(programs) / sizeof(programs[0]) ? &programs[index]
                                                          : NULL;
}

const struct program *program_find(const char *name)
{
    const struct program *program = NULL;

    for (size_t i = 0; (program = program_at(i)) != NULL; i++)
        if (strcmp(program->name, name) == 0)
            break;
    return program;
}

void program_is_wrong(const char *text)
{
    turns_own_lane()->is_wrong = true;
    turns_note("%s", text);
}

/* ---- by the real path ---------------------------------------------------- */

void program_reply(enum order_outcome outcome)
{
    struct page_lane *lane = turns_own_lane();

    /* The end of a schedule answers all that waits: nobody has decided these orders. */
    if (turns_ending())
        return;
    lane->answered = true;
    lane->placed_n += outcome == ORDER_PLACED;
    lane->outcomes |= 1u << outcome;
    lane->outcome = lane->of_key = outcome;
    turns_note("the answer: %s", order_outcome_slug(outcome));
}

void program_keep_id(const struct order *order)
{
    struct page_lane *lane = turns_own_lane();
    struct page_placed *placed = &lane->placed[lane->placed_n];

    if (order->outcome != ORDER_PLACED || lane->placed_n >= PAGE_PLACED_MAX)
        return;
    memcpy(placed->id, order->record.id, sizeof(placed->id));
    placed->user_id = order->record.user_id;
    placed->price_cents = order->record.price_cents;
}

static void on_answer(struct order *order)
{
    /* The id must be kept before program_reply() counts the order: its place goes by
     * that count. */
    if (!turns_ending())
        program_keep_id(order);
    program_reply(order->outcome);
}

void program_order(struct program_actor *self)
{
    self->order = (struct order){
        .record = {.product_id = self->role.product,
                   .user_id = self->role.user,
                   .quantity = self->role.quantity},
        .done = on_answer,
        .intake = self->intake,
        .submitted_us = clock_us(),
        .task = {.owner = &self->order},
    };
    if (self->role.key)
        (void)snprintf(self->order.record.key, sizeof(self->order.record.key),
                       "%s", self->role.key);
    /* The number of the order tells the stage that it begins: it judges each one from
     * its beginning. */
    turns_own_lane()->orders_n++;
    /* An order that is under way is one that the dispatcher counts. */
    atomic_fetch_add(&self->intake->depth, 1);
    one_by_one_run(&self->order.task, &self->worker);
}

enum dlock_status program_take(struct program_actor *self, int64_t product,
                               struct lock_task *lock)
{
    *lock = (struct lock_task){.kind = LOCK_TAKE,
                               .product_id = self->role.product,
                               .session = self->worker.session,
                               .wait_ms = lock_wait_ms(self->worker.app)};
    if (product == 0)
        lock_name_of_user(self->role.user, lock->name);
    else
        lock_name(product, 0, lock->name);
    lock_task_run(lock, &self->worker);
    return lock->status;
}

enum dlock_status program_give(struct program_actor *self,
                               struct lock_task *lock)
{
    lock->kind = LOCK_GIVE;
    lock->session =
        self->worker.session; /* an order beneath may have a new one */
    lock_task_run(lock, &self->worker);
    return lock->status;
}

static void on_written(struct store_write *write)
{
    (void)sem_post(write->owner);
}

enum store_status program_write(struct program_actor *self, const char *step,
                                const char *words, enum store_verb verb,
                                struct store_write *write)
{
    struct page_thread shown = {.step.is_sql = true, .is_write = true};
    sem_t written;

    (void)snprintf(shown.step.name, sizeof(shown.step.name), "%s", step);
    (void)snprintf(shown.step.sent, sizeof(shown.step.sent), "%s", words);
    /* An instance has its steps on the committer's thread: the one here is only that it
     * came in. */
    shown.step.is_local = watch_batched; /* the committer has the steps */
    shown.step.is_sql = !watch_batched;
    /* The verdict is of the transaction inside: BEGIN and COMMIT ask for it. */
    watch_commit(turns_step(&shown));
    if (turns_ending())
        return STORE_CLOSED;
    if (watch_batched)
        (void)turns_stepped(0, "now");
    (void)sem_init(&written, 0, 0);
    write->done = on_written;
    /* cppcheck-suppress autoVariables ; it is written before this is gone */
    write->owner = &written;
    store_begin(self->worker.app->store, verb, write);
    /* The wait is a turn given away: the committer does the work meanwhile. */
    while (sem_wait(&written) != 0)
        continue;
    (void)sem_destroy(&written);
    /* The step ends with the answer: its reply is what came of the write. */
    if (!watch_batched)
        (void)turns_stepped(0, write->status == STORE_OK
                                   ? "done"
                                   : store_status_text(write->status));
    return write->status;
}

/* ---- by hand ---------------------------------------------------------------
 *
 * The connections belong to the thread that runs the program, and end with it.
 */

static _Thread_local sqlite3 *database;
static _Thread_local struct peek *redis;

/* A transaction that is open rolls back. */
void program_steps_end(void)
{
    (void)sqlite3_close_v2(database);
    peek_close(redis);
    database = NULL;
    redis = NULL;
}

/* The whole of one statement; *CODE is SQLite's. Returns the first column. */
static int64_t run(sqlite3 *db, const char *text, int *code, bool *is_read)
{
    sqlite3_stmt *stmt = NULL;
    int64_t value = 0;

    /* The statement is prepared for each call: a lesson's words have their numbers
     * in them. */
    *code = sqlite3_prepare_v2(db, text, -1, &stmt, NULL);
    if (*code != SQLITE_OK)
        return 0;
    *is_read = sqlite3_column_count(stmt) > 0;
    *code = sqlite3_step(stmt);
    /* A statement that only reads leaves the changes of the one before. */
    if (*code == SQLITE_ROW)
        value = sqlite3_column_int64(stmt, 0);
    else if (*code == SQLITE_DONE && !sqlite3_stmt_readonly(stmt))
        value = sqlite3_changes(db);
    (void)sqlite3_finalize(stmt);
    return value;
}

/* WORDS are what is shown of TEXT. */
static enum program_answer step(struct program_actor *self, const char *text,
                                const char *words, int64_t *value)
{
    struct page_thread shown = {.step.is_sql = true, .part = PAGE_BY_HAND};
    bool is_read = strncmp(text, "SELECT", 6) == 0;
    enum page_verdict verdict;
    char reply[96];
    int64_t found;
    int code;

    shown.is_write = !is_read;
    (void)snprintf(shown.step.name, sizeof(shown.step.name), "%.*s",
                   (int)strcspn(text, " "), text);
    (void)snprintf(shown.step.sent, sizeof(shown.step.sent), "%s", words);
    /* A connection opens with its first statement, behind the step: before it nothing
     * of the actor's can be seen. */
    verdict = turns_step(&shown);
    if (turns_ending())
        return PROGRAM_LOST;
    if (!database && sqlite3_open_v2(self->db_path, &database,
                                     SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
        return PROGRAM_NO;
    found = run(database, text, &code, &is_read);
    if (code == SQLITE_ROW)
        (void)snprintf(reply, sizeof(reply), "%lld", (long long)found);
    else if (code == SQLITE_DONE && is_read)
        (void)snprintf(reply, sizeof(reply), "no row");
    else if (code == SQLITE_DONE && !strchr("IUD", text[0]))
        (void)snprintf(reply, sizeof(reply), "ok");
    else if (code == SQLITE_DONE)
        (void)snprintf(reply, sizeof(reply), "%lld row%s", (long long)found,
                       found == 1 ? "" : "s");
    else
        (void)snprintf(reply, sizeof(reply), "%s", sqlite3_errmsg(database));
    (void)turns_stepped(0, reply);
    if (value)
        *value = found;
    /* The statement was done, and only its answer is lost. */
    if (verdict == PAGE_LOSE)
        return PROGRAM_LOST;
    /* Another actor is in a transaction: SQLite says so at once, for it has no time
     * to wait. */
    if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
        return PROGRAM_BUSY;
    return code == SQLITE_ROW || (code == SQLITE_DONE && !is_read) ? PROGRAM_OK
                                                                   : PROGRAM_NO;
}

enum program_answer program_sql(struct program_actor *self, int64_t *value,
                                const char *format, ...)
{
    enum program_answer answer;
    va_list args;
    char *text;

    va_start(args, format);
    text = sqlite3_vmprintf(format, args);
    va_end(args);
    if (!text)
        return PROGRAM_LOST;
    answer = step(self, text, text, value);
    sqlite3_free(text);
    return answer;
}

enum program_answer program_insert(struct program_actor *self, int64_t segment)
{
    const struct stage_role *role = &self->role;
    enum program_answer answer;
    char words[80];
    char *text = sqlite3_mprintf(
        "INSERT INTO orders (product_id, segment, user_id, quantity, "
        "price_cents, limit_per_user, created_ms, key, secret, fence, state, "
        "cancelled_ms) SELECT id, %lld, %lld, %lld, price_cents, "
        "limit_per_user, %lld, %Q, 1, 0, 0, 0 FROM products WHERE id = %lld",
        segment, role->user, role->quantity, (int64_t)(turns_now_us() / 1000),
        role->key, role->product);

    if (!text)
        return PROGRAM_LOST;
    (void)snprintf(words, sizeof(words), "INSERT the order of %c",
                   'a' + (int)self->index);
    answer = step(self, text, words, NULL);
    sqlite3_free(text);
    return answer;
}

bool program_number(const char *db_path, const char *select, int64_t *number)
{
    sqlite3 *db = NULL;
    int code = SQLITE_ERROR;
    bool is_read;

    /* The connection can write, because a journal that a dead actor left has to be
     * rolled back first. */
    if (sqlite3_open_v2(db_path, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK)
        *number = run(db, select, &code, &is_read);
    (void)sqlite3_close(db);
    return code == SQLITE_ROW;
}

enum program_answer program_redis(struct program_actor *self, char reply[],
                                  size_t size, const char *words[])
{
    struct page_thread shown = {.words_n = 0};
    enum page_verdict verdict;
    struct fail error;
    size_t n = 0;

    while (words[n])
        n++;
    (void)snprintf(shown.step.name, sizeof(shown.step.name), "%s", words[0]);
    (void)snprintf(shown.step.key, sizeof(shown.step.key), "%s", words[1]);
    turns_put_words(&shown, words, n, 0);
    verdict = turns_step(&shown);
    /* The reply is there for whatever comes below: callers compare texts. */
    (void)snprintf(reply, size, "(lost)");
    if (turns_ending())
        return PROGRAM_LOST;
    if (verdict == PAGE_HOLD) {
        (void)turns_stepped(0, "(held up)");
        return PROGRAM_LOST;
    }
    if (!redis)
        redis = peek_open(self->redis_url, &error);
    /* A connection that has failed is not used again: an answer may still be on
     * its way. */
    if (!redis || !peek_send(redis, n, words, reply, size)) {
        peek_close(redis);
        redis = NULL;
        (void)turns_stepped(0, "no answer");
        return PROGRAM_LOST;
    }
    (void)turns_stepped(0, reply);
    if (verdict == PAGE_LOSE)
        return PROGRAM_LOST;
    return strncmp(reply, "ERR", 3) == 0 || strncmp(reply, "WRONG", 5) == 0
               ? PROGRAM_NO
               : PROGRAM_OK;
}
