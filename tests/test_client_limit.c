/* Clients: that their limit holds for threads, who they are, and by which names they
 * may call us. How many orders and connections one may have: e2e/http-connections.t,
 * e2e/http-strangers.t. */
#include <pthread.h>
#include <stdbool.h>

#include "server/http/client_limit.h"
#include "server/http/request.h"
#include "tests/support/unit_test.h"

static const struct in6_addr *from(const char *text)
{
    static struct in6_addr address;

    assert_true(address_parse(text, strlen(text), &address));
    return &address;
}

struct crowd {
    struct client_limit limit;
    struct in6_addr client;
    atomic_int inside;
    bool never_too_many;
};

static void *come_and_go(void *arg)
{
    struct crowd *crowd = arg;

    for (int i = 0; i < 20000; i++) {
        atomic_uint *count = client_limit_enter(&crowd->limit, &crowd->client);

        if (!count)
            continue;
        if (atomic_fetch_add(&crowd->inside, 1) >= 2)
            crowd->never_too_many = false;
        atomic_fetch_sub(&crowd->inside, 1);
        client_limit_leave(count);
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
        assert_int_equal(
            client_limit_enter(&crowd.limit, &crowd.client) != NULL, i < 2);
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
    static struct client_limit limit = {.inflight_max = 2};
    atomic_uint *a, *b;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        a = client_limit_enter(&limit, from(rows[i].a));
        b = client_limit_enter(&limit, from(rows[i].b));
        assert_int_equal(a == b, rows[i].same);
        assert_int_equal(address_is_loopback(from(rows[i].b)), rows[i].local);
        client_limit_leave(a);
        client_limit_leave(b);
    }
}

/* Those of one /16 share some 37 % of the counts of which each could have its own. */
UNIT_TEST(counts_are_spread)
{
    static struct client_limit limit = {.inflight_max = 1};
    char text[32];
    int alone = 0;

    for (int i = 0; i < CLIENT_COUNTS; i++) {
        (void)snprintf(text, sizeof(text), "10.1.%d.%d", i / 256, i % 256);
        alone += client_limit_enter(&limit, from(text)) != NULL;
    }
    assert_in_range(alone, CLIENT_COUNTS / 2, CLIENT_COUNTS);
}

/* A host is ours by a name that was given; http-access.t asks for others from outside. */
UNIT_TEST(our_hosts_are_known)
{
    static const char *const ours[] = {"localhost:8080", "192.0.2.7",
                                       "192.0.2.7:8080", "shop.lan:8080",
                                       "shop.lan:9999"};
    static const char *const others[] = {"", "192.0.2.8",
                                         "shop.lan.evil.example"};

    for (size_t i = 0; i < COUNT_OF(ours); i++)
        assert_true(
            access_is_our_host(ours[i], "shop.lan:8080", "192.0.2.7:8080"));
    for (size_t i = 0; i < COUNT_OF(others); i++)
        assert_false(
            access_is_our_host(others[i], "shop.lan:8080", "192.0.2.7:8080"));
    assert_true(access_is_our_host("[2001:db8::7]:1", "[2001:DB8::7]:0",
                                   "[2001:db8::7]:1"));
}
