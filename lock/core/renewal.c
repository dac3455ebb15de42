/*
 * Renewals: all leases that are due, in one pipeline, so that renewing a
 * thousand locks takes some sixteen round trips.
 *
 * A lease is renewed every third of its length: two renewals may fail before
 * it ends. Renewal never makes a lost lock ours again: the command asks for the
 * owner first, and a grant once found lost stays lost.
 */
#include "lock/core/renewal.h"

#include <stdlib.h>

#include "lock/core/clock.h"

enum {
    RETRIES_PER_LEASE = 10, /* how often an unreachable server is asked */
};

/* The queue ---------------------------------------------------------------- */

void dlock_renewal_step_out(struct dlock_renewal_queue *queue,
                            struct dlock_renewal *renewal)
{
    if (renewal->queued)
        TAILQ_REMOVE(queue, renewal, turn);
    renewal->queued = false;
}

void dlock_renewal_line_up(struct dlock_renewal_queue *queue,
                           struct dlock_renewal *renewal)
{
    struct dlock_renewal *before;

    dlock_renewal_step_out(queue, renewal);
    if ((renewal->state != DLOCK_RENEWAL_LIVE &&
         renewal->state != DLOCK_RENEWAL_UNTOLD) ||
        renewal->in_pass)
        return;
    before = TAILQ_LAST(queue, dlock_renewal_queue);
    while (before != NULL && before->due_ms > renewal->due_ms)
        before = TAILQ_PREV(before, dlock_renewal_queue, turn);
    if (before != NULL)
        TAILQ_INSERT_AFTER(queue, before, renewal, turn);
    else
        TAILQ_INSERT_HEAD(queue, renewal, turn);
    renewal->queued = true;
}

/* A pass ------------------------------------------------------------------- */

/*
 * The server cannot say why a key is gone, but our clock can: it was started
 * before the server's. If by it the lease still runs, the server has not ended
 * it, but lost it.
 */
static enum dlock_loss why_gone(const struct dlock_renewal *renewal,
                                uint64_t now)
{
    if (now < renewal->deadline_ms)
        return DLOCK_LOSS_FLUSHED;
    return renewal->stop_ms <= now ? DLOCK_LOSS_OVERHELD : DLOCK_LOSS_EXPIRED;
}

/* Entries that are not renewed go behind those that are. A lease that was held too
 * long runs out by itself, and then its holder is told. */
static void put_ended_last(struct dlock_pass *pass, uint64_t now)
{
    size_t renewed_n = 0;

    for (size_t i = 0; i < pass->n; i++) {
        struct dlock_renewal *each = pass->entries[i];

        if (each->state == DLOCK_RENEWAL_LIVE && each->stop_ms > now) {
            pass->entries[i] = pass->entries[renewed_n];
            pass->entries[renewed_n++] = each;
        }
    }
    pass->renewed_n = renewed_n;
    for (size_t i = renewed_n; i < pass->n; i++) {
        struct dlock_renewal *each = pass->entries[i];

        each->due_ms = each->deadline_ms;
        if (each->state == DLOCK_RENEWAL_LIVE && each->deadline_ms > now)
            continue;
        each->state = DLOCK_RENEWAL_LOST;
        pass->losses[i] = why_gone(each, now);
    }
}

bool dlock_renewal_collect(struct dlock_pass *pass, const struct dlock *client,
                           struct dlock_renewal_queue *queue, uint64_t now)
{
    /* Entries that are nearly due are taken along, so that leases of about the same
     * age stay together from then on. */
    uint64_t soon = now + client->watchdog_lease_ms / 20;
    struct dlock_renewal *each = TAILQ_FIRST(queue), *next;

    pass->n = 0;
    if (each == NULL || each->due_ms > now)
        return false;
    for (; each != NULL && each->due_ms <= soon && pass->n < DLOCK_PASS_MAX;
         each = next) {
        next = TAILQ_NEXT(each, turn);
        if (each->due_ms > now && each->stop_ms <= now)
            continue;
        dlock_renewal_step_out(queue, each);
        each->in_pass = true;
        pass->losses[pass->n] = DLOCK_LOSS_N;
        pass->entries[pass->n++] = each;
    }
    put_ended_last(pass, now);
    /* The pass must not take longer than a lease that still runs, because its holder
     * must hear of its end in time. */
    pass->limit_ms = now + client->wire.command_timeout_ms;
    for (size_t i = 0; i < pass->renewed_n; i++) {
        uint64_t deadline_ms = pass->entries[i]->deadline_ms;

        if (deadline_ms > now && deadline_ms < pass->limit_ms)
            pass->limit_ms = deadline_ms;
    }
    return true;
}

