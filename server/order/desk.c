/*
 * The door of the desk: orders come in and are put into their lanes; they are
 * answered; who has waited for too long is refused, so that threads which hang
 * on a lock server that is away do not keep the customers of other locks.
 */
#include "server/order/desk_private.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/clock.h"
#include "server/config.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/order/choice.h"
#include "server/order/foresee.h"
#include "server/order/outcome.h"
#include "server/selfcheck.h"
#include "server/sweeper.h"

/* Who does not want to wait for a lock waits for the batch ahead all the same. */
#define DESK_PATIENCE_MS_MIN 250

/* A lane without orders is forgotten after that, and how busy it was. */
#define DESK_FORGET_MS 2000

/* ---- answering ------------------------------------------------------------ */

/* One segment had too few, the product enough, and nobody asked the others: the
 * naive way does so. */
static bool is_false_sold_out(const struct ticket *ticket)
{
    return ticket->outcome == ORDER_SOLD_OUT &&
           ticket->order.status == STORE_SHORT;
}

void desk_answer(struct desk *desk, struct ticket *ticket, uint64_t now_us)
{
    choice_settle(desk->app, ticket);
    metrics_order(desk->app->metrics, ticket->outcome);
    metrics_time(desk->app->metrics, METRICS_ORDER,
                 now_us - ticket->submitted_us);
    if (is_false_sold_out(ticket))
        metrics_false_sold_out(desk->app->metrics);
    atomic_fetch_sub(&desk->depth, 1);
    ticket->done(ticket);
}

/* Of a list of tickets, linked by next. */
static void answer_all(struct desk *desk, struct ticket *list)
{
    uint64_t now_us = clock_us();
    struct ticket *next;

    for (; list; list = next) {
        next = list->next;
        desk_answer(desk, list, now_us);
    }
}

void desk_refuse(struct desk *desk, struct ticket *list,
                 enum order_outcome outcome, const char *why)
{
    for (struct ticket *ticket = list; ticket; ticket = ticket->next)
        outcome_set(ticket, outcome, why);
    answer_all(desk, list);
}

/* ---- sweeping ------------------------------------------------------------- */

static uint64_t patience_ms(const struct desk *desk)
{
    const struct config *config = desk->app->config;
    uint64_t patience = (uint64_t)config->lock_wait_ms;
    uint64_t most = (uint64_t)config->request_deadline_ms / 2;

    if (patience < DESK_PATIENCE_MS_MIN)
        patience = DESK_PATIENCE_MS_MIN;
    return patience < most ? patience : most;
}

static uint64_t due_ms(const struct desk *desk, const struct ticket *ticket)
{
    return ticket ? ticket->submitted_us / 1000 + patience_ms(desk)
                  : UINT64_MAX;
}

/* Whether all that a lane has waited for is the database. */
static bool waits_for_store(const struct lane *lane)
{
    if (lane->state == LANE_ENTERING)
        return atomic_load(&lane->keeper->worker.at_store);
    return lane->state == LANE_OPEN && lane_is_clear(lane);
}

/* Under the mutex: what a ticket has waited for in vain. */
static void judge(struct desk *desk, struct ticket *ticket)
{
    const struct lane *lane = ticket->lane;

    if (atomic_load(&desk->lock_away))
        outcome_set(ticket, ORDER_LOCK_UNREACHABLE,
                    "the lock server did not answer those before");
    else if (waits_for_store(lane))
        outcome_set(ticket, ORDER_STORE_UNAVAILABLE,
                    "the database was busy for too long; nothing was ordered");
    else
        outcome_set(ticket, ORDER_OVERLOADED, "waited too long in the queue");
}

/* Under the mutex: those that came before, as a list. */
static struct ticket *take_due(struct desk *desk, uint64_t now_ms)
{
    struct ticket *list = NULL, **last = &list;

    while (due_ms(desk, lanes_oldest(desk->lanes)) <= now_ms) {
        *last = lanes_pop(desk->lanes);
        judge(desk, *last);
        last = &(*last)->next;
    }
    *last = NULL;
    return list;
}

