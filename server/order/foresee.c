/*
 * Orders with a key for what is known to be sold out. See foresee.h.
 *
 * An errand takes all that wait, as the store's stream does (db/stream.c): while
 * it is under way the next ones gather, and at any time it has at most one place
 * in the pool's queue. Whatever goes wrong - the pool is full or closing, the
 * database is busy or slow - the orders go the usual way, by lock and transaction.
 * They have their places at the desk all the time, so that its bound holds.
 */
#include "server/order/foresee.h"

#include <pthread.h>
#include <stdlib.h>

#include "server/clock.h"
#include "server/order/desk_private.h"
#include "server/pool.h"

/* An errand reads for so long, and one read more. The pool is others', too, and
 * who has waited for that may have to wait for a lock yet. */
#define LOOK_MS_MAX 50

struct foresee {
    const struct app *app;
    struct desk *desk;
    struct errand errand;
    pthread_mutex_t mutex; /* guards all below */
    struct ticket *waiting, **last;
    bool under_way; /* the errand */
};

/* ---- answering ------------------------------------------------------------ */

/* Under the mutex: those that may wait in a lane; the others go before *REFUSED. */
static struct ticket *choose(struct desk *desk, struct ticket *list,
                             struct ticket **refused)
{
    struct ticket *chosen = NULL, **last = &chosen, *next;

    for (; list; list = next) {
        next = list->next;
        if (desk_may_wait(desk, list)) {
            *last = list;
            last = &list->next;
        } else {
            list->next = *refused;
            *refused = list;
        }
    }
    *last = NULL;
    return chosen;
}

/*
 * The usual way, which may be shut by now. They keep their places at the desk,
 * and have waited since they were submitted.
 */
static void hand_on(struct desk *desk, struct ticket *list)
{
    struct ticket *refused = NULL, *next;
    bool flows;

    pthread_mutex_lock(&desk->mutex);
    list = flow_send_on(desk, choose(desk, list, &refused));
    flows = lanes_flowing(desk->lanes);
    pthread_mutex_unlock(&desk->mutex);
    if (flows)
        store_stream_wake(desk->stream);
    desk_refuse(desk, list, ORDER_OVERLOADED, "out of memory");
    for (; refused; refused = next) {
        next = refused->next;
        desk_answer(desk, refused, clock_us());
    }
}

/* Once a read has failed the others would wait for the same in vain. */
static void look(struct foresee *foresee, struct ticket *list,
                 struct store_reader *reader)
{
    uint64_t until_ms = clock_ms() + LOOK_MS_MAX;
    struct ticket *rest = NULL, **last = &rest, *next;
    enum store_status status = STORE_OK;
    bool sold_out;

    for (; list; list = next) {
        next = list->next;
        sold_out = false;
        if (status == STORE_OK && clock_ms() < until_ms)
            status = store_look_sold_out(foresee->app->store, reader,
                                         &list->order, &sold_out, NULL);
        if (sold_out) {
            desk_sold_out(foresee->desk, list);
            continue;
        }
        *last = list;
        last = &list->next;
    }
    *last = NULL;
    hand_on(foresee->desk, rest);
}

/* ---- the errand ----------------------------------------------------------- */

/* All that wait. ENDS: the errand is nobody's then. */
static struct ticket *take_waiting(struct foresee *foresee, bool ends)
{
    struct ticket *list;

    pthread_mutex_lock(&foresee->mutex);
    list = foresee->waiting;
    foresee->waiting = NULL;
    foresee->last = &foresee->waiting;
    if (ends)
        foresee->under_way = false;
    pthread_mutex_unlock(&foresee->mutex);
    return list;
}

static void errand_refuse(struct errand *errand)
{
    struct foresee *foresee = errand->owner;

    hand_on(foresee->desk, take_waiting(foresee, true));
}

static void begin(struct foresee *foresee)
{
    if (!pool_submit(foresee->app->pool, &foresee->errand))
        errand_refuse(&foresee->errand);
}

/* Those that came meanwhile have to queue again: the pool is others', too. */
static void errand_run(struct errand *errand, struct store_reader *reader)
{
    struct foresee *foresee = errand->owner;
    bool more;

    look(foresee, take_waiting(foresee, false), reader);
    pthread_mutex_lock(&foresee->mutex);
    more = foresee->waiting != NULL;
    foresee->under_way = more;
    pthread_mutex_unlock(&foresee->mutex);
    if (more)
        begin(foresee);
}

/* ---- taking --------------------------------------------------------------- */

static bool is_wanted(const struct foresee *foresee,
                      const struct ticket *ticket)
{
    const struct store_order *order = &ticket->order;

    return order->key[0] && foresee->app->pool &&
           store_knows_sold_out(foresee->app->store, order->product_id,
                                order->quantity);
}

/* LAST is where LIST ends. */
static void put_waiting(struct foresee *foresee, struct ticket *list,
                        struct ticket **last)
{
    bool begins;

    pthread_mutex_lock(&foresee->mutex);
    *foresee->last = list;
    foresee->last = last;
    begins = !foresee->under_way;
    foresee->under_way = true;
    pthread_mutex_unlock(&foresee->mutex);
    if (begins)
        begin(foresee);
}

struct ticket *foresee_take(struct foresee *foresee, struct ticket *list)
{
    struct ticket *ours = NULL, **ours_last = &ours;
    struct ticket *rest = NULL, **rest_last = &rest;

    for (; list; list = list->next) {
        if (is_wanted(foresee, list)) {
            *ours_last = list;
            ours_last = &list->next;
        } else {
            *rest_last = list;
            rest_last = &list->next;
        }
    }
    *ours_last = NULL;
    *rest_last = NULL;
    if (ours)
        put_waiting(foresee, ours, ours_last);
    return rest;
}

/* ---- opening and closing -------------------------------------------------- */

struct foresee *foresee_new(const struct app *app, struct desk *desk)
{
    struct foresee *foresee = calloc(1, sizeof(*foresee));

    if (!foresee)
        return NULL;
    foresee->app = app;
    foresee->desk = desk;
    foresee->errand = (struct errand){
        .run = errand_run, .refuse = errand_refuse, .owner = foresee};
    foresee->last = &foresee->waiting;
    pthread_mutex_init(&foresee->mutex, NULL);
    return foresee;
}

void foresee_free(struct foresee *foresee)
{
    if (!foresee)
        return;
    pthread_mutex_destroy(&foresee->mutex);
    free(foresee);
}
