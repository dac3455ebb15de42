/*
 * How an order ends: what it is counted by, and what its customer is told.
 */
#ifndef ORDER_OUTCOME_H
#define ORDER_OUTCOME_H

/*
 * One row: the name, the HTTP status, the slug, after how many seconds to ask again
 * (0 = that would not help) and the title of the problem.
 * ORDER_PLACED and ORDER_REPLAYED are yes; up to
 * ORDER_KEY_REUSED it is a no; from ORDER_LOCK_TIMEOUT on it is "not now": the
 * detail says whether it is certain that nothing was ordered.
 */
#define ORDER_OUTCOME_MAP(X)                                                   \
    X(PLACED, 201, "placed", 0, "The order is placed")                         \
    X(REPLAYED, 201, "replayed", 0, "The order was placed before")             \
    X(SOLD_OUT, 409, "sold-out", 0,                                            \
      "Fewer units are left than were asked for")                              \
    X(PURCHASE_LIMIT, 409, "purchase-limit", 0,                                \
      "The user would have more than one user may buy")                        \
    X(SALE_NOT_OPEN, 409, "sale-not-open", 0, "The sale has not begun")        \
    X(SALE_ENDED, 409, "sale-ended", 0, "The sale is over")                    \
    X(NO_PRODUCT, 404, "no-such-product", 0, "There is no such product")       \
    X(KEY_REUSED, 422, "idempotency-key-reused", 0,                            \
      "The idempotency key belongs to another request")                        \
    X(LOCK_TIMEOUT, 503, "lock-timeout", 1,                                    \
      "The lock did not become free in time")                                  \
    X(LOCK_UNREACHABLE, 503, "lock-unreachable", 2,                            \
      "The lock server cannot be reached")                                     \
    X(STORE_UNAVAILABLE, 503, "store-unavailable", 2,                          \
      "The database cannot be used now")                                       \
    X(OVERLOADED, 503, "overloaded", 1, "Too much to do")                      \
    X(SHUTTING_DOWN, 503, "shutting-down", 5, "The server is shutting down")

enum order_outcome {
#define ORDER_OUTCOME_ENUM(name, status, slug, retry_s, title) ORDER_##name,
    ORDER_OUTCOME_MAP(ORDER_OUTCOME_ENUM)
#undef ORDER_OUTCOME_ENUM
        ORDER_OUTCOME_N
};

/* The outcome's name in problem types and metrics: "sold-out". */
const char *order_outcome_slug(enum order_outcome outcome);

#endif
