/*
 * Private to lock/: what a client is called by people, "host:pid:label".
 *
 * Owner ids are random, so that nobody's is ever used again; but who looks at a
 * lock wants to know whose it is. In the lock itself a label would cost 50 bytes
 * for each lock (48 as a field of its hash; 224 in the owner id, which makes the
 * hash a large one). So each client puts it beside its id once, in a key that
 * ends with its leases, and who inspects a lock looks there.
 *
 * For locks on one Redis server. All functions may be called from any thread.
 */
#ifndef DLOCK_LABEL_H
#define DLOCK_LABEL_H

#include "lock/core/client.h"

/* Makes the client's label from its options'. */
void dlock_label_make(struct dlock *client, const char *label);

/*
 * Sees to it that the server knows the label for another LEASE_MS: sends it if
 * need be, which is seldom. Blocks for a tenth of a second at most; that it did
 * not work is no error, and it is tried again a second later at the earliest.
 */
void dlock_label_keep(struct dlock *client, struct dlock_wire *wire,
                      unsigned lease_ms);

/* Fills holder->label, if there is one for holder->owner. Blocks for the wire. */
void dlock_label_find(struct dlock_session *session, uint64_t limit_ms,
                      struct dlock_holder *holder);

#endif
