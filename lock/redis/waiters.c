/* See waiters.h. */
#include "lock/redis/waiters.h"

#include <stdio.h>
#include <string.h>

#include "lock/core/error.h"
#include "lock/core/session.h"
#include "lock/redis/wakeup.h"

enum { TOLD_AT_ONCE = 3 }; /* owners that fit into one reply */

static const struct dlock_node_kind *
kind_of(const struct dlock_session *session)
{
    return session->client->strategy->variant;
}

void *dlock_waiters_watch(struct dlock_session *session, const char *name)
{
    char channel[DLOCK_KEY_BYTES_MAX + 1];

    dlock_key_derive(channel, name, DLOCK_WAITERS_CHANNEL, session->owner);
    return dlock_wakeup_join(session->client->wakeup, name, channel);
}

/*
 * If there is no answer, the heartbeat ends the matter: there is nothing to tell
 * the caller, and nothing to wait for longer than once.
 */
void dlock_waiters_give_up(struct dlock_session *session,
                           const struct dlock_attempt *attempt)
{
    struct dlock_command command;
    struct dlock_reply reply;

    dlock_command_init(&command, "eval-leave", attempt->name,
                       kind_of(session)->leave);
    command.repeatable = true;
    dlock_node_add_keys(session, false, &command);
    dlock_command_arg(&command, session->owner);
    dlock_command_number(&command, dlock_number(session->client));
    dlock_command_number(&command, dlock_node_done_life_ms(session));
    dlock_command_derived(&command, DLOCK_WAITERS_CHANNEL, "");
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
enum dlock_status dlock_waiters_list(struct dlock_session *session,
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
                           kind_of(session)->list);
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
