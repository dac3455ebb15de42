/*
 * A Redis Cluster of three real primaries: locks of many names are on all of them, a
 * node goes and comes back, and what is no cluster is told so. And a slot moves from one
 * to another: under a lock that is held, under those that wait for it, and under values.
 * Failovers are in full/test_dlock_cluster_failover.c; maps that no real node tells, in
 * test_dlock_cluster_map.c; that each lock keeps its contract, in full/cluster-locks.t.
 */
#include <netinet/in.h>

#include "lock/core/clock.h"
#include "lock/dlock_inspect.h"
#include "lock/redis/call.h"
#include "lock/redis/cluster.h"
#include "server/base/values.h"
#include "tests/support/async_note.h"
#include "tests/support/lock_rig.h"
#include "tests/support/redis_cluster.h"
#include "tests/support/unit_test.h"

enum {
    NEVER_MS = 600000, /* nobody fails by being slow for a moment */
    PATIENCE_MS = 60000,
    PROMPT_MS = 20000,
    LEASE_MS = 3000, /* renewed each second */
    TIMEOUT_MS = 1000,
    MOVE_MS = 2500,
    NAMES_N = 40,
    VALUES_N = 200,
};

static struct redis_cluster *cluster;

static int set_up(void **state)
{
    cluster = redis_cluster_start(3, false, NEVER_MS);
    return lock_rig_setup(state);
}

static int fresh(void **state)
{
    (void)lock_rig_fresh(state);
    rig.url = cluster->url;
    return 0;
}

static int tear_down(void **state)
{
    (void)lock_rig_teardown(state);
    redis_cluster_stop(cluster);
    return 0;
}

/* Slots --------------------------------------------------------------------- */

#define TEST(test) UNIT_TEST_WITH(NO_FIXTURE, test, fresh, NULL, NULL)

TEST(the_slots_are_those_of_redis)
{
    static const char *const keys[] = {
        "k",
        "stock:42",
        "lock:{7:0}",
        "{a}{b}",
        "a{}b",
        "{}{x}",
        "a{b",
        "a}b",
        "a{b}c}",
        "\x7f~!",
        "0123456789012345678901234567890123456789"};

    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        const char *open = strchr(keys[i], '{');
        bool has_tag =
            open != NULL && open[1] != '}' && strchr(open, '}') != NULL;
        char beside[DLOCK_KEY_BYTES_MAX + 1];

        assert_int_equal(dlock_key_slot(keys[i]),
                         redis_server_number(cluster->nodes[0],
                                             "CLUSTER KEYSLOT %s", keys[i]));
        dlock_key_derive(beside, keys[i], ":dlock-done:", "x");
        if (has_tag || strchr(keys[i], '}') == NULL)
            assert_int_equal(dlock_key_slot(beside), dlock_key_slot(keys[i]));
    }
}

/* A node that is cut off goes on telling what was; so it is not the only one that is
 * ever asked. One that hangs leaves time for the next. */
TEST(each_time_another_is_asked)
{
    struct dlock_wire_config config = {.clock = dlock_clock_default()};
    struct dlock_wire *wire = dlock_wire_open(&config, "me");
    in_port_t ports[3];

    assert_non_null(dlock_url_parse(cluster->url, &config.address));
    redis_server_pause(cluster->nodes[0]);
    for (int i = 0; i < 3; i++) {
        struct sockaddr_in at = {0};
        socklen_t len = sizeof(at);
        struct dlock_link link;

        assert_ok(dlock_cluster_ask(dlock_cluster_of(wire),
                                    lock_rig_now_ms() + UINT64_C(2) * MOVE_MS,
                                    &link));
        assert_int_equal(getpeername(link.fd, (struct sockaddr *)&at, &len), 0);
        ports[i] = at.sin_port;
        dlock_net_close(&link);
    }
    redis_server_resume(cluster->nodes[0]);
    assert_true(ports[0] != ports[1] || ports[1] != ports[2]);
    dlock_wire_close(wire);
}

