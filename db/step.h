/*
 * Calls of the store's step hook; store_step.h says what it is for.
 */
#ifndef STORE_STEP_CALL_H
#define STORE_STEP_CALL_H

#include <stddef.h>

#include "db/store_step.h"

struct step {
    store_step_hook *hook; /* NULL = none */
    void *ctx;
};

static inline enum store_verdict step_begin(struct step step, const char *name,
                                            int64_t product_id)
{
    if (!step.hook)
        return STORE_GO;
    return step.hook(step.ctx, &(struct store_step){.name = name,
                                                    .product_id = product_id,
                                                    .phase = STORE_BEFORE});
}

static inline enum store_verdict step_end(struct step step, const char *name,
                                          int64_t product_id, const char *reply)
{
    if (!step.hook)
        return STORE_GO;
    return step.hook(step.ctx, &(struct store_step){.name = name,
                                                    .product_id = product_id,
                                                    .phase = STORE_AFTER,
                                                    .reply = reply});
}

#endif
