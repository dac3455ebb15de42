/*
 * A kept reply is used again if it has the same body, and headers of the same
 * names. Values may differ, as an order's Location does: these are set anew.
 */
#include "server/http/reply/response.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

void response_forget(struct response *kept)
{
    if (kept->mhd)
        MHD_destroy_response(kept->mhd);
    kept->mhd = NULL;
}

/* While the service drains, each says that its connection ends. */
static bool is_alike(const struct response *kept, const struct request *request)
{
    if (!kept->mhd || kept->size != request->reply_size ||
        kept->headers_n != request->headers_n || request->loop->draining)
        return false;
    for (size_t i = 0; i < kept->headers_n; i++)
        if (kept->names[i] != request->headers[i].name)
            return false;
    return request->common
               ? !memcmp(kept->body, request->reply_body, kept->size)
               : kept->body == request->reply_body;
}

/* false: no memory. */
static bool make(struct response *kept, const struct request *request)
{
    size_t size = request->reply_size;
    char *copy = request->common ? malloc(size) : NULL;

    response_forget(kept);
    if (request->common && !copy)
        return false;
    kept->body =
        copy ? memcpy(copy, request->reply_body, size) : request->reply_body;
    kept->size = size;
    kept->headers_n = request->headers_n;
    for (size_t i = 0; i < kept->headers_n; i++)
        kept->names[i] = request->headers[i].name;
    kept->mhd = MHD_create_response_from_buffer(size, (void *)kept->body,
                                                copy ? MHD_RESPMEM_MUST_FREE
                                                     : MHD_RESPMEM_PERSISTENT);
    if (!kept->mhd)
        free(copy);
    else if (request->loop->draining)
        MHD_add_response_header(kept->mhd, "Connection", "close");
    return kept->mhd;
}

struct MHD_Response *response_to(struct response *kept,
                                 const struct request *request)
{
    const struct request_header *header = request->headers;
    const char *old;

    if (!is_alike(kept, request) && !make(kept, request))
        return NULL;
    for (; header < request->headers + request->headers_n; header++) {
        old = MHD_get_response_header(kept->mhd, header->name);
        if (old && !strcmp(old, header->value))
            continue;
        if ((old && !MHD_del_response_header(kept->mhd, header->name, old)) ||
            !MHD_add_response_header(kept->mhd, header->name, header->value)) {
            response_forget(kept);
            return NULL;
        }
    }
    return kept->mhd;
}
