/*
 * A slot of a Redis Cluster moves from one real primary to another: under a lock
 * that is held, under those that wait for it, and under values.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/dlock_async.h"
#include "lock/dlock_inspect.h"
#include "lock/dlock_values.h"
#include "tests/support/async_note.h"
#include "tests/support/lock_party.h"
#include "tests/support/lock_rig.h"
#include "tests/support/redis_cluster.h"
#include "tests/support/unit_test.h"

enum {
    NEVER_MS = 600000, /* nobody fails by being slow for a moment */
    PATIENCE_MS = 60000,
    PROMPT_MS = 20000, /* much less than a lease of PATIENCE_MS */
    LEASE_MS = 3000,   /* renewed each second */
    TIMEOUT_MS = 2500,
    VALUES_N = 200,
};

static struct redis_cluster *cluster;

static int set_up(NO_STATE)
{
    cluster = redis_cluster_start(3, false, NEVER_MS);
    return 0;
}

static int tear_down(NO_STATE)
{
    redis_cluster_stop(cluster);
    return 0;
}

/* Its commands have time enough for a slot to move. */
static void open_patient(struct lock_party *party)
{
    lock_party_open_at(party, cluster->url, "fenced", LEASE_MS, PROMPT_MS);
}

static void one_more_renewal(struct redis_server *server)
{
    redis_server_ask(server, "CONFIG RESETSTAT", NULL, 0);
    redis_server_await(server, "INFO commandstats", "cmdstat_pexpire");
}

/* Half of its keys are there, half are here: renewals follow the lock (ASK); a
 * release needs all of its keys, and waits until they are there. */
static void a_held_lock_moves(NO_STATE)
{
    unsigned from = redis_cluster_owner(cluster, "held");
    unsigned to = redis_cluster_next(cluster, from);
    struct lock_party party;
    struct dlock_holder holder;
    struct note note = {.n = 0};
    uint64_t token;

    open_patient(&party);
    assert_ok(lock_party_take(&party, "held", 0));
    token = party.grant.token;
    redis_cluster_move_begin(cluster, "held", from, to);
    one_more_renewal(cluster->nodes[from]);
    redis_cluster_move_key(cluster, "held", from, to);
    one_more_renewal(cluster->nodes[to]);
    assert_ok(dlock_inspect(party.session, "held", &holder, NULL));
    assert_string_equal(holder.owner, party.grant.owner);
    redis_server_ask(cluster->nodes[to], "CONFIG RESETSTAT", NULL, 0);
    assert_ok(dlock_release_async(party.session, &party.grant, note_done, &note,
                                  NULL));
    redis_server_await(cluster->nodes[to], "INFO errorstats", "TRYAGAIN");
    redis_cluster_move_key(cluster, "{held}:dlock-fence", from, to);
    redis_cluster_move_end(cluster, "held", from, to);
    assert_ok(note_await(&note));
    assert_int_equal(atomic_load(&party.lost_n), 0);
    assert_ok(lock_party_take(&party, "held", 0));
    assert_true(party.grant.token > token);
    assert_true(redis_cluster_has(cluster->nodes[to], "held"));
    assert_ok(lock_party_give(&party));
    lock_party_close(&party);
}

/* Nobody has it, and nobody can take it before the move is over: a single try waits
 * for that, while its time lasts. */
static void who_comes_in_between_waits(NO_STATE)
{
    unsigned from = redis_cluster_owner(cluster, "between");
    unsigned to = redis_cluster_next(cluster, from);
    struct lock_party hasty, patient;
    struct note note = {.n = 0};

    lock_party_open_at(&hasty, cluster->url, "fenced", 0, TIMEOUT_MS);
    open_patient(&patient);
    redis_cluster_move_begin(cluster, "between", from, to);
    assert_int_equal(lock_party_take(&hasty, "between", 0), DLOCK_UNREACHABLE);
    assert_non_null(strstr(hasty.error.text, "redis refused: TRYAGAIN"));
    redis_server_ask(cluster->nodes[to], "CONFIG RESETSTAT", NULL, 0);
    assert_ok(note_begin(patient.session, "between", 0, &note));
    redis_server_await(cluster->nodes[to], "INFO errorstats", "TRYAGAIN");
    redis_cluster_move_end(cluster, "between", from, to);
    assert_ok(note_await(&note));
    assert_ok(dlock_release(patient.session, &note.grant, NULL));
    lock_party_close(&hasty);
    lock_party_close(&patient);
}

/* Its lease is longer than anybody waits here, so a waiter that gets it before was
 * woken. fenced and fair look by themselves besides. */
