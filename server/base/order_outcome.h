/*
 * How an order ends: what it is counted by, and what its customer is told.
 */
#ifndef ORDER_OUTCOME_H
#define ORDER_OUTCOME_H

enum order_outcome {
#define ROW(name, ...) ORDER_##name,
#include "server/base/order_outcomes.inc"
    ORDER_OUTCOME_N
};

/* Member of a problem document, true where the order may have been placed, or not. */
#define ORDER_OPEN_MEMBER "may_have_ordered"

/* The outcome's name in problem types and metrics: "sold-out". */
static inline const char *order_outcome_slug(enum order_outcome outcome)
{
    static const char *const slugs[] = {
#define ROW(name, status, retry_s, slug, title) slug,
#include "server/base/order_outcomes.inc"
    };

    return outcome < ORDER_OUTCOME_N ? slugs[outcome] : "unknown";
}

#endif
