/*
 * The step hook's two calls (store.h says what it is for).
 *
 * A struct step is a value, and every verb works on a copy of the store's own:
 * when a write has been answered, store_close may free the store while the
 * verb that was answered still has its AFTER to call.
 */
#ifndef STORE_STEP_H
#define STORE_STEP_H

#include "db/store.h"

struct step {
    store_step_hook *hook; /* NULL = none */
    void *ctx;
};

static inline enum store_verdict
step_before(const struct step *step, const char *name, int64_t product_id)
{
    if (!step->hook)
        return STORE_GO;
    return step->hook(step->ctx, name, product_id, STORE_BEFORE);
}

/* What is done is done; but the hook may have the answer lost. */
static inline enum store_verdict
step_after(const struct step *step, const char *name, int64_t product_id)
{
    if (!step->hook)
        return STORE_GO;
    return step->hook(step->ctx, name, product_id, STORE_AFTER);
}

#endif
