/*
 * multi: one lock on all of N independent Redis servers.
 *
 * Guarantees what redisson does (X C A P R L N W), also if servers lose their data: as long
 * as one of them still knows the holder, nobody else can get all of them. So a failover that
 * promotes a stale copy does not let a second holder in.
 *
 * Does not guarantee that it is to be had: with one server down nobody gets it (M only in
 * this half). Nor an order (F), nor, without tokens, that a late holder does not write (S).
 * Tokens are given if the terms ask (quorum.c).
 *
 * The failure that it is here to show is the half-taken lock. The servers are taken one after
 * the other, in an order that is the same for all clients: so of two that want it, one has the
 * first server, and the other holds nothing while it waits. In any other order each may hold
 * a part and wait for the rest for ever. What was taken is given back, last first, as soon as
 * one server says no; and a release goes on to the others when one of them fails. There is
 * one end of the lease for all: that of the server that was asked first, and a bit before it,
 * since clocks drift.
 */
#include "lock/quorum/quorum.h"

static enum dlock_status open_all(struct dlock *client)
{
    return dlock_quorum_open(client, false);
}

/* Takes the servers in order. One of which only a copy was told no is to be given back as
 * well, for what was sent first may still come, and lock. Each try has a number of its
 * own: the one before may have been undone. */
static enum dlock_status acquire(const struct dlock_attempt *attempt)
{
    const struct dlock_poll *poll = attempt->session->own;
    struct dlock_attempt mine = *attempt;
    struct dlock_vote votes[DLOCK_NODES_MAX];
    enum dlock_status status = DLOCK_OK;
    struct dlock_command command;
    struct dlock_reply reply;
    size_t n = 0; /* that were asked */

    mine.number = dlock_number(attempt->session->client);
    /* With the lease over, the rest would be in vain. */
    if (mine.grant->deadline_ms < mine.limit_ms)
        mine.limit_ms = mine.grant->deadline_ms;
    dlock_node_fill_acquire(&mine, &command);
    for (size_t i = 0; i < poll->n; i++)
        /* Servers that are not asked have nothing to give back. */
        votes[i].held = DLOCK_UNREACHABLE;
    while (n < poll->n && status == DLOCK_OK) {
        struct dlock_vote *vote = &votes[n];

        status =
            dlock_call(poll->asked[n].wire, &command, mine.limit_ms, &reply);
        if (status == DLOCK_OK)
            status = dlock_node_read_acquire(&reply, &vote->part, mine.busy_ms);
        /* DLOCK_OK makes the undo send a release and wait for its answer, which the first
         * copy, if it comes later, finds there. */
        vote->held = status == DLOCK_BUSY && reply.of_copy ? DLOCK_OK : status;
        vote->counts = status == DLOCK_OK;
        n++;
    }
    /* A server before the last one was taken if n > 1: the acquire was split. */
    return dlock_quorum_end(&mine, votes, status, n > 1, *mine.busy_ms);
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
