/*
 * A lock on several independent Redis servers: the servers of a client and of a
 * session, asking them, and what follows an acquire. What is done with a lock
 * that is held is in quorum_hold.c.
 *
 * A command goes to all servers, word for word: the same owner, the same number of
 * the attempt. The servers know nothing of each other.
 *
 * Tokens. Each server counts for itself, and the grant's token is the highest
 * count among those that agreed. That alone would not rise: the highest may
 * come from a server that the next holder does not reach. So before a grant
 * counts, its token has to stand on as many servers as have to agree; where the
 * counts differ, it is written back. Two such sets of servers have one in
 * common: there the next holder finds at least this token, and counts on. As
 * with one server, that ends where servers lose their data, which is what the
 * terms' fence_floor is for.
 */
#include "lock/quorum/quorum.h"

#include <stdlib.h>
#include <string.h>

#include "lock/core/clock.h"
#include "lock/core/error.h"
#include "lock/dlock_quorum.h"
#include "lock/quorum/scripts.h"
#include "lock/quorum/scripts.inc" /* what the one above declares */

enum {
    SPLIT_MIN_MS = 2,
    SPLIT_SPREAD_MS = 32,
    LOOK_MIN_MS = 500,
    LOOK_SPREAD_MS = 500,
};

/* The servers ---------------------------------------------------------------- */

/* By address: the same order for every client. */
static int compare_nodes(const void *a, const void *b)
{
    const struct dlock_wire_config *left = a;
    const struct dlock_wire_config *right = b;
    int order = strcmp(left->address.host, right->address.host);

    if (order == 0)
        order = strcmp(left->address.port, right->address.port);
    if (order == 0)
        order = strcmp(left->address.hosts, right->address.hosts);
    return order != 0 ? order
                      : strcmp(left->address.primary, right->address.primary);
}

/* Takes "URL,URL" apart. The nodes come out in the order of their addresses. */
static enum dlock_status parse_urls(const struct dlock *client,
                                    struct dlock_nodes *nodes)
{
    const char *url = client->url == NULL ? "" : client->url;

    for (;;) {
        struct dlock_wire_config *node = &nodes->configs[nodes->n];
        if (nodes->n == DLOCK_NODES_MAX)
            return dlock_error_set(DLOCK_MISUSE,
                                   "more than %d servers in the url",
                                   DLOCK_NODES_MAX);
        *node = client->wire;
        node->node = (unsigned)nodes->n++;
        url = dlock_url_parse(url, &node->address);
        if (url == NULL)
            return dlock_error_set(DLOCK_MISUSE, "url %zu of them: %s",
                                   nodes->n, dlock_url_forms);
        if (node->address.cluster)
            return dlock_error_set(DLOCK_MISUSE,
                                   "url %zu of them is a cluster: this lock "
                                   "takes servers that are independent",
                                   nodes->n);
        if (*url++ == '\0')
            break;
    }
    qsort(nodes->configs, nodes->n, sizeof(nodes->configs[0]), compare_nodes);
    for (size_t i = 1; i < nodes->n; i++)
        if (compare_nodes(&nodes->configs[i - 1], &nodes->configs[i]) == 0)
            return dlock_error_set(DLOCK_MISUSE,
                                   "a server is twice in the url");
    return DLOCK_OK;
}

/*
 * Waiters are woken by the first server alone; while it is away they look by
 * themselves, as they do when it does not tell them.
 */
enum dlock_status dlock_quorum_open(struct dlock *client, bool majority)
{
    struct dlock_nodes *nodes = calloc(1, sizeof(*nodes));
    enum dlock_status status;

    if (nodes == NULL)
        return dlock_error_set(DLOCK_UNREACHABLE, "out of memory");
    status = parse_urls(client, nodes);
    if (status != DLOCK_OK)
        goto err_after_alloc;
    nodes->needed = majority ? nodes->n / 2 + 1 : nodes->n;
    client->wire.address = nodes->configs[0].address;
    status = dlock_wakeup_open(client);
    if (status != DLOCK_OK)
        goto err_after_alloc;
    client->own = nodes;
    for (size_t i = 0; i < nodes->n; i++) {
        nodes->renewers[i].answers = nodes->renewals[i];
        nodes->renewers[i].wire =
            dlock_wire_open(&nodes->configs[i], "watchdog");
        if (nodes->renewers[i].wire == NULL) {
            dlock_quorum_close(client);
            return dlock_error_set(DLOCK_UNREACHABLE, "out of memory");
        }
    }
    return DLOCK_OK;

err_after_alloc:
    free(nodes);
    return status;
}

