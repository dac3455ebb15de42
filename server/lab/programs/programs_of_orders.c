/*
 * Programs about orders: all by the real path, as a client of the service would
 * have it, with the service's own code. A payment or a cancellation is checked at
 * once: the answer must be what the data says.
 */
#include "server/lab/programs/program.h"

#include <inttypes.h>
#include <stdio.h>

/* Its last order was placed, now or before. */
static bool has_order(const struct program_actor *self)
{
    return self->order.outcome == ORDER_PLACED ||
           self->order.outcome == ORDER_REPLAYED;
}

void program_order_twice(struct program_actor *self)
{
    program_order(self);
    if (!turns_ending())
        program_order(self);
}

/* A client that has heard no clear answer asks once more, with the same words. */
void program_order_again(struct program_actor *self)
{
    program_order(self);
    /* Outcomes from ORDER_LOCK_TIMEOUT on leave it open whether there is an
     * order (order.h). */
    if (!turns_ending() && self->order.outcome >= ORDER_LOCK_TIMEOUT)
        program_order(self);
}

/* ---- cancel and payment ---------------------------------------------------- */

/* Somebody was told what came FIRST of payment, cancel and expiry, which stays so for ever:
 * STORE_ALREADY_PAID, ...; another status says nothing of it. It is wrong if the data says
 * otherwise. */
static void check_first(struct program_actor *self, const char *id,
                        enum store_status first)
{
    struct store_order order;
    bool is_so =
        store_order_get(self->worker.reader, id, &order, NULL) == STORE_OK;

    if (is_so && first == STORE_ALREADY_PAID)
        /* A payment counts only if it came in time, whoever looks at it later. */
        is_so = order.state == STORE_PAID && order.paid_ms < order.pay_until_ms;
    else if (is_so && first == STORE_ORDER_CANCELLED)
        is_so = order.state == STORE_CANCELLED;
    else if (is_so && first == STORE_ORDER_EXPIRED)
        is_so = order.state == STORE_EXPIRED &&
                order.pay_until_ms <= (int64_t)(turns_now_us() / 1000);
    if (!is_so)
        program_is_wrong("the order is not what somebody was told of it");
}

static void cancel_id(struct program_actor *self, const char *id)
{
    struct store_cancel cancel = {.id = ""};
    enum store_status status;

    (void)snprintf(cancel.id, sizeof(cancel.id), "%s", id);
    status =
        program_write(self, "cancel", "UPDATE the order and the stock: cancel",
                      STORE_CANCEL, &cancel.write);
    if (status == STORE_OK)
        turns_note(cancel.order.replayed ? "it was cancelled before"
                                         : "cancelled: its units are back");
    if (!turns_ending())
        /* The answer is compared at once, in the same move: nobody else has changed
         * the data. */
        check_first(self, id,
                    status == STORE_OK ? STORE_ORDER_CANCELLED : status);
}

/* The order that has the role's key, because the id is another actor's secret. False:
 * there is none. */
static bool find_order(struct program_actor *self, struct store_order *order)
{
    const char *key = self->role.key ? self->role.key : "";
    bool is_there =
        store_order_by_key(self->worker.reader, key, order, NULL) == STORE_OK;

    /* The data is what all share, and no step has read it: so it is heard. */
    turns_hear(&is_there, sizeof(is_there));
    return is_there;
}

void program_cancel(struct program_actor *self)
{
    struct store_order found;

    if (find_order(self, &found))
        cancel_id(self, found.id);
    else
        turns_note("there is no such order to cancel");
}

void program_order_cancel(struct program_actor *self)
{
    program_order(self);
    if (!turns_ending() && has_order(self))
        cancel_id(self, self->order.record.id);
}

