/*
 * A lock on several independent Redis servers: the servers of a client and of a session,
 * asking them, and all but the acquire itself. A command goes to all servers, word for word:
 * the same owner, the same number. The servers know nothing of each other.
 *
 * Tokens. Each server counts for itself, and the grant's token is the highest count among
 * those that agreed. That alone would not rise: the highest may come from a server that the
 * next holder does not reach. So before a grant counts, its token has to stand on as many
 * servers as have to agree; where the counts differ, it is written back. Two such sets of
 * servers have one in common: there the next holder finds at least this token, and counts
 * on. As with one server, that ends where servers lose their data: see fence_floor.
 */
#include "lock/quorum/quorum.h"

#include <stdlib.h>
#include <string.h>

#include "lock/dlock_more.h"
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
        const char *lacks;

        if (nodes->n == DLOCK_NODES_MAX)
            return dlock_error_set(DLOCK_MISUSE,
                                   "more than %d servers in the url",
                                   DLOCK_NODES_MAX);
        *node = client->wire;
        node->node = (unsigned)nodes->n++;
        /* A url of several is taken apart one by one: the rest begins behind the comma. */
        url = dlock_url_parse(url, &node->address);
        lacks =
            url == NULL ? dlock_url_forms : dlock_address_lacks(&node->address);
        if (lacks != NULL)
            return dlock_error_set(DLOCK_MISUSE, "url %zu of them: %s",
                                   nodes->n, lacks);
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
        /* A server that is twice in the list would have two votes, or answer its second
         * acquire as a copy. */
        if (compare_nodes(&nodes->configs[i - 1], &nodes->configs[i]) == 0)
            return dlock_error_set(DLOCK_MISUSE,
                                   "a server is twice in the url");
    return DLOCK_OK;
}

/* A wire of OWNER's to each server. */
static enum dlock_status open_wires(const struct dlock_nodes *nodes,
                                    struct dlock_asked asked[],
                                    const char *owner)
{
    for (size_t i = 0; i < nodes->n; i++) {
        asked[i].wire = dlock_wire_open(&nodes->configs[i], owner);
        if (asked[i].wire == NULL)
            return dlock_error_set(DLOCK_UNREACHABLE, "out of memory");
    }
    return DLOCK_OK;
}

/* Waiters are woken by the first server alone; while it is away they look by themselves,
 * as they do when it does not tell them. */
enum dlock_status dlock_quorum_open(struct dlock *client, bool majority)
{
    struct dlock_nodes *nodes = calloc(1, sizeof(*nodes));
    enum dlock_status status;

    if (nodes == NULL)
        return dlock_error_set(DLOCK_UNREACHABLE, "out of memory");
    client->own = nodes;
    status = parse_urls(client, nodes);
    nodes->needed = majority ? nodes->n / 2 + 1 : nodes->n;
    /* dlock_wakeup_open() below subscribes at client->wire's address. */
    client->wire.address = nodes->configs[0].address;
    if (status == DLOCK_OK)
        status = dlock_wakeup_open(client);
    if (status != DLOCK_OK)
        return status;
    for (size_t i = 0; i < nodes->n; i++)
        nodes->renewers[i].answers = nodes->renewals[i];
    status = open_wires(nodes, nodes->renewers, "watchdog");
    if (status != DLOCK_OK)
        dlock_quorum_close(client);
    return status;
}

/* After the watchdog, whose thread used the renewers. A wire may be NULL. */
void dlock_quorum_close(struct dlock *client)
{
    struct dlock_nodes *nodes = client->own;

    dlock_wakeup_close(client);
    for (size_t i = 0; i < nodes->n; i++)
        dlock_wire_close(nodes->renewers[i].wire);
}

enum dlock_status dlock_quorum_session_open(struct dlock_session *session)
{
    const struct dlock_nodes *nodes = session->client->own;
    struct dlock_poll *poll = calloc(1, sizeof(*poll));
    enum dlock_status status;

