/*
 * Where the primary is now: all sentinels of an address are asked at once, and
 * each server that one of them names is connected to and asked whether it is a
 * primary. A sentinel that was cut off, or has not heard yet, may name the old
 * one; so the newest configuration counts, by the number that sentinels give it
 * (the epoch), and those that have not answered are waited for, for a moment.
 */
#ifndef DLOCK_SENTINEL_H
#define DLOCK_SENTINEL_H

#include "lock/dlock.h"
#include "lock/dlock_url.h"

struct dlock_search;

/*
 * Begins, without waiting. POLL_FD, an epoll, is what wakes who polls it; ADDRESS
 * is borrowed until _end. NULL: no memory, with a text in ERROR.
 */
struct dlock_search *dlock_search_begin(const struct dlock_address *address,
                                        int poll_fd, uint64_t until_ms,
                                        struct dlock_error *error);

/* As dlock_dial_go_on(). */
enum dlock_status dlock_search_go_on(struct dlock_search *search, int *fd,
                                     struct dlock_error *error);

/* What it was at, when time was up. */
void dlock_search_late(const struct dlock_search *search,
                       struct dlock_error *error);

/* NULL is fine. */
void dlock_search_end(struct dlock_search *search);

#endif
