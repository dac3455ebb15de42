/*
 * /api/products: what is on sale, for everybody; what shall be on sale, for
 * the administrator. All of it are errands in the pool.
 */
#include "server/http/res.h"

#include <string.h>

#include "server/app.h"
#include "server/config.h"
#include "server/http/parse.h"
#include "server/http/render.h"
#include "server/http/reply.h"
#include "server/http/request.h"
#include "server/warm/warm.h"

/*
 * A page of a list. With names of 100 bytes the largest is about 60 KiB of
 * JSON.
 */
#define LIST_LIMIT_DEFAULT 50
#define LIST_LIMIT_MAX     200

/* What a handler found out and its errand needs. */
struct wish {
    struct store_product product;
    bool has_stock;
    int64_t quantity; /* to restock */
    char key[STORE_KEY_BYTES_MAX + 1];
    int64_t after, limit; /* of a list */
};

/* The wish, hung on the request; NULL, and a reply, if there is no memory. */
static struct wish *wish_new(struct request *request)
{
    struct wish *wish = request_alloc(request, sizeof(*wish));

    request->scratch = wish;
    if (wish)
        memset(wish, 0, sizeof(*wish));
    else
        reply_problem(request, PROBLEM_OVERLOADED, "out of memory");
    return wish;
}

/* The id in the path. What is no number is no product's id either. */
static bool read_id(struct request *request, int64_t *id)
{
    if (parse_number(request->match.param, id))
        return true;
    reply_problem(request, PROBLEM_NO_PRODUCT, "product ids are numbers");
    return false;
}

/*
 * The strategy is the server's, not the product's; the page shows it all the
 * same.
 */
static void reply_product(struct request *request, unsigned status,
                          const struct store_product *product)
{
    reply_json_take(request, status,
                    render_product(product, request->app->config->lock));
}

/* ---- GET /api/products -------------------------------------------------- */

static void list_run(struct request *request, struct store_reader *reader)
{
    static const char no_memory[] = "out of memory";
    const struct wish *wish = request->scratch;
    size_t room = (size_t)wish->limit + 1, n = 0;
    struct store_product *products;
    struct store_error error = {0};
    enum store_status status;
    int64_t next = 0;

    products = request_alloc(request, room * sizeof(*products));
    if (!products) {
        reply_problem(request, PROBLEM_OVERLOADED, no_memory);
        return;
    }
    /* One more than asked for tells whether there is another page. */
    status =
        store_product_list(reader, wish->after, room, products, &n, &error);
    if (status != STORE_OK) {
        reply_status(request, status, &error);
        return;
    }
    /* The one too many is not shown: it begins the next page. */
    if (n == room)
        next = products[--n - 1].id;
    reply_json_take(
        request, 200,
        render_products(products, n, request->app->config->lock, next));
}

/* A number in the query: absent leaves it alone. */
static bool read_query(const struct request *request, const char *name,
                       int64_t *number)
{
    char text[24];

    switch (request_query(request, name, text, sizeof(text))) {
    case TARGET_ABSENT:
        return true;
    case TARGET_FOUND:
        return parse_number(text, number);
    case TARGET_BAD:
        break;
    }
    return false;
}

/* Out of range is refused and not clipped: the client would miss the rest. */
void res_products_list(struct request *request)
{
    struct wish *wish = wish_new(request);

    if (!wish)
        return;
    wish->limit = LIST_LIMIT_DEFAULT;
    if (!read_query(request, "after", &wish->after) ||
        !read_query(request, "limit", &wish->limit) ||
        wish->limit > LIST_LIMIT_MAX)
        reply_problem(request, PROBLEM_BAD_TARGET,
                      "after is a product id, limit is 1 to %d",
                      LIST_LIMIT_MAX);
    else
        request_errand(request, list_run);
}

/* ---- GET /api/products/{id} --------------------------------------------- */

/* One product, by the number in its path, with its cells. */
static void get_run(struct request *request, struct store_reader *reader)
{
    const struct wish *wish = request->scratch;
    struct store_product product = {0};
    struct store_error error = {0};
    struct store_cells cells;
    enum store_status status;

    status =
        store_product_cells(reader, wish->product.id, &product, &cells, &error);
    if (status == STORE_OK)
        reply_json_take(
            request, 200,
            render_product_cells(&product, &cells, request->app->config->lock));
    else
        reply_status(request, status, &error);
}

