/*
 * Private to lock/: what all connections of a client share, whatever server they
 * go to.
 */
#ifndef DLOCK_WIRE_CONFIG_H
#define DLOCK_WIRE_CONFIG_H

#include <stdatomic.h>

#include "lock/dlock.h"
#include "lock/dlock_url.h"

struct dlock_wire_config {
    struct dlock_address address; /* of a Redis server */
    unsigned node;                /* its place in the url, for the step hook */
    unsigned connect_timeout_ms;
    unsigned command_timeout_ms;
    const struct dlock_clock *clock;
    atomic_uint_fast64_t
        *primary; /* where another server may take over: which one
                     the last connection of all was made to; 0 = none
                     yet, or it is silent; or NULL */
    dlock_step_hook *on_step;
    void *on_step_ctx;
};

#endif
