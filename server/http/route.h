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

/* What has to be true before a handler is called. Not in the handlers, where
 * one of them would forget it some day. A row without any is answered while the
 * service waits for its database, too: its handler may not look at the parts. */
enum route_flags {
    ROUTE_JSON = 1 << 0,    /* Content-Type has to be application/json */
    ROUTE_PATCH = 1 << 1,   /* or application/merge-patch+json */
    ROUTE_ADMIN = 1 << 2,   /* for the administrator only */
    ROUTE_PRODUCT = 1 << 3, /* the id is a product's, and so a number */
    ROUTE_ASKED = 1 << 4,   /* an order service asks an inventory service */
    ROUTE_STORE = 1 << 5,   /* where the database is: not at an order service */
};

/* A row of the table. */
struct route {
    const char *method;
    const char
        *pattern; /* "{id}" stands for one part of the path; "": a file */
    request_answer *handle;
    unsigned flags;   /* of enum route_flags */
    request_run *run; /* instead of handle: as a task */
};

/*
 * Never NULL: where nothing fits, the result is the row that says 404, and
 * where only the method does not fit, 405.
 */
const struct route *route_find(const char *method, const char *path,
                               struct request_match *match);

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