/* Whether entry number I is lost. Only then the server is asked whether that was
 * somebody's will. */
static bool is_lost(const struct dlock_pass *pass, size_t i)
{
    const struct dlock_renew *renew = &pass->renews[i];

    if (i >= pass->renewed_n)
        return pass->losses[i] != DLOCK_LOSS_N;
    return renew->status == DLOCK_OK && renew->answer != 1 &&
           renew->answer != DLOCK_OVERTAKEN;
}

void dlock_renewal_send(struct dlock_pass *pass, struct dlock *client)
{
    for (size_t i = 0; i < pass->renewed_n; i++)
        pass->renews[i] = (struct dlock_renew){.name = pass->entries[i]->name,
                                               .owner = pass->entries[i]->owner,
                                               .number = dlock_number(client)};
    if (pass->renewed_n > 0)
        client->strategy->renew(client, pass->renews, pass->renewed_n,
                                client->watchdog_lease_ms, pass->limit_ms);
    for (size_t i = 0; i < pass->n; i++) {
        const struct dlock_renewal *each = pass->entries[i];
        uint64_t forced = 0;

        if (is_lost(pass, i))
            forced = client->strategy->forced(client, each->name, each->owner,
                                              pass->limit_ms);
        if (each->attempt <= forced)
            pass->losses[i] = DLOCK_LOSS_FORCED;
    }
}

/* The end of one renewal: why it is lost, or DLOCK_LOSS_N. */
static enum dlock_loss settle(struct dlock_renewal *renewal,
                              const struct dlock *client,
                              const struct dlock_renew *renew,
                              uint64_t sent_at_ms)
{
    uint64_t deadline_ms =
        sent_at_ms +
        dlock_valid_ms(client->strategy, client->watchdog_lease_ms);
    uint64_t now = dlock_clock_now(client->clock);

    /* No answer, or it came too late: asked again soon, and at the latest when the
     * lease ends. */
    if (renew->status != DLOCK_OK || renew->answer == DLOCK_OVERTAKEN) {
        if (now >= renewal->deadline_ms)
            return DLOCK_LOSS_UNREACHABLE;
        renewal->due_ms =
            now + 1 + client->watchdog_lease_ms / RETRIES_PER_LEASE;
        if (renewal->due_ms > renewal->deadline_ms)
            renewal->due_ms = renewal->deadline_ms;
        return DLOCK_LOSS_N;
    }
    if (renew->answer == 0)
        return why_gone(renewal, now);
    if (renew->answer != 1)
        return DLOCK_LOSS_TAKEN;
    if (renewal->deadline_ms < deadline_ms)
        renewal->deadline_ms = deadline_ms;
    renewal->due_ms =
        sent_at_ms + client->watchdog_lease_ms / DLOCK_RENEWALS_PER_LEASE;
    return DLOCK_LOSS_N;
}

void dlock_renewal_apply(struct dlock_pass *pass, const struct dlock *client,
                         uint64_t sent_at_ms)
{
    for (size_t i = 0; i < pass->renewed_n; i++) {
        struct dlock_renewal *each = pass->entries[i];

        /* Outlived while it was being renewed: the next pass is for that. */
        if (each->state != DLOCK_RENEWAL_LIVE)
            pass->losses[i] = DLOCK_LOSS_N;
        else if (pass->losses[i] == DLOCK_LOSS_N)
            pass->losses[i] =
                settle(each, client, &pass->renews[i], sent_at_ms);
        each->cut_off = pass->losses[i] == DLOCK_LOSS_UNREACHABLE;
        if (pass->losses[i] != DLOCK_LOSS_N)
            each->state = DLOCK_RENEWAL_LOST;
    }
}

void dlock_renewal_tell(const struct dlock_pass *pass,
                        const struct dlock *client, pthread_mutex_t *mutex)
{
    for (size_t i = 0; i < pass->n && client->on_lost != NULL; i++) {
        const struct dlock_renewal *each = pass->entries[i];

        if (pass->losses[i] == DLOCK_LOSS_N ||
            each->state == DLOCK_RENEWAL_CANCELLED)
            continue;
        (void)pthread_mutex_unlock(mutex);
        client->on_lost(client->on_lost_ctx, each->name, each->owner,
                        pass->losses[i]);
        (void)pthread_mutex_lock(mutex);
    }
}

void dlock_renewal_end(struct dlock_pass *pass,
                       struct dlock_renewal_queue *queue)
{
    for (size_t i = 0; i < pass->n; i++) {
        struct dlock_renewal *each = pass->entries[i];

        each->in_pass = false;
        if (each->state == DLOCK_RENEWAL_CANCELLED)
            free(each);
        else
            dlock_renewal_line_up(queue, each);
    }
}
