/*
 * Addresses and lists of them; and whose a request is that came through proxies:
 * nobody can choose that by writing a header.
 */
#include "server/base/address.h"
#include "server/base/app.h"
#include "server/base/config.h"
#include "server/http/request.h"
#include "tests/support/unit_test.h"

static struct in6_addr parsed(const char *text)
{
    struct in6_addr address;

    if (!address_parse(text, strlen(text), &address))
        fail_msg("\"%s\" is no address", text);
    return address;
}

UNIT_TEST(addresses_are_read)
{
    static const char *const same[][2] = {
        {"10.0.0.7", " 10.0.0.7\t"},     {"10.0.0.7", "10.0.0.7:80"},
        {"10.0.0.7", "::ffff:10.0.0.7"}, {"fd00::7", "[fd00::7]:8080"},
        {"fd00::7", "[fd00:0:0:0::7]"},
    };
    static const char *const wrong[] = {
        "",
        " ",
        "unknown",
        "10.0.0",
        "10.0.0.256",
        "fd00::7::",
        "_hidden",
        "10.0.0.7 10.0.0.8",
        "0000:0000:0000:0000:0000:0000:0000:0000:0000:0"};
    struct in6_addr a, b;

    for (size_t i = 0; i < COUNT_OF(same); i++) {
        a = parsed(same[i][0]);
        b = parsed(same[i][1]);
        assert_memory_equal(&a, &b, sizeof(a));
    }
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        assert_false(address_parse(wrong[i], strlen(wrong[i]), &a));
}

UNIT_TEST(lists_are_read)
{
    static const char *const right[] = {"", "10.0.0.7", "10.0.0.0/8",
                                        "0.0.0.0/0",
                                        "fd00::/8,::1/128,10.0.0.7/32"};
    static const char *const wrong[] = {
        ",",         "10.0.0.7,",   ",10.0.0.7",   "10.0.0.7/33",
        "10.0.0.7/", "::/129",      "10.0.0.7/8x", "10.0.0.7/-1",
        "localhost", "10.0.0.7:80", "10.0.0.7 "};

    for (size_t i = 0; i < COUNT_OF(right); i++)
        assert_true(address_list_valid(right[i]));
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        if (address_list_valid(wrong[i]))
            fail_msg("\"%s\" is no list", wrong[i]);
}

UNIT_TEST(lists_hold_their_networks)
{
    static const struct {
        const char *list, *address;
        bool listed;
    } rows[] = {
        {"", "::", false},
        {"10.0.0.7", "10.0.0.7", true},
        {"10.0.0.7", "10.0.0.6", false},
        {"10.0.0.0/9", "10.127.255.255", true},
        {"10.0.0.0/9", "10.128.0.0", false},
        {"10.0.0.0/9", "::a00:1", false},
        {"0.0.0.0/0", "192.0.2.1", true},
        {"0.0.0.0/0", "fd00::1", false},
        {"::1,fd00::/15", "fd01::5", true},
        {"::1,fd00::/15", "fd02::5", false},
        {"::1,10.0.0.7", "10.0.0.7", true},
    };
    struct in6_addr address;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        address = parsed(rows[i].address);
        assert_int_equal(address_is_listed(rows[i].list, &address),
                         rows[i].listed);
    }
}

/* The proxies are 10.0.0.0/8. */
static const struct {
    const char *peer;
    const char *fields[3]; /* X-Forwarded-For, in this order */
    const char *client;
} forwarded[] = {
    {"192.0.2.1", {NULL}, "192.0.2.1"},
    {"192.0.2.1", {"192.0.2.9"}, "192.0.2.1"},
    {"10.0.0.1", {NULL}, "10.0.0.1"},
    {"10.0.0.1", {"192.0.2.9"}, "192.0.2.9"},
    {"10.0.0.1", {"192.0.2.8, 192.0.2.9"}, "192.0.2.9"},
    {"10.0.0.1", {"192.0.2.8,192.0.2.9, 10.0.0.2"}, "192.0.2.9"},
    {"10.0.0.1", {"192.0.2.8", "192.0.2.9"}, "192.0.2.9"},
    {"10.0.0.1", {"192.0.2.9", "10.0.0.3", "10.0.0.2"}, "192.0.2.9"},
    {"10.0.0.1", {"192.0.2.9, forged"}, "10.0.0.1"},
    {"10.0.0.1", {"192.0.2.9, unknown, 10.0.0.2"}, "10.0.0.2"},
    {"10.0.0.1", {"192.0.2.9,"}, "10.0.0.1"},
    {"10.0.0.1", {""}, "10.0.0.1"},
    {"10.0.0.1", {"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
    {"10.0.0.1", {"[2001:db8::1]:4711"}, "2001:db8::1"},
};

UNIT_TEST(forwarded_requests_have_their_client)
{
    static const struct config config = {.trusted_proxy = "10.0.0.0/8"};
    static const struct app app = {.config = &config};
    static struct request request = {.app = &app};
    struct in6_addr client, expected;

    for (size_t i = 0; i < COUNT_OF(forwarded); i++) {
        const char *const *fields = forwarded[i].fields;

        request.peer = parsed(forwarded[i].peer);
        request.head.fields[0] = (struct check_field){"Host", "h", 4, 1, 0};
        request.head.fields_n = 1;
        for (size_t k = 0; k < 3 && fields[k]; k++)
            request.head.fields[request.head.fields_n++] = (struct check_field){
                "x-forwarded-for", fields[k], 15, strlen(fields[k]), 0};
        client = access_client(&request);
        expected = parsed(forwarded[i].client);
        if (memcmp(&client, &expected, sizeof(client)) != 0)
            fail_msg("row %zu is not of %s", i, forwarded[i].client);
    }
}
