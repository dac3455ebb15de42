/* See choice.h. */
#include "server/order/choice.h"

#include "server/app.h"
#include "server/config.h"
#include "server/metrics.h"
#include "server/order/outcome.h"

/* So many segments had too few: it is time to ask all of them at once. */
#define CHOICE_SHORTS_MAX 3

/* The store is asked for SEGMENT, under the lock of LANE. */
static bool take(struct ticket *ticket, int64_t lane, int64_t segment,
                 enum choice_basis basis)
{
    ticket->order.segment = segment;
    ticket->choice.lane = lane;
    ticket->choice.basis = basis;
    return true;
}

/* Of none that seems to have enough, the first is as good as any to ask: it is
 * always in use. */
static bool take_blind(struct ticket *ticket)
{
    int64_t segment = ticket->choice.shorts == 0 ? 0 : STORE_SEGMENT_ANY;

    return take(ticket, segment, segment, CHOICE_BLIND);
}

static bool is_cold(struct ticket *ticket)
{
    ticket->choice.basis = CHOICE_ONLY;
    outcome_set(ticket, ORDER_WARMING_UP,
                "the product's keys are being rebuilt; nothing was ordered");
    return false;
}

static bool choose(const struct app *app, struct ticket *ticket)
{
    const struct store_order *order = &ticket->order;
    struct warm_ticket *warm = &ticket->choice.warm;

    switch (warm_take(app->warm, order->product_id, order->quantity, warm)) {
    case WARM_SEGMENT:
        return take(ticket, warm->segment, warm->segment, CHOICE_WARM);
    case WARM_GATHER:
        return take_blind(ticket);
    case WARM_COLD:
        return is_cold(ticket);
    case WARM_SINGLE:
        break;
    }
    return take(ticket, 0, 0, CHOICE_ONLY);
}

/* The textbook's way knows of one segment only, and never asks another. */
bool choice_make(const struct app *app, struct ticket *ticket)
{
    ticket->choice.shorts = 0;
    if (app->config->deduct == DEDUCT_NAIVE)
        return take(ticket, 0, 0, CHOICE_ONLY);
    return choose(app, ticket);
}

bool choice_is_short(const struct app *app, const struct ticket *ticket)
{
    return ticket->order.status == STORE_SHORT &&
           app->config->deduct != DEDUCT_NAIVE;
}

bool choice_again(const struct app *app, struct ticket *ticket)
{
    struct choice *choice = &ticket->choice;

    if (choice->basis == CHOICE_WARM)
        warm_settle(app->warm, &choice->warm, WARM_SHORT);
    if (++choice->shorts >= CHOICE_SHORTS_MAX)
        return take_blind(ticket);
    return choose(app, ticket);
}

void choice_settle(const struct app *app, struct ticket *ticket)
{
    struct choice *choice = &ticket->choice;
    bool sold = ticket->outcome == ORDER_PLACED;

    if (choice->basis == CHOICE_ONLY) {
        /* The keys were not told, since we did not know that they count. */
        if (sold && ticket->order.segments > 1)
            warm_moved(app->warm, ticket->order.product_id);
        return;
    }
    choice->warm.number = ticket->order.number;
    if (choice->basis == CHOICE_WARM)
        warm_settle(app->warm, &choice->warm, sold ? WARM_SOLD : WARM_KEPT);
    else if (sold)
        warm_moved(app->warm, ticket->order.product_id);
    choice->basis = CHOICE_ONLY;
    metrics_probes(app->metrics, choice->shorts + 1);
}
