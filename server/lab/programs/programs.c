/* See program.h: the table of programs, and what they are made of. */
#include "server/lab/programs/program.h"

#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/lab/stage/watch.h"

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

    if (turns_ending())
        return;
    lane->answered = true;
    lane->placed_n += outcome == ORDER_PLACED;
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
    turns_own_lane()->orders_n++;
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
                                const char *words, struct store_write *write,
                                void (*begin)(struct store *store,
                                              struct store_write *write))
{
    struct page_thread shown = {.step.is_sql = true, .is_write = true};
    sem_t written;

    (void)snprintf(shown.step.name, sizeof(shown.step.name), "%s", step);
    (void)snprintf(shown.step.sent, sizeof(shown.step.sent), "%s", words);
    shown.step.is_local = watch_batched; /* the committer has the steps */
    shown.step.is_sql = !watch_batched;
    watch_commit(turns_step(&shown));
    if (turns_ending())
        return STORE_CLOSED;
    if (watch_batched)
        (void)turns_stepped(0, "now");
    (void)sem_init(&written, 0, 0);
    write->done = on_written;
    /* cppcheck-suppress autoVariables ; it is written before this is gone */
    write->owner = &written;
    begin(self->worker.app->store, write);
    while (sem_wait(&written) != 0)
        continue;
    (void)sem_destroy(&written);
    if (!watch_batched)
        (void)turns_stepped(0, write->status == STORE_OK
                                   ? "done"
                                   : store_status_text(write->status));
    return write->status;
}
