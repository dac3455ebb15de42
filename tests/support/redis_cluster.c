#include "tests/support/redis_cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/server_proc.h"

enum { SLOTS_N = 16384 };

static const char what[] = "redis_cluster";

static void share_slots(const struct redis_cluster *cluster, unsigned i)
{
    redis_server_tell(cluster->nodes[i], "CLUSTER ADDSLOTSRANGE %u %u",
                      SLOTS_N * i / cluster->primaries_n,
                      SLOTS_N * (i + 1) / cluster->primaries_n - 1);
    redis_server_tell(cluster->nodes[i], "CLUSTER SET-CONFIG-EPOCH %u", i + 1);
}

static void meet_all(const struct redis_cluster *cluster, unsigned i)
{
    for (unsigned j = 0; j < i; j++)
        redis_server_tell(cluster->nodes[i], "CLUSTER MEET 127.0.0.1 %d %d",
                          redis_server_port(cluster->nodes[j]),
                          redis_server_bus_port(cluster->nodes[j]));
}

static void join(struct redis_cluster *cluster, unsigned i)
{
    char known[80];

    (void)snprintf(known, sizeof(known), "cluster_known_nodes:%u",
                   cluster->nodes_n);
    redis_server_await(cluster->nodes[i], "CLUSTER INFO", known);
    if (i < cluster->primaries_n)
        return;
    (void)snprintf(known, sizeof(known), "CLUSTER REPLICATE %s",
                   cluster->ids[i - cluster->primaries_n]);
    /* It has to have heard of that one as a primary before. */
    redis_server_await(cluster->nodes[i], known, "OK");
    redis_server_await(cluster->nodes[i], "INFO replication",
                       "master_link_status:up");
}

struct redis_cluster *redis_cluster_start(unsigned primaries_n,
                                          bool with_replicas,
                                          unsigned timeout_ms)
{
    struct redis_cluster *cluster = calloc(1, sizeof(*cluster));
    size_t len = 0;

    if (cluster == NULL)
        server_proc_die(what, "calloc");
    cluster->primaries_n = primaries_n;
    cluster->nodes_n = with_replicas ? 2 * primaries_n : primaries_n;
    for (unsigned i = 0; i < cluster->nodes_n; i++) {
        char reply[64];

        cluster->nodes[i] = redis_server_start_node(timeout_ms);
        redis_server_ask(cluster->nodes[i], "CLUSTER MYID", reply,
                         sizeof(reply));
        (void)snprintf(cluster->ids[i], sizeof(cluster->ids[i]), "%.40s",
                       reply + strlen("$40\r\n"));
        if (i < primaries_n) {
            share_slots(cluster, i);
            len +=
                (size_t)snprintf(cluster->url + len, sizeof(cluster->url) - len,
                                 "%s127.0.0.1:%d", i == 0 ? "cluster://" : ",",
                                 redis_server_port(cluster->nodes[i]));
        }
        meet_all(cluster, i);
    }
    for (unsigned i = 0; i < cluster->nodes_n; i++)
        join(cluster, i);
    for (unsigned i = 0; i < cluster->nodes_n; i++)
        redis_server_await(cluster->nodes[i], "CLUSTER INFO",
                           "cluster_state:ok");
    return cluster;
}

void redis_cluster_stop(struct redis_cluster *cluster)
{
    for (unsigned i = 0; i < cluster->nodes_n; i++)
        redis_server_stop(cluster->nodes[i]);
    free(cluster);
}

/* Moving -------------------------------------------------------------------- */

static unsigned slot_of(const struct redis_cluster *cluster, const char *key)
{
    return (unsigned)redis_server_number(cluster->nodes[0],
                                         "CLUSTER KEYSLOT %s", key);
}

unsigned redis_cluster_owner(const struct redis_cluster *cluster,
                             const char *key)
{
    unsigned slot = slot_of(cluster, key);
    unsigned i = 0;

    while (slot >= SLOTS_N * (i + 1) / cluster->primaries_n)
        i++;
    return i;
}

/* CLUSTER SETSLOT SLOT of KEY, STATE, the id of ABOUT. */
static void set_slot(const struct redis_cluster *cluster, unsigned node,
                     const char *key, const char *state, unsigned about)
{
    redis_server_tell(cluster->nodes[node], "CLUSTER SETSLOT %u %s %s",
                      slot_of(cluster, key), state, cluster->ids[about]);
}

void redis_cluster_move_begin(const struct redis_cluster *cluster,
                              const char *key, unsigned from, unsigned to)
{
    set_slot(cluster, to, key, "IMPORTING", from);
    set_slot(cluster, from, key, "MIGRATING", to);
}

void redis_cluster_move_key(const struct redis_cluster *cluster,
                            const char *key, unsigned from, unsigned to)
{
    redis_server_tell(cluster->nodes[from], "MIGRATE 127.0.0.1 %d %s 0 10000",
                      redis_server_port(cluster->nodes[to]), key);
}

void redis_cluster_move_end(const struct redis_cluster *cluster,
                            const char *key, unsigned from, unsigned to)
{
    char info[4096];
    const char *epoch;

    set_slot(cluster, to, key, "NODE", to);
    set_slot(cluster, from, key, "NODE", to);
    for (unsigned i = 0; i < cluster->primaries_n; i++)
        if (i != to && i != from)
            set_slot(cluster, i, key, "NODE", to);
    /* Two moves with the same epoch would be two opinions of who has a slot. */
    redis_server_ask(cluster->nodes[to], "CLUSTER INFO", info, sizeof(info));
    epoch = strstr(info, "cluster_current_epoch:");
    if (epoch == NULL)
        server_proc_die(what, "no epoch");
    info[epoch - info + (long)strcspn(epoch, "\n")] = '\0';
    for (unsigned i = 0; i < cluster->nodes_n; i++)
        redis_server_await(cluster->nodes[i], "CLUSTER INFO", epoch);
}

void redis_cluster_move(const struct redis_cluster *cluster, const char *key,
                        unsigned from, unsigned to)
{
    char command[80], reply[4096];

    redis_cluster_move_begin(cluster, key, from, to);
    (void)snprintf(command, sizeof(command), "CLUSTER GETKEYSINSLOT %u 100",
                   slot_of(cluster, key));
    redis_server_ask(cluster->nodes[from], command, reply, sizeof(reply));
    /* "*2", "$1", "k", ...: each second line from the third on is a key. */
    (void)strtok(reply, "\r\n");
    while (strtok(NULL, "\r\n") != NULL)
        redis_cluster_move_key(cluster, strtok(NULL, "\r\n"), from, to);
    redis_cluster_move_end(cluster, key, from, to);
}

unsigned redis_cluster_next(const struct redis_cluster *cluster, unsigned node)
{
    return (node + 1) % cluster->primaries_n;
}

bool redis_cluster_has(const struct redis_server *server, const char *key)
{
    return redis_server_number(server, "EXISTS %s", key) == 1;
}