/* A key of node 0, and one of node 1, in one go. */
static void ask_both(struct dlock_wire *wire, enum dlock_status statuses[2])
{
    static const char *const keys[] = {"b", "c"};
    struct dlock_command commands[2];
    struct dlock_exchange exchanges[2];

    for (unsigned i = 0; i < 2; i++) {
        exchanges[i].command = &commands[i];
        dlock_command_init(&commands[i], "get", keys[i], NULL);
        dlock_command_arg(&commands[i], "GET");
        dlock_command_arg(&commands[i], keys[i]);
    }
    dlock_call_batch(wire, exchanges, 2, UINT64_MAX);
    for (unsigned i = 0; i < 2; i++)
        statuses[i] = exchanges[i].status;
}

/* One that hangs is waited for once: renewals at the others go through meanwhile. */
TEST(a_silent_node_is_let_alone)
{
    struct dlock_wire_config config = {.clock = dlock_clock_default(),
                                       .connect_timeout_ms = MOVE_MS,
                                       .command_timeout_ms = MOVE_MS};
    struct dlock_wire *wire = dlock_wire_open(&config, "me");
    static const enum dlock_status expected[] = {DLOCK_OK, DLOCK_UNKNOWN,
                                                 DLOCK_UNREACHABLE};
    enum dlock_status statuses[2];

    assert_int_equal(redis_cluster_owner(cluster, "b"), 0);
    assert_int_equal(redis_cluster_owner(cluster, "c"), 1);
    assert_non_null(dlock_url_parse(cluster->url, &config.address));
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        if (expected[i] == DLOCK_UNKNOWN)
            redis_server_pause(cluster->nodes[0]);
        ask_both(wire, statuses);
        assert_int_equal(statuses[0], expected[i]);
        assert_ok(statuses[1]);
    }
    redis_server_resume(cluster->nodes[0]);
    while (statuses[0] != DLOCK_OK)
        ask_both(wire, statuses);
    dlock_wire_close(wire);
}

TEST(many_names_are_on_all_nodes)
{
    struct lock_single party =
        lock_single_open_by("fenced", LEASE_MS, TIMEOUT_MS);
    struct dlock_grant grants[NAMES_N];
    unsigned names_of[3] = {0};

    for (int i = 0; i < NAMES_N; i++) {
        const char *name = text_of("many:%d", i);
        unsigned owner = redis_cluster_owner(cluster, name);

        assert_ok(lock_single_take_name(&party, name, 0));
        grants[i] = party.grant;
        names_of[owner]++;
        assert_true(redis_cluster_has(cluster->nodes[owner], name));
    }
    for (int i = 0; i < 3; i++)
        assert_true(names_of[i] > 0);
    /* Each pass of renewals is to three nodes. */
    for (unsigned i = 0; i < 3; i++)
        redis_server_tell(cluster->nodes[i], "CONFIG RESETSTAT");
    for (unsigned i = 0; i < 3; i++)
        redis_server_await(cluster->nodes[i], "INFO commandstats",
                           "cmdstat_pexpire");
    for (int i = 0; i < NAMES_N; i++) {
        struct dlock_holder holder;

        assert_ok(dlock_inspect(party.session, grants[i].name, &holder, NULL));
        assert_true(holder.held);
        assert_int_equal(holder.token, grants[i].token);
        assert_true(dlock_remaining_ms(party.session, &grants[i]) > 0);
        assert_ok(dlock_release(party.session, &grants[i], NULL));
    }
}

/* Trouble ------------------------------------------------------------------- */

static void fails(const char *url, const char *strategy, const char *text)
{
    const struct dlock_options options = {.url = url,
                                          .strategy = strategy,
                                          .connect_timeout_ms = TIMEOUT_MS,
                                          .command_timeout_ms = TIMEOUT_MS};
    uint64_t began_ms = lock_rig_now_ms();

    assert_int_equal(lock_rig_fails(&options, text), DLOCK_UNREACHABLE);
    assert_in_range(lock_rig_now_ms() - began_ms, 0, PROMPT_MS);
}

