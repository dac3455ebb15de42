/*
 * Both kinds are used again if they have the body that is wanted, and headers
 * of the same names; values may differ, as an order's Location does: those are
 * set anew. The library copies them into the reply's head before it looks at
 * another request, so that this does not change what is still to be sent.
 */
#include "server/http/response.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/http.h"

void response_forget(struct response *kept)
{
    if (kept->mhd)
        MHD_destroy_response(kept->mhd);
    kept->mhd = NULL;
}

static bool set_header(struct MHD_Response *mhd, const char *name,
                       const char *value)
{
    const char *old = MHD_get_response_header(mhd, name);

    if (old && !strcmp(old, value))
        return true;
    return (!old || MHD_del_response_header(mhd, name, old)) &&
           MHD_add_response_header(mhd, name, value);
}

/* false: no memory, and some are not there. */
static bool set_headers(struct response *kept, const struct request *request)
{
    for (size_t i = 0; i < request->headers_n; i++)
        if (!set_header(kept->mhd, request->headers[i].name,
                        request->headers[i].value))
            return false;
    return true;
}

/* While the door is shut each says that its connection ends. */
static bool is_alike(const struct response *kept, const struct request *request)
{
    if (!kept->mhd || kept->size != request->reply_size ||
        kept->headers_n != request->headers_n || !http_is_open(request->http))
        return false;
    for (size_t i = 0; i < kept->headers_n; i++)
        if (kept->names[i] != request->headers[i].name)
            return false;
    return true;
}

/* BODY is the request's, or a copy. */
static struct MHD_Response *make(struct response *kept,
                                 const struct request *request,
                                 const char *body,
                                 enum MHD_ResponseMemoryMode mode)
{
    response_forget(kept);
    kept->body = body;
    kept->size = request->reply_size;
    kept->headers_n = request->headers_n;
    for (size_t i = 0; i < kept->headers_n; i++)
        kept->names[i] = request->headers[i].name;
    kept->mhd = MHD_create_response_from_buffer(kept->size, (void *)body, mode);
    if (kept->mhd && !http_is_open(request->http))
        MHD_add_response_header(kept->mhd, "Connection", "close");
    return kept->mhd;
}

static struct MHD_Response *finish(struct response *kept,
                                   const struct request *request)
{
    if (!set_headers(kept, request))
        response_forget(kept);
    return kept->mhd;
}

struct MHD_Response *response_common(struct response *kept,
                                     const struct request *request)
{
    size_t size = request->reply_size;
    char *body;

    if (!is_alike(kept, request) ||
        memcmp(kept->body, request->reply_body, size) != 0) {
        body = malloc(size);
        if (!body)
            return NULL;
        memcpy(body, request->reply_body, size);
        if (!make(kept, request, body, MHD_RESPMEM_MUST_FREE)) {
            free(body);
            return NULL;
        }
    }
    return finish(kept, request);
}

struct MHD_Response *response_own(struct response *kept,
                                  const struct request *request)
{
    if ((!is_alike(kept, request) || kept->body != request->reply_body) &&
        !make(kept, request, request->reply_body, MHD_RESPMEM_PERSISTENT))
        return NULL;
    return finish(kept, request);
}
