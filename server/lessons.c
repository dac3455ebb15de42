/* See lessons.h. */
#include "server/lessons.h"

#include "server/config.h"
#include "server/failpoint.h"
#include "server/lab/timeline/timeline_live.h"
#include "server/log.h"

bool lessons_open(struct lessons *lessons, const struct config *config)
{
    struct dlock_error error = {"no memory"};

    if (!*config->lab_failpoint ||
        failpoints_open(config->lab_failpoint, &lessons->failpoints, &error) ==
            DLOCK_OK)
        return true;
    log_error("failpoint", "error=\"%s\"", error.text);
    return false;
}

bool lessons_begin(struct lessons *lessons, const struct config *config)
{
    char error[1200];

    if (!*config->lab_timeline)
        return true;
    lessons->timeline = timeline_live_open(config, error, sizeof(error));
    if (!lessons->timeline)
        log_error("timeline", "error=\"%s\"", error);
    return lessons->timeline;
}

/* The timeline has the step before a fault holds it up. */
static enum dlock_verdict on_lock_step(void *ctx, const struct dlock_step *step)
{
    struct lessons *lessons = ctx;

    if (lessons->timeline)
        (void)timeline_live_on_lock(lessons->timeline, step);
    return lessons->failpoints ? failpoints_hook(lessons->failpoints, step)
                               : DLOCK_GO;
}

static enum store_verdict on_store_step(void *ctx,
                                        const struct store_step *step)
{
    struct lessons *lessons = ctx;

    if (lessons->timeline)
        (void)timeline_live_on_store(lessons->timeline, step);
    return lessons->failpoints
               ? failpoints_store_hook(lessons->failpoints, step)
               : STORE_GO;
}

static bool has_steps(const struct lessons *lessons)
{
    return lessons->failpoints || lessons->timeline;
}

void lessons_of_locks(struct lessons *lessons, const struct config *config,
                      struct dlock_options *options)
{
    if (config->lab_lease_ms > 0)
        options->watchdog_lease_ms = (unsigned)config->lab_lease_ms;
    if (!has_steps(lessons))
        return;
    options->on_step = on_lock_step;
    options->on_step_ctx = lessons;
}

void lessons_of_store(struct lessons *lessons, struct store_options *options)
{
    if (!has_steps(lessons))
        return;
    options->on_step = on_store_step;
    options->on_step_ctx = lessons;
}

void lessons_close(struct lessons *lessons)
{
    timeline_live_close(lessons->timeline);
    failpoints_close(lessons->failpoints);
}
