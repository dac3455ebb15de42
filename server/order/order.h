/*
 * An order on its way through the service: the vocabulary of server/order.
 *
 * A ticket is what a customer holds while the order waits: the question, room
 * for the answer, and whom to call when it is there. It belongs to whoever
 * made it (an HTTP request) and must stay until done() was called.
 */
#ifndef ORDER_H
#define ORDER_H

#include <sys/queue.h>

#include "db/store.h"
#include "server/warm/warm.h"

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
    X(ORDER_WARMING_UP, "warming-up")                                          \
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

/* Which segment an order is to be placed in, and how that was found: choice.h.
 * (The order itself says what the store is asked: one segment or any.) */
struct choice {
    int64_t lane;    /* whose lock it waits for; STORE_SEGMENT_ANY = of all */
    unsigned shorts; /* segments that were asked, and had too few */
    enum choice_basis {
        CHOICE_ONLY,  /* there is but one segment */
        CHOICE_WARM,  /* the warm key said that it has enough */
        CHOICE_BLIND, /* they said that none has */
    } basis;
    struct warm_ticket warm; /* to be settled: CHOICE_WARM */
};

struct ticket {
    struct store_order order;   /* the question; filled when placed */
    enum order_outcome outcome; /* the answer */
    unsigned stale;   /* how often its lock was overtaken; 0 to begin with */
    char detail[200]; /* for a person: why, when it is not a yes */
    uint64_t submitted_us; /* monotonic; set by the desk */

    /*
     * Called once when the answer is there, on whatever thread found it: the
     * store's, one of the desk, its sweeper's, or the one that stops it; for an
     * order with a key also one of the pool, the pool's sweeper's, or one that is
     * inside desk_submit(), with this ticket or others. Must not block. The desk
     * does not touch the ticket afterwards.
     */
    void (*done)(struct ticket *ticket);
    void *owner; /* for done() */

    /* The desk's, while it has the ticket. */
    struct choice choice;
    struct lane *lane;
    struct ticket *next; /* in a list of those that were taken out of lanes */
    TAILQ_ENTRY(ticket) turn; /* in its lane */
    TAILQ_ENTRY(ticket) age;  /* of all that wait */
};

#endif
