/*
 * Whether an order would succeed now: what the last write to the database and
 * the last command to the lock server said. Where nobody orders, it tries by
 * itself. Others read it for /readyz, /livez, and to tell whoever started us.
 *
 * Each outage is logged when it begins, every ten seconds, and when it is over.
 */
#ifndef HEALTH_H
#define HEALTH_H

#include <stdbool.h>
#include <stddef.h>

#include "db/store.h"
#include "lock/dlock.h"

#define HEALTH_TEXT_BYTES 256

/* A lock of the lock server that nobody else needs. */
#define HEALTH_PROBE_LOCK "readyz"

struct health;
struct metrics;

enum health_part { HEALTH_STORE, HEALTH_LOCK, HEALTH_PARTS };

enum health_answer { HEALTH_READY, HEALTH_NOT_READY, HEALTH_UNKNOWN };

/* Of the refusals that METRICS count. NULL: no memory. */
struct health *health_new(const struct metrics *metrics);

/* Starts its thread, which tries both once now. STORE and LOCKS have to stay open
 * until health_stop(). */
bool health_start(struct health *health, struct store *store,
                  struct dlock *locks);

/* An eventfd, readable once both work for the first time, and when the log has got
 * another line: health_look() may say something else then. */
int health_news_fd(const struct health *health);

/* What was heard of a part: WHY it fails, or NULL: it works. From any thread; on
 * a HEALTH of NULL it does nothing. */
void health_heard(struct health *health, enum health_part part,
                  const char *why);

/* The same of the store; HEALTH is a struct health, or NULL. */
void health_heard_store(void *health, enum store_status status,
                        const struct store_error *error);

/* At once. HEALTH_NOT_READY: WHY says which part, since when and why.
 * HEALTH_UNKNOWN: all was well, and nobody has ordered for a second. */
enum health_answer health_look(struct health *health,
                               char why[HEALTH_TEXT_BYTES]);

/* If nobody has ordered for a second, has both tried, and does not wait for it. */
void health_try(struct health *health);

/* Has both tried, which takes seven seconds at most. False: not ready, or nobody
 * knows; WHY says so. */
bool health_ask(struct health *health, char why[HEALTH_TEXT_BYTES]);

/* The store fails for good: see STORE_GONE. */
bool health_needs_restart(const struct health *health);

/* Ends the thread; from then on it is not ready. NULL is fine. */
void health_stop(struct health *health);

/* Once the store is closed. NULL is fine. */
void health_free(struct health *health);

#endif
