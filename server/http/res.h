/* The handlers of all resources, for the table in route.c. */
#ifndef RES_H
#define RES_H

struct request;

/*
 * A handler is called on an HTTP thread, with its request complete and allowed
 * in, and does one of these: reply, request_errand(), request_order(). The
 * rules are in request.h, the paths in route.c.
 */

/* res_orders.c */
void res_orders_post(struct request *request);
void res_orders_get(struct request *request);
void res_orders_find(struct request *request);
void res_orders_cancel(struct request *request);

/* res_products.c; put, restock and warmup for the administrator only */
void res_products_list(struct request *request);
void res_products_get(struct request *request);
void res_products_put(struct request *request);
void res_products_restock(struct request *request);
void res_products_warmup(struct request *request);

/* res_ops.c; audit for the administrator only */
void res_ops_livez(struct request *request);
void res_ops_readyz(struct request *request);
void res_ops_metrics(struct request *request);
void res_ops_audit(struct request *request);

/* res_static.c: all files of static/, by the request's path */
void res_static_get(struct request *request);

#endif
