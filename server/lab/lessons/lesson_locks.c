/*
 * Lessons about what is around a lock: the lock works, and yet too much is sold. Both
 * sell like the textbook: read the stock, write what is left, write the order.
 */
#include "server/lab/lessons/lesson.h"

#include <stdio.h>

static bool take(struct program_actor *self, const char *name,
                 struct lock_task *lock)
{
    if (program_take(self, name, lock) == DLOCK_OK)
        return true;
    program_reply(ORDER_LOCK_TIMEOUT);
    return false;
}

/* 26. The release stands inside of the transaction, as it does where a framework
 * commits when the method that has the lock returns; or behind it. */
static void order_in_transaction(struct program_actor *self)
{
    bool unlocks_first = lesson_is(self, "order-unlocks-first");
    enum program_answer answer;
    struct lock_task lock;
    char name[LOCK_NAME_BYTES];
    int64_t stock;

    lock_name(self->role.product, 0, name);
    if (!take(self, name, &lock))
        return;
    if (!lesson_read_stock(self, &stock)) {
        (void)program_give(self, &lock);
        return;
    }
    answer = program_sql(self, NULL, "BEGIN IMMEDIATE");
    if (answer == PROGRAM_OK)
        answer = lesson_write_order(self, stock);
    if (unlocks_first) /* the next one reads what was before */
        (void)program_give(self, &lock);
    if (answer == PROGRAM_OK)
        answer = program_sql(self, NULL, "COMMIT");
    lesson_reply(answer);
    if (!unlocks_first)
        (void)program_give(self, &lock);
}

/* 28. The stock is the product's; the lock is the user's. */
static void order_locks_user(struct program_actor *self)
{
    struct lock_task lock;
    char name[LOCK_NAME_BYTES];
    int64_t stock;

    lock_name_of_user(self->role.user, name);
    if (!take(self, name, &lock))
        return;
    if (lesson_read_stock(self, &stock))
        lesson_reply(lesson_write_order(self, stock));
    (void)program_give(self, &lock);
}

const struct program lesson_locks[] = {
    {"order-unlocks-first", "orders, and releases the lock before it commits",
     1, order_in_transaction, NULL},
    {"order-commits-first", "orders, and commits before it releases the lock",
     1, order_in_transaction, NULL},
    {"order-locks-user", "orders under a lock of the user's own", 1,
     order_locks_user, NULL},
    {0},
};
