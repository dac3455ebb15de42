/*
 * A Redis Cluster of three primaries with a replica each, of which one takes over:
 * locks are to be had again, tokens go on rising, and those that wait are woken though
 * the node that they listened at has died.
 */
#include "lock/dlock_inspect.h"
#include "server/base/values.h"
#include "tests/support/async_note.h"
#include "tests/support/lock_rig.h"
#include "tests/support/redis_cluster.h"
#include "tests/support/unit_test.h"

enum {
    FAILED_MS = 2000, /* a machine that is busy for a moment is not dead */
    PATIENCE_MS = 60000,
    PROMPT_MS = 20000,
    TIMEOUT_MS = 1000,
};

static struct redis_cluster *cluster;

static int set_up(void **state)
{
    (void)lock_rig_fresh(state);
    cluster = redis_cluster_start(3, true, FAILED_MS);
    rig.url = cluster->url;
    return 0;
}

static int tear_down(NO_STATE)
{
    redis_cluster_stop(cluster);
    return 0;
}

static void take_and_give(struct lock_single *party, const char *name)
{
    if (lock_single_take_name(party, name, PATIENCE_MS) != DLOCK_OK)
        fail_msg("%s", party->error.text);
    assert_ok(lock_single_give(party));
}

/* The replica of node I, which is the primary when this returns. */
static struct redis_server *await_successor(unsigned i)
{
    struct redis_server *replica = cluster->nodes[cluster->primaries_n + i];

    redis_server_await(replica, "INFO replication", "role:master");
    return replica;
}

/* The replica has missed the last grants, and the lock that is held: a second holder
 * gets in, with a higher token than the first one's. */
UNIT_TEST_OF(NO_FIXTURE, the_primary_dies)
{
    unsigned i = redis_cluster_owner(cluster, "k");
    struct redis_server *replica = cluster->nodes[cluster->primaries_n + i];
    struct lock_single old =
        lock_single_open_by("fenced", PATIENCE_MS, TIMEOUT_MS);
    struct lock_single young =
        lock_single_open_by("fenced", PATIENCE_MS, TIMEOUT_MS);

    take_and_give(&old, "k");
    take_and_give(&young, "k");
    redis_server_tell(replica, "CONFIG SET masterauth nobody");
    redis_server_tell(cluster->nodes[i], "CLIENT KILL TYPE replica");
    redis_server_await(replica, "INFO replication", "master_link_status:down");
    for (int n = 0; n < 3; n++)
        take_and_give(&old, "k");
    assert_ok(lock_single_take(&old, 0));
    redis_server_kill(cluster->nodes[i]);
    assert_ok(lock_single_take(&young, PATIENCE_MS));
    assert_true(young.grant.token > old.grant.token);
    assert_int_equal(lock_single_give(&old), DLOCK_LOST);
    assert_ok(lock_single_give(&young));
    take_and_give(&old, "k");
}

/* It hangs: connections stand, and nothing comes. What was replicated stays held. */
UNIT_TEST_OF(NO_FIXTURE, the_primary_hangs)
{
    unsigned i = redis_cluster_owner(cluster, "k");
    struct redis_server *replica = cluster->nodes[cluster->primaries_n + i];
    struct lock_single party =
        lock_single_open_by("fenced", PROMPT_MS, TIMEOUT_MS);
    struct lock_single other =
        lock_single_open_by("fenced", PROMPT_MS, TIMEOUT_MS);
    enum dlock_status status;

    assert_ok(lock_single_take(&party, 0));
    redis_server_await(replica, "READONLY\r\nEXISTS k", ":1");
    redis_server_pause(cluster->nodes[i]);
    status = lock_single_take(&other, 100);
    assert_true(status == DLOCK_UNKNOWN || status == DLOCK_UNREACHABLE);
    (void)await_successor(i);
    while (lock_single_take(&other, 0) != DLOCK_BUSY)
        assert_true(other.error.text[0] != '\0');
    assert_ok(lock_single_give(&party));
    take_and_give(&other, "k");
    redis_server_resume(cluster->nodes[i]);
    for (int n = 0; n < 50; n++)
        take_and_give(n % 2 == 0 ? &party : &other, "k");
}

