/* See lesson.h: what several lessons have in common. */
#include "server/lab/lessons/lesson.h"

#include <string.h>

bool lesson_is(const struct program_actor *self, const char *name)
{
    return strcmp(self->role.program, name) == 0;
}

bool lesson_take(struct program_actor *self, const char *name,
                 struct lock_task *lock)
{
    if (program_take(self, name, lock) == DLOCK_OK)
        return true;
    program_reply(ORDER_LOCK_TIMEOUT);
    return false;
}

enum program_answer lesson_update(struct program_actor *self, int64_t segment,
                                  int64_t *rows)
{
    return program_sql(self, rows,
                       "UPDATE segments SET stock = stock - %" PRId64
                       " " LESSON_ROW " AND stock >= %" PRId64,
                       self->role.quantity, LESSON_ROW_OF(self, segment),
                       self->role.quantity);
}

enum program_answer lesson_deduct(struct program_actor *self, int64_t segment)
{
    int64_t rows = 0;
    enum program_answer answer = lesson_update(self, segment, &rows);

    return answer == PROGRAM_OK && rows == 0 ? PROGRAM_NO : answer;
}

bool lesson_read_stock(struct program_actor *self, int64_t *stock)
{
    if (program_sql(self, stock, "SELECT stock FROM segments " LESSON_ROW,
                    LESSON_ROW_OF(self, 0)) != PROGRAM_OK)
        program_reply(ORDER_STORE_UNAVAILABLE);
    else if (*stock < self->role.quantity)
        program_reply(ORDER_SOLD_OUT);
    else
        return true;
    return false;
}

enum program_answer lesson_write_order(struct program_actor *self,
                                       int64_t stock)
{
    enum program_answer answer;

    answer = program_sql(self, NULL,
                         "UPDATE segments SET stock = %" PRId64 " " LESSON_ROW,
                         stock - self->role.quantity, LESSON_ROW_OF(self, 0));
    return answer == PROGRAM_OK ? program_insert(self, 0) : answer;
}

void lesson_reply(enum program_answer written)
{
    program_reply(written == PROGRAM_OK ? ORDER_PLACED
                                        : ORDER_STORE_UNAVAILABLE);
}

enum program_answer lesson_sell(struct program_actor *self, int64_t segment)
{
    enum program_answer answer = lesson_deduct(self, segment);

    if (answer == PROGRAM_OK)
        answer = program_insert(self, segment);
    if (answer == PROGRAM_NO)
        program_reply(ORDER_SOLD_OUT);
    else
        lesson_reply(answer);
    return answer;
}

void lesson_order_whole(struct program_actor *self)
{
    enum program_answer answer = program_sql(self, NULL, "BEGIN IMMEDIATE");

    if (answer == PROGRAM_OK)
        answer = lesson_deduct(self, 0);
    if (answer == PROGRAM_OK)
        answer = program_insert(self, 0);
    if (answer == PROGRAM_OK)
        answer = program_sql(self, NULL, "COMMIT");
    lesson_reply(answer);
}

bool lesson_give_back(struct program_actor *self, int64_t segment)
{
    int64_t rows = 0;

    return program_sql(self, &rows,
                       "UPDATE orders SET state = 1, cancelled_ms = 1 "
                       "WHERE key = '%s' AND state = 0",
                       self->role.key) == PROGRAM_OK &&
           rows == 1 &&
           program_sql(
               self, NULL,
               "UPDATE segments SET stock = stock + %" PRId64 " " LESSON_ROW,
               self->role.quantity, LESSON_ROW_OF(self, segment)) == PROGRAM_OK;
}
