/*
 * A cluster as one wire knows it: its nodes, with a connection to each that was needed, and
 * which of them has which slot; and commands to it.
 *
 * The map is asked for when it is needed, from any node that answers, and again after a node
 * has failed; in between, nodes correct it. It comes from CLUSTER SLOTS, asked on a connection
 * of its own, because the wire's plain replies have no place for lists in lists:
 *
 *     [first slot, last slot, [host, port, ...] of the primary, of a replica, ...]
 *
 * The first key of a command tells its slot, which all keys of a lock are in, and the map
 * which node has that. These replies and failures, after which nothing was done, lead elsewhere:
 *
 *   MOVED      another node has the slot: the map is corrected, and that one asked
 *   ASK        the slot is moving, and the key is there already: that one is asked
 *   TRYAGAIN   the slot is moving, and some of the keys are there: after a pause it
 *              is tried again, until the time is over
 *   no node    the map is asked for anew; if it says the same, the command fails
 */
#include "lock/redis/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/dial/question.h"
#include "lock/redis/call.h"
#include "lock/redis/silence.h"

enum {
    NODES_MAX = 250, /* replicas included */
    NO_NODE = 255,
    AGAIN_MS = 100,            /* between two times that the map is asked for */
    REPLY_BYTES_MAX = 4 << 20, /* each slot by itself takes less */
    REST_MS = 100,             /* after a failure to connect */
    PAUSE_US = 5000,           /* after TRYAGAIN, and ... */
    HOPS_AT_ONCE = 4,          /* ... when nodes send it round in circles */
};

struct node {
    unsigned index;
    unsigned map;           /* the last one that names it */
    uint64_t rest_until_ms; /* real time; it is let alone, for `why` */
    struct dlock_error why;
    struct dlock_wire_config config;
    struct dlock_wire *wire;
};

struct dlock_cluster {
    const struct dlock_wire_config *config;
    const char *owner;
    bool is_stale;          /* something has failed since it was asked for */
    uint64_t again_at_ms;   /* real time; not before is it asked for anew */
    struct dlock_error why; /* the last time, if that failed */
    unsigned turn;          /* who is asked first */
    bool in_batch;          /* a node that is silent is let alone */
    unsigned map;           /* its number */
    uint8_t slots[DLOCK_SLOTS_N]; /* of nodes, or NO_NODE */
    size_t nodes_n;
    struct node *nodes[NODES_MAX];
};

/* The nodes stay, with their connections: most of them will be in the next map as well. */
static void forget_slots(struct dlock_cluster *cluster)
{
    memset(cluster->slots, NO_NODE, sizeof(cluster->slots));
    cluster->map++;
}

struct dlock_cluster *dlock_cluster_of(struct dlock_wire *wire)
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
    /* The first command finds no map, and asks for one. */
    made->is_stale = true;
    /* Not all clients begin with the same node. */
    clock->random(clock->ctx, &made->turn, sizeof(made->turn));
    forget_slots(made);
    wire->cluster = made;
    return made;
}

void dlock_cluster_close(struct dlock_cluster *cluster)
{
    if (cluster == NULL)
        return;
    for (size_t i = 0; i < cluster->nodes_n; i++) {
        dlock_wire_close(cluster->nodes[i]->wire);
        free(cluster->nodes[i]);
    }
    free(cluster);
}

/* The node at HOST, PORT, made if need be. A node loses its place when two maps have not named
 * it: this map may be only half read, and the caller may still have a node of the last one.
 * NULL: no memory, or too many. */
