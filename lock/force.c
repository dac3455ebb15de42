/*
 * Release by force. The lock is deleted and a word is left beside it, which
 * names the owners. Nobody goes and tells them: a holder looks after its lock
 * every third of a lease anyway, and the renewal that finds it gone asks why.
 * So the word reaches it within one renewal period, over any number of
 * processes, and costs nothing while no force is used.
 */
#include "lock/force.h"

static const struct dlock_script force_script = {
#include "lock/force.lua.inc"
};

static const char word_suffix[] = ":dlock-forced";
static const char freed_suffix[] = ":dlock-freed"; /* as releases publish to */

/* Beyond the lease: a holder may have been stopped for a while. */
enum { WORD_LIFE_MS = 60000 };

void dlock_force_fill(const struct dlock_attempt *attempt,
                      struct dlock_command *command)
{
    dlock_command_init(command, "eval-force", attempt->name, &force_script);
    dlock_command_key(command, attempt->name);
    dlock_command_derived_key(command, word_suffix, "");
    dlock_command_derived(command, freed_suffix, "");
    dlock_command_number(command, WORD_LIFE_MS);
}

enum dlock_status dlock_force_key(struct dlock_session *session,
                                  const struct dlock_attempt *attempt,
                                  struct dlock_error *error)
{
    struct dlock_command command;
    struct dlock_reply reply;
    enum dlock_status status;

    dlock_force_fill(attempt, &command);
    status =
        dlock_call(session->wire, &command, attempt->limit_ms, &reply, error);
    if (status == DLOCK_OK && reply.integers[0] != 1)
        return DLOCK_LOST;
    return status;
}

/* No answer is a no: the grant is lost either way, only the reason is not. */
bool dlock_force_told(struct dlock_wire *wire, const char *name,
                      const char *owner, uint64_t limit_ms)
{
    char word[DLOCK_KEY_BYTES_MAX + 1];
    struct dlock_command command;
    struct dlock_reply reply;

    dlock_key_derive(word, name, word_suffix, "");
    dlock_command_init(&command, "why-lost", name, NULL);
    command.repeatable = true;
    dlock_command_arg(&command, "HEXISTS");
    dlock_command_arg(&command, word);
    dlock_command_arg(&command, owner);
    return dlock_call(wire, &command, limit_ms, &reply, NULL) == DLOCK_OK &&
           reply.integers[0] == 1;
}
