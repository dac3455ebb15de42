/*
 * Commands to a cluster. The first key of a command tells its slot, and the map who
 * has that; all keys of a lock are in one slot. These replies and failures lead
 * elsewhere:
 *
 *   MOVED      another node has the slot: the map is corrected, and that one asked
 *   ASK        the slot is moving there, and the key is there already: that one is
 *              asked, this once
 *   TRYAGAIN   the slot is moving, and some of the keys are there: after a pause it
 *              is tried again, until the time is over
 *   no node    the map is asked for anew; if it says the same, the command fails
 *
 * In each of these nothing was done. An acquire that waits, a release and an extend
 * are tried again while there is time (wait.c).
 */
#include "lock/redis/call.h"

#include <stdio.h>
#include <string.h>

#include "lock/core/clock.h"
#include "lock/core/error.h"
#include "lock/redis/map.h"

enum {
    REST_MS = 100,    /* after a failure to connect */
    PAUSE_US = 5000,  /* after TRYAGAIN, and ... */
    HOPS_AT_ONCE = 4, /* ... when nodes send it round in circles */
};

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

/* One node ----------------------------------------------------------------- */

/* The command with ASKING before it. That node may not know the script, and there
 * is only one try. */
static enum dlock_status ask(struct dlock_map_node *node,
                             const struct dlock_command *command,
                             uint64_t until_ms, struct dlock_reply *reply)
{
    struct dlock_command asking;
    enum dlock_status status;

    dlock_command_init(&asking, command->step, command->name, NULL);
    dlock_command_arg(&asking, "ASKING");
    status = dlock_call_exchange(node->wire, &asking, until_ms, reply);
    if (status != DLOCK_OK)
        return DLOCK_UNREACHABLE; /* the command itself was not sent */
    if (reply->kind == DLOCK_REPLY_ERROR)
        return DLOCK_OK; /* and a refusal */
    status = dlock_wire_send(node->wire, command, DLOCK_BY_TEXT, until_ms);
    if (status != DLOCK_OK)
        return status;
    return dlock_wire_read(node->wire, until_ms, reply);
}

/* One that cannot be connected to is let alone for a moment: nobody waits for it
 * time and again while others could be asked. */
static enum dlock_status talk(struct dlock_map_node *node,
                              const struct dlock_command *command, bool asks,
                              uint64_t until_ms, struct dlock_reply *reply)
{
    enum dlock_status status;

    if (node->wire->link.fd < 0 && dlock_clock_real_now() < node->rest_until_ms)
        return dlock_error_set(DLOCK_UNREACHABLE, "%s", node->why.text);
    status = asks ? ask(node, command, until_ms, reply)
                  : dlock_call_exchange(node->wire, command, until_ms, reply);
    if (status == DLOCK_UNREACHABLE) {
        node->rest_until_ms = dlock_clock_real_now() + REST_MS;
        (void)snprintf(node->why.text, sizeof(node->why.text), "%s",
                       dlock_error_text());
    }
    return status;
}

/* From node to node --------------------------------------------------------- */

/* A command on its way. */
struct way {
    struct dlock_cluster *cluster;
    unsigned slot;
    uint64_t until_ms;
    uint64_t again_until_ms;     /* so that there is time for a last reply */
    struct dlock_map_node *node; /* who is asked; NULL: nobody is left */
    bool asks;                   /* by ASK */
    unsigned hops_n;
};

static uint64_t until_of(const struct dlock_wire_config *config,
                         uint64_t limit_ms)
{
    return dlock_clock_real_until(
        config->connect_timeout_ms + config->command_timeout_ms, limit_ms);
}

/*
 * Where REPLY, a redirection, sends it; perhaps after a pause. False: it is given
 * up, since time is over, or nobody wants it any more. "MOVED SLOT HOST:PORT" or "ASK ..."
 * name a node; without a host it is that of the sender.
 */
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
        way->node = dlock_map_find(way->cluster, way->slot, way->until_ms);
        return way->node != NULL;
    }
    place = strrchr(reply->string, ' ') + 1;
    colon = strrchr(place, ':');
    if (colon == NULL)
        return false;
    (void)snprintf(host, sizeof(host), "%.*s", (int)(colon - place), place);
    way->node =
        dlock_map_node(way->cluster, colon == place ? asked : host, colon + 1);
    if (!way->asks && way->node != NULL)
        dlock_map_give(way->cluster, way->slot, way->slot, way->node);
    return way->node != NULL;
}

/* After a failure: whether another node, which has not been asked, has the slot
 * now. */
static bool finds_another(struct way *way)
{
    struct dlock_map_node *was = way->node;

    way->cluster->is_stale = true;
    way->node = dlock_map_find(way->cluster, way->slot, way->until_ms);
    way->asks = false;
    return way->node != NULL && way->node != was &&
           ++way->hops_n <= HOPS_AT_ONCE;
}

/* The end of a command that is not redirected. A failure, and some replies, say that
 * the map is out of date; and one that a script broke off when a key that it had
 * deleted was looked for elsewhere. */
static enum dlock_status judge(struct dlock_cluster *cluster,
                               enum dlock_status status,
                               const struct dlock_reply *reply)
{
    cluster->is_stale |= status != DLOCK_OK ||
                         dlock_call_is_error(reply, "CLUSTERDOWN") ||
                         dlock_call_is_error(reply, "LOADING") ||
                         dlock_call_is_error(reply, "READONLY");
    if (status == DLOCK_OK && reply->kind == DLOCK_REPLY_ERROR &&
        strstr(reply->string, "non local key") != NULL)
        return dlock_error_set(DLOCK_UNKNOWN,
                               "the lock's slot moved meanwhile");
    return status;
}

