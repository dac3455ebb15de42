/*
 * Stock hints: what seems to be left in each segment of a product, to choose a
 * segment by. A hint never decides and is never waited for: the store decides,
 * and a missing, old or wrong hint costs a probe of another segment.
 *
 *     stock:{P:k}   in Redis: the units left in segment k of product P
 *
 * What this process sells it knows by itself: it notes what the store says after
 * each batch, and a worker writes that to Redis, the last value only. Where other
 * instances sell too (--shared), a worker reads the keys now and then. Only
 * products with several segments have hints; that a product has several, the
 * store says with its first order.
 *
 * hints_choose(), hints_note() and hints_publish() are for any thread, all else is
 * for the committer's.
 */
#ifndef HINTS_H
#define HINTS_H

#include <stdbool.h>
#include <stdint.h>

#include "db/store_async.h"
#include "server/base/tasks.h"

struct hints;

/* REDIS_URL as libdlock takes it, of several the first; NULL: there is none, and
 * the hints stay in this process. NULL: no memory, or the URL makes no sense. */
struct hints *hints_open(const struct app *app, const char *redis_url);

/* No task is under way: see hints_are_idle(). NULL is fine. */
void hints_close(struct hints *hints);

/* The segment that an order is to ask: at random, weighted by what seems to be left, of
 * those that seem to have enough. If none seems to have enough, the richest. */
int64_t hints_choose(struct hints *hints, int64_t product_id, int64_t quantity);

/* Whether another instance has this segment's lock. As long as others have enough,
 * such a segment is not chosen: its lock would have to be waited for. */
void hints_taken(struct hints *hints, int64_t product_id, int64_t segment,
                 bool by_others);

/* The store says: the product has so many segments (0 = not told), and LEFT
 * units are left in this one (-1 = not told: unknown from then on). */
void hints_note(struct hints *hints, int64_t product_id, int64_t segments,
                int64_t segment, int64_t left);

/* A segment was found short while others have units: they are dealt out evenly
 * soon, by a write of the store. */
void hints_uneven(struct hints *hints, int64_t product_id, uint64_t now_us);

/* Begins what is to be written and read, if no task is under way. */
void hints_attend(struct hints *hints, uint64_t now_us);

/* From now on nothing is begun; whether nothing is under way. */
void hints_stop(struct hints *hints);
bool hints_are_idle(const struct hints *hints);

/* Writes what all segments have, now, and waits for it. False: there is no Redis, or it
 * has not got it. From any thread that may wait. */
bool hints_publish(struct hints *hints, int64_t product_id,
                   const struct store_segments *segments);

#endif
