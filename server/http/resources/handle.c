/* What several handlers read from a request. */
#include "server/http/resources/handle.h"

#include <string.h>

#include "server/http/reply/reply.h"
#include "server/http/request/parse.h"
#include "server/http/request/request.h"

bool handle_key(struct request *request, char *key)
{
    size_t n;
    const char *given = request_field(request, "Idempotency-Key", &n);

    if (n == 0 || (n == 1 && parse_key(given, key)))
        return true;
    reply_problem(request, PROBLEM_BAD_KEY,
                  "send one Idempotency-Key of 1 to 128 visible ASCII "
                  "characters, bare or in double quotes");
    return false;
}

/* What is no number is no product's id either. */
bool handle_product_id(struct request *request, int64_t *id)
{
    if (parse_number(request->match.param, id))
        return true;
    reply_problem(request, PROBLEM_NO_PRODUCT, "product ids are numbers");
    return false;
}

void *handle_parameters(struct request *request, size_t size)
{
    void *parameters = request_alloc(request, size);

    if (parameters)
        memset(parameters, 0, size);
    else
        reply_no_memory(request);
    request->parameters = parameters;
    return parameters;
}