static uint64_t sweep(void *ctx, uint64_t now_ms)
{
    struct desk *desk = ctx;
    struct ticket *list;
    uint64_t next_ms;

    pthread_mutex_lock(&desk->mutex);
    list = take_due(desk, now_ms);
    next_ms = due_ms(desk, lanes_oldest(desk->lanes));
    if (now_ms > DESK_FORGET_MS)
        lanes_forget(desk->lanes, (now_ms - DESK_FORGET_MS) * 1000);
    pthread_mutex_unlock(&desk->mutex);
    answer_all(desk, list);
    return next_ms;
}

/* ---- the door ------------------------------------------------------------- */

/* Sees to it that somebody comes for a ticket. True: it is to be the flow. */
static bool call_for(struct desk *desk, const struct lane *lane)
{
    bool direct = desk->app->config->desk == DESK_DIRECT;

    if (direct ||
        (lane->state == LANE_SHUT && lane->waiting == 1 && lane->queue))
        desk_call(desk);
    return lane->state == LANE_OPEN && lane->queue;
}

/* The outcome of who is not taken in. */
static bool turn_away(struct ticket *ticket, enum order_outcome outcome,
                      const char *why)
{
    outcome_set(ticket, outcome, why);
    return false;
}

/* Whether there is a place for the ticket, which it has until it is answered. */
static bool enter(struct desk *desk, struct ticket *ticket, uint64_t now_us)
{
    size_t most = (size_t)desk->app->config->queue_max;

    if (atomic_fetch_add(&desk->depth, 1) >= most) {
        atomic_fetch_sub(&desk->depth, 1);
        return turn_away(ticket, ORDER_OVERLOADED,
                         "too many orders are waiting");
    }
    ticket->submitted_us = now_us;
    ticket->choice.basis = CHOICE_ONLY;
    return true;
}

/* Those that have a place now; the others go before *REFUSED. */
static struct ticket *enter_all(struct desk *desk, struct ticket *list,
                                struct ticket **refused)
{
    struct ticket *entered = NULL, **last = &entered, *next;
    uint64_t now_us = clock_us();

    for (; list; list = next) {
        next = list->next;
        if (enter(desk, list, now_us)) {
            *last = list;
            last = &list->next;
        } else {
            list->next = *refused;
            *refused = list;
        }
    }
    *last = NULL;
    return entered;
}

bool desk_may_wait(struct desk *desk, struct ticket *ticket)
{
    if (desk->stopping)
        return turn_away(ticket, ORDER_SHUTTING_DOWN,
                         "the service is shutting down");
    return choice_make(desk->app, ticket);
}

/* Under the mutex: whether the ticket is in its lane. */
static bool line_up(struct desk *desk, struct ticket *ticket, bool *flows)
{
    const struct lane *lane;

    if (!desk_may_wait(desk, ticket))
        return false;
    lane = lanes_push(desk->lanes, ticket);
    if (!lane) {
        turn_away(ticket, ORDER_OVERLOADED, "out of memory");
        choice_settle(desk->app, ticket);
        return false;
    }
    *flows |= call_for(desk, lane);
    return true;
}

/* Who finds no lane gives his place back and goes before *REFUSED. */
static void line_up_all(struct desk *desk, struct ticket *list,
                        struct ticket **refused)
{
    struct ticket *next;
    bool flows = false;

    pthread_mutex_lock(&desk->mutex);
    for (; list; list = next) {
        next = list->next;
        if (line_up(desk, list, &flows))
            continue;
        atomic_fetch_sub(&desk->depth, 1);
        list->next = *refused;
        *refused = list;
    }
    pthread_mutex_unlock(&desk->mutex);
    if (flows)
        store_stream_wake(desk->stream);
}

struct ticket *desk_submit(struct desk *desk, struct ticket *list)
{
    struct ticket *refused = NULL;

    list = enter_all(desk, list, &refused);
    list = foresee_take(desk->foresee, list);
    if (list)
        line_up_all(desk, list, &refused);
    for (list = refused; list; list = list->next)
        metrics_order(desk->app->metrics, list->outcome);
    return refused;
}

/* ---- refused from memory --------------------------------------------------- */

static void set_sold_out(const struct desk *desk, struct ticket *ticket)
{
    const struct store_order *order = &ticket->order;

    outcome_set(ticket, ORDER_SOLD_OUT, store_status_text(STORE_SOLD_OUT));
    selfcheck_refused(desk->app->selfcheck, order->product_id, order->quantity);
}

