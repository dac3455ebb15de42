/*
 * redlock: one lock on more than half of N independent Redis servers.
 *
 * Guarantees what redisson does (X C A P R L N W), and with fewer than half of the servers
 * down or hung it goes on, and still excludes (M): any two majorities have a server in common.
 * Grants are counted 1 % and 2 ms shorter than the lease, from before the first server was
 * asked; a grant that is over by then is none.
 *
 * A server that was restarted without its data would vote a second time, for somebody else. So
 * it has no vote until it has been up for as long as the longest lease there is (options:
 * longest_lease_ms). It is asked for its age once per connection; a restart breaks the
 * connection. The servers should have no replicas: one that takes over may be behind, and has
 * no vote until it has been connected to for so long.
 *
 * Does not guarantee an order (F), nor, without tokens, that a late holder does not write (S).
 * Tokens are given if the terms ask (quorum.c).
 *
 * The failure that it is here to show: time. The servers keep leases, and tell their age, by
 * clocks that can be set. Where somebody sets enough of them forward, two hold the lock. The
 * token is what helps then, not more servers.
 */
#include "lock/quorum/quorum.h"

#include <string.h>

#include "lock/quorum/scripts.h"

enum {
    TIMEOUTS_PER_LEASE = 10, /* a silent server may cost so much of a lease */
    TIMEOUT_MS_MIN = 20,
};

static enum dlock_status check_lease(const struct dlock *client,
                                     unsigned lease_ms)
{
    if (client->longest_lease_ms == 0 || lease_ms <= client->longest_lease_ms)
        return DLOCK_OK;
    return dlock_error_set(
        DLOCK_MISUSE, "a lease of %u ms is above longest_lease_ms", lease_ms);
}

static enum dlock_status open_majority(struct dlock *client)
{
    enum dlock_status status = check_lease(client, client->watchdog_lease_ms);

    return status != DLOCK_OK ? status : dlock_quorum_open(client, true);
}

/* The age of servers ---------------------------------------------------------- */

/* Whether it has been asked on the connection that it has, and has that still. */
static bool has_told(const struct dlock_poll *poll, size_t i)
{
    const struct dlock_wire *wire = poll->asked[i].wire;

    /* A wire that is alive, but was made anew, leads to a process that may have been
     * restarted in between. */
    return dlock_wire_alive(wire) &&
           poll->voters[i].connection == wire->connections_n;
}

static bool is_age(const struct dlock_reply *reply)
{
    return reply->kind == DLOCK_REPLY_LIST && reply->integers_n > 0;
}

/* Asks those that have a new connection; the text: why one did not say its age. Half of the
 * time is for the votes. A server that hangs has a new connection each time: it is only
 * waited for while the servers whose age is known are not enough. */
