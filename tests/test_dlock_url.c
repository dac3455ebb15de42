/*
 * Urls of servers: what they mean, which are refused, and that no text has a
 * password in it.
 */
#include "lock/dlock.h"
#include "lock/dlock_url.h"
#include "tests/support/unit_test.h"

UNIT_TEST(test_urls)
{
    static const struct {
        const char *url;
        struct dlock_address at;
    } rows[] = {
        {"unix:/a", {.local = true, .host = "/a"}},
        {"unix:/a@b:c", {.local = true, .host = "/a@b:c"}},
        {"unix:/a?db=15", {.local = true, .host = "/a", .database = 15}},
        {"unix:/a?user=u%26&password=%70%3d=&db=0",
         {.local = true, .host = "/a", .user = "u&", .password = "p=="}},
        {"redis://h:1", {.host = "h", .port = "1"}},
        {"redis://h", {.host = "h", .port = "6379"}},
        {"redis://:p@[::1]/3",
         {.host = "::1", .port = "6379", .password = "p", .database = 3}},
        {"sentinel://a,[::1],c/m", {.primary = "m", .hosts = "a,[::1],c"}},
        {"redis://h:65535/7", {.host = "h", .port = "65535", .database = 7}},
        {"redis://[::1]:6379", {.host = "::1", .port = "6379"}},
        {"redis://u:p@[fe80::1%eth0]:1/2",
         {.host = "fe80::1%eth0",
          .port = "1",
          .user = "u",
          .password = "p",
          .database = 2}},
        {"redis://:p@h:1", {.host = "h", .port = "1", .password = "p"}},
        {"redis://u:@h:1", {.host = "h", .port = "1", .user = "u"}},
        {"redis://u%3A:p@:/%2C%25%26?@h:1",
         {.host = "h", .port = "1", .user = "u:", .password = "p@:/,%&?"}},
        {"sentinel://h:1/m", {.primary = "m", .hosts = "h:1"}},
        {"sentinel://u:p/@h:1,[::1]:2,h:3/m.y-1_a/2",
         {.user = "u",
          .password = "p/",
          .database = 2,
          .primary = "m.y-1_a",
          .hosts = "h:1,[::1]:2,h:3"}},
        {"rediss://h:1", {.host = "h", .port = "1", .tls = true}},
        {"rediss://u:p?@h:1/3?ca=/a%2Cb&cert=/c&key=k",
         {.host = "h",
          .port = "1",
          .user = "u",
          .password = "p?",
          .database = 3,
          .tls = true,
          .ca = "/a,b",
          .cert = "/c",
          .key = "k"}},
        {"sentinels://h:1,h:2/m/4?ca=/a/b",
         {.primary = "m",
          .hosts = "h:1,h:2",
          .database = 4,
          .tls = true,
          .ca = "/a/b"}},
    };
    char list[200];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct dlock_address found;
        const char *rest;

        (void)snprintf(list, sizeof(list), "%s,unix:/b", rows[i].url);
        rest = dlock_url_parse(rows[i].url, &found);
        assert_non_null(rest);
        assert_string_equal(rest, "");
        assert_memory_equal(&found, &rows[i].at, sizeof(found));
        rest = dlock_url_parse(list, &found);
        assert_non_null(rest);
        assert_string_equal(rest, ",unix:/b");
        assert_memory_equal(&found, &rows[i].at, sizeof(found));
    }
}

/* Its hosts have commas between, so it is the last of a list. */
UNIT_TEST(test_cluster_urls)
{
    static const struct {
        const char *url;
        struct dlock_address at;
    } rows[] = {
        {"cluster://h:1", {.cluster = true, .hosts = "h:1"}},
        {"cluster://h,g:1", {.cluster = true, .hosts = "h,g:1"}},
        {"cluster://u:p/@h:1,[::1]:2,h:3",
         {.cluster = true,
          .user = "u",
          .password = "p/",
          .hosts = "h:1,[::1]:2,h:3"}},
        {"clusters://:p?@h:1,h:2/4?ca=/a",
         {.cluster = true,
          .password = "p?",
          .hosts = "h:1,h:2",
          .database = 4,
          .tls = true,
          .ca = "/a"}},
    };
    static const char *const wrong[] = {
        "cluster://",      "cluster://h:",         "cluster://h:1,",
        "cluster://h:1,,", "cluster://h:1,unix:/", "cluster://h:1/x",
        "cluster://[]",    "cluster://h:1?ca=",    "cluster://u@h:1",
        "clusterx://h:1",  "cluster://u:p,x@h:1"};
    struct dlock_address found;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_string_equal(dlock_url_parse(rows[i].url, &found), "");
        assert_memory_equal(&found, &rows[i].at, sizeof(found));
    }
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        assert_null(dlock_url_parse(wrong[i], &found));
}

