/*
 * Tests of the store as stories: what is asked of it, how that ends, and what is in the
 * ledger then. Each is a test by its name, in a directory of its own. Its statements stand
 * one behind the other, with ";" between:
 *
 *   [WHO] VERB words [-> STATUS words]
 *
 * STATUS is one of store.h in small letters ("sold-out"), ok where none is named, with
 * "again" behind it of what was there before, same=ORDER of one with its id, and later=ORDER
 * of one that may be paid later. Other words behind the arrow are numbers
 * of what came of it, by the tables in store_story.c: "-> price=5 number=1..2"; "max" is
 * STORE_NUMBER_MAX, and there are "max+1" and "max-10".
 *
 * WHO is an order, by a letter:
 *
 *   a buys N       N units, of product 1 for user 1, without a key and from segment 0,
 *                  unless of=, user=, key=, seg= say otherwise; gather; "alone": not by
 *                  the source; and under=LOCK/TOKEN[/OWNER], a fence
 *   a asks N, go   the same, but those that have asked are placed by "go", together
 *   a looks N, a inserts [N]    first and last step of the naive way; "write STOCK" is
 *                  between
 *   a cancels, a pays WITH
 *   a was, a is STATE, a becomes STATE    as the last verb said; as it is stored, or
 *                  will be, and behind that what it has: "a is paid payment=p"
 *
 *   put, restock N         product 1, or of=; what a put does not name stays
 *   even                   deals the stock out; again: it was even
 *   product, left N, segments N N ...
 *                          has these numbers; so many units, in a sound ledger, and
 *                          held= so many; the stocks of the segments in use
 *   stamp LOCK/TOKEN, floor LOCK N    announces a fence; the last that was
 *   audit, units           without numbers: it is balanced
 *   expired N, fails N, known N, unknown N
 *                          waits for so many; whether so many are known to be sold out
 *   open                   shared, fed (by a source), busy=MS; the first statement opens
 *                          it otherwise
 *   sqlite, mysql          the story is of that only
 *   failing STEP, mend     a step of the store fails
 *   sql TEXT, busy TEXT, free    by another connection; one that has begun, and stays
 *   clock MS, sleep MS     so far ahead of the real one (store_story_clock)
 */
#ifndef STORE_STORY_H
#define STORE_STORY_H

#include "tests/support/store_rig.h"

struct store_story {
    const char *what, *story;
};

/* Sets the test's clock; NULL: it has none. */
extern void (*store_story_clock)(int64_t ahead_ms);

void store_story_add(const struct store_story stories[], size_t n, int line);

/* An array of stories are tests of the program, behind those that stand before. */
#define STORE_STORIES(stories)                                                 \
    __attribute__((constructor)) static void add_##stories(void)               \
    {                                                                          \
        store_story_add(stories, COUNT_OF(stories), __LINE__);                 \
    }

#endif
