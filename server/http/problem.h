/*
 * Everything that can be wrong with a request, in one table that begins with the
 * outcomes of an order (order_outcome.h) and has the same columns. RFC 9457 wants
 * the title of a type to stay the same; what is special about one case goes into
 * its detail.
 *
 * The types are URNs, because they are names and not pages. A name that
 * was published stays: clients compare it. New ones also go into the enum of the Problem
 * schema in static/openapi.json.
 */
#ifndef PROBLEM_H
#define PROBLEM_H

#include "server/base/order_outcome.h"

#define PROBLEM_TYPE_PREFIX "urn:stockade:problem:"

#define PROBLEM_MAP(X)                                                         \
    X(BAD_REQUEST, 400, "malformed-request", 0,                                \
      "The request is not well-formed HTTP")                                   \
    X(BAD_TARGET, 400, "malformed-target", 0,                                  \
      "The path or the query is malformed")                                    \
    X(BAD_JSON, 400, "malformed-json", 0, "The body is not valid JSON")        \
    X(BAD_KEY, 400, "malformed-idempotency-key", 0,                            \
      "The idempotency key is malformed")                                      \
    X(FORBIDDEN, 403, "forbidden", 0, "Only for the administrator")            \
    X(NOT_FOUND, 404, "not-found", 0, "There is nothing here")                 \
    X(NO_ORDER, 404, "no-such-order", 0, "There is no such order")             \
    X(METHOD, 405, "method-not-allowed", 0, "The method is not allowed here")  \
    X(LATE, 408, "request-timeout", 0, "The request took too long to arrive")  \
    X(ORDER_EXPIRED, 409, "order-expired", 0,                                  \
      "The order was not paid in time")                                        \
    X(ORDER_CANCELLED, 409, "order-cancelled", 0, "The order was cancelled")   \
    X(ALREADY_PAID, 409, "already-paid", 0, "The order is paid")               \
    X(PAYMENTS_FULL, 409, "too-many-payments", 0,                              \
      "Too many payments of the order came too late")                          \
    X(STOCK_FIXED, 409, "stock-fixed", 0,                                      \
      "Stock changes by restock, not by put")                                  \
    X(INCOMPLETE_PUT, 409, "incomplete-put", 0,                                \
      "The put leaves out what the product has set")                           \
    X(BODY_SIZE, 413, "body-too-large", 0, "The body is too large")            \
    X(TARGET_SIZE, 414, "target-too-long", 0,                                  \
      "The request target is too long")                                        \
    X(MEDIA_TYPE, 415, "unsupported-media-type", 0,                            \
      "The body has to be application/json, and not encoded")                  \
    X(EXPECTATION, 417, "expectation-failed", 0,                               \
      "Only 100-continue may be expected")                                     \
    X(MISDIRECTED, 421, "misdirected", 0,                                      \
      "The Host is not a name of this server")                                 \
    X(FIELDS, 422, "invalid-fields", 0,                                        \
      "Fields of the body are missing or wrong")                               \
    X(PAYMENT_REUSED, 422, "payment-reused", 0,                                \
      "The payment belongs to another order")                                  \
    X(RANGE, 422, "out-of-range", 0, "A number would leave its range")         \
    X(CLIENT_BUSY, 429, "too-many-in-flight", 1,                               \
      "Too many orders in flight from this address")                           \
    X(HEAD_SIZE, 431, "headers-too-large", 0,                                  \
      "The request headers are too large")                                     \
    X(INTERNAL, 500, "internal-error", 0, "The server has a bug")              \
    X(VIEWERS, 503, "too-many-viewers", 10, "Too many are watching already")   \
    X(NOT_READY, 503, "not-ready", 2, "The service is not ready")              \
    X(VERSION, 505, "http-version", 0,                                         \
      "Only HTTP/1.0 and HTTP/1.1 are spoken here")

/* An order's outcome is a problem of the same number. */
enum problem {
#define PROBLEM_ENUM(name, status, slug, retry_s, title) PROBLEM_##name,
    ORDER_OUTCOME_MAP(PROBLEM_ENUM) PROBLEM_MAP(PROBLEM_ENUM)
#undef PROBLEM_ENUM
        PROBLEM_N,
    PROBLEM_NONE = PROBLEM_PLACED
};

/* The row of the table. The strings are static. */
struct problem_row {
    const char *type; /* PROBLEM_TYPE_PREFIX and the slug: "sold-out" */
    const char *title;
    const char *retry; /* for Retry-After; "0" = none */
    unsigned retry_s;
    unsigned status;
};

const struct problem_row *problem_row(enum problem problem);

#endif