static enum dlock_status go(struct way *way,
                            const struct dlock_command *command,
                            struct dlock_reply *reply)
{
    way->node = dlock_map_find(way->cluster, way->slot, way->until_ms);
    if (way->node == NULL)
        return dlock_error_set(
            DLOCK_UNREACHABLE, "%s",
            way->cluster->is_stale && way->cluster->why.text[0] != '\0'
                ? way->cluster->why.text
                : "no node of the cluster has the lock's slot");
    for (;;) {
        enum dlock_status status =
            talk(way->node, command, way->asks, way->until_ms, reply);

        if (status == DLOCK_UNREACHABLE && finds_another(way))
            continue;
        if (status != DLOCK_OK || !is_redirected(reply))
            return judge(way->cluster, status, reply);
        if (!follow(way, command, reply))
            return DLOCK_OK; /* and a refusal */
    }
}

/* All nodes ------------------------------------------------------------------ */

/* A node's reply is added to those of the others: of subscribers the number; of what
 * nodes say of themselves (about.lua) the worst, which of replicas is more. */
static enum dlock_status ask_all(struct dlock_cluster *cluster,
                                 const struct dlock_command *command,
                                 uint64_t until_ms, struct dlock_reply *all)
{
    bool adds = command->script == NULL;
    size_t n = 0;

    dlock_map_refresh(cluster, until_ms);
    for (size_t i = 0; i < cluster->nodes_n; i++) {
        struct dlock_map_node *node = cluster->nodes[i];
        struct dlock_reply one = {.kind = DLOCK_REPLY_NIL};
        enum dlock_status status;

        /* Subscribers may be at replicas as well. */
        if (!node->is_known || !(node->is_primary || adds))
            continue;
        status = talk(node, command, false, until_ms, &one);
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
            else if ((all->integers[k] < more) == (k == 1)) /* replicas */
                all->integers[k] = more;
        }
    }
    return n > 0 ? DLOCK_OK
                 : dlock_error_set(DLOCK_UNREACHABLE, "%s", cluster->why.text);
}

/* For a wire ------------------------------------------------------------------ */

enum dlock_status dlock_cluster_exchange(struct dlock_wire *wire,
                                         const struct dlock_command *command,
                                         uint64_t real_limit_ms,
                                         struct dlock_reply *reply)
{
    struct dlock_cluster *cluster = dlock_map_of(wire);
    const char *key = key_of(command);
    struct way way = {.cluster = cluster};

    if (cluster == NULL)
        return dlock_error_set(DLOCK_UNREACHABLE, "out of memory");
    way.until_ms = until_of(cluster->config, real_limit_ms);
    way.again_until_ms = way.until_ms / 2 + dlock_clock_real_now() / 2;
    if (key == NULL)
        return ask_all(cluster, command, way.until_ms, reply);
    way.slot = dlock_map_slot(key);
    return go(&way, command, reply);
}

/* The wire to the node that has the key, if that is known; or NULL. Asks nobody. */
static struct dlock_wire *at_hand(const struct dlock_cluster *cluster,
                                  const struct dlock_command *command)
{
    unsigned index = cluster->slots[dlock_map_slot(key_of(command))];

    return cluster->is_stale || index == DLOCK_MAP_NO_NODE
               ? NULL
               : cluster->nodes[index]->wire;
}

/*
 * First those for nodes that there is a connection to, in one go; so a node that is
 * away keeps nothing from the others. Then the rest, one by one: there are few, but
 * for the first time. Only then the map changes, because at_hand() must say the same until
 * all replies are read.
 */
void dlock_cluster_batch(struct dlock_wire *wire,
                         struct dlock_exchange *exchanges, size_t n,
                         uint64_t real_limit_ms)
{
    struct dlock_cluster *cluster = dlock_map_of(wire);
    uint64_t until_ms = until_of(wire->config, real_limit_ms);

    for (size_t i = 0; i < n && cluster == NULL; i++)
        if (exchanges[i].begun)
            exchanges[i].status =
                dlock_error_set(DLOCK_UNREACHABLE, "out of memory");
    if (cluster == NULL)
        return;
    for (size_t i = 0; i < cluster->nodes_n; i++)
        if (!dlock_wire_alive(cluster->nodes[i]->wire))
            dlock_wire_drop(cluster->nodes[i]->wire);
    for (size_t i = 0; i < n; i++) {
        struct dlock_exchange *each = &exchanges[i];
        struct dlock_wire *to = at_hand(cluster, &each->command);

        each->reply.kind = DLOCK_REPLY_NIL;
        each->again =
            each->status == DLOCK_OK &&
            (to == NULL || dlock_wire_send(to, &each->command, DLOCK_BY_SHA,
                                           until_ms) != DLOCK_OK);
    }
    for (size_t i = 0; i < n; i++) {
        struct dlock_exchange *each = &exchanges[i];

        if (each->status == DLOCK_OK && !each->again)
            each->status = dlock_wire_read(at_hand(cluster, &each->command),
                                           until_ms, &each->reply);
    }
    for (size_t i = 0; i < n; i++) {
        struct dlock_exchange *each = &exchanges[i];

        each->again |=
            each->status == DLOCK_OK &&
            (is_redirected(&each->reply) || dlock_call_forgotten(&each->reply));
        if (each->again)
            each->status = dlock_cluster_exchange(wire, &each->command,
                                                  until_ms, &each->reply);
        else if (each->begun)
            each->status = judge(cluster, each->status, &each->reply);
    }
}
