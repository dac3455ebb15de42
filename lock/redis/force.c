/*
 * Release by force. The lock is deleted and a word is left beside it, which
 * names the owners. Nobody goes and tells them: a holder looks after its lock
 * every third of a lease anyway, and the renewal that finds it gone asks why.
 * So the word reaches it within one renewal period, over any number of
 * processes, and costs nothing while no force is used.
 */
#include "lock/redis/force.h"

#include <stdlib.h>

static const char word_suffix[] = ":dlock-forced";

/* Beyond the lease, where the word is about one hold (force.lua). */
enum { WORD_LIFE_MS = 60000 };

void dlock_force_fill(const struct dlock_node_kind *kind,
                      const struct dlock_attempt *attempt,
                      struct dlock_command *command)
{
    dlock_command_init(command, "eval-force", attempt->name, kind->force);
    dlock_command_key(command, attempt->name);
    dlock_command_derived_key(command, word_suffix, "");
    dlock_node_add_waiters(kind, command);
    dlock_command_derived(command, kind->channel, "");
    dlock_command_number(command, WORD_LIFE_MS);
}

static enum dlock_status force(struct dlock_session *session,
                               const struct dlock_node_kind *kind,
                               const struct dlock_attempt *attempt,
                               struct dlock_error *error)
{
    struct dlock_command command;
    struct dlock_reply reply;
    enum dlock_status status;

    dlock_force_fill(kind, attempt, &command);
    status =
        dlock_call(session->wire, &command, attempt->limit_ms, &reply, error);
    if (status == DLOCK_OK && reply.integers[0] != 1)
        return DLOCK_LOST;
    return status;
}

enum dlock_status dlock_force_node(struct dlock_session *session,
                                   const struct dlock_attempt *attempt,
                                   struct dlock_error *error)
{
    return force(session, session->client->strategy->variant, attempt, error);
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
