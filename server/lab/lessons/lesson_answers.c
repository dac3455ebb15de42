/*
 * Lessons about who says no, and who says yes: an answer that was given too early,
 * remembered for too long, or guessed.
 */
#include "server/lab/lessons/lesson.h"

#include <stdio.h>
#include <string.h>

/* 39. Redis decides and the customer is told. The ledger is written after that. */
void lesson_order_in_redis(struct program_actor *self)
{
    static const char script[] =
        "if tonumber(redis.call('get', KEYS[1]) or 0) < tonumber(ARGV[1]) "
        "then return 0 end "
        "redis.call('decrby', KEYS[1], ARGV[1]) return 1";
    char stock[24], quantity[24], reply[32];

    (void)snprintf(stock, sizeof(stock), "%" PRId64, self->scene->stock);
    (void)snprintf(quantity, sizeof(quantity), "%" PRId64, self->role.quantity);
    (void)program_redis(
        self, reply, sizeof(reply),
        (const char *[]){"SET", "stock:{1}", stock, "NX", NULL});
    if (program_redis(self, reply, sizeof(reply),
                      (const char *[]){"EVAL", script, "1", "stock:{1}",
                                       quantity, NULL}) != PROGRAM_OK) {
        program_reply(ORDER_STORE_UNAVAILABLE);
        return;
    }
    program_reply(strcmp(reply, "1") == 0 ? ORDER_PLACED : ORDER_SOLD_OUT);
    if (strcmp(reply, "1") == 0 && lesson_deduct(self, 0) == PROGRAM_OK)
        (void)program_insert(self, 0);
}

/* ---- a flag that says "sold out" --------------------------------------------- */

/* 40. The flag spares a write for each buyer who comes too late. It has the product's
 * epoch in it, which each cancel raises. One of an older epoch says nothing; but only
 * who LOOKS at the epoch knows that. */
void lesson_order_flagged(struct program_actor *self)
{
    bool looks = lesson_is(self, "order-epoch");
    const char *const get[] = {"GET", "sold-out:{1}", NULL};
    char epoch[24], flag[32];
    int64_t number = 0;

    (void)program_sql(self, &number,
                      "SELECT epoch FROM products WHERE id = %" PRId64,
                      self->role.product);
    (void)snprintf(epoch, sizeof(epoch), "%" PRId64, number);
    if (program_redis(self, flag, sizeof(flag), get) == PROGRAM_OK &&
        (looks ? strcmp(flag, epoch) == 0 : strcmp(flag, "(nil)") != 0)) {
        program_reply(ORDER_SOLD_OUT);
        return;
    }
    if (lesson_sell(self, 0) == PROGRAM_NO)
        (void)program_redis(
            self, flag, sizeof(flag),
            (const char *[]){"SET", "sold-out:{1}", epoch, NULL});
}

/* The units are back and the epoch is over at once, in one transaction. */
void lesson_cancel_epoch(struct program_actor *self)
{
    if (program_sql(self, NULL, "BEGIN IMMEDIATE") != PROGRAM_OK)
        return;
    if (lesson_give_back(self, 0))
        (void)program_sql(
            self, NULL,
            "UPDATE products SET epoch = epoch + 1 WHERE id = %" PRId64,
            self->role.product);
    (void)program_sql(self, NULL, "COMMIT");
}

/* ---- a database that is busy --------------------------------------------------- */

/* 41. Whatever is not a yes is told as a no. */
void lesson_order_busy_is_no(struct program_actor *self)
{
    if (lesson_deduct(self, 0) == PROGRAM_OK)
        lesson_reply(program_insert(self, 0));
    else
        program_reply(ORDER_SOLD_OUT);
}
