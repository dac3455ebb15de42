/*
 * Private to lock/: what a session knows to hold.
 *
 * The server counts holds, too, but its count may be ahead of ours: a command
 * whose reply was lost may have been carried out, a release may never have
 * arrived. So a session says with each command what the count is to become,
 * by its own book, and what the server had in excess is gone. Counting up and
 * down there instead would keep a hold alive that nobody knows of, for ever,
 * since each re-entry renews it.
 */
#ifndef DLOCK_BOOK_H
#define DLOCK_BOOK_H

#include <stdbool.h>
#include <stdint.h>

struct dlock_page;

enum { DLOCK_BOOK_BUCKETS = 64 };

/* A release that got no answer; if it is called again, it repeats this one. */
struct dlock_doubt {
    uint64_t number; /* of the attempt to release; 0 = none */
    uint64_t grant;  /* the attempt that had won it */
};

/* All zero is an empty book. Belongs to one session. */
struct dlock_book {
    struct dlock_page *buckets[DLOCK_BOOK_BUCKETS];
    struct dlock_doubt doubt; /* the last about a name without a page */
};

/* Holds of NAME; 0 if there is no page for it. */
unsigned dlock_book_holds(const struct dlock_book *book, const char *name);

/* Makes sure that there is a page for NAME and room for a grant on it. False: no
 * memory. */
bool dlock_book_need(struct dlock_book *book, const char *name);

/* Writes HOLDS on the page of NAME, if there is one; 0 tears it out. */
void dlock_book_set(struct dlock_book *book, const char *name, unsigned holds);

/*
 * Hold number HOLDS, at least 1, was granted to ATTEMPT: writes that on the page
 * of NAME, if there is one. True if it shows that what was written there before
 * is lost: the count began anew.
 */
bool dlock_book_grant(struct dlock_book *book, const char *name, unsigned holds,
                      uint64_t attempt);

/* What GRANT had won is being given back. */
void dlock_book_strike(struct dlock_book *book, const char *name,
                       uint64_t grant);

/*
 * Whether NAME is held, but not by what ATTEMPT won: that was given back, and
 * not in doubt, or it was lost and NAME taken anew.
 */
bool dlock_book_outlived(const struct dlock_book *book, const char *name,
                         uint64_t attempt);

/*
 * NUMBER is that of a release, of the hold of NAME that GRANT had won, which got
 * no answer; 0 = it has got one. Each name that is still held has room for one
 * such doubt, all others together for one more.
 */
void dlock_book_doubt(struct dlock_book *book, const char *name, uint64_t grant,
                      uint64_t number);

/* The number of that release, or 0. */
uint64_t dlock_book_doubted(const struct dlock_book *book, const char *name,
                            uint64_t grant);

void dlock_book_release(struct dlock_book *book);

#endif
