/*
 * The table of contents of the HTTP interface, and the way from a request to
 * its row. It is short, so it is walked from the top; nothing registers itself
 * anywhere else.
 */
#include "server/http/route.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "server/app.h"
#include "server/config.h"
#include "server/http/reply.h"
#include "server/http/request.h"
#include "server/http/res.h"

/*
 * The three handlers that are nobody's resource. They are rows of the table
 * like all others, so that finding a row never fails.
 */
static void method_not_allowed(struct request *request)
{
    request_header(request, "Allow", request->match.allow);
    reply_problem(request, PROBLEM_METHOD, "allowed here: %s",
                  request->match.allow);
}

static void options(struct request *request)
{
    request_header(request, "Allow", request->match.allow);
    request_reply(request, 204, "", 0);
}

static void not_found(struct request *request)
{
    reply_problem(request, PROBLEM_NOT_FOUND,
                  "the interface is described at /openapi.json");
}

/*
 * The order matters only where a path has several methods: it is Allow's order.
 */
static const struct route routes[] = {
    {"POST", "/api/orders", res_orders_post, ROUTE_JSON},
    {"GET", "/api/orders", res_orders_find, 0},
    {"GET", "/api/orders/{id}", res_orders_get, 0},
    {"DELETE", "/api/orders/{id}", res_orders_cancel, 0},
    {"GET", "/api/products", res_products_list, 0},
    {"GET", "/api/products/{id}", res_products_get, 0},
    {"PUT", "/api/products/{id}", res_products_put, ROUTE_JSON | ROUTE_ADMIN},
    {"POST", "/api/products/{id}/restock", res_products_restock,
     ROUTE_JSON | ROUTE_ADMIN},
    {"POST", "/api/products/{id}/warmup", res_products_warmup, ROUTE_ADMIN},
    {"GET", "/api/audit", res_ops_audit, ROUTE_ADMIN},
    {"GET", "/livez", res_ops_livez, 0},
    {"GET", "/readyz", res_ops_readyz, 0},
    {"GET", "/healthz", res_ops_readyz, 0},
    {"GET", "/metrics", res_ops_metrics, 0},
    {"GET", "/", res_static_get, 0},
    {"GET", "/app.js", res_static_get, 0},
    {"GET", "/style.css", res_static_get, 0},
    {"GET", "/openapi.json", res_static_get, 0},

    /* The path is known, but not with this method. */
    {"OPTIONS", NULL, options, 0},
    {NULL, NULL, method_not_allowed, 0},
    /* Last row: the path is not known. */
    {NULL, NULL, not_found, 0},
};

enum { ROUTES_N = sizeof(routes) / sizeof(*routes) };

static const struct route *const row_options = &routes[ROUTES_N - 3];
static const struct route *const row_405 = &routes[ROUTES_N - 2];
static const struct route *const row_404 = &routes[ROUTES_N - 1];

/* Compares segment by segment; "{id}" takes one that is not empty. */
static bool path_fits(const char *pattern, const char *path,
                      struct route_match *match)
{
    const char *open = strchr(pattern, '{'), *end;
    size_t head, size;

    if (!open)
        return !strcmp(pattern, path);
    head = (size_t)(open - pattern);
    if (strncmp(pattern, path, head) != 0)
        return false;
    end = strchrnul(path + head, '/');
    size = (size_t)(end - path) - head;
    /* What is too long for an id is not an id: not found, rather than cut. */
    if (!size || size > ROUTE_PARAM_BYTES_MAX ||
        strcmp(strchr(open, '}') + 1, end) != 0)
        return false;
    memcpy(match->param, path + head, size);
    match->param[size] = '\0';
    return true;
}

static void allow(struct route_match *match, const char *method)
{
    size_t used = strlen(match->allow);

    /* The longest list of the table above fits: a test sees to that. */
    strncat(match->allow, method, sizeof(match->allow) - used - 1);
    used = strlen(match->allow);
    strncat(match->allow, ", ", sizeof(match->allow) - used - 1);
}

/*
 * Walks all rows and not just to the first path that fits: a path may have
 * several rows, and all their methods are needed for Allow.
 */
const struct route *route_find(const char *method, const char *path,
                               struct route_match *match)
{
    const struct route *route;
    bool head = !strcmp(method, "HEAD"), known = false;

    match->param[0] = match->allow[0] = '\0';
    for (route = routes; route->pattern; route++) {
        if (!path_fits(route->pattern, path, match))
            continue;
        /* libmicrohttpd leaves the body of a HEAD's reply away itself. */
        if (!strcmp(route->method, head ? "GET" : method))
            return route;
        known = true;
        allow(match, route->method);
        if (!strcmp(route->method, "GET"))
            allow(match, "HEAD");
    }
    if (!known)
        return row_404;
    strncat(match->allow, "OPTIONS",
            sizeof(match->allow) - strlen(match->allow) - 1);
    return strcmp(method, "OPTIONS") == 0 ? row_options : row_405;
}

/* Takes the same time wherever the two differ. */
static bool same_secret(const char *a, const char *b)
{
    size_t a_size = strlen(a), b_size = strlen(b), i;
    unsigned char different = a_size != b_size;

    for (i = 0; i < a_size; i++)
        different |= (unsigned char)(a[i] ^ (b_size ? b[i % b_size] : 0));
    return !different;
}

/*
 * With a token configured, whoever knows it. Without one, this machine only,
 * and not through a proxy: its clients all look as if they were local.
 */
static bool is_admin(const struct request *request)
{
    const char *token = request->app->config->admin_token;
    const char *given;
    size_t n;

    if (!*token)
        return request->loopback &&
               !request_field(request, "X-Forwarded-For", NULL) &&
               !request_field(request, "Forwarded", NULL);
    given = request_field(request, "Authorization", &n);
    return n == 1 && !strncasecmp(given, "Bearer ", 7) &&
           same_secret(given + 7, token);
}

/* Parameters, such as a charset, may follow: JSON has only one anyway. */
static bool is_json(const struct request *request)
{
    const char *type;
    size_t n, size = strlen("application/json");

    type = request_field(request, "Content-Type", &n);
    return n == 1 && !strncasecmp(type, "application/json", size) &&
           (!type[size] || strchr("; \t", type[size]));
}

/*
 * Who may comes before what is sent: an outsider learns nothing from the order
 * in which things are refused.
 */
void route_dispatch(struct request *request)
{
    const struct route *route;

    route = route_find(request->method, request->path, &request->match);
    if ((route->flags & ROUTE_ADMIN) && !is_admin(request))
        reply_problem(request, PROBLEM_FORBIDDEN,
                      *request->app->config->admin_token
                          ? "send Authorization: Bearer with the admin token"
                          : "without an admin token only local clients may");
    else if ((route->flags & ROUTE_JSON) && !is_json(request))
        reply_problem(request, PROBLEM_MEDIA_TYPE,
                      "send Content-Type: application/json");
    else
        route->handle(request);
}
