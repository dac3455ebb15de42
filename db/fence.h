/*
 * Fencing tokens: the store remembers the highest one announced for each lock
 * and refuses those who come with less.
 *
 * It is not enough to compare at write time. The old holder of a lock may
 * write first, and the new one then writes what it computed from a stale read,
 * with a token that is rightly the highest. So a holder *stamps* its token when
 * its critical section begins, before it reads anything: from that moment the
 * old holder's writes are refused. (A guarded place reads and writes in one
 * transaction, which is a critical section; it stamps by itself, and before its
 * first write is early enough: nobody else writes while it lasts.)
 */
#ifndef STORE_FENCE_H
#define STORE_FENCE_H

#include "db/recall.h"
#include "db/sqlite.h"

/*
 * A fence may have others linked to it; each of these calls is for all of them.
 * Token 0, or no fence at all, means: not under a lock that counts.
 */

/* False, with a text: a token without a name, or too long a name, ... */
bool fence_valid(const struct store_fence *fence, struct store_error *error);

/* Is any of them under a lock that counts? */
bool fence_given(const struct store_fence *fence);

/*
 * What goes into the order's row: the token, or 0 if there is none. Of several
 * locks none is the order's own, and their tokens do not compare.
 */
uint64_t fence_token(const struct store_fence *fence);

/*
 * Announces the token. STORE_STALE_FENCE if a higher one was, or this one by
 * another owner; those announced before it stay announced, as they are true.
 * RECALL may be NULL.
 */
enum store_status fence_stamp(struct sqlite *db, struct recall *recall,
                              const struct store_fence *fence,
                              struct store_error *error);

/*
 * STORE_STALE_FENCE unless token and owner are those announced last. With
 * `late` the write announces them, and only a higher token is refused: the
 * known wrong way.
 */
enum store_status fence_check(struct sqlite *db,
                              const struct store_fence *fence,
                              struct store_error *error);

/* The token announced last, 0 if none was. */
enum store_status fence_read(struct sqlite *db, const char *name,
                             uint64_t *token, struct store_error *error);

#endif
