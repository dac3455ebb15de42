/*
 * While it sells the service watches two of its own promises, and counts what it
 * finds for /metrics:
 *
 *   - nobody hears "sold out" of what is there. Most who come too late are
 *     refused from memory; now and then one of these refusals is held against
 *     the database. (Those that the store decides have been looked up there;
 *     the desk counts those of them that asked one segment only.)
 *   - no units lie in cells that nobody sells from any more.
 *
 * The looking is done by the pool's threads, one look of each kind at a time, so
 * that it is nobody's burden; if the pool is busy it is left out. From any
 * thread, never blocks.
 */
#ifndef SELFCHECK_H
#define SELFCHECK_H

#include <stdint.h>

struct app;
struct selfcheck;

/* app->pool has to be open, and stopped before _free. NULL: no memory. */
struct selfcheck *selfcheck_new(const struct app *app);
void selfcheck_free(struct selfcheck *selfcheck);

/* An order was refused from memory: at most once a second for a product it is
 * looked whether rightly. Nobody looks if SELFCHECK is NULL. */
void selfcheck_refused(struct selfcheck *selfcheck, int64_t product_id,
                       int64_t quantity);

/* Counts stranded units anew, at most once a second, since that takes a look at
 * all cells; what was found is shown from then on. */
void selfcheck_stranded(struct selfcheck *selfcheck);

#endif