/* After the watchdog, whose thread used the renewers. A wire may be NULL. */
void dlock_quorum_close(struct dlock *client)
{
    struct dlock_nodes *nodes = client->own;

    dlock_wakeup_close(client);
    for (size_t i = 0; i < nodes->n; i++)
        dlock_wire_close(nodes->renewers[i].wire);
    free(nodes);
}

enum dlock_status dlock_quorum_session_open(struct dlock_session *session)
{
    const struct dlock_nodes *nodes = session->client->own;
    struct dlock_poll *poll = calloc(1, sizeof(*poll));

    if (poll == NULL)
        return dlock_error_set(DLOCK_UNREACHABLE, "out of memory");
    poll->n = nodes->n;
    poll->needed = nodes->needed;
    session->own = poll;
    for (size_t i = 0; i < poll->n; i++) {
        poll->asked[i].answers = &poll->answers[i];
        poll->asked[i].wire =
            dlock_wire_open(&nodes->configs[i], session->owner);
        if (poll->asked[i].wire == NULL) {
            dlock_quorum_session_close(session);
            return dlock_error_set(DLOCK_UNREACHABLE, "out of memory");
        }
    }
    return DLOCK_OK;
}

/* Also of a session that was half made: a wire may be NULL. */
void dlock_quorum_session_close(struct dlock_session *session)
{
    struct dlock_poll *poll = session->own;

    for (size_t i = 0; i < poll->n; i++)
        dlock_wire_close(poll->asked[i].wire);
    free(poll);
}

/* Asking --------------------------------------------------------------------- */

bool dlock_quorum_is_one(const struct dlock_reply *reply)
{
    return reply->kind != DLOCK_REPLY_ERROR && reply->integers_n > 0 &&
           reply->integers[0] == 1;
}

struct dlock_count dlock_quorum_ask(struct dlock_session *session,
                                    const struct dlock_question *asked)
{
    struct dlock_poll *poll = session->own;
    struct dlock_question question = *asked;
    struct dlock_count count = {.yes = 0};

    question.n = 1;
    question.needed = poll->needed;
    if (question.timeout_ms == 0)
        question.timeout_ms = session->client->wire.command_timeout_ms;
    dlock_ask(poll->asked, poll->n, &question);
    for (size_t i = 0; i < poll->n; i++) {
        const struct dlock_answer *answer = &poll->answers[i];
        /* The outcome of the newer command is not known, so this is no "no". */
        bool overtaken = answer->reply.kind == DLOCK_REPLY_INTEGER &&
                         answer->reply.integers[0] == DLOCK_OVERTAKEN;

        if (answer->status == DLOCK_OK && asked->agrees(&answer->reply))
            count.yes++;
        else if (answer->status == DLOCK_OK && !overtaken)
            count.no++;
        else if (answer->status != DLOCK_UNREACHABLE)
            count.unknown++;
    }
    return count;
}

/* After an acquire ------------------------------------------------------------- */

/*
 * Makes the token known to enough servers. A round trip more, but only after
 * servers were out of reach: else their counts agree by themselves.
 */
static bool spread_token(const struct dlock_attempt *attempt, uint64_t token)
{
    struct dlock_session *session = attempt->session;
    const struct dlock_poll *poll = session->own;
    struct dlock_exchange exchange;
    struct dlock_command *command = &exchange.command;
    struct dlock_question question = {.exchanges = &exchange,
                                      .limit_ms = attempt->limit_ms,
                                      .agrees = dlock_quorum_is_one};

    dlock_command_init(command, "eval-fence", attempt->name,
                       &dlock_script_quorum_fence);
    dlock_command_key(command, attempt->name);
    dlock_node_add_fence(command);
    dlock_command_arg(command, session->owner);
    dlock_command_number(command, token);
    dlock_command_number(command, DLOCK_FENCE_LIFE_MS);
    dlock_command_number(command, attempt->number);
    return dlock_quorum_ask(session, &question).yes >= poll->needed;
}

/*
 * A re-entry is a new hold only if so many servers did not know the outer one that
 * enough cannot have it any more: another majority may have answered then. It has
 * the token of the outer one; the token of a server that did not know the outer
 * hold is ignored.
 */
static void add_up(const struct dlock_poll *poll,
                   const struct dlock_grant parts[],
                   const enum dlock_status held[], unsigned holds,
                   struct dlock_grant *grant)
{
    size_t anew_n = 0;

