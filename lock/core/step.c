/* The step hook, before and after: by it tests, timelines and schedulers see a lock,
 * wherever it lives. */
#include "lock/core/client.h"

/* The hook may call the library for another session, on this thread, and such a call leaves
 * no text behind: that of the call under way is put aside meanwhile. */
static enum dlock_verdict tell(const struct dlock_wire_config *config,
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

enum dlock_status dlock_step_before(const struct dlock_wire_config *config,
                                    const struct dlock_step *step)
{
    enum dlock_verdict verdict = tell(config, step);

    if (verdict == DLOCK_GO)
        return DLOCK_OK;
    /* The hook has the words and may send them later, so the command may yet have an
     * effect: that is a "don't know", as if the reply were lost. */
    if (verdict == DLOCK_HOLD_BACK && step->words != NULL)
        return dlock_error_set(DLOCK_UNKNOWN, "held up at step '%s'",
                               step->name);
    return dlock_error_set(DLOCK_UNREACHABLE, "kept back at step '%s'",
                           step->name);
}

enum dlock_status dlock_step_after(const struct dlock_wire_config *config,
                                   const struct dlock_step *step,
                                   enum dlock_status status)
{
    struct dlock_step told = *step;

    told.phase = DLOCK_AFTER;
    if (told.reply == NULL)
        told.reply = status == DLOCK_UNKNOWN ? "(no reply)" : "(unreachable)";
    /* A verdict can throw a reply away only where there is one: a failure stays the failure
     * that it was. */
    if (tell(config, &told) == DLOCK_GO || step->reply == NULL)
        return status;
    return dlock_error_set(DLOCK_UNKNOWN, "reply lost at step '%s'",
                           step->name);
}

static struct dlock_step step_of(const struct dlock_attempt *attempt,
                                 const char *name, const char *reply)
{
    return (struct dlock_step){.name = name,
                               .owner = attempt->session->owner,
                               .key = attempt->name,
                               .reply = reply};
}

enum dlock_status dlock_step_begin(const struct dlock_attempt *attempt,
                                   const char *step, uint64_t *until_ms)
{
    const struct dlock *client = attempt->session->client;
    const struct dlock_step told = step_of(attempt, step, NULL);
    uint64_t left_ms = dlock_clock_until(client->clock, attempt->limit_ms);
    enum dlock_status status;

    /* The hook is not asked if no time is left, because nothing will be sent. */
    if (left_ms == 0)
        return dlock_error_set(DLOCK_UNREACHABLE, "no time left");
    status = dlock_step_before(&client->wire, &told);
    /* The span of lease time that was left before the hook becomes a point of real time
     * after it: a hook that pauses stands for a process that was stopped, whose command
     * does go out after it. */
    *until_ms = dlock_clock_after(dlock_clock_real_now(), left_ms);
    return status;
}

enum dlock_status dlock_step_end(const struct dlock_attempt *attempt,
                                 const char *step, const char *reply,
                                 enum dlock_status status)
{
    const struct dlock_step told = step_of(attempt, step, reply);

    return dlock_step_after(&attempt->session->client->wire, &told, status);
}
