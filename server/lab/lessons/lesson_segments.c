/*
 * Lessons about stock that is split over segments: which one an order sells from,
 * how units move between them, and where they go back to.
 */
#include "server/lab/lessons/lesson.h"

/* How many segments the product has now. */
static int64_t segments_of(struct program_actor *self)
{
    int64_t n = 0;

    (void)program_sql(self, &n,
                      "SELECT segments FROM products WHERE id = %" PRId64,
                      self->role.product);
    return n > 0 ? n : 1;
}

/* 34. The user's number chooses the segment, and no other is asked. */
void lesson_order_pinned(struct program_actor *self)
{
    (void)lesson_sell(self, self->role.user % segments_of(self));
}

/* 35. Asks all segments; but each has to have all that is wanted. */
void lesson_order_probes(struct program_actor *self)
{
    int64_t n = segments_of(self);

    for (int64_t segment = 0; segment < n; segment++) {
        enum program_answer answer = lesson_deduct(self, segment);

        if (answer == PROGRAM_NO)
            continue;
        if (answer == PROGRAM_OK)
            answer = program_insert(self, segment);
        lesson_reply(answer);
        return;
    }
    program_reply(ORDER_SOLD_OUT);
}

/* ---- moving ---------------------------------------------------------------- */

/* UNITS go out of the sale, or come into it, at SEGMENT. */
static enum program_answer put(struct program_actor *self, int64_t units,
                               int64_t segment)
{
    return program_sql(self, NULL,
                       "UPDATE segments SET initial = initial %+" PRId64
                       ", stock = stock %+" PRId64 " " LESSON_ROW,
                       units, units, LESSON_ROW_OF(self, segment));
}

static enum program_answer move(struct program_actor *self)
{
    int64_t units = self->role.quantity;
    enum program_answer answer = put(self, -units, 0);

    if (answer == PROGRAM_OK)
        answer = put(self, units, 1);
    if (answer == PROGRAM_OK)
        answer = program_sql(self, NULL,
                             "INSERT INTO transfers (product_id, from_segment, "
                             "to_segment, units, created_ms) VALUES (%" PRId64
                             ", 0, 1, %" PRId64 ", 0)",
                             self->role.product, units);
    return answer;
}

/* 36. Each statement is on disk when it ends; or all of them are, or none. */
void lesson_move_units(struct program_actor *self)
{
    bool at_once = lesson_is(self, "move-at-once");

    if (at_once && program_sql(self, NULL, "BEGIN IMMEDIATE") != PROGRAM_OK)
        return;
    if (move(self) == PROGRAM_OK && at_once)
        (void)program_sql(self, NULL, "COMMIT");
}

/* 37. The segment is computed once more, from what may have changed since. */
void lesson_cancel_pinned(struct program_actor *self)
{
    int64_t segment = self->role.user % segments_of(self);

    if (program_sql(self, NULL, "BEGIN IMMEDIATE") != PROGRAM_OK)
        return;
    (void)lesson_give_back(self, segment);
    (void)program_sql(self, NULL, "COMMIT");
}