    if (poll == NULL)
        return dlock_error_set(DLOCK_UNREACHABLE, "out of memory");
    poll->n = nodes->n;
    poll->needed = nodes->needed;
    session->own = poll;
    for (size_t i = 0; i < poll->n; i++)
        poll->asked[i].answers = &poll->answers[i];
    status = open_wires(nodes, poll->asked, session->owner);
    if (status != DLOCK_OK)
        dlock_quorum_session_close(session);
    return status;
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

struct dlock_count dlock_quorum_ask(const struct dlock_attempt *attempt,
                                    const struct dlock_question *asked)
{
    struct dlock_poll *poll = attempt->session->own;
    struct dlock_question question = *asked;
    struct dlock_count count = {.yes = 0};

    question.n = 1;
    question.limit_ms = attempt->limit_ms;
    /* The others get a little more time only: a release to them goes out all the same, see
     * ->insists. */
    question.needed = poll->needed;
    dlock_ask(attempt->session->client, poll->asked, poll->n, &question);
    for (size_t i = 0; i < poll->n; i++) {
        const struct dlock_exchange *answer = &poll->answers[i];
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

/* Makes the token known to enough servers. A round trip more, but only after servers were
 * out of reach: else their counts agree by themselves. */
static bool spread_token(const struct dlock_attempt *attempt, uint64_t token)
{
    const struct dlock_poll *poll = attempt->session->own;
    struct dlock_command command;
    struct dlock_question question = {.commands = &command,
                                      .agrees = dlock_quorum_is_one};

    dlock_command_init(&command, "eval-fence", attempt->name,
                       &dlock_script_quorum_fence);
    dlock_command_key(&command, attempt->name);
    dlock_node_add_fence(&command);
    dlock_command_arg(&command, attempt->session->owner);
    dlock_command_number(&command, token);
    dlock_command_number(&command, DLOCK_FENCE_LIFE_MS);
    dlock_command_number(&command, attempt->number);
    return dlock_quorum_ask(attempt, &question).yes >= poll->needed;
}

/* A re-entry is a new hold only if so many servers did not know the outer one that enough
 * cannot have it any more. It has the token of the outer one; that of a server which did
 * not know the outer hold is ignored. The token has to be known to enough servers, which
 * count on from there, and none may have it wrong. */
static enum dlock_status confirm(const struct dlock_attempt *attempt,
                                 const struct dlock_vote votes[])
{
    const struct dlock_poll *poll = attempt->session->own;
    struct dlock_grant *grant = attempt->grant;
    size_t anew_n = 0, knowing = 0;
    bool is_wrong = false;

    for (size_t i = 0; i < poll->n; i++)
        anew_n += votes[i].counts && votes[i].part.holds == 1;
    grant->holds = anew_n <= poll->n - poll->needed ? attempt->holds + 1 : 1;
    grant->token = 0;
    for (size_t i = 0; i < poll->n; i++)
        if (votes[i].counts && votes[i].part.token > grant->token &&
            /* A server that did not know the outer hold has begun anew and drawn a token of
             * its own. */
            (grant->holds == 1 || votes[i].part.holds > 1))
            grant->token = votes[i].part.token;
    for (size_t i = 0; i < poll->n; i++) {
        knowing += votes[i].counts && votes[i].part.token == grant->token;
        is_wrong |= votes[i].counts && votes[i].part.token > grant->token;
    }
    if (attempt->fenced && (is_wrong || knowing < poll->needed) &&
        !spread_token(attempt, grant->token))
        return dlock_error_set(DLOCK_UNREACHABLE,
                               "the token did not reach enough servers");
    return DLOCK_OK;
}

/* Those that may have agreed are told to forget it, and not waited for: they have been
 * silent once. They share one connect timeout, however many cannot be reached. Those that
 * agreed are asked to forget it, and waited for. */
static enum dlock_status undo(const struct dlock_attempt *attempt,
                              const struct dlock_vote votes[],
                              enum dlock_status status)
{
    struct dlock_session *session = attempt->session;
    struct dlock_poll *poll = session->own;
    uint64_t until_ms =
        dlock_clock_real_now() + session->client->wire.connect_timeout_ms;
    struct dlock_attempt end = *attempt;
    struct dlock_command command;
    struct dlock_asked asked[DLOCK_NODES_MAX];
    struct dlock_question question = {
        .commands = &command, .n = 1, .limit_ms = UINT64_MAX, .insists = true};
    struct dlock_error kept = dlock_error_take();
    size_t silent_n = 0, unsure = 0;

    end.undoes = attempt->number;
    end.number = dlock_number(session->client);
    dlock_node_fill_undo(&end, &command);
    for (size_t i = 0; i < poll->n; i++) {
        size_t last = poll->n - 1 - i;

        asked[i] = poll->asked[last];
        /* The last server is asked first: as long as the first one is held, nobody else
         * begins. */
        if (votes[last].held != DLOCK_OK)
            asked[i].wire = NULL;
        silent_n += votes[i].held == DLOCK_UNKNOWN;
    }
    for (size_t i = poll->n; i-- > 0;)
        if (votes[i].held == DLOCK_UNKNOWN)
            dlock_call_abandon(poll->asked[i].wire, &command,
                               dlock_clock_real_left(until_ms) / silent_n--);
    dlock_ask(session->client, asked, poll->n, &question);
    dlock_error_put(&kept);
    for (size_t i = 0; i < poll->n; i++)
        unsure +=
            votes[i].held == DLOCK_UNKNOWN ||
            /* poll->answers are those to the undo by now: dlock_ask() has overwritten the
             * votes. */
            (votes[i].held == DLOCK_OK && poll->answers[i].status != DLOCK_OK);
    /* Servers that are sure are too few then for anybody else to get the lock. */
    return unsure > poll->n - poll->needed ? DLOCK_UNKNOWN : status;
}

/* The pause after a split is short and random, so that the rivals do not meet again. Any
 * other is as long as one may rely on messages, which only one server sends. */
static uint64_t pause_ms(const struct dlock_clock *clock, bool split)
{
    uint16_t dice = 0;

    clock->random(clock->ctx, &dice, sizeof(dice));
    return split ? SPLIT_MIN_MS + dice % SPLIT_SPREAD_MS
                 : LOOK_MIN_MS + dice % LOOK_SPREAD_MS;
}

enum dlock_status dlock_quorum_end(const struct dlock_attempt *attempt,
                                   const struct dlock_vote votes[],
                                   enum dlock_status status, bool split,
                                   uint64_t busy_ms)
{
    if (status == DLOCK_OK)
        status = confirm(attempt, votes);
    if (status == DLOCK_OK)
        return DLOCK_OK;
    if (status == DLOCK_BUSY) {
        *attempt->busy_ms = pause_ms(attempt->session->client->clock, split);
        /* The lease of a holder may end before the pause does. */
        if (*attempt->busy_ms > busy_ms)
            *attempt->busy_ms = busy_ms;
    }
    return undo(attempt, votes, status);
}

/* A lock that is held --------------------------------------------------------- */

/* All by the same rule. Enough servers say yes: it is done. So many say no that enough
 * cannot say yes any more: it is lost. Else nobody knows, unless it was done nowhere. A
 * release goes to all servers, also to those that did not answer when the lock was taken:
 * it may stand there. */
static enum dlock_status rule(size_t n, size_t needed,
                              const struct dlock_count *count)
{
    if (count->yes >= needed)
        return DLOCK_OK;
    if (count->no > n - needed)
        return DLOCK_LOST;
    return count->unknown + count->yes > 0 ? DLOCK_UNKNOWN : DLOCK_UNREACHABLE;
}

/* Asks all servers what FILL puts together; the status by the rule, its text from one
 * of them. INSISTS: see quorum.h. */
static enum dlock_status ask(const struct dlock_attempt *attempt,
                             dlock_node_fill *fill, bool insists,
                             bool (*agrees)(const struct dlock_reply *reply),
                             struct dlock_count *count)
{
    const struct dlock_poll *poll = attempt->session->own;
    struct dlock_command command;
    struct dlock_question question = {
        .commands = &command, .agrees = agrees, .insists = insists};
    enum dlock_status status;

    fill(attempt, &command);
    *count = dlock_quorum_ask(attempt, &question);
    status = rule(poll->n, poll->needed, count);
    if (status == DLOCK_LOST)
        (void)dlock_error_take(); /* of a server that did not matter */
    return status;
}

enum dlock_status dlock_quorum_extend(const struct dlock_attempt *attempt)
{
    struct dlock_count count;

    return ask(attempt, dlock_node_fill_extend, false, dlock_quorum_is_one,
               &count);
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
    const struct dlock_node_seen before = *seen;
    struct dlock_node_seen each;
    bool sees = false;

    for (size_t i = 0; i < poll->n; i++) {
        each = before;
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

/* Any answer counts where each of many renewals is judged for itself, or where a no tells
 * of the holder. */
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
    struct dlock_command command;
    struct dlock_question question = {
        .commands = &command, .agrees = is_answer, .insists = true};
    struct dlock_count count;
    bool freed = false;

    do {
        dlock_node_fill_force(&dlock_node_plain, attempt, &seen, &command);
        count = dlock_quorum_ask(attempt, &question);
        for (size_t i = 0; i < poll->n; i++)
            freed = freed || (poll->answers[i].status == DLOCK_OK &&
                              dlock_quorum_is_one(&poll->answers[i].reply));
        if (count.yes < poll->needed)
            return freed || count.unknown > 0 ? DLOCK_UNKNOWN
                                              : DLOCK_UNREACHABLE;
    } while (sees_holder(poll, &seen));
    for (size_t i = 0; i < poll->n; i++)
        if (poll->answers[i].status == DLOCK_OK &&
            dlock_node_force_end(&poll->answers[i].reply) == DLOCK_UNREACHABLE)
            return freed ? DLOCK_UNKNOWN : DLOCK_UNREACHABLE;
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

/* Held is what enough servers hold for one owner, as long as they are enough. Servers that
 * do not answer may make them enough. */
enum dlock_status dlock_quorum_inspect(const struct dlock_attempt *attempt,
                                       struct dlock_holder *holder)
{
    const struct dlock_poll *poll = attempt->session->own;
    struct dlock_holder parts[DLOCK_NODES_MAX] = {{.held = false}};
    uint64_t remaining[DLOCK_NODES_MAX];
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
        struct dlock_holder found = parts[i];
        size_t agreeing = 0;

        /* All that name the same owner as this one. */
        for (size_t k = 0; k < poll->n && found.held; k++) {
            if (!parts[k].held || strcmp(parts[k].owner, found.owner) != 0)
                continue;
            remaining[agreeing++] = parts[k].remaining_ms;
            if (parts[k].token > found.token)
                found.token = parts[k].token;
            if (parts[k].holds > found.holds)
                found.holds = parts[k].holds;
        }
        may_be_held |=
            agreeing > 0 && agreeing + poll->n - count.yes >= poll->needed;
        if (agreeing < poll->needed)
            continue;
        qsort(remaining, agreeing, sizeof(remaining[0]), compare_longest);
        /* The lock ends with this lease, because the longer ones alone are too few. */
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

/* Adds up what the servers say to renewal number I. If it is lost, then for the reason
 * that one of them gives. */
static void add_renewals(const struct dlock_nodes *nodes,
                         struct dlock_renew *renew, size_t i)
{
    struct dlock_count count = {.yes = 0};
    int64_t answer = 0;

    for (size_t k = 0; k < nodes->n; k++) {
        const struct dlock_exchange *each = &nodes->renewers[k].answers[i];

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
    struct dlock_command *commands = dlock_node_renewals(renews, n, lease_ms);
    struct dlock_question question = {.commands = commands,
                                      .n = n,
                                      .limit_ms = limit_ms,
                                      .needed = nodes->needed,
                                      .agrees = is_answer};

    /* No memory: that is as if nobody could be reached. */
    if (commands != NULL) {
        dlock_ask(client, nodes->renewers, nodes->n, &question);
        for (size_t i = 0; i < n; i++)
            add_renewals(nodes, &renews[i], i);
    }
    free(commands);
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
    struct dlock_command command;
    struct dlock_question question = {.commands = &command,
                                      .n = 1,
                                      .limit_ms = limit_ms,
                                      .needed = 1,
                                      .agrees = knows_of_force};
    uint64_t forced = 0;

    dlock_node_fill_forced(name, owner, &command);
    dlock_ask(client, nodes->renewers, nodes->n, &question);
    for (size_t k = 0; k < nodes->n; k++) {
        const struct dlock_exchange *answer = nodes->renewers[k].answers;
        uint64_t known = answer->status == DLOCK_OK
                             ? dlock_node_read_forced(&answer->reply)
                             : 0;

        forced = known > forced ? known : forced;
    }
    return forced;
}

DLOCK_STRATEGIES(dlock_quorum_strategies, quorum)
