/*
 * How an order ends: what it is counted by, and what its customer is told.
 */
#ifndef ORDER_OUTCOME_H
#define ORDER_OUTCOME_H

/*
 * ORDER_PLACED and ORDER_REPLAYED are yes; up to
 * ORDER_KEY_REUSED it is a no; from ORDER_LOCK_TIMEOUT on it is "not now": the
 * detail says whether it is certain that nothing was ordered.
 */
#define ORDER_OUTCOME_MAP(X)                                                   \
    X(ORDER_PLACED, "placed")                                                  \
    X(ORDER_REPLAYED, "replayed")                                              \
    X(ORDER_SOLD_OUT, "sold-out")                                              \
    X(ORDER_PURCHASE_LIMIT, "purchase-limit")                                  \
    X(ORDER_SALE_NOT_OPEN, "sale-not-open")                                    \
    X(ORDER_SALE_ENDED, "sale-ended")                                          \
    X(ORDER_NO_PRODUCT, "no-such-product")                                     \
    X(ORDER_KEY_REUSED, "idempotency-key-reused")                              \
    X(ORDER_LOCK_TIMEOUT, "lock-timeout")                                      \
    X(ORDER_LOCK_UNREACHABLE, "lock-unreachable")                              \
    X(ORDER_STORE_UNAVAILABLE, "store-unavailable")                            \
    X(ORDER_OVERLOADED, "overloaded")                                          \
    X(ORDER_SHUTTING_DOWN, "shutting-down")

enum order_outcome {
#define ORDER_OUTCOME_ENUM(name, slug) name,
    ORDER_OUTCOME_MAP(ORDER_OUTCOME_ENUM)
#undef ORDER_OUTCOME_ENUM
        ORDER_OUTCOME_N
};

/* The outcome's name in problem types and metrics: "sold-out". */
const char *order_outcome_slug(enum order_outcome outcome);

#endif
