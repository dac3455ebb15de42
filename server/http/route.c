/*
 * The table of contents of the HTTP interface, and the way from a request to
 * its row. The table is short, so it is searched from the top; nothing registers
 * itself anywhere else.
 */
#include "server/http/route.h"

#include <string.h>
#include <strings.h>

#include "server/base/app.h"
#include "server/base/metrics.h"
#include "server/http/reply.h"

#define ROUTE_PATCH_TYPE "application/merge-patch+json"

/* Flags must hold before a handler is called: a handler would forget one some day. A row
 * without any is answered while the service waits for its database, too: its handler must
 * not look at the parts. */
enum route_flags {
    ROUTE_JSON = 1 << 0,    /* Content-Type has to be application/json */
    ROUTE_PATCH = 1 << 1,   /* or application/merge-patch+json */
    ROUTE_ADMIN = 1 << 2,   /* for the administrator only */
    ROUTE_PRODUCT = 1 << 3, /* the id is a product's, and so a number */
    ROUTE_ASKED = 1 << 4,   /* an order service asks an inventory service */
    ROUTE_STORE = 1 << 5,   /* where the database is: not at an order service */
};

struct route {
    const char *method;
    const char *pattern; /* "{id}": one part of the path; "": a file */
    request_answer *handle;
    unsigned flags;   /* of enum route_flags */
    request_run *run; /* instead of handle: as a task */
};

/* Two handlers of no resource. Each has a row, so that finding one never fails. */
static void method_not_allowed(struct request *request)
{
    request_header(request, "Allow", request->match.allow);
    reply_problem(request, PROBLEM_METHOD, "allowed here: %s",
                  request->match.allow);
}

static void not_found(struct request *request)
{
    reply_problem(request, PROBLEM_NOT_FOUND,
                  "the interface is described at /openapi.json");
}

/* The order matters only where a path has several methods: it is Allow's order. */
static const struct route routes[] = {
    {"POST", "/api/orders", handle_orders_post, ROUTE_JSON, NULL},
    {"GET", "/api/orders", handle_orders_find, ROUTE_ASKED, NULL},
    {"GET", "/api/orders/{id}", NULL, ROUTE_ASKED, handle_orders_get},
    {"DELETE", "/api/orders/{id}", handle_orders_cancel, ROUTE_ASKED, NULL},
    {"GET", "/api/orders.csv", handle_orders_export, ROUTE_ADMIN, NULL},
    {"POST", "/api/orders/{id}/pay", handle_orders_pay,
     ROUTE_JSON | ROUTE_ASKED, NULL},
    {"GET", "/api/products", handle_products_list, ROUTE_ASKED, NULL},
    {"GET", "/api/products/{id}", NULL, ROUTE_PRODUCT | ROUTE_ASKED,
     handle_products_look},
    {"PUT", "/api/products/{id}", handle_products_change,
     ROUTE_JSON | ROUTE_ADMIN | ROUTE_PRODUCT, NULL},
    {"PATCH", "/api/products/{id}", handle_products_change,
     ROUTE_PATCH | ROUTE_ADMIN | ROUTE_PRODUCT, NULL},
    {"POST", "/api/products/{id}/restock", handle_products_restock,
     ROUTE_JSON | ROUTE_ADMIN | ROUTE_PRODUCT, NULL},
    {"POST", "/api/products/{id}/warmup", NULL,
     ROUTE_JSON | ROUTE_ADMIN | ROUTE_PRODUCT, handle_products_look},
    {"GET", "/api/events", handle_products_watch, ROUTE_STORE, NULL},
    {"GET", "/api/audit", NULL, ROUTE_ADMIN, handle_operations_audit},
    {"GET", "/livez", handle_operations_livez, 0, NULL},
    {"GET", "/readyz", handle_operations_readyz, 0, NULL},
    {"GET", "/healthz", handle_operations_readyz, 0, NULL},
    {"GET", "/metrics", handle_operations_metrics, 0, NULL},
    {"GET", "", handle_files_get, 0, NULL}, /* of each file */
    {NULL, NULL, not_found, 0, NULL},
};

