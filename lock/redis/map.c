/*
 * The map comes from CLUSTER SLOTS, asked on a connection of its own. The reply is a
 * list of ranges, lists in lists, for which the wire's plain replies have no place:
 *
 *     [first slot, last slot, [host, port, ...] of the primary, of a replica, ...]
 */
#include "lock/redis/map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/core/clock.h"
#include "lock/core/error.h"
#include "lock/dial/dial.h"
#include "lock/dial/question.h"

enum {
    AGAIN_MS = 100,            /* between two times that it is asked for */
    REPLY_BYTES_MAX = 4 << 20, /* each slot by itself takes less */
};

/* CRC-16/XMODEM, which the specification of Redis Cluster names, of the part within
 * the first {braces}; or of all of it, if that is empty. */
unsigned dlock_map_slot(const char *key)
{
    const char *open = strchr(key, '{');
    const char *shut = open == NULL ? NULL : strchr(open, '}');
    bool has_tag = shut != NULL && shut > open + 1;
    const char *end = has_tag ? shut : strchr(key, '\0');
    unsigned crc = 0;

    for (const char *at = has_tag ? open + 1 : key; at < end; at++) {
        crc ^= (unsigned)(unsigned char)*at << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1;
    }
    return crc % DLOCK_MAP_SLOTS_N;
}

/* Forgets who has what. */
static void forget_slots(struct dlock_cluster *cluster)
{
    memset(cluster->slots, DLOCK_MAP_NO_NODE, sizeof(cluster->slots));
    for (size_t i = 0; i < cluster->nodes_n; i++)
        cluster->nodes[i]->is_known = cluster->nodes[i]->is_primary = false;
}

struct dlock_cluster *dlock_map_of(struct dlock_wire *wire)
{
    const struct dlock_clock *clock = wire->config->clock;
    struct dlock_cluster *made;

    if (wire->cluster != NULL)
        return wire->cluster;
    made = calloc(1, sizeof(*made));
    if (made == NULL)
        return NULL;
    made->config = wire->config;
    made->owner = wire->owner;
    made->is_stale = true;
    /* Not all clients begin with the same node. */
    clock->random(clock->ctx, &made->turn, sizeof(made->turn));
    forget_slots(made);
    wire->cluster = made;
    return made;
}

void dlock_map_close(struct dlock_cluster *cluster)
{
    if (cluster == NULL)
        return;
    for (size_t i = 0; i < cluster->nodes_n; i++) {
        dlock_wire_close(cluster->nodes[i]->wire);
        free(cluster->nodes[i]);
    }
    free(cluster);
}

/* Nodes ------------------------------------------------------------------- */

/* The place of one that has left the cluster may be had again. */
struct dlock_map_node *dlock_map_node(struct dlock_cluster *cluster,
                                      const char *host, const char *port)
{
    struct dlock_map_node *node = NULL;
    struct dlock_address *at;

    for (size_t i = 0; i < cluster->nodes_n; i++) {
        at = &cluster->nodes[i]->config.address;
        if (strcmp(at->host, host) == 0 && strcmp(at->port, port) == 0) {
            cluster->nodes[i]->is_known = true;
            return cluster->nodes[i];
        }
        if (node == NULL && !cluster->nodes[i]->is_known)
            node = cluster->nodes[i];
    }
    if (node == NULL && cluster->nodes_n < DLOCK_MAP_NODES_MAX) {
        node = calloc(1, sizeof(*node));
        if (node != NULL)
            node->wire = dlock_wire_open(&node->config, cluster->owner);
        if (node == NULL || node->wire == NULL) {
            free(node);
            return NULL;
        }
        node->index = (unsigned)cluster->nodes_n;
        cluster->nodes[cluster->nodes_n++] = node;
    }
    if (node == NULL)
        return NULL;
    dlock_wire_drop(node->wire);
    node->config = *cluster->config;
    node->config.primary = NULL;
    node->rest_until_ms = 0;
    node->is_known = true;
    at = &node->config.address;
    at->cluster = false;
    (void)snprintf(at->host, sizeof(at->host), "%s", host);
    (void)snprintf(at->port, sizeof(at->port), "%s", port);
    return node;
}

/* Slots ------------------------------------------------------------------- */

void dlock_map_give(struct dlock_cluster *cluster, unsigned first,
                    unsigned last, const struct dlock_map_node *node)
{
    for (unsigned slot = first; slot <= last && slot < DLOCK_MAP_SLOTS_N;
         slot++)
        cluster->slots[slot] = (uint8_t)node->index;
}

/* Asking ------------------------------------------------------------------- */

static const redisReply *part(const redisReply *list, size_t index, int type)
{
    if (list == NULL || list->type != REDIS_REPLY_ARRAY ||
        index >= list->elements || list->element[index]->type != type)
        return NULL;
    return list->element[index];
}

/* A range of slots, as above. A node without a host is the one that was ASKED. */
static void take_range(const redisReply *from,
                       const struct dlock_address *asked,
                       struct dlock_cluster *cluster)
{
    const redisReply *first = part(from, 0, REDIS_REPLY_INTEGER);
    const redisReply *last = part(from, 1, REDIS_REPLY_INTEGER);

