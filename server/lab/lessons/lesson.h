/*
 * Lessons: wrong code, as programs of the stage (server/lab/programs/program.h), and
 * the right code beside it where the service has none. They are what is taught:
 * real SQL on the ledger's tables and real Redis commands, each a step.
 *
 * An order by hand ends like one of the service: with program_reply().
 */
#ifndef LESSON_H
#define LESSON_H

#include <inttypes.h>

#include "server/lab/programs/program.h"

/* The row that a statement is about: for program_sql(), with LESSON_ROW_OF(). */
#define LESSON_ROW                   "WHERE product_id = %" PRId64 " AND segment = %" PRId64
#define LESSON_ROW_OF(self, segment) (self)->role.product, (int64_t)(segment)

/* Takes the lock called NAME; false: the customer is told that it was not to be had. */
bool lesson_take(struct program_actor *self, const char *name,
                 struct lock_task *lock);

/* Takes the units on condition that they are there: from *ROWS rows. */
enum program_answer lesson_update(struct program_actor *self, int64_t segment,
                                  int64_t *rows);

/* The right way, which counts the rows. PROGRAM_NO: there are too few units. */
enum program_answer lesson_deduct(struct program_actor *self, int64_t segment);

/* lesson_deduct() and the order's row. The customer is told. */
enum program_answer lesson_sell(struct program_actor *self, int64_t segment);

/* The textbook's way: reads the stock; false: there are too few units, or it cannot be
 * read, which the customer is told. Then writes what is left of it, and the order's row. */
bool lesson_read_stock(struct program_actor *self, int64_t *stock);
enum program_answer lesson_write_order(struct program_actor *self,
                                       int64_t stock);

/* lesson_sell() in one transaction: the database is its own until it commits. */
void lesson_order_whole(struct program_actor *self);

/* Cancels the order with the role's key; its units go to SEGMENT. False: there is none
 * that is not cancelled. In the caller's transaction. */
bool lesson_give_back(struct program_actor *self, int64_t segment);

/* Which of two: the wrong way and the right one are often one program, that differs in one
 * thing. */
bool lesson_is(const struct program_actor *self, const char *name);

/* The last write of an order: PLACED if it went well. */
void lesson_reply(enum program_answer written);

#endif
