/*
 * An instance of the service that sells in batches, from where orders come in:
 * dispatcher, queues, lock workers, the store's committer, all as `stockade serve`
 * has them. What is not there is HTTP.
 */
#include <semaphore.h>
#include <stdio.h>

#include "server/lab/programs/program.h"
#include "server/lab/stage/turns.h"
#include "server/order/dispatcher.h"
#include "server/order/hints.h"

enum { ORDERS_N = 2 };

struct instance {
    struct program_actor *actor;
    struct order orders[ORDERS_N];
    sem_t answered;
};

/* On a helper's thread it is a step: others may move between the COMMIT and it. */
static void tell(const struct order *order)
{
    const char *slug = order_outcome_slug(order->outcome);
    int user = (int)order->record.user_id;
    struct page_thread shown = {.is_local = true};

    if (turns_is_main()) {
        turns_note("the answer to %d: %s", user, slug);
        return;
    }
    (void)snprintf(shown.step, sizeof(shown.step), "the answer to %d", user);
    (void)turns_step(&shown);
    (void)turns_stepped(0, slug);
}

static void on_answer(struct order *order)
{
    struct instance *instance = order->owner;
    struct page_lane *lane = turns_own_lane();

    tell(order);
    /* The worst of them is the instance's. */
    if (!lane->answered || order->outcome > lane->outcome)
        lane->outcome = order->outcome;
    lane->answered = true;
    (void)sem_post(&instance->answered);
}

/* What the loop of HTTP does is a step: nobody knows when requests come. */
static bool is_time_to(const char *what)
{
    struct page_thread shown = {.step = "loop", .words_n = 0};

    (void)snprintf(shown.step, sizeof(shown.step), "%s", what);
    (void)turns_step(&shown);
    (void)turns_stepped(0, "now");
    return !turns_ending();
}

static void hand_in(struct instance *instance, struct order *order,
                    int64_t user)
{
    const struct program_actor *actor = instance->actor;
    struct dispatcher *dispatcher = actor->app->dispatcher;

    *order = (struct order){.record = {.product_id = actor->role.product,
                                       .user_id = user,
                                       .quantity = actor->role.quantity},
                            .done = on_answer,
                            .owner = instance};
    if (dispatcher_refuses(dispatcher, order))
        on_answer(order);
    else
        dispatcher_submit(dispatcher, order);
}

static void sell(struct instance *instance)
{
    const struct program_actor *actor = instance->actor;
    unsigned n = 0;

    while (n < ORDERS_N && is_time_to("an order comes in")) {
        hand_in(instance, &instance->orders[n],
                actor->role.user + (int64_t)n * STAGE_ACTORS_MAX);
        n++;
    }
    for (unsigned i = 0; i < n; i++)
        while (sem_wait(&instance->answered) != 0)
            continue;
    (void)is_time_to("the instance stops");
}

static void run(struct program_actor *self)
{
    struct app *app = self->app;
    struct hints *hints = app->hints;
    struct instance instance = {.actor = self};

    (void)sem_init(&instance.answered, 0, 0);
    app->hints = hints_open(app, NULL);
    app->workers = tasks_open(app, "worker", 1);
    app->dispatcher = app->hints && app->workers ? dispatcher_open(app) : NULL;
    if (app->dispatcher)
        sell(&instance);
    else
        program_say("an instance cannot be opened");
    dispatcher_close(app->dispatcher);
    tasks_close(app->workers);
    hints_close(app->hints);
    app->dispatcher = NULL;
    app->workers = NULL;
    app->hints = hints;
    (void)sem_destroy(&instance.answered);
}

const struct program programs_of_instances[] = {
    {"instance", "sells in batches: two orders come in, then it stops",
     ORDERS_N, run, NULL},
    {0},
};