    if (first == NULL || last == NULL || first->integer < 0 ||
        last->integer >= DLOCK_MAP_SLOTS_N)
        return;
    for (size_t i = 2; i < from->elements; i++) {
        const redisReply *host = part(from->element[i], 0, REDIS_REPLY_STRING);
        const redisReply *port = part(from->element[i], 1, REDIS_REPLY_INTEGER);
        struct dlock_map_node *node;
        char digits[sizeof(asked->port)];

        if (port == NULL || port->integer < 1 || port->integer > 65535)
            continue;
        (void)snprintf(digits, sizeof(digits), "%u", (unsigned)port->integer);
        node = dlock_map_node(
            cluster, host == NULL || host->len == 0 ? asked->host : host->str,
            digits);
        if (i > 2 || node == NULL)
            continue;
        node->is_primary = true;
        dlock_map_give(cluster, (unsigned)first->integer,
                       (unsigned)last->integer, node);
    }
}

/* Asks the one at ADDRESS, and puts what it says into CLUSTER. DLOCK_OK: *LINK, the
 * connection, is the caller's. DLOCK_UNREACHABLE: CLUSTER is as it was. */
static enum dlock_status ask(const struct dlock_address *address,
                             uint64_t until_ms, struct dlock_cluster *cluster,
                             struct dlock_link *link)
{
    enum dlock_status status = dlock_dial(address, until_ms, link);
    const struct dlock_words words = {{"CLUSTER", "SLOTS"}};
    redisReply *reply = NULL;

    if (status != DLOCK_OK)
        return status;
    status =
        dlock_question(*link, &words, 1, REPLY_BYTES_MAX, until_ms, &reply);
    if (status == DLOCK_OK && reply->type == REDIS_REPLY_ERROR)
        status = dlock_error_set(DLOCK_UNREACHABLE, "%.100s", reply->str);
    else if (status == DLOCK_OK && part(reply, 0, REDIS_REPLY_ARRAY) == NULL)
        status =
            dlock_error_set(DLOCK_UNREACHABLE, "it knows of no cluster yet");
    if (status == DLOCK_OK)
        forget_slots(cluster);
    for (size_t i = 0; status == DLOCK_OK && i < reply->elements; i++)
        take_range(reply->element[i], address, cluster);
    freeReplyObject(reply);
    if (status != DLOCK_OK) {
        dlock_error_say("%.60s:%s: %.120s", address->host, address->port,
                        dlock_error_text());
        dlock_net_close(link);
    }
    return status;
}

/* Place NUMBER to be asked: those of the url, then the nodes that are known.
 * False: there is none. */
static bool place_of(const struct dlock_cluster *cluster, unsigned number,
                     struct dlock_address *at)
{
    const char *next = cluster->config->address.hosts;

    *at = cluster->config->address;
    at->cluster = false;
    for (; *next != '\0'; number--) {
        next = dlock_address_next(next, DLOCK_PORT_SERVER, at);
        if (number == 0)
            return true;
    }
    for (size_t i = 0; i < cluster->nodes_n; i++)
        if (cluster->nodes[i]->is_known && number-- == 0) {
            *at = cluster->nodes[i]->config.address;
            return true;
        }
    return false;
}

/* Each is given half of the time that is left: one that hangs leaves some to the
 * others. And each time another one is asked first, since one that is cut off goes
 * on telling what was. */
enum dlock_status dlock_map_ask(struct dlock_cluster *cluster,
                                uint64_t until_ms, struct dlock_link *link)
{
    struct dlock_address at;
    unsigned n = 0;

    if (cluster == NULL)
        return dlock_error_set(DLOCK_UNREACHABLE, "out of memory");
    while (place_of(cluster, n, &at))
        n++;
    for (unsigned i = 0; i < n; i++) {
        (void)place_of(cluster, cluster->turn++ % n, &at);
        if (ask(&at, dlock_clock_real_part(until_ms, i + 1 < n ? 2 : 1),
                cluster, link) == DLOCK_OK) {
            cluster->is_stale = false;
            return DLOCK_OK;
        }
    }
    return dlock_error_set(DLOCK_UNREACHABLE,
                           "none of %u nodes of the cluster answers: %.130s", n,
                           dlock_error_text());
}

/* Why nobody answers is told when it is asked why there is no map. */
void dlock_map_refresh(struct dlock_cluster *cluster, uint64_t until_ms)
{
    uint64_t now = dlock_clock_real_now();
    struct dlock_error kept;
    struct dlock_link link;

    if (!cluster->is_stale || now < cluster->again_at_ms)
        return;
    kept = dlock_error_take();
    until_ms =
        dlock_clock_real_until(cluster->config->connect_timeout_ms, until_ms);
    if (dlock_map_ask(cluster, until_ms, &link) == DLOCK_OK)
        dlock_net_close(&link);
    else
        cluster->why = dlock_error_take();
    dlock_error_put(&kept);
    cluster->again_at_ms = dlock_clock_real_now() + AGAIN_MS;
}

struct dlock_map_node *dlock_map_find(struct dlock_cluster *cluster,
                                      unsigned slot, uint64_t until_ms)
{
    cluster->is_stale |= cluster->slots[slot] == DLOCK_MAP_NO_NODE;
    dlock_map_refresh(cluster, until_ms);
    return cluster->slots[slot] != DLOCK_MAP_NO_NODE
               ? cluster->nodes[cluster->slots[slot]]
               : NULL;
}
