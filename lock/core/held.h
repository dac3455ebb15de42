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
#include <stdbool.h>
#include <stdint.h>

struct dlock_held_lock;

enum { DLOCK_HELD_BUCKETS = 64 };

/* A release that got no answer; if it is called again, it repeats this one. */
struct dlock_unknown_release {
    uint64_t number; /* of the attempt to release; 0 = none */
    uint64_t grant;  /* the attempt that had won it */
};

/* Belongs to one session, which alone changes it. Other threads may ask what is
 * superseded. */
struct dlock_held {
    pthread_mutex_t mutex; /* guards all below against those who ask */
    struct dlock_held_lock *buckets[DLOCK_HELD_BUCKETS];
    struct dlock_unknown_release unknown; /* the last of a name not held */
};

/* Holds of NAME. */
unsigned dlock_held_count(const struct dlock_held *held, const char *name);

/* Makes an entry for NAME, if there is none, and room for one more grant in it.
 * False: no memory. */
bool dlock_held_reserve(struct dlock_held *held, const char *name);

/* Sets the count of NAME, if it has an entry; with 0 the entry goes. */
void dlock_held_set(struct dlock_held *held, const char *name, unsigned holds);

/*
 * Hold number HOLDS, at least 1, was granted to ATTEMPT: adds it to the entry of
 * NAME, if there is one. True if that shows that the holds before it are lost: the
 * count began anew.
 */
bool dlock_held_add(struct dlock_held *held, const char *name, unsigned holds,
                    uint64_t attempt);

/* GRANT is being given back. */
void dlock_held_remove(struct dlock_held *held, const char *name,
                       uint64_t grant);

/*
 * Whether NAME is held, but not by what ATTEMPT won: that was given back, with an
 * answer, or it was lost and NAME taken anew.
 */
bool dlock_held_superseded(const struct dlock_held *held, const char *name,
                           uint64_t attempt);

/*
 * NUMBER is that of a release, of the hold of NAME that GRANT had won, which got
 * no answer; 0 = it has got one. Each name that is still held has room for one
 * such release, all others together for one more.
 */
void dlock_held_note_unknown(struct dlock_held *held, const char *name,
                             uint64_t grant, uint64_t number);

/* The number of that release, or 0. */
uint64_t dlock_held_unknown_release(const struct dlock_held *held,
                                    const char *name, uint64_t grant);

/* Holds none; and gives the memory back. */
void dlock_held_init(struct dlock_held *held);
void dlock_held_release(struct dlock_held *held);

#endif
