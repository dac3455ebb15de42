/* See lab_hooks.h. */
#include "server/lab/live/lab_hooks.h"

#include <inttypes.h>

#include "server/base/config.h"
#include "server/base/log.h"
#include "server/lab/live/beside.h"
#include "server/lab/live/failpoint.h"
#include "server/lab/timeline/timeline_live.h"

bool lab_hooks_open(struct lab_hooks *hooks, const struct config *config)
{
    struct dlock_error error = {"no memory"};

    if (!*config->lab_failpoint ||
        failpoints_open(config->lab_failpoint, &hooks->failpoints, &error) ==
            DLOCK_OK)
        return true;
    log_error("failpoint", "error=\"%s\"", error.text);
    return false;
}

bool lab_hooks_begin(struct lab_hooks *hooks, const struct config *config)
{
    char error[1200];

    if (*config->lab_timeline) {
        hooks->timeline = timeline_live_open(config, error, sizeof(error));
        if (!hooks->timeline) {
            log_error("timeline", "error=\"%s\"", error);
            return false;
        }
    }
    if (config->lab == 0)
        return true;
    if (!beside_open(config->lab, config->lab_public, &hooks->page, error,
                     sizeof(error))) {
        log_error("lab", "error=\"%s\"", error);
        return false;
    }
    log_info("lab", "page=http://127.0.0.1:%" PRId64 "/lab", config->lab);
    return true;
}

/* The timeline has the step before a fault holds it up. */
static enum dlock_verdict on_lock_step(void *ctx, const struct dlock_step *step)
{
    struct lab_hooks *hooks = ctx;

    if (hooks->timeline)
        (void)timeline_live_on_lock(hooks->timeline, step);
    return hooks->failpoints ? failpoints_hook(hooks->failpoints, step)
                             : DLOCK_GO;
}

static enum store_verdict on_store_step(void *ctx,
                                        const struct store_step *step)
{
    struct lab_hooks *hooks = ctx;

    if (hooks->timeline)
        (void)timeline_live_on_store(hooks->timeline, step);
    return hooks->failpoints ? failpoints_store_hook(hooks->failpoints, step)
                             : STORE_GO;
}

static bool has_steps(const struct lab_hooks *hooks)
{
    return hooks->failpoints || hooks->timeline;
}

void lab_hooks_of_locks(struct lab_hooks *hooks, const struct config *config,
                        struct dlock_options *options)
{
    if (config->lab_lease_ms > 0)
        options->watchdog_lease_ms = (unsigned)config->lab_lease_ms;
    if (!has_steps(hooks))
        return;
    options->on_step = on_lock_step;
    options->on_step_ctx = hooks;
}

void lab_hooks_of_store(struct lab_hooks *hooks, struct store_options *options)
{
    if (!has_steps(hooks))
        return;
    options->on_step = on_store_step;
    options->on_step_ctx = hooks;
}

void lab_hooks_close(struct lab_hooks *hooks)
{
    beside_close(hooks->page);
    timeline_live_close(hooks->timeline);
    failpoints_close(hooks->failpoints);
}
