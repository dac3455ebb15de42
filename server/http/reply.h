/*
 * How things end, said in HTTP: the one place where outcomes of orders and
 * statuses of the store become problems, and the few shapes of a reply.
 *
 * What a client may conclude from a status:
 *   2xx  yes, and it is on disk
 *   4xx  no, and nothing has happened; asking again will not help, except
 *        after 429
 *   503  not now. For an order, store-unavailable is a don't know as well: it
 *        may be on disk. With an Idempotency-Key one can simply ask again.
 */
#ifndef REPLY_H
#define REPLY_H

#include "db/store.h"
#include "server/http/parse.h"
#include "server/http/problem.h"
#include "server/order/order.h"

struct request;

/* The problem that an outcome is; PROBLEM_NONE for the two that are a yes. */
enum problem reply_of_outcome(enum order_outcome outcome);
enum problem reply_of_status(enum store_status status);

/* application/problem+json, with Retry-After where it helps. */
void reply_problem(struct request *request, enum problem problem,
                   const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A body that could not be parsed. */
void reply_faults(struct request *request, const struct parse_error *error);

/* The store said no, or could not say. */
void reply_status(struct request *request, enum store_status status,
                  const struct store_error *error);

/* application/json; consumes JSON, of which NULL means "no memory". */
void reply_json_take(struct request *request, unsigned status, char *json);

/* An order; see render_order(). */
void reply_order(struct request *request, unsigned status,
                 const struct store_order *order, bool as_placed);

#endif
