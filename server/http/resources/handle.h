/*
 * The handlers of all resources, for the table in route.c.
 *
 * A handler is called on an HTTP thread, with its request complete and allowed.
 * It replies at once, or suspends the request: see request.h.
 */
#ifndef HANDLE_H
#define HANDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct request;

/* handle.c: what handlers read from a request beside its body. Each returns
 * false or NULL, and has replied, if that is malformed or there is no memory. */

/* The Idempotency-Key into KEY, of STORE_KEY_BYTES_MAX + 1 bytes, which is left
 * alone if there is none. */
bool handle_key(struct request *request, char *key);
/* The product's id in the path. */
bool handle_product_id(struct request *request, int64_t *id);
/* SIZE bytes, all zero, which become request->parameters. */
void *handle_parameters(struct request *request, size_t size);

/* handle_orders.c */
void handle_orders_post(struct request *request);
void handle_orders_get(struct request *request);
void handle_orders_find(struct request *request);
void handle_orders_cancel(struct request *request);

/* handle_products.c; all but list and get for the administrator only */
void handle_products_list(struct request *request);
void handle_products_look(struct request *request);   /* get, or warm up */
void handle_products_change(struct request *request); /* put, or patch */
void handle_products_restock(struct request *request);

/* handle_operations.c; audit for the administrator only */
void handle_operations_livez(struct request *request);
void handle_operations_readyz(struct request *request);
void handle_operations_metrics(struct request *request);
void handle_operations_audit(struct request *request);

/* handle_files.c: all files of static/, by the request's path */
void handle_files_get(struct request *request);

#endif
