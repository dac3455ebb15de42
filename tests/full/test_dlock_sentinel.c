/*
 * A primary that sentinels name, with one replica that takes over: real servers,
 * and real sentinels. What follows a failover, and what it costs: who holds a lock
 * may not be alone any more, but tokens go on rising.
 */
#include "lock/core/clock.h"
#include "server/base/values.h"
#include "tests/support/lock_rig.h"
#include "tests/support/lock_story.h"
#include "tests/support/node_rig.h"
#include "tests/support/unit_test.h"

enum { CONNECT_MS = 1000, COMMAND_MS = 500 };

static struct {
    struct redis_server *servers[2]; /* the first is the primary at first */
    struct redis_server *sentinels[2];
    char url[200];
} set;

static void order_replica(int replica)
{
    redis_server_tell(set.servers[replica], "REPLICAOF 127.0.0.1 %d",
                      redis_server_port(set.servers[1 - replica]));
    redis_server_await(set.servers[replica], "INFO replication",
                       "master_link_status:up");
}

static int setup(NO_STATE)
{
    for (int i = 0; i < 2; i++)
        set.servers[i] = redis_server_start_tcp(NULL);
    order_replica(1);
    for (int i = 0; i < 2; i++) {
        set.sentinels[i] = redis_server_start_tcp(set.servers[0]);
        redis_server_await(set.sentinels[i], "SENTINEL MASTER main",
                           "num-slaves\r\n$1\r\n1");
    }
    for (int i = 0; i < 2; i++)
        redis_server_await(set.sentinels[i], "SENTINEL MASTER main",
                           "num-other-sentinels\r\n$1\r\n1");
    (void)snprintf(set.url, sizeof(set.url),
                   "sentinel://127.0.0.1:%d,127.0.0.1:%d/main",
                   redis_server_port(set.sentinels[0]),
                   redis_server_port(set.sentinels[1]));
    return 0;
}

static int teardown(NO_STATE)
{
    for (int i = 0; i < 2; i++) {
        redis_server_stop(set.servers[i]);
        redis_server_stop(set.sentinels[i]);
        set.servers[i] = set.sentinels[i] = NULL;
    }
    return 0;
}

/* Both sentinels name the other one. */
static void await_switch(void)
{
    char port[32];

    (void)snprintf(port, sizeof(port), "%d\r\n",
                   redis_server_port(set.servers[1]));
    for (int i = 0; i < 2; i++)
        redis_server_await(set.sentinels[i],
                           "SENTINEL GET-MASTER-ADDR-BY-NAME main", port);
}

static struct dlock_options options_for(const char *url, const char *strategy)
{
    return (struct dlock_options){.url = url,
                                  .strategy = strategy,
                                  .connect_timeout_ms = CONNECT_MS,
                                  .command_timeout_ms = COMMAND_MS};
}

#define TEST(test) UNIT_TEST_WITH(NO_FIXTURE, test, setup, teardown, NULL)

/* Values go the same way. */
TEST(test_values)
{
    struct values *values;
    struct value value = {.key = "v", .text = "7"};
    struct values_about about = {0};

    assert_ok(values_open(set.url, CONNECT_MS, &values, NULL));
    assert_ok(values_set(values, &value, 1, NULL));
    assert_ok(values_about(values, &about, NULL));
    assert_int_equal(about.replicas, 1);
    assert_false(about.needs_them);
    redis_server_tell(set.servers[0], "CONFIG SET min-replicas-to-write 1");
    assert_ok(values_about(values, &about, NULL));
    assert_true(about.needs_them);
    redis_server_await(set.servers[1], "EXISTS v", ":1");
    redis_server_kill(set.servers[0]);
    await_switch();
    value.text[0] = '\0';
    while (values_get(values, &value, 1, NULL) != DLOCK_OK)
        continue;
    assert_string_equal(value.text, "7");
    values_close(values);
}

/* Sentinels that are no help --------------------------------------------------- */

static void works_by(const char *url)
{
    struct dlock_options options = options_for(url, "fenced");

    lock_rig_works(&options);
}

static void fails_by(const char *url, const char *text)
{
    struct dlock_options options = options_for(url, "fenced");

    assert_int_equal(lock_rig_fails(&options, text), DLOCK_UNREACHABLE);
}