static void waiters_move(NO_STATE)
{
    static const char *const strategies[] = {"redisson", "fair", "fenced"};

    for (size_t i = 0; i < COUNT_OF(strategies); i++) {
        unsigned from = redis_cluster_owner(cluster, strategies[i]);
        struct lock_party holder, waiter;
        struct note note = {.n = 0};
        struct dlock_waiting who[4];
        size_t n = 0;
        uint64_t began_ms;

        lock_party_open_at(&holder, cluster->url, strategies[i], PATIENCE_MS,
                           TIMEOUT_MS);
        lock_party_open_at(&waiter, cluster->url, strategies[i], PATIENCE_MS,
                           TIMEOUT_MS);
        assert_ok(lock_party_take(&holder, strategies[i], 0));
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
        assert_ok(lock_party_give(&holder));
        assert_ok(note_await(&note));
        assert_in_range(lock_rig_now_ms() - began_ms, 0, PROMPT_MS);
        assert_true(redis_cluster_has(
            cluster->nodes[redis_cluster_next(cluster, from)], strategies[i]));
        assert_ok(dlock_release(waiter.session, &note.grant, NULL));
        lock_party_close(&holder);
        lock_party_close(&waiter);
    }
}

static void values_move(NO_STATE)
{
    struct dlock_value values[VALUES_N];
    char keys[VALUES_N][16];
    struct dlock_values *client;
    struct dlock_about about;

    assert_ok(dlock_values_open(cluster->url, TIMEOUT_MS, &client, NULL));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < VALUES_N; i++) {
            (void)snprintf(keys[i], sizeof(keys[i]), "value:%d", i);
            values[i] = (struct dlock_value){.key = keys[i]};
            (void)snprintf(values[i].text, sizeof(values[i].text), "%d",
                           round * 1000 + i);
        }
        assert_ok(dlock_values_set(client, values, VALUES_N, NULL));
        for (int i = 0; i < VALUES_N; i++)
            values[i].text[0] = '\0';
        if (round == 1)
            redis_cluster_move(
                cluster, "value:7", redis_cluster_owner(cluster, "value:7"),
                redis_cluster_next(cluster,
                                   redis_cluster_owner(cluster, "value:7")));
        assert_ok(dlock_values_get(client, values, VALUES_N, NULL));
        for (int i = 0; i < VALUES_N; i++)
            assert_int_equal(strtol(values[i].text, NULL, 10),
                             round * 1000 + i);
    }
    assert_ok(dlock_values_about(client, &about, NULL));
    assert_in_range(about.version, 5, 99);
    assert_int_equal(about.replicas, 0);
    assert_false(about.needs_them);
    dlock_values_close(client);
}

/* A SLOT of 0 for "%.0lld" is nothing. */
static void order(const struct redis_server *server, const char *form,
                  long long slot, const char *id)
{
    char command[200], reply[200];

    (void)snprintf(command, sizeof(command), form, slot, id);
    redis_server_ask(server, command, reply, sizeof(reply));
    assert_string_equal(reply, "+OK\r\n");
}

/* A slot is with another node, and who had it has not heard whose it is: it says
 * CLUSTERDOWN, not MOVED. So the map is asked for anew. */
static void who_had_it_is_down(NO_STATE)
{
    unsigned from = redis_cluster_owner(cluster, "down");
    unsigned to = redis_cluster_next(cluster, from);
    unsigned third = redis_cluster_next(cluster, to);
    long long slot =
        redis_server_number(cluster->nodes[0], "CLUSTER KEYSLOT down");
    struct lock_party party;

    open_patient(&party);
    assert_ok(lock_party_take(&party, "down", 0));
    assert_ok(lock_party_give(&party));
    order(cluster->nodes[from], "CLUSTER FORGET %.0lld%s", 0, cluster->ids[to]);
    order(cluster->nodes[from], "CLUSTER DELSLOTS %lld%s", slot, "");
    redis_server_ask(cluster->nodes[to], "CLUSTER BUMPEPOCH", NULL, 0);
    order(cluster->nodes[to], "CLUSTER SETSLOT %lld NODE %s", slot,
          cluster->ids[to]);
    order(cluster->nodes[third], "CLUSTER SETSLOT %lld NODE %s", slot,
          cluster->ids[to]);
    redis_server_await(cluster->nodes[from], "GET down", "CLUSTERDOWN");
    assert_ok(lock_party_take(&party, "down", PROMPT_MS));
    assert_true(redis_cluster_has(cluster->nodes[to], "down"));
    lock_party_close(&party);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_held_lock_moves),
    cmocka_unit_test(who_comes_in_between_waits),
    cmocka_unit_test(waiters_move),
    cmocka_unit_test(values_move),
    cmocka_unit_test(who_had_it_is_down), /* the last: it stays so */
};
TEST_MAIN_WITHIN(tests, set_up, tear_down)
