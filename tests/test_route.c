/* Targets and the table of contents: what a path means, and what it does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "server/http/res.h"
#include "server/http/route.h"
#include "server/http/target.h"

static char path[256];
static const char *query;

static const char *split(const char *target)
{
    return target_split(target, strlen(target), path, &query);
}

static void targets_are_split_and_decoded(void **state)
{
    (void)state;
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

static void ambiguous_targets_are_refused(void **state)
{
    static const char *const bad[] = {
        "",      "livez", "*",     "/%",       "/%4",        "/%g0",
        "/%00",  "/%1f",  "/%7F",  "/a%2fb",   "/a%2Fb",     "/a\\b",
        "/%5c",  "/..",   "/../x", "/x/..",    "/x/./y",     "/%2e%2e/x",
        "/.%2e", "/.",    "/a#b",  "http://h", "http://h?x",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_non_null(split(bad[i]));
}

static void queries_are_decoded(void **state)
{
    char value[8];

    (void)state;
    assert_int_equal(target_query("a=1&key=x%26y", "key", value, 8),
                     TARGET_FOUND);
    assert_string_equal(value, "x&y");
    assert_int_equal(target_query("key=a+b", "key", value, 8), TARGET_FOUND);
    assert_string_equal(value, "a b");
    assert_int_equal(target_query("", "key", value, 8), TARGET_ABSENT);
    assert_int_equal(target_query("keys=1&xkey=2&key", "key", value, 8),
                     TARGET_ABSENT);
    assert_int_equal(target_query("key=1234567", "key", value, 8),
                     TARGET_FOUND);
    assert_int_equal(target_query("key=12345678", "key", value, 8), TARGET_BAD);
    assert_int_equal(target_query("key=%", "key", value, 8), TARGET_BAD);
    assert_int_equal(target_query("key=%1&x=2", "key", value, 8), TARGET_BAD);
    assert_int_equal(target_query("key=%00", "key", value, 8), TARGET_BAD);
    assert_int_equal(target_query("key=1&key=1", "key", value, 8), TARGET_BAD);
}

static struct route_match match;

static void expect(const char *method, const char *where,
                   void (*handle)(struct request *))
{
    assert_ptr_equal(route_find(method, where, &match)->handle, handle);
}

static const struct route *row_of(const char *method, const char *where)
{
    return route_find(method, where, &match);
}

static void paths_find_their_handler(void **state)
{
    (void)state;
    expect("POST", "/api/orders", res_orders_post);
    expect("GET", "/api/orders", res_orders_find);
    expect("GET", "/api/orders/7-a", res_orders_get);
    assert_string_equal(match.param, "7-a");
    expect("HEAD", "/api/orders/7-a", res_orders_get);
    expect("DELETE", "/api/orders/7-a", res_orders_cancel);
    expect("GET", "/api/products", res_products_list);
    expect("PUT", "/api/products/5", res_products_put);
    assert_int_equal(route_find("PUT", "/api/products/5", &match)->flags,
                     ROUTE_JSON | ROUTE_ADMIN);
    expect("POST", "/api/products/5/restock", res_products_restock);
    assert_string_equal(match.param, "5");
    expect("POST", "/api/products/5/warmup", res_products_warmup);
    assert_int_equal(row_of("POST", "/api/products/5/warmup")->flags,
                     ROUTE_ADMIN);
    expect("GET", "/healthz", res_ops_readyz);
    expect("GET", "/", res_static_get);
}

static void other_paths_are_not_found(void **state)
{
    static const char *const bad[] = {
        "/nope",
        "/api",
        "/api/orders/",
        "/api/orders/1/",
        "/livez/",
        "//",
        "/api/products//restock",
        "/api/products/1/restock/",
        "/API/orders",
        "",
        "/api/products/1/restocks",
    };
    const struct route *last = row_of("GET", "/nope");
    char longest[128] = "/api/orders/";

    (void)state;
    assert_null(last->method);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_ptr_equal(row_of("GET", bad[i]), last);
    memset(longest + strlen(longest), 'x', ROUTE_PARAM_BYTES_MAX);
    assert_ptr_not_equal(row_of("GET", longest), last);
    longest[strlen(longest)] = 'x';
    assert_ptr_equal(row_of("GET", longest), last);
    assert_ptr_equal(row_of("OPTIONS", "/nope"), last);
}

static void other_methods_hear_what_is_allowed(void **state)
{
    const struct route *no = row_of("PATCH", "/api/orders");

    (void)state;
    assert_string_equal(match.allow, "POST, GET, HEAD, OPTIONS");
    assert_ptr_not_equal(no, row_of("GET", "/nope"));
    assert_ptr_equal(no, row_of("HEAD", "/api/products/1/restock"));
    assert_string_equal(match.allow, "POST, OPTIONS");
    assert_ptr_equal(no, row_of("POST", "/api/orders/1"));
    assert_string_equal(match.allow, "GET, HEAD, DELETE, OPTIONS");
    assert_ptr_equal(no, row_of("get", "/livez"));
    assert_string_equal(row_of("OPTIONS", "/livez")->method, "OPTIONS");
    assert_string_equal(match.allow, "GET, HEAD, OPTIONS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(targets_are_split_and_decoded),
        cmocka_unit_test(ambiguous_targets_are_refused),
        cmocka_unit_test(queries_are_decoded),
        cmocka_unit_test(paths_find_their_handler),
        cmocka_unit_test(other_paths_are_not_found),
        cmocka_unit_test(other_methods_hear_what_is_allowed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