void res_products_get(struct request *request)
{
    struct wish *wish = wish_new(request);

    if (wish && read_id(request, &wish->product.id))
        request_errand(request, get_run);
}

/* ---- PUT /api/products/{id} --------------------------------------------- */

/*
 * A product's units are put on sale once, with the product, and then only
 * added to. A put without "stock" leaves them as they are.
 */
static bool fill_stock(struct request *request, struct store_reader *reader,
                       struct wish *wish)
{
    struct parse_error missing = {PROBLEM_FIELDS,
                                  "stock: a new product needs it",
                                  {{"stock", "is missing"}},
                                  1};
    struct store_product old = {0};
    struct store_error error = {0};
    enum store_status status;

    if (wish->has_stock)
        return true;
    status = store_product_get(reader, wish->product.id, &old, &error);
    wish->product.initial = old.initial;
    if (status == STORE_OK)
        return true;
    if (status == STORE_NO_PRODUCT)
        reply_faults(request, &missing);
    else
        reply_status(request, status, &error);
    return false;
}

/*
 * The store decides between "created" and "changed" in the transaction itself;
 * two puts at once cannot both be the first.
 */
static void put_run(struct request *request, struct store_reader *reader)
{
    struct wish *wish = request->scratch;
    struct store_error error = {0};
    enum store_status status;
    bool created = false;

    if (!fill_stock(request, reader, wish))
        return;
    status = store_product_put(request->app->store, &wish->product, &created,
                               &error);
    if (status != STORE_OK) {
        reply_status(request, status, &error);
        return;
    }
    warm_moved(request->app->warm, wish->product.id);
    if (created)
        request_header(request, "Location", request->path);
    reply_product(request, created ? 201 : 200, &wish->product);
}

/* The path says which product it is; there is no id in the body to disagree. */
void res_products_put(struct request *request)
{
    struct wish *wish = wish_new(request);
    struct parse_error error;

    if (!wish || !read_id(request, &wish->product.id))
        return;
    if (parse_product(request->body, request->body_size, &wish->product,
                      &wish->has_stock, &error))
        request_errand(request, put_run);
    else
        reply_faults(request, &error);
}

/* ---- POST /api/products/{id}/restock ------------------------------------ */

/* Adds, and never sets: two restocks at once are the sum of both. */
static void restock_run(struct request *request, struct store_reader *reader)
{
    struct wish *wish = request->scratch;
    struct store_error error = {0};
    enum store_status status;

    (void)reader; /* a write: it goes to the committer */
    status = store_restock(request->app->store, wish->product.id,
                           wish->quantity, wish->key, &wish->product, &error);
    if (status != STORE_OK) {
        reply_status(request, status, &error);
        return;
    }
    warm_moved(request->app->warm, wish->product.id);
    reply_product(request, 200, &wish->product);
}

/*
 * A repeated restock would be a gift to the customers and a debt to the store:
 * so the key is honoured here as it is for orders.
 */
void res_products_restock(struct request *request)
{
    struct wish *wish = wish_new(request);
    struct parse_error error;

    if (!wish || !read_id(request, &wish->product.id) ||
        !request_key(request, wish->key))
        return;
    if (parse_restock(request->body, request->body_size, &wish->quantity,
                      &error))
        request_errand(request, restock_run);
    else
        reply_faults(request, &error);
}

/* ---- POST /api/products/{id}/warmup ------------------------------------- */

/* 200 also where Redis is away: the reply says so, and the keys follow. */
static void warmup_run(struct request *request, struct store_reader *reader)
{
    int64_t id = ((const struct wish *)request->scratch)->product.id;
    struct store_error error = {0};
    struct store_cells cells;
    enum store_status status;
    bool in_redis;

    (void)reader; /* the warmer has its own */
    status = warm_up(request->app->warm, id, &cells, &in_redis, &error);
    if (status == STORE_OK)
        reply_json_take(request, 200, render_warmup(id, &cells, in_redis));
    else
        reply_status(request, status, &error);
}

void res_products_warmup(struct request *request)
{
    struct wish *wish = wish_new(request);

    if (wish && read_id(request, &wish->product.id))
        request_errand(request, warmup_run);
}
