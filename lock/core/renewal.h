/*
 * Private to the watchdog: the renewals of leases, and one pass over those that
 * are due. _send is called without the watchdog's mutex, all others with it: in
 * between, in_pass keeps the entries alive.
 */
#ifndef DLOCK_RENEWAL_H
#define DLOCK_RENEWAL_H

#include <pthread.h>
#include <sys/queue.h>

#include "lock/core/client.h"

enum {
    DLOCK_PASS_MAX = 64, /* renewals in one round trip */
    DLOCK_RENEWALS_PER_LEASE = 3,
};

enum dlock_renewal_state {
    DLOCK_RENEWAL_PENDING, /* registered; not granted yet */
    DLOCK_RENEWAL_LIVE,
    DLOCK_RENEWAL_UNTOLD, /* lost, and its holder has not been told */
    DLOCK_RENEWAL_LOST,
    DLOCK_RENEWAL_CANCELLED, /* off the table; the pass that has it frees it */
};

/* The entries with something to do that are in no pass; the one that is due next
 * stands first. */
TAILQ_HEAD(dlock_renewal_queue, dlock_renewal);

struct dlock_renewal {
    TAILQ_ENTRY(dlock_renewal) turn; /* while it is queued */
    bool queued;
    struct dlock_renewal *next_in_bucket;
    char name[DLOCK_NAME_BYTES_MAX + 1];
    char owner[DLOCK_OWNER_BYTES_MAX + 1];
    uint64_t attempt; /* of the owner, that won it */
    enum dlock_renewal_state state;
    bool cut_off;         /* lost since the server could not be reached */
    bool in_pass;         /* the thread works on it, without the mutex */
    uint64_t due_ms;      /* time to look at it again */
    uint64_t deadline_ms; /* the lease ends, by our clock */
    uint64_t stop_ms;     /* no renewal from then on */
};

/* Renewals that are due. The first renewed_n are renewed, the rest was held too long
 * or is lost, and is only looked at. */
struct dlock_pass {
    size_t n;
    size_t renewed_n;
    uint64_t limit_ms; /* of asking the server */
    struct dlock_renewal *entries[DLOCK_PASS_MAX];
    enum dlock_loss losses[DLOCK_PASS_MAX]; /* DLOCK_LOSS_N = not lost */
    struct dlock_renew renews[DLOCK_PASS_MAX];
};

/*
 * Puts RENEWAL where it belongs in the queue, or nowhere: to be called whenever its
 * state or due_ms has changed. From the tail, because leases are of one length: the
 * one granted or renewed last is due last, and passes nobody. An entry that is due
 * earlier than that (no answer, a lease made shorter by hand, a lock lost) passes
 * all that are due later, at worst all.
 */
void dlock_renewal_line_up(struct dlock_renewal_queue *queue,
                           struct dlock_renewal *renewal);

/* Takes it out of the queue, if it is there. */
void dlock_renewal_step_out(struct dlock_renewal_queue *queue,
                            struct dlock_renewal *renewal);

/* Takes what is due out of the queue, into the pass, and marks it. False if
 * nothing is. */
bool dlock_renewal_collect(struct dlock_pass *pass, const struct dlock *client,
                           struct dlock_renewal_queue *queue, uint64_t now);

/* Sends the renewals in one go and reads the replies. Blocks. */
void dlock_renewal_send(struct dlock_pass *pass, struct dlock *client);

/* Applies the replies to what was sent at SENT_AT_MS. */
void dlock_renewal_apply(struct dlock_pass *pass, const struct dlock *client,
                         uint64_t sent_at_ms);

/*
 * Tells the holders of what was lost, once per grant, if they have not given it
 * back since. Lets go of the MUTEX while it does.
 */
void dlock_renewal_tell(const struct dlock_pass *pass,
                        const struct dlock *client, pthread_mutex_t *mutex);

/* Takes the marks off; entries that are to be renewed again line up. Frees what was
 * cancelled meanwhile. */
void dlock_renewal_end(struct dlock_pass *pass,
                       struct dlock_renewal_queue *queue);

#endif
