/*
 * Private to the watchdog: the renewals of leases, and one pass over those that
 * are due. _collect, _book and _end are called with the watchdog's mutex held,
 * _send and _tell without it: in between, in_pass keeps the entries alive.
 */
#ifndef DLOCK_RENEWAL_H
#define DLOCK_RENEWAL_H

#include "lock/call.h"
#include "lock/watchdog.h"

enum {
    DLOCK_PASS_MAX = 64, /* renewals in one round trip */
    DLOCK_RENEWALS_PER_LEASE = 3,
};

enum dlock_renewal_state {
    DLOCK_RENEWAL_PENDING, /* registered; not granted yet */
    DLOCK_RENEWAL_LIVE,
    DLOCK_RENEWAL_UNTOLD, /* lost, and its holder has not been told */
    DLOCK_RENEWAL_LOST,
};

struct dlock_renewal {
    struct dlock_renewal *next; /* in the list of all */
    struct dlock_renewal *next_in_bucket;
    char name[DLOCK_NAME_BYTES_MAX + 1];
    char owner[DLOCK_OWNER_BYTES_MAX + 1];
    uint64_t attempt; /* of the owner, that won it */
    enum dlock_renewal_state state;
    bool in_pass;         /* the thread works on it, without the mutex */
    uint64_t due_ms;      /* time to look at it again */
    uint64_t deadline_ms; /* the lease ends, by our clock */
    uint64_t stop_ms;     /* no renewal from then on */
};

/* What is due now. The first renewed_n are renewed, the rest was held too long
 * or is lost, and is only looked at. */
struct dlock_pass {
    size_t n;
    size_t renewed_n;
    uint64_t limit_ms; /* of asking the server */
    struct dlock_renewal *entries[DLOCK_PASS_MAX];
    enum dlock_loss losses[DLOCK_PASS_MAX]; /* DLOCK_LOSS_N = not lost */
    struct dlock_exchange exchanges[DLOCK_PASS_MAX];
};

/* Whether there is something to be done about it, at its due_ms. */
static inline bool dlock_renewal_awaits(const struct dlock_renewal *renewal)
{
    return renewal->state == DLOCK_RENEWAL_LIVE ||
           renewal->state == DLOCK_RENEWAL_UNTOLD;
}

/* Marks what is due in LIST. False if nothing is. */
bool dlock_renewal_collect(struct dlock_pass *pass,
                           const struct dlock_watchdog_config *config,
                           struct dlock_renewal *list, uint64_t now);

/* Sends the renewals in one go and reads the replies. Blocks. */
void dlock_renewal_send(struct dlock_pass *pass,
                        const struct dlock_watchdog_config *config,
                        struct dlock_wire *wire);

/* Books the replies to what was sent at SENT_AT_MS. */
void dlock_renewal_book(struct dlock_pass *pass,
                        const struct dlock_watchdog_config *config,
                        uint64_t sent_at_ms);

/* Tells the holders of what was lost, once per grant. */
void dlock_renewal_tell(const struct dlock_pass *pass,
                        const struct dlock_watchdog_config *config);

/* Takes the marks off. */
void dlock_renewal_end(struct dlock_pass *pass);

#endif
