/*
 * Which handler answers which path. The table in route.c is the table of
 * contents of the API; everything about a path that can be said in a table is
 * said there.
 *
 * A handler is called with its request complete and allowed: on an HTTP thread,
 * where it replies at once or suspends the request (see request.h), or, if it
 * wants a worker, on a reader's thread, where it replies.
 */
#ifndef ROUTE_H
#define ROUTE_H

#include "server/http/parse.h"
#include "server/http/request.h"

/* The request is complete: refuses it, or calls its handler. */
void route_dispatch(struct request *request, const char *method);

/* For handlers: reads the Idempotency-Key into KEY, of STORE_KEY_BYTES_MAX + 1
 * bytes, which is left alone if there is none. False, and it has replied: it is
 * malformed. */
bool route_key(struct request *request, char *key);

/* For handlers: reads the body, see parse_body(). False, and it has replied. */
bool route_body(struct request *request, enum parse_document document,
                void *out, unsigned *given);

/* For handlers of lists: reads which page is asked for, of LIMIT rows if the query says
 * nothing, after the row whose number AFTER is a name for. False, and it has replied. */
bool route_page(struct request *request, int limit, int limit_max,
                const char *after);

/* handle_orders.c; export for the administrator only */
void handle_orders_post(struct request *request);
request_run handle_orders_get;
void handle_orders_find(struct request *request);
void handle_orders_cancel(struct request *request);
void handle_orders_export(struct request *request);
void handle_orders_pay(struct request *request);

/* handle_inventory.c: an order service has an inventory service answer */
void handle_inventory_order(struct request *request); /* its body was read */
void handle_inventory_other(struct request *request);

/* handle_products.c; all but list, get and watch for the administrator only */
void handle_products_list(struct request *request);
void handle_products_watch(struct request *request);
request_run handle_products_look;                     /* get, or warm up */
void handle_products_change(struct request *request); /* put, or patch */
void handle_products_restock(struct request *request);

/* handle_operations.c; audit for the administrator only */
void handle_operations_livez(struct request *request);
void handle_operations_readyz(struct request *request);
void handle_operations_metrics(struct request *request);
request_run handle_operations_audit;

/* handle_files.c: the files of the shop's page; NULL: there is none of that path */
const struct file *handle_files_find(const char *path);
void handle_files_get(struct request *request);

#endif
