/* Steps without a wire: the step hook, before and after. Tests, timelines and
 * schedulers see a lock that does not live in Redis by these. */
#include "lock/core/client.h"

#include "lock/core/error.h"

/* The hook may call the library for another session, on this thread. */
enum dlock_verdict dlock_step_tell(const struct dlock_wire_config *config,
                                   const struct dlock_step *step)
{
    struct dlock_error kept;
    enum dlock_verdict verdict;

    if (config->on_step == NULL)
        return DLOCK_GO;
    kept = dlock_error_take();
    verdict = config->on_step(config->on_step_ctx, step);
    dlock_error_put(&kept);
    return verdict;
}

static bool lets_go(const struct dlock_session *session, const char *step,
                    const char *name, enum dlock_phase phase, const char *reply)
{
    return dlock_step_tell(&session->client->wire,
                           &(struct dlock_step){.name = step,
                                                .owner = session->owner,
                                                .key = name,
                                                .phase = phase,
                                                .reply = reply}) == DLOCK_GO;
}

enum dlock_status dlock_step_begin(const struct dlock_session *session,
                                   const char *step, const char *name)
{
    if (!lets_go(session, step, name, DLOCK_BEFORE, NULL))
        return dlock_error_set(DLOCK_UNREACHABLE, "kept back at step '%s'",
                               step);
    return DLOCK_OK;
}

enum dlock_status dlock_step_end(const struct dlock_session *session,
                                 const char *step, const char *name,
                                 const char *reply, enum dlock_status status)
{
    if (reply == NULL)
        reply = status == DLOCK_UNKNOWN ? "(no reply)" : "(unreachable)";
    if (!lets_go(session, step, name, DLOCK_AFTER, reply))
        return dlock_error_set(DLOCK_UNKNOWN, "reply lost at step '%s'", step);
    return status;
}
