/*
 * An instance of the service that sells in batches, from where orders come in:
 * dispatcher, queues, lock workers, the store's committer, all as `stockade serve`
 * has them. What is not there is HTTP.
 */
#include <assert.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include "server/lab/programs/program.h"
#include "server/order/dispatcher.h"
#include "server/order/hints.h"

enum { ORDERS_MAX = 4 };

struct instance {
    struct program_actor *actor;
    struct order orders[ORDERS_MAX];
    unsigned orders_n, answered_n;
    sem_t answered;
};

static void on_answer(struct order *order)
{
    const char *slug = order_outcome_slug(order->outcome);
    int user = (int)order->record.user_id;
    struct page_thread shown = {.step.is_local = true};
    struct instance *instance = order->owner;
    struct page_lane *lane = turns_own_lane();

    (void)snprintf(shown.step.name, sizeof(shown.step.name), "the answer to %d",
                   user);
    /* On the program's own thread the move that goes on is the answer's. */
    if (turns_is_main()) {
        turns_note("the answer to %d: %s", user, slug);
    } else {
        /* On a helper's thread it is a step: others may move between the COMMIT and it. */
        (void)turns_step(&shown);
        (void)turns_stepped(0, slug);
    }
    /* The worst of them is the instance's. */
    /* Outcomes are in the order of how bad they are. */
    if (!lane->answered || order->outcome > lane->outcome)
        lane->outcome = order->outcome;
    lane->outcomes |= 1u << order->outcome;
    lane->answered = true;
    if (order->record.key[0] && order->outcome > lane->of_key)
        lane->of_key = order->outcome;
    /* The id comes before the count, which gives it its place. */
    program_keep_id(order);
    lane->placed_n += order->outcome == ORDER_PLACED;
    instance->answered_n++;
    (void)sem_post(&instance->answered);
}

/* A request's coming in is a step, because nobody knows when it happens. */
static bool is_time_to(const char *what)
{
    struct page_thread shown = {.step.name = "loop"};

    (void)snprintf(shown.step.name, sizeof(shown.step.name), "%s", what);
    (void)turns_step(&shown);
    (void)turns_stepped(0, "now");
    return !turns_ending();
}

/* ARRIVAL: see programs.txt. */
static void hand_in(struct instance *instance, char arrival)
{
    const struct program_actor *actor = instance->actor;
    const struct stage_role *role = &actor->role;
    struct dispatcher *dispatcher = actor->app->dispatcher;
    unsigned n = instance->orders_n;
    struct order *order = &instance->orders[n];

    assert(n < ORDERS_MAX);
    /* With no order under way, the stage must judge anew whether there is too little: the
     * stock may have risen since. */
    if (instance->answered_n == n) {
        turns_own_lane()->answered = false;
        turns_own_lane()->orders_n++;
    }
    *order = (struct order){.record = {.product_id = role->product,
                                       .user_id = role->user,
                                       .quantity = role->quantity},
                            .done = on_answer,
                            .owner = instance};
    /* The users of an instance are apart by the number of actors: so none is
     * another instance's. */
    if (arrival == 'o')
        order->record.user_id += (int64_t)n * STAGE_ACTORS_MAX;
    else if (role->key)
        (void)snprintf(order->record.key, sizeof(order->record.key), "%s",
                       role->key);
    instance->orders_n++;
    /* A refusal by what is known comes at once, and on this thread: nothing of it
     * reaches the committer. */
    if (dispatcher_refuse_known(dispatcher, order))
        on_answer(order);
    else
        dispatcher_submit(dispatcher, order);
}

/* False: the schedule is over. */
static bool arrive(struct instance *instance, char arrival)
{
    struct program_actor *actor = instance->actor;

    if (arrival == 'r') {
        program_restock(actor, "more");
        return !turns_ending();
    }
    /* A restock has its own step: what comes in is its own. */
    if (!is_time_to(arrival == 'c'   ? "a cancel comes in"
                    : arrival == 'p' ? "a payment comes in"
                                     : "an order comes in"))
        return false;
    if (arrival == 'c')
        program_cancel(actor);
    else if (arrival == 'p')
        program_pay(actor);
    else
        hand_in(instance, arrival);
    /* An order goes on by itself: the schedule's end lets it be answered. */
    return arrival == 'o' || arrival == 'u' || !turns_ending();
}

void program_run_instance(struct program_actor *self)
{
    struct app *app = self->app;
    struct hints *hints = app->hints;
    struct instance instance = {.actor = self};
    const char *next = program_find(self->role.program)->deeds;

    (void)sem_init(&instance.answered, 0, 0);
    /* The process's hints are for one order at a time: an instance has its own, and
     * puts the others back. */
    app->hints = hints_open(app, NULL);
    app->workers = tasks_open(app, "worker", 1);
    app->dispatcher = app->hints && app->workers ? dispatcher_open(app) : NULL;
    if (!app->dispatcher)
        turns_note("an instance cannot be opened");
    while (app->dispatcher && *next && arrive(&instance, *next))
        next++;
    /* All that came in must be answered before the parts are closed. */
    for (unsigned i = 0; i < instance.orders_n; i++)
        while (sem_wait(&instance.answered) != 0)
            continue;
    if (app->dispatcher)
        (void)is_time_to("the instance stops");
    /* The order of closing: who hands work on goes before who does it. */
    dispatcher_close(app->dispatcher);
    tasks_close(app->workers);
    hints_close(app->hints);
    app->dispatcher = NULL;
    app->workers = NULL;
    app->hints = hints;
    (void)sem_destroy(&instance.answered);
}
