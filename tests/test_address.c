/*
 * Addresses and lists of them; whose a request is that came through proxies: nobody
 * can choose that by writing a header; that a client's limit holds for threads; and by
 * which names we may be called. How many orders and connections a client may have:
 * e2e/http-connections.t, e2e/http-strangers.t.
 */
#include <pthread.h>

#include "server/base/app.h"
#include "server/base/config.h"
#include "server/http/request.h"
#include "tests/support/unit_test.h"

static struct in6_addr parsed(const char *text)
{
    struct in6_addr address;

    if (!address_parse(text, &address))
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
        "7",
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
        assert_false(address_parse(wrong[i], &a));
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

struct crowd {
    struct access_limit limit;
    struct in6_addr client;
    atomic_int inside;
    bool never_too_many;
};

static void *come_and_go(void *arg)
{
    struct crowd *crowd = arg;

    for (int i = 0; i < 20000; i++) {
        atomic_uint *count = access_enter(&crowd->limit, &crowd->client);

        if (!count)
            continue;
        if (atomic_fetch_add(&crowd->inside, 1) >= 2)
            crowd->never_too_many = false;
        atomic_fetch_sub(&crowd->inside, 1);
        atomic_fetch_sub(count, 1);
    }
    return NULL;
}

UNIT_TEST(a_limit_holds_for_threads)
{
    static struct crowd crowd = {.limit = {.inflight_max = 2},
                                 .never_too_many = true};
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, &crowd),
                         0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_true(crowd.never_too_many);
    /* Nobody was counted who has not left. */
    for (int i = 0; i < 3; i++)
        assert_int_equal(access_enter(&crowd.limit, &crowd.client) != NULL,
                         i < 2);
}

UNIT_TEST(peers_are_told_apart)
{
    static const struct {
        const char *a, *b;
        bool same, local; /* b */
    } rows[] = {
        {"10.1.2.3", "::ffff:10.1.2.3", true, false},
        {"10.1.2.3", "10.1.2.4", false, false},
        {"2001:db8::1", "2001:db8::2", true, false},
        {"2001:db8::1", "2001:db8:0:1::1", false, false},
        {"10.1.2.3", "127.0.0.2", false, true},
        {"127.0.0.1", "::ffff:127.0.0.1", true, true},
        {"127.0.0.1", "::1", false, true},
        {"127.0.0.1", "::ffff:128.0.0.1", false, false},
    };
    static struct access_limit limit = {.inflight_max = 100};
    struct in6_addr a, b;
    atomic_uint *count;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        a = parsed(rows[i].a);
        b = parsed(rows[i].b);
        count = access_enter(&limit, &a);
        assert_int_equal(count == access_enter(&limit, &b), rows[i].same);
        assert_int_equal(address_is_loopback(&b), rows[i].local);
    }
}

/* By chance as many addresses as there are counts take 63 % of them. */
UNIT_TEST(counts_are_spread)
{
    static struct access_limit limit = {.inflight_max = 1};
    struct in6_addr address;
    int alone = 0;

    for (int i = 0; i < ACCESS_COUNTS; i++) {
        address = parsed(text_of("10.1.%d.%d", i / 256, i % 256));
        alone += access_enter(&limit, &address) != NULL;
    }
    assert_in_range(alone, ACCESS_COUNTS / 2, ACCESS_COUNTS);
}

/* A host is ours by a name that was given; http-access.t asks for others from outside. */
UNIT_TEST(our_hosts_are_known)
{
    static const char *const ours[] = {"localhost:8080", "192.0.2.7",
                                       "192.0.2.7:8080", "shop.lan:8080",
                                       "shop.lan:9999"};
    static const char *const others[] = {
        "", "192.0.2.8", "127.0.0.1,evil.example", "shop.lan.evil.example"};

    for (size_t i = 0; i < COUNT_OF(ours); i++)
        assert_true(
            access_is_our_host(ours[i], "shop.lan:8080", "192.0.2.7:8080"));
    for (size_t i = 0; i < COUNT_OF(others); i++)
        assert_false(
            access_is_our_host(others[i], "shop.lan:8080", "192.0.2.7:8080"));
    assert_true(access_is_our_host("[2001:db8::7]:1", "[2001:DB8::7]:0",
                                   "[2001:db8::7]:1"));
}
