/* Steps without a wire: the step hook, before and after. Tests, timelines and
 * schedulers see a lock that does not live in Redis by these. */
#include "lock/core/client.h"

#include "lock/core/error.h"

static enum dlock_verdict tell(const struct dlock_session *session,
                               const struct dlock_step *step)
{
    const struct dlock_wire_config *config = &session->client->wire;

    if (config->on_step == NULL)
        return DLOCK_GO;
    return config->on_step(config->on_step_ctx, step);
}

enum dlock_status dlock_step_begin(const struct dlock_session *session,
                                   const char *step, const char *name,
                                   struct dlock_error *error)
{
    if (tell(session, &(struct dlock_step){.name = step,
                                           .owner = session->owner,
                                           .key = name,
                                           .phase = DLOCK_BEFORE}) != DLOCK_GO)
        return dlock_error_set(error, DLOCK_UNREACHABLE,
                               "kept back at step '%s'", step);
    return DLOCK_OK;
}

enum dlock_status dlock_step_end(const struct dlock_session *session,
                                 const char *step, const char *name,
                                 const char *reply, enum dlock_status status,
                                 struct dlock_error *error)
{
    if (tell(session, &(struct dlock_step){.name = step,
                                           .owner = session->owner,
                                           .key = name,
                                           .phase = DLOCK_AFTER,
                                           .reply = reply}) != DLOCK_GO)
        return dlock_error_set(error, DLOCK_UNKNOWN, "reply lost at step '%s'",
                               step);
    return status;
}