TEST(what_is_no_cluster)
{
    struct redis_server *alone = redis_server_start_node(NEVER_MS);
    struct redis_server *plain = redis_server_start_tcp(NULL);

    fails(text_of("cluster://127.0.0.1:%d", redis_server_port(alone)), "fenced",
          "it knows of no cluster yet");
    fails(text_of("cluster://127.0.0.1:%d", redis_server_port(plain)), "fenced",
          "cluster support disabled");
    fails(redis_server_url(cluster->nodes[redis_cluster_next(
              cluster, redis_cluster_owner(cluster, "k"))]),
          "fenced", "redis is of a cluster: use cluster://");
    fails("cluster://127.0.0.1:1,127.0.0.1:2", "redisson",
          "none of 2 nodes of the cluster answers");
    redis_server_stop(alone);
    redis_server_stop(plain);
}

/* There is no replica. Locks on the other nodes do not notice; those on that one are
 * out of reach, and are to be had again when it is back. */
TEST(a_node_goes_and_comes_back)
{
    unsigned gone = redis_cluster_owner(cluster, "k");
    struct lock_single party;
    struct note note = {.n = 0};
    const char *name = "other";
    size_t n;

    for (int i = 0; redis_cluster_owner(cluster, name) == gone; i++)
        name = text_of("other:%d", i);
    party = lock_single_open_by("redisson", 0, TIMEOUT_MS);
    assert_ok(lock_single_take(&party, 0));
    assert_ok(lock_single_give(&party));
    redis_server_kill(cluster->nodes[gone]);
    assert_int_equal(lock_single_take(&party, 100), DLOCK_UNREACHABLE);
    assert_non_null(strstr(party.error.text, "Connection refused"));
    fails(cluster->url, "redisson", "Connection refused");
    assert_ok(lock_single_take_name(&party, name, 0));
    assert_ok(lock_single_give(&party));
    assert_ok(note_begin(party.session, "k", PATIENCE_MS, &note));
    redis_server_restart(cluster->nodes[gone]);
    assert_ok(note_await(&note));
    assert_ok(dlock_release(party.session, &note.grant, NULL));
    /* All nodes are known again, because all have to be asked. */
    assert_ok(dlock_inspect_waiters(party.session, "k", NULL, 0, &n, NULL));
}

/* Moves --------------------------------------------------------------------- */

static void one_more_renewal(struct redis_server *server)
{
    redis_server_tell(server, "CONFIG RESETSTAT");
    redis_server_await(server, "INFO commandstats", "cmdstat_pexpire");
}

/* Half of its keys are there, half are here: renewals follow the lock (ASK); a
 * release needs all of its keys, and waits until they are there. */
TEST(a_held_lock_moves)
{
    unsigned from = redis_cluster_owner(cluster, "held");
    unsigned to = redis_cluster_next(cluster, from);
    struct lock_single party =
        lock_single_open_by("fenced", LEASE_MS, PROMPT_MS);
    struct dlock_holder holder;
    struct note note = {.n = 0};
    char errors[500];
    uint64_t token;

    assert_ok(lock_single_take_name(&party, "held", 0));
    token = party.grant.token;
    redis_cluster_move_begin(cluster, "held", from, to);
    one_more_renewal(cluster->nodes[from]);
    redis_cluster_move_key(cluster, "held", from, to);
    one_more_renewal(cluster->nodes[to]);
    assert_ok(dlock_inspect(party.session, "held", &holder, NULL));
    assert_string_equal(holder.owner, party.grant.owner);
    redis_server_tell(cluster->nodes[to], "CONFIG RESETSTAT");
    assert_ok(dlock_release_async(party.session, &party.grant, note_done, &note,
                                  NULL));
    redis_server_await(cluster->nodes[to], "INFO errorstats", "TRYAGAIN");
    redis_cluster_move_key(cluster, "{held}:dlock-fence", from, to);
    redis_cluster_move_end(cluster, "held", from, to);
    assert_ok(note_await(&note));
    assert_int_equal(atomic_load(&rig.lost_n), 0);
    assert_ok(lock_single_take_name(&party, "held", 0));
    assert_true(party.grant.token > token);
    assert_true(redis_cluster_has(cluster->nodes[to], "held"));
    assert_ok(lock_single_give(&party));
    /* The first answer MOVED counts for all that follows. */
    redis_server_tell(cluster->nodes[from], "CONFIG RESETSTAT");
    assert_ok(
        lock_rig_take(party.session, "held", 0, PATIENCE_MS, &party.grant));
    assert_ok(lock_single_give(&party));
    redis_server_ask(cluster->nodes[from], "INFO errorstats", errors,
                     sizeof(errors));
    assert_null(strstr(errors, "MOVED"));
}

