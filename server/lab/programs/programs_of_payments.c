/*
 * Programs about payments, by the real path. Whoever pays or cancels checks at once that
 * the answer is what the data says: which of payment, cancel and expiry came first stays
 * so for ever.
 */
#include "server/lab/programs/program.h"

#include <stdio.h>

#include "server/lab/stage/turns.h"

static bool is_so(const struct store_order *order, enum store_status first)
{
    switch (first) {
    case STORE_ALREADY_PAID:
        return order->state == STORE_PAID &&
               order->paid_ms < order->pay_until_ms;
    case STORE_ORDER_CANCELLED:
        return order->state == STORE_CANCELLED;
    case STORE_ORDER_EXPIRED:
        return order->state == STORE_EXPIRED;
    default:
        return true; /* nothing was told */
    }
}

void program_check_first(struct program_actor *self, const char *id,
                         enum store_status first)
{
    struct store_order order;

    if (store_order_get(self->worker.reader, id, &order, NULL) != STORE_OK ||
        !is_so(&order, first))
        program_is_wrong("the order is not what somebody was told of it");
}

/* As what it was told: accepted or too late. */
static bool is_on_record(const struct program_actor *self,
                         const struct store_pay *pay)
{
    char select[200];

    (void)snprintf(select, sizeof(select),
                   "SELECT COUNT(*) FROM payments WHERE reference = '%s' "
                   "AND IFNULL(accepted, 0) = %d",
                   pay->payment, pay->write.status == STORE_OK);
    return program_number(self->db_path, select) == 1;
}

static void begin_pay(struct store *store, struct store_write *write)
{
    store_pay_begin(store, (struct store_pay *)write);
}

static bool is_too_late(enum store_status status)
{
    return status == STORE_ORDER_EXPIRED || status == STORE_ORDER_CANCELLED ||
           status == STORE_ALREADY_PAID;
}

/* False: the answer is not clear. */
static bool pay_once(struct program_actor *self, struct store_pay *pay)
{
    enum store_status status =
        program_write(self, "pay", "DELETE the hold, INSERT the payment",
                      &pay->write, begin_pay);

    if (status != STORE_OK && !is_too_late(status))
        return status != STORE_UNKNOWN && status != STORE_BUSY;
    program_say("%s", status == STORE_OK ? "paid" : store_status_text(status));
    program_check_first(self, pay->id,
                        status == STORE_OK ? STORE_ALREADY_PAID : status);
    if (!is_on_record(self, pay))
        program_is_wrong("a payment was taken, and is not on record");
    return true;
}

/* Without a clear answer it is sent once more, under the same reference. */
static void pay_id(struct program_actor *self, const char *id)
{
    struct store_pay pay = {.id = ""};

    (void)snprintf(pay.id, sizeof(pay.id), "%s", id);
    (void)snprintf(pay.payment, sizeof(pay.payment), "payment-%c",
                   'a' + (int)self->index);
    if (!pay_once(self, &pay) && !program_is_ending())
        (void)pay_once(self, &pay);
}

void program_pay(struct program_actor *self, const char *key)
{
    struct store_order found;

    if (program_find_order(self, key, &found))
        pay_id(self, found.id);
    else
        program_say("there is no such order to pay");
}

/* Others may come between its look and the payment; and its committer waits by then for
 * the end of the time to pay. */
static void pay_by_key(struct program_actor *self)
{
    struct page_thread shown = {.is_sql = true,
                                .step = "SELECT",
                                .words = "SELECT the order",
                                .words_n = 1};

    (void)turns_step(&shown);
    if (program_is_ending())
        return;
    (void)turns_stepped(0, "looked for");
    program_pay(self, self->role.key ? self->role.key : "");
}

static void order_pay(struct program_actor *self)
{
    program_order(self);
    if (!program_is_ending() && program_has_order(self))
        pay_id(self, self->order.record.id);
}

const struct program programs_of_payments[] = {
    {"order-pay", "orders, then pays for that", 1, order_pay, NULL},
    {"pay", "pays for the order that has this key", 0, pay_by_key, NULL},
    {0},
};
