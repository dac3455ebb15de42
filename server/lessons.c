/* See lessons.h. */
#include "server/lessons.h"

#include "server/config.h"
#include "server/failpoint.h"
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

void lessons_of_locks(struct lessons *lessons, const struct config *config,
                      struct dlock_options *options)
{
    if (config->lab_lease_ms > 0)
        options->watchdog_lease_ms = (unsigned)config->lab_lease_ms;
    if (!lessons->failpoints)
        return;
    options->on_step = failpoints_hook;
    options->on_step_ctx = lessons->failpoints;
}

void lessons_of_store(struct lessons *lessons, struct store_options *options)
{
    if (!lessons->failpoints)
        return;
    options->on_step = failpoints_store_hook;
    options->on_step_ctx = lessons->failpoints;
}

void lessons_close(struct lessons *lessons)
{
    failpoints_close(lessons->failpoints);
}