/* Nobody has it, and nobody can take it before the move is over: a single try waits
 * for that, while its time lasts. */
TEST(who_comes_in_between_waits)
{
    unsigned from = redis_cluster_owner(cluster, "between");
    unsigned to = redis_cluster_next(cluster, from);
    struct lock_single hasty = lock_single_open_by("fenced", 0, MOVE_MS);
    struct lock_single patient =
        lock_single_open_by("fenced", LEASE_MS, PROMPT_MS);
    struct note note = {.n = 0};
    uint64_t began_ms;

    redis_cluster_move_begin(cluster, "between", from, to);
    assert_int_equal(lock_single_take_name(&hasty, "between", 0),
                     DLOCK_UNREACHABLE);
    assert_non_null(strstr(hasty.error.text, "redis refused: TRYAGAIN"));
    redis_server_tell(cluster->nodes[to], "CONFIG RESETSTAT");
    assert_ok(note_begin(patient.session, "between", PATIENCE_MS, &note));
    redis_server_await(cluster->nodes[to], "INFO errorstats", "TRYAGAIN");
    began_ms = lock_rig_now_ms();
    dlock_cancel(patient.session);
    assert_int_equal(note_await(&note), DLOCK_TIMEOUT);
    assert_in_range(lock_rig_now_ms() - began_ms, 0, PROMPT_MS / 2);
    note = (struct note){.n = 0};
    redis_server_tell(cluster->nodes[to], "CONFIG RESETSTAT");
    assert_ok(note_begin(patient.session, "between", 0, &note));
    redis_server_await(cluster->nodes[to], "INFO errorstats", "TRYAGAIN");
    redis_cluster_move_end(cluster, "between", from, to);
    assert_ok(note_await(&note));
    assert_ok(dlock_release(patient.session, &note.grant, NULL));
}

/* Its lease is longer than anybody waits here, so a waiter that gets it before was
 * woken. fenced and fair look by themselves besides. */
TEST(waiters_move)
{
    static const char *const strategies[] = {"redisson", "fair", "fenced"};

    for (size_t i = 0; i < COUNT_OF(strategies); i++) {
        unsigned from = redis_cluster_owner(cluster, strategies[i]);
        struct lock_single holder =
            lock_single_open_by(strategies[i], PATIENCE_MS, MOVE_MS);
        struct lock_single waiter =
            lock_single_open_by(strategies[i], PATIENCE_MS, MOVE_MS);
        struct note note = {.n = 0};
        struct dlock_waiting who[4];
        size_t n = 0;
        uint64_t began_ms;

        assert_ok(lock_single_take_name(&holder, strategies[i], 0));
        assert_ok(
            note_begin(waiter.session, strategies[i], PATIENCE_MS, &note));
        for (began_ms = lock_rig_now_ms(); n == 0;
             assert_in_range(lock_rig_now_ms() - began_ms, 0, PROMPT_MS))
            assert_ok(dlock_inspect_waiters(holder.session, strategies[i], who,
                                            4, &n, NULL));
        assert_int_equal(n, 1);
        redis_cluster_move(cluster, strategies[i], from,
                           redis_cluster_next(cluster, from));
        began_ms = lock_rig_now_ms();
        assert_ok(lock_single_give(&holder));
        assert_ok(note_await(&note));
        assert_in_range(lock_rig_now_ms() - began_ms, 0, PROMPT_MS);
        assert_true(redis_cluster_has(
            cluster->nodes[redis_cluster_next(cluster, from)], strategies[i]));
        assert_ok(dlock_release(waiter.session, &note.grant, NULL));
    }
}

