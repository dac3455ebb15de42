/*
 * multi: one lock on all of N independent Redis servers.
 *
 * Guarantees what redisson does (X C A P R L N W), also if servers lose their data:
 * as long as one of them still knows the holder, nobody else can get all of them.
 * So a failover that promotes a stale copy does not let a second holder in.
 *
 * Does not guarantee that it is to be had: with one server down nobody gets it
 * (M only in this half). Nor an order (F), nor, without tokens, that a late
 * holder does not write (S). Tokens are given if the terms ask; quorum.c tells
 * why they rise.
 *
 * The failure that it is here to show is the half-taken lock. The servers are
 * taken one after the other, in an order that is the same for all clients,
 * whatever their urls say: so of two that want it, one has the first server,
 * and the other holds nothing while it waits. In any other order each may hold
 * a part and wait for the rest for ever. What was taken is given back, last
 * first, as soon as one server says no; and a release goes on to the others
 * when one of them fails. There is one end of the lease for all: that of the
 * server that was asked first, and a bit before it, since clocks drift.
 */
#include "lock/quorum/quorum.h"

static enum dlock_status open_all(struct dlock *client)
{
    return dlock_quorum_open(client, false);
}

/*
 * Takes the servers in order. *BUSY_AT is the number of the one that said no.
 * HELD says which are to be given back if it is not DLOCK_OK: also one of which
 * only a copy was told no, for what was sent first may still come, and lock.
 */
static enum dlock_status take_all(const struct dlock_attempt *attempt,
                                  struct dlock_grant parts[],
                                  enum dlock_status held[], size_t *busy_at)
{
    const struct dlock_poll *poll = attempt->session->own;
    enum dlock_status status = DLOCK_OK;
    struct dlock_command command;
    struct dlock_reply reply;

    dlock_node_fill_acquire(attempt, &command);
    for (size_t i = 0; i < poll->n; i++)
        held[i] = DLOCK_UNREACHABLE;
    for (size_t i = 0; i < poll->n && status == DLOCK_OK; i++) {
        status = dlock_call(poll->asked[i].wire, &command, attempt->limit_ms,
                            &reply);
        if (status == DLOCK_OK)
            status =
                dlock_node_read_acquire(&reply, &parts[i], attempt->busy_ms);
        held[i] = status == DLOCK_BUSY && reply.of_copy ? DLOCK_OK : status;
        *busy_at = i;
    }
    return status;
}

/* Each try has a number of its own: the one before may have been undone. */
static enum dlock_status acquire(const struct dlock_attempt *attempt)
{
    struct dlock_attempt mine = *attempt;
    struct dlock_grant parts[DLOCK_NODES_MAX];
    enum dlock_status held[DLOCK_NODES_MAX];
    enum dlock_status status;
    size_t busy_at = 0;

    mine.number = dlock_number(attempt->session->client);
    /* With the lease over, the rest would be in vain. */
    if (mine.grant->deadline_ms < mine.limit_ms)
        mine.limit_ms = mine.grant->deadline_ms;
    status = take_all(&mine, parts, held, &busy_at);
    if (status == DLOCK_OK)
        status = dlock_quorum_confirm(&mine, parts, held);
    if (status == DLOCK_OK)
        return DLOCK_OK;
    if (status == DLOCK_BUSY)
        *mine.busy_ms =
            dlock_quorum_pause_ms(mine.session, busy_at > 0, *mine.busy_ms);
    return dlock_quorum_undo(&mine, held, status);
}

const struct dlock_strategy dlock_strategy_multi = {
    .info = {.name = "multi",
             .claim = "As redisson, on all of several servers at once: none "
                      "that loses its data lets a second holder in.",
             .capabilities = DLOCK_NODE_CAPABILITIES},
    .variant = &dlock_node_plain,
    .open = open_all,
    .acquire = acquire,
    .extend = dlock_quorum_extend,
    DLOCK_QUORUM_FUNCTIONS,
};
