/*
 * Replies as libmicrohttpd wants them. It makes and frees seven pieces of
 * memory for one with two headers; so one is kept and used again: by each loop
 * what it said last to many, by each connection what it said last of its own.
 *
 * For one thread, the loop's.
 */
#ifndef RESPONSE_H
#define RESPONSE_H

#include <stddef.h>

#include "server/http/request.h"

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
 * What REQUEST is to be answered; stays the keeper's. NULL: there is no memory.
 * The next call for the same keeper may change it: not before its head is
 * written.
 */

/* The same is said to many: all of it is copied. */
struct MHD_Response *response_common(struct response *kept,
                                     const struct request *request);

/* The body's bytes are the request's, which outlives the reply. */
struct MHD_Response *response_own(struct response *kept,
                                  const struct request *request);

/* Of no use any more; lives on until it was sent. */
void response_forget(struct response *kept);

#endif
