/*
 * Private to lock/: finding a primary by asking others where it is, for a dial: what
 * a library of its own brings, lock/sentinel/.
 */
#ifndef DLOCK_SEARCH_H
#define DLOCK_SEARCH_H

#include "lock/dlock.h"
#include "lock/dlock_url.h"
#include "lock/core/net.h"

struct dlock_search;

struct dlock_searcher {
    /*
     * Begins, without waiting. POLL_FD, an epoll, is what wakes who polls it;
     * ADDRESS is borrowed until the end. NULL: no memory, with a text in ERROR.
     */
    struct dlock_search *(*begin)(const struct dlock_address *address,
                                  int poll_fd, uint64_t until_ms,
                                  struct dlock_error *error);

    /* As dlock_dial_go_on(). */
    enum dlock_status (*go_on)(struct dlock_search *search,
                               struct dlock_link *link,
                               struct dlock_error *error);

    /* The stage that it was at when time was up. */
    void (*late)(const struct dlock_search *search, struct dlock_error *error);

    void (*end)(struct dlock_search *search);
};

/* Of the kind sentinel:, as registered. NULL: this program does not have it. */
extern const struct dlock_searcher *dlock_search_sentinels;

#endif