static const struct route row_405 = {NULL, NULL, method_not_allowed, 0, NULL};

/* "{id}" takes a part that is not empty, up to the next slash. */
static bool path_fits(const char *pattern, const char *path,
                      struct request_match *match)
{
    const char *open = strchr(pattern, '{'), *end;
    size_t head, size;

    if (!*pattern)
        return handle_files_find(path);
    if (!open)
        return !strcmp(pattern, path);
    head = (size_t)(open - pattern);
    if (strncmp(pattern, path, head) != 0)
        return false;
    end = strchrnul(path + head, '/');
    size = (size_t)(end - path) - head;
    /* A part that is too long is not found, because a cut one may be another's id. */
    if (!size || size > REQUEST_PARAM_BYTES_MAX ||
        strcmp(strchr(open, '}') + 1, end) != 0)
        return false;
    memcpy(match->param, path + head, size);
    match->param[size] = '\0';
    return true;
}

/* Walks all rows and not just to the first path that fits: a path may have several
 * rows, and all their methods are needed for Allow. */
static const struct route *find(const char *method, const char *path,
                                struct request_match *match)
{
    const struct route *route;
    bool head = !strcmp(method, "HEAD");
    char *end = match->allow; /* a test sees to it that the longest list fits */

    match->param[0] = match->allow[0] = '\0';
    for (route = routes; route->pattern; route++) {
        if (!path_fits(route->pattern, path, match))
            continue;
        /* libmicrohttpd leaves the body of a HEAD's reply away itself. */
        if (!strcmp(route->method, head ? "GET" : method))
            return route;
        end = stpcpy(stpcpy(end, route->method), ", ");
        if (!strcmp(route->method, "GET"))
            end = stpcpy(end, "HEAD, ");
    }
    if (end == match->allow)
        return route; /* the last */
    end[-2] = '\0';   /* the last comma */
    return &row_405;
}

/* Parameters, such as a charset, may follow: JSON has only one anyway. */
static bool is_of_type(const char *given, const char *type)
{
    size_t size = strlen(type);

    return strncasecmp(given, type, size) == 0 &&
           (!given[size] || strchr("; \t", given[size]));
}

static bool has_right_type(const struct request *request, unsigned flags)
{
    size_t n;
    const char *given = request_field(request, "Content-Type", &n);

    return n == 1 &&
           (is_of_type(given, "application/json") ||
            ((flags & ROUTE_PATCH) && is_of_type(given, ROUTE_PATCH_TYPE)));
}

static void refuse_without_store(struct request *request,
                                 const struct route *route)
{
    struct metrics *metrics = request->app->metrics;

    if (route->handle == handle_orders_post)
        /* The counts are those that the store would have raised: an outage
         * before the first opening must show in the same graphs. */
        metrics_order(metrics, ORDER_STORE_UNAVAILABLE);
    else if (route->handle && !request->is_read)
        metrics_count(metrics, METRICS_CHANGES_FAILED, 1);
    reply_problem(request, PROBLEM_STORE_UNAVAILABLE,
                  "the service waits for its database: see /readyz; "
                  "nothing was done now");
}

/* Rights are checked before what was sent: from the order of the checks an outsider
 * learns nothing. */
