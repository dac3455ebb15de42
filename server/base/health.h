/*
 * Whether an order would succeed, by one rule: it would not from the moment that one
 * failed for a reason of ours until another one, or a try that writes what an order
 * writes, went through that began later. Before the first try nobody knows.
 *
 * A thread of its own tries, once a second at most: what fails; what nobody has heard
 * of for a second, if somebody asks; and the readers of the database, which no order
 * speaks for. Health is answered at once, by what is known.
 *
 * Each outage is logged when it begins, every ten seconds, and when it is over.
 */
#ifndef HEALTH_H
#define HEALTH_H

#include <stdbool.h>
#include <stdint.h>

#include "db/store.h"
#include "lock/dlock.h"

#define HEALTH_TEXT_BYTES 256

/* A lock of the lock server that nobody else needs. */
#define HEALTH_PROBE_LOCK "readyz"

struct health;
struct metrics;

/* An order service has only the last, and all others have only the first three. */
enum health_part {
    HEALTH_STORE,
    HEALTH_READER,
    HEALTH_LOCK,
    HEALTH_INVENTORY,
    HEALTH_PARTS
};

enum health_answer { HEALTH_READY, HEALTH_NOT_READY, HEALTH_UNKNOWN };

/* METRICS are told how many units the readers found left. Starts the thread that logs
 * outages. NULL: no memory, no thread. */
struct health *health_new(struct metrics *metrics, bool is_order_service);

/* From now on the thread tries all, at once for the first time. STORE and LOCKS have
 * to stay open until health_stop(). */
void health_watch(struct health *health, struct store *store,
                  struct dlock *locks);

/* An eventfd, readable once all work for the first time, and when the log has got
 * another line: health_look() may say something else then. */
int health_news_fd(const struct health *health);

/* ---- what others have met: from any thread; on NULL it does nothing --------- */

/* A part fails, and WHY. */
void health_heard(struct health *health, enum health_part part,
                  const char *why);

/* The same of the database; STORE_OK and STORE_CLOSED say nothing. What only a restart
 * mends is HEALTH_STORE's. */
void health_heard_status(struct health *health, enum health_part part,
                         enum store_status status,
                         const struct store_error *error);

/* The same of HEALTH_STORE; HEALTH is a struct health, or NULL. */
void health_heard_store(void *health, enum store_status status,
                        const struct store_error *error);

/* An order was refused because of a part; WHY counts if nobody has said more. */
void health_refused(struct health *health, enum health_part part,
                    const char *why);

/* A part did what an order needs of it; that was begun at BEGUN_US (clock_us()).
 * Costs a mutex that nobody holds for long. */
void health_worked(struct health *health, enum health_part part,
                   uint64_t begun_us);

/* ---- what is known --------------------------------------------------------- */

/* At once. HEALTH_NOT_READY: WHY says which part, since when and why.
 * HEALTH_UNKNOWN: WHY says of what nothing was heard, yet or for long. */
enum health_answer health_look(struct health *health,
                               char why[HEALTH_TEXT_BYTES]);

/* Somebody wants to know: has tried what was not heard of for a second. */
void health_try(struct health *health);

/* The store fails for good: see STORE_GONE. */
bool health_needs_restart(const struct health *health);

/* Ends the thread, and for its sake the store's waits; from then on it is not ready.
 * NULL is fine. */
void health_stop(struct health *health);

/* Once the store is closed. NULL is fine. */
void health_free(struct health *health);

/* Whether the lock server is away, or refuses. */
static inline bool health_is_no_answer(enum dlock_status status)
{
    return status == DLOCK_UNREACHABLE || status == DLOCK_UNKNOWN;
}

#endif