static void ask_ages(const struct dlock_attempt *attempt, unsigned timeout_ms)
{
    struct dlock_session *session = attempt->session;
    struct dlock_poll *poll = session->own;
    struct dlock_command command;
    struct dlock_question question = {.commands = &command,
                                      .n = 1,
                                      .limit_ms = attempt->limit_ms,
                                      .timeout_ms = timeout_ms,
                                      .agrees = is_age};
    uint64_t half_ms =
        dlock_clock_until(session->client->clock, attempt->limit_ms) / 2;
    struct dlock_asked asked[DLOCK_NODES_MAX];
    size_t known_n = 0;

    for (size_t i = 0; i < poll->n; i++) {
        asked[i] = poll->asked[i];
        if (!has_told(poll, i))
            continue;
        /* A server that has told its age on this connection is not asked again: NULL leaves
         * it out. */
        asked[i].wire = NULL;
        known_n++;
    }
    if (known_n == poll->n)
        return;
    /* Ages are waited for only until there are enough votes; the others are taken if they
     * come in time. */
    if (known_n < poll->needed)
        question.needed = poll->needed - known_n;
    else
        question.timeout_ms = TIMEOUT_MS_MIN;
    if (half_ms < question.timeout_ms)
        question.timeout_ms = (unsigned)half_ms;
    dlock_command_init(&command, "eval-age", attempt->name,
                       &dlock_script_server_age);
    dlock_ask(session->client, asked, poll->n, &question);
    for (size_t i = 0; i < poll->n; i++) {
        const struct dlock_exchange *answer = &poll->answers[i];
        struct dlock_voter *voter = &poll->voters[i];

        if (asked[i].wire == NULL || answer->status != DLOCK_OK ||
            !is_age(&answer->reply))
            continue;
        /* The number of the connection, and not the time, ties the age to a run of the
         * server. */
        voter->connection = asked[i].wire->connections_n;
        voter->up_ms = 0;
        /* "Up for N seconds" is a difference of two times that were both cut to whole
         * seconds, so it may be one too many. */
        if (answer->reply.integers[0] > 0)
            voter->up_ms = (uint64_t)(answer->reply.integers[0] - 1) * 1000;
        /* The clock is read after the reply, so that the age by it is rather too low, and a
         * vote refused rather than given too early. */
        voter->at_ms = dlock_clock_now(session->client->clock);
        memcpy(voter->run, answer->reply.string, sizeof(voter->run) - 1);
    }
}

/* One server by two names would have two votes. Addresses do not tell; the run does, as
 * soon as both connections are there. */
static enum dlock_status check_distinct(const struct dlock_poll *poll)
{
    for (size_t i = 0; i < poll->n; i++)
        for (size_t j = 0; j < i; j++)
            /* The runs must both be of the present connections: a server that was restarted
             * under the other name has another run. */
            if (poll->voters[i].run[0] != '\0' && has_told(poll, i) &&
                has_told(poll, j) &&
                strcmp(poll->voters[i].run, poll->voters[j].run) == 0)
                return dlock_error_set(DLOCK_MISUSE,
                                       "two of the url are one server");
    return DLOCK_OK;
}

/* Whether server number I has a vote for this attempt. */
static bool may_vote(const struct dlock_attempt *attempt, size_t i)
{
    const struct dlock *client = attempt->session->client;
    const struct dlock_poll *poll = attempt->session->own;
    const struct dlock_voter *voter = &poll->voters[i];
    uint64_t longest_ms = client->longest_lease_ms;

    if (longest_ms == 0)
        longest_ms = attempt->lease_ms > client->watchdog_lease_ms
                         ? attempt->lease_ms
                         : client->watchdog_lease_ms;
    /* The same drift as of dlock_valid_ms(), here added: the server's clock may run faster
     * than that of the lease's holder. */
    longest_ms += longest_ms / 100 + 2;
    /* The connection may have been made anew for the vote itself: then the age is that of
     * another run. */
    return voter->connection == poll->asked[i].wire->connections_n &&
           voter->up_ms + dlock_clock_now(client->clock) - voter->at_ms >=
               longest_ms;
}

/* Acquire ---------------------------------------------------------------------- */

/* Counts the VOTES for one try, and says what comes of it, with AGES for the text.
 * *SPLIT: some have agreed; *BUSY_MS: until the first of those that said no may be free.
 * A server without a vote has taken the lock as well: it has to be given back. */