TEST(test_who_is_no_help)
{
    uint64_t began_ms = lock_rig_now_ms();

    fails_by(text_of("sentinel://127.0.0.1:%d/another",
                     redis_server_port(set.sentinels[0])),
             "ERR No such master with that name");
    fails_by(text_of("sentinel://127.0.0.1:%d/main",
                     redis_server_port(set.servers[0])),
             "ERR unknown command 'SENTINEL'");
    redis_server_kill(set.sentinels[0]);
    works_by(set.url);
    redis_server_restart(set.sentinels[0]);
    redis_server_pause(set.sentinels[0]);
    works_by(set.url);
    redis_server_pause(set.sentinels[1]);
    fails_by(set.url, "none of 2 sentinels answers");
    redis_server_resume(set.sentinels[1]);
    redis_server_pause(set.servers[0]);
    fails_by(set.url, "named by a sentinel: Connection timed out");
    redis_server_resume(set.servers[0]);
    redis_server_resume(set.sentinels[0]);
    assert_in_range(lock_rig_now_ms(), began_ms, began_ms + 20000);
}

/* A sentinel that has not heard of the switch names a replica; one that has is
 * believed. Alone, the first is no help. */
TEST(test_an_old_answer)
{
    struct redis_server *late = redis_server_start_tcp(set.servers[1]);

    fails_by(text_of("sentinel://127.0.0.1:%d/main", redis_server_port(late)),
             "is a replica");
    works_by(text_of("sentinel://127.0.0.1:%d,127.0.0.1:%d/main",
                     redis_server_port(late),
                     redis_server_port(set.sentinels[0])));
    redis_server_stop(late);
}

/* A sentinel of its own for NAMED, by a configuration number EPOCH. The channel on which
 * it would hear of a newer one from others is closed to it. */
static struct redis_server *start_sentinel(const struct redis_server *named,
                                           int epoch)
{
    redis_server_tell(named, "ACL SETUSER lonely on >x ~* +@all resetchannels");
    return redis_server_start_sentinel(
        text_of("sentinel monitor main 127.0.0.1 %d 1\n"
                "sentinel auth-user main lonely\n"
                "sentinel auth-pass main x\n"
                "sentinel config-epoch main %d\n",
                redis_server_port(named), epoch));
}

/* Two servers say that they are primaries: a side of the network was cut off, and is
 * back. The newest configuration counts, whatever the order, also of a server that an
 * older one names as well. An answer that is later than the moment that is waited for
 * may be missed: so most times. */
TEST(test_the_newest_configuration_counts)
{
    enum { TRIES = 12 };
    struct redis_server *old = redis_server_start_tcp(NULL);
    struct redis_server *sentinels[] = {start_sentinel(old, 3),
                                        start_sentinel(set.servers[0], 7),
                                        start_sentinel(set.servers[0], 1)};
    long long at_old;

    for (int i = 0; i < TRIES; i++)
        works_by(
            text_of("sentinel://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/main",
                    redis_server_port(sentinels[2]),
                    redis_server_port(sentinels[i % 2]),
                    redis_server_port(sentinels[1 - i % 2])));
    /* Of each session, what it gave back last. */
    at_old = redis_server_number(old, "DBSIZE") - 1; /* the count of tokens */
    for (int i = 0; i < 3; i++)
        redis_server_stop(sentinels[i]);
    redis_server_stop(old);
    assert_true(at_old < TRIES / 2);
}

/* The login is for the servers; and for a sentinel, if it wants one. */
TEST(test_login)
{
    const char *places = set.url + strlen("sentinel://");

    for (int i = 0; i < 2; i++) {
        redis_server_tell(set.servers[i], "CONFIG SET masterauth sesame");
        redis_server_tell(set.servers[i], "CONFIG SET requirepass sesame");
    }
    works_by(text_of("sentinel://:sesame@%s", places));
    fails_by(set.url, "NOAUTH");
    fails_by("sentinel://:wrong@127.0.0.1:1/main", "Connection refused");
    for (int i = 0; i < 2; i++)
        redis_server_tell(set.sentinels[i],
                          "ACL SETUSER default resetpass >sesame");
    works_by(text_of("sentinel://:sesame@%s", places));
    fails_by(text_of("sentinel://:wrong@%s", places), "sentinel");
}