static struct node *node_at(struct dlock_cluster *cluster, const char *host,
                            const char *port)
{
    struct node *node = NULL;
    struct dlock_address *at;

    for (size_t i = 0; i < cluster->nodes_n; i++) {
        at = &cluster->nodes[i]->config.address;
        if (strcmp(at->host, host) == 0 && strcmp(at->port, port) == 0) {
            cluster->nodes[i]->map = cluster->map;
            return cluster->nodes[i];
        }
        if (node == NULL && cluster->nodes[i]->map + 1 < cluster->map)
            node = cluster->nodes[i];
    }
    if (node == NULL) {
        node = cluster->nodes_n < NODES_MAX ? calloc(1, sizeof(*node)) : NULL;
        if (node != NULL)
            node->wire = dlock_wire_open(&node->config, cluster->owner);
        if (node == NULL || node->wire == NULL) {
            free(node);
            return NULL;
        }
        node->index = (unsigned)cluster->nodes_n;
        cluster->nodes[cluster->nodes_n++] = node;
    }
    /* A connection to the last node of the place must not answer for this one. */
    dlock_wire_drop(node->wire);
    node->config = *cluster->config;
    /* The map says who is the primary, and not the last connection made. */
    node->config.primary = NULL;
    node->rest_until_ms = 0;
    node->map = cluster->map;
    at = &node->config.address;
    at->cluster = false;
    (void)snprintf(at->host, sizeof(at->host), "%s", host);
    (void)snprintf(at->port, sizeof(at->port), "%s", port);
    return node;
}

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
        last->integer >= DLOCK_SLOTS_N)
        return;
    for (size_t i = 2; i < from->elements; i++) {
        const redisReply *host = part(from->element[i], 0, REDIS_REPLY_STRING);
        const redisReply *port = part(from->element[i], 1, REDIS_REPLY_INTEGER);
        struct node *node;
        char digits[sizeof(asked->port)];

        if (port == NULL || port->integer < 1 || port->integer > 65535)
            continue;
        (void)snprintf(digits, sizeof(digits), "%u", (unsigned)port->integer);
        node = node_at(cluster,
                       host == NULL || host->len == 0 ? asked->host : host->str,
                       digits);
        /* Replicas become known, but get no slot: ask_all() asks them for subscribers. */
        if (i > 2 || node == NULL)
            continue;
        for (long long slot = first->integer; slot <= last->integer; slot++)
            cluster->slots[slot] = (uint8_t)node->index;
    }
}

/* Asks the one at ADDRESS, and puts what it says into CLUSTER. DLOCK_OK: *LINK, the
 * connection, is the caller's. DLOCK_UNREACHABLE: CLUSTER is as it was. */
