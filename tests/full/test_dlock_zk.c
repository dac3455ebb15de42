/*
 * zk and zk-fair against a real ZooKeeper: lost replies, lost data, and a server that
 * goes. Those that wait are in test_dlock_zk_wait.c, sessions that expire in
 * test_dlock_zk_loss.c; that holders exclude each other, die and are stopped, and that
 * an ensemble loses its leader or a follower, in conform-all.t (X2, C, P, W, M and M2).
 */
#include "tests/support/fake_resolver.h"
#include "tests/support/lock_rig.h"
#include "tests/support/lock_story.h"
#include "tests/support/zookeeper_server.h"

enum {
    SESSION_MS = 9000, /* nobody loses one because the machine is busy */
    LONG_MS = 20000,   /* longer than anything here takes */
};

static int set_up(NO_STATE)
{
    return zookeeper_server_set_up(SESSION_MS, 5000);
}

static void test_odd_names(void **state)
{
    struct lock_single holder = lock_single_open(*state);
    static const char *const odd[] = {"a/b", "a%2Fb", ".",        "..",
                                      "/",   "a b",   "zookeeper"};
    char longest[DLOCK_NAME_BYTES_MAX + 1];

    memset(longest, '/', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    for (size_t j = 0; j < COUNT_OF(odd); j++)
        assert_ok(
            lock_rig_take(holder.session, odd[j], LONG_MS, 0, &holder.grant));
    assert_ok(lock_rig_take(holder.session, longest, 0, 0, &holder.grant));
    assert_ok(lock_single_give(&holder));
}

/* A session that has found no server yet finds it where it is now. A resolver that
 * hangs takes no longer than a connection may. */
static void test_name_in_url(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(1),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};
    struct lock_single holder;

    fake_resolver_begin();
    fake_resolver_tell(at);
    rig.url = "zk:moves.test";
    holder = lock_single_open(*state);
    assert_int_equal(lock_single_take(&holder, 0), DLOCK_UNREACHABLE);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons((uint16_t)the_zookeeper->port);
    fake_resolver_forget();
    fake_resolver_tell(at);
    assert_ok(lock_single_take(&holder, LONG_MS));
    assert_ok(lock_single_give(&holder));
    fake_resolver_hang(true);
    rig.url = "zk:hangs.test,hang.test";
    holder = lock_single_open(*state);
    assert_int_equal(lock_single_take(&holder, 0), DLOCK_UNREACHABLE);
    assert_non_null(
        strstr(holder.error.text, "look up hang.test: Connection timed out"));
    fake_resolver_let_go("hang.test", "2181");
}

UNIT_TEST(test_urls)
{
    static const char *const wrong[] = {NULL,          "zk:",       "h:1",
                                        "zk::1",       "zk:h:x",    "zk:h:1,",
                                        "zk:h:123456", "unix:/x:1", "zk:h/x"};

    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct dlock_options options = {.strategy = "zk", .url = wrong[i]};
        struct dlock *client = NULL;

        assert_int_equal(dlock_open(&options, &client, NULL), DLOCK_MISUSE);
    }
}

/* Whatever the number of its node is: once it is that of the floor. */
static void test_tokens_are_above_the_floor(void **state)
{
    struct lock_single holder = lock_single_open(*state);
    char name[] = "a";

    for (unsigned i = 0; i < 10; i++, name[0]++) {
        struct dlock_terms terms = {.wait_ms = LONG_MS};

        assert_ok(lock_single_take(&holder, LONG_MS));
        terms.fence_floor = holder.grant.token + i;
        assert_ok(lock_single_give(&holder));
        assert_ok(
            dlock_acquire(holder.session, name, &terms, &holder.grant, NULL));
        assert_true(holder.grant.token > terms.fence_floor);
        assert_ok(lock_single_give(&holder));
    }
}

#define BOTH "zk zk-fair"