/* A node that has left the cluster answers its subscribers, and hears of no release. The
 * url names it alone, so that it is the first to be asked. */
TEST(the_node_that_tells_leaves)
{
    struct redis_server *leaver = redis_server_start_node(NEVER_MS);
    struct lock_single holder, waiter;
    struct note note = {.n = 0};
    uint64_t began_ms;
    char id[64];

    redis_server_tell(leaver, "CLUSTER MEET 127.0.0.1 %d %d",
                      redis_server_port(cluster->nodes[0]),
                      redis_server_bus_port(cluster->nodes[0]));
    redis_server_await(leaver, "CLUSTER INFO", "cluster_state:ok");
    for (unsigned i = 0; i < cluster->nodes_n; i++)
        redis_server_await(cluster->nodes[i], "CLUSTER INFO",
                           "cluster_known_nodes:4");
    rig.url = text_of("cluster://127.0.0.1:%d", redis_server_port(leaver));
    holder = lock_single_open_by("redisson", PATIENCE_MS, MOVE_MS);
    waiter = lock_single_open_by("redisson", PATIENCE_MS, MOVE_MS);
    assert_ok(lock_single_take(&holder, 0));
    assert_ok(note_begin(waiter.session, "k", PATIENCE_MS, &note));
    redis_server_await(leaver, "PUBSUB NUMSUB {k}:dlock-freed", ":1\r\n");
    redis_server_ask(leaver, "CLUSTER MYID", id, sizeof(id));
    for (unsigned i = 0; i < cluster->nodes_n; i++)
        redis_server_tell(cluster->nodes[i], "CLUSTER FORGET %.40s",
                          strchr(id, '\n') + 1);
    redis_server_tell(leaver, "CLUSTER RESET");
    began_ms = lock_rig_now_ms();
    assert_ok(lock_single_give(&holder));
    assert_ok(note_await(&note));
    assert_in_range(lock_rig_now_ms() - began_ms, 0, PROMPT_MS);
    assert_ok(dlock_release(waiter.session, &note.grant, NULL));
    redis_server_stop(leaver);
}

TEST(values_move)
{
    struct value values[VALUES_N];
    char keys[VALUES_N][16];
    struct values *client;
    struct values_about about;

    assert_ok(values_open(cluster->url, MOVE_MS, &client, NULL));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < VALUES_N; i++) {
            (void)snprintf(keys[i], sizeof(keys[i]), "value:%d", i);
            values[i] = (struct value){.key = keys[i]};
            (void)snprintf(values[i].text, sizeof(values[i].text), "%d",
                           round * 1000 + i);
        }
        assert_ok(values_set(client, values, VALUES_N, NULL));
        for (int i = 0; i < VALUES_N; i++)
            values[i].text[0] = '\0';
        if (round == 1)
            redis_cluster_move(
                cluster, "value:7", redis_cluster_owner(cluster, "value:7"),
                redis_cluster_next(cluster,
                                   redis_cluster_owner(cluster, "value:7")));
        assert_ok(values_get(client, values, VALUES_N, NULL));
        for (int i = 0; i < VALUES_N; i++)
            assert_int_equal(strtol(values[i].text, NULL, 10),
                             round * 1000 + i);
    }
    assert_ok(values_about(client, &about, NULL));
    assert_int_equal(about.replicas, 0);
    assert_false(about.needs_them);
    values_close(client);
}

UNIT_TESTS_WITHIN(set_up, tear_down)
