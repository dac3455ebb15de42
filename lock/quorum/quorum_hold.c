/*
 * A lock on several independent Redis servers, while it is held: extend,
 * release, inspect, release by force, and renewal.
 *
 * All of it by the same rule. Enough servers say yes: it is done. So many say no
 * that enough cannot say yes any more: it is lost. Else nobody knows. A release
 * goes to all servers, also to those that did not answer when the lock was taken,
 * because it may stand there all the same.
 */
#include <stdlib.h>
#include <string.h>

#include "lock/core/error.h"
#include "lock/quorum/quorum.h"

/* DLOCK_OK, DLOCK_LOST, or why it cannot be told. Servers that did not answer are
 * neither yes nor no, so they are not counted. */
static enum dlock_status rule(size_t n, size_t needed,
                              const struct dlock_count *count)
{
    if (count->yes >= needed)
        return DLOCK_OK;
    if (count->no > n - needed)
        return DLOCK_LOST;
    return count->unknown > 0 ? DLOCK_UNKNOWN : DLOCK_UNREACHABLE;
}

/* Asks all servers what FILL puts together; the status by the rule, its text from one
 * of them. INSISTS: see ask.h. */
static enum dlock_status ask(const struct dlock_attempt *attempt,
                             dlock_node_fill *fill, bool insists,
                             bool (*agrees)(const struct dlock_reply *reply),
                             struct dlock_count *count)
{
    const struct dlock_poll *poll = attempt->session->own;
    struct dlock_exchange exchange;
    struct dlock_question question = {.exchanges = &exchange,
                                      .limit_ms = attempt->limit_ms,
                                      .agrees = agrees,
                                      .insists = insists};
    enum dlock_status status;

    fill(attempt, &exchange.command);
    *count = dlock_quorum_ask(attempt->session, &question);
    status = rule(poll->n, poll->needed, count);
    if (status == DLOCK_LOST)
        (void)dlock_error_take(); /* of a server that did not matter */
    return status;
}

/* Where some have the new lease and others not, nobody knows when it ends. */
enum dlock_status dlock_quorum_extend(const struct dlock_attempt *attempt)
{
    struct dlock_count count;
    enum dlock_status status = ask(attempt, dlock_node_fill_extend, false,
                                   dlock_quorum_is_one, &count);

    if (status == DLOCK_UNREACHABLE && count.yes > 0)
        return DLOCK_UNKNOWN;
    return status;
}

/* release.lua: holds that are left, or -1. */
static bool was_held(const struct dlock_reply *reply)
{
    return reply->kind == DLOCK_REPLY_INTEGER && reply->integers[0] >= 0;
}

/* A server that does not hold it says no. A minority may do so after a restart, and
 * that does not make the release a failure. */
enum dlock_status dlock_quorum_release(const struct dlock_attempt *attempt)
{
    struct dlock_count count;

    return ask(attempt, dlock_node_fill_release, true, was_held, &count);
}

/* Whether a server has told of a holder; of one owner, the last command of all. */
static bool sees_holder(const struct dlock_poll *poll,
                        struct dlock_node_seen *seen)
{
    struct dlock_node_seen each;
    bool sees = false;

    for (size_t i = 0; i < poll->n; i++) {
        if (poll->answers[i].status != DLOCK_OK ||
            !dlock_node_read_seen(&poll->answers[i].reply, &each))
            continue;
        if (!sees || (strcmp(each.owner, seen->owner) == 0 &&
                      each.attempt > seen->attempt))
            *seen = each;
        sees = true;
    }
    return sees;
}

/* Enough is enough answers, where each of many renewals is for itself, or where a no
 * tells of the holder. */
static bool is_answer(const struct dlock_reply *reply)
{
    (void)reply;
    return true;
}

/* One answer is enough to have freed something. */
enum dlock_status dlock_quorum_force(const struct dlock_attempt *attempt)
{
    const struct dlock_poll *poll = attempt->session->own;
    struct dlock_node_seen seen = {.attempt = 0};
    struct dlock_exchange exchange;
    struct dlock_question question = {.exchanges = &exchange,
                                      .limit_ms = attempt->limit_ms,
                                      .agrees = is_answer,
                                      .insists = true};
    struct dlock_count count;
    bool freed = false;

    do {
        dlock_node_fill_force(&dlock_node_plain, attempt, &seen,
                              &exchange.command);
        count = dlock_quorum_ask(attempt->session, &question);
        if (count.yes < poll->needed)
            return count.unknown > 0 ? DLOCK_UNKNOWN : DLOCK_UNREACHABLE;
        for (size_t i = 0; i < poll->n; i++)
            freed = freed || (poll->answers[i].status == DLOCK_OK &&
                              dlock_quorum_is_one(&poll->answers[i].reply));
    } while (sees_holder(poll, &seen));
    return freed ? DLOCK_OK : DLOCK_LOST;
}

/* Inspect -------------------------------------------------------------------- */

static bool is_list(const struct dlock_reply *reply)
{
    return reply->kind == DLOCK_REPLY_LIST;
}

/* The longest first. */
static int compare_longest(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;

    return (left < right) - (left > right);
}