/* A create that is done and has no answer. */
#define FOUND                                                                  \
    "b gives; fail create after 1; a takes; b takes -> busy; a gives; "        \
    "b takes; b gives"

/* A create that nobody answers for, nor a look for it; it does not stay, whether the
 * session holds something else or not. */
#define SWEPT(look)                                                            \
    "b takes; b gives; fail create after 1; also " look " before 1; "          \
    "a takes -> unknown; b takes wait=20000; b gives; a takes kept "           \
    "name=kept; "                                                              \
    "fail create after 1; also " look " before 1; a takes -> unknown; "        \
    "b takes wait=20000; b gives; a gives kept"

static const struct lock_story stories[] = {
    {"the node is there, only nobody said so: it is found, and is one", "zk",
     "b takes; " FOUND},
    /* The counter keeps the directory, which the server would remove when empty. */
    {"it is found in the queue as well", "zk-fair",
     "b takes floor=far; " FOUND},
    {"a node that cannot be looked for is swept", "zk", SWEPT("get")},
    {"also from a queue", "zk-fair", SWEPT("children")},
    /* Without another word from a. */
    {"a release without an answer is no loss, and the lock does not stay", BOTH,
     "a takes wait=20000; fail delete before 1; also sync before 1; "
     "a gives -> unreachable; b takes wait=20000; a gives; b gives; "
     "a takes wait=20000; fail delete after 1; also sync before 1; "
     "a gives -> unknown; b takes wait=20000; a gives; b gives; lost 0"},
    {"releases without an answer are known, each by itself", BOTH,
     "a takes one name=one; a takes two name=two; fail delete after always; "
     "also sync before always; a gives one -> unknown; a gives two -> unknown; "
     "fail delete after 0; a gives one; a gives two"},
    /* Then it forgets, and begins at 1 again: the floor says from where. */
    {"the tokens of a queue rise, over sessions and over lost data", "zk-fair",
     "a takes wait=20000 token=1..; a gives; a takes wait=20000 token=rises; "
     "a gives; a takes wait=20000 token=rises; a closes; b takes wait=20000 "
     "token=rises; b gives; b takes wait=20000 token=rises; b gives; "
     "server empty; b closes; c takes wait=20000 floor=far token=far+1; "
     "c gives; c takes wait=20000 floor=far token=rises; c gives; "
     "c takes wait=20000 token=rises; c gives; "
     "c takes wait=20000 floor=far+9 token=far+10; c gives"},
    {"its data is lost: held locks are told so", BOTH,
     "a takes wait=20000; server empty; lost 1; a gives -> lost; "
     "a takes wait=20000; a gives"},
    /* The library looks for the server about once a second. */
    {"a restart with its data: the session goes on, and so does the lock", BOTH,
     "watchdog 60000; a takes wait=20000; server kill; b takes -> unreachable; "
     "server restart; told b takes -> busy; a gives; lost 0; b takes; b gives"},
    {"it is stopped: no answer in time, and afterwards nothing is left", BOTH,
     "watchdog 2000; commands 300; a takes wait=20000; a gives; server pause; "
     "clock; a takes -> unknown; took 250..prompt; server resume; "
     "b takes wait=20000; b gives"},
    {"neither can be forced, and says so: nothing happens to the holder", BOTH,
     "a takes; b forces -> misuse '..strategy zk'; b takes -> busy; a gives"},
};
LOCK_STORIES_TEST

static const struct CMUnitTest tests[] = {
    LOCK_STORY_TEST(test_odd_names, "zk"),
    LOCK_STORY_TEST(test_odd_names, "zk-fair"),
    LOCK_STORY_TEST(test_tokens_are_above_the_floor, "zk-fair"),
    LOCK_STORY_TEST(test_name_in_url, "zk"),
};
UNIT_TESTS_ADD(tests)

UNIT_TESTS_WITHIN(set_up, zookeeper_server_tear_down)
