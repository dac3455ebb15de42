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

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "db/store.h"
#include "server/http/problem.h"
#include "server/http/parse.h"
#include "server/order/order.h"

struct request;

/*
 * JSON out: what the store says, as text. Every result comes from malloc() and
 * is the caller's, except that of an order; NULL if there is no memory.
 *
 * The documents are the schemas of the same name in static/openapi.json, and
 * tests/e2e/http-api.t holds them against each other. Quantities and money are
 * integers within STORE_NUMBER_MAX, which every reader of JSON holds exactly;
 * times are text. What an order or a product does not have is null, not absent; but an
 * order with nothing to pay says nothing of payments.
 */

#define RENDER_ORDER_BYTES 768 /* holds every order, and the NUL */

/* The state in which an order is shown. RENDER_PLACED is that in which it was placed,
 * whatever became of it since: so the answer to a repeated request is the first one's,
 * byte for byte. */
enum render_view { RENDER_PLACED, RENDER_NOW, RENDER_NOW_WITH_SEGMENT };

/* Fills TEXT, needs no memory and cannot fail; the size without the NUL. */
size_t render_order(const struct store_order *order, enum render_view view,
                    char text[RENDER_ORDER_BYTES]);

/* The head of a table of orders, and an order's line in it (RFC 4180). Keys and
 * payments are texts of others: a spreadsheet would run one that begins like a formula,
 * so that one has a ' before it. */
extern const char render_csv_head[];
void render_csv_order(const struct store_order *order, FILE *out);

/* LOCK is the name of the strategy that guards the product. SEGMENTS, those in
 * use at that moment, may be NULL. */
char *render_product(const struct store_product *product,
                     const struct store_segments *segments, const char *lock);

/* What was written into Redis of a product, or would have been. */
char *render_warmup(int64_t product_id, const struct store_segments *segments,
                    bool in_redis);

/* NEXT: the id to list after for the next page; 0 = this was the last. */
char *render_products(const struct store_product products[], size_t n,
                      const char *lock, int64_t next);

/* The time of day, for those who watch. */
char *render_beat(int64_t now_ms);

char *render_audit(const struct store_audit *audit,
                   const struct store_audit_line lines[], size_t lines_n);

/* RFC 9457. IS_OPEN: the order may have been placed, or not. FAULTS may be NULL with
 * 0. */
char *render_problem(enum problem problem, bool is_open, const char *detail,
                     const struct parse_fault faults[], size_t faults_n);

enum problem reply_of_status(enum store_status status);

/* application/problem+json, with Retry-After where it helps. */
void reply_problem(struct request *request, enum problem problem,
                   const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same of the request's order, which was not placed, or may have been. */
void reply_outcome(struct request *request);

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

#endif
