/*
 * Everything that can be wrong with a request, in one table: the HTTP status,
 * the name in the problem's type, after how many seconds to ask again (0 = that
 * would not help) and the title. RFC 9457 wants the title of a type to stay the
 * same; what is special about one case goes into its detail.
 *
 * The types are URNs, because they are names and not pages. A name that
 * was published stays: clients compare it. New ones also go into the enum of the Problem
 * schema in static/openapi.json.
 */
#ifndef PROBLEM_H
#define PROBLEM_H

#define PROBLEM_TYPE_PREFIX "urn:stockade:problem:"

#define PROBLEM_MAP(X)                                                         \
    X(PROBLEM_NONE, 200, "none", 0, "No problem")                              \
    X(PROBLEM_BAD_REQUEST, 400, "malformed-request", 0,                        \
      "The request is not well-formed HTTP")                                   \
    X(PROBLEM_BAD_TARGET, 400, "malformed-target", 0,                          \
      "The path or the query is malformed")                                    \
    X(PROBLEM_BAD_JSON, 400, "malformed-json", 0,                              \
      "The body is not valid JSON")                                            \
    X(PROBLEM_BAD_KEY, 400, "malformed-idempotency-key", 0,                    \
      "The idempotency key is malformed")                                      \
    X(PROBLEM_FORBIDDEN, 403, "forbidden", 0, "Only for the administrator")    \
    X(PROBLEM_NOT_FOUND, 404, "not-found", 0, "There is nothing here")         \
    X(PROBLEM_NO_PRODUCT, 404, "no-such-product", 0,                           \
      "There is no such product")                                              \
    X(PROBLEM_NO_ORDER, 404, "no-such-order", 0, "There is no such order")     \
    X(PROBLEM_METHOD, 405, "method-not-allowed", 0,                            \
      "The method is not allowed here")                                        \
    X(PROBLEM_LATE, 408, "request-timeout", 0,                                 \
      "The request took too long to arrive")                                   \
    X(PROBLEM_SOLD_OUT, 409, "sold-out", 0,                                    \
      "Fewer units are left than were asked for")                              \
    X(PROBLEM_LIMIT, 409, "purchase-limit", 0,                                 \
      "The user would have more than one user may buy")                        \
    X(PROBLEM_NOT_OPEN, 409, "sale-not-open", 0, "The sale has not begun")     \
    X(PROBLEM_ENDED, 409, "sale-ended", 0, "The sale is over")                 \
    X(PROBLEM_STOCK_FIXED, 409, "stock-fixed", 0,                              \
      "Stock changes by restock, not by put")                                  \
    X(PROBLEM_INCOMPLETE_PUT, 409, "incomplete-put", 0,                        \
      "The put leaves out what the product has set")                           \
    X(PROBLEM_BODY_SIZE, 413, "body-too-large", 0, "The body is too large")    \
    X(PROBLEM_TARGET_SIZE, 414, "target-too-long", 0,                          \
      "The request target is too long")                                        \
    X(PROBLEM_MEDIA_TYPE, 415, "unsupported-media-type", 0,                    \
      "The body has to be application/json, and not encoded")                  \
    X(PROBLEM_EXPECTATION, 417, "expectation-failed", 0,                       \
      "Only 100-continue may be expected")                                     \
    X(PROBLEM_MISDIRECTED, 421, "misdirected", 0,                              \
      "The Host is not a name of this server")                                 \
    X(PROBLEM_FIELDS, 422, "invalid-fields", 0,                                \
      "Fields of the body are missing or wrong")                               \
    X(PROBLEM_RANGE, 422, "out-of-range", 0, "A number would leave its range") \
    X(PROBLEM_KEY_REUSED, 422, "idempotency-key-reused", 0,                    \
      "The idempotency key belongs to another request")                        \
    X(PROBLEM_CLIENT_BUSY, 429, "too-many-in-flight", 1,                       \
      "Too many orders in flight from this address")                           \
    X(PROBLEM_HEAD_SIZE, 431, "headers-too-large", 0,                          \
      "The request headers are too large")                                     \
    X(PROBLEM_INTERNAL, 500, "internal-error", 0, "The server has a bug")      \
    X(PROBLEM_LOCK_TIMEOUT, 503, "lock-timeout", 1,                            \
      "The lock did not become free in time")                                  \
    X(PROBLEM_LOCK_UNREACHABLE, 503, "lock-unreachable", 2,                    \
      "The lock server cannot be reached")                                     \
    X(PROBLEM_STORE, 503, "store-unavailable", 2,                              \
      "The database cannot be used now")                                       \
    X(PROBLEM_OVERLOADED, 503, "overloaded", 1, "Too much to do")              \
    X(PROBLEM_SHUTTING_DOWN, 503, "shutting-down", 5,                          \
      "The server is shutting down")                                           \
    X(PROBLEM_NOT_READY, 503, "not-ready", 2, "The service is not ready")      \
    X(PROBLEM_VERSION, 505, "http-version", 0,                                 \
      "Only HTTP/1.0 and HTTP/1.1 are spoken here")

enum problem {
#define PROBLEM_ENUM(name, status, slug, retry_s, title) name,
    PROBLEM_MAP(PROBLEM_ENUM)
#undef PROBLEM_ENUM
        PROBLEM_N
};

/* The row of the table. The strings are static. */
struct problem_row {
    const char *slug; /* "sold-out" */
    const char *type; /* PROBLEM_TYPE_PREFIX and the slug */
    const char *title;
    const char *retry; /* for Retry-After; "0" = none */
    unsigned retry_s;
    unsigned status;
};

const struct problem_row *problem_row(enum problem problem);

#endif
