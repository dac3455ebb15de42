/*
 * Release by force. The lock is deleted and a word is left beside it, which
 * names the owners. Nobody goes and tells them: a holder looks after its lock
 * every third of a lease anyway, and the renewal that finds it gone asks why.
 * So the word reaches it within one renewal period, over any number of
 * processes, and costs nothing while no force is used.
 */
#include "lock/redis/force.h"

#include <stdio.h>
#include <stdlib.h>

static const char word_suffix[] = ":dlock-forced";

/* Beyond the lease, where the word is about one hold (force.lua). */
enum { WORD_LIFE_MS = 60000 };

void dlock_force_fill(const struct dlock_session *session,
                      const struct dlock_node_kind *kind,
                      const struct dlock_attempt *attempt,
                      const struct dlock_force_seen *seen,
                      struct dlock_command *command)
{
    dlock_command_init(command, "eval-force", attempt->name, kind->force);
    dlock_command_key(command, attempt->name);
    dlock_command_derived_key(command, word_suffix, "");
    dlock_node_add_done(seen->owner, command);
    dlock_node_add_waiters(kind, command);
    dlock_command_number(command, WORD_LIFE_MS);
    dlock_command_arg(command, seen->owner);
    dlock_command_number(command, seen->attempt);
    dlock_command_number(command, dlock_node_done_life_ms(session));
    dlock_command_derived(command, kind->channel, "");
}

bool dlock_force_look(const struct dlock_reply *reply,
                      struct dlock_force_seen *seen)
{
    if (reply->integers_n < 2 || reply->integers[0] != -1)
        return false;
    seen->attempt = (uint64_t)reply->integers[1];
    (void)snprintf(seen->owner, sizeof(seen->owner), "%.*s",
                   (int)sizeof(seen->owner) - 1, reply->string);
    return true;
}

static enum dlock_status force(struct dlock_session *session,
                               const struct dlock_node_kind *kind,
                               const struct dlock_attempt *attempt,
                               struct dlock_error *error)
{
    struct dlock_force_seen seen = {.attempt = 0};
    struct dlock_command command;
    struct dlock_reply reply;
    enum dlock_status status;

    /* The first time it only looks. If the holder is another one by the second, or
     * went on, that one it is. */
    do {
        dlock_force_fill(session, kind, attempt, &seen, &command);
        status = dlock_call(session->wire, &command, attempt->limit_ms, &reply,
                            error);
    } while (status == DLOCK_OK && dlock_force_look(&reply, &seen));
    if (status == DLOCK_OK && reply.integers[0] != 1)
        return DLOCK_LOST;
    return status;
}

enum dlock_status dlock_force_node(struct dlock_session *session,
                                   const struct dlock_attempt *attempt,
                                   struct dlock_error *error)
{
    return force(session, dlock_node_kind_of(session), attempt, error);
}

enum dlock_status dlock_force_key(struct dlock_session *session,
                                  const struct dlock_attempt *attempt,
                                  struct dlock_error *error)
{
    return force(session, &dlock_node_plain, attempt, error);
}

void dlock_force_fill_ask(const char *name, const char *owner,
                          struct dlock_command *command)
{
    dlock_command_init(command, "why-lost", name, NULL);
    command->repeatable = true;
    dlock_command_arg(command, "HGET");
    dlock_command_derived(command, word_suffix, "");
    dlock_command_arg(command, owner);
}

uint64_t dlock_force_read(const struct dlock_reply *reply)
{
    if (reply->kind != DLOCK_REPLY_STRING)
        return 0;
    return strtoull(reply->string, NULL, 10);
}

/* The grant is lost either way, only the reason is not known. */
uint64_t dlock_force_forced(struct dlock *client, const char *name,
                            const char *owner, uint64_t limit_ms)
{
    struct dlock_command command;
    struct dlock_reply reply;

    dlock_force_fill_ask(name, owner, &command);
    if (dlock_call(client->renewal_wire, &command, limit_ms, &reply, NULL) !=
        DLOCK_OK)
        return 0;
    return dlock_force_read(&reply);
}
