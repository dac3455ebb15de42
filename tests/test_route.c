/*
 * Targets and the table of contents: what a path means. What is refused, and which
 * methods are allowed, http-bad-input.t asks from outside.
 */
#include <string.h>

#include "server/http/route.h"
#include "tests/support/unit_test.h"

static char path[256];
static const char *query;

static const char *split(const char *target)
{
    return target_split(target, strlen(target), path, &query);
}

static void targets_are_split_and_decoded(NO_STATE)
{
    assert_null(split("/api/orders?key=a%20b"));
    assert_string_equal(path, "/api/orders");
    assert_string_equal(query, "key=a%20b");
    assert_null(split("/%61pi/x%C3%A4"));
    assert_string_equal(path, "/api/x\xc3\xa4");
    assert_string_equal(query, "");
    assert_null(split("http://host:80/livez?x"));
    assert_string_equal(path, "/livez");
    assert_null(split("/a..b/..c/..."));
}

static void queries_are_decoded(NO_STATE)
{
    static const struct {
        const char *query;
        enum target_found found;
        const char *value;
    } rows[] = {
        {"a=1&key=x%26y", TARGET_FOUND, "x&y"},
        {"key=a+b", TARGET_FOUND, "a b"},
        {"key=1234567", TARGET_FOUND, "1234567"},
        {"", TARGET_ABSENT, ""},
        {"keys=1&xkey=2&key", TARGET_ABSENT, ""},
        {"key=12345678", TARGET_BAD, ""},
        {"key=%", TARGET_BAD, ""},
        {"key=%1&x=2", TARGET_BAD, ""},
        {"key=%00", TARGET_BAD, ""},
        {"key=1&key=1", TARGET_BAD, ""},
    };
    char value[8];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        strcpy(value, "");
        assert_int_equal(target_query(rows[i].query, "key", value, 8),
                         rows[i].found);
        if (rows[i].found == TARGET_FOUND)
            assert_string_equal(value, rows[i].value);
    }
}

static struct request_match match;

static const struct route *row_of(const char *method, const char *where)
{
    return route_find(method, where, &match);
}

static void paths_find_their_handler(NO_STATE)
{
    static const struct {
        const char *method, *path;
        request_answer *handle;
        request_run *run;
        unsigned flags;
        const char *param;
    } rows[] = {
        {"POST", "/api/orders", handle_orders_post, NULL, ROUTE_JSON, ""},
        {"GET", "/api/orders", handle_orders_find, NULL, ROUTE_ASKED, ""},
        {"GET", "/api/orders/7-a", NULL, handle_orders_get, ROUTE_ASKED, "7-a"},
        {"HEAD", "/api/orders/7-a", NULL, handle_orders_get, ROUTE_ASKED,
         "7-a"},
        {"DELETE", "/api/orders/7-a", handle_orders_cancel, NULL, ROUTE_ASKED,
         "7-a"},
        {"GET", "/api/products", handle_products_list, NULL, ROUTE_ASKED, ""},
        {"PUT", "/api/products/5", handle_products_change, NULL,
         ROUTE_JSON | ROUTE_ADMIN | ROUTE_PRODUCT, "5"},
        {"PATCH", "/api/products/5", handle_products_change, NULL,
         ROUTE_PATCH | ROUTE_ADMIN | ROUTE_PRODUCT, "5"},
        {"POST", "/api/products/5/restock", handle_products_restock, NULL,
         ROUTE_JSON | ROUTE_ADMIN | ROUTE_PRODUCT, "5"},
        {"POST", "/api/products/5/warmup", NULL, handle_products_look,
         ROUTE_JSON | ROUTE_ADMIN | ROUTE_PRODUCT, "5"},
        {"GET", "/healthz", handle_operations_readyz, NULL, 0, ""},
        {"GET", "/", handle_files_get, NULL, 0, ""},
    };
    const struct route *route;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        route = row_of(rows[i].method, rows[i].path);
        assert_ptr_equal(route->handle, rows[i].handle);
        assert_ptr_equal(route->run, rows[i].run);
        assert_int_equal(route->flags, rows[i].flags);
        assert_string_equal(match.param, rows[i].param);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(targets_are_split_and_decoded),
    cmocka_unit_test(queries_are_decoded),
    cmocka_unit_test(paths_find_their_handler),
};

TEST_MAIN(tests)
