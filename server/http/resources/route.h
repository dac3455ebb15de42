/*
 * Which handler answers which path. The table in route.c is the table of
 * contents of the API; everything about a path that can be said in a table is
 * said there.
 */
#ifndef ROUTE_H
#define ROUTE_H

#include "server/http/request/request.h"

/* What has to be true before a handler is called. Not in the handlers, where
 * one of them would forget it some day. */
enum route_flags {
    ROUTE_JSON = 1 << 0,  /* Content-Type has to be application/json */
    ROUTE_PATCH = 1 << 1, /* or application/merge-patch+json */
    ROUTE_ADMIN = 1 << 2, /* for the administrator only */
};

/* A row of the table. */
struct route {
    const char *method;
    const char *pattern; /* "{id}" stands for one part of the path */
    void (*handle)(struct request *request);
    unsigned flags; /* of enum route_flags */
};

/*
 * Never NULL: where nothing fits, the result is the row that says 404, and
 * where only the method does not fit, 405 (or the one for OPTIONS).
 */
const struct route *route_find(const char *method, const char *path,
                               struct request_match *match);

/* The request is complete: refuses it, or calls its handler. */
void route_dispatch(struct request *request);

#endif