/* False: the answer is not clear. */
static bool pay_once(struct program_actor *self, struct store_pay *pay)
{
    enum store_status status =
        program_write(self, "pay", "DELETE the hold, INSERT the payment",
                      STORE_PAY, &pay->write);
    char select[200];
    int64_t n;

    /* Clear answers of another kind say nothing about a payment. */
    if (status != STORE_OK && status != STORE_ORDER_EXPIRED &&
        status != STORE_ORDER_CANCELLED && status != STORE_ALREADY_PAID)
        return status != STORE_UNKNOWN && status != STORE_BUSY;
    turns_note("%s", status == STORE_OK ? "paid" : store_status_text(status));
    check_first(self, pay->id,
                status == STORE_OK ? STORE_ALREADY_PAID : status);
    /* Each payment that was answered is on record, accepted or to be given back. */
    (void)snprintf(select, sizeof(select),
                   "SELECT COUNT(*) FROM payments WHERE reference = '%s' "
                   "AND IFNULL(accepted, 0) = %d",
                   pay->payment, status == STORE_OK);
    if (program_number(self->db_path, select, &n) && n != 1)
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
    /* The same reference again must not be a second payment. */
    if (!pay_once(self, &pay) && !turns_ending())
        (void)pay_once(self, &pay);
}

void program_pay(struct program_actor *self)
{
    struct store_order found;

    if (find_order(self, &found))
        pay_id(self, found.id);
    else
        turns_note("there is no such order to pay");
}

/* Others may come between its look and the payment; and its committer waits by then for
 * the end of the time to pay. */
void program_pay_by_key(struct program_actor *self)
{
    struct page_thread shown = {.step.is_sql = true,
                                .step.name = "SELECT",
                                .step.sent = "SELECT the order"};

    /* A step by itself: others may come between the look and the payment. */
    (void)turns_step(&shown);
    if (turns_ending())
        return;
    (void)turns_stepped(0, "looked for");
    program_pay(self);
}

void program_order_pay(struct program_actor *self)
{
    program_order(self);
    if (!turns_ending() && has_order(self))
        pay_id(self, self->order.record.id);
}

/* ---- the stock ------------------------------------------------------------- */

void program_restock(struct program_actor *self, const char *key)
{
    enum store_status status;
    struct store_restock restock = {.product_id = self->role.product,
                                    .quantity = self->role.quantity};
    char words[80], select[300];
    int64_t n;

    (void)snprintf(restock.key, sizeof(restock.key), "%s", key);
    (void)snprintf(words, sizeof(words), "UPDATE the stock: %" PRId64 " more",
                   restock.quantity);
    status =
        program_write(self, "restock", words, STORE_RESTOCK, &restock.write);
    if (status == STORE_OK && restock.replayed)
        turns_note("that was added before");
    /* A key is another's if the units are not as many. */
    (void)snprintf(select, sizeof(select),
                   "SELECT COUNT(*) FROM restocks WHERE `key` = '%s' "
                   "AND product_id = %" PRId64 " AND quantity = %" PRId64,
                   key, restock.product_id, restock.quantity);
    /* A key of "" is no key: nothing says which row is this one's. */
    if (status == STORE_OK && !turns_ending() && key[0] &&
        program_number(self->db_path, select, &n) && n != 1)
        program_is_wrong("units were told as added, and are not on record");
}

void program_restock_by_key(struct program_actor *self)
{
    program_restock(self, self->role.key ? self->role.key : "");
}

/* The admin hears no answer, and asks again with the same key: so do all that run
 * this. */
void program_restock_twice(struct program_actor *self)
{
    program_restock(self, "more");
    if (!turns_ending())
        program_restock(self, "more");
}

const struct program_check program_restocks = {
    NULL, "SELECT COUNT(*) > 1 FROM restocks",
    "units were added twice under one key"};

void program_resize(struct program_actor *self)
{
    struct store_change change = {
        .product = {.id = self->role.product, .segments = self->role.segments},
        .given = STORE_GIVEN_SEGMENTS,
        .patch = true};
    char words[80];

    (void)snprintf(words, sizeof(words),
                   "UPDATE the stock: over %" PRId64 " segment%s",
                   self->role.segments, self->role.segments == 1 ? "" : "s");
    (void)program_write(self, "product-put", words, STORE_CHANGE,
                        &change.write);
}

void program_even_out(struct program_actor *self)
{
    struct store_even_out even_out = {.product_id = self->role.product};

    if (program_write(self, "even-out", "UPDATE the stock: deal it out evenly",
                      STORE_EVEN_OUT, &even_out.write) == STORE_OK)
        turns_note(even_out.moved ? "units were moved" : "it was even");
}
