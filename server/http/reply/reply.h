/*
 * Replies: the one place where outcomes of orders and statuses of the store
 * become problems of HTTP, and the few shapes that a reply has.
 *
 * What a client may conclude from a status:
 *   2xx  yes, and it is on disk
 *   4xx  no, and nothing has happened; asking again will not help, except
 *        after 429
 *   503  not now. The detail says whether it is certain that nothing has
 *        happened. With an Idempotency-Key one can simply ask again.
 */
#ifndef REPLY_H
#define REPLY_H

#include "db/store.h"
#include "server/http/reply/problem.h"
#include "server/http/reply/render.h"
#include "server/http/request/parse.h"
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

/* The store refused, or could not look. */
void reply_status(struct request *request, enum store_status status,
                  const struct store_error *error);

/* application/json; consumes JSON, of which NULL means "no memory". */
void reply_json_take(struct request *request, unsigned status, char *json);

/* BODY of TYPE is borrowed until it was sent; of which NULL means "no memory". */
void reply_document(struct request *request, unsigned status, const char *type,
                    const char *body, size_t size);

/* An order, as VIEW shows it: see render_order(). */
void reply_order(struct request *request, unsigned status,
                 const struct store_order *order, enum render_view view);

void reply_no_memory(struct request *request);

#endif
