/*
 * Lessons about a look and a deed with time between them: what was true at the look
 * need not be at the deed.
 */
#include "server/lab/lessons/lesson.h"

#include <string.h>

enum { SALE_ENDS_IN_MS = 5000 };

PROGRAM_BEGINS(cancel)
PROGRAM_BEGINS(change)

static int64_t now_ms(void)
{
    return (int64_t)(turns_now_us() / 1000);
}

/* ---- the end of a sale -------------------------------------------------------- */

void lesson_end_soon(struct program_actor *self)
{
    struct store_change change = {
        .product = {.id = self->role.product,
                    .ends_ms = now_ms() + SALE_ENDS_IN_MS},
        .given = STORE_GIVEN_ENDS,
        .patch = true};

    (void)program_write(self, "product-put",
                        "UPDATE the product: its sale ends in 5 s",
                        &change.write, begin_change);
}

const struct program_check lesson_sale_ended = {
    "SELECT COUNT(*) FROM orders JOIN products ON products.id = product_id "
    "WHERE ends_ms > 0 AND orders.created_ms >= ends_ms",
    "an order was sold after the end of the sale"};

/* 43. Looks at the clock at the door, and then waits for its turn. */
void lesson_order_late(struct program_actor *self)
{
    struct lock_task lock;
    char name[LOCK_NAME_BYTES];
    int64_t is_open = 0;

    (void)program_sql(self, &is_open,
                      "SELECT ends_ms = 0 OR ends_ms > %" PRId64
                      " FROM products WHERE id = %" PRId64,
                      now_ms(), self->role.product);
    if (!is_open) {
        program_reply(ORDER_SALE_ENDED);
        return;
    }
    lock_name(self->role.product, 0, name);
    if (!lesson_take(self, name, &lock))
        return;
    (void)lesson_sell(self, 0);
    (void)program_give(self, &lock);
}

/* ---- a bill, paid or expired ---------------------------------------------------- */

const struct program_check lesson_bill_paid = {
    "SELECT COUNT(*) FROM bills JOIN orders USING (key) "
    "WHERE charged AND state = 1",
    "the order is paid for, and its units are on sale again"};

/* Whether the bill is STATUS from now on. The wrong way: look, then write. The right
 * one is a compare-and-set, of which one of two who try changes a row. */
static bool set_bill(struct program_actor *self, const char *status)
{
    bool compares =
        lesson_is(self, "pay-compares") || lesson_is(self, "expire-compares");
    int64_t is_open = 0, rows = 0;

    if (compares)
        return program_sql(self, &rows,
                           "UPDATE bills SET status = '%s' "
                           "WHERE key = '%s' AND status = 'open'",
                           status, self->role.key) == PROGRAM_OK &&
               rows == 1;
    return program_sql(self, &is_open,
                       "SELECT status = 'open' FROM bills WHERE key = '%s'",
                       self->role.key) == PROGRAM_OK &&
           is_open &&
           program_sql(self, NULL,
                       "UPDATE bills SET status = '%s' WHERE key = '%s'",
                       status, self->role.key) == PROGRAM_OK;
}

/* Orders; then the customer pays. */
void lesson_pay(struct program_actor *self)
{
    program_order(self);
    if (turns_ending() || self->order.outcome != ORDER_PLACED)
        return;
    (void)program_sql(self, NULL,
                      "CREATE TABLE bills AS SELECT key, 'open' AS status, "
                      "0 AS charged FROM orders");
    if (set_bill(self, "paid"))
        (void)program_sql(self, NULL,
                          "UPDATE bills SET charged = 1 WHERE key = '%s'",
                          self->role.key);
    else
        turns_note("the bill is not open: nothing is charged");
}

/* The job that cancels what was not paid in time, by the service's own cancel. */
void lesson_expire(struct program_actor *self)
{
    struct store_order found;
    struct store_cancel cancel = {.id = ""};

    if (!set_bill(self, "expired") ||
        store_order_by_key(self->worker.reader, self->role.key, &found, NULL) !=
            STORE_OK) {
        turns_note("the bill is not open: nothing is cancelled");
        return;
    }
    memcpy(cancel.id, found.id, sizeof(cancel.id));
    (void)program_write(self, "cancel",
                        "UPDATE the order and the stock: cancel", &cancel.write,
                        begin_cancel);
}
