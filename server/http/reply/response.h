/*
 * Replies as libmicrohttpd wants them. It needs seven pieces of memory for one
 * with two headers. So one is kept and used again: by each loop the last reply
 * that many get, by each connection the last one of its own.
 *
 * For one thread, the loop's.
 */
#ifndef RESPONSE_H
#define RESPONSE_H

#include <stddef.h>

#include "server/http/request/request.h"

struct MHD_Response;

/* The one that is kept; begins as {0}. */
struct response {
    struct MHD_Response *mhd; /* NULL: there is none */
    const char *body;         /* its bytes */
    size_t size;
    size_t headers_n;
    const char *names[REQUEST_REPLY_HEADERS_MAX]; /* of headers; literals */
};

/*
 * The reply to REQUEST; it stays the one of KEPT. NULL: there is no memory. Of
 * a reply that many get the body is copied; of others the bytes are the
 * request's, which outlives the reply.
 *
 * The next call for the same KEPT may change its headers. That does not change
 * replies that wait to be sent: libmicrohttpd builds a reply's head when it is
 * queued, or, queued by the access handler, right after that has returned.
 */
struct MHD_Response *response_to(struct response *kept,
                                 const struct request *request);

/* Of no use any more; lives on until it was sent. */
void response_forget(struct response *kept);

#endif