void route_dispatch(struct request *request, const char *method)
{
    const struct check_verdict *verdict = &request->verdict;
    const char *tag = request_field(request, "If-Match", NULL);
    const struct route *route;
    const char *wrong;

    /* The head was judged before: nothing of what it says may be used now, its
     * method and target included. */
    if (verdict->problem != PROBLEM_NONE) {
        reply_problem(request, verdict->problem, "%s", verdict->detail);
        return;
    }
    wrong = target_split(request->head.target, request->head.target_size,
                         (char *)request->path, &request->query);
    if (wrong) {
        reply_problem(request, PROBLEM_BAD_TARGET, "%s", wrong);
        return;
    }
    /* The Host is looked at before the path, because a page that came by DNS
     * rebinding must not even read. */
    if (access_is_misdirected(request)) {
        reply_problem(request, PROBLEM_MISDIRECTED,
                      "this is %s; other names, a proxy's too, are for servers "
                      "with an admin token",
                      request->loop->group->address);
        return;
    }
    route = find(method, request->path, &request->match);
    request->method = route->method;
    if (route->flags && !atomic_load(&request->app->is_open))
        refuse_without_store(request, route);
    else if ((route->flags & ROUTE_STORE) && request->app->inventory)
        reply_problem(request, PROBLEM_NOT_FOUND,
                      "not at an order service: ask for /api/products");
    else if ((route->flags & ROUTE_ADMIN) && request->app->inventory)
        reply_problem(request, PROBLEM_FORBIDDEN,
                      "not at an order service: ask an inventory service");
    else if ((route->flags & ROUTE_ADMIN) && !access_is_admin(request))
        reply_problem(request, PROBLEM_FORBIDDEN,
                      access_has_token()
                          ? "send Authorization: Bearer with the admin token; "
                            "none came, or another one"
                          : "without an admin token only local clients may, "
                            "and pages of this server");
    /* The type is asked for before the body is parsed: of this type a page of
     * another site may send none without a question to us first. */
    else if ((route->flags & (ROUTE_JSON | ROUTE_PATCH)) &&
             !has_right_type(request, route->flags))
        reply_problem(request, PROBLEM_MEDIA_TYPE, "send Content-Type: %s",
                      route->flags & ROUTE_PATCH ? ROUTE_PATCH_TYPE
                                                 : "application/json");
    else if ((route->flags & ROUTE_PRODUCT) &&
             !parse_number(request->match.param, &request->match.product_id))
        reply_problem(request, PROBLEM_NO_PRODUCT, "product ids are numbers");
    /* Only a file has a tag, which a change cannot name: "*" is all that can hold (RFC
     * 9110, 13.1.1). */
    else if (route->flags && !request->is_read && tag && strcmp(tag, "*") != 0)
        reply_problem(request, PROBLEM_CONDITION,
                      "nothing here has a tag: leave If-Match out");
    /* An order service forwards only what has passed all checks here, so that
     * an inventory service hears nothing malformed. */
    else if ((route->flags & ROUTE_ASKED) && request->app->inventory)
        handle_inventory_other(request);
    else if (route->run)
        suspend_for_task(request, route->run);
    else
        route->handle(request);
}

bool route_key(struct request *request, char *key)
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

bool route_body(struct request *request, enum parse_document document,
                void *out, unsigned *given)
{
    struct parse_error error;

    if (parse_body(document, request->body, request->body_size, out, given,
                   &error))
        return true;
    reply_faults(request, &error);
    return false;
}

/* A number of the query, which is left alone if it is not there. False: it is none. */
static bool read_number(const struct request *request, const char *name,
                        int64_t *number)
{
    char text[24];
    enum target_found found =
        target_query(request->query, name, text, sizeof(text));

    return found == TARGET_ABSENT ||
           (found == TARGET_FOUND && parse_number(text, number));
}

/* A limit out of range is refused and not clipped: the client would miss the rest. */
bool route_page(struct request *request, int limit, int limit_max,
                const char *after)
{
    request->page.limit = limit;
    if (read_number(request, "after", &request->page.after) &&
        read_number(request, "limit", &request->page.limit) &&
        request->page.limit <= limit_max)
        return true;
    reply_problem(request, PROBLEM_BAD_TARGET, "after is %s, limit is 1 to %d",
                  after, limit_max);
    return false;
}