    for (size_t i = 0; i < poll->n; i++)
        anew_n += held[i] == DLOCK_OK && parts[i].holds == 1;
    grant->holds = anew_n <= poll->n - poll->needed ? holds + 1 : 1;
    grant->token = 0;
    for (size_t i = 0; i < poll->n; i++)
        if (held[i] == DLOCK_OK && parts[i].token > grant->token &&
            (grant->holds == 1 || parts[i].holds > 1))
            grant->token = parts[i].token;
}

/* Whether enough servers count from TOKEN on, and none has it wrong. */
static bool is_known(const struct dlock_poll *poll,
                     const struct dlock_grant parts[],
                     const enum dlock_status held[], uint64_t token)
{
    size_t knowing = 0;

    for (size_t i = 0; i < poll->n; i++) {
        if (held[i] != DLOCK_OK)
            continue;
        if (parts[i].token > token)
            return false;
        knowing += parts[i].token == token;
    }
    return knowing >= poll->needed;
}

enum dlock_status dlock_quorum_confirm(const struct dlock_attempt *attempt,
                                       const struct dlock_grant parts[],
                                       const enum dlock_status held[])
{
    const struct dlock_poll *poll = attempt->session->own;
    struct dlock_grant *grant = attempt->grant;

    add_up(poll, parts, held, attempt->holds, grant);
    if (attempt->fenced && !is_known(poll, parts, held, grant->token) &&
        !spread_token(attempt, grant->token))
        return dlock_error_set(DLOCK_UNREACHABLE,
                               "the token did not reach enough servers");
    return DLOCK_OK;
}

/*
 * Tells those that may have agreed to forget it, and does not wait for them:
 * they have been silent once. They share one connect timeout, however many
 * cannot be reached.
 */
static void tell_silent(const struct dlock_session *session,
                        const struct dlock_command *command,
                        const enum dlock_status held[])
{
    const struct dlock_poll *poll = session->own;
    uint64_t until_ms =
        dlock_clock_real_now() + session->client->wire.connect_timeout_ms;
    size_t silent_n = 0;

    for (size_t i = 0; i < poll->n; i++)
        silent_n += held[i] == DLOCK_UNKNOWN;
    for (size_t i = poll->n; i-- > 0;)
        if (held[i] == DLOCK_UNKNOWN)
            dlock_call_abandon(poll->asked[i].wire, command,
                               dlock_clock_real_left(until_ms) / silent_n--);
}

/* Those that agreed are asked to forget it, and waited for. */
enum dlock_status dlock_quorum_undo(const struct dlock_attempt *attempt,
                                    const enum dlock_status held[],
                                    enum dlock_status status)
{
    struct dlock_session *session = attempt->session;
    struct dlock_poll *poll = session->own;
    struct dlock_attempt end = *attempt;
    struct dlock_exchange exchange;
    struct dlock_asked asked[DLOCK_NODES_MAX];
    struct dlock_question question = {
        .exchanges = &exchange,
        .n = 1,
        .limit_ms = UINT64_MAX,
        .timeout_ms = session->client->wire.command_timeout_ms,
        .insists = true};
    struct dlock_error kept = dlock_error_take();
    size_t unsure = 0;

    end.undoes = attempt->number;
    end.number = dlock_number(session->client);
    dlock_node_fill_undo(&end, &exchange.command);
    for (size_t i = 0; i < poll->n; i++) {
        size_t last = poll->n - 1 - i;

        asked[i] = poll->asked[last];
        if (held[last] != DLOCK_OK)
            asked[i].wire = NULL;
    }
    tell_silent(session, &exchange.command, held);
    dlock_ask(asked, poll->n, &question);
    dlock_error_put(&kept);
    for (size_t i = 0; i < poll->n; i++)
        if (held[i] == DLOCK_UNKNOWN ||
            (held[i] == DLOCK_OK && poll->answers[i].status != DLOCK_OK))
            unsure++;
    /* More than that, and the rest is too few for anybody else. */
    return unsure > poll->n - poll->needed ? DLOCK_UNKNOWN : status;
}

uint64_t dlock_quorum_pause_ms(const struct dlock_session *session, bool split,
                               uint64_t busy_ms)
{
    const struct dlock_clock *clock = session->client->clock;
    uint16_t dice = 0;
    uint64_t pause_ms;

    clock->random(clock->ctx, &dice, sizeof(dice));
    pause_ms = split ? SPLIT_MIN_MS + dice % SPLIT_SPREAD_MS
                     : LOOK_MIN_MS + dice % LOOK_SPREAD_MS;
    return pause_ms < busy_ms ? pause_ms : busy_ms;
}

#define STRATEGIES(X) X(multi) X(redlock)

STRATEGIES(DLOCK_STRATEGY_DECLARE)
DLOCK_STRATEGIES(dlock_quorum_strategies, STRATEGIES)