static enum dlock_status read_map(const struct dlock_address *address,
                                  uint64_t until_ms,
                                  struct dlock_cluster *cluster,
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

/* Place NUMBER to be asked: the nodes that are known, then those of the url, by whose names
 * nobody knows which are silent. False: there is none. */
static bool place_of(const struct dlock_cluster *cluster, unsigned number,
                     struct dlock_address *at)
{
    const char *next = cluster->config->address.hosts;

    for (size_t i = 0; i < cluster->nodes_n; i++)
        if (cluster->nodes[i]->map == cluster->map && number-- == 0) {
            *at = cluster->nodes[i]->config.address;
            return true;
        }
    *at = cluster->config->address;
    at->cluster = false;
    for (; *next != '\0'; number--) {
        next = dlock_address_next(next, DLOCK_PORT_SERVER, at);
        if (number == 0)
            return true;
    }
    return false;
}

/* Each is given half of the time that is left. And each time another one is asked first,
 * since one that is cut off goes on telling what was. */
enum dlock_status dlock_cluster_ask(struct dlock_cluster *cluster,
                                    uint64_t until_ms, struct dlock_link *link)
{
    struct dlock_address at;
    unsigned known_n = 0, n, turn;

    if (cluster == NULL)
        return dlock_error_set(DLOCK_UNREACHABLE, "out of memory");
    for (size_t i = 0; i < cluster->nodes_n; i++)
        known_n += cluster->nodes[i]->map == cluster->map;
    for (n = known_n; place_of(cluster, n, &at);)
        n++;
    turn = cluster->turn++;
    for (unsigned i = 0; i < n; i++) {
        (void)place_of(cluster,
                       i < known_n ? (turn + i) % known_n
                                   : known_n + (turn + i) % (n - known_n),
                       &at);
        /* The last is asked all the same: all may be silent, or have been. */
        if (i + 1 < n && dlock_silence_is_silent(cluster->config, &at))
            continue;
        if (read_map(&at, dlock_clock_real_part(until_ms, i + 1 < n ? 2 : 1),
                     cluster, link) == DLOCK_OK) {
            cluster->is_stale = false;
            return DLOCK_OK;
        }
    }
    return dlock_error_set(DLOCK_UNREACHABLE,
                           "none of %u nodes of the cluster answers: %.130s", n,
                           dlock_error_text());
}

/* Asks, if the map is stale or there is none, but not too often. Why nobody answers is told
 * when it is asked why there is no map. */
static void refresh(struct dlock_cluster *cluster, uint64_t until_ms)
{
    uint64_t now = dlock_clock_real_now();
    struct dlock_error kept;
    struct dlock_link link;

    if (!cluster->is_stale || now < cluster->again_at_ms)
        return;
    kept = dlock_error_take();
    until_ms =
        dlock_clock_real_until(cluster->config->connect_timeout_ms, until_ms);
    if (dlock_cluster_ask(cluster, until_ms, &link) == DLOCK_OK)
        dlock_net_close(&link);
    else
        cluster->why = dlock_error_take();
    dlock_error_put(&kept);
    cluster->again_at_ms = dlock_clock_real_now() + AGAIN_MS;
}

/* The node that has SLOT; asks as above. NULL: none is known to. */
static struct node *find(struct dlock_cluster *cluster, unsigned slot,
                         uint64_t until_ms)
{
    cluster->is_stale |= cluster->slots[slot] == NO_NODE;
    refresh(cluster, until_ms);
    return cluster->slots[slot] != NO_NODE
               ? cluster->nodes[cluster->slots[slot]]
               : NULL;
}

/* Commands --------------------------------------------------------------------- */

/* The key that says where a command goes; NULL: it is for all nodes. */
static const char *key_of(const struct dlock_command *command)
{
    if (command->script != NULL)
        return command->keys_n > 0 ? command->args[0] : NULL;
    return strcmp(command->args[0], "PUBSUB") == 0 ? NULL : command->args[1];
}

static bool is_redirected(const struct dlock_reply *reply)
{
    return dlock_call_is_error(reply, "MOVED ") ||
           dlock_call_is_error(reply, "ASK ") ||
           dlock_call_is_error(reply, "TRYAGAIN");
}

/* The end of a command that began at BEGAN_MS, sent or not. A node that cannot be connected
 * to is let alone for a moment; a silent one for as long as a batch would wait for it. */
static void note_end(const struct dlock_cluster *cluster, struct node *node,
                     enum dlock_status status, uint64_t began_ms, bool alone)
{
    uint64_t now_ms = dlock_clock_real_now();
    unsigned timeout_ms = cluster->config->command_timeout_ms;
    bool is_silent =
        status != DLOCK_OK &&
        2 * (now_ms - began_ms) >= (status == DLOCK_UNREACHABLE
                                        ? cluster->config->connect_timeout_ms
                                        : timeout_ms);

    if (status == DLOCK_OK || alone || is_silent)
        dlock_silence_end(&node->config, alone, status == DLOCK_OK);
    is_silent &= cluster->in_batch;
    if (status != DLOCK_UNREACHABLE && !is_silent)
        return;
    node->rest_until_ms = now_ms + (is_silent ? timeout_ms : REST_MS);
    (void)snprintf(node->why.text, sizeof(node->why.text), "%s",
                   dlock_error_text());
}

/* Talks to one NODE. ASKS: behind ASKING, which lets one command through: so that goes as
 * text, because a NOSCRIPT would use it up. */
static enum dlock_status talk(const struct dlock_cluster *cluster,
                              struct node *node,
                              const struct dlock_command *command, bool asks,
                              uint64_t until_ms, struct dlock_reply *reply)
{
    uint64_t began_ms = dlock_clock_real_now();
    struct dlock_command asking;
    struct dlock_exchange one = {.command = command,
                                 .stage = DLOCK_EXCHANGE_BEGUN};
    bool alone;

    /* Commands of a batch that go one by one would each wait for a timeout of this node. */
    if (node->wire->link.fd < 0 && began_ms < node->rest_until_ms)
        return dlock_error_set(DLOCK_UNREACHABLE, "%s", node->why.text);
    if (!dlock_silence_may_ask(&node->config, &alone) && !command->must_go)
        return dlock_error_set(DLOCK_UNREACHABLE, "redis: the node is silent");
    if (asks) {
        dlock_command_init(&asking, command->step, command->name, NULL);
        dlock_command_arg(&asking, "ASKING");
        one.command = &asking;
    }
    dlock_batch_exchange(node->wire, &one, 1, until_ms);
    *reply = one.reply;
    if (asks && one.status != DLOCK_OK) {
        one.status = DLOCK_UNREACHABLE; /* the command itself was not sent */
    } else if (asks && reply->kind != DLOCK_REPLY_ERROR) {
        one.status =
            dlock_wire_send(node->wire, command, DLOCK_BY_TEXT, until_ms);
        if (one.status == DLOCK_OK)
            one.status = dlock_wire_read(node->wire, until_ms, reply);
    }
    note_end(cluster, node, one.status, began_ms, alone);
    return one.status;
}

/* A command on its way. */
struct way {
    struct dlock_cluster *cluster;
    unsigned slot;
    uint64_t until_ms;
    uint64_t again_until_ms; /* so that there is time for a last reply */
    struct node *node;       /* who is asked; NULL: nobody is left */
    bool asks;               /* by ASK */
    unsigned hops_n;
};

/* Where REPLY, a redirection, sends it; perhaps after a pause. False: it is given up. "MOVED
 * SLOT HOST:PORT" or "ASK ..." name a node; without a host it is that of the sender. */
static bool follow(struct way *way, const struct dlock_command *command,
                   const struct dlock_reply *reply)
{
    const char *asked = way->node->config.address.host;
    char host[sizeof(way->node->config.address.host)];
    bool tries_again = dlock_call_is_error(reply, "TRYAGAIN");
    const char *place, *colon;

    if (tries_again || ++way->hops_n > HOPS_AT_ONCE) {
        if (dlock_clock_real_now() >= way->again_until_ms ||
            dlock_command_unwanted(command))
            return false;
        dlock_clock_sleep_us(PAUSE_US);
        way->hops_n = 0;
    }
    way->asks = dlock_call_is_error(reply, "ASK ");
    if (tries_again) {
        way->node = find(way->cluster, way->slot, way->until_ms);
        return way->node != NULL;
    }
    place = strrchr(reply->string, ' ') + 1;
    colon = strrchr(place, ':');
    if (colon == NULL)
        return false;
    (void)snprintf(host, sizeof(host), "%.*s", (int)(colon - place), place);
    way->node = node_at(way->cluster, colon == place ? asked : host, colon + 1);
    /* ASK is about one key, and the slot stays where it is until MOVED says so. */
    if (!way->asks && way->node != NULL)
        way->cluster->slots[way->slot] = (uint8_t)way->node->index;
    return way->node != NULL;
}

/* The end of a command that is not redirected. A failure, and some replies, say that
 * the map is out of date. */
static enum dlock_status judge(struct dlock_cluster *cluster,
                               enum dlock_status status,
                               const struct dlock_reply *reply)
{
    cluster->is_stale |= status != DLOCK_OK ||
                         dlock_call_is_error(reply, "CLUSTERDOWN") ||
                         dlock_call_is_elsewhere(reply);
    return status;
}

/* A node's reply is added to those of the others: of subscribers the number; of what
 * nodes say of themselves (server/base/about.lua) the worst, which of replicas is more. */
static enum dlock_status ask_all(struct dlock_cluster *cluster,
                                 const struct dlock_command *command,
                                 uint64_t until_ms, struct dlock_reply *all)
{
    bool adds = command->script == NULL;
    size_t n = 0;

    refresh(cluster, until_ms);
    for (size_t i = 0; i < cluster->nodes_n; i++) {
        struct node *node = cluster->nodes[i];
        struct dlock_reply one = {.kind = DLOCK_REPLY_NIL};
        enum dlock_status status;

        /* Subscribers may be at replicas as well. */
        if (node->map != cluster->map ||
            !(adds ||
              memchr(cluster->slots, (int)node->index, sizeof(cluster->slots))))
            continue;
        status = talk(cluster, node, command, false, until_ms, &one);
        cluster->is_stale |= status != DLOCK_OK;
        if (status != DLOCK_OK)
            return status;
        if (one.kind == DLOCK_REPLY_ERROR) {
            *all = one;
            return DLOCK_OK; /* and a refusal */
        }
        if (n++ == 0)
            *all = one;
        for (size_t k = 0; n > 1 && k < all->integers_n; k++) {
            int64_t more = one.integers[k];

            if (adds)
                all->integers[k] += more;
            else if ((all->integers[k] < more) == (k == 0)) /* replicas */
                all->integers[k] = more;
        }
    }
    return n > 0 ? DLOCK_OK
                 : dlock_error_set(DLOCK_UNREACHABLE, "%s", cluster->why.text);
}

/* After a failure another node, which has not been asked, may have the slot. */
static enum dlock_status find_and_talk(struct dlock_cluster *cluster,
                                       const struct dlock_command *command,
                                       uint64_t until_ms,
                                       struct dlock_reply *reply)
{
    const char *key = key_of(command);
    struct way way = {.cluster = cluster, .until_ms = until_ms};
    enum dlock_status status;

    way.again_until_ms = until_ms / 2 + dlock_clock_real_now() / 2;
    if (key == NULL)
        return ask_all(cluster, command, way.until_ms, reply);
    way.slot = dlock_key_slot(key);
    way.node = find(cluster, way.slot, way.until_ms);
    if (way.node == NULL)
        return dlock_error_set(
            DLOCK_UNREACHABLE, "%s",
            cluster->is_stale && cluster->why.text[0] != '\0'
                ? cluster->why.text
                : "no node of the cluster has the lock's slot");
    for (;;) {
        struct node *was = way.node;

        status = talk(cluster, was, command, way.asks, way.until_ms, reply);
        /* After DLOCK_UNKNOWN no copy is sent, because the node may have acted. */
        if (status == DLOCK_UNREACHABLE) {
            cluster->is_stale = true;
            way.node = find(cluster, way.slot, way.until_ms);
            way.asks = false;
            if (way.node != NULL && way.node != was &&
                ++way.hops_n <= HOPS_AT_ONCE)
                continue;
        }
        if (status != DLOCK_OK || !is_redirected(reply))
            return judge(cluster, status, reply);
        if (!follow(&way, command, reply))
            return DLOCK_OK; /* and a refusal */
    }
}

/* The node that has the key, if that is known; or NULL. Asks nobody. */
static struct node *at_hand(const struct dlock_cluster *cluster,
                            const struct dlock_command *command)
{
    unsigned index = cluster->slots[dlock_key_slot(key_of(command))];

    return index == NO_NODE ? NULL : cluster->nodes[index];
}

/* Those for nodes that there is a connection to, in one go; so a node that is away keeps
 * nothing from the others. The map must not change meanwhile, because at_hand() must say
 * the same until all replies are read. */
static void pipeline(struct dlock_cluster *cluster,
                     struct dlock_exchange exchanges[], size_t n,
                     uint64_t until_ms)
{
    uint64_t began_ms = dlock_clock_real_now();

    for (size_t i = 0; i < cluster->nodes_n; i++)
        /* A command to a connection that has gone would be in doubt. */
        if (!dlock_wire_alive(cluster->nodes[i]->wire))
            dlock_wire_drop(cluster->nodes[i]->wire);
    for (size_t i = 0; i < n; i++) {
        const struct node *to = at_hand(cluster, exchanges[i].command);

        if (exchanges[i].stage == DLOCK_EXCHANGE_BEGUN && to != NULL &&
            dlock_wire_send(to->wire, exchanges[i].command, DLOCK_BY_SHA,
                            until_ms) == DLOCK_OK)
            exchanges[i].stage = DLOCK_EXCHANGE_SENT;
    }
    for (size_t i = 0; i < n; i++) {
        struct node *from = at_hand(cluster, exchanges[i].command);

        if (exchanges[i].stage != DLOCK_EXCHANGE_SENT)
            continue;
        exchanges[i].status =
            dlock_wire_read(from->wire, until_ms, &exchanges[i].reply);
        note_end(cluster, from, exchanges[i].status, began_ms, false);
    }
}

/* The rest goes one by one: there are few, but for the first time. */
void dlock_cluster_exchange(struct dlock_wire *wire,
                            struct dlock_exchange exchanges[], size_t n,
                            uint64_t real_limit_ms)
{
    struct dlock_cluster *cluster = dlock_cluster_of(wire);
    uint64_t until_ms = dlock_clock_real_until(
        wire->config->connect_timeout_ms + wire->config->command_timeout_ms,
        real_limit_ms);

    if (cluster == NULL) {
        dlock_error_say("out of memory");
        return;
    }
    cluster->in_batch = n > 1;
    if (n > 1)
        pipeline(cluster, exchanges, n, until_ms);
    for (size_t i = 0; i < n; i++) {
        struct dlock_exchange *each = &exchanges[i];

        if (each->stage == DLOCK_EXCHANGE_NONE)
            continue;
        if (each->stage == DLOCK_EXCHANGE_BEGUN ||
            (each->status == DLOCK_OK &&
             (is_redirected(&each->reply) ||
              dlock_call_is_error(&each->reply, "NOSCRIPT"))))
            each->status =
                find_and_talk(cluster, each->command, until_ms, &each->reply);
        else
            each->status = judge(cluster, each->status, &each->reply);
        each->stage = DLOCK_EXCHANGE_OVER;
    }
    cluster->in_batch = false;
    /* The map is mended between batches, see pipeline(); here is time left for it. */
    if (n > 1)
        refresh(cluster, until_ms);
}