/* Where a client listens; nodes_n: nowhere yet. */
static unsigned listens_at(const char *channel, unsigned but)
{
    for (;;) {
        for (unsigned i = 0; i < cluster->nodes_n; i++) {
            char reply[200];

            if (i == but)
                continue;
            redis_server_ask(cluster->nodes[i],
                             text_of("PUBSUB NUMSUB %s", channel), reply,
                             sizeof(reply));
            if (strstr(reply, ":1\r\n") != NULL)
                return i;
        }
        lock_rig_sleep_ms(10);
    }
}

/* The lease would last for longer than anybody waits. HANGS: it does not die. */
static void wakes_up_elsewhere(bool hangs)
{
    struct lock_single holder =
        lock_single_open_by("redisson", PATIENCE_MS, TIMEOUT_MS);
    struct lock_single waiter =
        lock_single_open_by("redisson", PATIENCE_MS, TIMEOUT_MS);
    struct note note = {.n = 0};
    uint64_t began_ms;
    unsigned at;

    assert_ok(lock_single_take_name(&holder, "w", 0));
    assert_ok(note_begin(waiter.session, "w", PATIENCE_MS, &note));
    at = listens_at("{w}:dlock-freed", cluster->nodes_n);
    if (at % cluster->primaries_n == redis_cluster_owner(cluster, "w"))
        redis_server_await(
            cluster->nodes[(at + cluster->primaries_n) % cluster->nodes_n],
            "READONLY\r\nEXISTS w", ":1");
    if (hangs)
        redis_server_pause(cluster->nodes[at]);
    else
        redis_server_kill(cluster->nodes[at]);
    (void)listens_at("{w}:dlock-freed", at);
    began_ms = lock_rig_now_ms();
    while (lock_single_give(&holder) != DLOCK_OK)
        assert_in_range(lock_rig_now_ms() - began_ms, 0, PROMPT_MS);
    assert_ok(note_await(&note));
    assert_in_range(lock_rig_now_ms() - began_ms, 0, PROMPT_MS);
    assert_ok(dlock_release(waiter.session, &note.grant, NULL));
    if (hangs)
        redis_server_resume(cluster->nodes[at]);
}

UNIT_TEST_OF(NO_FIXTURE, the_node_that_tells_dies)
{
    wakes_up_elsewhere(false);
}

UNIT_TEST_OF(NO_FIXTURE, the_node_that_tells_hangs)
{
    wakes_up_elsewhere(true);
}

/* The script has freed the lock, and thrown out the last of the waiters, when it looks for
 * a key that the slot no longer has: it was not without effect. */
UNIT_TEST_OF(NO_FIXTURE, a_release_is_broken_off)
{
    unsigned from = redis_cluster_owner(cluster, "k");
    unsigned to = redis_cluster_next(cluster, from);
    struct lock_single party =
        lock_single_open_by("fenced", PATIENCE_MS, TIMEOUT_MS);

    take_and_give(&party, "k");
    assert_ok(lock_single_take(&party, 0));
    redis_server_tell(cluster->nodes[from], "ZADD {k}:dlock-waiters 1 dead");
    redis_cluster_move_begin(cluster, "k", from, to);
    assert_int_equal(lock_single_give(&party), DLOCK_UNKNOWN);
    redis_cluster_move_key(
        cluster, text_of("{k}:dlock-done:%s", party.grant.owner), from, to);
    redis_cluster_move_key(cluster, "{k}:dlock-fence", from, to);
    redis_cluster_move_end(cluster, "k", from, to);
    assert_ok(lock_single_give(&party));
    take_and_give(&party, "k");
}

UNIT_TEST_OF(NO_FIXTURE, what_is_said_of_all)
{
    struct values *values;
    struct values_about about;

    assert_ok(values_open(cluster->url, TIMEOUT_MS, &values, NULL));
    for (unsigned i = 0; i <= cluster->primaries_n; i++) {
        assert_ok(values_about(values, &about, NULL));
        assert_int_equal(about.replicas, 1);
        assert_int_equal(about.needs_them, i == cluster->primaries_n);
        if (i < cluster->primaries_n)
            redis_server_tell(cluster->nodes[i],
                              "CONFIG SET min-replicas-to-write 1");
    }
    values_close(values);
}

LOCK_RIG_MAIN
