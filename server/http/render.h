/*
 * JSON out: what the store says, as text. But for an order, every result comes
 * from malloc() and is the caller's; NULL if there is no memory.
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
#include "server/http/parse.h"
#include "server/http/problem.h"

#define RENDER_ORDER_BYTES 512 /* holds every order, and the NUL */

/*
 * Fills TEXT, needs no memory and cannot fail; the size without the NUL.
 * AS_PLACED shows an order as it was when it was placed, whatever became of it
 * since: so that the answer to a repeated request is the first one's, byte for
 * byte.
 */
size_t render_order(const struct store_order *order, bool as_placed,
                    char text[RENDER_ORDER_BYTES]);

/* An order as it is now, and what it took from where. */
char *render_order_from(const struct store_order *order,
                        const struct store_parts *parts);

/* LOCK is the name of the strategy that guards the product. */
char *render_product(const struct store_product *product, const char *lock);

/* The same with the cells of that moment. */
char *render_product_cells(const struct store_product *product,
                           const struct store_cells *cells, const char *lock);

/* What has been loaded of a product, and where to. */
char *render_warmup(int64_t product_id, const struct store_cells *cells,
                    bool in_redis);

/* NEXT: the id to list after for the next page; 0 = this was the last. */
char *render_products(const struct store_product products[], size_t n,
                      const char *lock, int64_t next);

char *render_audit(const struct store_audit *audit,
                   const struct store_audit_line lines[], size_t lines_n);

/* RFC 9457. FAULTS may be NULL with 0. */
char *render_problem(enum problem problem, const char *detail,
                     const struct parse_fault faults[], size_t faults_n);

/* {"status":"ok","store":"ok","lock":"ok"} */
char *render_ready(const char *store, const char *lock);

#endif
