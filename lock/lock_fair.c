/*
 * fair: first come, first served.
 *
 * Guarantees what redisson does (X C A P R L N W), and an order (F): whoever
 * asked first, and still waits, is next, whatever client it belongs to. Only
 * that one is woken by a release. A try without waiting does not overtake.
 *
 * How: on the server, a queue beside the lock (fair_queue.lua). Each waiter has
 * a heartbeat of two seconds there, refreshed by its own tries, of which there
 * are three per heartbeat while it sleeps. A waiter that dies, or is stopped for
 * longer, loses its place and holds the others up no longer than that; one that
 * gives up takes itself out. Nobody's deadline is ever moved by anybody else,
 * and all are read from the server's clock. The fair lock of a widely used
 * library did neither, and its deadlines drifted hours ahead (locks.md, 8).
 *
 * Does not guarantee: an order if the server's clock is set forward by more
 * than a heartbeat, which gives all waiters up, to queue anew as they come;
 * exclusion does not depend on it. Nor anything if the one server loses its
 * data (M), nor, without tokens, that a late holder does not write (S): ask for
 * them in the terms.
 *
 * The failure it is here to show is that fairness costs: a lock may not go to
 * whoever is there already, but waits for the one whose turn it is to be woken.
 */
#include "lock/lock_redisson.h"

#include <stdio.h>
#include <string.h>

#include "lock/error.h"
#include "lock/session.h"

enum {
    HEARTBEAT_MS = 2000,
    TOLD_AT_ONCE = 3, /* owners that fit into one reply */
};

static const struct dlock_script acquire_script = {
#include "lock/fair_queue.lua.inc"

#include "lock/fair_turn.lua.inc"

#include "lock/acquire.lua.inc"
};

static const struct dlock_script release_script = {
#include "lock/fair_queue.lua.inc"

#include "lock/fair_next.lua.inc"

#include "lock/release.lua.inc"
};

static const struct dlock_script leave_script = {
#include "lock/fair_queue.lua.inc"

#include "lock/fair_leave.lua.inc"
};

static const struct dlock_script waiters_script = {
#include "lock/fair_queue.lua.inc"

#include "lock/fair_waiters.lua.inc"
};

/* A channel per waiter: this and its owner id. */
static const char turn_channel[] = ":dlock-turn:";

static void *watch(struct dlock_session *session, const char *name)
{
    char channel[DLOCK_KEY_BYTES_MAX + 1];

    dlock_key_derive(channel, name, turn_channel, session->owner);
    return dlock_wakeup_join(session->client->wakeup, name, channel);
}

/*
 * If there is no answer, the heartbeat will end the matter: there is nothing to
 * be told to the caller, and nothing to be waited for longer than once.
 */
static void give_up(struct dlock_session *session,
                    const struct dlock_attempt *attempt)
{
    struct dlock_command command;
    struct dlock_reply reply;

    dlock_command_init(&command, "eval-leave", attempt->name, &leave_script);
    command.repeatable = true;
    dlock_node_add_keys(session, false, &command);
    dlock_command_arg(&command, session->owner);
    dlock_command_number(&command, ++session->attempts_n);
    dlock_command_number(&command, dlock_node_done_life_ms(session));
    dlock_command_derived(&command, turn_channel, "");
    (void)dlock_call(session->wire, &command,
                     dlock_session_limit(session, 1, 0), &reply, NULL);
}

/* Takes "OWNER OWNER" apart into WAITERS from number I on. */
static size_t take_owners(const char *text, struct dlock_waiting waiters[],
                          size_t i, size_t n_max)
{
    while (*text != '\0' && i < n_max) {
        size_t len = strcspn(text, " ");

        (void)snprintf(waiters[i++].owner, sizeof(waiters[0].owner), "%.*s",
                       (int)len, text);
        text += len + strspn(text + len, " ");
    }
    return i;
}

/* A long queue takes several looks, and may move on between them. */
static enum dlock_status waiters(struct dlock_session *session,
                                 const struct dlock_attempt *attempt,
                                 struct dlock_waiting found[], size_t n_max,
                                 size_t *n, struct dlock_error *error)
{
    size_t told = 0;

    for (;;) {
        struct dlock_command command;
        struct dlock_reply reply;
        enum dlock_status status;
        size_t before = told;

        dlock_command_init(&command, "eval-waiters", attempt->name,
                           &waiters_script);
        command.repeatable = true;
        dlock_node_add_keys(session, false, &command);
        dlock_command_number(&command, told);
        dlock_command_number(&command, TOLD_AT_ONCE);
        status = dlock_call(session->wire, &command, attempt->limit_ms, &reply,
                            error);
        if (status != DLOCK_OK)
            return status;
        *n = (size_t)reply.integers[0];
        told = take_owners(reply.string, found, told, n_max);
        if (told == before || told == n_max || told >= *n)
            return DLOCK_OK;
    }
}

static const struct dlock_node_kind kind = {
    .acquire = &acquire_script,
    .release = &release_script,
    .channel = turn_channel,
    .queue_ms = HEARTBEAT_MS,
};

const struct dlock_strategy dlock_strategy_fair = {
    .info = {.name = "fair",
             .claim = "As redisson, and the lock goes to whoever has waited "
                      "for it longest.",
             .capabilities = DLOCK_REDISSON_CAPABILITIES},
    .variant = &kind,
    DLOCK_REDISSON_FUNCTIONS,
    .watch = watch,
    .give_up = give_up,
    .waiters = waiters,
};