/* The holder by all servers that name the same owner as number FIRST. */
static size_t add_holders(const struct dlock_holder parts[], size_t n,
                          size_t first, struct dlock_holder *holder,
                          uint64_t remaining[])
{
    size_t agreeing = 0;

    *holder = parts[first];
    for (size_t i = 0; i < n; i++) {
        if (!parts[i].held || strcmp(parts[i].owner, holder->owner) != 0)
            continue;
        remaining[agreeing++] = parts[i].remaining_ms;
        if (parts[i].token > holder->token)
            holder->token = parts[i].token;
        if (parts[i].holds > holder->holds)
            holder->holds = parts[i].holds;
    }
    return agreeing;
}

/* Held is what enough servers hold for one owner, as long as they are enough. Servers that
 * do not answer may make them enough. */
enum dlock_status dlock_quorum_inspect(const struct dlock_attempt *attempt,
                                       struct dlock_holder *holder)
{
    const struct dlock_poll *poll = attempt->session->own;
    struct dlock_holder parts[DLOCK_NODES_MAX] = {{.held = false}};
    uint64_t remaining[DLOCK_NODES_MAX];
    struct dlock_holder found;
    struct dlock_count count;
    enum dlock_status status =
        ask(attempt, dlock_node_fill_inspect, false, is_list, &count);
    bool may_be_held = false;

    if (status != DLOCK_OK)
        return status;
    for (size_t i = 0; i < poll->n; i++)
        if (poll->answers[i].status == DLOCK_OK)
            dlock_node_read_inspect(&poll->answers[i].reply, &parts[i]);
    for (size_t i = 0; i < poll->n; i++) {
        size_t agreeing = 0;

        if (parts[i].held)
            agreeing = add_holders(parts, poll->n, i, &found, remaining);
        may_be_held =
            may_be_held ||
            (agreeing > 0 && agreeing + poll->n - count.yes >= poll->needed);
        if (agreeing < poll->needed)
            continue;
        qsort(remaining, agreeing, sizeof(remaining[0]), compare_longest);
        found.remaining_ms = remaining[poll->needed - 1];
        *holder = found;
        return DLOCK_OK;
    }
    if (may_be_held)
        return dlock_error_set(DLOCK_UNKNOWN,
                               "the servers that answer do not agree");
    return DLOCK_OK;
}

/* Renewal, on the watchdog's thread --------------------------------------------- */

/*
 * Adds up what the servers say to renewal number I. If it is lost, then for the
 * reason that one of them gives.
 */
static void add_renewals(const struct dlock_nodes *nodes,
                         struct dlock_renew *renew, size_t i)
{
    struct dlock_count count = {.yes = 0};
    int64_t answer = 0;

    for (size_t k = 0; k < nodes->n; k++) {
        const struct dlock_answer *each = &nodes->renewers[k].answers[i];

        if (each->status != DLOCK_OK ||
            each->reply.integers[0] == DLOCK_OVERTAKEN)
            continue;
        count.yes += dlock_quorum_is_one(&each->reply);
        count.no += !dlock_quorum_is_one(&each->reply);
        if (each->reply.integers[0] < answer)
            answer = each->reply.integers[0];
    }
    renew->status = rule(nodes->n, nodes->needed, &count);
    renew->answer = renew->status == DLOCK_OK ? 1 : answer;
    if (renew->status == DLOCK_LOST)
        renew->status = DLOCK_OK; /* there is an answer, and it is no */
}

/* All renewals of a pass to each server in one go, as to a single one. */
void dlock_quorum_renew(struct dlock *client, struct dlock_renew renews[],
                        size_t n, unsigned lease_ms, uint64_t limit_ms)
{
    struct dlock_nodes *nodes = client->own;
    struct dlock_exchange *exchanges = dlock_node_renewals(renews, n, lease_ms);
    struct dlock_question question = {.exchanges = exchanges,
                                      .n = n,
                                      .limit_ms = limit_ms,
                                      .timeout_ms =
                                          client->wire.command_timeout_ms,
                                      .needed = nodes->needed,
                                      .agrees = is_answer};

    /* No memory: that is as if nobody could be reached. */
    if (exchanges != NULL) {
        dlock_ask(nodes->renewers, nodes->n, &question);
        for (size_t i = 0; i < n; i++)
            add_renewals(nodes, &renews[i], i);
    }
    free(exchanges);
}

/* One that knows of force: there is no need to wait for the others. */
static bool knows_of_force(const struct dlock_reply *reply)
{
    return dlock_node_read_forced(reply) > 0;
}

/* Each server has a word of its own: the last attempt is the right one. */
uint64_t dlock_quorum_forced(struct dlock *client, const char *name,
                             const char *owner, uint64_t limit_ms)
{
    struct dlock_nodes *nodes = client->own;
    struct dlock_exchange exchange;
    struct dlock_question question = {.exchanges = &exchange,
                                      .n = 1,
                                      .limit_ms = limit_ms,
                                      .timeout_ms =
                                          client->wire.command_timeout_ms,
                                      .needed = 1,
                                      .agrees = knows_of_force};
    uint64_t forced = 0;

    dlock_node_fill_forced(name, owner, &exchange.command);
    dlock_ask(nodes->renewers, nodes->n, &question);
    for (size_t k = 0; k < nodes->n; k++) {
        const struct dlock_answer *answer = nodes->renewers[k].answers;
        uint64_t known = answer->status == DLOCK_OK
                             ? dlock_node_read_forced(&answer->reply)
                             : 0;

        forced = known > forced ? known : forced;
    }
    return forced;
}
