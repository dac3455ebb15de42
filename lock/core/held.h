/*
 * Private to lock/: the locks that a session holds, as far as it knows.
 *
 * The server counts holds, too, but its count may be ahead of ours: a command
 * whose reply was lost may have been carried out, a release may never have
 * arrived. So a session says with each command what the count is to become,
 * by its own count, and what the server had in excess is gone. Counting up and
 * down there instead would keep a hold alive that nobody knows of, for ever,
 * since each re-entry renews it.
 */
#ifndef DLOCK_HELD_H
#define DLOCK_HELD_H

#include <pthread.h>
#include <sys/queue.h>

#include "lock/dlock.h"

/* Releases without an answer that are known again when they are repeated: the last
 * ones of a session. */
enum { DLOCK_HELD_RELEASES_MAX = 64 };

/* Belongs to one session, which alone changes it. Other threads may ask what is
 * superseded. */
struct dlock_held {
    pthread_mutex_t mutex; /* guards the list against those who ask */
    LIST_HEAD(dlock_held_grants, dlock_held_grant) grants;
    struct dlock_held_grant *reserved; /* for the acquire under way */
};

/* Holds none; and gives the memory back. */
void dlock_held_init(struct dlock_held *held);
void dlock_held_release(struct dlock_held *held);

/* Holds of NAME. */
unsigned dlock_held_count(const struct dlock_held *held, const char *name);

/* Makes room for one more grant, of NAME. False: no memory. */
bool dlock_held_reserve(struct dlock_held *held, const char *name);

/*
 * Hold number HOLDS, at least 1, of the name that was reserved was granted to ATTEMPT.
 * True if that shows that the holds before it are lost: the count began anew.
 */
bool dlock_held_add(struct dlock_held *held, unsigned holds, uint64_t attempt);

/* Nothing of NAME is held any more. */
void dlock_held_lost(struct dlock_held *held, const char *name);

/*
 * Whether NAME is held, but not by what ATTEMPT won: that was given back, with an
 * answer, or it was lost and NAME taken anew.
 */
bool dlock_held_superseded(const struct dlock_held *held, const char *name,
                           uint64_t attempt);

/* Whether what ATTEMPT won is held, or may be: no release of it was answered. */
bool dlock_held_has(const struct dlock_held *held, uint64_t attempt);

/*
 * What ATTEMPT won is given back by the release NUMBER, and counts no more. 0; or
 * the number of the first release of it, which got no answer. *UNCERTAIN: one of its
 * releases may have worked.
 */
uint64_t dlock_held_give(struct dlock_held *held, uint64_t attempt,
                         uint64_t number, bool *uncertain);

/* The release of what ATTEMPT won came to STATUS. */
void dlock_held_given(struct dlock_held *held, uint64_t attempt,
                      enum dlock_status status);

#endif