static enum dlock_status count(const struct dlock_attempt *attempt,
                               const struct dlock_error *ages,
                               struct dlock_vote votes[], bool *split,
                               uint64_t *busy_ms)
{
    const struct dlock_poll *poll = attempt->session->own;
    struct dlock_error kept = dlock_error_take(); /* why some did not answer */
    size_t yes = 0, no = 0, young = 0;

    for (size_t i = 0; i < poll->n; i++) {
        const struct dlock_exchange *answer = &poll->answers[i];
        struct dlock_vote *vote = &votes[i];
        uint64_t each_ms = UINT64_MAX;

        vote->held = answer->status;
        if (answer->status == DLOCK_OK)
            vote->held =
                dlock_node_read_acquire(&answer->reply, &vote->part, &each_ms);
        /* A young server has locked all the same: ->held says so, for the undo. */
        vote->counts = vote->held == DLOCK_OK && may_vote(attempt, i);
        if (each_ms < *busy_ms)
            *busy_ms = each_ms;
        yes += vote->counts;
        young += vote->held == DLOCK_OK && !vote->counts;
        /* A no counts without an age: whoever holds it there does hold it. */
        no += vote->held == DLOCK_BUSY;
    }
    dlock_error_put(&kept);
    /* A part was taken, and so was a part by somebody else perhaps: both give back, and
     * pause for a random time. */
    *split = yes > 0;
    if (yes >= poll->needed)
        return DLOCK_OK;
    /* Somebody was in the way if those that answered could have been enough, or if the
     * others could not have been. */
    if (yes + no >= poll->needed || no > poll->n - poll->needed)
        return DLOCK_BUSY;
    if (young > 0)
        return dlock_error_set(DLOCK_UNREACHABLE,
                               "%zu of %zu servers have a vote; %zu are not "
                               "known to have been up for the longest lease "
                               "yet%s%.100s",
                               yes + no, poll->n, young,
                               ages->text[0] != '\0' ? ", or: " : "",
                               ages->text);
    return DLOCK_UNREACHABLE;
}

/* Each try has a number of its own: the one before may have been undone. */
static enum dlock_status acquire(const struct dlock_attempt *attempt)
{
    struct dlock_session *session = attempt->session;
    struct dlock_attempt mine = *attempt;
    struct dlock_vote votes[DLOCK_NODES_MAX];
    uint64_t busy_ms = UINT64_MAX;
    bool split;
    struct dlock_error ages, kept;
    struct dlock_command command;
    struct dlock_question question = {.commands = &command,
                                      .timeout_ms = attempt->lease_ms /
                                                    TIMEOUTS_PER_LEASE,
                                      .agrees = dlock_quorum_is_one};
    enum dlock_status status;

    /* A lease that is longer than any client reckons with would outlive the time for which
     * young servers do not vote. */
    status = check_lease(session->client, attempt->lease_ms);
    if (status != DLOCK_OK)
        return status;
    /* Small against the lease, because silent servers must not use it up. */
    if (question.timeout_ms < TIMEOUT_MS_MIN)
        question.timeout_ms = TIMEOUT_MS_MIN;
    if (question.timeout_ms > session->client->wire.command_timeout_ms)
        question.timeout_ms = session->client->wire.command_timeout_ms;
    mine.number = dlock_number(session->client);
    /* The text of an age that did not come belongs to AGES, and must not become that of the
     * acquire. */
    kept = dlock_error_take();
    ask_ages(&mine, question.timeout_ms);
    ages = dlock_error_take();
    dlock_error_put(&kept);
    status = check_distinct(session->own);
    if (status != DLOCK_OK)
        return status;
    dlock_node_fill_acquire(&mine, &command);
    (void)dlock_quorum_ask(&mine, &question);
    status = count(&mine, &ages, votes, &split, &busy_ms);
    return dlock_quorum_end(&mine, votes, status, split, busy_ms);
}

static enum dlock_status extend(const struct dlock_attempt *attempt)
{
    enum dlock_status status =
        check_lease(attempt->session->client, attempt->lease_ms);

    if (status != DLOCK_OK)
        return status;
    return dlock_quorum_extend(attempt);
}

const struct dlock_strategy dlock_strategy_redlock = {
    .info = {.name = "redlock",
             .claim = "As redisson, on more than half of several servers: it "
                      "goes on when the others fail.",
             .capabilities = DLOCK_NODE_CAPABILITIES},
    .variant = &dlock_node_plain,
    .open = open_majority,
    .acquire = acquire,
    .extend = extend,
    DLOCK_QUORUM_FUNCTIONS,
};
