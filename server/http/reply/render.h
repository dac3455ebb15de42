/*
 * JSON out: what the store says, as text. Every result comes from malloc() and
 * is the caller's, except that of an order; NULL if there is no memory.
 *
 * The documents are the schemas of the same name in static/openapi.json, and
 * tests/e2e/http-api.t holds them against each other. Quantities and money are
 * integers within STORE_NUMBER_MAX, which every reader of JSON holds exactly;
 * times are text. What an order or a product does not have is null, not absent.
 */
#ifndef RENDER_H
#define RENDER_H

#include <stdbool.h>
#include <stddef.h>

#include "db/store.h"
#include "server/http/request/parse.h"
#include "server/http/reply/problem.h"

#define RENDER_ORDER_BYTES 512 /* holds every order, and the NUL */

/*
 * What is shown of an order. What was placed is shown as it was then, whatever
 * became of it since: so the answer to a repeated request is the first one's,
 * byte for byte.
 */
enum render_view { RENDER_PLACED, RENDER_NOW, RENDER_NOW_WITH_SEGMENT };

/* Fills TEXT, needs no memory and cannot fail; the size without the NUL. */
size_t render_order(const struct store_order *order, enum render_view view,
                    char text[RENDER_ORDER_BYTES]);

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

char *render_audit(const struct store_audit *audit,
                   const struct store_audit_line lines[], size_t lines_n);

/* RFC 9457. FAULTS may be NULL with 0. */
char *render_problem(enum problem problem, const char *detail,
                     const struct parse_fault faults[], size_t faults_n);

#endif