/* Stories ---------------------------------------------------------------------- */

/* @0 and @1 are the servers, @2 and @3 the sentinels. */
static void fresh(const char *lock)
{
    (void)teardown(NULL);
    (void)setup(NULL);
    rig.url = set.url;
    rig.command_timeout_ms = CONNECT_MS;
    for (int i = 0; i < 2; i++) {
        nodes.servers[i] = set.servers[i];
        nodes.servers[2 + i] = set.sentinels[i];
    }
}

/* "switch": both sentinels name the other one; "fail-over": by an operator, so nothing
 * dies, and nobody loses a connection by itself. */
static void serve(const char *how, const char *which)
{
    if (strcmp(how, "fail-over") == 0)
        redis_server_tell(set.sentinels[0], "SENTINEL FAILOVER main");
    if (which != NULL)
        redis_server_do(set.servers[which[0] - '0'], how);
    else
        await_switch();
}

static const struct lock_story stories[] = {
    /* Two sessions have a connection each to the primary that hangs. One of them meets
     * it; the other hears of that, and does not go there once it has woken up. */
    {"who hangs is left", "fenced",
     "a takes wait=60000; a gives; a2 takes wait=60000; a2 gives; server "
     "pause 0; server switch; a takes wait=60000; a gives; server resume 0; "
     "a2 takes wait=60000 name=n; a2 gives; @1 EXISTS {n}:dlock-fence -> 1"},
    /* A server that is heard no more may hear us all the same. One session meets that;
     * the other, with a connection from before, is not to have a lock there of which it
     * never knows. */
    {"who is silent gets nothing", "fenced",
     "@2 SENTINEL SET main down-after-milliseconds 600000; "
     "@3 SENTINEL SET main down-after-milliseconds 600000; a takes wait=60000; "
     "a gives; a2 takes wait=60000; a2 gives; server pause 0; a tries "
     "name=a -> unknown; a2 tries name=b -> unreachable; server resume 0; "
     "a2 takes wait=60000; a2 gives; @0 EXISTS a -> 1; @0 EXISTS b -> 0"},
    /* A waiter listens at the old primary, which says nothing any more: the release at
     * the new one has to reach it. The lease would last for a minute. */
    {"waiters are woken", "redisson",
     "a takes 59000; b begins wait=60000; until @0 EVAL \"return "
     "redis.call('pubsub', 'numsub', KEYS[1])[2]\" 1 {k}:dlock-freed -> 1; "
     "until @1 EXISTS k -> 1; server pause 0; server switch; clock; "
     "until a gives; b ends; took 0..20000; server resume 0"},
    /* A lock that the watchdog renews stays held, over there. */
    {"locks are renewed", "fenced",
     "a takes; until @1 EXISTS k -> 1; server fail-over; @1 PEXPIRE k 6000; "
     "until @1 PTTL k -> 6001..; b sees held=1 owner=a; a gives"},
    /* The replica missed the last grants, and the lock that is held: a second holder gets
     * in. Its token is higher all the same, by more than a count would make it. */
    {"tokens rise", "fenced",
     "a takes wait=60000; a gives; until @1 EXISTS {k}:dlock-fence -> 1; "
     "@1 CONFIG SET masterauth nobody; @0 CLIENT KILL TYPE replica; "
     "until @1 EVAL \"return string.find(redis.call('info', 'replication'), "
     "'master_link_status:down') and 1 or 0\" 0 -> 1; "
     "a takes wait=60000; a gives; a takes wait=60000; a gives; "
     "a takes wait=60000; a gives; a takes 60000; server kill 0; "
     "server switch; b takes 60000 wait=60000 token=rises; a has left=1..; "
     "a gives -> lost; b gives"},
};

UNIT_TEST(test_stories)
{
    static const struct lock_story_host host = {fresh, serve};

    lock_story_host = &host;
    lock_story_play(stories, COUNT_OF(stories));
    (void)lock_rig_fresh(NULL);
    (void)teardown(NULL);
}

LOCK_RIG_MAIN
