/*
 * Which handler answers which path. The table in route.c is the table of
 * contents of the API; everything about a path that can be said in a table is
 * said there.
 */
#ifndef ROUTE_H
#define ROUTE_H

#include <stddef.h>

#define ROUTE_PARAM_BYTES_MAX 64

struct request;

/*
 * What has to be true before a handler is called. Not in the handlers, where
 * one of them would forget it some day.
 */
enum route_flags {
    ROUTE_JSON = 1 << 0,  /* needs a body of application/json */
    ROUTE_ADMIN = 1 << 1, /* for the administrator only */
};

/* A row of the table. */
struct route {
    const char *method;
    const char *pattern; /* "{id}" stands for one segment */
    void (*handle)(struct request *request);
    unsigned flags; /* of enum route_flags */
};

struct route_match {
    char param[ROUTE_PARAM_BYTES_MAX + 1]; /* what stood for "{id}" */
    char allow[64]; /* methods of this path: "GET, HEAD, OPTIONS" */
};

/*
 * Never NULL: where nothing fits, the result is the row that says 404, and
 * where only the method does not fit, 405 (or the one for OPTIONS).
 */
const struct route *route_find(const char *method, const char *path,
                               struct route_match *match);

/* Finds the request's row, sees to its flags and calls its handler. */
void route_dispatch(struct request *request);

#endif