/* Of all of them no text has "s3cret" in it, whichever lock it is. */
UNIT_TEST(test_wrong_urls_are_not_quoted)
{
    static const char *const urls[] = {
        "s3cret@h:1",
        "u:s3cret@h:1",
        ":s3cret@h:1",
        "redis://u:pa,s3cret@h:1",
        "unix:/a?password=pa,s3cret",
        "redis://s3cret@h:1",
        "redis://u:s3cret@h:",
        "redis://u:s3cret@",
        "redis://u:s3cret%@h:1",
        "redis://u:s3cret%4@h:1",
        "redis://u:s3cret%0g@h:1",
        "redis://u:s3cret%00@h:1",
        "redis://u:s3cret@h:1/x",
        "redis://u:s3cret@h:1/",
        "redis://u:s3cret@h:1/-1",
        "redis://u:s3cret@h:1/9999999999",
        "redis://:@s3cret",
        "redis://u:s3cret%40h:1",
        "redis://u:s3cret,x@h:1",
        "cluster://u:s3cret,x@h:1",
        "unix:?password=s3cret",
        "unix:/a?passwort=s3cret",
        "unix:/a?password=s3cret%",
        "unix:/a?password=s3cret&db=",
        "redis://u:s3cret@h:1?ca=/a",
        "rediss://u:s3cret@h:1?db=1",
        "rediss://u:s3cret@h:1?password=s3cret",
        "redisss://u:s3cret@h:1",
        "redis:u:s3cret@h:1",
        "redis://u:s3cret@h:1,unix:",
        "sentinel://u:s3cret@h:1",
        "sentinel://u:s3cret@h:1/",
        "sentinel://u:s3cret@h:1,/m",
        "sentinel://u:s3cret@h:1,h:/m",
        "sentinel://u:s3cret@h:1/m m",
        "sentinel://u:s3cret@h:1/m/x",
        "sentinel://u:s3cret@a:1,b:1,c:1,d:1,e:1,f:1,g:1,h:1,i:1/m",
    };
    char url[1400];

    for (size_t i = 0; i < COUNT_OF(urls); i++) {
        for (size_t k = 0; dlock_strategy_info(k) != NULL; k++) {
            const struct dlock_strategy_info *info = dlock_strategy_info(k);
            struct dlock_options options = {.strategy = info->name,
                                            .url = urls[i]};
            struct dlock_error error = {""};
            struct dlock *client = NULL;
            enum dlock_status status = dlock_open(&options, &client, &error);

            dlock_close(client);
            assert_null(strstr(error.text, "s3cret"));
            if ((info->capabilities & DLOCK_CAP_REMOTE) == 0)
                continue;
            assert_int_equal(status, DLOCK_MISUSE);
            assert_non_null(strstr(error.text, "url"));
        }
        dlock_url_hide(urls[i], url, sizeof(url));
        assert_null(strstr(url, "s3cret"));
        assert_non_null(strstr(url, "***"));
    }
}

UNIT_TEST(test_longest_login)
{
    struct dlock_address at;

    assert_non_null(
        dlock_url_parse(text_of("redis://%0127d:%0511d@h:1", 0, 0), &at));
    assert_null(
        dlock_url_parse(text_of("redis://%0128d:%0511d@h:1", 0, 0), &at));
    assert_null(
        dlock_url_parse(text_of("redis://%0127d:%0512d@h:1", 0, 0), &at));
}

UNIT_TEST(test_null)
{
    struct dlock_address at;
    char text[] = "x";

    assert_null(dlock_url_parse(NULL, &at));
    assert_null(dlock_url_parse("unix:/a", NULL));
    assert_false(dlock_url_has_login(NULL));
    dlock_url_hide("unix:/a", NULL, 1);
    dlock_url_hide(NULL, text, sizeof(text));
    assert_string_equal(text, "");
}

UNIT_TEST(test_hidden)
{
    static const struct {
        const char *url;
        const char *text;
    } rows[] = {
        {"spawn", "spawn"},
        {"unix:/a@b", "unix:/a@b"},
        {"redis://h:1", "redis://h:1"},
        {"redis://u:p@h:1/2", "redis://u:***@h:1/2"},
        {"redis://:p:@/@h:1", "redis://:***@h:1"},
        {"redis://u:@h:1", "redis://u:@h:1"},
        {"unix:/a?user=u&password=p&db=2", "unix:/a?user=u&password=***"},
        {"unix:/a?password=p,redis://u:p:p@h:1,unix:/c",
         "unix:/a?password=***,redis://u:***@h:1,unix:/c"},
        {"sentinel://u:p@h:1,h:2/m", "sentinel://u:***@h:1,h:2/m"},
        {"rediss://u:p@h:1?ca=/a", "rediss://u:***@h:1?ca=/a"},
        {"sentinels://:p@h:1,h:2/m", "sentinels://:***@h:1,h:2/m"},
        {"sentinels://h:1,h:2/m?ca=/a@b", "sentinels://h:1,h:2/m?ca=/a@b"},
        {"cluster://:p@h:1,h:2", "cluster://:***@h:1,h:2"},
        {"redis://u:p@h:1,redis://h:0,unix:/c", "redis://u:***@h:1,redis:***"},
        {"unix:/a?password=p,word", "unix:/a?password=***,***"},
    };
    char text[100];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        dlock_url_hide(rows[i].url, text, sizeof(text));
        assert_string_equal(text, rows[i].text);
        for (size_t size = 1; size < strlen(rows[i].text); size++) {
            dlock_url_hide(rows[i].url, text, size);
            assert_int_equal(strlen(text), size - 1);
            assert_memory_equal(text, rows[i].text, size - 1);
        }
    }
}
