/*
 * Lessons about one statement: a condition that is not the right one, or an answer
 * that nobody reads. No lock is needed to make them go wrong, and few would help.
 */
#include "server/lab/lessons/lesson.h"

/* 29. Looks how many the user has, and then writes. Two clicks look at once. */
void lesson_order_checks_first(struct program_actor *self)
{
    int64_t bought;

    if (program_sql(self, &bought,
                    "SELECT COUNT(*) FROM orders WHERE product_id = %" PRId64
                    " AND user_id = %" PRId64 " AND state = 0",
                    self->role.product, self->role.user) != PROGRAM_OK)
        program_reply(ORDER_STORE_UNAVAILABLE);
    else if (bought >= self->scene->limit)
        program_reply(ORDER_PURCHASE_LIMIT);
    else
        (void)lesson_sell(self, 0);
}

/* A row for the product and the user, which both clicks have to change. False: the
 * customer is told why not. */
static bool take_row(struct program_actor *self)
{
    int64_t rows = 0;

    if (program_sql(self, &rows,
                    "INSERT INTO purchases "
                    "(bucket_of_512, product_id, user_id, units) "
                    "VALUES (0, %" PRId64 ", %" PRId64 ", %" PRId64 ") "
                    "ON CONFLICT DO UPDATE SET units = units + "
                    "%" PRId64 " WHERE units + %" PRId64 " <= %" PRId64,
                    self->role.product, self->role.user, self->role.quantity,
                    self->role.quantity, self->role.quantity,
                    self->scene->limit) != PROGRAM_OK)
        program_reply(ORDER_STORE_UNAVAILABLE);
    else if (rows == 0)
        program_reply(ORDER_PURCHASE_LIMIT);
    else
        return true;
    return false;
}

void lesson_order_has_row(struct program_actor *self)
{
    if (take_row(self))
        (void)lesson_sell(self, 0);
}

/* The row keeps the limit; the stock is read, and written as it was read. */
void lesson_order_has_row_alone(struct program_actor *self)
{
    int64_t stock;

    if (take_row(self) && lesson_read_stock(self, &stock))
        lesson_reply(lesson_write_order(self, stock));
}

/* 32. The condition asks for any stock, and the order takes two units. The table has
 * no CHECK, which would refuse it. */
void lesson_order_off_by_one(struct program_actor *self)
{
    int64_t rows = 0;

    (void)program_sql(self, NULL, "PRAGMA ignore_check_constraints = ON");
    if (program_sql(self, &rows,
                    "UPDATE segments SET stock = stock - %" PRId64
                    " " LESSON_ROW " AND stock > 0",
                    self->role.quantity, LESSON_ROW_OF(self, 0)) != PROGRAM_OK)
        program_reply(ORDER_STORE_UNAVAILABLE);
    else if (rows == 0)
        program_reply(ORDER_SOLD_OUT);
    else
        lesson_reply(program_insert(self, 0));
}

/* 33. The statement is right. It succeeds also if it has changed no row. */
void lesson_order_counts_no_rows(struct program_actor *self)
{
    enum program_answer answer = lesson_update(self, 0, NULL);

    if (answer == PROGRAM_OK)
        answer = program_insert(self, 0);
    lesson_reply(answer);
}

/* 32, 33. Asks for enough, and looks at how many rows have changed. */
void lesson_order_counts_rows(struct program_actor *self)
{
    (void)lesson_sell(self, 0);
}
