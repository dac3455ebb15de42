/*
 * A rung of the textbook ladder, put together from its policies. This file is the
 * same for all rungs, right or wrong: nothing of a failure is made here.
 *
 * No rung re-sends a command whose reply was lost: to SET NX, its own success
 * looks like somebody else's. They answer "don't know", and what they may have
 * taken stays taken until its lease ends, if it has one.
 */
#include "lock/textbook/rung.h"

#include <string.h>

#include "lock/core/error.h"
#include "lock/textbook/scripts.h"
#include "lock/textbook/scripts.inc" /* what the one above declares */

/* Owner ids ----------------------------------------------------------------- */

const char *dlock_rung_id_constant(const struct dlock_session *session)
{
    (void)session;
    return "locked";
}

/* The owner's text is the client's digits, "-", the session's number. */
const char *dlock_rung_id_number(const struct dlock_session *session)
{
    const char *dash = strrchr(session->owner, '-');

    return dash == NULL ? session->owner : dash + 1;
}

const char *dlock_rung_id_random(const struct dlock_session *session)
{
    return session->owner;
}

/* For the policies ---------------------------------------------------------- */

enum dlock_status dlock_rung_send(const struct dlock_rung_call *call,
                                  const struct dlock_command *command,
                                  struct dlock_reply *reply)
{
    return dlock_call(call->session->wire, command, call->attempt->limit_ms,
                      reply, call->error);
}

enum dlock_status dlock_rung_second(enum dlock_status status)
{
    return status == DLOCK_UNREACHABLE ? DLOCK_UNKNOWN : status;
}

enum dlock_status dlock_rung_done_or_lost(const struct dlock_rung_call *call,
                                          const struct dlock_command *command)
{
    struct dlock_reply reply;
    enum dlock_status status = dlock_rung_send(call, command, &reply);

    if (status == DLOCK_OK && reply.integers[0] != 1)
        return DLOCK_LOST;
    return status;
}

/* The strategy's functions ---------------------------------------------------- */

/* The table row says which rung this session's client stands on. */
static const struct dlock_rung *rung_of(const struct dlock_session *session)
{
    return session->client->strategy->variant;
}

static struct dlock_rung_call make_call(struct dlock_session *session,
                                        const struct dlock_attempt *attempt,
                                        struct dlock_error *error)
{
    return (struct dlock_rung_call){
        .session = session,
        .attempt = attempt,
        .id = rung_of(session)->id(session),
        .holds = 1,
        .busy_ms = UINT64_MAX,
        .error = error,
    };
}

/* Takes, and has the guard thread look after what was taken. */
static enum dlock_status take_guarded(struct dlock_rung_call *call)
{
    struct dlock *client = call->session->client;
    struct dlock_guarded *guarded;
    enum dlock_status status;

    guarded = dlock_rung_guard_prepare(client, call->attempt->name);
    if (guarded == NULL)
        return dlock_error_set(call->error, DLOCK_UNREACHABLE,
                               "no memory or no thread to guard with");
    status = rung_of(call->session)->take(call);
    if (status == DLOCK_OK)
        dlock_rung_guard_start(client, guarded);
    else
        dlock_rung_guard_discard(guarded);
    return status;
}

/* The session thinks that it has the lock: so it has it once more. */
static enum dlock_status count_in(struct dlock_rung_call *call)
{
    call->holds = call->attempt->holds + 1;
    return DLOCK_OK;
}

enum dlock_status dlock_rung_acquire(struct dlock_session *session,
                                     const struct dlock_attempt *attempt,
                                     struct dlock_grant *grant,
                                     uint64_t *busy_ms,
                                     struct dlock_error *error)
{
    struct dlock_rung_call call = make_call(session, attempt, error);
    const struct dlock_rung *rung = rung_of(session);
    enum dlock_status status;

    if (rung->counted && attempt->holds > 0)
        status = count_in(&call);
    else if (rung->guarded && attempt->renewed)
        status = take_guarded(&call);
    else
        status = rung->take(&call);
    grant->token = 0;
    grant->holds = call.holds;
    *busy_ms = call.busy_ms;
    return status;
}

enum dlock_status dlock_rung_release(struct dlock_session *session,
                                     const struct dlock_attempt *attempt,
                                     struct dlock_error *error)
{
    struct dlock_rung_call call = make_call(session, attempt, error);
    const struct dlock_rung *rung = rung_of(session);

    if (rung->guarded)
        dlock_rung_guard_stop(session->client);
    if (rung->counted && attempt->holds > 0)
        return DLOCK_OK; /* an inner section; the outer one gives back */
    return rung->touch->release(&call);
}

enum dlock_status dlock_rung_extend(struct dlock_session *session,
                                    const struct dlock_attempt *attempt,
                                    struct dlock_error *error)
{
    struct dlock_rung_call call = make_call(session, attempt, error);

    return rung_of(session)->touch->extend(&call);
}

enum dlock_status dlock_rung_inspect(struct dlock_session *session,
                                     const struct dlock_attempt *attempt,
                                     struct dlock_holder *holder,
                                     struct dlock_error *error)
{
    struct dlock_rung_call call = make_call(session, attempt, error);

    return rung_of(session)->touch->inspect(&call, holder);
}
