/*
 * Private to lock/dial/: the primary that sentinels name, for a dial to a url of the
 * kind sentinel:.
 *
 * A search belongs to one thread at a time. UNTIL_MS is real time (clock.h).
 */
#ifndef DLOCK_SENTINEL_H
#define DLOCK_SENTINEL_H

#include "lock/core/net.h"
#include "lock/dlock.h"
#include "lock/dlock_url.h"

struct dlock_search;

/* Begins, without waiting. POLL_FD, an epoll with TIMER_FD in it, wakes the caller;
 * ADDRESS is borrowed until the end. NULL: no memory, with a text in ERROR. */
struct dlock_search *dlock_search_begin(const struct dlock_address *address,
                                        int poll_fd, int timer_fd,
                                        uint64_t until_ms,
                                        struct dlock_error *error);

/* As dlock_dial_go_on(). */
enum dlock_status dlock_search_go_on(struct dlock_search *search,
                                     struct dlock_link *link,
                                     struct dlock_error *error);

/* The stage that it was at when time was up. */
void dlock_search_late(const struct dlock_search *search,
                       struct dlock_error *error);

/* NULL is fine. */
void dlock_search_end(struct dlock_search *search);

#endif
