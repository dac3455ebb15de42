/*
 * An order on its way through the service: the vocabulary of server/order.
 *
 * A ticket is what a customer holds while the order waits: the question, room
 * for the answer, and whom to call when it is there. It belongs to whoever
 * made it (an HTTP request) and must stay until done() was called.
 */
#ifndef ORDER_H
#define ORDER_H

#include "db/store.h"

/*
 * How an order ends. ORDER_PLACED and ORDER_REPLAYED are yes; up to
 * ORDER_KEY_REUSED it is a no; from ORDER_LOCK_TIMEOUT on it is "not now", and
 * ORDER_STORE_UNAVAILABLE is "don't know": ask again with the same key.
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

struct ticket {
    struct store_order order;   /* the question; filled when placed */
    enum order_outcome outcome; /* the answer */
    unsigned stale;   /* how often its lock was overtaken; 0 to begin with */
    char detail[200]; /* for a person: why, when it is not a yes */
    uint64_t submitted_us; /* monotonic; set by the desk */

    /*
     * Called once when the answer is there, on whatever thread found it: the
     * store's, one of the desk, or the one that stops it. Must not block. The
     * desk does not touch the ticket afterwards.
     */
    void (*done)(struct ticket *ticket);
    void *owner; /* for done() */

    /* The desk's, while it has the ticket. */
    struct lane *lane;
    struct ticket *next;          /* in its lane, later in an answer's batch */
    struct ticket *older, *newer; /* of all that wait */
};

#endif