void desk_sold_out(struct desk *desk, struct ticket *ticket)
{
    set_sold_out(desk, ticket);
    desk_answer(desk, ticket, clock_us());
}

/* Who has a key may have bought before, and is told so, sold out or not: see
 * foresee.h. The lab's way to sell does not come this way. */
bool desk_foresees(struct desk *desk, struct ticket *ticket)
{
    const struct store_order *order = &ticket->order;

    if (order->key[0] ||
        !store_knows_sold_out(desk->app->store, order->product_id,
                              order->quantity))
        return false;
    set_sold_out(desk, ticket);
    metrics_order(desk->app->metrics, ORDER_SOLD_OUT);
    return true;
}

size_t desk_depth(const struct desk *desk)
{
    return atomic_load(&desk->depth);
}

/* ---- opening and closing -------------------------------------------------- */

static bool start(struct desk *desk, size_t threads_n)
{
    if (desk->stop_fd < 0 || flow_open(desk, NULL) != STORE_OK)
        return false;
    desk->sweeper =
        sweeper_open("desk-sweeper", sweep, desk, patience_ms(desk));
    if (!desk->sweeper)
        return false;
    while (desk->threads_n < threads_n)
        if (!desk_thread_start(desk))
            return false;
    return true;
}

struct desk *desk_open(const struct app *app)
{
    size_t n = (size_t)app->config->workers;
    struct desk *desk =
        calloc(1, sizeof(*desk) + n * sizeof(struct desk_thread));

    if (!desk)
        return NULL;
    desk->lanes = lanes_new();
    desk->foresee = foresee_new(app, desk);
    if (!desk->lanes || !desk->foresee) {
        lanes_free(desk->lanes);
        foresee_free(desk->foresee);
        free(desk);
        return NULL;
    }
    desk->app = app;
    desk->stop_fd = eventfd(0, EFD_CLOEXEC);
    pthread_mutex_init(&desk->mutex, NULL);
    pthread_cond_init(&desk->placed, NULL);
    if (start(desk, n))
        return desk;
    log_error("desk", "error=\"not enough memory, threads or descriptors\"");
    desk_close(desk);
    return NULL;
}

/* Those that wait now. */
static void refuse_waiting(struct desk *desk)
{
    struct ticket *waiting;

    pthread_mutex_lock(&desk->mutex);
    waiting = take_due(desk, UINT64_MAX - 1);
    pthread_mutex_unlock(&desk->mutex);
    desk_refuse(desk, waiting, ORDER_SHUTTING_DOWN,
                "the service is shutting down; nothing was ordered");
}

/* Twice those that wait: meanwhile some may have come back into their lane,
 * whose lock was overtaken. And the flow may have told the keepers that a lane
 * is clear, and still be busy with answers. */
void desk_stop(struct desk *desk)
{
    pthread_mutex_lock(&desk->mutex);
    desk->stopping = true;
    for (size_t i = 0; i < desk->threads_n; i++)
        pthread_cond_signal(&desk->threads[i].wake);
    pthread_mutex_unlock(&desk->mutex);
    refuse_waiting(desk);
    eventfd_write(desk->stop_fd, 1);   /* whatever --think-ms says */
    dlock_end_waits(desk->app->locks); /* whatever --lock-wait-ms says */
    for (size_t i = 0; i < desk->threads_n && !desk->joined; i++)
        pthread_join(desk->threads[i].thread, NULL);
    desk->joined = true;
    refuse_waiting(desk);
    if (desk->stream)
        store_stream_settle(desk->stream);
    sweeper_close(desk->sweeper);
    desk->sweeper = NULL;
}

void desk_close(struct desk *desk)
{
    if (!desk)
        return;
    desk_stop(desk);
    store_stream_close(desk->stream);
    for (size_t i = 0; i < desk->threads_n; i++)
        desk_thread_release(&desk->threads[i]);
    lanes_free(desk->lanes);
    foresee_free(desk->foresee);
    if (desk->stop_fd >= 0)
        close(desk->stop_fd);
    pthread_cond_destroy(&desk->placed);
    pthread_mutex_destroy(&desk->mutex);
    free(desk);
}
